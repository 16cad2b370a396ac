#!/usr/bin/env python3
"""Times portmap's ADD and DEL while other pods have ports, and beside many rules of others.

    scripts/bench hostports [--rounds N] [--foreign-rules N] [--json]

Each figure is the median of the whole process, spawn to end, in milliseconds. The rows with other
pods' ports are measured in turns, so that the machine's moods meet all of them. The reference (its
iptables backend, the one it chooses) runs on the same node where it is installed.
"""

import argparse
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import timed  # noqa: E402
from support.plugin import OURS, REFERENCE, has_reference  # noqa: E402
from support.world import Pod, World, run, why_impossible  # noqa: E402

LOADS = (0, 500, 2000)


class Caller:
    """portmap with a backend."""

    def __init__(self, directory, backend):
        self.program = timed.Program(directory, "portmap")
        self.backend = backend

    def run(self, verb, container, address, ports):
        """The time of one call in milliseconds."""
        conf = {"cniVersion": "1.0.0", "name": "net1", "type": "portmap",
                "runtimeConfig": {"portMappings": [
                    {"hostPort": port, "containerPort": 80, "protocol": "tcp"} for port in ports]},
                "prevResult": {"cniVersion": "1.0.0", "interfaces": [
                    {"name": "eth0", "sandbox": "/run/netns/pod"}],
                    "ips": [{"address": f"{address}/16", "interface": 0}]}}
        if self.backend:
            conf["backend"] = self.backend
        return self.program.run(verb, container, conf)


def node():
    """A node with a link that leads to the pods' subnet."""
    World()
    run("ip", "link", "add", "cni0", "type", "veth", "peer", "name", "far")
    run("ip", "addr", "add", "10.1.0.1/16", "dev", "cni0")
    run("ip", "link", "set", "cni0", "up")
    run("ip", "link", "set", "far", "up")
    pod = Pod("pod")
    pod.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "other")


def medians(caller, rounds, ports):
    """{"ADD": ms, "DEL": ms} of one pod that comes and goes."""
    times = {"ADD": [], "DEL": []}
    for number in range(rounds + 1):
        for verb in ("ADD", "DEL"):
            took = caller.run(verb, f"new{number}", "10.1.255.1", ports)
            if number:  # the first warms up
                times[verb].append(took)
    return {verb: statistics.median(all_of) for verb, all_of in times.items()}


def foreign_rules(count, chains):
    """As many iptables rules of others in so many chains."""
    lines = ["*nat"] + [f":OTHERS-{i} - [0:0]" for i in range(chains)]
    lines += [f"-A OTHERS-{i % chains} -d 10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}/32 -p tcp "
              f"-j DNAT --to-destination 10.2.0.1:80" for i in range(count)]
    run("iptables-nft-restore", "--noflush", stdin="\n".join(lines + ["COMMIT", ""]), timeout=300)


def ours_under_load(rounds):
    """One row per number of other pods' ports, each on the same node as it fills up."""
    node()
    caller = Caller(OURS, None)
    rows, there = [], 0
    for load in LOADS:
        for number in range(there, load):
            caller.run("ADD", f"old{number}", f"10.1.{number >> 8}.{number & 255}", [10000 + number])
        there = load
        one = medians(caller, rounds, [80])
        many = medians(caller, max(rounds // 4, 5), range(20000, 20200))
        rows.append({"ports of others": load, "1 port": one, "200 ports": many})
    return rows


def reference_under_load(rounds):
    """The same for the reference, one port, up to 500 of others (2000 take it minutes)."""
    node()
    caller = Caller(REFERENCE, None)
    rows, there = [], 0
    for load in LOADS[:2]:
        for number in range(there, load):
            caller.run("ADD", f"old{number}", f"10.1.{number >> 8}.{number & 255}", [10000 + number])
        there = load
        rows.append({"ports of others": load, "1 port": medians(caller, max(rounds // 4, 5), [80])})
    return rows


def beside_rules(count, chains, rounds):
    """One port, beside nobody's and beside so many rules of others."""
    node()
    caller = Caller(OURS, None)
    empty = medians(caller, rounds, [80])
    foreign_rules(count, chains)
    return {"rules of others": count, "chains": chains, "empty": empty,
            "full": medians(caller, rounds, [80])}


def show(result):
    for name in ("ours", "reference"):
        for row in result.get(name, []):
            cells = [f"{ports}: ADD {times['ADD']:.2f} DEL {times['DEL']:.2f}"
                     for ports, times in row.items() if ports != "ports of others"]
            print(f"{name:10} {row['ports of others']:5} ports of others   {'   '.join(cells)}")
    first, last = result["ours"][0], result["ours"][-1]
    for ports in ("1 port", "200 ports"):
        for verb in ("ADD", "DEL"):
            growth = 100 * (last[ports][verb] / first[ports][verb] - 1)
            verdict = "holds" if growth < 20 else "DOES NOT HOLD"
            print(f"{verb} with {ports}, 0 to {LOADS[-1]} ports of others: {growth:+.0f} % "
                  f"(less than 20 %: {verdict})")
    for rules in result["rules"]:
        ratio = rules["full"]["ADD"] / rules["empty"]["ADD"]
        print(f"ADD beside {rules['rules of others']} iptables rules in {rules['chains']} chains: "
              f"{rules['full']['ADD']:.2f} ms, {ratio:.2f} times that of an empty node "
              f"(at most 2: {'holds' if ratio <= 2 else 'DOES NOT HOLD'})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--foreign-rules", type=int, default=200000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    reason = why_impossible()
    if reason:
        sys.exit(reason)
    result = {"ours": ours_under_load(options.rounds)}
    if has_reference("portmap"):
        result["reference"] = reference_under_load(options.rounds)
    # Each transaction of nf_tables walks all chains of the namespace, whoever's they are
    # (nf_tables_commit() in the kernel), so it matters in how many chains the rules are.
    result["rules"] = [beside_rules(options.foreign_rules, chains, options.rounds)
                       for chains in (200, max(options.foreign_rules // 10, 1))]
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)


if __name__ == "__main__":
    main()
