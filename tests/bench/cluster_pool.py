#!/usr/bin/env python3
"""What cluster-pool costs a pod beside host-local: the chain of bridge, portmap and bandwidth with each of them.

    scripts/bench cluster-pool [--pods N] [--present N] [--json FILE]

The node has as many blocks as agents claim for the pods that are there. Both have a node of their own, and they take turns.
Milliseconds, medians of the time in plugins, spawn to end. Exit status 1: ADD or DEL takes more than 5 % longer.
"""

import argparse
import ipaddress
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import measure  # noqa: E402
from subject import Subject, chain  # noqa: E402
from support import blocks  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.world import World, why_impossible  # noqa: E402

MOST = 1.05
SUBNET = "10.200.0.0/16"
OF_BLOCK = 16


class Node(Subject):
    """A node whose chain has that IPAM plugin."""

    def __init__(self, name, pods):
        self.name, self.path = name, OURS
        World()
        network = chain("br0", "ipv4")
        network["plugins"][0]["ipam"]["type"] = name
        # No block is asked for: 3/4 of them are not used.
        count = -(-pods * 4 // (3 * OF_BLOCK)) + 2
        cidrs = [str(one) for one, _ in zip(ipaddress.ip_network(SUBNET).subnets(new_prefix=28), range(count))]
        blocks.held(*cidrs, network=network["name"], of=blocks.pool(SUBNET))
        self._start({"pods": network}, {})


def medians(found):
    """{subject: {verb: milliseconds}}."""
    return {name: {verb: statistics.median(of["took"]) / 1000 for verb, of in verbs.items()}
            for name, verbs in found.items()}


def verdict(took):
    """Prints the table and the ratios; whether the goals are reached."""
    print(f"{'':26}" + "".join(f"{verb:>10}" for verb in measure.VERBS))
    for name, verbs in took.items():
        print(f"{name:26}" + "".join(f"{verbs[verb]:8.2f}ms" for verb in measure.VERBS))
    reached = True
    for verb in ("ADD", "DEL"):
        ratio = took["cluster-pool"][verb] / took["host-local"][verb]
        reached = reached and ratio <= MOST
        print(f"{verb}: {ratio:.3f} of host-local's, at most {MOST:.3f}: {'ok' if ratio <= MOST else 'MISSED'}")
    return reached


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--pods", type=int, default=40, help="how often each comes (40)")
    parser.add_argument("--present", type=int, default=1, help="pods that are there already (1)")
    parser.add_argument("--json", metavar="FILE", help="stores the medians")
    options = parser.parse_args()
    options.ports = 1
    if reason := why_impossible():
        sys.exit(reason)
    subjects = {name: Node(name, options.present) for name in ("host-local", "cluster-pool")}
    took = medians(measure.one_at_a_time(subjects, options.pods, options, "pods"))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(took, file)
    sys.exit(0 if verdict(took) else 1)


if __name__ == "__main__":
    main()
