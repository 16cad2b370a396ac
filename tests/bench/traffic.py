#!/usr/bin/env python3
"""What limits do to the traffic of a pod, ours beside the reference's.

    scripts/bench traffic [--rate MBIT] [--together N] [--only WORD] [--json]
    scripts/vm scripts/bench traffic --together 1      on a kernel with fq_codel, and fq for edt

First the round trips of small datagrams while a flow fills the limit: milliseconds, median, the 95th
of a hundred, and the longest. A share of 1.00 says that the flow had the whole limit. Then what the
first second lets through, in multiples of the limit. "100 ms" and "Kubernetes" are the burst: what
the rate gives in that time, and what containerd and CRI-O ask for.
"""

import argparse
import dataclasses
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import guest, shaping, traffic  # noqa: E402
from support.plugin import OURS, REFERENCE, has_reference  # noqa: E402
from support.shaping import KUBERNETES_BURST, MBIT, Load, ShapedPod, limits  # noqa: E402
from support.world import World, why_impossible  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Subject:
    name: str
    directory: str
    keys: dict
    modes: tuple = ("ifb", "pod", "edt")


REFERENCES = Subject("reference", REFERENCE, {}, ("ifb",))
SUBJECTS = {
    "100 ms": [REFERENCES, Subject("ours", OURS, {}), Subject("latency 10", OURS, {"latency": 10})],
    "Kubernetes": [REFERENCES, Subject("ours", OURS, {}),
                   Subject("burstTime 20", OURS, {"burstTime": 20}),
                   Subject("burstTime 20, latency 10", OURS, {"burstTime": 20, "latency": 10})],
}


@dataclasses.dataclass(frozen=True)
class Case:
    burst: str
    subject: Subject
    direction: str
    mode: str
    protocol: str

    def __str__(self):
        way = "ingress" if self.direction == "ingress" else f"egress, {self.mode}"
        return f"{self.burst:10} {self.subject.name:24} {way:11} {self.protocol}"


def cases(only):
    """All that is possible here and has the word."""
    World()
    lacking = () if guest.has_qdisc("fq") else ("edt",)
    out = []
    for burst, subjects in SUBJECTS.items():
        for subject in subjects:
            if not os.access(os.path.join(subject.directory, "bandwidth"), os.X_OK):
                continue
            ways = [("ingress", "ifb"),
                    *(("egress", mode) for mode in subject.modes if mode not in lacking)]
            out += [Case(burst, subject, direction, mode, protocol)
                    for direction, mode in ways for protocol in ("tcp", "udp")]
    return [case for case in out if only in str(case)]


class Node:
    """A node of its own and the hosts around it, with a pod for each case."""

    def __init__(self, some, rate):
        World()
        self.site = shaping.surroundings()
        self.loads = []
        for number, case in enumerate(some):
            burst = KUBERNETES_BURST if case.burst == "Kubernetes" else rate // 10
            keys = limits(rate, burst, (case.direction,)) | case.subject.keys
            if case.mode != "ifb":
                keys["egressMode"] = case.mode
            pod = ShapedPod(f"p{number}", keys, case.subject.directory)
            if not shaping.reachable(pod.pod, 4):
                sys.exit(f"{case}: not connected")
            self.loads.append(Load(pod, case.direction, case.protocol, rate))


def measure_round_trips(some, rate):
    node = Node(some, rate)
    shaping.empty_buckets(node.site, [load for case, load in zip(some, node.loads)
                                      if case.burst == "Kubernetes"])
    return [{"case": str(case), "share": found.share, "median": found.at(0.5),
             "95": found.at(0.95), "longest": found.at(1), "lost": found.lost}
            for case, found in zip(some, shaping.round_trips(node.site, node.loads))]


def measure_first_second(case, rate):
    node = Node([case], rate)
    begin = time.monotonic() + 1
    flow = shaping.flow(node.site, node.loads[0], 5000, (begin, begin + 1), 20 * rate, begin=begin)
    return {"case": str(case), "share": flow.finish()[0].rate / rate}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rate", type=int, default=10, help="Mbit/s")
    parser.add_argument("--together", type=int, default=4, help="flows at the same time")
    parser.add_argument("--only", default="", help="a word of the cases to run")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    reason = why_impossible() or traffic.why_impossible()
    if reason:
        sys.exit(reason)
    if not has_reference("bandwidth"):
        print("the Go plugins are not installed: ours alone", file=sys.stderr)
    rate, every = options.rate * MBIT, cases(options.only)
    rows = []
    if not options.json:
        print(f"{options.rate} Mbit/s; round trips in ms{'share':>30} {'median':>8} {'95 %':>8} "
              f"{'longest':>8} {'lost':>5}")
    for at in range(0, len(every), options.together):
        for row in measure_round_trips(every[at:at + options.together], rate):
            rows.append(row)
            if not options.json:
                print(f"{row['case']:52} {row['share']:5.2f} {row['median']:8.2f} {row['95']:8.2f} "
                      f"{row['longest']:8.2f} {row['lost']:5}", flush=True)
    first = []
    for case in (case for case in every if case.burst == "Kubernetes"):
        row = measure_first_second(case, rate)
        first.append(row)
        if not options.json:
            print(f"{row['case']:52} {row['share']:8.2f} times the limit in the first second",
                  flush=True)
    if options.json:
        print(json.dumps({"round trips": rows, "first second": first}, indent=2))


if __name__ == "__main__":
    main()
