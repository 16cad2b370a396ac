#!/usr/bin/env python3
"""cluster-pool over many nodes with a simulated API server: claims by creation, and every fault of the server."""

import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, block_crowd, kubernetes_nodes, suite  # noqa: E402
from support.api_objects import Failure  # noqa: E402
from support.block_nodes import NETWORK  # noqa: E402
from support.kubernetes_nodes import API  # noqa: E402
from support.world import wait_for  # noqa: E402


class KubernetesTest(kubernetes_nodes.KubernetesTest):
    def setUp(self):
        super().setUp()
        self.serve()


class Crowd(block_crowd.Crowd, kubernetes_nodes.KubernetesTest):
    pass


@suite.spread
class Faults(KubernetesTest):
    @suite.cases([("409", {"status": 409, "reason": "Conflict"}), ("429", {"status": 429, "headers": {"Retry-After": "1"}}),
                  ("401", {"status": 401, "reason": "Unauthorized"}), ("500", {"status": 500}), ("close", {"close": True}), ("torn", {"torn": True}),
                  ("slow", {"slow": 0.3}), ("no_JSON", {"body": b"<html>"})])
    def a_claim_is_made_in_spite_of(self, what):
        self.api.fault("POST", "addressblocks", **what)
        node, = self.nodes(1)
        self.first_block(node)
        self.assert_settled([node])

    def test_a_busy_server_is_asked_again_after_the_time_that_it_names(self):
        for method, path in (("POST", "addressblocks"), ("GET", "addressblocks"), ("GET", "addressshortages")):
            self.api.fault(method, path, status=429, headers={"Retry-After": "2"})
        node, = self.nodes(1)
        self.first_block(node)
        for method, path in (("POST", "addressblocks"), ("GET", "addressblocks"), ("GET", "addressshortages")):
            first, second, *_ = self.api.seen(method, path)
            self.assertEqual(first["code"], 429)
            self.assertGreaterEqual(second["at"] - first["at"], 2, f"{method} {path}")
        self.assert_settled([node])

    def test_an_authority_that_was_rotated_is_read_anew(self):
        shutil.copy("/run/api/ca.crt", "/run/ca.crt")
        with open(self.kubeconfig, encoding="utf-8") as file:
            text = file.read().replace("/run/api/ca.crt", "/run/ca.crt")
        with open(self.kubeconfig, "w", encoding="utf-8") as file:
            file.write(text)
        node, = self.nodes(1)
        self.first_block(node)
        self.api.away()
        self.api.certify()
        self.api.back()
        self.want_more(node, 1)
        self.assertTrue(wait_for(lambda: "certificate" in node.note(), 20), node.log)
        self.assert_ok(node.call("ADD", self.pod(), self.ipam(0)))
        shutil.copy("/run/api/ca.crt", "/run/ca.crt")
        self.assertTrue(wait_for(lambda: len(node.blocks()) == 2, 45, 0.1), node.log)
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

    def test_a_restore_behind_watches_that_end_without_an_error_is_seen(self):
        one, other = self.nodes(2, settle="2s")
        self.first_block(one)
        self.api.store.save()
        self.first_block(other)
        before = self.objects()
        with self.api.store.changed:  # from then on nobody sees what was
            self.api.store.restore()
            self.api.store.oldest = 0
            self.api.end_watches()
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
        self.assertTrue(wait_for(lambda: "released the blocks of a node that was removed" in one.log, 5), one.log)
        lost, = dead.blocks()
        self.assertEqual(one.release("n3", force=True), {"released": 1})
        self.api.create("v1", "nodes", {"metadata": {"name": "n2"}})
        dead.start()  # nobody has taken its block
        self.assertTrue(wait_for(lambda: self.by_node().get("n2") == {lost}, 10), dead.log)

    def test_a_404_of_something_before_the_server_is_no_removed_node(self):
        one, silent = self.nodes(2, nodeGone="1s")
        for node in (one, silent):
            self.first_block(node)
        silent.kill()
        for _ in range(2):  # as it is, and as of another program
            self.api.fault("GET", "/nodes/n2", times=4, status=404, body=b"404 page not found\n")
            self.api.fault("GET", "/nodes/n2", times=4, status=404, body={"kind": "Status", "status": "Failure", "code": 404})
        self.assertTrue(wait_for(lambda: len(self.api.seen("GET", "/nodes/n2$")) >= 16, 60), one.log)
        self.assertEqual(set(self.by_node()), {"n1", "n2"})

    def test_an_object_that_a_person_spoiled_is_named_and_its_block_is_nobody_elses(self):
        one, other = self.nodes(2)
        self.first_block(one)
        name, before = next(iter(self.objects().items()))
        self.api.patch(API, "addressblocks", name, {"spec": {"cidr": "10.9.9.0/28"}})
        for node in (one, other):
            self.assertTrue(wait_for(lambda node=node: f'"name":"{name}"' in node.log, 10), node.log)
        self.api.patch(API, "addressblocks", name, {"spec": {"cidr": before["cidr"]}})
        self.first_block(other)
        self.assert_settled([one, other])

    def test_names_of_objects_are_as_kubectl_shows_them(self):
        node, = self.nodes(1)
        self.assert_ok(node.call("ADD", self.pod(), self.ipam(), args="IP=10.9.0.40"))
        self.assertIn(f"{NETWORK}.10-9-0-32", self.objects())
        pool, = self.api.list(API, "addresspools")
        self.assertEqual((pool["metadata"]["name"], pool["spec"]["blockSize"]), (f"{NETWORK}.10-9-0-0-24", 28))


