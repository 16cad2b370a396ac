#!/usr/bin/env python3
"""What limits of bandwidth leave behind: nothing, whatever happened before."""

import contextlib
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.bandwidth import (BOTH, EDT, EGRESS, MODES, ON_NODE, POD, SLOW_FROM,  # noqa: E402
                               BandwidthTest, bucket, everything, ifb_name, ifbs, runtime)
from support.plugin import cni  # noqa: E402
from support.snapshot import pod_snapshot, snapshot  # noqa: E402
from support.world import run, umount, wait_for  # noqa: E402


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
        with contextlib.suppress(FileNotFoundError):
            one.remove()
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

    @suite.cases([("a word", "all"), ("an entry of null", [None])])
    def removes_nothing_for(self, broken):
        one = self.container()
        self.add(one, **EGRESS)
        self.assert_error(self.gc(**{"cni.dev/valid-attachments": broken}), 7)
        self.assertEqual(len(ifbs()), 1)


@suite.spread
class Status(BandwidthTest):
    def status(self, **keys):
        return cni("bandwidth", "STATUS", {"cniVersion": "1.1.0", "name": "net1",
                                           "type": "bandwidth"} | keys)

    def test_without_limits_asks_no_more_of_the_node_than_ADD(self):
        """The limits come with the pod, or not at all."""
        one = self.container()
        nothing = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")
        for keys in ({}, EDT):
            conf = {"cniVersion": "1.1.0", "name": "net1", "type": "bandwidth"} | keys
            self.assert_ok(cni("bandwidth", "ADD", conf | {"prevResult": {}}, netns=one.path,
                               wrap=nothing))
            self.assert_ok(cni("bandwidth", "STATUS", conf, wrap=nothing))
            self.assert_error(cni("bandwidth", "STATUS", conf | BOTH, wrap=nothing), 50, "CAP_")

    @suite.cases([(mode, keys) for mode, keys in MODES] + [("fifo", {"queue": "fifo"})])
    def of_a_node_that_can_is_content_and_changes_nothing(self, keys):
        before = snapshot()
        self.assert_ok(self.status(**BOTH | keys))
        self.assert_same(before)

    @suite.cases([("fq_codel", ({"queue": "fair"}, "fq_codel")), ("fq", (EDT, "fq"))])
    def names_what_the_kernel_lacks(self, row):
        keys, kind = row
        with contextlib.suppress(RuntimeError):
            run("tc", "qdisc", "add", "dev", "lo", "root", kind)
            self.skipTest(f"this kernel has {kind}")
        self.assert_error(self.status(**BOTH | keys), 50, kind)
        self.assert_ok(self.status(**keys))
        one = self.container()
        before, inside = snapshot(), pod_snapshot(one)
        self.assert_error(self.call("ADD", one, **BOTH | keys), None, kind)
        self.assert_same(before)
        self.assert_same(inside, pod_snapshot(one))
        self.delete(one, **BOTH | keys)

    def test_refuses_a_broken_config(self):
        self.assert_error(self.status(egressMode="x"), 7, "egressMode")


if __name__ == "__main__":
    suite.main(needs=("ping",), per_processor=2)
