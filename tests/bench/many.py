#!/usr/bin/env python3
"""Thousands of pods on one node: ptp with masquerading, host-local with a /20, and a hostPort for each.

    scripts/bench many [--pods 2500] [--samples 40] [--json FILE] [--plots docs/bench] [--tables docs/speed.md]

Pods come one at a time, and go the same way, the last one first. At eleven levels one more comes and goes,
in turns with the only pod of another node, so that what takes up the machine meanwhile takes up both. The
floor (floor.cc) does the same: by as much as it grows the kernel grows. At each level the memory of the
kernel's objects is read from a control group, and the plugins' files are counted. At the end the node has
to be what it was before the first pod. Exit status 1: a goal is missed, or something is left.
"""

import argparse
import itertools
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chain  # noqa: E402
import figures  # noqa: E402
import measure  # noqa: E402
import plots  # noqa: E402
import subject  # noqa: E402
from support.faults.figures import publish  # noqa: E402
from support.kernel_memory import KernelMemory  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.snapshot import diff, left_by_design, snapshot  # noqa: E402
from support.world import why_impossible  # noqa: E402

NETWORK = "routed"
STEPS = 10
VERBS = ("ADD", "DEL")
STATE = ("/run/cni", "/var/lib/cni")
#: The last pod's time divided by the first's, divided by the same of the baseline.
MOST_GROWTH = 1.3
#: What the second half of the pods takes of memory and files, of what the first half takes.
MOST_OF_HALF = 1.1


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pods", type=int, default=2500)
    parser.add_argument("--samples", type=int, default=40, help="of one more pod, at each level (40)")
    parser.add_argument("--json", metavar="FILE", type=os.path.abspath, help="stores what was measured")
    parser.add_argument("--from", metavar="FILE", dest="stored", help="shows what was stored")
    parser.add_argument("--plots", metavar="DIR", type=os.path.abspath, help="draws it")
    parser.add_argument("--tables", metavar="FILE", type=os.path.abspath, help="writes the table into it")
    return parser.parse_args()


def files_of(node):
    """How many files the plugins keep, and how many bytes are in them."""
    node.enter()
    sizes = [os.lstat(os.path.join(folder, name)).st_size
             for top in STATE for folder, _, names in os.walk(top) for name in names]
    return {"files": len(sizes), "bytes": sum(sizes)}


def run_all(node, verb, numbers):
    """The microseconds of each of these pods, one after the other."""
    lines = node.job(verb, [node.pod(number) for number in numbers], NETWORK)
    return [line["plugins"] for line in lines if "chain" in line]


def measured(make, options, memory):
    """A node that fills up and is emptied: points of the levels, times of all pods, what is left."""
    node, alone = make(), make()
    node.grow(options.pods + 1)
    alone.grow(1)
    for one in (node, alone):
        for verb in VERBS:
            run_all(one, verb, [0])
    node.enter()
    before = snapshot()
    found = {"points": [], "ADD": [], "DEL": []}
    for step in range(STEPS + 1):
        level = options.pods * step // STEPS
        found["ADD"] += run_all(node, "ADD", range(len(found["ADD"]), level))
        point = {"pods": level, "memory": memory.used() if memory.is_counted else None} | files_of(node)
        found["points"].append(point | measure.one_more(
            {"chain": node, "alone": alone}, {"chain": level, "alone": 0}, options.samples, [NETWORK]))
        print(f"{node.name}: {level} pods", file=sys.stderr, flush=True)
    found["DEL"] = run_all(node, "DEL", range(options.pods - 1, -1, -1))
    node.enter()
    found["left"] = diff(before, snapshot(), left_by_design)
    found["memory left"] = memory.used() - found["points"][0]["memory"] if memory.is_counted else None
    for one in (node, alone):
        one.close()
    measure.settle(10)  # the kernel removes all those namespaces
    return found


def took(point, verb, node="chain", key="took"):
    return figures.median(point[node][verb][key])


def grown(found, verb, key):
    """How many times as much a pod takes beside all others as the only one does at that time."""
    last = found["points"][-1]
    return took(last, verb, key=key) / took(last, verb, "alone", key)


