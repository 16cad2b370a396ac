#!/usr/bin/env python3
"""What is wrong with the input is said before anything is changed.

Every case must end with exit 1, one error object that names the place, and a node as it was.
"""

import dataclasses
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.plugin import OURS, cni, have  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run  # noqa: E402

V4 = {"subnet": "10.1.2.0/24"}
MISSING = object()


def ranges(*items):
    return {"ipam": {"type": "host-local", "ranges": [[item] for item in items]}}


def addresses(*items, **more):
    return {"ipam": {"type": "static", "addresses": list(items), **more}}


@dataclasses.dataclass
class Case:
    """conf is laid over a good config of the plugin; text replaces it; env changes variables."""

    name: str
    code: int
    says: str
    conf: dict = dataclasses.field(default_factory=dict)
    plugin: str = "bridge"
    verb: str = "ADD"
    text: str = None
    env: dict = dataclasses.field(default_factory=dict)
    args: str = ""
    via: str = ""  # what is in the way of CNI_NETNS
    late: bool = False  # found out by the IPAM plugin, when the shared bridge is there already


#: Keys that become names of the kernel or paths.
NUL = (("macvlan", "master", {"master": "up0\0x"}), ("ipvlan", "master", {"master": "up0\0x"}),
       ("vlan", "master", {"master": "up0\0x", "vlanId": 5}), ("host-device", "device", {"device": "up0\0x"}),
       ("host-device", "kernelpath", {"kernelpath": "/sys/devices/x\0y"}), ("bridge", "bridge", {"bridge": "cni0\0x"}),
       ("tap", "bridge", {"bridge": "br0\0x"}), ("tap", "selinuxContext", {"selinuxContext": "a\0b"}),
       ("vrf", "vrfname", {"vrfname": "blue\0x"}), ("tuning", "dataDir", {"dataDir": "/run/a\0b"}),
       ("firewall", "iptablesAdminChainName", {"iptablesAdminChainName": "A\0B"}),
       ("firewall", "firewalldZone", {"firewalldZone": "a\0b"}),
       ("portmap", "externalSetMarkChain", {"externalSetMarkChain": "A\0B"}),
       ("host-local", "ipam.dataDir", {"ipam": {"type": "host-local", "dataDir": "/run/a\0b", "ranges": [[V4]]}}),
       ("host-local", "ipam.resolvConf", {"ipam": {"type": "host-local", "resolvConf": "/a\0b", "ranges": [[V4]]}}),
       ("dhcp", "ipam.daemonSocketPath", {"ipam": {"type": "dhcp", "daemonSocketPath": "/run/a\0b"}}),
       ("ptp", "ipam.type", {"ipam": {"type": "static\0x"}}))


def wrong_type(key, value):
    return Case(f"{key} is {json.dumps(value)}", 7, key, {key: value})


