#!/usr/bin/env python3
"""Where the reference plugins have a sentence for an error, msg is that sentence, whole: programs compare it and
people search for it. The key, the value and what was expected are in details. With the reference plugins 1.9 as
PATCHBAY_REFERENCE both are asked."""

import dataclasses
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.configs import lack  # noqa: E402
from support.plugin import REFERENCE, cni, is_new_reference  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run  # noqa: E402

SUBNET = {"type": "host-local", "subnet": "10.1.2.0/24"}
RESULT = {"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "/run/netns/pod1"}],
          "ips": [{"address": "10.1.2.5/24", "interface": 0}]}
ROUTE = {"dst": "192.0.2.0/24"}
LINKS = (("ptp", {}), ("macvlan", {"master": "up1"}), ("tap", {}),
         ("host-device", {"device": "up1"}))
ETH0 = ("ip -n pod1 link add eth0 type veth",)
CIDR = "is expected to be in CIDR notation, got: '10.1.2.3'"


@dataclasses.dataclass
class Row:
    """conf is laid over the least config."""

    plugin: str
    name: str
    msg: str
    details: str
    conf: dict
    args: str = ""
    verb: str = "ADD"
    netns: str = "/run/netns/pod1"
    setup: tuple = ()  # commands
    same: bool = True  # the reference says it, too


def ranges(*items):
    return {"ipam": {"type": "host-local", "ranges": [list(items)]}}


def trunk(**item):
    return {"bridge": "br1", "vlanTrunk": [item]}


def ports(**mapping):
    return {"runtimeConfig": {"portMappings": [{"protocol": "tcp", "hostPort": 80, "containerPort": 80} | mapping]},
            "prevResult": RESULT}


def limits(**keys):
    return keys | {"prevResult": RESULT}


