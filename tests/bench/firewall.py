#!/usr/bin/env python3
"""What firewall costs a call, and a packet, on an empty node and beside the pods of others.

    scripts/bench firewall [--pods N] [--rounds N] [--iptables nft|legacy] [--only calls|packets] [--json]

Calls: each backend and the reference, which has iptables alone, in turns on two nodes: one without
other pods, one with N in both tables. The other pods come by ADD. "iptables-restore" is that program alone
with the two rules of a pod: no ADD of the backend iptables can take less. Milliseconds, medians of the whole
process, spawn to end. What ADD may take of the reference's time is judged by `scripts/bench --only
firewall,firewall-iptables`.

Packets: datagrams a second from a pod with ingressPolicy same-bridge, through the node to the
outside: of one connection that is answered, and each of a connection of its own, without the plugin and beside
0 and N other pods, of which each tenth has a bridge with a policy. The figure is from the time of send(2), in
which the kernel takes the datagram over the bridge and out of the node. Cases take turns; medians of the rounds.
Exit status 1: a goal is missed.
"""

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import measure  # noqa: E402
import timed  # noqa: E402
from figures import MOST_GROWTH  # noqa: E402
from installed import installed  # noqa: E402
from support import hostport  # noqa: E402
from support.hostport import OUTSIDE, Site  # noqa: E402
from support.plugin import OURS, REFERENCE, cni, has_reference  # noqa: E402
from support.world import CLONE_NEWNET, CLONE_NEWNS, Pod, World, run, setns, why_impossible  # noqa: E402

VERBS = ("ADD", "CHECK", "DEL")
BACKENDS = ("nftables", "iptables")
LEAST_PACKETS = 0.97
PROGRAM = "iptables-restore"


def address_of(number):
    return f"10.200.{number // 250}.{number % 250 + 1}"


class Firewall:
    """A plugin firewall with a backend, called for pods by their numbers."""

    def __init__(self, directory, backend):
        self.program, self.backend = timed.Program(directory, "firewall"), backend

    def run(self, verb, number):
        conf = {"cniVersion": "1.0.0", "name": "pods", "type": "firewall", "backend": self.backend,
                "prevResult": {"cniVersion": "1.0.0", "interfaces": [{"name": "cni0"}, {
                    "name": "eth0", "sandbox": "/run/netns/pod"}],
                    "ips": [{"address": f"{address_of(number)}/16", "interface": 1}]}}
        return self.program.run(verb, f"p{number}", conf)


class Restore:
    """iptables-restore with the rules of a pod."""

    def __init__(self):
        self.output = os.memfd_create("output")

    def run(self, verb, number):
        if verb == "CHECK":
            return None
        ip, action = address_of(number), {"ADD": "-A", "DEL": "-D"}[verb]
        text = (f"*filter\n{action} CNI-FORWARD -d {ip}/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"
                f"{action} CNI-FORWARD -s {ip}/32 -j ACCEPT\nCOMMIT\n")
        return timed.spawn([shutil.which(PROGRAM), "--noflush", "--wait=10"], os.environ, text, self.output)


class Node:
    """A node with so many pods of the backends nftables and iptables."""

    FIRST = 1000  # of their numbers: those that are measured have lower ones

    def __init__(self, pods, ours, variant):
        World()
        if reason := hostport.select_iptables(variant):
            sys.exit(reason)
        for backend in BACKENDS:
            one = Firewall(ours, backend)
            for number in range(max(pods, 1)):
                one.run("ADD", self.FIRST + number + pods * (backend == "iptables"))
            if not pods:  # what all share stays
                one.run("DEL", self.FIRST)
        self._each = [(os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind)
                      for name, kind in (("mnt", CLONE_NEWNS), ("net", CLONE_NEWNET))]

    def enter(self):
        for fd, kind in self._each:
            setns(fd, kind)


def measure_calls(options):
    """{subject: {verb: [ms without others, ms beside them]}}."""
    ours = installed(OURS)
    nodes = [Node(pods, ours, options.iptables) for pods in (0, options.pods)]
    subjects = {backend: Firewall(ours, backend) for backend in BACKENDS} | {PROGRAM: Restore()}
    if has_reference("firewall"):
        subjects["reference"] = Firewall(REFERENCE, "iptables")
    took = {name: {verb: ([], []) for verb in VERBS} for name in subjects}
    for number in range(options.rounds + 1):
        for which in (number % 2, 1 - number % 2):
            nodes[which].enter()
            for name, one in subjects.items():
                for verb in VERBS:
                    took[name][verb][which].append(one.run(verb, number))
                    measure.settle(0.03)  # a removal occupies the kernel for some time
    return {name: {verb: [statistics.median(times[1:]) for times in both] for verb, both in verbs.items()
                   if both[0][0] is not None} for name, verbs in took.items()}  # the first warms up


def verdict(what, holds):
    print(f"{what}: {'holds' if holds else 'DOES NOT HOLD'}")
    return holds


