#!/usr/bin/env python3
"""Times ADD and DEL of dhcp with dnsmasq, in turns with the reference and its daemon.

    scripts/bench dhcp [--rounds N] [--json]

ADD is the whole process of the plugin, spawn to end, in milliseconds. The server's share of it is what a
capture on the segment shows from DISCOVER to OFFER and from REQUEST to ACK; the rest is plugin, daemon and
kernel, and has the goal of 5 ms. The interface is up before. What the kernel put off is done before the next call.
Each figure is a median. An empty program, called beside them, shows what the machine takes for any process.
"""

import argparse
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import dhcp  # noqa: E402
from support.plugin import OURS, REFERENCE, environment, has_reference  # noqa: E402
from support.world import Pod, World, run, why_impossible  # noqa: E402

import timed  # noqa: E402
from measure import settle  # noqa: E402

GOAL = 5
CAPTURE = "/run/bench.pcap"


class Subject:
    """Plugin and daemon of a directory, with a pod of their own."""

    def __init__(self, name, directory):
        self.name, self.directory = name, directory
        self.socket = f"/run/{name}/dhcp.sock"
        os.makedirs(f"/run/{name}")
        more = ("-statedir", f"/run/{name}/states") if directory == OURS else ()
        self.daemon = dhcp.Daemon(*more, directory=directory, socket=self.socket)
        self.pod = Pod(name)
        dhcp.veth(self.pod, f"host-{name}")
        self.pod.run("ip", "link", "set", "eth0", "up")
        self.mac = json.loads(self.pod.run("ip", "-j", "link", "show", "eth0"))[0]["address"]
        self.times = {"ADD": [], "DEL": []}
        self.output = os.memfd_create("output")

    def call(self, verb, number):
        conf = dhcp.config(version="1.0.0", ipam={"daemonSocketPath": self.socket})
        env = environment(verb, self.pod.path, f"c{number}", "eth0", "", self.directory)
        self.times[verb].append(timed.spawn([f"{self.directory}/dhcp"], env, json.dumps(conf), self.output))
        settle()

    def answers(self):
        """Milliseconds that the server took for each ADD, in their order."""
        exchanges = [{}]
        for at, mac, kind in dhcp.packets(CAPTURE, "frame.time_epoch", "dhcp.hw.mac_addr", "dhcp.option.dhcp"):
            if mac != self.mac:
                continue
            if "ACK" in exchanges[-1] and dhcp.TYPES[int(kind)] == "DISCOVER":
                exchanges.append({})
            exchanges[-1].setdefault(dhcp.TYPES[int(kind)], float(at))
        return [1000 * (one["OFFER"] - one["DISCOVER"] + one["ACK"] - one["REQUEST"]) for one in exchanges]

    def figures(self):
        answers = self.answers()
        if len(answers) != len(self.times["ADD"]):
            raise RuntimeError(f"{self.name}: {len(answers)} exchanges captured of {len(self.times['ADD'])}")
        return {"ADD": statistics.median(self.times["ADD"]), "server": statistics.median(answers),
                "rest": statistics.median(took - answer for took, answer in zip(self.times["ADD"], answers)),
                "DEL": statistics.median(self.times["DEL"])}


def empty_program(output):
    """Milliseconds."""
    took = timed.spawn([f"{OURS}/bench_empty"], os.environ, "", output)
    settle()
    return took


def measure(rounds):
    World()
    dhcp.segment()
    server = dhcp.dnsmasq()
    subjects = [Subject("ours", OURS)]
    if has_reference("dhcp"):
        subjects.append(Subject("reference", REFERENCE))
    try:
        for subject in subjects:  # what only the first call does
            for verb in subject.times:
                subject.call(verb, "first")
            subject.times = {"ADD": [], "DEL": []}
        empty = []
        with dhcp.capture(CAPTURE):
            for number in range(rounds):
                empty.append(empty_program(subjects[0].output))
                for subject in subjects:
                    for verb in subject.times:
                        subject.call(verb, number)
        return {subject.name: subject.figures() for subject in subjects}, statistics.median(empty)
    finally:
        server.stop()
        for subject in subjects:
            subject.daemon.kill()
        run("ip", "link", "del", dhcp.BRIDGE)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if reason := why_impossible():
        sys.exit(reason)
    result, empty = measure(options.rounds)
    if options.json:
        print(json.dumps(result | {"empty program": empty}, indent=2))
        return
    for name, row in result.items():
        print(f"{name:10} ADD {row['ADD']:.2f} ms, of which the server {row['server']:.2f} and the rest "
              f"{row['rest']:.2f}   DEL {row['DEL']:.2f} ms")
    print(f"an empty program {empty:.2f} ms")
    rest = result["ours"]["rest"]
    print(f"ADD beside the server's time: {rest:.2f} ms "
          f"(at most {GOAL}: {'holds' if rest <= GOAL else 'DOES NOT HOLD'})")


if __name__ == "__main__":
    main()
