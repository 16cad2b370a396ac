#!/usr/bin/env python3
"""From Allocate to traffic: a kubelet, patchbay-agent and the plugin devices, with the agent killed at each step between."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, kubelet, ledger, suite  # noqa: E402
from support.agent import Agent, nics, slots  # noqa: E402
from support.kubelet import Kubelet  # noqa: E402
from support.ledger import NIC, SLOT, LedgerTest, make_nic, make_parent  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run, wait_for  # noqa: E402

POOLS = [nics("dev*", force=["dev0"], ipam=ledger.pool("10.50.0.0/24")),
         slots(4, SLOT, "eth1", ipam=ledger.pool("10.60.0.0/24"))]
BRIDGE = "vendor.example/bridge"
#: Pools whose devices are attached by more than one plugin, or by one that is no link of the node.
CHAINS = [nics("dev0", force=["dev0"], plugins=[{"type": "host-device", "ipam": ledger.pool("10.50.0.0/24")},
                                                {"type": "tuning", "mtu": 1400, "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"}},
                                                {"type": "sbr"}]),
          {"resource": BRIDGE, "slots": {"count": 2},
           "plugins": [{"type": "bridge", "bridge": "br-slots", "isGateway": True, "ipam": ledger.pool("10.70.0.0/24")}]}]
#: Where the agent is killed, and whether it is started again.
STEPS = [(f"{moment}, and {'started again' if again else 'stays away'}", (moment, again))
         for moment in ("after Allocate", "after the kubelet lists the pod", "after ADD", "before DEL") for again in (True, False)]


class AgentTest(LedgerTest):
    def start(self, *pools):
        if reason := agent.why_impossible() or kubelet.why_impossible():
            self.skipTest(reason)
        make_nic("dev0")
        make_parent()
        self.of = Kubelet()
        self.addCleanup(lambda: self.of.kill())
        self.by = Agent(*pools)
        self.addCleanup(self.by.process.wait)
        self.addCleanup(lambda: self.by.process.kill())
        self.assertTrue(wait_for(lambda: all(self.of.devices(one["resource"]) for one in pools), 20), self.by.log)


class Chains(AgentTest):
    def test_a_device_and_a_slot_get_the_plugins_of_their_pools(self):
        self.start(*CHAINS)
        before = snapshot()
        self.of.allocate(NIC, ["netdev:dev0"])
        self.of.allocate(BRIDGE, ["bridge:2"])
        self.of.own("shop", "web-0", {NIC: ["netdev:dev0"], BRIDGE: ["bridge:2"]})
        pod = self.pod()
        result = self.add(pod)
        addresses = {result["interfaces"][one["interface"]]["name"]: one["address"].split("/")[0] for one in result["ips"]}
        self.assertEqual(sorted(addresses), ["eth0", "net1", "net2"])
        self.ping(pod, "10.70.0.1")
        pod.run("ping", "-c1", "-W2", "-I", addresses["net2"], "10.50.0.1")
        [link] = json.loads(run("ip", "-n", pod.name, "-j", "link", "show", "net2"))
        self.assertEqual(link["mtu"], 1400)
        self.assertEqual(pod.run("cat", "/proc/sys/net/ipv4/conf/net2/arp_filter").strip(), "1")
        rules = json.loads(run("ip", "-n", pod.name, "-j", "rule"))
        self.assertIn(addresses["net2"], [one["src"] for one in rules])
        self.assertEqual(len(json.loads(run("ip", "-j", "link", "show", "master", "br-slots"))), 1)
        self.assert_ok(self.call("CHECK", pod, prevResult=result))
        self.assert_ok(self.call("GC", None, **{"cni.dev/valid-attachments": [{"containerID": pod.name, "ifname": "eth0"}]}))
        self.ping(pod, "10.70.0.1")
        pod.run("ping", "-c1", "-W2", "-I", addresses["net2"], "10.50.0.1")
        self.remove(pod)
        pod.remove()
        self.assertEqual((ledger.holders(), self.leases()), ({}, {}))
        self.assert_same({place: what for place, what in before.items() if "netns" not in place},
                         ignore=lambda place: left_by_design(place) or "netns" in place or place.startswith("file/run/")
                         or "br-slots" in place)


    def test_a_link_that_the_node_uses_since_Allocate_is_not_moved(self):
        self.start(nics("dev0"))
        run("ip", "link", "set", "dev0", "up")
        self.of.allocate(NIC, ["netdev:dev0"])
        self.of.own("shop", "web-0", {NIC: ["netdev:dev0"]})
        run("ip", "route", "add", "default", "dev", "dev0")
        run("ip", "link", "set", "dev0", "mtu", "1400")  # the links are looked at again
        self.assertTrue(wait_for(lambda: "code" in self.by.claim("shop", "web-0", "uid-web-0"), 5), self.by.log)
        pod = self.pod()
        self.assert_error(self.call("ADD", pod), 7, "the node uses it: default route of the node")
        run("ip", "route", "del", "default")
        run("ip", "link", "set", "dev0", "mtu", "1500")
        self.assertTrue(wait_for(lambda: self.call("ADD", pod).ok, 5), self.by.log)
        self.assertIn("net1", self.names(pod))


@suite.spread
class Together(AgentTest):
    def setUp(self):
        super().setUp()
        self.start(*POOLS)
        self.assertEqual(len(self.of.devices(SLOT)), 4)
        self.nic = next(iter(self.of.devices(NIC)))
        self.slot = sorted(self.of.devices(SLOT))[0]

    def allocate(self):
        self.of.allocate(NIC, [self.nic])
        self.of.allocate(SLOT, [self.slot])

    def list_pod(self, name="web-0"):
        self.of.own("shop", name, {NIC: [self.nic], SLOT: [self.slot]})

    def assert_attached(self, pod):
        self.ping(pod, "10.50.0.1")
        self.ping(pod, "10.60.0.1")
        self.assertEqual(ledger.holders(), {self.nic: pod.name, self.slot: pod.name})

    def test_a_pod_gets_what_it_asks_for_and_its_next_sandbox_too(self):
        before = snapshot()
        self.allocate()
        self.list_pod()
        for _ in range(2):
            pod = self.pod()
            result = self.add(pod)
            self.assertEqual([one["name"] for one in result["interfaces"]], ["eth0", "net1", "net2"])
            self.assert_attached(pod)
            self.assert_ok(self.call("CHECK", pod, prevResult=result))
            self.remove(pod)
            pod.remove()
        self.assertEqual((ledger.holders(), self.leases()), ({}, {}))
        self.assert_same({place: what for place, what in before.items() if "netns" not in place},
                         ignore=lambda place: left_by_design(place) or "netns" in place or place.startswith("file/run/"))

    def test_a_pod_without_devices_passes_beside_one_with(self):
        self.allocate()
        self.list_pod()
        self.of.own("shop", "web-1", {})
        self.assertEqual(len(self.add(self.pod(), of="web-1")["interfaces"]), 1)

    @suite.cases([("Allocate", False), ("it has been listed", True)])
    def a_pod_that_the_kubelet_does_not_know_is_tried_again_after(self, listed):
        """The kubelet has been started again, and the runtime goes on with the pod's sandbox."""
        self.allocate()
        if listed:
            self.list_pod()
            self.assertTrue(wait_for(lambda: all((ledger.entry(one) or {}).get("pod") for one in (self.nic, self.slot))), self.by.log)
        self.of.restart()
        pod = self.pod()
        self.assert_error(self.call("ADD", pod), 11, "the kubelet does not know it")
        self.assertEqual((ledger.holders(), self.names(pod)), ({}, {"lo"}))
        self.list_pod()
        self.add(pod)
        self.assert_attached(pod)

    def test_an_instance_whose_config_lacks_the_resource_passes_no_pod_without_its_device(self):
        """During an upgrade, in which the earlier instance still serves Allocate."""
        two = Agent(POOLS[1], folder="/run/agent2")
        self.addCleanup(two.process.wait)
        self.addCleanup(two.process.kill)
        self.assertTrue(wait_for(lambda: len(two.status()) == 1), two.log)
        self.of.allocate(NIC, [self.nic])
        self.of.own("shop", "web-0", {NIC: [self.nic]})
        pod = self.pod()
        self.add(pod)
        self.ping(pod, "10.50.0.1")

    def test_a_pod_of_the_same_name_does_not_get_the_device_of_the_earlier_one(self):
        self.allocate()
        self.list_pod()
        one, two = self.pod(), self.pod()
        self.add(one)
        self.assert_error(self.call("ADD", two, uid="later"), 11)
        self.assert_attached(one)

    @suite.cases(STEPS)
    def with_the_agent_killed(self, row):
        moment, again = row
        self.allocate()
        if moment == "after Allocate":
            self.by.kill()
        self.list_pod()
        if moment == "after the kubelet lists the pod":
            self.by.kill()
        if again and not self.by.is_alive():
            self.by.start()
        pod = self.pod()
        outcome = self.call("ADD", pod)
        if not outcome.ok:  # nobody knows yet whose the devices are
            self.assertFalse(again, str(outcome))
            self.assert_error(outcome, 11)
            self.assertEqual((ledger.holders(), self.names(pod)), ({}, {"lo"}))
            self.by.start()
            self.assert_ok(self.call("ADD", pod))
        self.assert_attached(pod)
        if moment in ("after ADD", "before DEL"):
            self.by.kill()
            if again:
                self.by.start()
        self.assert_attached(pod)
        self.remove(pod)
        self.remove(pod)
        self.assertEqual((ledger.holders(), ledger.marks(), self.leases()), ({}, [], {}))
        self.assertIn("dev0", self.names())


if __name__ == "__main__":
    suite.main(needs=("ping",), per_processor=2)
