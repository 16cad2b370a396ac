#!/usr/bin/env python3
"""The limits of bandwidth from the first ADD to the last DEL: what they are in the kernel, what
changes them, and what is left of them."""

import contextlib
import itertools
import json
import os
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.bandwidth import (BOTH, EDT, EGRESS, INGRESS, POD, BandwidthTest, bucket,  # noqa: E402
                               ifb_name, ifbs, qdiscs, redirections)
from support.plugin import REFERENCE, cni, has_reference, have  # noqa: E402
from support.shaping import KUBERNETES_BURST  # noqa: E402
from support.snapshot import pod_snapshot, snapshot  # noqa: E402
from support.world import run, umount, wait_for  # noqa: E402

TO_POD, ON_NODE, IN_POD = "to the pod", "from the pod, on the node", "from the pod, in it"
SLOW_TO = (1_000_000, 100_000, 25_000)
SLOW_FROM = (500_000, 50_000, 25_000)
KIBIBYTES = 1024


def runtime(**keys):
    return {"runtimeConfig": {"bandwidth": keys}}


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
     {TO_POD: (2_500_000, 512 << 20, 25_001)}),
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
ASKED_EDT = [("both ways in mode edt", BOTH | EDT), ("from the pod in mode edt", EGRESS | EDT)]


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
                self.assertEqual(file.read(), "")
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
        self.refused(one, 999, "another link has the name", **BOTH)

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
        self.refused(one, 999, f"its root queue is '{kind}' with handle 7:", **INGRESS)

    def test_of_a_root_queue_of_somebody_else_in_the_pod(self):
        one = self.container()
        one.run("tc", "qdisc", "add", "dev", "eth0", "root", "handle", "7:", "htb")
        self.refused(one, 999, "its root queue is 'htb'", **BOTH | POD)

    @suite.cases([("ingress", "ingress"), ("clsact", "clsact")])
    def of_filters_of_somebody_else(self, kind):
        one = self.container()
        run("tc", "qdisc", "add", "dev", one.outside, kind)
        run("tc", "filter", "add", "dev", one.outside, "ingress", "pref", "9", "u32",
            "match", "u32", "0", "0", "flowid", "1:1")
        self.refused(one, 999, "somebody else filters there", **BOTH)
        # Without them it works.
        self.add(one, **BOTH | POD)
        self.delete(one, **BOTH | POD)
        self.assertEqual(qdiscs(one.outside)["ffff:fff1"][0], kind)

    def test_without_the_interfaces_of_the_result(self):
        one = self.container()
        self.refused(one, 999, "no interfaces provided",
                     prevResult=one.result() | {"interfaces": [], "ips": []}, **EGRESS)

    def test_with_another_name_in_the_result(self):
        one = self.container()
        prev = one.result()
        prev["interfaces"][0]["name"] = "other"
        self.refused(one, 999, "no veth peer of container interface found in host ns",
                     prevResult=prev, **EGRESS)

    def test_with_the_name_in_a_sandbox(self):
        one = self.container()
        prev = one.result()
        prev["interfaces"][0]["sandbox"] = one.path
        self.refused(one, 999, "no veth peer of container interface found in host ns",
                     prevResult=prev, **INGRESS)

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
        self.assertIn('egressMode "pod"', error["details"])
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


# Keys of the first ADD and of the second one, and the limits then.
CHANGES = [
    ("other rates", BOTH, {"ingressRate": 80_000_000, "ingressBurst": 8_000_000,
                           "egressRate": 40_000_000, "egressBurst": 4_000_000}),
    ("fewer limits: to the pod", BOTH, INGRESS),
    ("fewer limits: from the pod", BOTH, EGRESS),
    ("the other limit", INGRESS, EGRESS),
    ("more limits", EGRESS, BOTH),
    ("none, in words", runtime(**BOTH), runtime(ingressRate=0, egressRate=0)),
    ("the same", BOTH, BOTH),
    ("a latency", BOTH, BOTH | {"latency": 100}),
    ("another mode", BOTH, BOTH | POD),
    ("subnets", BOTH, BOTH | {"unshapedSubnets": ["10.0.0.0/8", "fd00::/8"]}),
    ("other subnets", BOTH | {"unshapedSubnets": ["10.0.0.0/8", "10.1.0.0/16"]},
     BOTH | {"unshapedSubnets": ["10.0.0.0/9", "fd00::/8"]}),
    ("subnets in the other list", BOTH | {"unshapedSubnets": ["10.0.0.0/8"]},
     BOTH | {"shapedSubnets": ["10.0.0.0/8"]}),
    ("subnets and other rates", BOTH | {"shapedSubnets": ["10.0.0.0/8"]},
     {"ingressRate": 80_000_000, "ingressBurst": 8_000_000, "shapedSubnets": ["10.0.0.0/8"]}),
    ("no subnets any more", BOTH | {"unshapedSubnets": ["10.0.0.0/8"]}, BOTH),
]


