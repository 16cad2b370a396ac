#!/usr/bin/env python3
"""What CHECK says of a difference, in the sentences of the reference plugins, which differ from plugin to plugin.
With the reference plugins 1.9 as PATCHBAY_REFERENCE both are asked."""

import dataclasses
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.configs import CONFIGS, lack  # noqa: E402
from support.plugin import REFERENCE, cni, is_new_reference  # noqa: E402
from support.world import run  # noqa: E402

IPAM = {"type": "host-local", "subnet": "10.1.2.0/24", "rangeStart": "10.1.2.5", "routes": [{"dst": "192.0.2.0/24"}]}
OTHER = "02:00:5e:00:00:99"
GO_ROUTE = "{Dst:{IP:192.0.2.0 Mask:ffffff00} GW:<nil> MTU:0 AdvMSS:0 Priority:0 Table:<nil> Scope:<nil>}"
V6_ROUTE = {"dst": "2001:db8::/60", "gw": "fd00::1", "mtu": 1400, "advmss": 1300, "priority": 3, "table": 7, "scope": 0}
GO_V6_ROUTE = ("{Dst:{IP:2001:db8:: Mask:fffffffffffffff00000000000000000} GW:fd00::1 MTU:1400 AdvMSS:1300 Priority:3 "
               "Table:7 Scope:0}")
PORTS = {"runtimeConfig": {"portMappings": [{"protocol": "tcp", "hostPort": 80, "containerPort": 80}]}}
LIMITS = {"ingressRate": 8000, "ingressBurst": 80000, "egressRate": 8000, "egressBurst": 80000}
SYSCTL = {"sysctl": {"net.ipv4.conf.eth0.arp_filter": "1"}}
BASE = {
    "bridge": {"bridge": "br1", "ipam": IPAM}, "ptp": {"ipam": IPAM}, "tap": {"ipam": IPAM}, "dummy": {"ipam": IPAM},
    "macvlan": {"master": "up1", "ipam": IPAM}, "ipvlan": {"master": "up1", "ipam": IPAM},
    "vlan": {"master": "up1", "vlanId": 5, "ipam": IPAM}, "host-device": {"device": "up1", "ipam": IPAM},
    "portmap": PORTS | {"backend": "iptables"}, "bandwidth": LIMITS, "tuning": {}, "firewall": {"backend": "iptables"},
    "vrf": {"vrfname": "blue"}, "loopback": {}, "host-local": {"ipam": IPAM},
    "static": {"ipam": {"type": "static", "addresses": [{"address": "10.1.2.5/24", "gateway": "10.1.2.1"}]}},
}


@dataclasses.dataclass
class Row:
    """msg may name {mac}, {port} and {port_mac}: of the container interface and the host veth; and so may damage,
    besides {pod} and {ifb}. conf is for ADD, changed for CHECK alone; prev changes the result that CHECK gets."""

    plugin: str
    name: str
    msg: str
    details: str = ""
    conf: dict = dataclasses.field(default_factory=dict)
    changed: dict = dataclasses.field(default_factory=dict)
    damage: tuple = ()
    prev: object = None
    netns: str = "/run/netns/pod1"
    added: bool = True
    same: bool = True  # the reference says it of this difference, too


def entry(name="eth0", **keys):
    """Changes the entry of a link in prevResult."""
    def change(result, port):
        next(one for one in result["interfaces"] if one["name"] == (name or port)).update(keys)
    return change


def without(name):
    def change(result, port):
        result["interfaces"] = [one for one in result["interfaces"] if one["name"] != (name or port)]
    return change


def nothing(result, _):
    result.clear()


