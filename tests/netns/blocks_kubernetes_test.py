#!/usr/bin/env python3
"""cluster-pool over many nodes with a simulated API server: claims by creation, and every fault of the server."""

import json
import os
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, suite  # noqa: E402
from support.api_server import ApiServer  # noqa: E402
from support.block_nodes import NETWORK, BlocksTest, Killer, uplink  # noqa: E402
from support.plugin import ROOT  # noqa: E402
from support.world import wait_for  # noqa: E402

API = "blocks.patchbay/v1"
PODS = int(os.environ.get("PATCHBAY_PODS", "30"))


class KubernetesTest(BlocksTest):
    def setUp(self):
        super().setUp()
        self.api = ApiServer()
        self.addCleanup(self.api.stop)
        self.kubeconfig = self.api.kubeconfig(user="tokenFile")

    def engine(self):
        return {"kubernetes": {"kubeconfig": self.kubeconfig}}

    def objects(self):
        return {one["metadata"]["name"]: one["spec"] for one in self.api.list(API, "addressblocks")}

    def make_node(self, name, **conf):
        self.api.create("v1", "nodes", {"metadata": {"name": name}})
        return super().make_node(name, **conf)

    def first_block(self, node):
        pod = self.pod()
        self.assert_ok(node.call("ADD", pod, self.ipam()))
        return pod


class Crowd(KubernetesTest):
    size = 29

    def test_ten_nodes_start_pods_at_once_while_agents_and_the_server_are_killed(self):
        uplink()
        nodes = self.nodes(10, idle="1s")
        pairs = self.start_pods(nodes, PODS)
        self.assert_unique([pod for _, pod in pairs])

        def restart():
            self.api.away()
            self.api.back()

        with Killer(nodes, restart):
            self.stop_pods(pairs[::2])
            more = self.start_pods(nodes, 10, "q")
        stay = pairs[1::2] + more
        found = self.assert_unique([pod for _, pod in stay])
        self.assertEqual(found, set().union(*(node.leases() for node in nodes)))
        self.assert_settled(nodes)
        self.stop_pods(stay)
        self.assertTrue(wait_for(lambda: all(len(node.blocks()) <= 1 for node in nodes), 30, 0.2), self.by_node())
        self.assert_settled(nodes)


@suite.spread
class Faults(KubernetesTest):
    @suite.cases([("409", {"status": 409, "reason": "Conflict"}), ("429", {"status": 429, "headers": {"Retry-After": "1"}}),
                  ("500", {"status": 500}), ("close", {"close": True}), ("torn", {"torn": True}),
                  ("slow", {"slow": 0.3}), ("no_JSON", {"body": b"<html>"})])
    def a_claim_is_made_in_spite_of(self, what):
        self.api.fault("POST", "addressblocks", **what)
        node, = self.nodes(1)
        self.first_block(node)
        self.assert_settled([node])

    def test_a_token_that_was_rotated_is_read_anew(self):
        node, = self.nodes(1)
        self.first_block(node)
        self.api.rotate("second")
        self.api.write_token("/run/api/token")
        self.api.disconnect()
        other = self.make_node("n2")
        self.first_block(other)
        self.assert_settled([node, other])

    def test_a_token_that_is_wrong_is_in_the_note(self):
        self.api.rotate("second")
        node, = self.nodes(1)
        self.assert_error(node.call("ADD", self.pod(), self.ipam(1)), 11)
        self.assertTrue(wait_for(lambda: "401" in node.note(), 10), node.note())
        self.api.write_token("/run/api/token")
        self.first_block(node)

    def test_a_node_without_a_node_object_claims_nothing_and_says_why(self):
        node, = self.nodes(1)
        self.api.remove("v1", "nodes", "n1")
        self.assert_error(node.call("ADD", self.pod(), self.ipam(1)), 11, "the API server has no Node 'n1'")
        self.assertEqual(self.objects(), {})
        self.api.create("v1", "nodes", {"metadata": {"name": "n1"}})
        self.first_block(node)

    def test_definitions_that_were_not_applied_are_named(self):
        self.api.fault("", "addressblocks", times=50, status=404, reason="NotFound")
        node, = self.nodes(1)
        self.assertTrue(wait_for(lambda: "404" in node.log, 10), node.log)
        self.assert_error(node.call("ADD", self.pod(), self.ipam(1)), 11, "404")

    def test_a_lost_watch_and_410_lose_no_change(self):
        one, other = self.nodes(2)
        self.first_block(one)
        self.api.store.expire()
        self.api.disconnect()
        self.first_block(other)
        self.assert_settled([one, other])

    def test_a_restore_from_a_snapshot_is_repaired_by_the_living(self):
        one, other = self.nodes(2, settle="2s")
        self.first_block(one)
        self.api.store.save()
        self.first_block(other)
        before = self.objects()
        self.api.away()
        self.api.store.restore()
        self.assertEqual(len(self.objects()), 1)
        self.api.back()
        self.assertTrue(wait_for(lambda: self.objects() == before, 20), one.log + other.log)
        self.assert_settled([one, other])

    def test_an_object_that_a_person_deletes_is_created_again(self):
        node, = self.nodes(1)
        self.first_block(node)
        name, before = next(iter(self.objects().items()))
        self.api.remove(API, "addressblocks", name)
        self.assertTrue(wait_for(lambda: self.objects() == {name: before}, 10), node.log)