def everything(one):
    """What the limits of a pod are in the kernel, in tc's words."""
    found = {}
    for dev in (one.outside, *ifbs()):
        words = run("tc", "-d", "qdisc", "show", "dev", dev) + run("tc", "class", "show", "dev", dev)
        found[dev] = sorted(words.splitlines())
        for parent in ("1:", "ffff:"):
            listed = run("tc", "filter", "show", "dev", dev, "parent", parent)
            found[dev].append([line for line in listed.splitlines() if "index" not in line])
    return found | {"pod": one.run("tc", "-d", "qdisc", "show", "dev", "eth0")}


@suite.spread
class Update(BandwidthTest):
    """An ADD of what is there already."""

    @suite.cases([(f"{name}{', in the pod' if mode else ''}{', and back' if back else ''}",
                   (old | mode, new | mode) if not back else (new | mode, old | mode))
                  for name, old, new in CHANGES for mode in ({}, POD) for back in (False, True)
                  if name != "another mode" or not mode])
    def makes_the_same_as_a_single_ADD(self, row):
        old, new = row
        one = self.container()
        wanted_result = self.add(one, **new)
        wanted = everything(one)
        self.delete(one, **new)
        empty = everything(one)
        self.add(one, **old)
        result = self.add(one, **new)
        self.assertEqual(everything(one), wanted)
        self.check(one, **new)
        names = [i["name"] for i in result["interfaces"]]
        self.assertEqual(names, [i["name"] for i in wanted_result["interfaces"]])
        # A runtime that feeds the result of the first into the second.
        again = self.add(one, **new | {"prevResult": result})
        self.assertEqual([i["name"] for i in again["interfaces"]], names)
        self.delete(one, **new)
        self.assertEqual(everything(one), empty)

    def test_of_the_reference_s_limits_makes_them_ours(self):
        if not has_reference("bandwidth"):
            self.skipTest(f"the Go plugins are not in {REFERENCE}")
        one = self.container()
        self.add(one, {"directory": REFERENCE}, **BOTH)
        self.add(one, **EGRESS)
        self.assertEqual(self.limits(one), {ON_NODE: SLOW_FROM})
        self.assertIn("id: pod1", ifbs()[ifb_name("pod1")])
        self.assertEqual(len(redirections(one.outside)), 2, "its filter does as well")
        self.check(one, **EGRESS)
        self.delete(one, **EGRESS)
        self.assertEqual(qdiscs(one.outside), {})

    def test_repairs_what_the_DEL_of_the_reference_left(self):
        """Its filter leads to a device that is gone, and drops everything."""
        if not has_reference("bandwidth"):
            self.skipTest(f"the Go plugins are not in {REFERENCE}")
        one = self.container()
        self.add(one, {"directory": REFERENCE}, **EGRESS)
        self.delete(one, {"directory": REFERENCE}, **EGRESS)
        self.assertIn("100% packet loss", one.run("ping", "-c1", "-W1", one.gateway, check=False))
        self.add(one, **EGRESS)
        one.run("ping", "-c1", "-W2", one.gateway)
        self.assertEqual(self.limits(one), {ON_NODE: SLOW_FROM})

    def test_follows_the_MTU(self):
        one = self.container()
        self.add(one, **EGRESS)
        run("ip", "link", "set", one.outside, "mtu", "9000")
        self.add(one, **EGRESS)
        device, = json.loads(run("ip", "-j", "link", "show", "type", "ifb"))
        self.assertEqual(device["mtu"], 9000)

    @suite.cases([("on the node", {}), ("in the pod", POD),
                  ("with subnets", {"shapedSubnets": ["10.0.0.0/8"]}),
                  ("with subnets in the pod", POD | {"shapedSubnets": ["10.0.0.0/8"]})])
    def changes_the_rate_of_a_connection_that_goes_on(self, mode):
        one = self.container()
        slow = {"egressRate": 4_000_000, "egressBurst": 160_000} | mode
        fast = {"egressRate": 40_000_000, "egressBurst": 1_600_000} | mode
        self.add(one, **slow)
        with Stream(one) as stream:
            for keys, wanted in ((None, 4e6), (fast, 40e6), (slow, 4e6)):
                if keys:
                    self.add(one, **keys)
                done, seen = stream.settles_at(wanted)
                self.assertTrue(done, f"{wanted:.0f} bits/s are wanted, seen: {seen}")


