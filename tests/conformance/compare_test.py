#!/usr/bin/env python3
"""The same input to our plugins and to the Go reference: same result, same state of the kernel.

Every difference must be in the table INTENDED, with its reason.
"""

import dataclasses
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.plugin import OURS, REFERENCE, cni, has_reference  # noqa: E402
from support.snapshot import pod_snapshot, snapshot  # noqa: E402
from support.world import Pod, World, run, wait_for  # noqa: E402

#: What differs on purpose: a pattern for "phase: place key: reference's value -> ours", and why.
INTENDED = [
    (r"link/HOSTVETH txqlen: 0|link/HOSTVETH txqlen: null -> 1000",
     "the reference sets a queue length of 0 by accident; ours keeps the kernel's default"),
    (r"pod after ADD link/eth0 txqlen: null -> 1000",
     "the reference of 1.1.1 does the same at the pod's end, the one of 1.9 no longer"),
    (r"node after DEL link/[^ ]* address: \"00:00:00:00:00:00\" -> ",
     "ours gives the bridge a MAC of its own; the reference's follows its ports without a gateway"),
    (r"address/[0-9a-f:]+/64 dev \w+ nodad: null -> true",
     "nobody else has the address: IPv6 works when ADD returns, not when DAD is done"),
    (r"route-6/(anycast|local) ([0-9a-f:]+|LINK-LOCAL) via - dev [\w.]+ table local metric 0: null ",
     "the kernel makes these routes when DAD is done"),
    (r"sysctl/ipv6/conf/(cni0|br.one)/accept_dad: \"1\" -> \"0\"",
     "a new bridge asks for IPv6 neighbours at once; with DAD it is mute in its first second"),
    (r"^CHECK said: .*(no plugin name provided|Failed to find Gateway).* -> \"\"|^CHECK status: 1 -> 0",
     "the CHECK of the reference fails for every bridge without IPAM, and every IPv4 /32"),
    (r"^ADD result dns (domain|nameservers|options|search): null -> ",
     "the reference of 1.1.1 loses what IPAM said of DNS, the one of 1.9 keeps it"),
    (r"link/HOSTVETH ifalias: null -> ",
     "the host end says whose it is"),
    (r"file/[^ ]*/net1/\.owners/",
     "host-local finds an owner's leases without reading every file"),
    (r"^ADD result dns: \{\} -> null",
     "an empty dns is left out from 1.0.0 on, as the reference of 1.9 does"),
    (r"^DEL: \[1, .*\] -> \[1, ",
     "what an error says is ours; the tables of the protocol's errors are in another test"),
    (r"^DEL: \[1, .*\] -> \[0, \"\"\]",
     "DEL succeeds with a config that ADD refuses, so that nothing stays for ever"),
    (r"sysctl/ipv6/conf/(eth0|HOSTVETH|CONTVETH)/ndisc_notify",
     "a reused IPv6 address is announced, as arp_notify does for IPv4"),
    (r"sysctl/ipv6/conf/(eth0|lo)/keep_addr_on_down",
     "the reference of 1.9 sets it, the one of 1.1.1 does not yet"),
]

V4 = {"subnet": "10.1.2.0/24"}
V6 = {"subnet": "fd00:1:2::/64"}
DEFAULT4, DEFAULT6 = {"dst": "0.0.0.0/0"}, {"dst": "::/0"}
MASQ = {"isGateway": True, "ipMasq": True, "ipMasqBackend": "iptables"}


def host_local(*ranges, **more):
    return {"ipam": {"type": "host-local", "ranges": [[r] for r in ranges], **more}}


def static(*addresses, **more):
    return {"ipam": {"type": "static", "addresses": list(addresses), **more}}


@dataclasses.dataclass
class Case:
    """One input; setup runs on the node before it."""

    name: str
    conf: dict
    plugin: str = "bridge"
    args: str = ""
    ifname: str = "eth0"
    setup: list = dataclasses.field(default_factory=list)
    fails: bool = False
    versions: tuple = ("1.0.0", "0.4.0")


