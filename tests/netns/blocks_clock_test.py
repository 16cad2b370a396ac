#!/usr/bin/env python3
"""cluster-pool with agents whose time of day is wrong by days, and jumps: wrong_clock.cc."""

import mmap
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, suite  # noqa: E402
from support.etcd_nodes import EtcdTest  # noqa: E402
from support.kubernetes_nodes import KubernetesTest  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.world import wait_for  # noqa: E402

CLOCK = os.path.join(OURS, "wrong_clock.so")


class Clock:
    """With either engine."""

    def setUp(self):
        super().setUp()
        self.clocks = {}

    def make_node(self, name, **conf):
        path = f"/run/clock-{name}"
        with open(path, "wb") as file:
            file.write(bytes(8))
        with open(path, "r+b") as file:
            self.clocks[name] = mmap.mmap(file.fileno(), 8)
        return super().make_node(name, env={"LD_PRELOAD": CLOCK, "PATCHBAY_CLOCK": path}, **conf)

    def jump(self, node, days):
        """The agent's clock is so far from the right time."""
        struct.pack_into("q", self.clocks[node.name], 0, days * 86400)

    def claims(self):
        return {name: (one["node"], one["claim"]) for name, one in self.objects().items()}

    def test_clocks_that_are_wrong_by_days_and_jump_change_nothing_and_hold_nobody_up(self):
        self.serve(tls=False)
        one, other, silent = self.nodes(3)
        self.pod_with(one, "10.9.0.65")
        self.pod_with(other, "10.9.0.130")
        self.pod_with(silent, "10.9.0.200")
        leaves = self.pod_with(one, "10.9.0.33")
        self.assert_ok(one.call("DEL", leaves, self.ipam()))  # an empty block, which is returned after 10 minutes
        silent.kill()
        self.remove_node("n3")  # its blocks come free after an hour
        for number, (days, others) in enumerate(((30, 0), (-30, 400), (4000, -4000), (0, 0))):
            before, have = self.claims(), len(other.blocks())
            self.jump(one, days)
            self.jump(other, others)
            if number % 2:
                one.kill()
                one.start()
            for node in (one, other):
                self.assert_ok(node.call("ADD", self.pod(), self.ipam()))
            self.want_more(other, have)
            self.assertTrue(wait_for(lambda have=have: len(other.blocks()) > have, 15), other.log)
            self.assert_settled([one, other, silent])
            after = self.claims()
            self.assertLess(before.items(), after.items())
        self.assertEqual((one.blocks("lost"), one.blocks("returning"), self.findings(one)), (set(), set(), []), one.log)

    def test_with_TLS_a_wrong_clock_is_an_engine_that_is_away(self):
        self.serve(tls=True)
        one, = self.nodes(1)
        self.first_block(one)
        self.jump(one, 30)
        self.want_more(one, 1)
        self.assertTrue(wait_for(lambda: len(one.blocks()) == 2, 10), "the connection was cut: " + one.log)
        self.away()
        self.back()
        self.want_more(one, 2)
        self.assertTrue(wait_for(lambda: "certificate" in one.note(), 20), one.log)
        self.assert_ok(one.call("ADD", self.pod(), self.ipam(0)))
        self.jump(one, 0)
        self.assertTrue(wait_for(lambda: len(one.blocks()) == 3, 45), one.log)
        self.assert_settled([one])


class Etcd(Clock, EtcdTest):
    def remove_node(self, name):
        """etcd knows of no nodes."""


class Kubernetes(Clock, KubernetesTest):
    def remove_node(self, name):
        self.api.remove("v1", "nodes", name)


if __name__ == "__main__":
    if not os.path.exists(CLOCK):
        print(f"skip everything: {CLOCK} is not built\n0 passed, 0 failed, 1 skipped")
        sys.exit(suite.SKIPPED)
    suite.main(needs=("etcd", "etcdctl"), per_processor=2) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
