#!/usr/bin/env python3
"""Limits that are for some networks alone: the tree in the kernel, and what it does to packets."""

import contextlib
import os
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.bandwidth import (BOTH, POD, BandwidthTest, classes, ifb_name, qdiscs,  # noqa: E402
                               runtime, subnets)
from support.world import run, wait_for  # noqa: E402

V4, V6 = "10.0.0.0/8", "2001:db8::/32"
# tc's words of a network's filter, to it and from it.
TO = {"10.0.0.0/8": ("ip", ["0a000000/ff000000 at 16"]),
      "2001:db8::/32": ("ipv6", ["20010db8/ffffffff at 24"]),
      "2001:db8:1:2::/64": ("ipv6", ["20010db8/ffffffff at 24", "00010002/ffffffff at 28"]),
      "192.0.2.128/25": ("ip", ["c0000280/ffffff80 at 16"]),
      "0.0.0.0/0": ("ip", ["00000000/00000000 at 0"]),
      "::/0": ("ipv6", ["00000000/00000000 at 0"])}
FROM = {"10.0.0.0/8": ("ip", ["0a000000/ff000000 at 12"]),
        "2001:db8::/32": ("ipv6", ["20010db8/ffffffff at 8"]),
        "2001:db8:1:2::/64": ("ipv6", ["20010db8/ffffffff at 8", "00010002/ffffffff at 12"]),
        "192.0.2.128/25": ("ip", ["c0000280/ffffff80 at 12"]),
        "0.0.0.0/0": ("ip", ["00000000/00000000 at 0"]),
        "::/0": ("ipv6", ["00000000/00000000 at 0"])}
LISTS = [("one network", [V4]), ("IPv4 and IPv6", [V4, V6]),
         ("several of each", ["192.0.2.128/25", "2001:db8:1:2::/64", V4, V6]),
         ("all", ["0.0.0.0/0", "::/0"])]
UNLIMITED = ("800Gbit", "800Gbit")


@suite.spread
class Tree(BandwidthTest):
    def assert_tree(self, dev, networks, is_shaped, words, rates):
        kind, handle, options = qdiscs(dev)["root"]
        self.assertEqual((kind, handle), ("htb", "1:"))
        self.assertEqual(int(options["default"], 16), 1 if is_shaped else 0x30)
        self.assertEqual(classes(dev), {"1:1": UNLIMITED, "1:30": rates})
        flow = "1:30" if is_shaped else "1:1"
        self.assertEqual(sorted(subnets(dev)), sorted((*words[n], flow) for n in networks))

    @suite.cases([(f"{key} of {name}{', in the pod' if mode else ''}", (key, networks, mode))
                  for key in ("shapedSubnets", "unshapedSubnets") for name, networks in LISTS
                  for mode in ({}, POD)])
    def is_made_for(self, row):
        key, networks, mode = row
        one = self.container()
        keys = BOTH | mode | {key: networks}
        result = self.add(one, **keys)
        self.assert_tree(one.outside, networks, key == "shapedSubnets", FROM, ("8Mbit", "16Mbit"))
        egress = (networks, key == "shapedSubnets", TO, ("4Mbit", "8Mbit"))
        if mode:
            with one.inside():
                self.assert_tree("eth0", *egress)
        else:
            self.assert_tree(ifb_name("pod1"), *egress)
        self.check(one, **keys | {"prevResult": result})
        self.delete(one, **keys)
        self.assertEqual(qdiscs(one.outside), {})

    @suite.cases([("the runtime's", runtime(**BOTH, unshapedSubnets=[V4])),
                  ("the config's, of the runtime's limits",
                   {"unshapedSubnets": [V4]} | runtime(**BOTH)),
                  ("the config's, and not the runtime's",
                   {"unshapedSubnets": [V4]} | runtime(**BOTH, shapedSubnets=[V6])),
                  ("with host bits", {"unshapedSubnets": ["10.9.8.7/8"]} | BOTH),
                  ("beside an empty list", {"unshapedSubnets": [V4], "shapedSubnets": []} | BOTH)])
    def is_made_of(self, keys):
        one = self.container()
        self.add(one, **keys)
        self.assert_tree(one.outside, [V4], False, FROM, ("8Mbit", "16Mbit"))
        self.check(one, **keys)
        self.delete(one, **keys)

    def test_of_many_networks_is_whole(self):
        """More than one message's worth of answers."""
        one = self.container()
        networks = [f"10.{i}.{j}.0/24" for i in range(4) for j in range(250)]
        self.add(one, shapedSubnets=networks, **BOTH)
        self.assertEqual(len(subnets(one.outside)), 1000)
        self.assertEqual(len(subnets(ifb_name("pod1"))), 1000)
        self.check(one, shapedSubnets=networks, **BOTH)
        self.delete(one, shapedSubnets=networks, **BOTH)

    @suite.cases([("empty", {"shapedSubnets": []}), ("null", {"unshapedSubnets": None})])
    def is_not_made_of_a_list_that_is(self, keys):
        one = self.container()
        self.add(one, **BOTH | keys)
        self.assertEqual(qdiscs(one.outside)["root"][0], "tbf")


