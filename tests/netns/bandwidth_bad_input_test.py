#!/usr/bin/env python3
"""What is wrong with bandwidth's config is said before anything is changed: where, what, and what
was expected there."""

import dataclasses
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.bandwidth import BOTH, EDT, BandwidthTest, runtime  # noqa: E402
from support.plugin import REFERENCE, cni, has_reference  # noqa: E402
from support.snapshot import pod_snapshot, snapshot  # noqa: E402

RUNTIME = "runtimeConfig.bandwidth"
NO_BURST = "if rate is set, burst must also be set"
NO_RATE = "if burst is set, rate must also be set"
FOUR_GB = 8 * (2 ** 32 - 1)


@dataclasses.dataclass
class Case:
    """conf is laid over a config without limits; says: what the message must contain. reference:
    what the reference says of it, where it refuses it with words of its own."""

    name: str
    says: tuple
    conf: dict
    verbs: tuple = ("ADD", "CHECK")
    code: int = 7
    reference: str = ""


def numbers(key, *bad):
    return [Case(f"{key} is {json.dumps(one)}", (key, json.dumps(one), "integer"),
                 BOTH | {key: one}) for one in bad]


NOT_NUMBERS = (-1, 1.5, "8000", True, [8], {}, 2 ** 63, 1e30)

CASES = [
    *numbers("ingressRate", *NOT_NUMBERS), *numbers("ingressBurst", *NOT_NUMBERS),
    *numbers("egressRate", *NOT_NUMBERS), *numbers("egressBurst", *NOT_NUMBERS),
    Case("ingressRate without burst", ("ingressRate", NO_BURST), {"ingressRate": 8000},
         reference=NO_BURST),
    Case("egressRate with a burst of 0", ("egressRate", NO_BURST),
         {"egressRate": 8000, "egressBurst": 0}, reference=NO_BURST),
    Case("ingressBurst without rate", ("ingressBurst", NO_RATE), {"ingressBurst": 8000},
         reference=NO_RATE),
    Case("egressBurst with a rate of 0", ("egressBurst", NO_RATE),
         {"egressRate": 0, "egressBurst": 8000}, reference=NO_RATE),
    Case("the runtime's rate without burst", (f"{RUNTIME}.egressRate", NO_BURST),
         runtime(egressRate=8000), reference=NO_BURST),
    Case("a burst of 4 GB", ("ingressBurst", "burst cannot be more than 4GB", str(FOUR_GB)),
         {"ingressRate": 8, "ingressBurst": FOUR_GB}, reference="burst cannot be more than 4GB"),
    Case("the other burst of 4 GB", ("egressBurst", "burst cannot be more than 4GB"),
         {"egressRate": 8, "egressBurst": FOUR_GB}, reference="burst cannot be more than 4GB"),
    Case("a rate below a byte per second", ("egressRate", "at least 8 bits", "7"),
         {"egressRate": 7, "egressBurst": 80}),
    Case("a burst below a byte", ("egressBurst", "at least 8 bits", "7"),
         {"egressRate": 80, "egressBurst": 7}),
    Case("runtimeConfig.bandwidth is a list", (RUNTIME, "object"),
         {"runtimeConfig": {"bandwidth": [8]}}),
    Case("runtimeConfig is text", ("runtimeConfig", "object"), {"runtimeConfig": "x"}),
    Case("egressMode is unknown", ("egressMode", '"host"', "ifb", "pod", "edt"),
         BOTH | {"egressMode": "host"}),
    Case("egressMode is empty", ("egressMode", '""'), BOTH | {"egressMode": ""}),
    Case("egressMode is a number", ("egressMode", "1"), BOTH | {"egressMode": 1}),
    Case("queue is unknown", ("queue", '"red"', "fair", "fifo"), BOTH | {"queue": "red"}),
    Case("queue is a boolean", ("queue", "true"), BOTH | {"queue": True}),
    *(Case(f"{key} is {json.dumps(bad)}", (key, json.dumps(bad), "1 to 10000"), BOTH | {key: bad})
      for key in ("latency", "burstTime") for bad in (0, 10001, -5, "25", 2.5, False)),
    Case("both lists of subnets", ("shapedSubnets", "unshapedSubnets and shapedSubnets cannot be "
                                   "both specified"),
         BOTH | {"shapedSubnets": ["10.0.0.0/8"], "unshapedSubnets": ["10.1.0.0/16"]}),
    Case("both lists of the runtime", (f"{RUNTIME}.shapedSubnets", "cannot be both specified"),
         BOTH | runtime(shapedSubnets=["10.0.0.0/8"], unshapedSubnets=["10.1.0.0/16"])),
    *(Case(f"{key} has {json.dumps(bad)}", (f"{key}[1]", json.dumps(bad)),
           BOTH | {key: ["10.0.0.0/8", bad]}) for key in ("shapedSubnets", "unshapedSubnets")
      for bad in ("10.0.0.0", "10.0.0.0/33", "10.0.0/8", "::/129", "", "any", 10, ["10.0.0.0/8"])),
    Case("shapedSubnets is text", ("shapedSubnets", "list"), BOTH | {"shapedSubnets": "10.0.0.0/8"}),
    Case("unshapedSubnets is an object", ("unshapedSubnets", "list"), BOTH | {"unshapedSubnets": {}}),
    Case("subnets by departure times", ("egressMode", "ifb", "pod"),
         BOTH | EDT | {"shapedSubnets": ["10.0.0.0/8"]}),
    Case("no prevResult, ADD", ("must be called as chained plugin",), BOTH | {"prevResult": None},
         verbs=("ADD",), reference="must be called as chained plugin"),
    Case("no prevResult, CHECK", ("must be called as a chained plugin",),
         BOTH | {"prevResult": None}, verbs=("CHECK",),
         reference="must be called as a chained plugin"),
    Case("prevResult is a list", ("prevResult",), BOTH | {"prevResult": []}, code=6),
    Case("prevResult of another format", ("prevResult",),
         BOTH | {"prevResult": {"cniVersion": "0.2.0", "ip4": {"ip": "10.1.2.3/24"}}}, code=None),
]