def show_calls(found, pods):
    for name, verbs in found.items():
        print(f"{name:18}" + "   ".join(f"{verb} {one:6.2f} {beside:6.2f}" for verb, (one, beside) in verbs.items()))
    good, program = True, found[PROGRAM]["ADD"]
    for backend in BACKENDS:
        one, beside = found[backend]["ADD"]
        own = (beside - program[1]) - (one - program[0]) if backend == "iptables" else beside - one
        growth = 1 + own / one
        beyond = " beyond that of iptables-restore" if backend == "iptables" else ""
        good &= verdict(f"ADD, {backend}: growth{beyond} beside {pods} pods {growth:.2f} (at most {MOST_GROWTH})",
                        growth <= MOST_GROWTH)
    return good


class Sender:
    """In a pod: connections to the outside, one that is answered and any number that are not."""

    def __init__(self, pod, outside, count):
        self.count, self.rounds = count, 0
        with pod.inside():
            self.one, self.each = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        with outside.inside():
            self.server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.server.bind((OUTSIDE[4], 0))
        self.server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)  # what is not read is dropped
        self.one.settimeout(5)
        self.one.connect(self.server.getsockname())

    def _be_answered(self):
        """The kernel knows of an answer, whatever it forgot without rules."""
        self.server.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.server.recv(1)
        self.server.settimeout(5)
        self.one.send(b"?")
        self.server.sendto(b"!", self.server.recvfrom(1)[1])
        self.one.recv(1)

    def answered(self):
        self._be_answered()
        send = self.one.send
        begin = time.perf_counter()
        for _ in range(self.count):
            send(b"")
        return self.count / (time.perf_counter() - begin)

    def new(self):
        self.rounds += 1
        address = f"198.18.{self.rounds >> 8}.{self.rounds & 255}"
        begin = time.perf_counter()
        for port in range(1, self.count + 1):
            self.each.sendto(b"", (address, port))
        return self.count / (time.perf_counter() - begin)


def beside(ruleset, count):
    """The tables as ADD made them for the pod, and the elements of others."""
    if not count:
        return ruleset
    pods = ",".join(f'{address_of(1000 + number)} comment "{number:033x}"' for number in range(count))
    links = [f"bridge{number}" for number in range(count // 10)]
    return (f"{ruleset}\nadd element inet patchbay_firewall pods4 {{ {pods} }}\n"
            f"add element inet patchbay_firewall policy_links {{ {','.join(links)} }}\n"
            f"add element inet patchbay_firewall same_bridge {{ {','.join(f'{one} . {one}' for one in links)} }}\n")


def connect(pod):
    """bridge and firewall, as a runtime calls them."""
    conf = {"cniVersion": "1.0.0", "name": "pods", "type": "bridge", "isDefaultGateway": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.200.0.0/16"}]]}}
    for _ in range(2):
        outcome = cni(conf["type"], "ADD", conf, netns=pod.path)
        if outcome.status:
            sys.exit(str(outcome))
        conf = {"cniVersion": "1.0.0", "name": "pods", "type": "firewall", "backend": "nftables",
                "ingressPolicy": "same-bridge", "prevResult": outcome.json}


def measure_packets(options):
    """{case: {"answered": packets a second, "new": the same}}."""
    World()
    site = Site()
    site.outside.run("ip", "route", "add", "10.200.0.0/16", "via", hostport.NODE[4])
    run("ip", "route", "add", "198.18.0.0/15", "via", OUTSIDE[4])
    pod = Pod("pod")
    connect(pod)
    ruleset = run("nft", "list", "ruleset")
    cases = {"without": "", "0": ruleset, f"{options.pods}": beside(ruleset, options.pods)}
    sender = Sender(pod, site.outside, 4000)
    found = {name: {"answered": [], "new": []} for name in cases}
    for number in range(options.rounds + 1):
        for name in list(cases)[::(-1) ** number]:
            run("nft", "-f", "-", stdin="flush ruleset\n" + cases[name])
            measure.settle()
            for kind in ("answered", "new"):
                found[name][kind].append(getattr(sender, kind)())
    return {name: {kind: statistics.median(rates[1:]) for kind, rates in kinds.items()}
            for name, kinds in found.items()}


def show_packets(found, pods):
    good = True
    for name, kinds in found.items():
        print(f"{name:10}" + "   ".join(f"{kind} {rate:8.0f} packets/s, {1e6 / rate:.2f} us"
                                        for kind, rate in kinds.items()))
    for kind in ("answered", "new"):
        ratio = found[str(pods)][kind] / found["0"][kind]
        good &= verdict(f"{kind}: {ratio:.3f} of the packets beside {pods} pods (at least {LEAST_PACKETS})",
                        ratio >= LEAST_PACKETS)
    return good


PARTS = {"calls": (measure_calls, show_calls), "packets": (measure_packets, show_packets)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pods", type=int, default=1000, help="on the node beside it (1000)")
    parser.add_argument("--rounds", type=int, default=25, help="of each case (25)")
    parser.add_argument("--iptables", choices=("nft", "legacy"), default="nft")
    parser.add_argument("--only", choices=tuple(PARTS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if reason := why_impossible():
        sys.exit(reason)
    data, good = {}, True
    for name, (measured, show) in PARTS.items():
        if options.only in (None, name):
            data[name] = measured(options)
            good &= options.json or show(data[name], options.pods)
    if options.json:
        print(json.dumps(data, indent=2))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
