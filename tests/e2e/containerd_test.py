#!/usr/bin/env python3
"""containerd with its CNI library, on our plugins: containers and the pods of its Container Runtime
Interface serve a page to their node."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import image, suite  # noqa: E402
from support.containerd import (OWN_FILES, NEEDED, PAGE, SOCKET, ContainerdTest, PodsTest, global_addresses,  # noqa: E402
                                rates, token_buckets)
from support.hostport import NODE, OUTSIDE, SECOND, Server, ask_one, mapping  # noqa: E402
from support.plugin import OURS, PLUGINS, ROOT  # noqa: E402
from support.snapshot import snapshot  # noqa: E402
from support.world import MS_BIND, fetch, mount, run, wait_for  # noqa: E402


def conflist(version, ranges):
    return {"cniVersion": version, "name": "patchbay", "plugins": [
        {"type": "bridge", "bridge": "cni-c8d", "isGateway": True, "ipMasq": True,
         "ipam": {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}}]}


IPV4 = [[{"subnet": "10.87.1.0/24"}]]
DUAL = IPV4 + [[{"subnet": "fd00:87:1::/64"}]]
NETWORKS = [(f"{version} {name}", conflist(version, ranges))
            for version, name, ranges in (("0.3.1", "IPv4", IPV4), ("0.4.0", "dual-stack", DUAL),
                                          ("1.0.0", "dual-stack", DUAL))]

#: As the template of containerd for clouds has it, with limits.
ROUTED = {"cniVersion": "1.0.0", "name": "patchbay", "plugins": [
    {"type": "ptp", "mtu": 1460, "ipMasq": True,
     "ipam": {"type": "host-local", "ranges": DUAL, "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": True}},
    {"type": "bandwidth", "capabilities": {"bandwidth": True}}]}


def with_ports(**more):
    """A network for pods with ports of the node."""
    out = conflist("1.0.0", DUAL)
    out["plugins"][0]["isDefaultGateway"] = True
    del out["plugins"][0]["ipam"]["routes"]
    out["plugins"].append({"type": "portmap", "capabilities": {"portMappings": True}} | more)
    return out



@suite.spread
class Containerd(ContainerdTest):
    def start(self, name):
        # In the foreground: a detached ctr never removes what its CNI library added.
        process = subprocess.Popen(["ctr", "--address", SOCKET, "run", "--rm", "--cni",
                                    "--cgroup", f"/{self.cgroup}/{name}",
                                    "--snapshotter", "native", image.NAME, name],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(lambda: process.poll() is None and self.end(name, process))
        if not wait_for(lambda: self.eth0(name, check=False) or process.poll() is not None, 20, 0.05):
            self.fail(f"{name} does not start")
        if process.poll() is not None:
            self.fail(f"{name} ended: {process.stdout.read()}")
        return process

    def eth0(self, name, check=True):
        """The global addresses of a container, once it runs."""
        shown = self.inside(name, "ip", "addr", "show", "eth0", check=check)
        return [line.split()[1].split("/")[0] for line in shown.splitlines()
                if "scope global" in line]

    def inside(self, name, *command, check=True):
        """What a program of the container prints. Not by `ctr task exec`, which may lose it on a busy machine."""
        tasks = [line.split() for line in self.ctr("task", "ls").stdout.splitlines()]
        pid = next((one[1] for one in tasks if one[0] == name and one[2] == "RUNNING"), None)
        if pid is None and not check:
            return ""
        self.assertTrue(pid, f"no task {name} runs: {tasks}")
        return run("nsenter", "--target", pid, "--net", "--pid", "--mount", "--root", "--wd", *command, check=check)

    def end(self, name, process):
        """Kills a container; its ctr then removes its network, with an empty CNI_NETNS."""
        self.ctr("task", "kill", "--signal", "KILL", name)
        process.wait(20)
        self.assertNotIn("fail", process.stdout.read())

    @suite.cases(NETWORKS)
    def serves_its_page_to_the_node(self, network):
        self.use(network)
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
        self.assert_left_by_design(before)


@suite.spread
class Ports(PodsTest):
    @suite.cases([("nftables", {}), ("iptables", {"backend": "iptables"})])
    def ports_of_the_node_lead_to_a_pod(self, more):
        self.use(with_ports(**more))
        before = snapshot()
        one = self.run_pod("one", mapping(8080, 80), mapping(8081, 80, host_ip=NODE[4]),
                           annotations={"example.org/note": "no matter to the network"})
        two = self.run_pod("two", mapping(8082, 80, host_ip="0.0.0.0"))
        everywhere = [f"{NODE[4]}:8080", f"[{NODE[6]}]:8080", f"{NODE[4]}:8081", f"{NODE[4]}:8082"]
        for place in everywhere + ["127.0.0.1:8080", "127.0.0.1:8082"]:
            self.assertEqual(fetch(place), PAGE, place)
        for place in ("127.0.0.1:8081", f"[{NODE[6]}]:8082", f"{NODE[4]}:80", "[::1]:8080"):
            self.assertIsNone(fetch(place, seconds=0), place)
        with self.outside.inside():
            for place in everywhere:
                self.assertEqual(fetch(place), PAGE, f"{place} from outside")
        self.end(one)
        self.assertIsNone(fetch(f"{NODE[4]}:8080", seconds=0))
        self.assertEqual(fetch(f"{NODE[4]}:8082"), PAGE, "the other pod goes on")
        self.end(two)
        self.assert_left_by_design(before)

    def test_a_port_that_another_pod_has_is_refused_and_free_after_it(self):
        self.use(with_ports())
        before = snapshot()
        one = self.run_pod("one", mapping(8080, 80))
        with_one = snapshot()
        with self.assertRaisesRegex(RuntimeError, "8080.*" + one):
            self.run_pod("two", mapping(8080, 80))
        self.assert_same(with_one, ignore=lambda place: "/last_reserved_ip." in place
                         or place.endswith("/.owners/seen")
                         or place.startswith(OWN_FILES))
        self.end(one)
        self.end(self.run_pod("two", mapping(8080, 80)))
        self.assert_left_by_design(before)


class Installed(PodsTest):
    """As docs/install.md installs."""

    def test_plugins_and_network_of_patchbay_install_serve_pods_until_uninstall(self):
        if os.path.exists("/etc/containerd/config.toml"):
            mount("/run/c8d/config.toml", "/etc/containerd/config.toml", flags=MS_BIND)  # cnitool reads it
        for name in PLUGINS:
            os.remove(f"/opt/cni/bin/{name}")
        folder = run(f"{OURS}/cnitool", "runtimes", "containerd", "--plugin-dir").strip()
        arguments = (folder, "--conf", f"{ROOT}/conf-examples/10-kubernetes.conflist")
        self.assertFalse(self.cri.is_ready())
        run(f"{OURS}/patchbay", "install", *arguments)
        self.assertTrue(wait_for(self.cri.is_ready, 20, 0.1), "containerd takes the network")
        sandbox, pod = self.run_seen("web", mapping(8080, 80))
        for place in (global_addresses(pod)[4], f"{NODE[4]}:8080"):
            self.assertEqual(fetch(place), PAGE)
        self.end(sandbox)
        run(f"{OURS}/patchbay", "uninstall", *arguments)
        self.assertEqual((os.listdir("/opt/cni/bin"), os.listdir("/etc/cni/net.d")), ([], []))
        self.assertTrue(wait_for(lambda: not self.cri.is_ready(), 20, 0.1))


INGRESS, EGRESS = 10_000_000, 5_000_000
ANNOTATIONS = {"kubernetes.io/ingress-bandwidth": "10M",
               "kubernetes.io/egress-bandwidth": "5M"}


class Limits(PodsTest):
    """The annotations of a pod that limit its traffic."""

    def example(self, **more):
        """The Kubernetes example with more keys for bandwidth."""
        with open(os.path.join(ROOT, "conf-examples/10-kubernetes.conflist"),
                  encoding="utf-8") as file:
            out = json.load(file)
        bandwidth, = (p for p in out["plugins"] if p["type"] == "bandwidth")
        self.assertEqual(bandwidth["capabilities"], {"bandwidth": True})
        bandwidth |= more
        return out

    def test_the_annotations_of_a_pod_are_its_limits(self):
        self.use(self.example())
        before = snapshot()
        free = self.run_pod("free")
        self.assertEqual(rates(), {}, "a pod without annotations has no limit")
        limited = self.run_pod("limited", mapping(8080, 80), annotations=ANNOTATIONS)
        self.assertEqual(rates(), {"veth": INGRESS, "ifb": EGRESS})
        self.assertEqual(fetch(f"{NODE[4]}:8080"), PAGE)
        self.end(limited)
        self.assertEqual(rates(), {})
        self.end(free)
        self.assert_left_by_design(before, "cni-k8s0")

    def test_the_burst_that_containerd_asks_for_is_cut_by_burstTime(self):
        # Without it 4294967295 bits go first. That traffic obeys the queue: netns.bandwidth_rate.
        self.use(self.example(burstTime=20))
        before = snapshot()
        sandbox = self.run_pod("limited", annotations=ANNOTATIONS)
        self.assertEqual(rates(), {"veth": INGRESS, "ifb": EGRESS})
        for qdisc in token_buckets():
            options = qdisc["options"]
            self.assertAlmostEqual(options["burst"] / options["rate"], 0.02, delta=0.002)
        self.end(sandbox)
        self.assert_left_by_design(before, "cni-k8s0")


class Routed(PodsTest):
    """Pods without a bridge: ptp, portmap and bandwidth."""

    def test_pods_reach_each_other_the_node_and_outside_with_ports_and_limits(self):
        self.use(ROUTED)
        before = snapshot()
        one, inside_one = self.run_seen("one")
        self.assertEqual(rates(), {})
        two, inside_two = self.run_seen("two", mapping(8080, 80), annotations=ANNOTATIONS)
        self.assertEqual(rates(), {"veth": INGRESS, "ifb": EGRESS})
        self.assertIn("mtu 1460", inside_two.run("ip", "link", "show", "eth0"))
        own, other = global_addresses(inside_one), global_addresses(inside_two)
        ports = [f"{NODE[4]}:8080", f"[{NODE[6]}]:8080"]
        for place in [*own.values(), *other.values(), *ports, "127.0.0.1:8080"]:
            self.assertEqual(fetch(place), PAGE, place)
        with inside_one.inside():
            for place in [*other.values(), *ports]:
                self.assertEqual(fetch(place), PAGE, f"{place} from the other pod")
        with self.outside.inside():
            for place in ports:
                self.assertEqual(fetch(place), PAGE, f"{place} from outside")
        Server(self, "outside", (7000,), self.outside, protocols=("tcp",))
        for family in (4, 6):
            self.assertIn(ask_one(inside_two, "tcp", OUTSIDE[family], 7000),
                          [f"outside 7000 {node[family]}" for node in (NODE, SECOND)], "masqueraded")
        self.end(two)
        self.assertEqual(rates(), {})
        self.assertIsNone(fetch(ports[0], seconds=0))
        self.assertEqual(fetch(own[4]), PAGE, "the other pod goes on")
        self.end(one)
        self.assert_left_by_design(before)


if __name__ == "__main__":
    suite.main(needs=NEEDED)