# A burst that is gone at once, and a rate that one second shows.
SLOW_TO_POD = {"ingressRate": 1_000_000, "ingressBurst": 80_000}
SLOW_FROM_POD = {"egressRate": 1_000_000, "egressBurst": 80_000}
NEAR = {4: "198.51.100.1", 6: "2001:db8:1::1"}
FAR = {4: "203.0.113.1", 6: "2001:db8:2::1"}
NEAR_NETWORKS = ["198.51.100.0/24", "2001:db8:1::/48"]


@suite.spread
class Traffic(BandwidthTest):
    """The node has addresses in two networks; a pod speaks with both."""

    def setUp(self):
        super().setUp()
        self.one = self.container()
        for address in (*NEAR.values(), *FAR.values()):
            run("ip", "addr", "add", f"{address}/{128 if ':' in address else 32}", "dev", "lo")
        run("ip", "addr", "add", "fd00:1::1/64", "dev", self.one.outside, "nodad")
        self.one.run("ip", "addr", "add", "fd00:1::2/64", "dev", "eth0", "nodad")
        self.one.run("ip", "-6", "route", "add", "default", "via", "fd00:1::1")
        self.inside = {4: self.one.address, 6: "fd00:1::2"}
        # The kernels of both ends are ready for IPv6 some time after the links are up.
        for address in (NEAR[6], FAR[6]):
            self.assertTrue(wait_for(lambda address=address: " 0% packet loss" in self.one.run(
                "ping", "-c1", "-W1", address, check=False), 10))
        self.assertTrue(wait_for(lambda: " 0% packet loss" in run(
            "ping", "-c1", "-W1", self.inside[6], check=False), 10))

    def arrived(self, remote, direction, family, seconds=0.8):
        """How many bits per second of 4 Mbit/s arrive."""
        there, here = (remote, family), (self.inside[family], family)
        receiver = sender = None
        try:
            if direction == "egress":
                receiver = datagrams(*there)
                with self.one.inside():
                    sender = datagrams(*here)
            else:
                with self.one.inside():
                    receiver = datagrams(*here)
                sender = datagrams(*there)
            return 8 * flood(sender, receiver, seconds) / seconds
        finally:
            for end in (receiver, sender):
                if end:
                    end.close()

    @suite.cases([(f"{key}, IPv{family}, {direction}{', in the pod' if mode else ''}",
                   (key, family, direction, mode))
                  for key in ("shapedSubnets", "unshapedSubnets") for family in (4, 6)
                  for direction, mode in (("ingress", {}), ("egress", {}), ("egress", POD))])
    def is_told_apart_by(self, row):
        key, family, direction, mode = row
        limit = SLOW_FROM_POD if direction == "egress" else SLOW_TO_POD
        self.add(self.one, **limit, **mode, **{key: NEAR_NETWORKS})
        near = self.arrived(NEAR[family], direction, family)
        far = self.arrived(FAR[family], direction, family)
        limited, free = (near, far) if key == "shapedSubnets" else (far, near)
        self.assertLess(limited, 2_000_000, f"{limited:.0f} limited, {free:.0f} free")
        self.assertGreater(free, 3_000_000, f"{limited:.0f} limited, {free:.0f} free")

    def test_the_other_direction_is_not_limited(self):
        self.add(self.one, shapedSubnets=NEAR_NETWORKS, **SLOW_FROM_POD)
        self.assertGreater(self.arrived(NEAR[4], "ingress", 4), 3_000_000)


def datagrams(address, family):
    end = socket.socket(socket.AF_INET6 if family == 6 else socket.AF_INET, socket.SOCK_DGRAM)
    end.bind((address, 0))
    return end


def flood(sender, receiver, seconds):
    """Sends 4 Mbit/s in datagrams of 1000 bytes; returns how many bytes came."""
    begin = time.monotonic()
    sent = came = 0
    receiver.settimeout(0)
    while (now := time.monotonic()) < begin + seconds:
        while sent < (now - begin) * 500_000:
            sender.sendto(bytes(1000), receiver.getsockname()[:2])
            sent += 1000
        with contextlib.suppress(BlockingIOError):
            while True:
                came += len(receiver.recv(2000))
        time.sleep(0.002)
    return came


if __name__ == "__main__":
    suite.main(needs=("ping",), per_processor=2)
