#!/usr/bin/env python3
"""devices is killed at a system call of ADD or DEL: DEL, twice, gives everything back; without DEL the pod's next sandbox
gets the device, or RECLAIM gives it back. Which points are tried follows from the day:
support/rows.py."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import ledger, rows, suite  # noqa: E402
from support.faults import points  # noqa: E402
from support.ledger import SLOT, LedgerTest, make_nic, make_parent, slot  # noqa: E402
from support.parallel import parallel  # noqa: E402
from support.snapshot import diff, left_by_design, snapshot  # noqa: E402
from support.world import run  # noqa: E402

LOG = "/run/strace"


class Stage(LedgerTest):
    """A node with a pod that the ledger has two devices for."""

    def __init__(self, verb):
        super().__init__("setUp")
        self.setUp()
        self.verb = verb
        make_nic("dev0")
        make_parent()
        self.entries = {"dev0": {}, "slot0": {"resource": SLOT, "plugins": slot()}}
        for name, more in self.entries.items():
            ledger.put(name, pod=ledger.pod_of("web-0"), **more)
        self.play()
        self.one = self.pod()
        self.before = snapshot()
        self.add(self.one)
        if verb == "ADD":
            self.remove(self.one)

    def traced(self, *more):
        return self.call(self.verb, self.one, options={"wrap": ("strace", "-qq", "-o", LOG, *more)})

    def left(self):
        """What is not as it was before ADD, as text."""
        found = [f"{name} has {container}" for name, container in ledger.holders().items()] + ledger.marks()
        if self.leases():
            found.append(str(self.leases()))
        return "\n".join(found) + diff(self.before, snapshot(),
                                       lambda place: left_by_design(place) or place == "file" + LOG)


def calls(verb):
    stage = Stage(verb)
    stage.assert_ok(stage.traced())
    return [call for call in points.calls_of(LOG) if call[:2] != ("execve", 1)]


def after_del(stage):
    for _ in range(2):
        stage.remove(stage.one)


def next_sandbox(stage):
    """The runtime has lost the first one: its namespace ends, but for the device, which hardware would survive."""
    for link in json.loads(run("ip", "-n", stage.one.name, "-j", "link", "show", "type", "veth")):
        if "ifname" in link:
            run("ip", "-n", stage.one.name, "link", "set", link["ifname"], "netns", str(os.getpid()), "name", "dev0")
    stage.one.remove()
    pod = stage.pod("again")
    stage.add(pod)
    stage.ping(pod, "10.50.0.1")
    stage.ping(pod, "10.60.0.1")
    stage.remove(pod)
    stage.remove(None, container="pod1", options={"netns": stage.one.path})


WAYS = {"DEL": after_del, "the next sandbox": next_sandbox}


def complaint(verb, point, way):
    """What is wrong after the kill, or None; and whether the process was killed."""
    stage = Stage(verb)
    outcome = stage.traced("-e", f"inject={point.inject}")
    try:
        WAYS[way](stage)
        left = stage.left() if way == "DEL" else "\n".join(ledger.holders())
    except (AssertionError, RuntimeError) as error:
        left = str(error)
    return [outcome.status < 0, f"{point}: {outcome}\n{left[:1000]}" if left else None]


@suite.spread
class Killed(suite.NodeTest):
    @suite.cases([(f"{verb} and {way}", (verb, way)) for verb in ("ADD", "DEL") for way in WAYS])
    def at(self, row):
        verb, way = row
        tried = [point for point in points.signals(parallel(calls, [verb], is_node=True)[0]) if point.what == "SIGKILL"]
        tried = rows.sampled(tried, most=len(tried), step=rows.SWEEP)
        found = parallel(lambda point: complaint(verb, point, way), tried, 2, is_node=True)
        print(f"     {len(tried)} points", flush=True)
        self.assertEqual([wrong for _, wrong in found if wrong], [])
        self.assertGreater(sum(killed for killed, _ in found), 0.9 * len(tried) - 2, "the run differs each time")


if __name__ == "__main__":
    suite.main(needs=("strace", "ping"))
