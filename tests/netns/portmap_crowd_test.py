#!/usr/bin/env python3
"""Many pods with ports come and go at once."""

import ctypes
import json
import os
import re
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.hostport import mapping  # noqa: E402
from support.plugin import finish, start  # noqa: E402
from support.portmap import BACKENDS, PortmapTest  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run  # noqa: E402


@suite.spread
class Crowd(PortmapTest):
    COUNT = 64

    def mappings(self, number):
        return [mapping(8000 + number, 80), mapping(8000 + number, 80, "udp"),
                mapping(53, 53, "udp", f"192.0.2.{number + 1}")]

    def assert_one_base(self):
        """One of everything that pods share, however many made it at once."""
        if self.backend == "nftables":
            rules = run("nft", "list", "ruleset")
            for hook in ("prerouting", "output", "postrouting"):
                self.assertEqual(len(re.findall(f"type nat hook {hook} ", rules)), 2, rules[:3000])
            bodies = {}
            for item in json.loads(run("nft", "-j", "list", "ruleset"))["nftables"]:
                if rule := item.get("rule"):
                    text = json.dumps(rule["expr"], sort_keys=True)
                    place = (rule["family"], rule["chain"], text)
                    bodies[place] = bodies.get(place, 0) + 1
            self.assertEqual(set(bodies.values()), {1})
            return
        rules = [tuple(rule) for tool in ("iptables", "ip6tables")
                 for rule in [(tool, *line.split(" ", 2)[1:]) for line in run(
                     f"{tool}-save").splitlines() if line.startswith("-A")]]
        self.assertEqual(len(set(rules)), len(rules))

    @suite.cases(BACKENDS)
    def of_64(self, backend):
        self.use(backend)
        ones = [self.container(f"c{n}") for n in range(self.COUNT)]
        before = snapshot()
        calls = [(one, self.mappings(n)) for n, one in enumerate(ones)]
        for outcome in self.all_at_once("ADD", calls):
            self.assert_ok(outcome)
        self.assert_one_base()
        targets = self.targets()
        self.assertEqual(len(targets), 3 * self.COUNT)
        for n, one in enumerate(ones):
            self.assertEqual(targets[("tcp", None, 8000 + n)], {f"{one.v4}:80", f"[{one.v6}]:80"})
        for outcome in self.all_at_once("DEL", calls):
            self.assert_ok(outcome)
        self.assert_one_base()
        self.assertEqual(self.targets(), {})
        self.assert_same(before, ignore=left_by_design)

    @suite.cases(BACKENDS[:2])
    def that_all_want_one_port(self, backend):
        """Exactly one gets it."""
        self.use(backend)
        ones = [self.container(f"c{n}") for n in range(16)]
        outcomes = self.all_at_once("ADD", [(one, [mapping(80, 80)]) for one in ones])
        happy = [one for one, outcome in zip(ones, outcomes) if outcome.ok]
        self.assertEqual(len(happy), 1, [str(outcome) for outcome in outcomes])
        for outcome in outcomes:
            if not outcome.ok:
                self.assert_error(outcome, None, happy[0].name)
        self.assertEqual(self.targets(), {("tcp", None, 80): {f"{happy[0].v4}:80",
                                                              f"[{happy[0].v6}]:80"}})

    @suite.cases(BACKENDS[:2])
    def coming_while_others_go(self, backend):
        self.use(backend)
        ones = [self.container(f"c{n}") for n in range(32)]
        before = snapshot()
        calls = [(one, self.mappings(n)) for n, one in enumerate(ones)]
        for outcome in self.all_at_once("ADD", calls[:16]):
            self.assert_ok(outcome)
        processes = []
        for pair in zip(calls[:16], calls[16:]):
            for verb, (one, mappings) in zip(("DEL", "ADD"), pair):
                processes.append(start("portmap", verb, self.conf(one, mappings), netns=one.path,
                                       container=one.name))
        for process in processes:
            process.stdin.write(process.config)
            process.stdin.close()
            process.stdin = None
        for process in processes:
            self.assert_ok(finish(process))
        self.assertEqual(len(self.targets()), 3 * 16)
        for outcome in self.all_at_once("DEL", calls[16:]):
            self.assert_ok(outcome)
        self.assert_same(before, ignore=left_by_design)

    def test_while_another_program_edits_its_own_table(self):
        """The kernel refuses what was planned on an older state; it is planned anew."""
        pid = os.fork()
        if pid == 0:
            try:
                ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
                while True:
                    run("nft", "-f", "-", stdin="add table ip other\ndelete table ip other\n")
            finally:
                os._exit(1)
        try:
            for n in range(60):
                one = self.container(f"c{n}")
                self.add(one, *self.mappings(n))
                self.assert_ok(self.call("CHECK", one, self.mappings(n)))
                self.delete(one, *self.mappings(n))
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    suite.main()
