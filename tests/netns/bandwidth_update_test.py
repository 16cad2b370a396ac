#!/usr/bin/env python3
"""An ADD of limits that are there changes them, and no connection breaks."""

import contextlib
import json
import os
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.bandwidth import (BOTH, EGRESS, INGRESS, ON_NODE, POD, SLOW_FROM,  # noqa: E402
                               BandwidthTest, everything, ifb_name, ifbs, qdiscs, redirections,
                               runtime)
from support.plugin import REFERENCE, has_reference  # noqa: E402
from support.world import run, wait_for  # noqa: E402

KIBIBYTES = 1024


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


if __name__ == "__main__":
    suite.main(needs=("ping",), per_processor=2)
