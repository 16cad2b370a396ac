#!/usr/bin/env python3
"""usePodCidr of host-local, and Calico's list: a plugin in the place of calico, then portmap and bandwidth of ours."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import hostport, suite  # noqa: E402
from support.bandwidth import BOTH, ifbs  # noqa: E402
from support.chain import Network  # noqa: E402
from support.hostport import NODE, Server, Site  # noqa: E402
from support.plugin import OURS, ROOT, cni  # noqa: E402
from support.world import run  # noqa: E402

FILE = "/run/node/pod-cidrs"
ENV = "FLANNEL_NETWORK=10.1.0.0/16\nFLANNEL_SUBNET=10.1.2.1/24\nFLANNEL_IPV6_SUBNET=fd00:1:2::1/64\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"
BOTH_WORDS = [[{"subnet": "usePodCidr"}], [{"subnet": "usePodCidrIPv6"}]]
#: Calico's plugin resolves the words itself, and calls host-local with the subnets. ptp stands for the rest of it.
CALICO = f"""#!/bin/sh
sed 's|"usePodCidr"|"10.1.2.0/24"|; s|"usePodCidrIPv6"|"fd00:1:2::/64"|' | exec {OURS}/ptp
"""


def config(version="1.1.0", **ipam):
    return {"cniVersion": version, "name": "net1", "type": "bridge", "isGateway": True,
            "ipam": {"type": "host-local", "podCidrFile": FILE} | ipam}


def write(text, path=FILE):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


@suite.spread
class PodCidr(suite.NodeTest):
    def call(self, verb, conf, pod, **more):
        return cni("bridge", verb, conf, **({"netns": pod.path, "container": pod.name} | more))

    def leases(self):
        folder = "/var/lib/cni/networks/net1"
        return [name for name in os.listdir(folder) if name[0].isdigit() or ":" in name] if os.path.isdir(folder) else []

    @suite.cases([
        ("subnet.env", (ENV, {"ranges": BOTH_WORDS}, ["10.1.2.2/24", "fd00:1:2::2/64"])),
        ("a list", ("# this node's\n10.1.2.0/24\nfd00:1:2::/64\n", {"ranges": BOTH_WORDS}, ["10.1.2.2/24", "fd00:1:2::2/64"])),
        ("the short form", (ENV, {"subnet": "usePodCidr"}, ["10.1.2.2/24"])),
        ("the short form of IPv6", (ENV, {"subnet": "usePodCidrIPv6"}, ["fd00:1:2::2/64"])),
        ("beside another subnet", (ENV, {"ranges": [[{"subnet": "usePodCidr", "rangeStart": "10.1.2.9"}],
                                                   [{"subnet": "fd00:9::/64"}]]}, ["10.1.2.9/24", "fd00:9::2/64"])),
    ])
    def a_pod_gets_addresses_of_the_pod_CIDR_in(self, row):
        text, ipam, expected = row
        pod, conf = self.pod(), config(**ipam)
        write(text)
        result = self.assert_ok(self.call("ADD", conf, pod))
        self.assertEqual([ip["address"] for ip in result["ips"]], expected)
        shown = pod.run("ip", "-o", "addr", "show", "dev", "eth0")
        for address in expected:
            self.assertIn(address, shown)
        os.remove(FILE)
        for verb in ("CHECK", "DEL", "DEL"):
            self.assert_ok(self.call(verb, conf | {"prevResult": result}, pod))
        self.assertEqual(self.leases(), [])

    def test_DEL_and_GC_need_neither_the_file_nor_its_key_nor_prevResult(self):
        write(ENV)
        first, second = self.pod(), self.pod()
        for pod in (first, second):
            self.assert_ok(self.call("ADD", config(ranges=BOTH_WORDS), pod))
        self.assertEqual(len(self.leases()), 4)
        write("no network")
        without = config(ranges=BOTH_WORDS)
        del without["ipam"]["podCidrFile"]
        self.assert_ok(self.call("DEL", without, first))
        self.assertEqual(len(self.leases()), 2)
        self.assert_ok(cni("bridge", "GC", without | {"cni.dev/valid-attachments": []}))
        self.assertEqual(self.leases(), [])

    @suite.cases([
        ("no podCidrFile", (None, {"podCidrFile": None}, 7, "ipam.ranges[0][0].subnet: requires ipam.podCidrFile")),
        ("a relative path", (ENV, {"podCidrFile": "subnet.env"}, 7, "ipam.podCidrFile: expected an absolute path")),
        ("no file", (None, {}, 11, f"open {FILE}: no such file or directory")),
        ("an empty file", ("", {}, 11, "it has no IPv4 network")),
        ("a file without the family", ("fd00::/64\n", {}, 11, "it has no IPv4 network")),
        ("a flanneld without IPv6", ("FLANNEL_SUBNET=10.1.2.1/24\n", {"ranges": BOTH_WORDS}, 11, "it has no IPv6 network")),
        ("other text", ("10.1.2.0/24\nhello\n", {}, 7, 'no network: "hello"')),
        ("a broken subnet.env", ("FLANNEL_SUBNET=10.1.2\n", {}, 7, f"{FILE}:1: FLANNEL_SUBNET")),
        ("two networks", ("10.1.2.0/24\n10.1.3.0/24\n", {}, 7, "it has several IPv4 networks")),
        ("a network that is too small", ("10.1.2.0/31\n", {}, 7, "too small to allocate from")),
        ("the word of the other family for one", (ENV, {"ranges": [[{"subnet": "usePodCIDR"}]]}, 7, "usePodCIDR")),
    ])
    def nothing_is_guessed_with(self, row):
        text, ipam, code, words = row
        if text is not None:
            write(text)
        conf = config(**({"ranges": [[{"subnet": "usePodCidr"}]]} | ipam))
        conf["ipam"] = {key: value for key, value in conf["ipam"].items() if value is not None}
        pod = self.pod()
        self.assert_error(self.call("ADD", conf, pod, documented=False), code, words)
        self.assertEqual((self.leases(), pod.run("ip", "-o", "link", "show", "type", "veth")), ([], ""))
        self.assert_error(cni("bridge", "STATUS", conf), 50 if code == 11 else code, words)

    def test_STATUS_says_when_the_pod_CIDR_is_there(self):
        conf = config(ranges=BOTH_WORDS)
        self.assert_error(cni("bridge", "STATUS", conf), 50, FILE)
        write(ENV)
        self.assert_ok(cni("bridge", "STATUS", conf))

    def test_cnitool_validates_without_the_file_and_shows_the_subnets_with_it(self):
        conf = {"cniVersion": "1.0.0", "name": "net1", "plugins": [config(ranges=BOTH_WORDS)]}
        for key in ("cniVersion", "name"):
            del conf["plugins"][0][key]
        write(json.dumps(conf), "/run/nets/10-net1.conflist")
        said = run(f"{OURS}/cnitool", "validate", "--strict", "--path", OURS, "/run/nets")
        self.assertIn("0 errors, 0 warnings", said)
        write(ENV)
        network, = json.loads(run(f"{OURS}/cnitool", "networks", "--json", "--path", OURS, "--conf-dir", "/run/nets"))["networks"]
        self.assertIn("10.1.2.0/24", json.dumps(network))


class CalicoChain(suite.NodeTest):
    def setUp(self):
        super().setUp()
        self.site = Site()
        os.makedirs("/run/calico-bin")
        with open("/run/calico-bin/calico", "w", encoding="ascii") as file:
            file.write(CALICO)
        os.chmod("/run/calico-bin/calico", 0o755)
        run("iptables", "-t", "nat", "-N", "KUBE-MARK-MASQ")
        run("ip6tables", "-t", "nat", "-N", "KUBE-MARK-MASQ")

    def test_portmap_with_a_mark_chain_and_bandwidth_run_after_calico(self):
        network = Network(os.path.join(ROOT, "conf-examples/kubernetes/10-calico-chain.conflist"), ("/run/calico-bin", OURS))
        self.assertIsNone(network.missing())
        pod = self.pod()
        asked = {"portMappings": [hostport.mapping(8080, 80)], "bandwidth": BOTH}
        result, failed = network.add(asked, netns=pod.path)
        self.assertIsNone(failed, str(failed))
        self.assertEqual([ip["address"] for ip in result["ips"]], ["10.1.2.2/24", "fd00:1:2::2/64"])
        self.assertEqual(len(ifbs()), 1)
        pod.run("ip", "route", "replace", "default", "via", "10.1.2.1")
        pod.run("ip", "-6", "route", "replace", "default", "via", "fd00:1:2::1")
        Server(self, "pod", (80,), pod, protocols=("tcp",))
        probes = [hostport.Probe(self.site.outside, "tcp", NODE[family], 8080) for family in (4, 6)]
        for answer in hostport.ask(probes):
            self.assertTrue(answer.startswith("pod 80 "), answer)
        self.assertIn("KUBE-MARK-MASQ", run("iptables-save", "-t", "nat") + run("nft", "list", "ruleset"))
        for _ in range(2):
            self.assertIsNone(network.each("DEL", result, asked, netns=pod.path))
        self.assertEqual(ifbs(), {})
        for answer in hostport.ask(probes):
            self.assertNotIn("pod", answer)


if __name__ == "__main__":
    suite.main(needs=("iptables", "ip6tables", "nft"))
