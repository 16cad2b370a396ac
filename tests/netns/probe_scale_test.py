#!/usr/bin/env python3
"""`cnitool probe` of many pods: 100 of three networks take at most 5 s of processors, and a question about one of 100, or with
PATCHBAY_PODS=1500 of 1,500, costs about as much as about one of a few."""

import base64
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import RESULTS, cnitool, start  # noqa: E402
from support.world import Pod, run, wait_for  # noqa: E402

MOST = int(os.environ.get("PATCHBAY_PODS") or "100")
NETWORKS = 3


def config(number):
    return {"cniVersion": "1.1.0", "name": f"net{number}", "plugins": [
        {"type": "bridge", "bridge": f"cni{number}", "isDefaultGateway": True, "ipMasq": True,
         "ipam": {"type": "host-local", "subnet": f"10.{number}.0.0/16"}},
        {"type": "portmap", "capabilities": {"portMappings": True}}]}


class Crowd(suite.NodeTest):
    """Pods as ADD would leave them, without the time that it takes for 1,500."""

    def setUp(self):
        super().setUp()
        self.made = 0
        os.makedirs(RESULTS)
        lines = ["link add up0 type veth peer name router", "link set router up", "addr add 192.0.2.1/24 dev up0"]
        for number in range(NETWORKS):
            lines += [f"link add cni{number} type bridge", f"addr add 10.{number}.0.1/16 dev cni{number}", f"link set cni{number} up"]
        run("ip", "-batch", "-", stdin="\n".join([*lines, "link set up0 up", ""]))
        run("sysctl", "-qw", "net.ipv4.ip_forward=1")

    def grow(self, count):
        first, self.made = self.made, count
        lines = []
        for i in range(first, count):
            Pod(f"p{i}")
            lines += [f"link add v{i} type veth peer name eth0 netns p{i}", f"link set v{i} up master cni{i % NETWORKS}"]
        run("ip", "-batch", "-", stdin="\n".join([*lines, ""]), timeout=600)
        for i in range(first, count):
            number, host = i % NETWORKS, i // NETWORKS + 2
            ip = f"10.{number}.{host // 256}.{host % 256}"
            run("ip", "-n", f"p{i}", "-batch", "-", stdin=f"link set lo up\nlink set eth0 up\naddr add {ip}/16 dev eth0\n"
                f"route add default via 10.{number}.0.1\n")
            self.remember(i, number, ip)
        wait_for(lambda: all('"operstate":"UP"' in run("ip", "-j", "link", "show", f"v{i}") for i in (first, count - 1)))

    @staticmethod
    def remember(i, number, ip):
        """As a runtime's cache has it."""
        result = {"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": f"/run/netns/p{i}"}],
                  "ips": [{"interface": 0, "address": f"{ip}/16", "gateway": f"10.{number}.0.1"}],
                  "routes": [{"dst": "0.0.0.0/0", "gw": f"10.{number}.0.1"}], "dns": {}}
        entry = {"kind": "cniCacheV1", "containerId": f"container{i}", "ifName": "eth0", "networkName": f"net{number}",
                 "netns": f"/run/netns/p{i}", "config": base64.b64encode(json.dumps(config(number)).encode()).decode(),
                 "capabilityArgs": {}, "cniArgs": None, "result": result}
        with open(f"{RESULTS}/net{number}-container{i}-eth0", "w", encoding="ascii") as file:
            json.dump(entry, file)

    def probed(self, count, rate="2000"):
        """(seconds, seconds of processors, questions)"""
        self.grow(count)
        began = time.monotonic()
        probing = start("probe", "-q", "--rate", rate, "--time-limit", "600")
        text = probing.stdout.read() + probing.stderr.read()
        _, status, used = os.wait4(probing.pid, 0)
        probing.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        for stream in (probing.stdout, probing.stderr):
            stream.close()
        self.assertEqual((probing.returncode, [line for line in text.splitlines() if not line.startswith("note: ")]), (0, []))
        asked = len(cnitool("probe", "--dry-run").stdout.splitlines())
        busy = used.ru_utime + used.ru_stime
        print(f"     {count} pods: {asked} questions in {seconds:.2f} s, {asked / seconds:.0f} a second, "
              f"{1000 * busy / asked:.2f} ms of a processor for each", flush=True)
        return seconds, busy, asked

    def test_a_question_costs_at_most_half_as_much_again_with_many_times_the_pods(self):
        _, before, asked_before = self.probed(min(MOST // 4, 100))
        _, busy, asked = self.probed(MOST)
        self.assertLess(busy / asked, 1.5 * before / asked_before)
        if MOST == 100:
            self.assertLess(busy, 5)

    def said(self):
        done = cnitool("probe", "-q", "--rate", "2000")
        self.assertEqual((done.status, done.stderr), (1, ""))
        return done.stdout

    def test_what_is_wrong_on_a_bridge_of_many_is_found(self):
        """Where the first pods ask by broadcasts, and the others do not."""
        self.grow(102)
        other, last = "10.2.0.2", "10.2.0.35"  # of the first and the last pod of a bridge
        for link in ("eth0", "lo"):  # the kernel answers ARP for either by any of its links
            run("ip", "-n", "p101", "addr", "add", f"{other}/32", "dev", link)
            self.assertIn(f"address {other} of container2 (eth0) in network 'net2': another host has it, too", self.said())
            run("ip", "-n", "p101", "addr", "del", f"{other}/32", "dev", link)
        Pod("guest")
        run("ip", "link", "add", "tap0", "type", "veth", "peer", "name", "eth0", "netns", "guest")
        run("ip", "link", "set", "tap0", "up", "master", "cni2")
        run("ip", "-n", "guest", "addr", "add", f"{last}/16", "dev", "eth0")
        run("ip", "-n", "guest", "link", "set", "eth0", "up")
        wait_for(lambda: '"operstate":"UP"' in run("ip", "-j", "link", "show", "tap0"))
        self.assertIn(f"address {last} of container101 (eth0) in network 'net2': another host has it, too", self.said())
        run("ip", "netns", "del", "guest")
        run("bridge", "link", "set", "dev", "v101", "bcast_flood", "off")
        self.assertIn("'v101', a port of its bridge, sends no broadcasts", self.said())
        run("bridge", "link", "set", "dev", "v101", "bcast_flood", "on")
        run("ip", "netns", "exec", "p101", "nft", "add table arp x; add chain arp x i { type filter hook input priority 0; policy drop; }")
        self.assertIn("chain 'i' of table arp x drops packets of ARP", self.said())


if __name__ == "__main__":
    suite.main()
