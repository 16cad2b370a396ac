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
from support.plugin import REFERENCE, cni, has_reference  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run  # noqa: E402

SUBNET = {"type": "host-local", "subnet": "10.1.2.0/24"}
RESULT = {"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "/run/netns/pod1"}],
          "ips": [{"address": "10.1.2.5/24", "interface": 0}]}
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
    Row("bridge", "id", "incorrect trunk id parameter", "vlanTrunk[0].id", trunk(id=4095)),
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
    Row("macvlan", "a mode", 'unknown macvlan mode: "x"', 'mode: expected "bridge"', {"master": "up1", "mode": "x"}),
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
    Row("portmap", "a backend for CHECK", 'unrecognized backend "x"', "backend: expected", verb="CHECK",
        conf={"backend": "x", "prevResult": RESULT}),
    Row("tuning", "a key twice", "duplicated sysctl keys are not allowed", 'sysctl: "net.ipv4.ip_forward"',
        {"prevResult": RESULT, "sysctl": {"net.ipv4.ip_forward": "1", "TWICE": "1"}}),
    Row("vrf", "no name", "configuration is expected to have a valid vrf name", "vrfname", {"prevResult": RESULT}),
    Row("sbr", "no result", "This plugin must be called as chained plugin", "prevResult", {}),
    Row("firewall", "no result", "missing prevResult from earlier plugin", "", {}),
]


def is_new_reference(plugin):
    """Whether the reference plugin is of 1.9: those before 1.5 do not know version 1.1.0 of the spec."""
    said = cni(plugin, "VERSION", "", directory=REFERENCE) if has_reference(plugin) else None
    return said is not None and "1.1.0" in said.stdout


@suite.spread
class Sentences(suite.NodeTest):
    @suite.cases([(f"{row.plugin}: {row.name}", row) for row in ROWS])
    def msg_is_the_sentence_of_the_reference_and_details_name_the_place_for(self, row):
        self.pod("pod1")
        run("ip", "link", "add", "up1", "type", "veth")
        conf = {"cniVersion": "1.0.0", "name": "net1", "type": row.plugin} | row.conf
        text = json.dumps(conf).replace("TWICE", "net.ipv4.ip_forward")
        call = {"netns": row.netns, "args": row.args, "documented": False}
        before = snapshot()
        error = self.assert_error(cni(row.plugin, row.verb, text, **call))
        self.assertEqual(error["msg"], row.msg)
        self.assertIn(row.details, error.get("details", ""))
        self.assert_same(before, ignore=left_by_design)
        if is_new_reference(row.plugin):
            theirs = cni(row.plugin, row.verb, text, directory=REFERENCE, **call)
            self.assertEqual(theirs.json["msg"], row.msg)


if __name__ == "__main__":
    suite.main()