def of_interface(plugin, kind, **words):
    """What the plugins that make an interface check of it, in the words of one."""
    interface, error, sandbox = (words.get(key, key.capitalize()) for key in ("interface", "error", "sandbox"))
    missing = words.get("missing", "Container Interface name in prevResult: eth0 not found")
    yield Row(plugin, "no prevResult", words.get("required", "Required prevResult missing"), prev=nothing)
    yield Row(plugin, "another sandbox", f"{sandbox} in prevResult  doesn't match configured netns: /run/netns/pod1",
              "prevResult has no interface 'eth0'", prev=entry(sandbox="/run/netns/other"))
    yield Row(plugin, "no interface", missing, damage=("ip -n {pod} link del eth0",))
    if kind:
        yield Row(plugin, "an interface of another kind", f"{error}: Container interface eth0 not of type {kind}",
                  "'bridge'", damage=("ip -n {pod} link del eth0", "ip -n {pod} link add eth0 type bridge"))
    if plugin != "tap":
        yield Row(plugin, "another MAC address", f"{interface} eth0 Mac {OTHER} doesn't match container Mac: {{mac}}",
                  prev=entry(mac=OTHER))
    yield Row(plugin, "no address", "Failed to match addr 10.1.2.5/24 on interface eth0",
              damage=("ip -n {pod} addr add 10.1.2.6/24 dev eth0", "ip -n {pod} addr del 10.1.2.5/24 dev eth0"))
    yield Row(plugin, "no route", f"Expected Route {GO_ROUTE} not found in routing table", "192.0.2.0/24",
              damage=("ip -n {pod} route del 192.0.2.0/24",), same=plugin != "dummy")
    yield Row(plugin, "no IPv6 route", f"Expected Route {GO_V6_ROUTE} not found in routing table", "2001:db8::/60",
              prev=lambda result, _: result["routes"].append(V6_ROUTE), same=plugin != "dummy")


