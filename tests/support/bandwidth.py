"""Nodes for tests of bandwidth alone: what stands in for the plugin before it, and the limits as
tc(8) tells them."""

import hashlib
import json
import re

from support import suite
from support.plugin import cni
from support.world import Pod, run

#: Bits and bits per second. The keys of a limit each way, small enough to be felt at once.
INGRESS = {"ingressRate": 8_000_000, "ingressBurst": 800_000}
EGRESS = {"egressRate": 4_000_000, "egressBurst": 400_000}
BOTH = INGRESS | EGRESS
POD = {"egressMode": "pod"}
EDT = {"egressMode": "edt"}
NETWORK = "net1"
#: Where the config can have its limits on this kernel, and for whom.
MODES = [("ifb", {}), ("pod", POD), ("ifb with subnets", {"shapedSubnets": ["10.0.0.0/8", "::/0"]}),
         ("pod with subnets", POD | {"unshapedSubnets": ["10.0.0.0/8"]})]
#: Where a limit is found, and what BOTH is there: see bucket().
TO_POD, ON_NODE, IN_POD = "to the pod", "from the pod, on the node", "from the pod, in it"
SLOW_TO = (1_000_000, 100_000, 25_000)
SLOW_FROM = (500_000, 50_000, 25_000)


def ifb_name(container, network=NETWORK, ifname=None):
    """The reference's name of the device; with ifname that of a second interface of the container."""
    who = network + container + (f":{ifname}" if ifname else "")
    return ("bwp" + hashlib.sha512(who.encode()).hexdigest())[:15]


def qdiscs(dev):
    """{where: (kind, handle, options)} of a link of this namespace; what the kernel puts there by
    itself is left out."""
    found = {}
    for one in json.loads(run("tc", "-j", "-d", "qdisc", "show", "dev", dev) or "[]"):
        if one["handle"] != "0:":
            where = "root" if one.get("root") else one["parent"]
            found[where] = (one["kind"], one["handle"], one.get("options", {}))
    return found


def bucket(dev):
    """(rate in bytes/s, burst in bytes, latency in some 10 microseconds) of a root TBF, or None."""
    kind, handle, options = qdiscs(dev).get("root", (None, None, {}))
    if (kind, handle) != ("tbf", "1:"):
        return None
    return options["rate"], _bytes(options["burst"]), round(options["lat"], -1)


def _bytes(text):
    """What tc(8) writes as 10000b/1, 64Kb or 512Mb."""
    number, unit = re.match(r"(\d+)([KMG]?)b", text).groups()
    return int(number) << {"": 0, "K": 10, "M": 20, "G": 30}[unit]


def classes(dev):
    """{class: (rate, ceil)} in the words of tc(8)."""
    listed = run("tc", "class", "show", "dev", dev)
    return {match[1]: (match[2], match[3]) for match in
            re.finditer(r"^class htb (\S+) .*rate (\S+) ceil (\S+) ", listed, re.MULTILINE)}


def subnets(dev):
    """[(protocol, matches, class)] of the filters of a tree."""
    found = []
    for line in run("tc", "filter", "show", "dev", dev, "parent", "1:").splitlines():
        if match := re.match(r"filter protocol (\S+) pref \d+ u32 .*flowid (\S+) ", line):
            found.append((match[1], [], match[2]))
        if match := re.match(r"  match (\S+ at \d+)", line):
            found[-1][1].append(match[1])
    return found


def redirections(dev):
    """The links to which what dev receives is redirected, each with its verdict."""
    listed = run("tc", "filter", "show", "dev", dev, "parent", "ffff:")
    return re.findall(r"Egress Redirect to device (\S+)\) (\w+)", listed)


def ifbs():
    """{name: alias} of the ifb devices on the node."""
    return {link["ifname"]: link.get("ifalias", "")
            for link in json.loads(run("ip", "-j", "-d", "link", "show", "type", "ifb"))}


