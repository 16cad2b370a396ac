#!/usr/bin/env python3
"""Measures whole pods, ours beside the reference's and beside the floor that the kernel sets.

    scripts/bench [OPTION...]                     everything: some minutes
    scripts/bench --only chain,loopback           parts, those of PARTS
    scripts/bench --plots docs/bench --tables docs/speed.md    makes pictures and tables there
    scripts/bench --from FILE                     shows what --json FILE stored
    scripts/bench --short                         what does not depend on the machine, as a test

A pod has the chain of bridge (gateway, masquerading, host-local), portmap with a port, and bandwidth
with limits both ways, in the parts ptp, macvlan, host-device, tuning, sbr and firewall that plugin alone; each side
has its own default backends, but for firewall, of which ours has nftables in the part firewall and the reference's
backend in the part firewall-iptables. Each subject has a node of its own, and they take turns. Ours comes twice:
limiting what the pod sends as the reference does, on an ifb of the node, and in the pod (egressMode). The floor is what the kernel takes for the same by the fewest
requests of as many programs (floor.cc). Figures are medians of the time in
plugins, spawn to end; on a busy machine `chrt -r 50 scripts/bench` keeps most of the others out of them. podman's
netavark, where it is installed or named, connects a pod to one bridge with one port.
"""

import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import figures  # noqa: E402
import measure  # noqa: E402
import netavark  # noqa: E402
import plots  # noqa: E402
import short  # noqa: E402
import subject  # noqa: E402
import trace  # noqa: E402
import undisturbed  # noqa: E402
from support.plugin import OURS, PLUGINS, REFERENCE, has_reference, have  # noqa: E402
from support.world import why_impossible  # noqa: E402

PARTS = ("chain", *subject.ALONE, *subject.CHAINED, "crowd", "loopback", "trace", "netavark", "growth")
LEVELS = (0, 250, 500, 1000)
REFERENCE_LEVELS = (0, 125, 250)


def parts_of(text):
    unknown = set(text.split(",")) - set(PARTS)
    if unknown:
        raise argparse.ArgumentTypeError(f"no part {' '.join(unknown)}, but {' '.join(PARTS)}")
    return [part for part in PARTS if part in text.split(",")]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pods", type=int, default=40, help="one at a time (40)")
    parser.add_argument("--crowd", type=int, default=100, help="pods that come together (100)")
    parser.add_argument("--parallel", type=int, default=8, help="of these at a time (8)")
    parser.add_argument("--rounds", type=int, default=3, help="how often they come (3)")
    parser.add_argument("--present", type=int, default=1,
                        help="pods that are there already (1: see docs/speed.md)")
    parser.add_argument("--ports", type=int, default=1, help="of a pod (1)")
    parser.add_argument("--family", choices=("ipv4", "dual"), default="ipv4")
    parser.add_argument("--plugins", metavar="DIR", type=os.path.abspath, default=OURS, help="instead of ours")
    parser.add_argument("--netavark", metavar="PROGRAM")
    parser.add_argument("--only", metavar="PART,...", type=parts_of, default=PARTS)
    parser.add_argument("--json", metavar="FILE", type=os.path.abspath, help="stores what was measured")
    parser.add_argument("--from", metavar="FILE", dest="stored", help="shows what was stored")
    parser.add_argument("--quantile", type=float, default=0.5,
                        help="to show instead of the median: 0.1 tells more of a busy machine")
    parser.add_argument("--plots", metavar="DIR", type=os.path.abspath, help="draws it")
    parser.add_argument("--tables", metavar="FILE", nargs="+", type=os.path.abspath, default=(),
                        help="writes the tables into them")
    parser.add_argument("--short", action="store_true", help="as a test")
    parser.add_argument("--sizes", action="store_true", help="which looks at the files' sizes, too")
    return parser.parse_args()


def machine():
    with open("/proc/cpuinfo", encoding="ascii") as file:
        model = next((line.split(":")[1].strip() for line in file if "model name" in line), "")
    policy = {os.SCHED_OTHER: "", os.SCHED_RR: ", SCHED_RR", os.SCHED_FIFO: ", SCHED_FIFO"}
    return (f"{os.cpu_count()} processors ({model}), Linux "
            f"{'.'.join(os.uname().release.split('.')[:2])}"
            f"{policy.get(os.sched_getscheduler(0), '')}, load {os.getloadavg()[0]:.1f} before")


