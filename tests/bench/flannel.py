#!/usr/bin/env python3
"""What flannel costs a pod: k3s's list of flannel, portmap and bandwidth.

    scripts/bench flannel [--pods N] [--json FILE]

Beside it are our own list with the bridge in flannel's place, with the config that flannel gives it, and the
reference's plugins below a flannel in Go, which is PATCHBAY_FLANNEL (scripts/reference --flannel) or the one in
PATCHBAY_REFERENCE; where there is none, the reference's list without flannel. Each has a node of its own, and they
take turns. Milliseconds, medians of the time in plugins, spawn to end. Exit status 1: ADD misses a goal.
"""

import argparse
import atexit
import json
import os
import shutil
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import measure  # noqa: E402
from subject import MBIT, Subject  # noqa: E402
from support.plugin import OURS, PLUGINS, REFERENCE, has_reference  # noqa: E402
from support.world import World, why_impossible  # noqa: E402

#: Goals of ADD: of the time without flannel at most, and of the reference's.
MOST_OF_CHAIN = 1.1
MOST_OF_REFERENCE = 1 / 12
SUBNET_ENV = ("FLANNEL_NETWORK=10.200.0.0/16\nFLANNEL_SUBNET=10.200.1.1/24\nFLANNEL_MTU=1450\n"
              "FLANNEL_IPMASQ=true\n")
DELEGATE = {"hairpinMode": True, "forceAddress": True, "isDefaultGateway": True}
FLANNEL = {"type": "flannel", "delegate": DELEGATE}
BRIDGE = {"type": "bridge", "isGateway": True, "mtu": 1450, "ipMasq": False, **DELEGATE, "ipam": {
    "type": "host-local", "ranges": [[{"subnet": "10.200.1.0/24"}]], "routes": [{"dst": "10.200.0.0/16"}]}}
LIMITS = {"ingressRate": 100 * MBIT, "ingressBurst": 10 * MBIT, "egressRate": 100 * MBIT, "egressBurst": 10 * MBIT}


def list_of(first):
    """k3s's list with that plugin in the first place. The version is one that also old plugins know."""
    return {"cniVersion": "0.4.0", "name": "cbr0", "plugins": [
        first, {"type": "portmap", "capabilities": {"portMappings": True}},
        {"type": "bandwidth", "capabilities": {"bandwidth": True}}]}


class Node(Subject):
    """A node of flannel with that plugin in the first place of the list."""

    def __init__(self, name, directory, first):
        self.name, self.path = name, directory
        World()
        os.mkdir("/run/flannel")
        with open("/run/flannel/subnet.env", "w", encoding="ascii") as file:
            file.write(SUBNET_ENV)
        self._start({"pods": list_of(first)}, {})

    def pod(self, number, ports=1):
        found = super().pod(number, ports)
        found["capabilities"]["bandwidth"] = LIMITS
        return found


def reference():
    """The directory of the reference's plugins with a flannel, and whether there is one; None: there are none."""
    if not has_reference():
        return None
    flannel = os.environ.get("PATCHBAY_FLANNEL") or os.path.join(REFERENCE, "flannel")
    if not os.access(flannel, os.X_OK):
        return REFERENCE, False
    place = tempfile.mkdtemp(prefix="patchbay-bench-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    for name in PLUGINS:
        if name != "flannel" and os.path.exists(os.path.join(REFERENCE, name)):
            os.symlink(os.path.join(os.path.abspath(REFERENCE), name), os.path.join(place, name))
    os.symlink(os.path.abspath(flannel), os.path.join(place, "flannel"))
    return place, True


def subjects():
    found = [Node("flannel", OURS, FLANNEL), Node("without flannel", OURS, BRIDGE)]
    if there := reference():
        directory, has_flannel = there
        name = "reference" if has_flannel else "reference without flannel"
        found.append(Node(name, directory, FLANNEL if has_flannel else BRIDGE))
    return {one.name: one for one in found}


def medians(found):
    """{subject: {verb: milliseconds}}."""
    return {name: {verb: statistics.median(of["took"]) / 1000 for verb, of in verbs.items()}
            for name, verbs in found.items()}


def verdict(took):
    """Prints the table and the ratios of ADD; whether the goals are reached."""
    print(f"{'':26}" + "".join(f"{verb:>10}" for verb in measure.VERBS))
    for name, verbs in took.items():
        print(f"{name:26}" + "".join(f"{verbs[verb]:8.2f}ms" for verb in measure.VERBS))
    reached = True
    ours = took["flannel"]["ADD"]
    for name, most in (("without flannel", MOST_OF_CHAIN), *((name, MOST_OF_REFERENCE) for name in took
                                                              if name.startswith("reference"))):
        ratio = ours / took[name]["ADD"]
        reached = reached and ratio <= most
        print(f"ADD, {name}: {ratio:.3f} of it, at most {most:.3f}: {'ok' if ratio <= most else 'MISSED'}")
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
    took = medians(measure.one_at_a_time(subjects(), options.pods, options, "pods"))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(took, file)
    sys.exit(0 if verdict(took) else 1)


if __name__ == "__main__":
    main()
