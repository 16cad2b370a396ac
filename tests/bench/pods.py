#!/usr/bin/env python3
"""Times ADD and DEL of pods, ours and the reference's in turns, on a node of their own.

    scripts/bench [--pods N] [--json]

Each figure is the median of the whole process, exec to exit, in milliseconds, over N pods (default
40) per case; ours and the reference's alternate pod by pod. A ratio above 1 is how many times less
ours took. The reference is what /usr/lib/cni holds. Figures move between machines; ratios less so.
"""

import argparse
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support.plugin import OURS, REFERENCE, finish, has_reference, start  # noqa: E402
from support.world import Pod, World, why_impossible  # noqa: E402

V4 = [[{"subnet": "10.%d.0.0/16"}]]
DUAL = V4 + [[{"subnet": "fd00:%d::/64"}]]
CASES = [
    ("bridge + host-local, IPv4", {"ranges": V4}, {}),
    ("bridge + host-local, dual-stack", {"ranges": DUAL}, {}),
    ("the same, ipMasq (each its default)", {"ranges": DUAL}, {"ipMasq": True}),
    ("the same, ipMasq with iptables", {"ranges": DUAL},
     {"ipMasq": True, "ipMasqBackend": "iptables"}),
]


def config(number, ipam, more):
    ipam = json.loads(json.dumps({"type": "host-local"} | ipam).replace("%d", str(number)))
    return {"cniVersion": "1.0.0", "name": f"net{number}", "type": "bridge",
            "bridge": f"br{number}", "isDefaultGateway": True, "ipam": ipam} | more


def timed(directory, command, conf, pod):
    begin = time.perf_counter()
    outcome = finish(start("bridge", command, conf, netns=pod.path, container=pod.name,
                           directory=directory))
    took = (time.perf_counter() - begin) * 1000
    if outcome.status != 0:
        sys.exit(f"{directory}/bridge {command}: {outcome}")
    return took


def measure(number, case, pods, directories):
    """{directory: {verb: median}}; the networks differ so that neither meets the other's state."""
    _, ipam, more = case
    confs = {d: config(10 * number + i + 10, ipam, more) for i, d in enumerate(directories)}
    times = {d: {"ADD": [], "DEL": []} for d in directories}
    for pod in pods[:1]:  # the shared objects are made by the first
        for directory in directories:
            for verb in ("ADD", "DEL"):
                timed(directory, verb, confs[directory], pod)
    for pod in pods:
        for directory in directories:
            for verb in ("ADD", "DEL"):
                times[directory][verb].append(timed(directory, verb, confs[directory], pod))
    return {d: {verb: statistics.median(all_of) for verb, all_of in verbs.items()}
            for d, verbs in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pods", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    reason = why_impossible()
    if reason:
        sys.exit(reason)
    World()
    directories = [OURS] + ([REFERENCE] if has_reference() else [])
    pods = [Pod(f"pod{i}") for i in range(options.pods)]
    rows = []
    for number, case in enumerate(CASES):
        medians = measure(number, case, pods, directories)
        rows.append({"case": case[0], "verbs": {
            verb: {"ours": medians[OURS][verb],
                   "reference": medians.get(REFERENCE, {}).get(verb)}
            for verb in ("ADD", "DEL")}})
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'median ms per call':36} {'ADD ours':>9} {'ref':>7} {'ratio':>6}   "
          f"{'DEL ours':>9} {'ref':>7} {'ratio':>6}")
    for row in rows:
        cells = []
        for verb in ("ADD", "DEL"):
            ours, peer = row["verbs"][verb]["ours"], row["verbs"][verb]["reference"]
            cells.append(f"{ours:9.2f} " + (f"{peer:7.2f} {peer / ours:6.1f}" if peer else
                                            f"{'-':>7} {'-':>6}"))
        print(f"{row['case']:36} {'   '.join(cells)}")


if __name__ == "__main__":
    main()