class Stream:
    """One TCP connection from a pod to the node, whose sender, a process, sends what it can."""

    def __init__(self, pod):
        listener = socket.create_server((pod.gateway, 0))
        with pod.inside():
            sender = socket.create_connection(listener.getsockname()[:2], timeout=10)
        self.receiver = listener.accept()[0]
        listener.close()
        self.child = os.fork()
        if self.child == 0:
            self.receiver.close()
            sender.settimeout(None)
            with contextlib.suppress(OSError):
                while True:
                    sender.sendall(bytes(64 * KIBIBYTES))
            os._exit(0)
        sender.close()

    def rate(self, seconds=1):
        """Bits per second that arrive."""
        start, received = time.monotonic(), 0
        while (left := start + seconds - time.monotonic()) > 0:
            self.receiver.settimeout(left)
            with contextlib.suppress(TimeoutError):
                got = len(self.receiver.recv(256 * KIBIBYTES))
                if got == 0:
                    raise AssertionError("the connection has ended")
                received += got
        return 8 * received / (time.monotonic() - start)

    def settles_at(self, wanted, seconds=12):
        """Whether the rate comes to what is wanted, and what it was on the way there: the buckets
        are to be emptied, and TCP has to find out."""
        seen = []
        wait_for(lambda: seen.append(self.rate()) or 0.7 < seen[-1] / wanted < 1.1, seconds)
        return 0.7 < seen[-1] / wanted < 1.1, [round(rate) for rate in seen]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.receiver.close()
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)


def nothing(one):
    pass


def kill_namespace(one):
    one.remove()
    wait_for(lambda: one.outside not in run("ip", "link"))


def leave_mount_point(one):
    umount(one.path)
    wait_for(lambda: one.outside not in run("ip", "link"))


def remove_veth(one):
    run("ip", "link", "del", one.outside)


def remove_device(one):
    run("ip", "link", "del", ifb_name("pod1"))


def remove_buckets(one):
    run("tc", "qdisc", "del", "dev", one.outside, "root")
    with contextlib.suppress(RuntimeError):
        one.run("tc", "qdisc", "del", "dev", "eth0", "root")


# What happened between ADD and DEL, and what DEL is told.
SITUATIONS = [
    ("as usual", nothing, {}),
    ("with the namespace gone", kill_namespace, {}),
    ("with an empty mount point in its place", leave_mount_point, {}),
    ("with CNI_NETNS empty and the namespace gone", kill_namespace, {"options": {"netns": ""}}),
    ("with the veth gone", remove_veth, {}),
    ("with the buckets gone", remove_buckets, {}),
    ("without prevResult", nothing, {"prevResult": None}),
    ("with a broken prevResult", nothing, {"prevResult": []}),
    ("with a bad rate", nothing, {"ingressRate": "fast"}),
    ("with a rate without burst", nothing, {"ingressRate": 8, "ingressBurst": None}),
    ("with an unknown mode", nothing, {"egressMode": "moon"}),
    ("with bad subnets", nothing, {"shapedSubnets": ["x"]}),
]
MODES = [("ifb", {}), ("pod", POD), ("ifb with subnets", {"shapedSubnets": ["10.0.0.0/8", "::/0"]}),
         ("pod with subnets", POD | {"unshapedSubnets": ["10.0.0.0/8"]})]


