#!/usr/bin/env python3
"""Every network of conf-examples/ works: a pod gets it, is checked, and leaves nothing."""

import glob
import ipaddress
import itertools
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import blocks, dhcp, suite  # noqa: E402
from support.bandwidth import BOTH, ifbs  # noqa: E402
from support.chain import Network  # noqa: E402
from support.configs import CONFIGS, give_device, lack, provide  # noqa: E402
from support.devices import PCI, fake_sysfs  # noqa: E402
from support.plugin import OURS, REFERENCE, ROOT  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run, vlan_filtering  # noqa: E402

FILES = sorted(glob.glob(os.path.join(ROOT, "conf-examples", "*.conflist")))
#: Alternatives for one node. pod_cidr_test.py runs Calico's.
KUBERNETES = sorted(glob.glob(os.path.join(ROOT, "conf-examples/kubernetes/*.conflist")))
SUBNET_ENV = """FLANNEL_NETWORK=10.244.0.0/16
FLANNEL_SUBNET=10.244.1.1/24
FLANNEL_IPV6_NETWORK=fd00:244::/56
FLANNEL_IPV6_SUBNET=fd00:244:0:1::1/64
FLANNEL_MTU=1450
FLANNEL_IPMASQ=true
"""


def types(network):
    return [plugin["type"] for plugin in network.conflist["plugins"]]


def filters_vlans(network):
    """Whether a bridge of it needs VLAN filtering."""
    return any(plugin["type"] == "bridge" and {"vlan", "vlanTrunk"} & plugin.keys()
               for plugin in network.conflist["plugins"])


def serve_dhcp(network):
    """What a network with the IPAM plugin dhcp needs: the daemon, and a server on the segment of the master."""
    if any(plugin.get("ipam", {}).get("type") == "dhcp" for plugin in network.conflist["plugins"]):
        run("ip", "addr", "add", "10.1.2.1/24", "dev", "eth1-out")
        dhcp.play(interface="eth1-out")


def write_subnet_env(network):
    """What flanneld has written on a node of flannel."""
    if "flannel" in json.dumps(network.conflist):
        os.makedirs("/run/flannel", exist_ok=True)
        with open("/run/flannel/subnet.env", "w", encoding="ascii") as file:
            file.write(SUBNET_ENV)


def claim_blocks(network):
    """What patchbay-agent has claimed for a network with cluster-pool."""
    for plugin in network.conflist["plugins"]:
        ipam = plugin.get("ipam", {})
        if ipam.get("type") == "cluster-pool":
            first = ipam["subnet"].split("/")[0]
            blocks.held(f"{first}/28", f"{first.rsplit('.', 1)[0]}.16/28", network=network.conflist["name"],
                        of=blocks.pool(ipam["subnet"], exclude=ipam.get("exclude", ())))


def bring_device(network):
    """The device that host-device needs: the one that it names, else that with the address of the runtime."""
    for plugin in network.conflist["plugins"]:
        give_device(plugin["type"], plugin.get("device", "device0"))
        if plugin["type"] == "host-device" and "device" not in plugin:
            fake_sysfs("device0")


