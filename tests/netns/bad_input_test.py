#!/usr/bin/env python3
"""What is wrong with the input is said before anything is changed.

Every case must end with exit 1, one error object that names the place, and a node as it was. Wrong values of single keys
are known to tests/conformance/schema_test.py and the unit tests, the reference's sentences to sentences_test.py.
"""

import dataclasses
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.bandwidth import BOTH  # noqa: E402
from support.hostport import mapping  # noqa: E402
from support.plugin import OURS, cni, have  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run  # noqa: E402

V4 = {"subnet": "10.1.2.0/24"}
MISSING = object()


def ranges(*items):
    return {"ipam": {"type": "host-local", "ranges": [[item] for item in items]}}


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


CASES = [
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
    *(Case(f"the node's own namespace, {plugin} {verb}", 8, "should not be the same", via="own", plugin=plugin, verb=verb)
      for plugin in ("loopback", "ptp") for verb in ("ADD", "DEL")),
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
    *(Case(f"prevResult is a list, {plugin} {verb}", 6, "prevResult", {"prevResult": [1]}, plugin, verb)
      for plugin, verb in (("loopback", "ADD"), ("ptp", "CHECK"), ("bandwidth", "ADD"), ("portmap", "ADD"))),
    Case("prevResult of another version", None, "prevResult",
         {"prevResult": {"cniVersion": "0.2.0", "ip4": {"ip": "10.1.2.3/24"}}}, "bandwidth"),
    Case("prevResult with a broken address", None, "ips[0].address",
         {"prevResult": {"cniVersion": "1.0.0", "ips": [{"address": "10.1.2.2"}]}}, "portmap"),
    Case("nested too deep", 6, "", text='{"name": "a", "x": ' + "[" * 20000 + "]" * 20000 + "}"),
    # IPAM
    Case("no ipam.type, ptp", 7, "ipam.type", {"ipam": {}}, "ptp"),
    Case("ipam type that is ptp", 7, "'ptp' is not an IPAM plugin", {"ipam": {"type": "ptp"}}, "ptp"),
    Case("a broken range below bridge", 7, "ipam.ranges[0][0].subnet", ranges({"subnet": "10.1/24"}), late=True),
]

GOOD = {"bridge": {"isGateway": True} | ranges(V4), "host-local": ranges(V4), "ptp": ranges(V4),
        "static": {"ipam": {"type": "static", "addresses": [{"address": "10.1.2.3/24"}]}}, "loopback": {}, "bandwidth": BOTH,
        "portmap": {"runtimeConfig": {"portMappings": [mapping(8080, 80)]}}}


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
        run("ip", "link", "add", "br0", "type", "bridge")
        run("ip", "addr", "add", "10.9.9.9/16", "dev", "br0")
        gateway = {"isGateway": True, "ipam": {"type": "host-local", "subnet": "10.1.2.0/24"}}
        rows = [  # the kernel makes no link of that name: it is a name of its sysctls
            ({"bridge": "all"}, 'failed to create bridge "all": could not add "all": '),
            ({"bridge": "br0", **gateway}, 'failed to set bridge addr: "br0" already has an IP '
                                           'address different from 10.1.2.1/24')]
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