ROWS = [
    Row("static", "an address without prefix", f"the 'address' field {CIDR}", "ipam.addresses[0].address",
        {"ipam": {"type": "static", "addresses": [{"address": "10.1.2.3"}]}}),
    Row("static", "an address that is missing", "the 'address' field is expected to be in CIDR notation, got: ''",
        "ipam.addresses[0].address", {"ipam": {"type": "static", "addresses": [{}]}}),
    Row("static", "IP in CNI_ARGS without prefix", f"the 'ip' field {CIDR}", "CNI_ARGS: IP",
        {"ipam": {"type": "static"}}, args="IP=10.1.2.3"),
    Row("static", "GATEWAY in CNI_ARGS that is none", "invalid gateway address: x", "CNI_ARGS: GATEWAY",
        {"ipam": {"type": "static"}}, args="IP=10.1.2.3/24;GATEWAY=x"),
    *(Row("static", f"ips of {where} without prefix", "an entry in the 'ips' field is NOT in CIDR notation, got: "
          "'10.1.2.3'", f"{path}.ips[0]", {"ipam": {"type": "static"}} | more)
      for where, path, more in (("args", "args.cni", {"args": {"cni": {"ips": ["10.1.2.3"]}}}),
                                ("runtimeConfig", "runtimeConfig", {"runtimeConfig": {"ips": ["10.1.2.3"]}}))),
    *(Row(plugin, "no ipam", "IPAM config missing 'ipam' key", "ipam: the key is missing", {})
      for plugin in ("host-local", "static")),
    Row("host-local", "no range", "no IP ranges specified", "ipam.ranges", {"ipam": {"type": "host-local"}}),
    Row("host-local", "two families in a set", "invalid range set 0: mixed address families", "10.1.2.1",
        ranges({"subnet": "10.1.2.0/24"}, {"subnet": "fd00::/64"})),
    Row("host-local", "an end outside", "invalid range set 0: RangeEnd 10.9.0.1 not in network 10.1.2.0/24",
        "ipam.ranges[0][0]", ranges({"subnet": "10.1.2.0/24", "rangeEnd": "10.9.0.1"})),
    Row("host-local", "an end before the start", "invalid range set 0: RangeStart 10.1.2.9 not in network 10.1.2.0/24",
        "the range 10.1.2.9-10.1.2.4 has no address",
        ranges({"subnet": "10.1.2.0/24", "rangeStart": "10.1.2.9", "rangeEnd": "10.1.2.4"})),
    Row("host-local", "a small subnet", "invalid range set 0: Network 10.1.2.0/31 too small to allocate from",
        "ipam.ranges[0][0]", ranges({"subnet": "10.1.2.0/31"})),
    Row("host-local", "host bits", "invalid range set 0: Network has host bits set. For a subnet mask of length 24 the "
        "network address is 10.1.2.0", "ipam.ranges[0][0]", ranges({"subnet": "10.1.2.7/24"})),
    Row("host-local", "a requested address that no set has", "failed to allocate all requested IPs: 10.9.9.9", "",
        {"ipam": SUBNET, "args": {"cni": {"ips": ["10.9.9.9"]}}}),
    Row("host-local", "IP in CNI_ARGS that is none",
        'ARGS: error parsing value of pair "IP=10.1.2": invalid IP address 10.1.2', "CNI_ARGS: IP", {"ipam": SUBNET},
        args="IP=10.1.2"),
    Row("bridge", "a VLAN ID", "invalid VLAN ID 4095 (must be between 0 and 4094)", "vlan: ",
        {"bridge": "br1", "vlan": 4095}),
    Row("bridge", "minID", "incorrect trunk minID parameter", "vlanTrunk[0].minID: expected 1 to 4094: -1",
        trunk(minID=-1, maxID=5)),
    Row("bridge", "maxID", "incorrect trunk maxID parameter", "vlanTrunk[0].maxID", trunk(minID=1, maxID=4095)),
    Row("bridge", "id", "incorrect trunk id parameter", "vlanTrunk[0].id: expected 1 to 4094: 4095", trunk(id=4095)),
    Row("bridge", "a trunk backwards", "minID is greater than maxID in trunk parameter", "vlanTrunk[0]",
        trunk(minID=6, maxID=5)),
    Row("bridge", "a trunk without minID", "minID and maxID should be configured simultaneously, minID is missing",
        "vlanTrunk[0]", trunk(maxID=5)),
    Row("bridge", "a trunk without maxID", "minID and maxID should be configured simultaneously, maxID is missing",
        "vlanTrunk[0]", trunk(minID=5)),
    Row("bridge", "hairpin and promiscuous", "cannot set hairpin mode and promiscuous mode at the same time",
        "promiscMode: true", {"bridge": "br1", "hairpinMode": True, "promiscMode": True}),
    Row("bridge", "IPAM without an interface", "cannot use IPAM when DisableContainerInterface flag is set",
        "disableContainerInterface: true", {"bridge": "br1", "disableContainerInterface": True, "ipam": SUBNET}),
    Row("bridge", "CNI_ARGS that are unknown", 'ARGS: unknown args ["FOO=1"]', "IgnoreUnknown=1", {"bridge": "br1"},
        args="FOO=1"),
    Row("bridge", "CNI_ARGS that are no pair", 'ARGS: invalid pair "x"', "CNI_ARGS: expected KEY=VALUE",
        {"bridge": "br1"}, args="x"),
    Row("bridge", "IgnoreUnknown", 'ARGS: error parsing value of pair "IgnoreUnknown=maybe": boolean unmarshal error: '
        "invalid input maybe", "CNI_ARGS", {"bridge": "br1"}, args="IgnoreUnknown=maybe"),
    Row("macvlan", "MAC in CNI_ARGS that is none", "invalid args zz for MAC addr: address zz: invalid MAC address",
        "CNI_ARGS: MAC", {"master": "up1"}, args="MAC=zz"),
    *(Row(plugin, "a backend for masquerading", 'unknown ipmasq backend "pf"',
          'ipMasqBackend: expected "nftables" or "iptables": "pf"',
          more | {"ipMasq": True, "ipMasqBackend": "pf", "ipam": SUBNET})
      for plugin, more in (("bridge", {"bridge": "br1"}), ("ptp", {}))),
    Row("ptp", "no IPAM", "no plugin name provided", "ipam.type", {}),
    Row("ptp", "no namespace", 'failed to open netns "/run/netns/none": failed to Statfs "/run/netns/none": no such '
        "file or directory", "CNI_NETNS", {"ipam": SUBNET}, netns="/run/netns/none"),
    Row("bridge", "a file that is no namespace", 'failed to open netns "/run": unknown FS magic on "/run": 1021994',
        "CNI_NETNS", {"bridge": "br1"}, netns="/run"),
    Row("macvlan", "a mode", 'unknown macvlan mode: "x"', 'mode: expected "bridge", "private", "vepa", "passthru" or '
        '"source": "x"', {"master": "up1", "mode": "x"}),
    Row("vlan", "no master", '"master" field is required. It specifies the host interface name to create the VLAN for',
        "master: the key is missing", {"vlanId": 5, "ipam": SUBNET}),
    Row("host-device", "a device that does not exist", "failed to find host device: Link not found", 'device: "dev9"',
        {"device": "dev9"}),
    Row("host-device", "hwaddr of no link", "failed to find host device: failed to find physical interface", "hwaddr",
        {"hwaddr": "02:00:5e:00:00:99"}),
    Row("host-device", "hwaddr that is none",
        'failed to find host device: failed to parse MAC address "zz": address zz: invalid MAC address',
        "hwaddr: expected", {"hwaddr": "zz"}),
    Row("host-device", "no selector", 'specify either "device", "hwaddr", "kernelpath" or "pciBusID"', "deviceID", {}),
    Row("host-device", "pciBusID of no device",
        "error with host device: lstat /sys/bus/pci/devices/0000:ff:1f.7: no such file or directory", "PCI device",
        {"pciBusID": "0000:ff:1f.7"}),
    Row("dummy", "no IPAM", "dummy interface requires an IPAM configuration", "", {}),
    Row("tap", "a bridge that does not exist", "failed to get bridge br9: Link not found", "bridge: ",
        {"bridge": "br9"}),
    Row("bandwidth", "a rate alone", "if rate is set, burst must also be set", "ingressRate: 8000",
        limits(ingressRate=8000)),
    Row("bandwidth", "a burst alone", "if burst is set, rate must also be set", "ingressBurst: 8000",
        limits(ingressBurst=8000)),
    Row("bandwidth", "a burst of 4 GiB", "burst cannot be more than 4GB", "egressBurst",
        limits(egressRate=8000, egressBurst=8 * 2**32)),
    Row("bandwidth", "no result", "must be called as chained plugin", "", {"ingressRate": 8000, "ingressBurst": 8000}),
    *(Row("portmap", name, f"failed to parse config: {msg}", details, conf) for name, msg, details, conf in (
        ("a container port", "Invalid container port number: 0", "portMappings[0].containerPort: ",
         ports(containerPort=0)),
        ("a host port", "Invalid host port number: -5", "portMappings[0].hostPort: ", ports(hostPort=-5)),
        ("a backend", 'unrecognized backend "x"', 'backend: expected "nftables" or "iptables": "x"',
         {"backend": "x", "prevResult": RESULT}),
        ("a mark bit", "MasqMarkBit must be between 0 and 31", "markMasqBit: 32",
         {"markMasqBit": 32, "prevResult": RESULT}),
        ("two marks", "Cannot specify externalSetMarkChain and markMasqBit", "markMasqBit: 3",
         {"markMasqBit": 3, "externalSetMarkChain": "X", "prevResult": RESULT}))),
    *(Row("portmap", name, "must be called as chained plugin", "no prevResult: portmap follows", conf)
      for name, conf in (("no result", {"runtimeConfig": ports()["runtimeConfig"]}),
                         ("neither a result nor mappings", {}))),
    Row("portmap", "a backend for CHECK", 'unrecognized backend "x"', "backend: expected", verb="CHECK",
        conf={"backend": "x", "prevResult": RESULT}),
    Row("tuning", "a key twice", "duplicated sysctl keys are not allowed", 'sysctl: "net.ipv4.ip_forward"',
        {"prevResult": RESULT, "sysctl": {"net.ipv4.ip_forward": "1", "TWICE": "1"}}),
    Row("vrf", "no name", "configuration is expected to have a valid vrf name", "vrfname", {"prevResult": RESULT}),
    Row("sbr", "no result", "This plugin must be called as chained plugin", "prevResult", {}),
    Row("firewall", "no result", "missing prevResult from earlier plugin", "", {}),
    Row("firewall", "a policy", 'unknown ingress policy: "x"', "ingressPolicy", {"ingressPolicy": "x"} | limits()),
    *(Row(plugin, "a master that does not exist", "Link not found", 'master: "none9"', more | {"master": "none9"})
      for plugin, more in (("macvlan", {}), ("vlan", {"vlanId": 5, "ipam": SUBNET}))),
    Row("ipvlan", "a master that does not exist", 'failed to lookup master "none9": Link not found', 'master: "none9"',
        {"master": "none9", "ipam": SUBNET}),
    Row("macvlan", "mac that is none", "invalid args zz for MAC addr: address zz: invalid MAC address", "mac: expected",
        {"master": "up1", "mac": "zz"}),
    Row("tuning", "mac that is none", "invalid args zz for MAC addr: address zz: invalid MAC address", "mac: expected",
        {"mac": "zz"} | limits(), setup=ETH0),
    Row("host-device", "a name that the pod has", 'failed to move link failed to move "eth0" (host: "up1") to '
        "container NS: file exists", "CNI_IFNAME", {"device": "up1"}, setup=ETH0),
    Row("host-device", "a device that cannot be moved", 'failed to move link failed to move "br7" to tempNS: invalid '
        "argument", "", {"device": "br7"}, setup=("ip link add br7 type bridge",)),
    Row("bridge", "a link that is no bridge", 'failed to create bridge "up1": "up1" already exists but is not a bridge',
        "'veth'", {"bridge": "up1"}),
    *(Row(plugin, "a route twice", "failed to add route '{192.0.2.0 ffffff00} via 10.1.2.1 dev eth0 metric 0 (Scope: "
          "universe, Table: 0)': file exists", "", more | {"ipam": SUBNET | {"routes": [ROUTE, ROUTE]}})
      for plugin, more in LINKS),
    *(Row(plugin, "a route without a way", "failed to add route '{192.0.2.0 ffffff00} via 10.99.0.1 dev eth0 metric 0 "
          "(Scope: universe, Table: 0)': network is unreachable", "kernel: Nexthop has invalid gateway",
          more | {"ipam": SUBNET | {"routes": [ROUTE | {"gw": "10.99.0.1"}]}}) for plugin, more in LINKS),
    # The reference prints where in its memory the address is.
    *(Row(plugin, "an address twice", 'failed to add IP addr 10.1.2.5/24 to "eth0": file exists', "",
          more | {"ipam": {"type": "static", "addresses": [{"address": "10.1.2.5/24"}] * 2}}, same=False)
      for plugin, more in LINKS),
    Row("tap", "a link that is no bridge", "failed to set tap eth0 as a port of bridge lo: operation not supported",
        "bridge: ", {"bridge": "lo"}),
    Row("bandwidth", "no veth", 'container interface eth0 has no veth peer: interface "eth0" was not a veth interface',
        "egressMode", limits(ingressRate=8000, ingressBurst=8000), setup=("ip -n pod1 link add eth0 type bridge",)),
    Row("tuning", "a sysctl that does not exist", "open /proc/sys/net/ipv4/conf/eth0/nope: no such file or directory",
        'sysctl["net.ipv4.conf.eth0.nope"]: the pod\'s network namespace has no such setting',
        {"sysctl": {"net.ipv4.conf.eth0.nope": "1"}} | limits(), setup=ETH0),
    Row("tuning", "a sysctl below kernel", 'invalid net sysctl key: "kernel/hostname"', 'sysctl["kernel.hostname"]: '
        'expected a setting below net, for example net.ipv4.conf.IFNAME.arp_filter: "x"',
        {"sysctl": {"kernel.hostname": "x"}} | limits(), setup=ETH0),
    Row("tuning", "a value that the kernel refuses", "write /proc/sys/net/ipv4/conf/eth0/arp_filter: invalid argument",
        '"x"', {"sysctl": {"net.ipv4.conf.eth0.arp_filter": "x"}} | limits(), setup=ETH0),
    Row("host-local", "dataDir that cannot be made", "mkdir /proc/x: no such file or directory", "ipam.dataDir",
        {"ipam": SUBNET | {"dataDir": "/proc/x"}}),
    Row("host-local", "resolvConf that does not exist", "open /none: no such file or directory", "ipam.resolvConf",
        {"ipam": SUBNET | {"resolvConf": "/none"}}),
    Row("host-local", "a range without subnet", "invalid range set 0: IP <nil> not v4 nor v6",
        "ipam.ranges[0][0].subnet", ranges({})),
    Row("loopback", "another address", 'loopback interface found with non-loopback address "10.9.9.9"', "", {},
        setup=("ip -n pod1 link set lo up", "ip -n pod1 addr add 10.9.9.9/32 dev lo")),
    *(Row(plugin, "no namespace", 'failed to Statfs "/run/netns/none": no such file or directory', "CNI_NETNS",
          {"mtu": 1400} | limits(), netns="/run/netns/none") for plugin in ("loopback", "tuning")),
    *(Row("vrf", name, f"cmdAdd failed: {msg}", "", {"vrfname": "blue"} | limits(), **more) for name, msg, more in (
        ("no namespace", 'failed to Statfs "/run/netns/none": no such file or directory', {"netns": "/run/netns/none"}),
        ("no interface", "could not get link by name eth0", {}),
        ("a link that is no VRF", "Netlink blue is not a VRF",
         {"setup": (*ETH0, "ip -n pod1 link add blue type bridge")}),
        ("a port of a bridge", "interface eth0 has already a master set: br7",
         {"setup": (*ETH0, "ip -n pod1 link add br7 type bridge", "ip -n pod1 link set eth0 master br7")}))),
    # The reference names types of Go after the colon.
    *(Row(plugin, f"a value of another type, {verb}", f"{words}: {key}: expected {expected}: {{}}", "", {key: {}} | more,
          verb=verb, same=False)
      for plugin, verb, words, key, expected, more in (
          ("bridge", "ADD", "failed to load netconf", "mtu", "an integer from 0 to 65535", {}),
          ("macvlan", "CHECK", "failed to load netconf", "mode", "a string", {}),
          ("dummy", "ADD", "failed to parse network config", "mtu", "an integer from 0 to 65535", {}),
          ("bandwidth", "ADD", "failed to parse network configuration", "ingressRate",
           "an integer of at least 0", {}),
          ("portmap", "ADD", "failed to parse config: failed to parse network configuration", "snat", "true or false",
           limits()),
          ("portmap", "CHECK", "failed to parse network configuration", "snat", "true or false", limits()))),
]


@suite.spread
class Sentences(suite.NodeTest):
    @suite.cases([(f"{row.plugin}: {row.name}", row) for row in ROWS])
    def msg_is_the_sentence_of_the_reference_and_details_name_the_place_for(self, row):
        self.pod("pod1")
        run("ip", "link", "add", "up1", "type", "veth")
        for command in row.setup:
            run(*command.split())
        conf = {"cniVersion": "1.0.0", "name": "net1", "type": row.plugin} | row.conf
        text = json.dumps(conf).replace("TWICE", "net.ipv4.ip_forward")
        call = {"netns": row.netns, "args": row.args, "documented": False}
        before = snapshot()
        error = self.assert_error(cni(row.plugin, row.verb, text, **call))
        self.assertEqual(error["msg"], row.msg)
        self.assertIn(row.details, error.get("details", ""))
        self.assert_same(before, ignore=left_by_design)
        is_able = row.plugin != "vrf" or not lack("vrf")  # the reference makes the VRF first
        if row.same and is_able and is_new_reference(row.plugin):
            theirs = cni(row.plugin, row.verb, text, directory=REFERENCE, **call)
            self.assertEqual(theirs.json["msg"], row.msg)


if __name__ == "__main__":
    suite.main()
