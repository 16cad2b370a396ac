#!/usr/bin/env python3
"""`cnitool probe` leaves nothing: no rule, neighbour, tracked connection, route or setting, after it has ended, was stopped, or
was killed at any system call. What others make meanwhile stays. With PATCHBAY_SWEEP_STEP fewer points, others each day."""

import collections
import json
import os
import re
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import rows, suite  # noqa: E402
from support.cnitool import cnitool, finish, start  # noqa: E402
from support.doctor import BIN  # noqa: E402
from support.plugin import have  # noqa: E402
from support.probe import FAST, ProbeTest, connections, differences, neighbours, traces  # noqa: E402
from support.world import run, wait_for  # noqa: E402

POINTS = 250 if rows.STEP == 1 else 6
LOG = "/run/calls"


def calls():
    """[(name, how many of that name so far)] of the process that strace has followed."""
    seen, out = collections.Counter(), []
    with open(LOG, encoding="utf-8", errors="replace") as log:
        for name in re.findall(r"^(\w+)\(", log.read(), re.MULTILINE):
            seen[name] += 1
            out.append((name, seen[name]))
    return out


def keep_neighbours(*where):
    """The kernel may forget others after a minute, as soon as all namespaces together have more than net.ipv6.neigh.default.gc_thresh1."""
    for one in json.loads(run("ip", "-j", *where, "neigh")):
        if "lladdr" in one:
            run("ip", *where, "neigh", "replace", one["dst"], "lladdr", one["lladdr"], "dev", one["dev"], "nud", "stale", "extern_learn")


class Left(ProbeTest):
    def setUp(self):
        super().setUp()
        run("nft", "add table inet x; add chain inet x i { type filter hook input priority 0; }; "
            "add rule inet x i ip saddr 10.1.2.0/28 icmp type echo-request drop")
        self.settle()
        run("ping", "-c1", "-W1", "-q", "192.0.2.2")  # which may ask back 5 s after it was asked: RFC 4861, DELAY_FIRST_PROBE_TIME
        for pod in self.pods:  # what is there before stays
            pod.run("ping", "-c1", "-W1", "-q", "fd00:1:2::1")
        for where in ((), ("-n", "a"), ("-n", "b")):
            keep_neighbours(*where)
        self.before, self.tracked = traces("a", "b"), connections()

    def assert_nothing_left(self, what):
        """The kernel takes a table away, and a child the rest, behind the end of the process."""
        wait_for(lambda: traces("a", "b") == self.before and connections() <= self.tracked)
        self.assertEqual(differences(self.before, traces("a", "b")), {}, what)
        self.assertEqual(connections() - self.tracked, set(), what)

    def test_after_an_end_and_signals(self):
        self.assertEqual(cnitool("probe", *FAST, CNI_PATH=BIN).status, 1)
        self.assert_nothing_left("end")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            for words in (("--rate", "30"), FAST):
                probing = start("probe", *words, CNI_PATH=BIN)
                wait_for(lambda: neighbours() != self.before["neighbours "], 2)
                probing.send_signal(number)
                finish(probing)
                self.assert_nothing_left((number, words))

    def test_after_a_kill_at_a_system_call(self):
        if missing := have("strace"):
            self.skipTest(f"needs {missing}")
        finish(start("probe", *FAST, wrap=("strace", "-o", LOG), CNI_PATH=BIN))
        points = calls()
        step = max(len(points) // POINTS, 1)
        killed = 0
        for name, count in points[rows.OFFSET % step::step]:
            probing = finish(start("probe", *FAST, CNI_PATH=BIN, wrap=(
                "strace", "-o", LOG, f"--trace={name}", f"--inject={name}:signal=SIGKILL:when={count}")))
            killed += probing.status == -signal.SIGKILL
            self.assert_nothing_left(f"{name} #{count}")
        self.assertGreater(killed, len(points[::step]) // 2)

    def test_what_others_make_meanwhile_stays(self):
        self.pods[1].run("ip", "addr", "add", "10.1.2.13/28", "dev", "eth0")
        probing = start("probe", "--rate", "20", CNI_PATH=BIN)
        self.assertTrue(wait_for(lambda: neighbours() != self.before["neighbours "]))
        self.pods[0].run("ping", "-c1", "-W2", "-q", "10.1.2.13")
        finish(probing)
        made = set(neighbours("-n", "a")) - set(self.before["neighbours -n a"])
        self.assertEqual(made, {("10.1.2.13", "eth0")})


if __name__ == "__main__":
    suite.main()
