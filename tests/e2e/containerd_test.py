#!/usr/bin/env python3
"""containerd with its CNI library, on our plugins: containers serve a page to their node."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import image, suite  # noqa: E402
from support.plugin import OURS, PLUGINS  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import World, fetch, remove_cgroups, run, wait_for  # noqa: E402

PAGE = "patchbay answers\n"
# What containerd itself keeps in /run, and its cache of results.
CONTAINERDS_OWN = ("file/run/c8d/", "file/run/containerd/", "file/run/runc/",
                   "file/var/lib/cni/results/")
SOCKET = "/run/c8d/containerd.sock"

CONFIG = """\
version = 2
root = "/run/c8d/root"
state = "/run/c8d/state"
[grpc]
address = "/run/c8d/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
"""


def conflist(version, ranges):
    return {"cniVersion": version, "name": "patchbay", "plugins": [
        {"type": "bridge", "bridge": "cni-c8d", "isGateway": True, "ipMasq": True,
         "ipam": {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}}]}


IPV4 = [[{"subnet": "10.87.1.0/24"}]]
DUAL = IPV4 + [[{"subnet": "fd00:87:1::/64"}]]
NETWORKS = [(f"{version} {name}", conflist(version, ranges))
            for version, name, ranges in (("0.3.1", "IPv4", IPV4), ("0.4.0", "dual-stack", DUAL),
                                          ("1.0.0", "dual-stack", DUAL))]


@suite.spread
class Containerd(suite.NodeTest):
    def setUp(self):
        super().setUp()
        os.mkdir("/run/c8d")
        # ctr knows only these directories.
        World.private("/opt/cni/bin")
        World.private("/etc/cni/net.d")
        for name in PLUGINS:
            os.symlink(os.path.join(OURS, name), f"/opt/cni/bin/{name}")
        with open("/run/c8d/config.toml", "w", encoding="ascii") as file:
            file.write(CONFIG)
        with open("/run/c8d/log", "wb") as log:
            self.daemon = subprocess.Popen(["containerd", "--config", "/run/c8d/config.toml"],
                                           stdout=log, stderr=log)
        self.cgroup = f"patchbay-containerd-{os.getpid()}"
        self.addCleanup(remove_cgroups, self.cgroup)
        self.addCleanup(self.stop)
        if not wait_for(lambda: self.ctr("version", check=False).returncode == 0, 20, 0.1):
            with open("/run/c8d/log", encoding="utf-8") as log:
                self.fail("containerd does not answer: " + log.read())
        image.build("/run/c8d/image.tar", PAGE)
        self.ctr("image", "import", "--snapshotter", "native", "/run/c8d/image.tar")

    def stop(self):
        self.daemon.terminate()
        self.daemon.wait(20)

    def ctr(self, *arguments, check=True):
        done = subprocess.run(["ctr", "--address", SOCKET, *arguments], capture_output=True,
                              text=True, timeout=120)
        if check:
            self.assertEqual(done.returncode, 0, f"ctr {arguments}: {done.stderr}{done.stdout}")
        return done

    def start(self, name):
        # In the foreground: a detached ctr never removes what its CNI library added.
        process = subprocess.Popen(["ctr", "--address", SOCKET, "run", "--rm", "--cni",
                                    "--cgroup", f"/{self.cgroup}/{name}",
                                    "--snapshotter", "native", image.NAME, name],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(lambda: process.poll() is None and self.end(name, process))
        if not wait_for(lambda: self.eth0(name) or process.poll() is not None, 20, 0.05):
            self.fail(f"{name} does not start")
        if process.poll() is not None:
            self.fail(f"{name} ended: {process.stdout.read()}")
        return process

    def eth0(self, name):
        """The global addresses of a container, once its web server runs."""
        shown = self.inside(name, "ip", "addr", "show", "eth0")
        return [line.split()[1].split("/")[0] for line in shown.splitlines()
                if "scope global" in line]

    def inside(self, name, *command):
        return self.ctr("task", "exec", "--exec-id", f"look{os.urandom(4).hex()}", name,
                        *command, check=False).stdout

    def end(self, name, process):
        """Kills a container; its ctr then removes its network, with an empty CNI_NETNS."""
        self.ctr("task", "kill", "--signal", "KILL", name)
        process.wait(20)
        self.assertNotIn("fail", process.stdout.read())

    @suite.cases(NETWORKS)
    def serves_its_page_to_the_node(self, network):
        with open("/etc/cni/net.d/10-patchbay.conflist", "w", encoding="ascii") as file:
            json.dump(network, file)
        before = snapshot()
        running = {name: self.start(name) for name in ("web1", "web2")}
        families = len(network["plugins"][0]["ipam"]["ranges"])
        addresses = []
        for name in running:
            mine = self.eth0(name)
            self.assertEqual(len(mine), families, str(mine))
            self.assertIn("LOOPBACK,UP", self.inside(name, "ip", "link", "show", "lo"))
            for address in mine:
                self.assertEqual(fetch(address), PAGE)
            addresses += mine
        self.assertEqual(len(set(addresses)), 2 * families)
        self.assertEqual(self.inside("web2", "wget", "-qO-", f"http://{addresses[0]}/"), PAGE)
        self.end("web1", running["web1"])
        self.assertEqual(fetch(addresses[families]), PAGE, "the other container goes on")
        self.end("web2", running["web2"])
        wait_for(lambda: run("ip", "-j", "link", "show", "type", "veth").strip() in ("", "[]"))
        self.assert_same(before, ignore=lambda place: left_by_design(place, "cni-c8d")
                         or place.startswith(CONTAINERDS_OWN))


if __name__ == "__main__":
    suite.main(needs=("containerd", "ctr", "runc", "busybox"), daemons=True)