FOREIGN_BRIDGE = ["ip link add cni0 address 0a:00:00:00:00:01 type bridge",
                  "ip addr add 10.1.9.1/24 dev cni0", "ip link set cni0 up"]
RESOLV_CONF = ["printf 'nameserver 10.9.9.9\\n; no\\nsearch a.test b.test\\ndomain c.test\\n"
               "options ndots:5 rotate\\nsearch d.test\\n' >/run/resolv.conf"]
MAC = "02:11:22:33:44:55"
ALL = ("1.0.0", "0.4.0", "0.3.1", "0.2.0", "0.1.0")

CASES = [
    Case("L2", {}),
    Case("L2 in version 0.2.0, whose result needs an address", {}, versions=("0.2.0",),
         fails=True),
    Case("L2 with mtu, hairpin", {"mtu": 1400, "hairpinMode": True}),
    Case("L2 promiscuous", {"promiscMode": True}),
    Case("L2 on a bridge of another name and with a dot", {"bridge": "br.one"}),
    Case("no gateway", host_local(V4)),
    Case("isGateway", {"isGateway": True} | host_local(V4, routes=[DEFAULT4]), versions=ALL),
    Case("isGateway with a gateway of its own",
         {"isGateway": True} | host_local(V4 | {"gateway": "10.1.2.99"}, routes=[DEFAULT4])),
    Case("isDefaultGateway", {"isDefaultGateway": True} | host_local(V4), versions=ALL),
    Case("isDefaultGateway beside a default route with a gateway",
         {"isDefaultGateway": True} |
         host_local(V4, routes=[{"dst": "0.0.0.0/0", "gw": "10.1.2.7"}])),
    Case("IPv6 alone", {"isDefaultGateway": True} | host_local(V6), versions=ALL),
    Case("dual-stack", {"isDefaultGateway": True} | host_local(V4, V6), versions=ALL),
    Case("three subnets", {"isGateway": True} | host_local(
        V4, V6, {"subnet": "fd00:1:3::/64"}, routes=[DEFAULT4, DEFAULT6])),
    Case("ipMasq with iptables", MASQ | host_local(V4, routes=[DEFAULT4])),
    Case("ipMasq with iptables, dual-stack", MASQ | host_local(V4, V6)),
    Case("ipMasq without a gateway", {"ipMasq": True, "ipMasqBackend": "iptables"} |
         host_local(V4)),
    Case("mac from CNI_ARGS", host_local(V4), args=f"IgnoreUnknown=1;MAC={MAC}"),
    Case("mac from args", {"args": {"cni": {"mac": MAC}}} | host_local(V4),
         args="IgnoreUnknown=1;MAC=02:00:00:00:00:01"),
    Case("mac from runtimeConfig", {"runtimeConfig": {"mac": MAC},
                                    "args": {"cni": {"mac": "02:00:00:00:00:02"}}} |
         host_local(V4), args="IgnoreUnknown=1;MAC=02:00:00:00:00:01"),
    Case("mac from RuntimeConfig in podman's spelling", {"RuntimeConfig": {"mac": MAC}} |
         host_local(V4)),
    Case("dns override", {"dns": {"nameservers": ["10.1.2.3"], "domain": "x.test"}} |
         host_local(V4, resolvConf="/run/resolv.conf"), setup=RESOLV_CONF),
    Case("dns wiped", {"dns": {"nameservers": []}} |
         host_local(V4, resolvConf="/run/resolv.conf"), setup=RESOLV_CONF),
    Case("dns from resolvConf", host_local(V4, resolvConf="/run/resolv.conf"), setup=RESOLV_CONF,
         versions=ALL),
    Case("bridge is there already", {"isGateway": True} | host_local({"subnet": "10.1.9.0/24"}),
         setup=FOREIGN_BRIDGE),
    Case("bridge has another address", {"isGateway": True} | host_local(V4), setup=FOREIGN_BRIDGE,
         fails=True),
    Case("bridge has another address, forceAddress", {"isGateway": True, "forceAddress": True} |
         host_local(V4), setup=FOREIGN_BRIDGE),
    Case("bridge has another IPv6 address", {"isGateway": True} | host_local(V6),
         setup=["ip link add cni0 address 0a:00:00:00:00:01 type bridge",
                "ip addr add fd00:9::1/64 dev cni0 nodad"]),
    Case("bridge is no bridge", host_local(V4), setup=["ip link add cni0 type veth"], fails=True),
    Case("static", {"isGateway": True} | static(
        {"address": "10.1.2.9/24", "gateway": "10.1.2.1"}, {"address": "fd00:1:2::9/64"},
        routes=[DEFAULT4, {"dst": "10.7.0.0/16", "gw": "10.1.2.77"},
                {"dst": "fd00:7::/64", "gw": "fd00:1:2::77"}],
        dns={"nameservers": ["10.1.2.53"]})),
    Case("static of one address in every version", static(
        {"address": "10.1.2.9/24", "gateway": "10.1.2.1"}, routes=[DEFAULT4]), versions=ALL),
    Case("static /32 and /31", static({"address": "10.1.2.9/32"}, {"address": "10.1.3.8/31"})),
    Case("static without an address", static(), fails=True),
    Case("static given an address twice", static({"address": "10.1.2.9/24"},
                                                 {"address": "10.1.2.9/24"}), fails=True),
    Case("a route that cannot be", host_local(V4, routes=[{"dst": "10.9.0.0/16", "gw": "10.8.8.8"}]),
         fails=True),
    Case("IPAM plugin is absent", {"ipam": {"type": "absent"}}, fails=True),
    Case("host-local, old style", {"ipam": {"type": "host-local", "subnet": "10.1.2.0/24",
                                            "rangeStart": "10.1.2.20", "rangeEnd": "10.1.2.30",
                                            "gateway": "10.1.2.254", "routes": [DEFAULT4]}},
         "host-local", versions=ALL),
    Case("host-local, one set of several ranges", {"ipam": {
        "type": "host-local", "ranges": [[{"subnet": "10.1.2.0/30"}, {"subnet": "10.1.3.0/30"}],
                                         [V6 | {"rangeStart": "fd00:1:2::10"}]]}}, "host-local"),
    Case("host-local with routes and a gateway outside",
         host_local(V4 | {"gateway": "10.9.9.9"},
                    routes=[DEFAULT4, {"dst": "10.5.0.0/16", "gw": "10.1.2.5"}]), "host-local"),
    Case("host-local, address from CNI_ARGS", host_local(V4), "host-local", args="IP=10.1.2.77"),
    Case("host-local, address with prefix from CNI_ARGS", host_local(V4), "host-local",
         args="IP=10.1.2.77/16"),
    Case("host-local, addresses from args", host_local(V4, V6) |
         {"args": {"cni": {"ips": ["fd00:1:2::42", "10.1.2.42/24"]}}}, "host-local"),
    Case("host-local, addresses from runtimeConfig", host_local(V4, V6) |
         {"runtimeConfig": {"ips": ["10.1.2.43", "fd00:1:2::43/64"]}}, "host-local"),
    Case("host-local, ranges from runtimeConfig", host_local(V4) |
         {"runtimeConfig": {"ipRanges": [[{"subnet": "10.3.0.0/24"}]]}}, "host-local"),
    Case("host-local, asked for the gateway", host_local(V4), "host-local", args="IP=10.1.2.1",
         fails=True),
    Case("host-local, asked for an address of no range", host_local(V4), "host-local",
         args="IP=10.9.2.1", fails=True),
    Case("host-local, asked for two addresses of one set", host_local(V4) |
         {"args": {"cni": {"ips": ["10.1.2.3", "10.1.2.4"]}}}, "host-local", fails=True),
    Case("host-local, two IPv4 sets in 0.2.0", host_local(V4, {"subnet": "10.1.3.0/24"}),
         "host-local", versions=("0.2.0",), fails=True),
    Case("host-local goes on after the last address", host_local(V4), "host-local",
         setup=["mkdir -p /var/lib/cni/networks/net1",
                "printf 10.1.2.77 >/var/lib/cni/networks/net1/last_reserved_ip.0"]),
    Case("host-local wraps round", host_local(V4), "host-local",
         setup=["mkdir -p /var/lib/cni/networks/net1",
                "printf 10.1.2.254 >/var/lib/cni/networks/net1/last_reserved_ip.0"]),
    Case("host-local passes over what is taken", host_local(V4), "host-local",
         setup=["mkdir -p /var/lib/cni/networks/net1",
                "printf 'a\\r\\neth0' >/var/lib/cni/networks/net1/10.1.2.2",
                "printf 'old' >/var/lib/cni/networks/net1/10.1.2.3"]),
    Case("host-local, range is used up", host_local({"subnet": "10.1.2.0/30"}), "host-local",
         setup=["mkdir -p /var/lib/cni/networks/net1",
                "printf 'a\\r\\neth0' >/var/lib/cni/networks/net1/10.1.2.2"], fails=True),
    Case("host-local, has an address already", host_local(V4), "host-local",
         setup=["mkdir -p /var/lib/cni/networks/net1",
                "printf 'pod1\\r\\neth0' >/var/lib/cni/networks/net1/10.1.2.2"], fails=True),
    Case("host-local in a dataDir", host_local(V4, dataDir="/run/leases"), "host-local"),
    Case("static alone", static({"address": "10.1.2.9/24"}), "static", versions=ALL),
    Case("static, address and gateway from CNI_ARGS", static({"address": "10.1.2.9/24"}),
         "static", args="IP=10.2.2.42/24,fd00::42/64;GATEWAY=10.2.2.1"),
    Case("static, addresses from args", static({"address": "10.1.2.9/24"}) |
         {"args": {"cni": {"ips": ["10.4.4.4/24"]}}}, "static", args="IP=10.2.2.42/24"),
    Case("static, addresses from runtimeConfig", static({"address": "10.1.2.9/24"}) |
         {"runtimeConfig": {"ips": ["10.5.5.5/24"]}, "args": {"cni": {"ips": ["10.4.4.4/24"]}}},
         "static", args="IP=10.2.2.42/24"),
    Case("static, no prefix", static({"address": "10.1.2.9"}), "static", fails=True),
    Case("loopback", {}, "loopback", ifname="lo", versions=("1.0.0",)),
    Case("loopback after another plugin", {"prevResult": {
        "interfaces": [{"name": "eth0", "sandbox": "/x"}],
        "ips": [{"address": "10.1.2.3/24", "interface": 0}], "dns": {}}}, "loopback", ifname="lo",
        versions=("1.0.0",)),
]