@suite.spread
class Examples(suite.NodeTest):
    @suite.cases([(os.path.relpath(path, f"{ROOT}/conf-examples"), path) for path in FILES + KUBERNETES
                  if "calico" not in path])
    def works(self, path):
        # Plugins that are not ours yet are the reference's.
        network = Network(path, (OURS, REFERENCE))
        if network.missing():
            self.skipTest(f"there is no plugin {network.missing()}")
        if filters_vlans(network) and not vlan_filtering():
            self.skipTest("this kernel has no VLAN filtering of bridges")
        pod = self.pod()
        if reason := provide(*types(network)):
            self.skipTest(reason)
        first = CONFIGS.get(types(network)[0])
        ifname = first.ifname if first else "eth0"
        bridges = [plugin.get("delegate", plugin).get("bridge", "cni0") for plugin in network.conflist["plugins"]
                   if plugin["type"] in ("bridge", "flannel")]
        bring_device(network)
        serve_dhcp(network)
        claim_blocks(network)
        write_subnet_env(network)
        before = snapshot()
        if "KUBE-MARK-MASQ" in json.dumps(network.conflist):
            run("iptables", "-t", "nat", "-N", "KUBE-MARK-MASQ")  # kube-proxy's
            before = snapshot()
        asked = {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}],
                 "bandwidth": BOTH, "deviceID": PCI, "CNIDeviceInfoFile": "/run/devinfo/device.json"}
        result, failed = network.add(asked, netns=pod.path, ifname=ifname)
        self.assertIsNone(failed, str(failed))
        if "bandwidth" in types(network):
            self.assertEqual(len(ifbs()), 1, "the runtime's limit")
        for ip in result.get("ips", ()):
            gateway = ip.get("gateway")
            if gateway and gateway in run("ip", "addr"):  # of this node
                pod.run("ping", "-c1", "-W2", gateway)
        if network.version != "0.3.1":  # which has no CHECK
            self.assertIsNone(network.each("CHECK", result, asked, netns=pod.path, ifname=ifname))
        for _ in range(2):
            self.assertIsNone(network.each("DEL", result, asked, netns=pod.path, ifname=ifname))
        # The firewall plugin of the reference keeps chains that all pods share.
        def is_shared(place):
            place = place.replace("run/cni-ipam-state", "var/lib/cni/networks")  # kind's leases
            return any(left_by_design(place, name) for name in bridges or ["cni0"])

        self.assert_same(before, ignore=lambda place: is_shared(place)
                         or "CNI-" in place or place.startswith("file/run/devinfo/"))

    def test_no_two_share_a_name_or_a_bridge_and_no_subnets_overlap(self):
        texts = {os.path.basename(path): open(path, encoding="utf-8").read() for path in FILES}
        for key in ("name", "bridge"):
            values = [value for text in texts.values() for value in re.findall(rf'"{key}": "([^"]+)"', text)]
            self.assertEqual(len(values), len(set(values)), f"{key}: {sorted(values)}")
        subnets = [(name, ipaddress.ip_network(found, strict=False)) for name, text in texts.items()
                   for found in set(re.findall(r'"(?:subnet|address)": "([^"]+)"', text))]
        for (one, left), (other, right) in itertools.combinations(subnets, 2):
            if one != other and left.version == right.version:
                self.assertFalse(left.overlaps(right), f"{one} and {other}: {left}, {right}")

    def test_each_has_one_row_in_the_table(self):
        with open(os.path.join(ROOT, "conf-examples/README.md"), encoding="utf-8") as file:
            rows = re.findall(r"^\| \[([^]]+)\]\(\1\) \|", file.read(), re.MULTILINE)
        self.assertEqual(sorted(rows), [os.path.basename(path) for path in FILES])

    def test_each_of_a_Kubernetes_node_has_one_row_that_says_what_it_is_for(self):
        folder = os.path.join(ROOT, "conf-examples/kubernetes")
        with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
            rows = dict(re.findall(r"^\| \[([^]]+)\]\(\1\) \| .* \| (.*) \|$", file.read(), re.MULTILINE))
        self.assertEqual(sorted(rows), sorted(set(os.listdir(folder)) - {"README.md"}))
        for path in KUBERNETES:
            with open(path, encoding="utf-8") as file:
                self.assertIn(f"({json.load(file)['cniVersion']})", rows[os.path.basename(path)])

    def test_all_of_them_live_on_one_node(self):
        for number, path in enumerate(FILES):
            network = Network(path, (OURS, REFERENCE))
            if (network.missing() or filters_vlans(network) or "loopback" in types(network)
                    or lack(*types(network))):
                continue
            provide(*types(network))
            bring_device(network)
            serve_dhcp(network)
            claim_blocks(network)
            result, failed = network.add({"deviceID": PCI}, netns=self.pod().path, container=f"pod{number}")
            self.assertIsNone(failed, f"{path}: {failed}")


if __name__ == "__main__":
    suite.main(needs=("ping",))
