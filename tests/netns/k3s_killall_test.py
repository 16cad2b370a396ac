#!/usr/bin/env python3
"""A k3s node after the commands of k3s-killall.sh: pods, cni0 and /var/lib/cni are gone, iptables has no rule of CNI plugins,
and nftables tables stay. The next pods start, and no port of the node that a dead pod had leads to them."""

import glob
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import cnitool, environment, use  # noqa: E402
from support.hostport import Server, ask_one, mapping  # noqa: E402
from support.plugin import OURS, PLUGINS, have  # noqa: E402
from support.portmap import BACKENDS, PortmapTest  # noqa: E402
from support.world import Pod, run  # noqa: E402

RANGES = [[{"subnet": "10.42.0.0/24"}], [{"subnet": "fd00:42::/64"}]]
#: What flannel makes of k3s's list on a node with these subnets.
BRIDGE = {"type": "bridge", "bridge": "cni0", "hairpinMode": True, "forceAddress": True, "isDefaultGateway": True, "mtu": 1450,
          "ipam": {"type": "host-local", "ranges": RANGES,
                   "routes": [{"dst": "10.42.0.0/16"}, {"dst": "fd00:42::/56"}]}}
#: With elements by a pod's address in two more tables.
MASQUERADED = BRIDGE | {"ipMasq": True, "ipMasqBackend": "nftables"}
FLANNEL = {"type": "flannel", "delegate": {"hairpinMode": True, "forceAddress": True, "isDefaultGateway": True}}
SUBNET_ENV = """FLANNEL_NETWORK=10.42.0.0/16
FLANNEL_SUBNET=10.42.0.1/24
FLANNEL_IPV6_NETWORK=fd00:42::/56
FLANNEL_IPV6_SUBNET=fd00:42::1/64
FLANNEL_MTU=1450
FLANNEL_IPMASQ=true
"""
LIMITS = {"ingressRate": 100000000, "ingressBurst": 10000000, "egressRate": 100000000, "egressBurst": 10000000}


def killall():
    """What the script does to the network."""
    for port in json.loads(run("ip", "-j", "link", "show", "master", "cni0")):
        run("ip", "link", "delete", port["ifname"])
    run("ip", "link", "delete", "cni0")
    for pod in glob.glob("/run/netns/cni-*"):
        Pod.existing(os.path.basename(pod)).remove()
    shutil.rmtree("/var/lib/cni")
    shutil.rmtree("/run/flannel", ignore_errors=True)
    for tool in ("iptables", "ip6tables"):
        if have(f"{tool}-save"):
            continue
        kept = [line for line in run(f"{tool}-save").splitlines(keepends=True)
                if not any(word in line for word in ("KUBE-", "CNI-")) and "flannel" not in line.lower()]
        run(f"{tool}-restore", stdin="".join(kept))


@suite.spread
class Killall(PortmapTest):
    def start(self, first, backend):
        """The node, with the network cbr0."""
        self.use(backend)
        run("ip", "link", "del", "cni0")
        run("ip", "-batch", "-", stdin="link add up0 type veth peer up0-out\nlink set up0 up\nlink set up0-out up\n"
            "addr add 192.0.2.1/24 dev up0\naddr add 2001:db8::1/64 dev up0 nodad\n")
        self.flannel = first is FLANNEL
        use({"cniVersion": "1.0.0", "name": "cbr0", "plugins": [
            first, *([{"type": "firewall", "backend": "nftables"}] if first is MASQUERADED else []),
            {"type": "portmap", "capabilities": {"portMappings": True}, "backend": self.backend},
            {"type": "bandwidth", "capabilities": {"bandwidth": True}}]})
        self.boot()

    def boot(self):
        """flanneld starts."""
        if self.flannel:
            os.makedirs("/run/flannel")
            with open("/run/flannel/subnet.env", "w", encoding="ascii") as file:
                file.write(SUBNET_ENV)

    def run_pod(self, name, *mappings):
        """A pod with a server; its result."""
        pod = Pod(f"cni-{name}")
        given = {"portMappings": list(mappings), "bandwidth": LIMITS}
        result = self.assert_ok(cnitool("add", "cbr0", pod.path, "--container-id", name, CAP_ARGS=given))
        server = Server(self, name, (53, 80), pod, protocols=("tcp", "udp"), addresses=("0.0.0.0",))
        return pod, server, [ip["address"] for ip in result["ips"]]

    def answers(self, *ports):
        """Who answers at each (protocol, port) of the node: UDP from one port, as a client that never pauses."""
        return [ask_one(None, protocol, "192.0.2.1", port, source_port=7000 if protocol == "udp" else 0).split()[0]
                for protocol, port in ports]

    @suite.cases([(f"{what}, {name}", (first, row)) for name, row in BACKENDS
                  for what, first in (("flannel", FLANNEL), ("bridge, ipMasq and firewall", MASQUERADED))
                  if first is FLANNEL or name == "nftables"])
    def leaves_a_node_on_which_pods_start_with(self, row):
        first, backend = row
        if first["type"] not in PLUGINS:
            self.skipTest(f"no plugin {first['type']}")
        self.start(first, backend)
        servers = []
        for name, mappings in (("a", [mapping(8080, 80)]), ("b", [mapping(5353, 53, "udp")]), ("c", [mapping(9090, 80)])):
            _, server, _ = self.run_pod(name, *mappings)
            servers.append(server)
        ports = ("tcp", 8080), ("udp", 5353), ("tcp", 9090)
        self.assertEqual(self.answers(*ports), ["a", "b", "c"])
        for server in servers:
            server.stop()
        killall()
        self.boot()
        # The addresses of a and b go to pods without these ports, and one asks for the first.
        _, _, addresses = self.run_pod("d")
        self.assertEqual(addresses, ["10.42.0.2/24", "fd00:42::2/64"])
        pod, _, addresses = self.run_pod("e", mapping(8080, 80))
        self.assertEqual(addresses[0], "10.42.0.3/24")
        self.assertEqual(self.answers(*ports[:2]), ["e", "refused"])
        self.assert_ok(cnitool("check", "cbr0", pod.path, "--container-id", "e", CAP_ARGS={
            "portMappings": [mapping(8080, 80)], "bandwidth": LIMITS}))
        # Nobody has c's address yet. What the script left of it is named, and removed by the remedy.
        said = json.loads(cnitool("doctor", "--json").stdout)
        left = [one for one in said["findings"] if "without a pod" in one["what"]]
        self.assertEqual(len(left), 1, said)
        subprocess.run(["sh", "-ec", left[0]["remedy"]], env=environment(PATH=f"{OURS}:{os.environ['PATH']}"), check=True,
                       capture_output=True, timeout=60)
        self.assertNotIn("without a pod", cnitool("doctor").stdout)
        self.assertEqual({key[2] for key in self.targets()}, {8080})
        self.assertEqual(self.answers(*ports), ["e", "refused", "refused"])
        for name in ("d", "e"):
            self.assert_ok(cnitool("del", "cbr0", f"/run/netns/cni-{name}", "--container-id", name))
        self.assertEqual(self.targets(), {})
        self.assertNotIn("elements =", run("nft", "list", "ruleset"))
        self.assertEqual([link for link in json.loads(run("ip", "-j", "link")) if link["ifname"].startswith("bwp")], [])


if __name__ == "__main__":
    suite.main(needs=("iptables",))