# Keys of a link that are numbers of the kernel, or contain a random MAC in a form of their own.
NOISE = {"ifindex", "link_index", "link_netnsid", "bridge_id", "root_id", "designated_root",
         "designated_bridge", "port_no", "port_id", "designated_cost", "netns_id", "numifindex"}


# MACs that the cases ask for; every other one is random.
CHOSEN = {MAC, "02:00:00:00:00:01", "02:00:00:00:00:02", "0a:00:00:00:00:01", "00:00:00:00:00:00",
          "ff:ff:ff:ff:ff:ff"}


def plain_text(text):
    """What is random replaced by what it stands for."""
    text = re.sub(r"\bveth[0-9a-f]{8}\b", "HOSTVETH", text)
    text = re.sub(r"\bfe80::[0-9a-f:]+", "LINK-LOCAL", text)
    return re.sub(r"(?<![0-9a-f:])([0-9a-f]{2}:){5}[0-9a-f]{2}(?![0-9a-f:])",
                  lambda found: found[0] if found[0] in CHOSEN else "MAC", text)


def plain(value, noise=NOISE):
    """The same of a whole JSON document, without the keys of noise."""
    if isinstance(value, dict):
        return {plain_text(k): plain(v, noise) for k, v in value.items() if k not in noise}
    if isinstance(value, list):
        return [plain(v, noise) for v in value]
    return plain_text(value) if isinstance(value, str) else value


