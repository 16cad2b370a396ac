#!/usr/bin/env python3
"""Dynamic Resource Allocation: from a claim that is allocated to traffic, and back."""

import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import ledger, suite  # noqa: E402
from support.agent import nics, slots  # noqa: E402
from support.claims import API, DraTest, opaque, result, share  # noqa: E402
from support.ledger import NIC, SLOT  # noqa: E402
from support.world import run, wait_for  # noqa: E402

POOLS = [nics("dev*", force=["dev0"], ipam=ledger.pool("10.50.0.0/24")),
         slots(4, SLOT, "eth1", ipam=ledger.pool("10.60.0.0/24"))]


class Claims(DraTest):
    def test_a_claim_is_prepared_attached_by_ADD_and_returned_by_DEL_and_Unprepare(self):
        self.start(*POOLS)
        claim = self.claim("web-0-nic", result("netdev-dev0"), result("eth1-macvlan-2", "slot"))
        self.assertEqual(self.prepared(claim), [
            {"request_names": ["nic"], "pool_name": "n1", "device_name": "netdev-dev0", "cdi_device_ids": [], "share_id": ""},
            {"request_names": ["slot"], "pool_name": "n1", "device_name": "eth1-macvlan-2", "cdi_device_ids": [], "share_id": ""}])
        self.assertEqual(self.promises(), {"netdev:dev0": ("uid-web-0", "web-0-nic"), "eth1:macvlan:2": ("uid-web-0", "web-0-nic")})
        pod = self.pod()
        made = self.add(pod)
        self.assertEqual([one["name"] for one in made["interfaces"] if one.get("sandbox")], ["eth0", "net1", "net2"])
        pod.run("ping", "-c1", "-W2", "10.50.0.1")
        self.assert_ok(self.call("CHECK", pod, prevResult=made))
        self.remove(pod)
        self.assertEqual(ledger.holders(), {})
        self.assertEqual(len(self.promises()), 2)
        self.end(claim)
        self.assertEqual(self.promises(), {})
        self.assertIn("dev0", self.names())
        self.end(claim)  # once more

    def test_dranet_33_a_NIC_is_on_the_node_again_when_its_pod_was_deleted_with_its_namespace(self):
        self.start(*POOLS)
        claim = self.claim("web-0-nic", result("netdev-dev0"))
        self.prepared(claim)
        pod = self.pod()
        self.add(pod)
        self.assertNotIn("dev0", self.names())
        self.end(claim)  # the kubelet may unprepare before the runtime has called DEL
        self.assertEqual((self.promises(), list(ledger.holders())), ({}, ["netdev:dev0"]))
        self.remove(pod)
        self.assertIn("dev0", self.names())
        self.assertEqual((ledger.devices(), ledger.holders(), ledger.marks()), ([], {}, []))
        later = self.claim("web-1-nic", result("netdev-dev0"), pod="web-1")
        self.prepared(later, pod="web-1")
        pod = self.pod()
        self.add(pod, of="web-1")
        self.assertIn("dev0", ledger.entry("netdev:dev0")["plugins"])

    def test_a_device_that_DEL_gave_back_a_moment_ago_is_prepared(self):
        self.start(*POOLS)
        for name in ("web-0", "web-1", "web-2", "web-3"):
            claim = self.claim(f"{name}-nic", result("netdev-dev0"), pod=name)
            self.prepared(claim, pod=name)
            pod = self.pod()
            self.add(pod, of=name)
            time.sleep(0.4)  # until the agent has seen that it is away
            self.remove(pod, of=name)
            self.end(claim)
            self.assertEqual(ledger.devices(), [])

    def test_Prepare_is_idempotent_and_keeps_what_it_has_prepared(self):
        self.start(*POOLS)
        claim = self.claim("web-0-nic", result("netdev-dev0"), config=[opaque({"ifname": "first"})])
        before = self.prepared(claim)
        entry = ledger.entry("netdev:dev0")
        self.assertEqual(entry["interface"], "first")
        self.assertEqual(self.of.prepare(claim), before)
        self.assertEqual(ledger.entry("netdev:dev0"), entry)
        [old] = self.of.drivers()
        self.by.kill()
        self.by.write(self.config | {"pools": [POOLS[0] | {"ifname": "second"}, POOLS[1]]})
        self.by.start()
        self.assertTrue(wait_for(lambda: old not in self.of.drivers() and self.of.drivers()), self.by.log)
        self.assertEqual(self.of.prepare(claim), before)
        self.assertEqual(ledger.entry("netdev:dev0"), entry)

    def test_a_claim_gets_all_of_its_devices_or_none(self):
        self.start(*POOLS)
        claim = self.claim("web-0-nic", result("eth1-macvlan-1"), result("eth1-macvlan-9"))
        self.assertIn("device 'eth1-macvlan-9' is none of this node's", self.refusal(claim))
        self.assertEqual(ledger.devices(), [])

    def test_a_device_of_another_claim_is_not_prepared_until_that_is_unprepared(self):
        self.start(*POOLS)
        first = self.claim("web-0-nic", result("netdev-dev0"))
        self.prepared(first)
        second = self.claim("web-1-nic", result("netdev-dev0"), pod="web-1")
        self.assertIn("is still prepared for claim 'shop/web-0-nic' of pod 'shop/web-0'", self.refusal(second))
        self.of.unprepare(first)
        self.of.prepare(second)
        self.assertEqual(self.promises(), {"netdev:dev0": ("uid-web-1", "web-1-nic")})

    def test_a_device_of_a_claim_that_does_not_exist_any_more_is_free_when_the_scheduler_gives_it_away(self):
        self.start(*POOLS)
        self.prepared(self.claim("web-0-nic", result("netdev-dev0")))
        self.api.remove(API, "resourceclaims", "web-0-nic", "shop")  # and the kubelet has lost its state
        self.of.prepare(self.claim("web-1-nic", result("netdev-dev0"), pod="web-1"))
        self.assertEqual(self.promises(), {"netdev:dev0": ("uid-web-1", "web-1-nic")})
        self.assertIn("end claim 'shop/web-0-nic', which does not exist any more", self.by.log)

    def test_each_claim_of_a_call_has_its_own_answer(self):
        self.start(*POOLS)
        good, bad = self.claim("a", result("eth1-macvlan-1")), self.claim("b", result("nothing"))
        answer = self.of.call("NodePrepareResources", good, bad)
        self.assertEqual(len(answer[good["metadata"]["uid"]]["devices"]), 1)
        self.assertIn("prepare claim 'shop/b': device 'nothing'", answer[bad["metadata"]["uid"]]["error"])
        answer = self.of.call("NodeUnprepareResources", good, bad)
        self.assertEqual([one["error"] for one in answer.values()], ["", ""])

    def test_kubelets_before_1_34_ask_by_v1beta1(self):
        self.start(*POOLS, kubelet_options={"api": "v1beta1"})
        claim = self.claim("web-0-nic", result("eth1-macvlan-1"))
        self.assertEqual(self.prepared(claim), [{"request_names": ["nic"], "pool_name": "n1", "device_name": "eth1-macvlan-1",
                                                 "cdi_device_ids": [], "share_id": ""}])
        pod = self.pod()
        self.add(pod)
        self.remove(pod)
        self.end(claim)
        self.assertEqual(ledger.devices(), [])

    def test_the_stream_of_health_tells_of_each_change(self):
        self.start(*POOLS)
        names = {"netdev-dev0": True} | {f"eth1-macvlan-{n}": True for n in range(1, 5)}
        self.assertTrue(wait_for(lambda: self.of.health() == names), self.of.health())
        run("ip", "link", "set", "eth1-end", "down")
        self.assertTrue(wait_for(lambda: self.of.health() and not self.of.health()["eth1-macvlan-1"]), self.of.health())
        self.assertTrue(self.of.health()["netdev-dev0"])

    def test_a_pool_of_the_device_plugin_API_is_no_pool_of_the_driver(self):
        self.start(POOLS[0], POOLS[1] | {"devicePlugin": True})
        self.assertTrue(wait_for(lambda: len(self.of.devices(SLOT)) == 4), self.by.log)
        self.assertEqual(self.of.devices(NIC), {})
        self.assertIn("is none of this node's", self.refusal(self.claim("a", result("eth1-macvlan-1"))))
        self.prepared(self.claim("b", result("netdev-dev0")))

    def test_character_devices_come_by_CDI(self):
        self.start(POOLS[1] | {"nodes": ["/dev/null"]})
        [device] = self.prepared(self.claim("a", result("eth1-macvlan-1")))
        [name] = device["cdi_device_ids"]
        with open("/run/agent/cdi/patchbay-vendor.example_macvlan.json", encoding="utf-8") as file:
            spec = json.load(file)
        kind, _, which = name.partition("=")
        self.assertEqual(kind, spec["kind"])
        [edits] = [one["containerEdits"] for one in spec["devices"] if one["name"] == which]
        self.assertEqual(edits["deviceNodes"], [{"path": "/dev/null", "permissions": "rw"}])
        # A container refers to the request; that of a list is allocated by one of its subrequests.
        [device] = self.prepared(self.claim("b", result("eth1-macvlan-2", "nic/fast")))
        self.assertEqual((device["request_names"], len(device["cdi_device_ids"])), (["nic"], 1))


