#!/usr/bin/env python3
"""host-device is killed at a system call of ADD or DEL, and the namespace of its pod ends: `cnitool repair`
gives the device back as it was. DEL after a kill is in the fault sweep. Which points are tried follows
from the day: support/rows.py."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import rows, suite  # noqa: E402
from support.cnitool import cnitool, container_of, use  # noqa: E402
from support.devices import STATIC, configure, links, make, states  # noqa: E402
from support.faults import points  # noqa: E402
from support.parallel import parallel  # noqa: E402
from support.plugin import cni  # noqa: E402
from support.snapshot import diff, snapshot  # noqa: E402
from support.world import Pod, World, run  # noqa: E402

LOG = "/run/strace"
PLUGIN = {"type": "host-device", "device": "dev0", "ipam": STATIC}


class Stage:
    """A node whose device a pod has had, of which the results cache knows."""

    def __init__(self, verb):
        World()
        make()
        configure()
        self.verb, self.pod, self.before = verb, Pod("pod1"), self.device()
        use({"cniVersion": "1.1.0", "name": "net1", "plugins": [PLUGIN]})
        self.expect(cnitool("add", "net1", self.pod.path))
        if verb == "ADD":
            self.expect(self.call("DEL"))

    @staticmethod
    def expect(outcome):
        if not outcome.ok:
            raise AssertionError(str(outcome))

    @staticmethod
    def device():
        return {place: what for place, what in snapshot().items() if "dev0" in place}

    def call(self, verb, wrap=()):
        return cni("host-device", verb, PLUGIN | {"cniVersion": "1.1.0", "name": "net1"}, netns=self.pod.path,
                   container=container_of(self.pod.path), wrap=wrap)

    def traced(self, *more):
        return self.call(self.verb, ("strace", "-qq", "-o", LOG, *more))

    def end_namespace(self):
        """As the kernel does with hardware, which a veth is not."""
        for name in links(self.pod).keys() - {"lo"}:
            run("ip", "-n", self.pod.name, "link", "set", name, "netns", str(os.getpid()))
        self.pod.remove()


def calls(verb):
    stage = Stage(verb)
    stage.expect(stage.traced())
    return [call for call in points.calls_of(LOG) if call[:2] != ("execve", 1)]


def complaint(verb, point):
    """What is wrong after the kill, or None; and whether the process was killed."""
    stage = Stage(verb)
    outcome = stage.traced("-e", f"inject={point.inject}")
    stage.end_namespace()
    repaired = cnitool("repair", "--json")
    left = diff(stage.before, stage.device()) + "\n".join(states())
    wrong = f"{point}: {outcome}\n{repaired}\n{left}" if left or not repaired.ok else None
    return [outcome.status < 0, wrong]


@suite.spread
class Killed(suite.NodeTest):
    @suite.cases([(verb, verb) for verb in ("ADD", "DEL")])
    def and_repaired_after(self, verb):
        tried = [point for point in points.signals(parallel(calls, [verb], is_node=True)[0]) if point.what == "SIGKILL"]
        tried = rows.sampled(tried, most=len(tried), step=rows.SWEEP)
        found = parallel(lambda point: complaint(verb, point), tried, 2, is_node=True)
        print(f"     {len(tried)} points", flush=True)
        self.assertEqual([wrong for _, wrong in found if wrong], [])
        self.assertGreater(sum(killed for killed, _ in found), 0.9 * len(tried) - 2, "the run differs each time")


if __name__ == "__main__":
    suite.main(needs=("strace",))