class Nodes(KubernetesTest):
    def test_blocks_of_a_removed_node_come_free_after_the_time_and_those_of_a_silent_one_never(self):
        one, dead, silent = self.nodes(3, nodeGone="1s")
        for node in (one, dead, silent):
            self.first_block(node)
        dead.kill()
        silent.kill()
        self.assertEqual(one.release("n3")["error"]["code"], 7)
        self.api.remove("v1", "nodes", "n2")
        self.assertTrue(wait_for(lambda: set(self.by_node()) == {"n1", "n3"}, 15), one.log)
        self.assertIn("released the blocks of a node that was removed", one.log)
        lost, = dead.blocks()
        self.assertEqual(one.release("n3", force=True), {"released": 1})
        self.api.create("v1", "nodes", {"metadata": {"name": "n2"}})
        dead.start()  # nobody has taken its block
        self.assertTrue(wait_for(lambda: self.by_node().get("n2") == {lost}, 10), dead.log)

    def test_names_of_objects_are_as_kubectl_shows_them(self):
        node, = self.nodes(1)
        self.assert_ok(node.call("ADD", self.pod(), self.ipam(), args="IP=10.9.0.40"))
        self.assertIn(f"{NETWORK}.10-9-0-32", self.objects())
        pool, = self.api.list(API, "addresspools")
        self.assertEqual((pool["metadata"]["name"], pool["spec"]["blockSize"]), (f"{NETWORK}.10-9-0-0-24", 28))


class Manifest(KubernetesTest):
    def test_the_rights_of_the_example_are_those_that_the_agent_uses(self):
        with open(f"{ROOT}/conf-examples/kubernetes/cluster-pool.yaml", encoding="utf-8") as file:
            role = re.search(r"kind: ClusterRole\n.*?\n---", file.read(), re.DOTALL)[0]
        given = {(verb.strip(), resource) for resource, verbs in re.findall(r"resources: \[(.*?)\]\n    verbs: \[(.*?)\]", role)
                 for verb in verbs.split(",")}
        one, other = self.nodes(2, nodeGone="1s", idle="1s")
        self.first_block(one)
        pod = self.first_block(other)
        self.assert_ok(other.call("DEL", pod, self.ipam()))
        other.kill()
        other.conf["node"] = "n3"  # renamed
        other.start()
        self.assertTrue(wait_for(lambda: "n3" in self.by_node(), 10), other.log)
        one.release("n3", force=True)
        time.sleep(0.5)
        verbs = {"GET": "get", "POST": "create", "PUT": "update", "DELETE": "delete", "WATCH": "watch"}
        used = set()
        for seen in self.api.seen():
            resource, name = re.search(r"/v1/([a-z]+)(?:/([^?]+))?", seen["path"]).groups()
            used.add(("list" if seen["method"] == "GET" and not name else verbs[seen["method"]], resource))
        self.assertLessEqual(used, given)
        self.assertEqual({right for right in given - used if right[1] == "addressblocks"}, set())

    def test_the_definitions_allow_what_the_agent_creates_and_no_more(self):
        node, = self.nodes(1)
        self.first_block(node)
        with open(f"{ROOT}/conf-examples/kubernetes/cluster-pool.yaml", encoding="utf-8") as file:
            text = file.read()
        for kind, plural in (("AddressBlock", "addressblocks"), ("AddressPool", "addresspools")):
            required = re.search(r"names: \{kind: %s,.*?required: \[spec\].*?required: \[(.*?)\]" % kind, text, re.DOTALL)[1]
            one = self.api.list(API, plural)[0]
            self.assertEqual(set(one["spec"]), set(required.split(", ")), json.dumps(one))


if __name__ == "__main__":
    suite.main() if not agent.why_impossible() else sys.exit(suite.SKIPPED)
