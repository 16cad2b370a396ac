#!/usr/bin/env python3
"""New connections per second out of a masqueraded pod, beside others: the map of ours, and a rule per
pod as the reference plugin and earlier versions have them.

    scripts/bench connections [--pods N,...] [--flows N] [--rounds N] [--json]

A connection is a datagram to an address and port that the pod has sent nothing to. The time is that of
sendto(2), in which the kernel takes it over the bridge, through NAT and out of the node. The cases
take turns; a figure is the median of its rounds. The pod of the rules is the last one, as the newest
pod of a node is. "alone" has no NAT at all.
"""

import argparse
import json
import os
import socket
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support.hostport import NODE, OUTSIDE, SECOND, Site  # noqa: E402
from support.plugin import cni  # noqa: E402
from support.world import Pod, World, run, why_impossible  # noqa: E402

CONFIG = {"cniVersion": "1.0.0", "name": "pods", "type": "bridge", "isDefaultGateway": True,
          "ipMasq": True, "ipMasqBackend": "nftables",
          "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.200.0.0/16"}]]}}
OWNER = "8e48f37d5de60467-{:016x}, net: pods, if: eth0, id: p{}"
RULES = """table inet cni_plugins_masquerade {{
  chain masq_checks {{
{}
  }}
  chain postrouting {{
    type nat hook postrouting priority 100; policy accept;
    ip daddr 224.0.0.0/4 return
    ip6 daddr ff00::/8 return
    goto masq_checks
  }}
}}
"""


def others(count):
    return [(f"10.200.{100 + i // 250}.{i % 250 + 1}", OWNER.format(i, i)) for i in range(count)]


def of_the_map(ruleset, count):
    """Ours, as ADD made it for the pod, and the elements of the others."""
    elements = ",".join(f'{address} comment "{owner}" : goto masq_10.200.0.0/16'
                        for address, owner in others(count))
    return f"{ruleset}\nadd element inet patchbay_masquerade pods4 {{ {elements} }}\n"


def of_rules(pod, count):
    pods = others(count) + [(pod, OWNER.format(count, count))]
    return RULES.format("\n".join(
        f'    ip saddr {address} ip daddr != 10.200.0.0/16 masquerade comment "{owner}"'
        for address, owner in pods))


def bound(pod, address=""):
    with pod.inside():
        out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        out.bind((address, 0))
    out.settimeout(5)
    return out


class Sender:
    """In the pod: each round to an address of its own, which the outside drops."""

    def __init__(self, pod, flows):
        self.socket = bound(pod)
        self.flows, self.rounds = flows, 0

    def source(self, outside):
        """The address that the outside sees of a new connection."""
        with bound(outside, OUTSIDE[4]) as server:
            self.socket.sendto(b"", server.getsockname())
            return server.recvfrom(1)[1][0]

    def per_second(self):
        self.rounds += 1
        address = f"198.18.{self.rounds >> 8}.{self.rounds & 255}"
        begin = time.perf_counter()
        for port in range(1, self.flows + 1):
            self.socket.sendto(b"", (address, port))
        return self.flows / (time.perf_counter() - begin)


def measured(options):
    World()
    site = Site()
    site.outside.run("ip", "route", "del", "default")  # what is not masqueraded is lost there
    run("ip", "route", "add", "198.18.0.0/15", "via", OUTSIDE[4])
    pod = Pod("pod")
    outcome = cni("bridge", "ADD", CONFIG, netns=pod.path)
    if outcome.status:
        sys.exit(str(outcome))
    address = outcome.json["ips"][0]["address"].split("/")[0]
    ruleset = run("nft", "list", "ruleset")
    cases = {"alone": ""}
    for count in options.pods:
        cases[f"map, {count}"] = of_the_map(ruleset, count)
        cases[f"rules, {count}"] = of_rules(address, count)
    sender = Sender(pod, options.flows)
    found = {name: [] for name in cases}
    for _ in range(options.rounds + 1):
        for name, text in cases.items():
            run("nft", "-f", "-", stdin="flush ruleset\n" + text)
            masqueraded = sender.source(site.outside) in (NODE[4], SECOND[4])
            if masqueraded != (name != "alone"):
                sys.exit(f"{name}: {'' if masqueraded else 'not '}masqueraded")
            found[name].append(sender.per_second())
    return {name: statistics.median(all_of[1:]) for name, all_of in found.items()}  # one warms up


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pods", default=[10, 1000], metavar="N,...",
                        type=lambda text: [int(one) for one in text.split(",")],
                        help="pods on the node beside it (10,1000)")
    parser.add_argument("--flows", type=int, default=4000, help="in a round (4000)")
    parser.add_argument("--rounds", type=int, default=9, help="of each case (9)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if reason := why_impossible():
        sys.exit(reason)
    found = measured(options)
    if options.json:
        print(json.dumps(found))
        return
    print(f"{'pods beside':22}{'connections/s':>14}{'us each':>10}")
    for name, value in found.items():
        print(f"{name:22}{value:14.0f}{1e6 / value:10.1f}")


if __name__ == "__main__":
    main()
