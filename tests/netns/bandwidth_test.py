#!/usr/bin/env python3
"""The limits of bandwidth as an ADD makes them in the kernel, and when it refuses to."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.bandwidth import (BOTH, EGRESS, IN_POD, INGRESS, ON_NODE, POD, SLOW_FROM,  # noqa: E402
                               SLOW_TO, TO_POD, BandwidthTest, bucket, ifb_name, ifbs, qdiscs,
                               redirections, runtime)
from support.plugin import cni, have  # noqa: E402
from support.shaping import KUBERNETES_BURST  # noqa: E402
from support.snapshot import pod_snapshot, snapshot  # noqa: E402
from support.world import run  # noqa: E402


# Keys, and the limits that they make.
ASKED = [
    ("both ways", BOTH, {TO_POD: SLOW_TO, ON_NODE: SLOW_FROM}),
    ("to the pod", INGRESS, {TO_POD: SLOW_TO}),
    ("from the pod", EGRESS, {ON_NODE: SLOW_FROM}),
    ("both ways in mode pod", BOTH | POD, {TO_POD: SLOW_TO, IN_POD: SLOW_FROM}),
    ("to the pod in mode pod", INGRESS | POD, {TO_POD: SLOW_TO}),
    ("from the pod in mode pod", EGRESS | POD, {IN_POD: SLOW_FROM}),
    ("the runtime's", runtime(**BOTH), {TO_POD: SLOW_TO, ON_NODE: SLOW_FROM}),
    ("the runtime's in other words", {"RuntimeConfig": {"bandWidth": {
        key.upper(): value for key, value in BOTH.items()}}}, {TO_POD: SLOW_TO, ON_NODE: SLOW_FROM}),
    ("the config's, and not the runtime's", INGRESS | runtime(**EGRESS), {TO_POD: SLOW_TO}),
    ("none, as the config says null", {"egressRate": None} | runtime(**BOTH),
     {TO_POD: SLOW_TO, ON_NODE: SLOW_FROM}),
    ("of zero by the config", {"egressRate": 0} | runtime(**BOTH), {}),
    ("of Kubernetes", runtime(ingressRate=20_000_000, ingressBurst=KUBERNETES_BURST),
     {TO_POD: (2_500_000, 512 << 20, 25_000)}),
    ("of the fastest link", {"ingressRate": 400_000_000_000, "ingressBurst": 80_000_000},
     {TO_POD: (50_000_000_000, 10_000_000, 25_000)}),
    ("with a burst time", BOTH | {"burstTime": 50},
     {TO_POD: (1_000_000, 50_000, 25_000), ON_NODE: (500_000, 25_000, 25_000)}),
    ("with a burst time and no burst", {"egressRate": 8_000_000, "burstTime": 50},
     {ON_NODE: (1_000_000, 50_000, 25_000)}),
    ("with a latency", {"ingressRate": 80_000_000, "ingressBurst": 800_000, "latency": 40},
     {TO_POD: (10_000_000, 100_000, 30_000)}),  # tc(8) counts what waits beside the burst
    ("with a latency too small for a large packet", INGRESS | {"latency": 40},
     {TO_POD: (1_000_000, 40_000, 0)}),
]


@suite.spread
class Add(BandwidthTest):
    @suite.cases([(name, (keys, wanted)) for name, keys, wanted in ASKED])
    def makes_limits(self, row):
        keys, wanted = row
        one = self.container()
        result = self.add(one, **keys)
        self.assertEqual(self.limits(one), wanted)
        self.check(one, **keys | {"prevResult": result})
        devices = {ifb_name("pod1")} if ON_NODE in wanted else set()
        self.assertEqual(set(ifbs()), devices)
        self.assertEqual([i["name"] for i in result["interfaces"]],
                         [one.outside, "eth0", *devices])
        self.delete(one, **keys | {"prevResult": result})
        self.assertEqual(self.limits(one), {})

    def test_gives_the_device_the_name_the_MTU_and_an_alias(self):
        one = self.container()
        run("ip", "link", "set", one.outside, "mtu", "1404")
        result = self.add(one, **EGRESS)
        device, = json.loads(run("ip", "-j", "-d", "link", "show", "type", "ifb"))
        self.assertEqual(device["ifname"], ifb_name("pod1"))
        self.assertEqual((device["mtu"], device.get("txqlen", 0)), (1404, 0))
        self.assertIn("UP", device["flags"])
        self.assertIn("net: net1, if: eth0, id: pod1", device["ifalias"])
        self.assertEqual(result["interfaces"][2],
                         {"name": device["ifname"], "mac": device["address"]})
        self.assertEqual(redirections(one.outside), [(device["ifname"], "stolen")])

    def test_passes_the_result_on_without_a_limit_and_asks_nothing_of_the_kernel(self):
        if have("strace"):
            self.skipTest("needs the program strace")
        one = self.container()
        before = snapshot()
        for keys in ({}, runtime(), {"egressMode": "pod"}, {"ingressRate": 0}):
            outcome = self.call("ADD", one, {"wrap": (
                "strace", "-qq", "-e", "trace=socket,setns,unshare", "-o", "/run/calls")}, **keys)
            self.assertEqual(self.assert_ok(outcome)["interfaces"], one.result()["interfaces"])
            with open("/run/calls", encoding="ascii") as file:
                # A local one tells the plugin its own network namespace.
                self.assertEqual([line for line in file if "AF_UNIX" not in line], [])
        os.unlink("/run/calls")
        self.assert_same(before)

    def test_finds_the_other_end_among_several_links_of_the_node(self):
        one, other = self.container(), self.container()
        prev = one.result()
        prev["interfaces"][:0] = [{"name": "cni0"}, {"name": other.outside}, {"name": "absent"}]
        prev["ips"][0]["interface"] += 3
        result = self.add(one, prevResult=prev, **BOTH)
        self.assertEqual(self.limits(one), {TO_POD: SLOW_TO, ON_NODE: SLOW_FROM})
        self.assertEqual(self.limits(other), {})
        self.assertEqual(len(result["interfaces"]), 6)

    @suite.cases([("IPv4 and IPv6", {})])
    def in_two_networks_limits_each(self, keys):
        one = self.container()
        one.connect("eth1", "second")
        self.add(one, **EGRESS)
        self.add(one, {"ifname": "eth1"}, name="net2", **{"egressRate": 8000, "egressBurst": 8000},
                 prevResult=one.result(ifname="eth1", outside="second"), **keys)
        self.assertEqual(set(ifbs()), {ifb_name("pod1"), ifb_name("pod1", "net2")})
        self.assertEqual(bucket(ifb_name("pod1", "net2"))[0], 1000)
        self.delete(one, **EGRESS)
        self.assertEqual(set(ifbs()), {ifb_name("pod1", "net2")})

    def test_of_a_second_interface_in_the_same_network_makes_a_device_of_its_own(self):
        """The reference's name does not tell them apart."""
        one = self.container()
        one.connect("eth1", "second")
        before = snapshot()
        second = {"prevResult": one.result(ifname="eth1", outside="second"),
                  "egressRate": 8000, "egressBurst": 8000}
        for first_to_go in ("eth0", "eth1"):
            self.add(one, **EGRESS)
            self.add(one, {"ifname": "eth1"}, **second)
            self.assertEqual(bucket(ifb_name("pod1"))[0], 500_000)
            self.assertEqual(bucket(ifb_name("pod1", ifname="eth1"))[0], 1000)
            self.check(one, **EGRESS)
            self.check(one, {"ifname": "eth1"}, **second)
            keys = {"eth0": EGRESS, "eth1": second}
            self.delete(one, {"ifname": first_to_go}, **keys.pop(first_to_go))
            (left, conf), = keys.items()
            self.add(one, {"ifname": left}, **conf)  # keeps its device
            self.check(one, {"ifname": left}, **conf)
            self.assertEqual(len(ifbs()), 1)
            self.delete(one, {"ifname": left}, **conf)
            self.assert_same(before)