CASES = [
    # Types
    wrong_type("bridge", 5), wrong_type("isGateway", "yes"), wrong_type("isDefaultGateway", 1),
    wrong_type("forceAddress", "true"), wrong_type("ipMasq", "true"),
    wrong_type("ipMasqBackend", 1), wrong_type("mtu", "1500"), wrong_type("mtu", 1400.5),
    wrong_type("hairpinMode", []), wrong_type("promiscMode", {}), wrong_type("vlan", "7"),
    wrong_type("vlanTrunk", {"id": 5}), wrong_type("portIsolation", 0), wrong_type("dns", "8.8.8.8"),
    wrong_type("macspoofchk", "on"), wrong_type("enabledad", 1), wrong_type("ipam", "host-local"),
    wrong_type("disableContainerInterface", "no"), wrong_type("preserveDefaultVlan", 1),
    wrong_type("args", "IP=1"), wrong_type("runtimeConfig", []),
    Case("dns.nameservers is a string", 7, "dns.nameservers", {"dns": {"nameservers": "1.1.1.1"}}),
    Case("ipam.type is a number", 7, "ipam.type", {"ipam": {"type": 1}}),
    Case("args.cni.mac is a number", 7, "args.cni.mac", {"args": {"cni": {"mac": 1}}}),
    # Values
    Case("mtu is negative", 7, "mtu", {"mtu": -1}),
    Case("mtu is huge", 7, "mtu", {"mtu": 1 << 40}),
    Case("mtu is beyond 64 bits", 7, "mtu", {"mtu": 1 << 70}),
    Case("mtu is too small for IPv4", 7, "mtu", {"mtu": 20}),
    Case("bridge has no name", 7, "bridge", {"bridge": ""}),
    Case("bridge name of 16 bytes", 7, "bridge", {"bridge": "b" * 16}),
    Case("bridge name with a slash", 7, "bridge", {"bridge": "../b"}),
    Case("bridge name with a blank", 7, "bridge", {"bridge": "a b"}),
    Case("bridge name with a NUL", 7, "bridge", {"bridge": "c\0i0"}),
    Case("bridge name that the kernel takes for a template", 7, "bridge", {"bridge": "cni%d"}),
    Case("bridge name with a percent sign", 7, "bridge", {"bridge": "c%"}),
    Case("bridge is called ..", 7, "bridge", {"bridge": ".."}),
    Case("ipMasqBackend is unknown", 7, "ipMasqBackend", {"ipMasq": True, "ipMasqBackend": "pf"}),
    Case("hairpin and promiscuous", 7, "hairpin", {"hairpinMode": True, "promiscMode": True}),
    Case("IPAM without an interface", 7, "disableContainerInterface",
         {"disableContainerInterface": True}),
    Case("vlan -1", 7, "vlan", {"vlan": -1}),
    Case("vlan 4095", 7, "vlan", {"vlan": 4095}),
    Case("vlanTrunk with null", 7, "vlanTrunk[0]", {"vlanTrunk": [None]}),
    Case("vlanTrunk id 0", 7, "vlanTrunk[0].id", {"vlanTrunk": [{"id": 0}]}),
    Case("vlanTrunk id 4095", 7, "vlanTrunk[1].id", {"vlanTrunk": [{"id": 2}, {"id": 4095}]}),
    Case("vlanTrunk without maxID", 7, "maxID is missing", {"vlanTrunk": [{"minID": 5}]}),
    Case("vlanTrunk without minID", 7, "minID is missing", {"vlanTrunk": [{"maxID": 5}]}),
    Case("vlanTrunk backwards", 7, "minID is greater than maxID",
         {"vlanTrunk": [{"minID": 6, "maxID": 5}]}),
    Case("vlanTrunk id is text", 7, "vlanTrunk[0].id", {"vlanTrunk": [{"id": "5"}]}),
    Case("the VLAN's gateway link has too long a name", 7, "bridge",
         {"bridge": "abcdefghijklm", "vlan": 100, "isGateway": True}),
    Case("a MAC that is none", 7, "args.cni.mac", {"args": {"cni": {"mac": "02:00:00"}}}),
    Case("a multicast MAC", 7, "runtimeConfig.mac",
         {"runtimeConfig": {"mac": "01:00:5e:00:00:01"}}),
    Case("a zero MAC", 7, "runtimeConfig.mac", {"runtimeConfig": {"mac": "00:00:00:00:00:00"}}),
    # CNI_ARGS
    Case("CNI_ARGS MAC that is none", 4, "MAC", args="IgnoreUnknown=1;MAC=x"),
    Case("CNI_ARGS without =", 4, 'invalid pair "x"', args="x"),
    Case("CNI_ARGS with two =", 4, "invalid pair", args="MAC=a=b"),
    Case("CNI_ARGS with a trailing ;", 4, "invalid pair", args="IgnoreUnknown=1;"),
    Case("CNI_ARGS unknown", 4, "FOO=1", args="FOO=1"),
    Case("CNI_ARGS IgnoreUnknown=maybe", 4, "IgnoreUnknown", args="IgnoreUnknown=maybe"),
    Case("CNI_ARGS IP that is none", 4, "IP", plugin="host-local", args="IP=10.1.2"),
    Case("CNI_ARGS GATEWAY that is none", 4, "GATEWAY", plugin="static", args="GATEWAY=x"),
    # Names that become paths
    *(Case(f"{plugin}: {key} with a NUL", 7, f"{key}: expected a string without NUL bytes", change, plugin)
      for plugin, key, change in NUL),
    Case("network name with a slash", 7, "network name", {"name": "../../etc"}),
    Case("network name with a NUL", 7, "network name", {"name": "a\0b"}),
    Case("network name of host-local with a slash", 7, "network name", {"name": "a/b"},
         plugin="host-local"),
    Case("network name too long for a file", 999, "", {"name": "n" * 300}, plugin="host-local",
         late=True),
    Case("container ID with a slash", 4, "containerID", env={"CNI_CONTAINERID": "../x"}),
    Case("container ID with a newline", 4, "containerID", env={"CNI_CONTAINERID": "a\nb"}),
    Case("ipam type with a slash", 7, "invalid plugin name", {"ipam": {"type": "../bin/true"}}),
    Case("ipam type with an absolute path", 7, "invalid plugin name",
         {"ipam": {"type": "/bin/true"}}),
    Case("ipam type ..", 7, "", {"ipam": {"type": ".."}}, late=True),
    Case("ipam type that is absent", 7, 'failed to find plugin "absent" in path',
         {"ipam": {"type": "absent"}}, late=True),
    Case("ipam type that is bridge", 7, "'bridge' is not an IPAM plugin",
         {"ipam": {"type": "bridge"}}),
    *(Case(f"ipam type that is bridge, {verb}", 7, "'bridge' is not an IPAM plugin",
           {"ipam": {"type": "bridge"}, "cniVersion": "1.1.0", "cni.dev/valid-attachments": [],
            "prevResult": {}}, verb=verb) for verb in ("CHECK", "STATUS")),
    Case("ipam type that is a chained plugin", 7, "'portmap' is not an IPAM plugin",
         {"ipam": {"type": "portmap"}}),
    Case("interface name of 16 bytes", 4, "too long", env={"CNI_IFNAME": "e" * 16}),
    Case("interface name with a slash", 4, "interface name", env={"CNI_IFNAME": "a/b"}),
    Case("interface name that the kernel takes for a template", 4, "interface name contains %",
         env={"CNI_IFNAME": "eth%d"}),
    Case("interface name that the kernel takes for a template, DEL", 4, "interface name contains %",
         env={"CNI_IFNAME": "eth%d"}, verb="DEL"),
    Case("interface name with a tab", 4, "interface name", env={"CNI_IFNAME": "a\tb"}),
    # Variables
    Case("no variable at all", 4, "CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH",
         env=dict.fromkeys(("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"))),
    Case("verb in small letters", 4, "unknown CNI_COMMAND: add", env={"CNI_COMMAND": "add"}),
    # Namespaces
    Case("the node's own namespace", 8, "should not be the same", via="own"),
    Case("the node's own namespace, DEL", 8, "should not be the same", via="own", verb="DEL"),
    Case("the node's own namespace, loopback", 8, "should not be the same", via="own",
         plugin="loopback"),
    Case("the node's own namespace, loopback DEL", 8, "should not be the same", via="own",
         plugin="loopback", verb="DEL"),
    Case("no namespace there", 8, "/run/netns/none", via="none"),
    Case("no namespace there, loopback", 8, "/run/netns/none", via="none", plugin="loopback"),
    Case("a file in place of the namespace", 8, "not a network namespace", via="file"),
    Case("a directory in place of the namespace", 8, "/run/netns", via="directory"),
    Case("another kind of namespace", 8, "not a network namespace", via="uts"),
    # The document
    Case("stdin is empty", 6, "", text=""),
    Case("stdin is no JSON", 6, "line 1", text="{"),
    Case("stdin is not UTF-8", 6, "", text="{\"name\": \"\udcff\"}"),
    Case("a byte order mark", 6, "begins with a byte order mark", text='\ufeff{"name": "net1"}'),
    Case("two documents", 6, "", text='{"name": "net1"}{}'),
    Case("name is missing", 7, "missing network name", {"name": MISSING}),
    Case("cniVersion is unknown", 1, "incompatible CNI versions", {"cniVersion": "1.2.0"}),
    Case("cniVersion is a list", 6, "cniVersion", {"cniVersion": ["1.0.0"]}),
    Case("prevResult is a list, loopback", 6, "prevResult", {"prevResult": [1]}, "loopback"),
    Case("nested too deep", 6, "", text='{"name": "a", "x": ' + "[" * 20000 + "]" * 20000 + "}"),
    # ptp
    *(dataclasses.replace(one, name=f"{one.name}, ptp", plugin="ptp") for one in (
        wrong_type("ipMasq", "true"), wrong_type("ipMasq", 1), wrong_type("ipMasqBackend", 1),
        wrong_type("mtu", "1500"), wrong_type("mtu", 1400.5), wrong_type("dns", "8.8.8.8"),
        wrong_type("ipam", "host-local"), Case("mtu is negative", 7, "mtu", {"mtu": -1}),
        Case("mtu is too small for IPv4", 7, "mtu", {"mtu": 67}),
        Case("mtu is too big", 7, "mtu", {"mtu": 65536}),
        Case("dns.search is a string", 7, "dns.search", {"dns": {"search": "a.test"}}),
        Case("ipMasqBackend is unknown", 7, 'unknown ipmasq backend "pf"',
             {"ipMasq": True, "ipMasqBackend": "pf"}),
        Case("no ipam", 7, "no plugin name provided", {"ipam": MISSING}),
        Case("no ipam.type", 7, "ipam.type", {"ipam": {}}),
        Case("ipam.type is a number", 7, "ipam.type", {"ipam": {"type": 1}}),
        Case("ipam type that is absent", 7, 'failed to find plugin "absent" in path',
             {"ipam": {"type": "absent"}}),
        Case("ipam type that is ptp", 7, "'ptp' is not an IPAM plugin", {"ipam": {"type": "ptp"}}),
        Case("IPAM without an address", 999, "IPAM plugin returned missing IP config", addresses()),
        Case("prevResult of CHECK is missing", 7, "prevResult", verb="CHECK"),
        Case("prevResult of CHECK is a list", 6, "prevResult", {"prevResult": [1]}, verb="CHECK"),
        Case("the node's own namespace", 8, "should not be the same", via="own"),
        Case("the node's own namespace, DEL", 8, "should not be the same", via="own", verb="DEL"),
        Case("no namespace there", 8, "/run/netns/none", via="none"),
        Case("a file in place of the namespace", 8, "not a network namespace", via="file"))),
    # host-local
    Case("no ipam", 7, "ipam", {"ipam": MISSING}, "host-local"),
    Case("no range", 7, "ipam.ranges", {"ipam": {"type": "host-local"}}, "host-local"),
    Case("an empty set", 7, "empty range set", {"ipam": {"ranges": [[]]}}, "host-local"),
    Case("ranges is one list", 7, "ipam.ranges[0]", {"ipam": {"ranges": [V4]}}, "host-local"),
    Case("subnet is no CIDR", 7, "ipam.ranges[0][0].subnet", ranges({"subnet": "10.1"}),
         "host-local"),
    Case("subnet has host bits", 7, "Network has host bits set", ranges({"subnet": "10.1.2.3/24"}),
         "host-local"),
    Case("subnet is too small", 7, "too small to allocate from", ranges({"subnet": "10.1.2.0/31"}),
         "host-local"),
    Case("subnet is missing", 7, "ipam.ranges[0][0].subnet", ranges({"rangeStart": "10.1.2.3"}),
         "host-local"),
    Case("rangeStart outside", 7, "RangeStart 10.9.0.1 not in network",
         ranges(V4 | {"rangeStart": "10.9.0.1"}), "host-local"),
    Case("rangeEnd outside", 7, "RangeEnd 10.9.0.1 not in network",
         ranges(V4 | {"rangeEnd": "10.9.0.1"}), "host-local"),
    Case("rangeEnd before rangeStart", 7, "ipam.ranges[0][0]",
         ranges(V4 | {"rangeStart": "10.1.2.9", "rangeEnd": "10.1.2.4"}), "host-local"),
    Case("gateway is none", 7, "ipam.ranges[0][0].gateway", ranges(V4 | {"gateway": "10.1"}),
         "host-local"),
    Case("address with leading zeros", 7, "gateway", ranges(V4 | {"gateway": "10.1.2.01"}),
         "host-local"),
    Case("sets overlap", 7, "range set 0 overlaps with 1", ranges(V4, {"subnet": "10.1.0.0/16"}),
         "host-local"),
    Case("ranges of a set overlap", 7, "overlap", {"ipam": {"ranges": [[V4, V4]]}}, "host-local"),
    Case("families in one set", 7, "mixed address families",
         {"ipam": {"ranges": [[V4, {"subnet": "fd00::/64"}]]}}, "host-local"),
    Case("route without dst", 7, "ipam.routes[0].dst",
         {"ipam": ranges(V4)["ipam"] | {"routes": [{"gw": "10.1.2.1"}]}}, "host-local"),
    Case("route of two families", 7, "ipam.routes[0].gw",
         {"ipam": ranges(V4)["ipam"] | {"routes": [{"dst": "0.0.0.0/0", "gw": "fd00::1"}]}},
         "host-local"),
    Case("resolvConf is absent", 7, "resolvConf",
         {"ipam": ranges(V4)["ipam"] | {"resolvConf": "/run/none"}}, "host-local"),
    Case("ipRanges from the runtime are broken", 7, "runtimeConfig.ipRanges",
         {"runtimeConfig": {"ipRanges": [[{"subnet": "x"}]]}}, "host-local"),
    Case("ips from the runtime are broken", 7, "runtimeConfig.ips[0]",
         {"runtimeConfig": {"ips": ["x"]}}, "host-local"),
    Case("a broken range below bridge", 7, "ipam.ranges[0][0].subnet",
         ranges({"subnet": "10.1/24"}), late=True),
    # static
    Case("address without prefix", 7, "CIDR notation, got: '10.1.2.3'",
         addresses({"address": "10.1.2.3"}), "static"),
    Case("prefix of 33", 7, "ipam.addresses[0].address", addresses({"address": "10.1.2.3/33"}),
         "static"),
    Case("address is missing", 7, "ipam.addresses[0].address", addresses({"gateway": "10.1.2.1"}),
         "static"),
    Case("gateway is a number", 7, "ipam.addresses[0].gateway",
         addresses({"address": "10.1.2.3/24", "gateway": 1}), "static"),
    Case("addresses is an object", 7, "ipam.addresses", {"ipam": {"addresses": {}}}, "static"),
]