@suite.spread
class Del(BandwidthTest):
    @suite.cases([(f"{name}, {mode}", (act, change, keys)) for (name, act, change), (mode, keys)
                  in itertools.product(SITUATIONS, MODES)])
    def leaves_nothing(self, row):
        act, change, keys = row
        before = snapshot()
        one = self.container()
        with_pod, inside = snapshot(), pod_snapshot(one)
        keys = BOTH | keys
        result = self.add(one, **keys)
        act(one)
        change = {"prevResult": result} | keys | change
        for _ in range(2):
            self.delete(one, change.pop("options", None), **change)
        if act in (nothing, remove_buckets):
            self.assert_same(with_pod)
            self.assert_same(inside, pod_snapshot(one))
        self.assertEqual(ifbs(), {})
        with contextlib.suppress(RuntimeError):
            one.remove()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(one.path)
        wait_for(lambda: one.outside not in run("ip", "link"))
        self.assert_same(before)

    def test_with_the_device_gone_leaves_a_pod_that_is_connected(self):
        one = self.container()
        self.add(one, **BOTH)
        remove_device(one)
        self.delete(one, **BOTH)
        self.assertIsNone(bucket(one.outside))

    def test_of_a_pod_that_goes_on_leaves_it_connected(self):
        """The reference leaves a filter that drops everything."""
        one = self.container()
        for keys in (BOTH, EGRESS, BOTH | POD):
            self.add(one, **keys)
            self.delete(one, **keys)
            one.run("ping", "-c1", "-W2", one.gateway)

    def test_without_the_runtime_s_words_removes_the_device(self):
        one = self.container()
        before = snapshot()
        self.add(one, **runtime(**EGRESS))
        self.delete(one)
        self.assert_same(before)

    @suite.cases(MODES)
    def without_ADD_changes_nothing(self, keys):
        one = self.container()
        before, inside = snapshot(), pod_snapshot(one)
        for options in ({}, {"netns": "/run/netns/never"}, {"netns": ""}):
            for limits in ({}, BOTH):
                self.delete(one, options, **limits | keys)
        self.assert_same(before)
        self.assert_same(inside, pod_snapshot(one))

    def test_leaves_others_queues_and_filters_alone(self):
        one = self.container()
        run("tc", "qdisc", "add", "dev", one.outside, "root", "handle", "7:", "htb")
        run("tc", "qdisc", "add", "dev", one.outside, "ingress")
        run("tc", "filter", "add", "dev", one.outside, "ingress", "pref", "9", "u32",
            "match", "u32", "0", "0", "flowid", "1:1")
        one.run("tc", "qdisc", "add", "dev", "eth0", "root", "handle", "7:", "htb")
        before, inside = everything(one), pod_snapshot(one)
        self.delete(one, **BOTH)
        self.assertEqual(everything(one), before)
        self.assert_same(inside, pod_snapshot(one))

    def test_leaves_a_filter_that_came_later(self):
        one = self.container()
        self.add(one, **EGRESS)
        run("tc", "filter", "add", "dev", one.outside, "parent", "ffff:", "pref", "9", "u32",
            "match", "u32", "0", "0", "flowid", "1:1")
        self.delete(one, **EGRESS)
        listed = run("tc", "filter", "show", "dev", one.outside, "parent", "ffff:")
        self.assertIn("pref 9 u32", listed)
        self.assertNotIn("pref 1 ", listed)
        one.run("ping", "-c1", "-W2", one.gateway)

    def test_leaves_other_pods_alone(self):
        one, other = self.container(), self.container()
        self.add(one, **BOTH)
        before = everything(one)
        self.add(other, **BOTH)
        self.delete(other, **BOTH)
        self.assertEqual(everything(one), before)
        self.check(one, **BOTH)

    def test_does_not_take_what_is_another_network_s(self):
        one = self.container()
        self.add(one, **EGRESS)
        self.delete(one, name="net2")
        self.assertEqual(self.limits(one), {ON_NODE: SLOW_FROM})


HALVES = {
    "the device": ["ip link add {ifb} txqueuelen 0 type ifb"],
    "the device, up": ["ip link add {ifb} txqueuelen 0 type ifb", "ip link set {ifb} up"],
    "the bucket to the pod": ["tc qdisc add dev {dev} root handle 1: tbf rate 1mbit burst 10k limit 9k"],
    "the device and its bucket": ["ip link add {ifb} txqueuelen 0 type ifb", "ip link set {ifb} up",
                                  "tc qdisc add dev {ifb} root handle 1: tbf rate 1mbit burst 10k "
                                  "limit 9k"],
    "the device and no filter": ["ip link add {ifb} txqueuelen 0 type ifb", "tc qdisc add dev {dev} ingress"],
    "a tree without classes": ["tc qdisc add dev {dev} root handle 1: htb default 30"],
}