@suite.spread
class Refusals(BandwidthTest):
    """Each leaves the node as it was."""

    def refused(self, one, code, says, **keys):
        before, inside = snapshot(), pod_snapshot(one)
        for _ in range(2):
            self.assert_error(self.call("ADD", one, **keys), code, says)
            self.assert_same(before)
            self.assert_same(inside, pod_snapshot(one))
        self.delete(one, **keys)
        self.assert_same(before)
        self.assert_same(inside, pod_snapshot(one))

    def test_of_a_device_name_that_is_taken(self):
        one = self.container()
        for name in (ifb_name("pod1"), ifb_name("pod1", ifname="eth0")):
            run("ip", "link", "add", name, "type", "bridge")
        self.refused(one, 999, "another link has this name", **BOTH)

    def test_of_a_name_that_is_taken_costs_only_the_name(self):
        one = self.container()
        run("ip", "link", "add", ifb_name("pod1"), "type", "bridge")
        self.add(one, **EGRESS)
        self.assertEqual(self.limits(one), {ON_NODE: SLOW_FROM})
        self.assertEqual(set(ifbs()), {ifb_name("pod1", ifname="eth0")})
        self.delete(one, **EGRESS)
        self.assertEqual(ifbs(), {})

    @suite.cases([("htb", "htb"), ("tbf of another handle", "tbf"), ("prio", "pfifo")])
    def of_a_root_queue_of_somebody_else_on_the_node(self, kind):
        one = self.container()
        more = {"tbf": ["rate", "1mbit", "burst", "10k", "limit", "10k"]}.get(kind, [])
        run("tc", "qdisc", "add", "dev", one.outside, "root", "handle", "7:", kind, *more)
        self.refused(one, 999, f"the root qdisc is '{kind}' with handle 7:", **INGRESS)

    def test_of_a_root_queue_of_somebody_else_in_the_pod(self):
        one = self.container()
        one.run("tc", "qdisc", "add", "dev", "eth0", "root", "handle", "7:", "htb")
        self.refused(one, 999, "the root qdisc is 'htb'", **BOTH | POD)

    @suite.cases([("ingress", "ingress"), ("clsact", "clsact")])
    def of_filters_of_somebody_else(self, kind):
        one = self.container()
        run("tc", "qdisc", "add", "dev", one.outside, kind)
        run("tc", "filter", "add", "dev", one.outside, "ingress", "pref", "9", "u32",
            "match", "u32", "0", "0", "flowid", "1:1")
        self.refused(one, 999, "another program's filter or qdisc", **BOTH)
        # Without them it works.
        self.add(one, **BOTH | POD)
        self.delete(one, **BOTH | POD)
        self.assertEqual(qdiscs(one.outside)["ffff:fff1"][0], kind)

    def test_of_a_veth_between_two_pods(self):
        one, other = self.container(), self.container()
        other.run("ip", "link", "add", "x", "type", "veth", "peer", "name", "net1", "netns", "pod1")
        prev = one.result(ifname="net1")
        before = snapshot()
        outcome = cni("bandwidth", "ADD", self.conf(one, prevResult=prev, **EGRESS),
                      netns=one.path, ifname="net1")
        self.assert_error(outcome, 999)
        self.assert_same(before)

    def test_of_an_interface_that_is_not_there(self):
        one = self.container()
        before = snapshot()
        self.assert_error(self.call("ADD", one, {"ifname": "eth7"}, **EGRESS), 999, "eth7")
        self.assert_same(before)

    def test_of_a_namespace_that_is_not_there(self):
        one = self.container()
        before = snapshot()
        self.assert_error(self.call("ADD", one, {"netns": "/run/netns/never"}, **EGRESS), 8)
        self.assert_same(before)

    @suite.cases([(name, verb) for name, verb in (("ADD", "ADD"), ("CHECK", "CHECK"))])
    def without_a_previous_result(self, verb):
        one = self.container()
        says = "must be called as chained plugin" if verb == "ADD" else \
            "must be called as a chained plugin"
        for keys in (BOTH, {}):
            self.assert_error(self.call(verb, one, prevResult=None, **keys), 7, says)


@suite.spread
class Macvlan(BandwidthTest):
    """An interface without another end on the node."""

    @suite.cases([("ifb", {}), ("ingress", INGRESS | POD)])
    def has_no_other_end_for(self, keys):
        one = self.container(kind="macvlan")
        before = snapshot()
        error = self.assert_error(self.call("ADD", one, **keys or EGRESS), 999)
        self.assertIn("no veth peer", error["msg"])
        self.assertIn('"egressMode" "pod"', error["details"])
        self.assert_same(before)

    def test_is_limited_in_the_pod(self):
        one = self.container(kind="macvlan")
        before = snapshot()
        for _ in range(2):
            result = self.add(one, **EGRESS | POD)
        with one.inside():
            self.assertEqual(bucket("eth0"), SLOW_FROM)
        self.assertEqual([i["name"] for i in result["interfaces"]], ["eth0"])
        self.check(one, **EGRESS | POD)
        self.assert_same(before)
        for _ in range(2):
            self.delete(one, **EGRESS | POD)
        with one.inside():
            self.assertIsNone(bucket("eth0"))


if __name__ == "__main__":
    suite.main(needs=("ping",))
