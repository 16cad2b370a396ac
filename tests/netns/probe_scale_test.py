#!/usr/bin/env python3
"""`cnitool probe` of many pods. 100 pods of three networks take at most 5 s of processors; with PATCHBAY_PODS=1500 up to so many.
A bound, and not the goal: the time of a question still grows with the pods of a bridge."""

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
        self.assertEqual((probing.returncode, text), (0, ""))
        asked = len(cnitool("probe", "--dry-run").stdout.splitlines())
        busy = used.ru_utime + used.ru_stime
        print(f"     {count} pods: {asked} questions in {seconds:.2f} s, {asked / seconds:.0f} a second, "
              f"{1000 * busy / asked:.2f} ms of a processor for each", flush=True)
        return seconds, busy, asked

    def test_four_times_the_pods_make_a_question_cost_at_most_four_times_as_much(self):
        few = max(MOST // 4, 25)
        _, before, asked_before = self.probed(few)
        _, busy, asked = self.probed(MOST)
        # An ARP request reaches each port of its bridge, so that the kernel's part grows with the pods of a bridge, too.
        self.assertLess(busy / asked, 4 * before / asked_before)
        if MOST == 100:
            self.assertLess(busy, 5)


if __name__ == "__main__":
    suite.main()