def halves(found, key):
    """What a pod takes in the first and in the second half, on average."""
    points = found["points"]
    first, middle, last = points[0], points[len(points) // 2], points[-1]
    if first[key] is None or middle["pods"] == 0:
        return None
    return [(b[key] - a[key]) / (b["pods"] - a["pods"]) for a, b in ((first, middle), (middle, last))]


def rows_of(data):
    """(what, ours, the baseline, the goal, whether it is met)."""
    ours, floor = data["ours"], data["floor"]
    pods = ours["points"][-1]["pods"]
    yield "pods added, deleted", f"{len(ours['ADD'])}, {len(ours['DEL'])}", "", f"{pods}", (
        len(ours["ADD"]) == len(ours["DEL"]) == pods)
    for verb, (key, what) in itertools.product(VERBS, (("took", ""), ("cpu", "processor time of "))):
        last = [found["points"][-1] for found in (ours, floor)]
        yield (f"{what}{verb} of the first pod, of pod {pods + 1}", *(
            f"{took(point, verb, 'alone', key):.2f} ms, {took(point, verb, key=key):.2f}" for point in last), "", None)
        growth = grown(ours, verb, key), grown(floor, verb, key)
        beyond = growth[0] / growth[1]
        yield (f"growth of {what}{verb}", f"{growth[0]:.2f}, {beyond:.2f} of the baseline's", f"{growth[1]:.2f}",
               f"{MOST_GROWTH} of the baseline's", beyond <= MOST_GROWTH)
    for key, what, unit, divisor in (("memory", "kernel memory of a pod", " KiB", 1024),
                                     ("files", "files of a pod", "", 1), ("bytes", "bytes in them", "", 1)):
        if average := halves(ours, key):
            first, second = average
            yield (f"{what}, first half and second half", f"{first / divisor:.1f}, {second / divisor:.1f}{unit}", "",
                   f"{MOST_OF_HALF} of the first", second <= MOST_OF_HALF * first)
    yield "differences of the node after all DELs", str(len(ours["left"].splitlines())), "", "0", not ours["left"]
    if ours["memory left"] is not None:
        took_all = ours["points"][-1]["memory"] - ours["points"][0]["memory"]
        yield ("kernel memory after all DELs, of what all pods took", f"{100 * ours['memory left'] / took_all:.1f} %", "",
               "", None)


def table(data):
    lines = ["| | patchbay | baseline | goal | |", "|---|--:|--:|--:|---|"]
    verdicts = {None: "", True: "met", False: "missed"}
    lines += [f"| {what} | {ours} | {floor} | {goal} | {verdicts[holds]} |"
              for what, ours, floor, goal, holds in rows_of(data)]
    return f"{data['machine']}:\n\n" + "\n".join(lines)


def draw(data, directory):
    """Processor time, which other work on the machine changes less than time."""
    lines = {f"{name} {verb}": [(point["pods"], took(point, verb, key="cpu")) for point in data[name]["points"]]
             for name in ("ours", "floor") for verb in VERBS}
    plots.curves("One more pod of ptp with a hostPort: processor time; milliseconds", "pods that are there already",
                 lines).save(f"{directory}/many.svg")


def main():
    options = parse()
    if options.stored:
        with open(options.stored, encoding="utf-8") as file:
            data = json.load(file)
    else:
        if reason := why_impossible():
            sys.exit(reason)
        data = {"machine": chain.machine()}
        for name, make in (("ours", lambda: subject.Subject("ours", OURS)), ("floor", lambda: subject.Floor("ports"))):
            with KernelMemory() as memory:
                data[name] = measured(make, options, memory)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(data, file, separators=(",", ":"))
    if options.plots:
        draw(data, options.plots)
    if options.tables:
        publish(options.tables, "many", table(data))
    print(table(data))
    print(data["ours"]["left"][:3000])
    sys.exit(0 if all(holds in (None, True) for *_, holds in rows_of(data)) else 1)


if __name__ == "__main__":
    main()