@suite.spread
class BadInput(BandwidthTest):
    @suite.cases([(case.name, case) for case in CASES])
    def refused(self, case):
        one = self.container()
        before, inside = snapshot(), pod_snapshot(one)
        for verb in case.verbs:
            outcome = self.call(verb, one, **case.conf)
            error = self.assert_error(outcome, case.code)
            said = error["msg"] + " " + error.get("details", "")
            for word in case.says:
                self.assertIn(word, said)
            self.assertFalse(re.search(r"json\.exception|terminate|what\(\)", outcome.stdout))
        self.assert_same(before)
        self.assert_same(inside, pod_snapshot(one))

    @suite.cases([(case.name, case) for case in CASES if case.reference])
    def so_does_the_reference(self, case):
        if not has_reference("bandwidth"):
            self.skipTest(f"the Go plugins are not in {REFERENCE}")
        one = self.container()
        outcome = self.call(case.verbs[0], one, {"directory": REFERENCE}, **case.conf)
        self.assertIn(case.reference, outcome.stdout)

    @suite.cases([(case.name, case) for case in CASES if "ADD" in case.verbs])
    def and_DEL_succeeds_nevertheless(self, case):
        """What was refused left nothing, and a runtime must get rid of the pod."""
        one = self.container()
        before, inside = snapshot(), pod_snapshot(one)
        self.assert_ok(self.call("DEL", one, **case.conf))
        self.assert_same(before)
        self.assert_same(inside, pod_snapshot(one))

    @suite.cases([(case.name, case) for case in CASES if case.verbs == ("ADD", "CHECK")
                  and "prevResult" not in case.conf and "runtimeConfig" not in case.conf])
    def STATUS_refuses_it_too(self, case):
        conf = {"cniVersion": "1.1.0", "name": "net1", "type": "bandwidth"} | case.conf
        self.assert_error(cni("bandwidth", "STATUS", conf), 7, case.says[0])


if __name__ == "__main__":
    suite.main()
