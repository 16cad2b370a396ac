#!/usr/bin/env python3
"""What breaks a pod of a bridge or ptp network is found by `cnitool doctor`, named with the object, and mended by the
remedy that it prints, carried out as it stands."""

import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import cnitool, container_of, use  # noqa: E402
from support.doctor import BANDWIDTH, BIN, PORTMAP, DoctorTest, shell  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.world import Pod, run  # noqa: E402

MBIT = 1000 ** 2
CAPS = {"bandwidth": {"ingressRate": 8 * MBIT, "ingressBurst": 160000, "egressRate": 8 * MBIT, "egressBurst": 160000}}
BRIDGED = {"type": "bridge", "bridge": "cni7", "isDefaultGateway": True, "ipMasq": True, "hairpinMode": True,
           "portIsolation": True, "ipam": {"type": "host-local", "subnet": "10.7.0.0/28"}}
POINTED = {"type": "ptp", "ipMasq": True,
           "ipam": {"type": "host-local", "subnet": "10.7.0.0/28", "routes": [{"dst": "0.0.0.0/0"}]}}


class Breaks(DoctorTest):
    kind = None
    pods = ()

    def setUp(self):
        super().setUp()
        shutil.copy(os.path.join(OURS, "ptp"), BIN)
        for pod in self.pods:
            self.assert_ok(cnitool("del", "net", pod.path, CNI_PATH=BIN))
        run("ip", "link", "del", "cni0")
        use({"cniVersion": "1.1.0", "name": "net", "plugins": [self.kind, PORTMAP, BANDWIDTH]})
        self.pod = Pod("p")
        self.attach()

    def attach(self):
        ports = [{"hostPort": 8088, "containerPort": 80, "protocol": "tcp"}]
        result = self.assert_ok(cnitool("add", "net", self.pod.path, CNI_PATH=BIN,
                                        CAP_ARGS=CAPS | {"portMappings": ports}))
        self.address, self.length = result["ips"][0]["address"].split("/")
        self.veth = next(one["ifname"] for one in json.loads(run("ip", "-j", "link", "show", "type", "veth"))
                         if "net: net" in one.get("ifalias", ""))
        self.gateway = "10.7.0.1"

    def carry_out(self, remedy):
        if not (restart := re.fullmatch(r"restart the pod of container (\S+)", remedy)):
            return shell(remedy)
        self.assertEqual(restart[1], container_of(self.pod.path))
        self.assert_ok(cnitool("del", "net", self.pod.path, CNI_PATH=BIN))
        return self.attach()

    def broken(self, name, break_it, *words):
        """Each word in what is found; until nothing more is found, the first remedy is carried out."""
        with self.subTest(name):
            self.assert_healthy()
            break_it()
            _, found = self.doctor()
            text = "\n".join("\n".join([one["what"], *one.get("lines", ())]) for one in found)
            for word in words:
                self.assertIn(word, text)
            for _ in range(3):
                if not found:
                    break
                self.carry_out(found[0]["remedy"])
                _, found = self.doctor()
            self.assertEqual(found, [])

    def foreign_rule(self, *match):
        """A rule of another program that drops packets."""
        def break_it():
            run("nft", "delete", "table", "inet", "site", check=False)
            run("nft", "add", "table", "inet", "site")
            run("nft", "add", "chain", "inet", "site", "forward", "{ type filter hook forward priority 0; }")
            run("nft", "add", "rule", "inet", "site", "forward", *match, *([] if "reject" in match else ["drop"]))
        self.broken("rule that drops", break_it, "inet site forward")
        self.assertRegex(run("nft", "list", "chain", "inet", "site", "forward"), r"(?s)accept\n.*(drop|reject)\n")

    def in_pod(self, *command):
        return lambda: self.pod.run(*command)

    def on_node(self, *command):
        return lambda: run(*command)

    def changed_address(self):
        run("ip", "addr", "del", "10.7.0.1/28", "dev", "cni7")
        run("ip", "addr", "add", "10.7.0.9/28", "dev", "cni7")

    def flushed(self):
        self.broken("map of masquerading",
                    self.on_node("nft", "flush", "map", "inet", "patchbay_masquerade", "pods4"), "masquerad", self.address)
        self.broken("map of hostPorts", self.on_node("nft", "flush", "map", "ip", "patchbay_hostport", "ports"), "8088")
        self.broken("chain of masquerading", self.on_node(
            "nft", "flush", "chain", "inet", "patchbay_masquerade", "postrouting"), "inet patchbay_masquerade")
        self.broken("chain of hostPorts", self.on_node(
            "nft", "flush", "chain", "ip", "patchbay_hostport", "prerouting"), "ip patchbay_hostport")
        self.broken("qdisc", self.on_node("tc", "qdisc", "del", "dev", self.veth, "root"), self.veth)

    def inside(self):
        self.broken("address of the pod", self.in_pod(
            "ip", "addr", "del", f"{self.address}/{self.length}", "dev", "eth0"), self.address)
        self.broken("default route of the pod", self.in_pod("ip", "route", "del", "default"), "0.0.0.0/0")
        self.broken("another default route", self.in_pod(
            "ip", "route", "replace", "default", "dev", "eth0", "scope", "link"), "0.0.0.0/0")
        self.broken("interface of the pod down", self.in_pod("ip", "link", "set", "eth0", "down"), "eth0")


class OfBridge(Breaks):
    kind = BRIDGED

    def test_what_was_flushed(self):
        self.flushed()

    def test_what_a_pod_can_lose(self):
        self.inside()

    def test_the_bridge_and_its_port(self):
        self.broken("gateway address", self.on_node("ip", "addr", "del", "10.7.0.1/28", "dev", "cni7"), "10.7.0.1")
        self.broken("another address in place of the gateway's", self.changed_address, "10.7.0.1")
        addresses = [one["local"] for one in json.loads(run("ip", "-j", "-4", "addr", "show", "dev", "cni7"))[0]["addr_info"]]
        self.assertEqual(sorted(addresses), ["10.7.0.1", "10.7.0.9"], "that of the operator stays")
        self.pod.run("ping", "-c1", "-W2", "10.7.0.1")
        self.broken("route_localnet", self.on_node("sysctl", "-qw", "net.ipv4.conf.cni7.route_localnet=0"),
                    "route_localnet")
        self.broken("bridge down", self.on_node("ip", "link", "set", "cni7", "down"), "cni7")
        self.broken("port isolation", self.on_node(
            "bridge", "link", "set", "dev", self.veth, "isolated", "off"), self.veth)
        self.broken("port down", self.on_node("ip", "link", "set", self.veth, "down"), self.veth)
        self.foreign_rule("iifname", "cni7")
        self.foreign_rule("ip", "daddr", "10.7.0.0/24", "counter")
        self.broken("port detached", self.on_node("ip", "link", "set", self.veth, "nomaster"), self.veth)


class OfPtp(Breaks):
    kind = POINTED

    def test_what_was_flushed(self):
        self.flushed()

    def test_what_a_pod_can_lose(self):
        self.inside()

    def test_the_host_veth_and_its_route(self):
        self.broken("gateway address", self.on_node("ip", "addr", "flush", "dev", self.veth), "10.7.0.1")
        self.broken("route to the pod", self.on_node("ip", "route", "del", f"{self.address}/32"), self.address)
        self.foreign_rule("ip", "saddr", "10.7.0.0/28")
        self.foreign_rule("iifname", "veth*", "counter", "reject")
        self.broken("host veth down", self.on_node("ip", "link", "set", self.veth, "down"), self.veth)


if __name__ == "__main__":
    del Breaks
    suite.main(needs=("sysctl", "mount"))