def everything(one):
    """What the limits of a pod are in the kernel, in tc's words."""
    found = {}
    for dev in (one.outside, *ifbs()):
        words = run("tc", "-d", "qdisc", "show", "dev", dev) + run("tc", "class", "show", "dev", dev)
        words = re.sub(r"direct_packets_stat \d+ |^class fq_codel .*\n", "", words, flags=re.M)
        found[dev] = sorted(words.splitlines())
        for parent in ("1:", "ffff:"):
            listed = run("tc", "filter", "show", "dev", dev, "parent", parent)
            found[dev].append([line for line in listed.splitlines() if "index" not in line])
    inside = one.run("tc", "-d", "qdisc", "show", "dev", "eth0")
    return found | {"pod": re.sub(r"direct_packets_stat \d+ ", "", inside)}


def runtime(**keys):
    return {"runtimeConfig": {"bandwidth": keys}}


class Container(Pod):
    """A pod with a veth to the node, or with an interface of another kind."""

    def __init__(self, name, number, kind="veth"):
        super().__init__(name)
        self.ifname = "eth0"
        self.outside = f"host{number}"
        self.address = f"10.1.{number}.2"
        self.gateway = f"10.1.{number}.1"
        if kind == "veth":
            self.connect("eth0", self.outside)
            run("ip", "addr", "add", f"{self.gateway}/24", "dev", self.outside)
        else:
            run("ip", "link", "add", self.outside, "type", "veth")
            run("ip", "link", "set", self.outside, "up")
            run("ip", "link", "add", "eth0", "netns", name, "link", self.outside, "type", kind)
        run("ip", "-n", name, "-batch", "-", stdin=f"addr add {self.address}/24 dev eth0\n"
            f"link set eth0 up\nroute add default via {self.gateway} onlink dev eth0\n"
            if kind == "veth" else "link set eth0 up\n")
        self.kind = kind

    def connect(self, inside, outside):
        """Another veth."""
        run("ip", "link", "add", outside, "type", "veth", "peer", "name", inside,
            "netns", self.name)
        run("ip", "link", "set", outside, "up")
        run("ip", "-n", self.name, "link", "set", inside, "up")

    def result(self, version="1.0.0", ifname="eth0", outside=None):
        """What the plugin before would have said."""
        interfaces = [{"name": outside or self.outside}] if self.kind == "veth" else []
        return {"cniVersion": version, "dns": {},
                "interfaces": [*interfaces, {"name": ifname, "sandbox": self.path}],
                "ips": [{"address": f"{self.address}/24", "interface": len(interfaces)}]}


class BandwidthTest(suite.NodeTest):
    """A node whose pods have an interface already."""

    def container(self, name=None, kind="veth"):
        self.pods += 1
        return Container(name or f"pod{self.pods}", self.pods, kind)

    def conf(self, one, **more):
        """The config for a container; a key that is None is left out."""
        conf = {"cniVersion": "1.0.0", "name": NETWORK, "type": "bandwidth"} | more
        conf = {"prevResult": one.result(conf["cniVersion"])} | conf
        return {key: value for key, value in conf.items() if value is not None}

    def call(self, verb, one, options=None, **more):
        """One run of the plugin; options are those of cni(), more is the config's."""
        return cni("bandwidth", verb, self.conf(one, **more),
                   **{"netns": one.path, "container": one.name} | (options or {}))

    def add(self, one, options=None, **more):
        return self.assert_ok(self.call("ADD", one, options, **more))

    def check(self, one, options=None, **more):
        return self.assert_ok(self.call("CHECK", one, options, **more))

    def delete(self, one, options=None, **more):
        return self.assert_ok(self.call("DEL", one, options, **more))

    def limits(self, one):
        """{where: bucket()} of the limits that there are."""
        device = next((name for name, _ in redirections(one.outside)), None)
        with one.inside():
            inside = bucket("eth0")
        found = {TO_POD: bucket(one.outside), IN_POD: inside,
                 ON_NODE: bucket(device) if device else None}
        return {where: what for where, what in found.items() if what}