SHARED = slots(2, SLOT, "eth1", ipam=ledger.pool("10.60.0.0/24"))
SHARED["slots"] |= {"bandwidth": "1G"}


class Shares(DraTest):
    def test_claims_that_share_a_parent_get_a_slot_and_their_bandwidth_each(self):
        self.start(SHARED)
        claims = [self.claim(f"web-{n}-nic", share("eth1-macvlan", rate), pod=f"web-{n}") for n, rate in enumerate(["200M", "300M"])]
        for n, claim in enumerate(claims):
            [device] = self.prepared(claim, pod=f"web-{n}")
            self.assertEqual(device["share_id"], claim["status"]["allocation"]["devices"]["results"][0]["shareID"])
        self.assertEqual(self.promises(), {"eth1:macvlan:1": ("uid-web-0", "web-0-nic"), "eth1:macvlan:2": ("uid-web-1", "web-1-nic")})
        third = self.claim("web-2-nic", share("eth1-macvlan", "100M"), pod="web-2")
        self.assertIn("each of its slots is a pod's", self.refusal(third))
        pod = self.pod()
        self.add(pod)
        self.assertIn("rate 200Mbit", run("tc", "-n", pod.name, "qdisc", "show", "dev", "net1"))
        self.assertEqual([device["share_id"] for device in self.of.prepare(claims[0])],
                         [claims[0]["status"]["allocation"]["devices"]["results"][0]["shareID"]])
        self.remove(pod)
        self.end(claims[0])
        self.prepared(third, pod="web-2")
        self.assertEqual(self.promises()["eth1:macvlan:1"], ("uid-web-2", "web-2-nic"))

    def test_a_share_of_a_parent_that_is_back_is_prepared(self):
        self.start(SHARED)
        run("ip", "link", "del", "eth1")
        self.assertTrue(wait_for(lambda: self.of.health() == {"eth1-macvlan": False}), self.of.health())
        claim = self.claim("a", share("eth1-macvlan", "100M"))
        self.assertIn("device 'eth1-macvlan' vanished", self.refusal(claim))
        ledger.make_parent()
        self.prepared(claim)

    def test_a_claim_is_of_the_links_that_the_node_has_now(self):
        self.start(POOLS[0])
        run("ip", "link", "del", "dev0")
        claim = self.claim("a", result("netdev-dev0"))
        self.assertRegex(self.refusal(claim), "is none of this node's|vanished")
        ledger.make_nic("dev0")
        self.prepared(claim)
        run("ip", "link", "set", "dev0", "down", "name", "dev1")
        self.assert_error(self.call("ADD", self.pod()), 11, "claim device 'netdev:dev0': its link does not exist")

    def test_two_shares_of_one_claim_are_two_slots(self):
        self.start(SHARED)
        self.prepared(self.claim("a", share("eth1-macvlan", "100M", "one"), share("eth1-macvlan", "100M", "two")))
        self.assertEqual(len(self.promises()), 2)

    def test_a_claim_lets_no_traffic_past_its_limit(self):
        self.start(SHARED)
        claim = self.claim("a", share("eth1-macvlan", "1M"), config=[opaque({"plugins": [{"type": "bandwidth", "unshapedSubnets": ["0.0.0.0/0"]}]})])
        self.assertIn("plugins[0].unshapedSubnets: expected no such key: the bandwidth of the claim limits all traffic", self.refusal(claim))

    def test_a_limit_of_the_pool_that_is_stricter_stays(self):
        self.start({**SHARED, "plugins": SHARED["plugins"] + [{"type": "bandwidth", "egressMode": "pod", "egressRate": 50_000_000,
                                                               "burstTime": 10}]})
        self.prepared(self.claim("a", share("eth1-macvlan", "100M"), config=[
            opaque({"plugins": [{"type": "bandwidth", "egressRate": 900_000_000}]})]))
        [limit] = [one for one in json.loads(ledger.entry("eth1:macvlan:1")["plugins"]) if one["type"] == "bandwidth"]
        self.assertEqual(limit["egressRate"], 100_000_000)  # what the claim says is no more than it consumes
        self.prepared(self.claim("b", share("eth1-macvlan", "100M"), pod="web-1"), pod="web-1")
        [limit] = [one for one in json.loads(ledger.entry("eth1:macvlan:2")["plugins"]) if one["type"] == "bandwidth"]
        self.assertEqual(limit["egressRate"], 50_000_000)


if __name__ == "__main__":
    suite.main(per_processor=2)