ROWS = [
    *of_interface("bridge", "veth", missing="Interface name eth0 not found"),
    *of_interface("ptp", "veth/p2p", interface="ptp: Interface", required="ptp: Required prevResult missing",
                  missing="ptp: Container Interface name in prevResult: eth0 not found"),
    *of_interface("macvlan", "macvlan", interface="interface", error="error", sandbox="sandbox",
                  required="required prevResult missing",
                  missing="container Interface name in prevResult: eth0 not found"),
    *of_interface("ipvlan", "ipvlan"),
    *of_interface("vlan", "vlan", interface="vlan: Interface", required="vlan: Required prevResult missing",
                  missing="vlan: Container Interface name in prevResult: eth0 not found"),
    *of_interface("dummy", "dummy", required="dummy: Required prevResult missing"),
    *of_interface("host-device", None),
    *of_interface("tap", None, missing="Cannot find container link eth0"),
    Row("bridge", "no bridge in prevResult", "Interface name missing ", "'br1'", prev=without("br1")),
    Row("bridge", "a bridge in a sandbox", "Interface br1 should not be in sandbox", "/run/x",
        prev=entry("br1", sandbox="/run/x")),
    Row("bridge", "no bridge", "Interface name br1 not found", damage=("ip link del br1",)),
    Row("bridge", "another link in its place", "Interface br1 does not have link type of bridge", "'veth'",
        damage=("ip link del br1", "ip link add br1 type veth")),
    Row("bridge", "the bridge's MAC address", f"Bridge interface br1 Mac doesn't match: {OTHER}", "it has ",
        prev=entry("br1", mac=OTHER)),
    Row("bridge", "promiscuous mode", "Bridge interface br1 configured Promisc Mode true doesn't match current state: "
        "false ", changed={"promiscMode": True}),
    Row("bridge", "a port that left", "CNI veth created for bridge br1 was not found", "'{port}' is not a port of",
        damage=("ip link set {port} nomaster",)),
    Row("bridge", "no port in prevResult", "CNI veth created for bridge br1 was not found", "'{port}'",
        prev=without(None)),
    Row("bridge", "a port in a sandbox", "Interface {port} should not be in sandbox", "/run/x",
        prev=entry(None, sandbox="/run/x")),
    Row("bridge", "the port's MAC address", f"Interface {{port}} Mac doesn't match: {OTHER} not found", "{port_mac}",
        prev=entry(None, mac=OTHER)),
    Row("ptp", "no route to the subnet", "Failed to find Gateway 10.1.2.1 for interface eth0", "10.1.2.0/24",
        damage=("ip -n {pod} route del 10.1.2.0/24",)),
    Row("macvlan", "another mode", "container macvlan mode bridge does not match expected value: vepa",
        changed={"mode": "vepa"}),
    Row("macvlan", "no master", "Link not found", 'master: "none9"', changed={"master": "none9"}),
    Row("ipvlan", "another mode", "Container IPVlan mode l2 does not match expected value: l3", changed={"mode": "l3"}),
    *(Row(plugin, "no master", 'failed to lookup master "none9": Link not found', changed={"master": "none9"})
      for plugin in ("ipvlan", "vlan")),
    Row("vlan", "another VLAN", "Error: Tuning link eth0 configured promisc is 6, current value is 5", "VLAN ID 5",
        changed={"vlanId": 6}),
    Row("vlan", "another MTU", "Error: Tuning configured MTU of eth0 is 1300, current value is 1500",
        changed={"mtu": 1300}),
    Row("dummy", "an interface that is down", "Interface eth0 is down", damage=("ip -n {pod} link set eth0 down",)),
    Row("loopback", "lo that is down", "loopback interface is down", damage=("ip -n {pod} link set lo down",)),
    *(Row(plugin, "no namespace", 'failed to Statfs "/run/netns/none": no such file or directory', "CNI_NETNS",
          netns="/run/netns/none") for plugin in ("loopback", "tuning", "vrf")),
    Row("static", "another gateway", "static: Failed to match addr 10.1.2.5 on interface eth0", "10.1.2.1",
        prev=lambda result, _: result["ips"][0].update(address="10.1.2.5/24", gateway="10.1.2.9")),
    Row("host-local", "no lease", "host-local: Failed to find address added by container pod1", "eth0", added=False,
        damage=("rm -r /var/lib/cni/networks",)),
    *(Row(plugin, "no prevResult", "Required prevResult missing", prev=nothing)
      for plugin in ("static", "tuning", "portmap")),
    Row("bandwidth", "no prevResult", "must be called as a chained plugin", prev=nothing),
    *(Row(plugin, "no prevResult", "missing prevResult from earlier plugin", prev=nothing)
      for plugin in ("firewall", "vrf")),
    Row("bandwidth", "no interface", 'container interface eth0 has no veth peer: could not look up "eth0": Link not '
        "found", damage=("ip -n {pod} link del eth0",)),
    Row("bandwidth", "no device", "get ifb device: Link not found", damage=("ip link del {ifb}",)),
    Row("bandwidth", "another rate", "Rate doesn't match", "1000, and not 2000 of '{port}'",
        changed={"ingressRate": 16000}),
    Row("bandwidth", "another rate of the pod", "Rate doesn't match", "1000, and not 2000 of 'bwp",
        changed={"egressRate": 16000}),
    Row("bandwidth", "another burst", "Limit doesn't match", "'{port}'", changed={"ingressBurst": 160000}),
    Row("bandwidth", "no limit", "Failed to find qdisc", "'{port}' has no limit",
        damage=("tc qdisc del dev {port} root",), same=False),
    Row("tuning", "a sysctl", "Error: Tuning configured value of /proc/sys/net/ipv4/conf/eth0/arp_filter is 1, current "
        "value is 0", conf=SYSCTL, damage=("ip netns exec {pod} sysctl -qw net.ipv4.conf.eth0.arp_filter=0",)),
    Row("tuning", "a sysctl that does not exist", "open /proc/sys/net/ipv4/conf/eth0/arp_filter: no such file or "
        "directory", 'sysctl["net.ipv4.conf.eth0.arp_filter"]', conf=SYSCTL, damage=("ip -n {pod} link del eth0",)),
    Row("tuning", "the MTU", "Error: Tuning configured MTU of eth0 is 1400, current value is 1300",
        conf={"mtu": 1400}, damage=("ip -n {pod} link set eth0 mtu 1300",)),
    Row("tuning", "the MAC address", f"Error: Tuning configured Ethernet of eth0 is {OTHER}, current value is "
        "02:00:5e:00:00:98", conf={"mac": OTHER}, damage=("ip -n {pod} link set eth0 address 02:00:5e:00:00:98",)),
    Row("tuning", "promiscuous mode", "Error: Tuning link eth0 configured promisc is true, current value is 0",
        conf={"promisc": True}, damage=("ip -n {pod} link set eth0 promisc off",)),
    # The reference prints where in its memory the wanted value is.
    Row("tuning", "all multicast", "Error: Tuning configured all-multicast mode of eth0 is true, current value is "
        "false", conf={"allmulti": True}, damage=("ip -n {pod} link set eth0 allmulticast off",), same=False),
    Row("tuning", "the queue", "Error: Tuning configured Transmit Queue Length of eth0 is 500, current value is 400",
        conf={"txQLen": 500}, damage=("ip -n {pod} link set eth0 txqueuelen 400",), same=False),
    Row("firewall", "no rule", "expected rule [-d 10.1.2.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT] not "
        "found", damage=("iptables -D CNI-FORWARD 2",)),
    Row("firewall", "no jump", "expected FORWARD rule [-m comment --comment CNI firewall plugin rules -j CNI-FORWARD] "
        "not found", damage=("iptables -F FORWARD",)),
    Row("firewall", "no jump to the operator's chain", "expected CNI-FORWARD rule [-m comment --comment CNI firewall "
        "plugin admin overrides -j CNI-ADMIN] not found", damage=("iptables -D CNI-FORWARD 1",)),
    Row("portmap", "no chain", "could not check ipv4 dnat: chain CNI-DN-001db4b51b772d5da8bc9 not found in iptables "
        "table nat", damage=("iptables -t nat -F", "iptables -t nat -X")),
    # Our rules are others.
    Row("portmap", "no rule", "could not check ipv4 dnat: rule [[-d 127.0.0.0/8 ! -o lo -j RETURN]] in chain "
        "CNI-DN-001db4b51b772d5da8bc9 not found in table nat", damage=("iptables -t nat -F",), same=False),
    Row("portmap", "no elements", 'missing hostport rules in "hostports" chain', "", conf={"backend": "nftables"},
        damage=("nft flush ruleset",), same=False),
    Row("vrf", "no VRF", "Link not found", "'blue'", damage=("ip -n {pod} link del blue",)),
    Row("vrf", "an interface that left", "failed to find eth0 associated to vrf blue",
        damage=("ip -n {pod} link set eth0 nomaster",)),
    Row("vrf", "no interface", "failed to find eth0 associated to vrf blue", damage=("ip -n {pod} link del eth0",)),
]