GOOD = {"bridge": {"isGateway": True} | ranges(V4), "host-local": ranges(V4), "ptp": ranges(V4),
        "static": addresses({"address": "10.1.2.3/24"}), "loopback": {}}


#: An object that nests 200 000 deep.
DEEP = """i=200000; head -c $i /dev/zero | sed 's/\\x00/{"ips":/g'; printf 1; head -c $i /dev/zero | tr '\\0' '}'"""


@suite.spread
class BadInput(suite.NodeTest):
    def setUp(self):
        super().setUp()
        self.box = self.pod()
        with open("/run/netns/file", "w", encoding="ascii"):
            pass
        run("touch", "/run/uts")
        run("mount", "--bind", "/proc/self/ns/uts", "/run/uts")
        self.netns = {"": self.box.path, "own": self.node.netns, "none": "/run/netns/none",
                      "file": "/run/netns/file", "directory": "/run/netns", "uts": "/run/uts"}

    @suite.cases([(case.name, case) for case in CASES])
    def refused(self, case):
        conf = {"cniVersion": "1.0.0", "name": "net1", "type": case.plugin, **GOOD.get(case.plugin, {}),
                **case.conf}
        conf = {key: value for key, value in conf.items() if value is not MISSING}
        text = json.dumps(conf) if case.text is None else case.text
        before = snapshot()
        outcome = cni(case.plugin, case.verb, text, netns=self.netns[case.via], args=case.args,
                      env=case.env)
        error = self.assert_error(outcome, case.code)
        self.assertIn(case.says, error["msg"] + " " + error.get("details", ""))
        self.assertFalse(re.search(r"json\.exception|terminate|what\(\)", outcome.stdout),
                         outcome.stdout)
        self.assert_same(before, ignore=left_by_design if case.late else lambda place: False)
        self.assertEqual(self.box.run("ip", "-br", "link", "show", "type", "veth"), "")

    @suite.cases([("ipam type", {"ipam": {"type": "../../../../bin/touch"}}),
                  ("ipam type, absolute", {"ipam": {"type": "/bin/touch"}}),
                  ("type", {"type": "../../../../bin/touch"}),
                  ("network name", {"name": "../../../../bin/touch"})])
    def no_path_is_executed_of(self, change):
        """CVE-2021-20206: a type with a path ran whatever it pointed to."""
        if have("strace"):
            self.skipTest("needs the program strace")
        for verb in ("ADD", "DEL", "CHECK", "GC", "STATUS"):
            conf = {"cniVersion": "1.1.0", "name": "net1", "type": "bridge",
                    "cni.dev/valid-attachments": [], **GOOD["bridge"], **change}
            cni("bridge", verb, conf, netns=self.box.path, documented=False,
                wrap=("strace", "-f", "-qq", "-o", "/run/strace", "-e", "trace=execve"))
            with open("/run/strace", encoding="utf-8") as file:
                ran = re.findall(r'execve\("([^"]+)"', file.read())
            allowed = {os.path.join(OURS, name) for name in ("bridge", "host-local")}
            self.assertLessEqual(set(ran), allowed, verb)

    def test_a_delegate_that_talks_nonsense_is_an_error(self):
        os.mkdir("/run/bin")
        for number, says in enumerate(("echo nonsense", "echo '[]'", "exit 3", "kill -9 $$",
                                       "echo '{\"cniVersion\": \"9.9.9\"}'", "exit 0",
                                       "echo out of luck >&2; exit 1", DEEP, f"{DEEP}; exit 1",
                                       *(f"exec {OURS}/{name}" for name in ("bridge", "portmap")))):
            with open(f"/run/bin/odd{number}", "w", encoding="ascii") as script:
                script.write(f"#!/bin/sh\n{'' if 'exec' in says else 'cat >/dev/null'}\n{says}\n")
            os.chmod(script.name, 0o755)
            before = snapshot()
            conf = {"cniVersion": "1.0.0", "name": "net1", "type": "bridge",
                    "ipam": {"type": f"odd{number}"}}
            error = self.assert_error(cni("bridge", "ADD", conf, netns=self.box.path,
                                          path=f"/run/bin:{OURS}"))
            if "exec" in says:  # which would run odd as its IPAM plugin, and so on
                self.assertIn("is not an IPAM plugin", error["msg"])
            if "luck" in says:
                self.assertIn("out of luck", error["msg"])
            self.assert_same(before, ignore=left_by_design, what=says)

    def test_the_words_that_people_search_for_are_those_of_the_reference(self):
        base = {"cniVersion": "1.0.0", "name": "net1", "type": "bridge", **GOOD["bridge"]}
        run("ip", "link", "add", "veth0", "type", "veth", "peer", "veth1")
        run("ip", "link", "add", "br0", "type", "bridge")
        run("ip", "addr", "add", "10.9.9.9/16", "dev", "br0")
        gateway = {"isGateway": True, "ipam": {"type": "host-local", "subnet": "10.1.2.0/24"}}
        rows = [  # the kernel makes no link of that name: it is a name of its sysctls
            ({"bridge": "all"}, 'failed to create bridge "all": could not add "all": '),
            ({"bridge": "veth0"},
             'failed to create bridge "veth0": "veth0" already exists but is not a bridge'),
            ({"bridge": "br0", **gateway}, 'failed to set bridge addr: "br0" already has an IP '
                                           'address different from 10.1.2.1/24'),
            ({"ipMasq": True, "ipMasqBackend": "pf"}, 'unknown ipmasq backend "pf"')]
        for change, words in rows:
            error = self.assert_error(cni("bridge", "ADD", base | change, netns=self.box.path))
            self.assertIn(words, error["msg"])
            if "br0" in words:
                self.assertIn("10.9.9.9/16", error["details"])
        for plugin in ("bridge", "loopback"):
            conf = {"cniVersion": "1.0.0", "name": "net1", "type": plugin}
            for path in ("/run/netns/none", "/dev/null"):
                error = self.assert_error(cni(plugin, "ADD", conf, netns=path), 8)
                self.assertEqual(error["msg"].startswith(f'failed to open netns "{path}": '), plugin == "bridge")
                self.assertIn("CNI_NETNS", error["details"])

    def test_an_unknown_ipMasqBackend_is_refused_only_where_it_is_used(self):
        base = {"cniVersion": "1.0.0", "name": "net1", "type": "bridge", "ipMasqBackend": "pf"}
        for number, change in enumerate((GOOD["bridge"], {"ipMasq": True})):  # without IPAM
            outcome = cni("bridge", "ADD", base | change, netns=self.box.path,
                          container=f"c{number}", ifname=f"eth{number}", documented=False)
            self.assert_ok(outcome)

    def test_an_unwritable_stdout_undoes_the_ADD(self):
        before = snapshot()
        conf = {"cniVersion": "1.0.0", "name": "net1", "type": "bridge", **GOOD["bridge"]}
        for redirect in (">/dev/full", ">&-"):
            outcome = cni("bridge", "ADD", conf, netns=self.box.path,
                          wrap=("sh", "-c", f'exec "$0" {redirect}'))
            self.assertEqual((outcome.status, outcome.stdout), (1, ""), str(outcome))
            self.assert_same(before, ignore=left_by_design, what=redirect)


if __name__ == "__main__":
    suite.main()
