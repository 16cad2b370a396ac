#!/usr/bin/env python3
"""cluster-pool where somebody works against it: a copy of a machine that runs beside it, a release of a node that lives, files that are
damaged or another network's, ranges that change under pods, objects that a person made."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, suite  # noqa: E402
from support.block_nodes import NETWORK, uplink  # noqa: E402
from support.etcd_nodes import EtcdTest  # noqa: E402
from support.kubernetes_nodes import API, KubernetesTest  # noqa: E402
from support.world import wait_for  # noqa: E402

COPY = "a copy of this machine claims blocks, with its name 'n1'"


class Nodes:
    """With either engine."""

    def claims(self):
        return {one["cidr"]: one["claim"] for one in self.objects().values()}

    def test_a_copy_of_a_machine_takes_nothing_of_it_and_both_name_it(self):
        self.serve()
        one = self.make_node("n1", machine="1" * 32)
        self.first_block(one)
        before = self.claims()
        copy = self.make_node("copy", node="n1", machine="1" * 32)
        done = copy.call("ADD", self.pod(), self.ipam(5))
        who = [copy]
        if done.ok:  # it claimed a block before it knew, by which the other one knows, too
            who.append(one)
        else:
            self.assert_error(done, 11, COPY)
        for node in who:
            self.want_more(node, 1)
            self.assertTrue(wait_for(lambda node=node: COPY in node.note(), 10), node.log)
        self.assert_ok(one.call("ADD", self.pod(), self.ipam()))
        settled = set(self.claims())
        self.assertTrue(wait_for(lambda: not any(one.startswith("release-") for one in self.claims().values()), 10), self.claims())
        time.sleep(1)
        self.assertEqual(set(self.claims()), settled)
        self.assertLessEqual(before.items(), self.claims().items())
        self.assertEqual(one.blocks() & copy.blocks(), set())
        for node in (one, copy):
            self.assertNotIn("claimed a block again", node.log)
        for node in who:
            self.assertTrue(any(COPY in found for found in self.findings(node)), self.findings(node))

    def test_a_node_that_lives_is_not_released_though_others_wait_for_its_blocks(self):
        self.subnet = "10.9.0.0/26"
        self.serve()
        uplink()
        one, other = self.nodes(2)
        pods = [self.pod_with(one, f"10.9.0.{last}", self.config()) for last in (5, 20, 35)]
        pods.append(self.pod_with(other, "10.9.0.50", self.config()))
        before = self.claims()
        more = [self.pod() for _ in range(18)]  # five more than there is room for
        with ThreadPoolExecutor(9) as pool:
            adds = [pool.submit(other.call, "ADD", pod, self.config(1)) for pod in more]
            refused = [other.release("n1"), other.release("n1")]
            done = [one.result() for one in adds]
        for answer in refused:
            self.assertIn(answer["error"]["code"], (7, 11), answer)
        self.assertIn("its agent has answered" if hasattr(self, "etcd") else "Node object exists", refused[0]["error"]["msg"])
        self.assertEqual(self.claims(), before)
        self.assertEqual(one.blocks("lost"), set())
        self.assert_unique(pods + [pod for pod, out in zip(more, done) if out.ok])

    def test_a_file_that_is_damaged_while_the_agent_runs_is_written_again(self):
        self.serve()
        node, = self.nodes(1)
        self.first_block(node)
        held, path = node.blocks(), f"{node.root}/lib/blocks/{NETWORK}.json"
        for damage in ("{", "", "[1]"):
            with open(path, "w", encoding="ascii") as file:
                file.write(damage)
            if damage != "[1]":
                self.assert_ok(node.call("ADD", self.pod(), self.ipam()))
                self.assertEqual(node.blocks(), held)
        self.assert_error(node.call("ADD", self.pod(), self.ipam(0)), 999, "does not understand it")
        os.remove(path)
        os.makedirs(path)
        self.assert_error(node.call("ADD", self.pod(), self.ipam(1)), 11, "is no file: remove it")
        self.assertTrue(any("is no file: remove it" in found for found in self.findings(node)), self.findings(node))
        os.rmdir(path)
        self.assert_ok(node.call("ADD", self.pod(), self.ipam()))
        self.assertEqual(node.blocks(), held)

    def test_blocks_of_a_file_that_was_copied_to_another_network_are_not_that_ones(self):
        self.serve()
        node, = self.nodes(1)
        self.first_block(node)
        folder, before = f"{node.root}/lib/blocks", self.claims()
        with open(f"{folder}/{NETWORK}.json", encoding="utf-8") as file:
            text = file.read()
        with open(f"{folder}/renamed.json", "w", encoding="utf-8") as file:
            file.write(text)
        says = f"it is of network '{NETWORK}'"
        self.assert_error(node.call("ADD", self.pod(), self.ipam(1) | {"name": "renamed"}), 999, says)
        self.assertTrue(any(says in found for found in self.findings(node)), self.findings(node))
        self.assert_ok(node.call("ADD", self.pod(), self.ipam()))
        self.assertEqual(self.claims(), before)
        os.remove(f"{folder}/renamed.json")
        self.assert_ok(node.call("ADD", self.pod(), self.ipam() | {"name": "renamed"}))

    def test_a_wrong_config_is_not_an_engine_that_is_away(self):
        self.serve()
        one, other = self.nodes(2)
        self.first_block(one)
        self.size = 29
        self.assert_error(other.call("ADD", self.pod(), self.ipam(1)), 11, "blockSize here is /29")
        shown = subprocess.run([*other.wrap, agent.PROGRAM, "--config", "/run/none.json", "--blocks-config", f"{other.root}/blocks.json", "status"],
                               capture_output=True, text=True, check=True, timeout=30)
        self.assertIn(" is there", shown.stdout)
        found = self.findings(other)
        self.assertTrue(any("blockSize here is /29" in one for one in found), found)
        self.assertFalse(any("does not answer" in one for one in found), found)

    def test_ranges_that_change_on_one_node_after_another_and_back_double_nothing(self):
        self.serve()
        uplink()
        one, other = self.nodes(2)
        pods = []

        def add(node, **ipam):
            config = self.config(10)
            config["ipam"] |= ipam
            if "ranges" in ipam:
                config["ipam"] = {"type": "cluster-pool", **ipam}
            pod = self.pod()
            self.assert_ok(node.call("ADD", pod, config))
            pods.append(pod)

        changes = ({"subnet": "10.9.0.0/23"}, {"subnet": "10.9.0.0/25"}, {"subnet": "10.9.4.0/24"}, {"exclude": ["10.9.0.128/25"]},
                   {"exclude": ["10.9.0.0/25"]}, {"rangeStart": "10.9.0.200", "rangeEnd": "10.9.0.210"},
                   {"ranges": [[{"subnet": "10.9.0.0/25"}, {"subnet": "10.9.0.128/25"}]]})
        add(one)
        add(other)
        for change in changes:
            for nodes, more in (((one,), change), ((other,), {}), ((other,), change), ((one, other), {})):
                for node in nodes:
                    add(node, **more)
        addresses = self.assert_unique(pods)
        self.assertEqual((one.blocks("lost"), other.blocks("lost")), (set(), set()))
        self.assertFalse(any("blocks of the cluster have a node" in found for found in self.findings(one)), self.findings(one))
        kept = sorted(address for address in addresses if address in one.leases() and address.startswith("10.9.0."))
        self.config = lambda wait=20, of=self.config: {**of(wait), "ipam": of(wait)["ipam"] | {"gateway": kept[0], "exclude": [kept[-1]]}}
        add(one)
        says = "pods have addresses that the pool excludes, or its gateway"
        # The agent writes the changed pool a moment after the ADD.
        self.assertTrue(wait_for(lambda: any(says in found and kept[-1] in found for found in self.findings(one)), 10), self.findings(one))


class Etcd(Nodes, EtcdTest):
    def test_an_agent_that_has_no_sound_file_answers_for_its_node(self):
        self.serve()
        one, other = self.nodes(2)
        self.first_block(one)
        held, blocks = one.blocks(), set(self.claims())
        one.kill()
        with open(f"{one.root}/lib/blocks/{NETWORK}.json", "w", encoding="ascii") as file:
            file.write("{")
        one.start()
        self.assertTrue(wait_for(lambda: one.log.count("serve blocks") == 2, 20), one.log)
        self.assertIn("its agent has answered", other.release("n1")["error"]["msg"])
        self.assertEqual(set(self.claims()), blocks)
        self.assert_ok(one.call("ADD", self.pod(), self.ipam()))
        self.assertEqual(one.blocks(), held)

    def test_a_block_of_another_size_that_a_person_made_over_all_is_named(self):
        self.serve()
        wide = {"network": NETWORK, "cidr": "10.0.0.0/8", "node": "n9", "machine": "m", "claim": "c"}
        self.etcd.control("put", f"/patchbay/blocks/{NETWORK}/10.0.0.0", json.dumps(wide))
        node, = self.nodes(1)
        self.assert_error(node.call("ADD", self.pod(), self.ipam(2)), 11, "are taken: n9 has 1")


@suite.spread
class Kubernetes(Nodes, KubernetesTest):
    def test_a_block_of_another_size_that_a_person_made_over_all_is_named(self):
        self.serve()
        wide = {"network": NETWORK, "cidr": "10.0.0.0/8", "node": "n9", "machine": "m", "claim": "c"}
        self.api.create(API, "addressblocks", {"metadata": {"name": f"{NETWORK}.10-0-0-0"}, "spec": wide})
        node, = self.nodes(1)
        self.assert_error(node.call("ADD", self.pod(), self.ipam(2)), 11, "are taken: n9 has 1")

    def write(self, name, cidr, node="n9"):
        spec = {"network": NETWORK, "cidr": cidr, "node": node, "machine": "m", "claim": "c"}
        self.api.create(API, "addressblocks", {"metadata": {"name": name}, "spec": spec})

    @suite.cases([("from before the agent", True), ("made while it runs", False)])
    def a_block_in_an_object_of_another_name_is_nobodys_and_is_named(self, is_before):
        self.subnet, name = "10.9.0.0/26", f"{NETWORK}.copy"
        self.serve()
        if is_before:
            self.write(name, "10.9.0.32/27", "n1")
        node, = self.nodes(1)
        self.pod_with(node, "10.9.0.5")
        if not is_before:
            self.write(name, "10.9.0.32/27", "n1")
        self.wait_until_seen(node, "10.9.0.32/27", {f"the misnamed object {name}"})
        self.want_more(node, 2)
        says = f"are taken: n1 has 2, the misnamed object {name} has 1"
        self.assertTrue(wait_for(lambda: says in node.note(), 10), node.note())
        refused = self.assert_error(node.call("ADD", self.pod(), self.ipam(0), args="IgnoreUnknown=1;IP=10.9.0.50"), 11)
        self.assertIn(f": the misnamed object {name} has its block 10.9.0.48/28", refused["msg"])
        self.assertIn(f"network '{NETWORK}': the misnamed object {name} has 10.9.0.32/27", self.findings(node))
        self.assertEqual(node.blocks(), {"10.9.0.0/28", "10.9.0.16/28"})
        self.api.remove(API, "addressblocks", name)
        self.wait_until_seen(node, "10.9.0.32/27", set())
        self.pod_with(node, "10.9.0.50")

    def test_a_copy_of_an_object_by_another_name_takes_nothing_of_the_node_that_has_the_block(self):
        self.serve()
        node, = self.nodes(1)
        self.pod_with(node, "10.9.0.5")
        self.write(f"{NETWORK}.copy", "10.9.0.0/28")
        self.assertTrue(wait_for(lambda: f"{NETWORK}.copy" in node.log, 10), node.log)
        self.pod_with(node, "10.9.0.20")  # so that the agent writes what it sees
        self.wait_until_seen(node, "10.9.0.0/28", {"n1"})
        self.assertEqual(self.findings(node), [])
        self.api.remove(API, "addressblocks", f"{NETWORK}.copy")
        self.assert_ok(node.call("ADD", self.pod(), self.ipam(0)))
        self.assertLessEqual({"10.9.0.0/28"}, node.blocks())


if __name__ == "__main__":
    suite.main(needs=("etcd", "etcdctl"), per_processor=2) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