def mac_of(link, pod=None):
    return json.loads(run("ip", "-j", *(("-n", pod.name) if pod else ()), "link", "show", link))[0]["address"]


@suite.spread
class Check(suite.NodeTest):
    def attach(self, row):
        """ADD of the plugin, for a chained one after that of ptp. Its config, and the result for CHECK."""
        base = {"cniVersion": "1.0.0", "name": "net1"}
        self.options = {"netns": self.box.path, "documented": False}
        result = None
        if CONFIGS[row.plugin].kind is None:
            result = self.assert_ok(cni("ptp", "ADD", base | BASE["ptp"] | {"type": "ptp"}, **self.options))
        conf = base | {"type": row.plugin} | BASE[row.plugin] | row.conf
        if row.plugin == "loopback":
            self.options["ifname"] = "lo"
        if not row.added:
            return conf, result
        given = conf | ({"prevResult": result} if result and row.plugin != "host-local" else {})
        mine = self.assert_ok(cni(row.plugin, "ADD", given, **self.options))
        return conf, result if row.plugin in ("static", "host-local") else mine

    @suite.cases([(f"{row.plugin}: {row.name}", row) for row in ROWS])
    def says_in_the_words_of_the_reference(self, row):
        self.box = self.pod("pod1")
        if reason := lack(row.plugin):
            self.skipTest(reason)
        run("ip", "-batch", "-", stdin="link add up1 type veth peer up2\nlink set up1 up\nlink set up2 up\n")
        conf, result = self.attach(row)
        links = [one["ifname"] for one in json.loads(run("ip", "-j", "link"))]
        port = next((one for one in links if one.startswith("veth")), "")
        ifb = next((one for one in links if one.startswith("bwp")), "")
        words = {"port": port, "pod": "pod1", "ifb": ifb, "mac": mac_of("eth0", self.box) if row.added else "",
                 "port_mac": mac_of(port) if port else ""}
        for command in row.damage:
            run(*command.format(**words).split())
        if row.prev:
            row.prev(result, port)
        given = conf | row.changed | ({"prevResult": result} if result else {})
        call = self.options | {"netns": row.netns}
        fill = lambda text: text if "{Dst" in text else text.format(**words)  # noqa: E731
        error = self.assert_error(cni(row.plugin, "CHECK", given, **call))
        self.assertEqual(error["msg"], fill(row.msg))
        self.assertIn(fill(row.details), error.get("details", ""))
        if row.same and is_new_reference(row.plugin):
            theirs = cni(row.plugin, "CHECK", given, directory=REFERENCE, **call)
            self.assertEqual(theirs.json["msg"], fill(row.msg))


if __name__ == "__main__":
    suite.main()
