#!/usr/bin/env python3
"""CHECK and REPAIR of a pod ask the kernel for what that pod has: their system calls, and the bytes that the kernel answers,
are as many on a node with many pods as on one with few."""

import collections
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import cnitool, environment, use  # noqa: E402
from support.configs import lack  # noqa: E402
from support.plugin import OURS, have  # noqa: E402
from support.world import Pod, run, vlan_filtering  # noqa: E402

IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}
BRIDGE = {"type": "bridge", "isGateway": True, "ipMasq": True, "macspoofchk": True, "ipam": IPAM}
LIMITS = {"ingressRate": 8000000, "ingressBurst": 8000000, "egressRate": 8000000, "egressBurst": 8000000}
CHAINS = [
    ("bridge", [BRIDGE]),
    ("bridge with VLAN", [BRIDGE | {"vlan": 5, "ipMasq": False}]),
    ("ptp", [{"type": "ptp", "ipMasq": True, "ipam": IPAM}]),
    ("macvlan", [{"type": "macvlan", "master": "up0", "ipam": IPAM}]),
    ("ipvlan", [{"type": "ipvlan", "master": "up0", "ipam": IPAM}]),
    ("bridge with ipMasq in iptables", [BRIDGE | {"ipMasqBackend": "iptables"}]),
    ("portmap", [BRIDGE, {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": True}}]),
    ("firewall in nftables", [BRIDGE, {"type": "firewall", "backend": "nftables", "ingressPolicy": "isolated"}]),
    ("firewall in iptables", [BRIDGE, {"type": "firewall", "backend": "iptables", "ingressPolicy": "same-bridge"}]),
    ("bandwidth", [BRIDGE, {"type": "bandwidth", **LIMITS}]),
    ("tuning and sbr", [BRIDGE, {"type": "tuning", "sysctl": {"net.core.somaxconn": "500"}}, {"type": "sbr"}]),
]
MEMORY = ("brk(", "mmap(", "munmap(", "futex(")
FEW, MANY = 8, 24  # the first rules of a chain come in one answer, which is full by then


@suite.spread
class Cost(suite.NodeTest):
    def setUp(self):
        super().setUp()
        if have("strace"):
            self.skipTest("needs the program strace")
        run("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1")
        run("ip", "link", "set", "up0", "up")
        self.pods = []

    def fill(self, count):
        while len(self.pods) < count:
            number = len(self.pods)
            pod = Pod(f"p{number}")
            self.assert_ok(cnitool("add", "net", pod.path, "--container-id", f"c{number}", CAP_ARGS={"portMappings": [
                {"hostPort": 8000 + number, "containerPort": 80, "protocol": "tcp"}]}))
            self.pods.append(pod)

    def cost(self, *command):
        """{executable: (system calls, bytes received)}"""
        shutil.rmtree("/run/strace", ignore_errors=True)
        os.mkdir("/run/strace")
        done = subprocess.run(["strace", "-ff", "-qq", "-o", "/run/strace/of", os.path.join(OURS, "cnitool"), *command],
                              env=environment(), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        out = collections.defaultdict(lambda: [0, 0])
        for name in os.listdir("/run/strace"):
            with open(f"/run/strace/{name}", encoding="utf-8", errors="replace") as file:
                calls = file.read()
            executable = re.search(r'execve\("[^"]*/([^"/]*)"', calls)
            if executable and executable[1] != "cnitool":
                one = out[executable[1]]
                one[0] += len([call for call in calls.splitlines() if not call.startswith(MEMORY)])
                one[1] += sum(map(int, re.findall(r"^recvmsg\(.* = (\d+)$", calls, re.MULTILINE)))
        return {name: tuple(one) for name, one in out.items()}

    def costs(self):
        check = self.cost("check", "net", self.pods[3].path, "--container-id", "c3")
        look = self.cost("repair", "net", "--dry-run", "--container-id", "c3")
        return check, look

    @suite.cases(CHAINS)
    def of(self, plugins):
        if reason := lack(*(one["type"] for one in plugins)):
            self.skipTest(reason)
        if "vlan" in plugins[0] and not vlan_filtering():
            self.skipTest("this kernel has no VLAN filtering")
        use({"cniVersion": "1.1.0", "name": "net", "plugins": plugins})
        self.fill(FEW)
        few = self.costs()
        self.fill(MANY)
        many = self.costs()
        for before, after in zip(few, many):
            for name, (calls, received) in after.items():
                self.assertLessEqual(calls, before[name][0] + 2, name)
                self.assertLessEqual(received, before[name][1] + 200, name)


if __name__ == "__main__":
    suite.main()
