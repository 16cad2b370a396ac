"""Networks with the plugin firewall, and what its backends have, read with their own tools."""

import json
import os
import socket
import time

from support import guest, hostport, suite
from support.chain import Network
from support.plugin import OURS, REFERENCE, cni
from support.world import CLONE_NEWNET, run, setns

#: Name, backend, variant of iptables.
BACKENDS = [("nftables", ("nftables", None)), ("iptables-nft", ("iptables", "nft")),
            ("iptables-legacy", ("iptables", "legacy"))]
TABLE = "patchbay_firewall"
CLAIMS = "/run/cni/firewall"
#: Where this file is, knock() and listen() end.
OVER = "/run/over"


def bridge(number, **more):
    """A bridge of that number, as br1, with its subnets of both families."""
    return {"type": "bridge", "bridge": f"br{number}", "isDefaultGateway": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": f"10.1.{number}.0/24"}],
                                                      [{"subnet": f"fd00:1:{number}::/64"}]]}, **more}


def network(number, plugins, directories=(OURS,), name=None, version="1.0.0"):
    """A network of plugins on bridge number."""
    return Network({"cniVersion": version, "name": name or f"net{number}", "plugins": plugins}, directories)


def reference_knows(policy):
    """Whether the reference plugin of this node has the policy: releases before 1.6 lack isolated."""
    with open(f"{REFERENCE}/firewall", "rb") as file:
        return policy != "isolated" or b"same-bridge|isolated" in file.read()


class Attached:
    """A pod in a network."""

    def __init__(self, test, net, pod, ports=()):
        self.net, self.pod = net, pod
        self.options = {"netns": pod.path, "container": pod.name}
        self.capabilities = {"portMappings": list(ports)}
        self.result, failed = net.add(self.capabilities, **self.options)
        test.assertIsNone(failed, str(failed))
        self.address = {6 if ":" in ip["address"] else 4: ip["address"].split("/")[0]
                        for ip in self.result["ips"]}

    def call(self, verb):
        return self.net.each(verb, self.result, self.capabilities, **self.options)


class FirewallTest(suite.NodeTest):
    """A node with networks."""

    def setUp(self):
        super().setUp()
        self.backend = "nftables"

    def use(self, backend):
        """Makes a row of BACKENDS the backend of the configs to come."""
        self.backend, variant = backend
        if variant and (reason := hostport.select_iptables(variant)):
            self.skipTest(reason)

    def set_bridge_netfilter(self, on):
        """Whether iptables and the forward hook see frames between ports of a bridge."""
        if on:
            guest.load("br_netfilter")
        if not os.path.isdir("/proc/sys/net/bridge"):  # the module br_netfilter is not loaded
            if on:
                self.skipTest("this kernel has no bridge netfilter: modprobe br_netfilter")
            return
        for family in ("ip", "ip6"):
            run("sysctl", "-qw", f"net.bridge.bridge-nf-call-{family}tables={int(on)}")

    def attach(self, number, policy="open", name=None, pod=None, ports=(), before=None, **more):
        """A pod in network number, with the plugin firewall."""
        conf = {"type": "firewall", "backend": self.backend, "ingressPolicy": policy, **more}
        plugins = [before or bridge(number), conf]
        if ports:
            plugins.insert(1, {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": True}})
        return Attached(self, network(number, plugins, name=name), pod or self.pod(), ports)

    def detach(self, attached):
        failed = attached.call("DEL")
        self.assertIsNone(failed, str(failed))

    def conf(self, result=None, **more):
        """The config of firewall alone."""
        conf = {"cniVersion": "1.0.0", "name": "net1", "type": "firewall", "backend": self.backend, **more}
        return conf | ({"prevResult": result} if result else {})

    def call(self, verb, container="pod1", result=None, directory=None, wrap=(), **more):
        """One run of the plugin, for a pod without a namespace."""
        return cni("firewall", verb, self.conf(result, **more), container=container,
                   netns=f"/run/netns/{container}", directory=directory, wrap=wrap)

    def add(self, number, container=None, **more):
        """ADD of the pod that result_of() describes; what it said."""
        return self.assert_ok(self.call("ADD", container or f"pod{number}", result_of(number), **more))


def result_of(number, ifname="eth0", link="cni0"):
    """What a plugin before firewall would have said of a pod with these addresses."""
    return {"cniVersion": "1.0.0",
            "interfaces": [{"name": link}, {"name": ifname, "sandbox": "/run/netns/x"}],
            "ips": [{"address": f"10.1.2.{number}/24", "interface": 1},
                    {"address": f"fd00:1:2::{number:x}/64", "interface": 1}]}


def elements(name, family="inet"):
    """{key: comment} of a set in our table."""
    found = {}
    for item in json.loads(run("nft", "-j", "list", "ruleset"))["nftables"]:
        one = item.get("set", {})
        if (one.get("family"), one.get("table"), one.get("name")) != (family, TABLE, name):
            continue
        for element in one.get("elem", ()):
            value = element.get("elem", {"val": element}) if isinstance(element, dict) else {"val": element}
            value = value if "val" in value else {"val": element}
            key = value["val"]
            found[tuple(key["concat"]) if isinstance(key, dict) else key] = value.get("comment")
    return found


def rules(chain="", table="filter"):
    """The rules of iptables and ip6tables as their -save prints them, of one chain or all."""
    return [line for tool in ("iptables", "ip6tables")
            for line in run(f"{tool}-save", "-t", table).splitlines()
            if line.startswith(f"-A {chain}".rstrip() + (" " if chain else ""))]


def addresses():
    """Addresses that some backend accepts, sorted."""
    found = {key for name in ("pods4", "pods6") for key in elements(name)}
    for line in rules("CNI-FORWARD"):
        words = line.split()
        if words[2] == "-s":
            found.add(words[3].split("/")[0])
    return sorted(found)


def knock(pod, targets):
    """Sends a datagram to each (address, port) a thousand times a second; says how many."""
    setns(pod, CLONE_NEWNET)
    sent = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as v4, socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as v6:
        while not os.path.exists(OVER):
            for address, port in targets:
                try:
                    (v6 if ":" in address else v4).sendto(b"?", (address, port))
                    sent += 1
                except OSError:
                    pass  # the last one was refused
            time.sleep(0.001)
    return {"sent": sent, "wrong": []}


def listen(pod, port):
    """Counts the datagrams that arrive at a pod."""
    setns(pod, CLONE_NEWNET)
    heard = 0
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as one:
        one.bind(("::", port))
        one.settimeout(0.2)
        while not os.path.exists(OVER):
            try:
                one.recv(10)
                heard += 1
            except OSError:
                pass
    return {"heard": heard, "wrong": []}
