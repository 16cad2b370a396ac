#!/usr/bin/env python3
"""Times ADD and DEL of bandwidth, ours and the reference's in turns, on a node of their own.

    scripts/bench shaping [--rounds N] [--json]

Each figure is the median of the whole process, spawn to end, in milliseconds. "beyond" is what is
left of it without the start of a process: the median of the same program's VERSION. In a round all
cases come one after the other, so that the machine's moods meet all of them. The pod has been there
before and stays; what the reference's DEL leaves on its link is removed, untimed. Modes that the
kernel lacks are left out: egressMode edt needs fq.
"""

import argparse
import dataclasses
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support.plugin import OURS, REFERENCE, environment, has_reference  # noqa: E402
from support.shaping import MBIT, limits  # noqa: E402
from support.world import Pod, World, run, why_impossible  # noqa: E402

INGRESS, EGRESS, BOTH = ("ingress",), ("egress",), ("ingress", "egress")
CASES = {
    "no limits": {},
    "ingress": limits(100 * MBIT, 10 * MBIT, INGRESS),
    "egress, ifb": limits(100 * MBIT, 10 * MBIT, EGRESS),
    "both, ifb": limits(100 * MBIT, 10 * MBIT, BOTH),
    "both, ifb, queue fifo": limits(100 * MBIT, 10 * MBIT, BOTH) | {"queue": "fifo"},
    "both, ifb, shapedSubnets": limits(100 * MBIT, 10 * MBIT, BOTH) | {
        "shapedSubnets": ["10.0.0.0/8", "fd00::/8"]},
    "egress, pod": limits(100 * MBIT, 10 * MBIT, EGRESS) | {"egressMode": "pod"},
    "both, pod": limits(100 * MBIT, 10 * MBIT, BOTH) | {"egressMode": "pod"},
    "egress, edt": limits(100 * MBIT, 10 * MBIT, EGRESS) | {"egressMode": "edt"},
    "both, edt": limits(100 * MBIT, 10 * MBIT, BOTH) | {"egressMode": "edt"},
}
#: What the reference has, too.
REFERENCES = ("no limits", "ingress", "egress, ifb", "both, ifb")


@dataclasses.dataclass(frozen=True)
class Answer:
    took: float  # milliseconds
    status: int
    stdout: str


class Caller:
    """Runs a plugin with as little of our own around it as Python allows."""

    def __init__(self, directory):
        self.program = os.path.join(directory, "bandwidth")
        self.directory = directory
        self.stdin, self.stdout = os.memfd_create("config"), os.memfd_create("output")

    def run(self, verb, pod, conf):
        for fd in (self.stdin, self.stdout):
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
        os.write(self.stdin, json.dumps(conf).encode())
        os.lseek(self.stdin, 0, os.SEEK_SET)
        env = environment(verb, pod.path, pod.name, "eth0", "", self.directory)
        actions = [(os.POSIX_SPAWN_DUP2, self.stdin, 0), (os.POSIX_SPAWN_DUP2, self.stdout, 1)]
        begin = time.perf_counter()
        pid = os.posix_spawn(self.program, [self.program], env, file_actions=actions)
        _, status = os.waitpid(pid, 0)
        took = (time.perf_counter() - begin) * 1000
        os.lseek(self.stdout, 0, os.SEEK_SET)
        return Answer(took, status, os.read(self.stdout, 1 << 16).decode())


class Attachment:
    """A pod on a link of the node's, as the plugin before bandwidth left it."""

    def __init__(self, name):
        self.pod, self.link = Pod(name), f"veth-{name}"
        run("ip", "link", "add", self.link, "type", "veth", "peer", "eth0", "netns", name)
        run("ip", "link", "set", self.link, "up")
        self.pod.run("ip", "link", "set", "eth0", "up")
        self.result = {"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.2/16", "interface": 1}],
                       "interfaces": [{"name": self.link, "mac": self._mac(())},
                                      {"name": "eth0", "mac": self._mac(("-n", name)),
                                       "sandbox": self.pod.path}]}

    def _mac(self, where):
        name = "eth0" if where else self.link
        return json.loads(run("ip", *where, "-j", "link", "show", name))[0]["address"]

    def clean(self):
        """Without what a DEL of the reference leaves."""
        for place in ("root", "ingress"):
            run("tc", "qdisc", "del", "dev", self.link, place, check=False)


class Subject:
    """One program and what it took so far."""

    def __init__(self, name, directory):
        self.name, self.caller = name, Caller(directory)
        self.attachment = Attachment(name)
        self.is_ours = directory == OURS
        self.times = {}
        self.left_out = {}

    def _timed(self, what, verb, conf):
        answer = self.caller.run(verb, self.attachment.pod, conf)
        if answer.status == 0:
            self.times.setdefault(what, {}).setdefault(verb, []).append(answer.took)
        return answer

    def round(self):
        """Every case once."""
        self._timed("start", "VERSION", {"cniVersion": "1.0.0"})
        for name, keys in CASES.items():
            if name in self.left_out or not (self.is_ours or name in REFERENCES):
                continue
            conf = {"cniVersion": "1.0.0", "name": "net1", "type": "bandwidth",
                    "prevResult": self.attachment.result} | keys
            added = self._timed(name, "ADD", conf)
            if added.status != 0:
                self.left_out[name] = json.loads(added.stdout).get("msg", "")
                continue
            deleted = self._timed(name, "DEL", conf | {"prevResult": json.loads(added.stdout)})
            if deleted.status != 0:
                sys.exit(f"{self.name} DEL, {name}: {deleted.stdout}")
            if not self.is_ours:
                self.attachment.clean()

    def medians(self, without_first=1):
        return {what: {verb: statistics.median(all_of[without_first:])
                       for verb, all_of in verbs.items()}
                for what, verbs in self.times.items()}


def show(subjects):
    found = {subject.name: subject.medians() for subject in subjects}
    print(" " * 26 + "".join(f"{name + ' ' + verb:>15} {'beyond':>7}"
                             for name in found for verb in ("ADD", "DEL")))
    for name in CASES:
        cells = []
        for medians in found.values():
            for verb in ("ADD", "DEL"):
                took = medians.get(name, {}).get(verb)
                cells.append(f"{took:15.2f} {took - medians['start']['VERSION']:7.2f}"
                             if took else f"{'-':>15} {'-':>7}")
        print(f"{name:26}" + "".join(cells))
    for name, medians in found.items():
        print(f"{name}: a process that is started for VERSION takes "
              f"{medians['start']['VERSION']:.2f}")
    for subject in subjects:
        for name, why in subject.left_out.items():
            print(f"{subject.name}: without '{name}': {why}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    reason = why_impossible()
    if reason:
        sys.exit(reason)
    World()
    subjects = [Subject("ours", OURS)] if os.path.exists(os.path.join(OURS, "bandwidth")) else []
    if has_reference("bandwidth"):
        subjects.append(Subject("reference", REFERENCE))
    if not subjects:
        sys.exit(f"no plugin bandwidth in {OURS}")
    for _ in range(options.rounds + 1):  # the first warms up
        for subject in subjects:
            subject.round()
    if options.json:
        print(json.dumps({s.name: s.medians() | {"left out": s.left_out} for s in subjects},
                         indent=2))
    else:
        show(subjects)


if __name__ == "__main__":
    main()
