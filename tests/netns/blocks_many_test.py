#!/usr/bin/env python3
"""Memory of an agent of cluster-pool where other nodes have very many blocks. PATCHBAY_BLOCKS: how many, 49990 in the full tier."""

import ipaddress
import itertools
import json
import os
import re
import sys
import uuid

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, etcd_nodes, kubernetes_nodes, suite  # noqa: E402
from support.block_nodes import NETWORK  # noqa: E402
from support.kubernetes_nodes import API  # noqa: E402
from support.places import ROOT  # noqa: E402
from support.world import wait_for  # noqa: E402

BLOCKS, MOST, NODES = int(os.environ.get("PATCHBAY_BLOCKS", "4000")), 50_000, 500
MANIFEST = f"{ROOT}/conf-examples/kubernetes/cluster-pool.yaml"


def specs(count):
    """{network, cidr, node, machine, claim} of that many blocks."""
    blocks = itertools.islice(ipaddress.ip_network("10.0.0.0/12").subnets(new_prefix=28), 16, count + 16)
    for number, cidr in enumerate(blocks):
        node = f"worker-{number % NODES}.region.example"
        yield {"network": NETWORK, "cidr": str(cidr), "node": node, "machine": f"{number % NODES:032x}", "claim": str(uuid.uuid4())}


def limit():
    """Bytes that the container of the agent may have."""
    with open(MANIFEST, encoding="utf-8") as file:
        return int(re.search(r"limits: \{memory: (\d+)Mi\}", file.read()).group(1)) << 20


def peak(node):
    """The most memory that the agent had, in bytes, with its program."""
    with open(f"/proc/{node.process.pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmHWM:\s+(\d+) kB", file.read()).group(1)) << 10


class Many:
    """serve(), put(specs), and again(): all of it is listed once more."""

    subnet = "10.0.0.0/12"

    def seen(self, node):
        return sum(len(one["blocks"]) for one in (node.file("nodes") or {"nodes": []})["nodes"])

    def written(self, node):
        return os.stat(f"{node.root}/lib/blocks/{NETWORK}.nodes").st_ino

    def test_the_limit_of_the_manifest_is_enough_for_the_most_blocks_of_other_nodes(self):
        self.serve()
        node, = self.nodes(1)
        self.first_block(node)
        blocks, few = list(specs(BLOCKS)), BLOCKS // 4
        before = self.listed(node, blocks[:few], few)  # with the pages that any list has in memory
        most = self.listed(node, blocks[few:], BLOCKS)
        each = max(most - before, 0) // (BLOCKS - few)
        self.assertLess(most + each * (MOST - BLOCKS), limit(),
                        f"{before >> 10} KiB with {few} blocks, {most >> 10} KiB with {BLOCKS}, {each} bytes for each")

    def listed(self, node, blocks, count):
        """The peak of an agent that has listed these, too, and twice again."""
        node.kill()
        self.put(blocks)
        node.start()
        self.assertTrue(wait_for(lambda: self.seen(node) == count + 1, 120, 0.1), node.log[-2000:])
        for _ in range(2):
            written = self.written(node)
            self.again()
            self.assertTrue(wait_for(lambda written=written: self.written(node) != written, 120, 0.1), node.log[-2000:])
        self.assertEqual(self.seen(node), count + 1)
        return peak(node)


class Kubernetes(Many, kubernetes_nodes.KubernetesTest):
    def put(self, all_of_them):
        for spec in all_of_them:
            name = f"{NETWORK}.{spec['cidr'].split('/')[0].replace('.', '-')}"
            self.api.create(API, "addressblocks", {"metadata": {"name": name}, "spec": spec})

    def again(self):
        self.api.fault("GET", "addressblocks.*continue", status=410, reason="Expired")  # in the middle of the list
        self.api.end_watches()


class Etcd(Many, etcd_nodes.EtcdTest):
    def serve(self):
        super().serve(flags=["--max-txn-ops=1000"])

    def put(self, all_of_them):
        for start in range(0, len(all_of_them), 500):
            puts = [f"put /patchbay/blocks/{NETWORK}/{one['cidr'].split('/')[0]} {json.dumps(json.dumps(one))}" for one in all_of_them[start:start + 500]]
            self.etcd.control("txn", stdin="\n" + "\n".join(puts) + "\n\n\n")

    def again(self):
        self.etcd.kill()
        self.etcd.start()


if __name__ == "__main__":
    suite.main(needs=("etcd", "etcdctl"), per_processor=1) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