@suite.spread
class Half(BandwidthTest):
    """An ADD that came to this, and no further."""

    @suite.cases([(f"{name}, {mode}", (commands, keys)) for (name, commands), (mode, keys)
                  in itertools.product(HALVES.items(), MODES)])
    def is_taken_up_by_the_next_ADD(self, row):
        commands, keys = row
        keys = BOTH | keys
        one = self.container()
        empty = everything(one)
        self.add(one, **keys)
        wanted = everything(one)
        self.delete(one, **keys)
        for command in commands:
            run(*command.format(ifb=ifb_name("pod1"), dev=one.outside).split())
        self.add(one, **keys)
        self.assertEqual(everything(one), wanted)
        self.delete(one, **keys)
        self.assertEqual(everything(one), empty)

    @suite.cases([(name, commands) for name, commands in HALVES.items()])
    def is_removed_by_DEL(self, commands):
        one = self.container()
        before = snapshot()
        for command in commands:
            run(*command.format(ifb=ifb_name("pod1"), dev=one.outside).split())
        self.delete(one, **BOTH)
        self.assert_same(before)


@suite.spread
class Gc(BandwidthTest):
    def gc(self, *keep, **more):
        valid = [{"containerID": one.name, "ifname": "eth0"} for one in keep]
        conf = {"cniVersion": "1.1.0", "name": "net1", "type": "bandwidth",
                "cni.dev/valid-attachments": valid} | more
        return cni("bandwidth", "GC", conf)

    def test_removes_the_devices_of_attachments_that_nobody_lists(self):
        ones = [self.container() for _ in range(4)]
        for one in ones:
            self.add(one, **EGRESS)
        self.assert_ok(self.gc(ones[0], ones[2]))
        self.assertEqual(set(ifbs()), {ifb_name("pod1"), ifb_name("pod3")})
        for one in (ones[0], ones[2]):
            self.check(one, **EGRESS)
        self.assert_ok(self.gc())
        self.assertEqual(ifbs(), {})

    def test_leaves_other_networks_and_other_devices(self):
        one, two = self.container(), self.container()
        self.add(one, name="net2", **EGRESS)
        run("ip", "link", "add", "mine", "type", "ifb")
        run("ip", "link", "add", "bwp0123456789ab", "type", "ifb")  # as the reference's
        self.add(two, **EGRESS)
        run("ip", "link", "add", "x", "alias", "8e48f37d5de60467-", "type", "bridge")
        self.assert_ok(self.gc())
        self.assertEqual(set(ifbs()),
                         {ifb_name("pod1", "net2"), "mine", "bwp0123456789ab"})

    def test_of_another_interface_of_a_container(self):
        one = self.container()
        self.add(one, **EGRESS)
        self.assert_ok(self.gc(**{"cni.dev/valid-attachments": [
            {"containerID": "pod1", "ifname": "eth1"}]}))
        self.assertEqual(ifbs(), {})

    @suite.cases([("no list", None), ("a word", "all"), ("an entry of null", [None])])
    def removes_nothing_for(self, broken):
        one = self.container()
        self.add(one, **EGRESS)
        conf = {"cni.dev/valid-attachments": broken}
        if broken is None:
            conf = {"cni.dev/other": []}
            outcome = cni("bandwidth", "GC", {"cniVersion": "1.1.0", "name": "net1",
                                              "type": "bandwidth"})
        else:
            outcome = self.gc(**conf)
        self.assert_error(outcome, 7)
        self.assertEqual(len(ifbs()), 1)


@suite.spread
class Status(BandwidthTest):
    def status(self, **keys):
        return cni("bandwidth", "STATUS", {"cniVersion": "1.1.0", "name": "net1",
                                           "type": "bandwidth"} | keys)

    @suite.cases([(mode, keys) for mode, keys in MODES] + [("fifo", {"queue": "fifo"})])
    def of_a_node_that_can_is_content_and_changes_nothing(self, keys):
        before = snapshot()
        self.assert_ok(self.status(**keys))
        self.assert_same(before)

    @suite.cases([("fq_codel", ({"queue": "fair"}, "fq_codel")), ("fq", (EDT, "fq"))])
    def names_what_the_kernel_lacks(self, row):
        keys, kind = row
        with contextlib.suppress(RuntimeError):
            run("tc", "qdisc", "add", "dev", "lo", "root", kind)
            self.skipTest(f"this kernel has {kind}")
        self.assert_error(self.status(**keys), 50, kind)
        one = self.container()
        before, inside = snapshot(), pod_snapshot(one)
        self.assert_error(self.call("ADD", one, **BOTH | keys), None, kind)
        self.assert_same(before)
        self.assert_same(inside, pod_snapshot(one))
        self.delete(one, **BOTH | keys)

    def test_refuses_a_broken_config(self):
        self.assert_error(self.status(egressMode="x"), 7, "egressMode")


if __name__ == "__main__":
    suite.main(needs=("ping",))
