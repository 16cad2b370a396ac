#!/usr/bin/env python3
"""cluster-pool when a node dies, comes back, is replaced or renamed, and where two clusters share a segment."""

import ipaddress
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, suite  # noqa: E402
from support.block_crowd import Doubles  # noqa: E402
from support.block_nodes import Pinging, address_of, uplink  # noqa: E402
from support.etcd_nodes import EtcdTest  # noqa: E402
from support.kubernetes_nodes import KubernetesTest  # noqa: E402
from support.world import wait_for  # noqa: E402


class Dead(KubernetesTest):
    def test_a_node_that_is_back_from_the_dead_loses_blocks_that_were_taken_and_its_pods_live_on(self):
        self.serve()
        uplink()
        one, dead = self.nodes(2, nodeGone="1s")
        there, pod, kept = (self.pod_with(*of, self.config()) for of in ((one, "10.9.0.130"), (dead, "10.9.0.65"), (dead, "10.9.0.33")))
        with Pinging(there, "10.9.0.65") as pings:
            dead.kill()  # its pods run: the cluster does not see that
            self.api.remove("v1", "nodes", "n2")
            self.assertTrue(wait_for(lambda: set(self.by_node()) == {"n1"}, 15), one.log)
            self.wait_until_seen(one, "10.9.0.64/28", set())
            self.pod_with(one, "10.9.0.66")
            self.api.create("v1", "nodes", {"metadata": {"name": "n2"}})
            dead.start()
            self.assertTrue(wait_for(lambda: "10.9.0.64/28" in dead.blocks("lost"), 15), dead.log)
            self.assertTrue(wait_for(lambda: "10.9.0.32/28" in self.by_node().get("n2", ()), 10), "a block that nobody took is not its own again")
            fresh = self.pod()
            self.assert_ok(dead.call("ADD", fresh, self.config()))
            self.assertEqual({one for one in dead.leases() if ipaddress.ip_address(one) in ipaddress.ip_network("10.9.0.64/28")}, {"10.9.0.65"})
        self.assertEqual(pings.lost, 0)
        self.assertIn("another node has a block of this node: its addresses may be doubled", dead.log)
        self.assertTrue(wait_for(lambda: dead.metric("patchbay_agent_blocks_lost") == len(dead.blocks("lost")), 5))
        self.assertTrue(any("in which pods live: 10.9.0.65" in found for found in self.findings(dead)), self.findings(dead))
        self.assert_unique([there, pod, kept, fresh])

    def test_an_agent_that_lives_keeps_its_blocks_though_somebody_deletes_its_Node_object(self):
        self.serve()
        one, other = self.nodes(2, nodeGone="1s")
        self.pod_with(one, "10.9.0.130")
        self.pod_with(other, "10.9.0.65")
        self.api.remove("v1", "nodes", "n2")
        before = self.objects()
        self.assertTrue(wait_for(lambda: "a node without a Node object answers: its blocks stay" in one.log, 15), one.log)
        self.assertTrue(wait_for(lambda: self.objects() == before, 10), other.log)
        self.assertEqual(other.log.count("claimed a block again"), 0)
        self.assertIn("10.9.0.64/28", other.blocks())


class Replaced:
    """With either engine."""

    def test_a_node_with_a_new_disk_claims_nothing_until_the_blocks_of_its_name_are_released(self):
        self.serve()
        one = self.make_node("n1")
        self.first_block(one)
        one.kill()
        new = self.make_node("new", node="n1")
        self.assert_error(new.call("ADD", self.pod(), self.ipam(1)), 11, "another machine has blocks as node 'n1'")
        self.assertEqual(new.release("n1")["error"]["code"], 7)
        self.assertEqual(new.release("n1", force=True), {"released": 1})
        self.first_block(new)
        self.assertEqual(self.by_node(), {"n1": new.blocks()})

    def test_a_node_that_was_renamed_keeps_its_blocks_and_its_pods(self):
        self.serve()
        one, other = self.nodes(2)
        pod = self.pod_with(one, "10.9.0.65")
        self.first_block(other)
        self.assert_settled([one, other])
        before = one.blocks()
        one.kill()
        one.conf["node"] = "n7"
        self.know("n7", "n1")
        one.start()
        self.assertTrue(wait_for(lambda: self.by_node().get("n7") == before, 15), one.log)
        self.assertEqual((set(self.by_node()), one.blocks(), one.leases()), ({"n2", "n7"}, before, {"10.9.0.65"}))
        self.assert_ok(one.call("DEL", pod, self.ipam()))
        self.assertEqual(one.leases(), set())


class ReplacedOnEtcd(Replaced, EtcdTest):
    def know(self, name, former):
        """etcd knows of no nodes."""


class ReplacedOnKubernetes(Replaced, KubernetesTest):
    def know(self, name, former):
        self.api.remove("v1", "nodes", former)
        self.api.create("v1", "nodes", {"metadata": {"name": name}})


class TwoClusters(EtcdTest):
    def clusters(self):
        """A node of each, with one name: they choose the same block."""
        self.serve()
        uplink()
        out = []
        for name in ("a", "b"):
            conf = {"etcd": self.etcd.conf() | {"prefix": f"/{name}"}}
            self.engine = lambda conf=conf: conf
            out.append(self.make_node(name, node="n1"))
        return out

    def test_of_two_clusters_on_one_segment_the_later_pod_is_refused_by_address_probes(self):
        a, b = self.clusters()
        first, second = self.pod(), self.pod()
        address = self.assert_ok(a.call("ADD", first, self.config(enabledad=True)))["ips"][0]["address"].split("/")[0]
        self.assert_error(b.call("ADD", second, self.config(enabledad=True)), 999, address)
        self.assertEqual(a.blocks(), b.blocks())
        self.assertIsNone(address_of(second))
        self.assertEqual(b.leases(), set())
        other = self.assert_ok(b.call("ADD", second, self.config(enabledad=True)))["ips"][0]["address"].split("/")[0]
        self.assertNotEqual(other, address)
        self.assert_unique([first, second])

    def test_without_probes_two_clusters_on_one_segment_give_one_address_twice(self):
        a, b = self.clusters()
        pods = self.pod(), self.pod()
        with Doubles() as doubles:
            for node, pod in zip((a, b), pods):
                self.assert_ok(node.call("ADD", pod, self.config()))
            self.assertTrue(wait_for(lambda: doubles.found, 5), "the tests of many pods would not see it, either")
        self.assertEqual([doubles.found] * 2, [{address_of(pod)} for pod in pods])


if __name__ == "__main__":
    suite.main(needs=("etcd", "etcdctl"), per_processor=3) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