class Manifest(KubernetesTest):
    """Every test here asks with the rights and the definitions of the manifest. These show that they are no more, and matter."""

    def test_the_agent_uses_each_right_of_blocks_and_is_refused_nothing(self):
        one, other = self.nodes(2, nodeGone="10s", idle="1s")
        self.first_block(one)
        pod = self.first_block(other)
        self.assert_ok(other.call("DEL", pod, self.ipam()))
        other.kill()
        other.conf["node"] = "n3"  # renamed
        self.api.remove("v1", "nodes", "n2")
        other.start()
        self.assertTrue(wait_for(lambda: "n3" in self.by_node(), 10), other.log)
        one.release("n3", force=True)
        rights = {(verb, "addressblocks") for verb in ("get", "list", "watch", "create", "update", "delete")}
        self.assertTrue(wait_for(lambda: rights <= self.api.account.used, 10), self.api.account.used)
        self.assertEqual({right for right in self.api.account.rights() if right[1] == "addressblocks"}, rights)
        self.assertEqual([seen for seen in self.api.seen() if seen["code"] == 403], [])

    def test_without_the_right_to_create_blocks_the_note_names_it(self):
        for rule in self.api.account.rules:
            rule["verbs"] = [verb for verb in rule["verbs"] if verb != "create"]
        node, = self.nodes(1)
        self.assert_error(node.call("ADD", self.pod(), self.ipam(1)), 11)
        self.assertTrue(wait_for(lambda: "403" in node.note() or "403" in node.log, 10), node.note() + node.log)

    def test_the_definitions_refuse_what_no_agent_writes(self):
        right = {"network": NETWORK, "cidr": "10.9.0.16/28", "node": "n1", "machine": "m", "claim": "c"}
        self.api.account.check_schema((API, "addressblocks"), {"spec": right})
        for wrong in ({"cidr": "10.9.0.16"}, {"cidr": "/28"}, {"cidr": "FD00::/64"}, {"network": "-a"}, {"network": ""}, {"node": "N1"}, {"node": "a-"},
                      {"machine": "a b"}, {"claim": ""}):
            with self.assertRaises(Failure, msg=wrong):
                self.api.account.check_schema((API, "addressblocks"), {"spec": right | wrong})

    def test_a_definition_without_a_field_of_the_agent_is_seen(self):
        del self.api.account.schemas[API, "addressblocks"]["properties"]["spec"]["properties"]["machine"]
        node, = self.nodes(1)
        self.assert_error(node.call("ADD", self.pod(), self.ipam(1)), 11)
        self.assertEqual(self.objects(), {})


if __name__ == "__main__":
    suite.main(per_processor=3) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