def leaves(reference, ours, place=""):
    """Every value that differs, as "place key: reference -> ours"."""
    if isinstance(reference, dict) and isinstance(ours, dict):
        for key in sorted(reference.keys() | ours.keys()):
            yield from leaves(reference.get(key), ours.get(key), f"{place} {key}".strip())
    elif reference != ours:
        yield f"{place}: {json.dumps(reference)} -> {json.dumps(ours)}"


def settle(pod):
    """Gives the kernel's link watch, which works on its own time, the time to say what is up."""
    def is_settled():
        return "NO-CARRIER" not in run("ip", "link") + pod.run("ip", "link")
    wait_for(is_settled, seconds=0.5)  # some links are to stay without a carrier


def observe(case, version, directory, deep):
    """Runs ADD, CHECK, DEL on a new node and returns what was seen of each, in plain words."""
    World()
    for command in case.setup:
        run("sh", "-c", command)
    pod = Pod("pod1")
    conf = {"cniVersion": version, "name": "net1", "type": case.plugin, **case.conf}
    options = {"netns": pod.path, "ifname": case.ifname, "args": case.args,
               "directory": directory}
    seen = {}
    added = cni(case.plugin, "ADD", conf, **options)
    result = json.loads(added.stdout) if added.stdout else None
    seen["ADD status"] = added.status
    if added.status == 0:
        seen["ADD result"] = plain(result)
        if deep:
            settle(pod)
            seen["node after ADD"] = plain(snapshot())
            seen["pod after ADD"] = plain(pod_snapshot(pod))
        if version not in ("0.1.0", "0.2.0", "0.3.0", "0.3.1"):
            prev = {k: v for k, v in conf.items() if k != "prevResult"} | {"prevResult": result}
            checked = cni(case.plugin, "CHECK", prev, **options)
            seen["CHECK status"] = checked.status
            seen["CHECK said"] = checked.stdout
            conf = prev
    removed = cni(case.plugin, "DEL", conf, **options)
    seen["DEL"] = [removed.status, removed.stdout]
    if deep and added.status == 0:
        # The kernel notices some time later that the last port of the bridge is gone.
        seen["node after DEL"] = plain(snapshot(), NOISE | {"operstate", "flags"})
        seen["pod after DEL"] = plain(pod_snapshot(pod))
    return seen


@suite.spread
class Compare(suite.NodeTest):
    def setUp(self):
        super().setUp()
        if not has_reference():
            self.skipTest(f"the Go plugins are not in {REFERENCE}")

    @suite.cases([(f"{case.name} {version}", (case, version, version == case.versions[0]))
                  for case in CASES for version in case.versions])
    def same(self, row):
        case, version, deep = row
        reference = observe(case, version, REFERENCE, deep)
        ours = observe(case, version, OURS, deep)
        self.assertEqual(reference["ADD status"], 1 if case.fails else 0, str(reference))
        different = [line for line in leaves(reference, ours)
                     if not any(re.search(pattern, line) for pattern, _ in INTENDED)]
        if different:
            self.fail("\n       ".join(["differs from the reference:",
                                        *(line[:300] for line in different[:30])]))


if __name__ == "__main__":
    suite.main(needs=("iptables", "ip6tables"))
