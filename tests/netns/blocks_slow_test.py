#!/usr/bin/env python3
"""cluster-pool with an etcd or an API server each of whose answers is late: pods start from the blocks at hand as quickly as with
host-local, claims come after, and networks do not wait for one another."""

import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, cri, suite  # noqa: E402
from support.etcd_nodes import EtcdTest  # noqa: E402
from support.etcd_proxy import Proxy  # noqa: E402
from support.kubernetes_nodes import KubernetesTest  # noqa: E402
from support.world import Pod, wait_for  # noqa: E402

#: Seconds of each answer.
SLOW = float(os.environ.get("PATCHBAY_SLOW", "1.5"))


class Slow:
    """With either engine. delay(seconds) is that of each answer from now on."""

    def timed(self, node, config):
        pod = self.pod()
        begun = time.monotonic()
        self.assert_ok(node.call("ADD", pod, config))
        return time.monotonic() - begun

    def test_pods_start_from_the_blocks_at_hand_in_the_time_of_host_local_and_claims_come_after(self):
        self.serve()
        one, other = self.nodes(2)
        self.first_block(one)
        self.first_block(other)
        self.delay(SLOW)
        begun = time.monotonic()
        by_hand = self.ipam() | {"name": "by-hand", "type": "host-local", "ipam": {"type": "host-local", "subnet": "10.10.0.0/24"}}
        took = [(self.timed(one, self.ipam(0)), self.timed(one, by_hand)) for _ in range(12)]  # from the eleventh on it asks for a block
        ours, theirs = (statistics.median(one) for one in zip(*took))
        print(f"# ADD {ours * 1000:.1f} ms, of host-local {theirs * 1000:.1f} ms", flush=True)
        self.assertLess(ours, 2 * theirs + 0.005)
        self.want_more(other, 1)
        self.assertTrue(wait_for(lambda: len(one.blocks()) == len(other.blocks()) == 2, 20 + 10 * SLOW, 0.1), one.log + other.log)
        print(f"# the next blocks after {time.monotonic() - begun:.1f} s", flush=True)
        self.delay(0)
        self.assert_settled([one, other])
        self.assertEqual(sum(len(node.blocks()) for node in (one, other)), 4)

    def test_the_first_pods_of_four_networks_wait_as_long_as_one(self):
        self.serve()
        node, = self.nodes(1)
        self.delay(SLOW)
        begun, wait = time.monotonic(), min(600, int(25 * SLOW) + 5)
        with ThreadPoolExecutor(16) as pool:
            done = list(pool.map(lambda number: node.call("ADD", Pod(f"p{number}"), self.ipam(wait) | {"name": f"lab{number % 4}"}, timeout=900),
                                 range(16)))
        took = time.monotonic() - begun
        for one in done:
            self.assert_ok(one)
        print(f"# the first pods of four networks after {took:.1f} s", flush=True)
        # For each network two lists, the size of its blocks, and a block: one after another 16 answers, and that to connect.
        self.assertLess(took, 12 * SLOW)

    def test_an_agent_ends_at_once_though_calls_of_several_networks_are_under_way(self):
        self.serve()
        node, = self.nodes(1)
        self.first_block(node)
        self.delay(20)
        with ThreadPoolExecutor(8) as pool:
            waiting = [pool.submit(node.call, "ADD", Pod(f"p{number}"), self.ipam(2) | {"name": f"lab{number}"}) for number in range(8)]
            for one in waiting:
                self.assertNotEqual(one.result().status, 0)
        begun = time.monotonic()
        self.assertEqual(node.end(), 0, node.log)
        self.assertLess(time.monotonic() - begun, 3, node.log)


class Etcd(Slow, EtcdTest):
    def serve(self):
        if reason := cri.why_impossible():
            self.skipTest(reason)
        super().serve()
        self.proxy = Proxy(cri.PYTHON, self.etcd.url)
        self.addCleanup(self.proxy.stop)

    def engine(self):
        return {"etcd": self.etcd.conf(self.proxy.url)}

    def delay(self, seconds):
        self.proxy.delay(seconds)


class Kubernetes(Slow, KubernetesTest):
    def delay(self, seconds):
        self.api.no_faults()
        if seconds:
            self.api.fault(times=10**6, slow=seconds)


if __name__ == "__main__":
    suite.main(needs=("etcd", "etcdctl"), per_processor=2) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