def measure_growth(options):
    """One after the other: so many pods are a burden to the machine. Each twice: with the pods and
    without."""
    subjects = [(lambda: subject.Subject("ours, ifb", options.plugins, options.family), LEVELS, 80)]
    if options.family == "ipv4":
        subjects.append((lambda: subject.Floor("ifb"), LEVELS, 80))
    if has_reference():
        subjects.append((lambda: subject.Subject("reference", REFERENCE, options.family),
                         REFERENCE_LEVELS, 10))
    found = {}
    for make, levels, samples in subjects:
        one, alone = make(), make()
        found[one.name] = measure.growth(one, alone, levels, samples, subject.BRIDGES)
        one.close()
        alone.close()
        measure.settle(10)  # the kernel removes all those pods
    return found


def without_floor(subjects):
    return {name: one for name, one in subjects.items() if not name.startswith("floor")}


def measure_part(part, subjects, options):
    if part in subject.ALONE:
        ones = {name: one for name, one in subjects.items() if not name.endswith(", pod")}
        for one in ones.values():
            one.give_devices()
        return measure.one_at_a_time(ones, options.pods, options, part)
    if part.startswith("firewall"):
        ones = {name: one for name, one in without_floor(subjects).items() if not name.endswith(", pod")}
        return measure.one_at_a_time(ones, options.pods, options, part)
    if part in subject.CHAINED:
        ones = {name: one for name, one in without_floor(subjects).items() if not name.endswith(", pod")}
        return measure.one_at_a_time(ones, options.pods, options, part, subject.Subject.renew_interface)
    if part == "chain":
        return measure.one_at_a_time(subjects, options.pods, options)
    if part == "crowd":
        return measure.many_at_a_time(subjects, options.crowd, options)
    if part == "loopback":
        return measure.loopback(without_floor(subjects), 100)
    if have("strace"):
        print("strace is not installed", file=sys.stderr)
        return None
    return {name: trace.traced(one) for name, one in subjects.items()}


def run_parts(options, data):
    """Measures the wanted parts, each on nodes of its own."""
    for part in options.only:
        print(f"{part} ...", file=sys.stderr, flush=True)
        if part == "growth":
            data[part] = measure_growth(options)
            continue
        if part == "netavark":
            program = netavark.find(options.netavark)
            data[part] = program and netavark.measure(program, min(options.pods, 20))
            continue
        subjects = subject.subjects(options)
        data[part] = measure_part(part, subjects, options)
        data["runner"] = max([data["runner"], *(one.own for one in subjects.values())])
        for one in subjects.values():
            one.close()


def measured(options):
    reason = why_impossible()
    if reason:
        sys.exit(reason)
    sizes = {"ours": trace.sizes(options.plugins, PLUGINS)}
    if has_reference():
        sizes["reference"] = trace.sizes(REFERENCE, PLUGINS)
    kept = {name: value for name, value in vars(options).items()
            if isinstance(value, (int, str)) and name not in ("stored", "json", "plots", "tables")}
    data = {"machine": machine(), "options": kept, "sizes": sizes, "runner": 0}
    share = undisturbed.Share()
    run_parts(options, data)
    data["machine"] += f", {100 * share.now():.1f} % of their time taken by the hypervisor"
    return data


def main():
    options = parse()
    if options.short:
        sys.exit(short.run(options.sizes))
    if options.stored:
        with open(options.stored, encoding="utf-8") as file:
            data = json.load(file)
    else:
        data = measured(options)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(data, file, separators=(",", ":"))
    if options.quantile != 0.5:
        figures.QUANTILE = options.quantile
        data["machine"] += f"; quantile {options.quantile} instead of the median"
    if options.plots:
        plots.draw_all(data, options.plots)
    figures.write_tables(options.tables, data)
    print(data["machine"])
    print(figures.table(figures.figures(data)))


if __name__ == "__main__":
    main()
