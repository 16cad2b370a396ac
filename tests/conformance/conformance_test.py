#!/usr/bin/env python3
"""Every verb of every plugin in every version of the spec, and every error of the protocol."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.configs import (  # noqa: E402
    CONFIGS, GC, config, give_device, give_interface, is_ipam, number, previous, provide)
from support.plugin import PLUGINS, REFERENCE, VERSIONS, cni, has_reference, have  # noqa: E402
from support.snapshot import pod_snapshot, snapshot  # noqa: E402
from support.world import run  # noqa: E402

SUPPORTED = " ".join(f'"{v}"' for v in VERSIONS)
MATRIX = [(f"{plugin} {version}", (plugin, version)) for plugin in PLUGINS for version in VERSIONS]
EACH = [(plugin, plugin) for plugin in PLUGINS]

# name, verb, what is different from a proper call, code, message, details. All of it is the
# contract of the Go library, which runtimes know; "env" replaces variables, None removes one.
ERRORS = [
    ("nothing but the verb", "ADD",
     {"env": {"CNI_CONTAINERID": None, "CNI_NETNS": None, "CNI_IFNAME": None, "CNI_PATH": None}},
     4, "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH] missing", None),
    ("nothing but the verb", "CHECK",
     {"env": {"CNI_CONTAINERID": None, "CNI_NETNS": None, "CNI_IFNAME": None, "CNI_PATH": None}},
     4, "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME,CNI_PATH] missing", None),
    ("nothing but the verb", "DEL",
     {"env": {"CNI_CONTAINERID": None, "CNI_NETNS": None, "CNI_IFNAME": None, "CNI_PATH": None}},
     4, "required env variables [CNI_CONTAINERID,CNI_IFNAME,CNI_PATH] missing", None),
    ("no CNI_PATH", "GC", {"env": {"CNI_PATH": None}},
     4, "required env variables [CNI_PATH] missing", None),
    ("no CNI_PATH", "STATUS", {"env": {"CNI_PATH": None}},
     4, "required env variables [CNI_PATH] missing", None),
    ("an empty variable is a missing one", "ADD", {"env": {"CNI_NETNS": "", "CNI_PATH": ""}},
     4, "required env variables [CNI_NETNS,CNI_PATH] missing", None),
    ("a bad container ID wins over missing variables", "ADD",
     {"env": {"CNI_CONTAINERID": "a/b", "CNI_NETNS": None}},
     4, "invalid characters in containerID", "a/b"),
    ("a bad container ID", "DEL", {"env": {"CNI_CONTAINERID": "-x"}},
     4, "invalid characters in containerID", "-x"),
    ("a bad container ID", "CHECK", {"env": {"CNI_CONTAINERID": "a b"}},
     4, "invalid characters in containerID", "a b"),
    ("interface name of 16 bytes", "ADD", {"env": {"CNI_IFNAME": "a" * 16}},
     4, "interface name is too long", "interface name should be less than 16 characters"),
    ("interface name .", "ADD", {"env": {"CNI_IFNAME": "."}},
     4, "interface name is . or ..", None),
    ("interface name ..", "DEL", {"env": {"CNI_IFNAME": ".."}},
     4, "interface name is . or ..", None),
    ("interface name with a slash", "ADD", {"env": {"CNI_IFNAME": "a/b"}},
     4, "interface name contains / or : or whitespace characters", None),
    ("interface name with a colon", "CHECK", {"env": {"CNI_IFNAME": "a:b"}},
     4, "interface name contains / or : or whitespace characters", None),
    ("interface name with a blank", "DEL", {"env": {"CNI_IFNAME": "a b"}},
     4, "interface name contains / or : or whitespace characters", None),
    ("interface name with a wide blank", "ADD", {"env": {"CNI_IFNAME": "a\u2003b"}},
     4, "interface name contains / or : or whitespace characters", None),
    ("unknown verb", "ADD", {"env": {"CNI_COMMAND": "FROB"}},
     4, "unknown CNI_COMMAND: FROB", None),
    ("unknown verb and no config", "ADD", {"env": {"CNI_COMMAND": "FROB"}, "text": ""},
     6, None, None),
    ("empty stdin", "ADD", {"text": ""}, 6, None, None),
    ("not JSON", "ADD", {"text": "{"}, 6, None, None),
    ("not JSON", "DEL", {"text": "{,}"}, 6, None, None),
    ("something after the document", "ADD", {"text": '{"name": "a"} {}'}, 6, None, None),
    ("a list", "ADD", {"text": "[]"}, 6, None, None),
    ("name is a number", "ADD", {"conf": {"name": 1}}, 6, None, None),
    ("name is empty", "ADD", {"conf": {"name": ""}}, 7, "missing network name", None),
    ("no name", "DEL", {"conf": {"name": None}}, 7, "missing network name", None),
    ("a bad name", "CHECK", {"conf": {"name": "a/b"}},
     7, "invalid characters found in network name", "a/b"),
    ("a bad name", "GC", {"conf": {"name": "../x"}},
     7, "invalid characters found in network name", "../x"),
    ("a bad name wins over a bad version", "ADD", {"conf": {"name": "..", "cniVersion": "9"}},
     7, "invalid characters found in network name", ".."),
    ("cniVersion is a number", "ADD", {"conf": {"cniVersion": 1}}, 6, None, None),
    ("unknown version", "ADD", {"conf": {"cniVersion": "1.2.0"}},
     1, "incompatible CNI versions", f'config is "1.2.0", plugin supports [{SUPPORTED}]'),
    ("unknown old version", "DEL", {"conf": {"cniVersion": "0.3.9"}},
     1, "incompatible CNI versions", f'config is "0.3.9", plugin supports [{SUPPORTED}]'),
    ("version in two parts", "ADD", {"conf": {"cniVersion": "1.0"}},
     1, "incompatible CNI versions", f'config is "1.0", plugin supports [{SUPPORTED}]'),
    ("unknown version between two", "CHECK", {"conf": {"cniVersion": "0.9.9"}},
     1, "incompatible CNI versions", f'config is "0.9.9", plugin supports [{SUPPORTED}]'),
    ("version that is none", "CHECK", {"conf": {"cniVersion": "x"}}, 6, None, None),
    ("version of four parts", "GC", {"conf": {"cniVersion": "1.1.0.0"}}, 6, None, None),
    ("version with a word", "STATUS", {"conf": {"cniVersion": "1.x.0"}}, 6, None, None),
    ("version from the future", "CHECK", {"conf": {"cniVersion": "1.2.0"}},
     1, "plugin version does not allow CHECK", None),
    ("version from the future", "GC", {"conf": {"cniVersion": "2.0.0"}},
     1, "plugin version does not allow GC", None),
    ("version from the future", "STATUS", {"conf": {"cniVersion": "1.2.0"}},
     1, "plugin version does not allow STATUS", None),
]


@suite.spread
class Conformance(suite.NodeTest):
    def setUp(self):
        super().setUp()
        self.box = self.pod()

    def require(self, plugin):
        if reason := provide(plugin):
            self.skipTest(reason)
        give_device(plugin)
        give_interface(plugin, self.box)

    def call(self, plugin, verb, conf, **options):
        return cni(plugin, verb, conf, netns=self.box.path, ifname=CONFIGS[plugin].ifname,
                   **options)

    @suite.cases(MATRIX)
    def every_verb_of(self, row):
        plugin, version = row
        self.require(plugin)
        conf = config(plugin, version)
        added = self.call(plugin, "ADD", conf)
        result = self.assert_ok(added)
        self.check_shape(plugin, version, result)
        self.assertFalse(added.stdout.endswith("\n"), "a result ends without a newline")

        check = self.call(plugin, "CHECK", conf | {"prevResult": result})
        if number(version) < (0, 4, 0):
            self.assert_error(check, 1, "config version does not allow CHECK")
        else:
            self.assertEqual((check.status, check.stdout), (0, ""), str(check))

        for verb, more in (("STATUS", {}), ("GC", GC)):
            outcome = self.call(plugin, verb, conf | more)
            if number(version) < (1, 1, 0):
                error = self.assert_error(outcome, 1, f"config version does not allow {verb}")
                self.assertEqual(error["cniVersion"], version)
            else:
                self.assertEqual((outcome.status, outcome.stdout), (0, ""), str(outcome))

        more = {"prevResult": result} if number(version) >= (0, 4, 0) else {}
        removed = self.call(plugin, "DEL", conf | more)
        self.assertEqual((removed.status, removed.stdout), (0, ""), str(removed))

    def check_shape(self, plugin, version, result):
        """The keys and values that the family of the version prescribes."""
        self.assertEqual(result["cniVersion"], version)
        if number(version) < (0, 3, 0):
            return self.check_old_shape(plugin, result)
        known = {"cniVersion", "interfaces", "ips", "routes", "dns"}
        self.assertLessEqual(result.keys(), known)
        for one in result.get("interfaces", []):
            keys = {"name", "mac", "sandbox"}
            self.assertLessEqual(one.keys(), keys | {"mtu", "socketPath", "pciID"}
                                 if number(version) >= (1, 0, 0) else keys)
        for one in result["ips"]:
            keys = {"address", "gateway", "interface"}
            family = "6" if ":" in one["address"] else "4"
            if number(version) < (1, 0, 0):
                self.assertEqual(one["version"], family)
                keys |= {"version"}
            self.assertLessEqual(one.keys(), keys)
        if plugin == "loopback":
            self.assertEqual(result["interfaces"],
                             [{"name": "lo", "mac": "00:00:00:00:00:00",
                               "sandbox": self.box.path}])
            self.assertEqual({one["address"] for one in result["ips"]}, {"127.0.0.1/8", "::1/128"})
        elif plugin == "bridge":
            names = [one["name"] for one in result["interfaces"]]
            self.assertEqual(names[0], "cni0")
            self.assertRegex(names[1], r"^veth[0-9a-f]{8}$")
            self.assertEqual(names[2], "eth0")
            self.assertEqual([one.get("sandbox") for one in result["interfaces"]],
                             [None, None, self.box.path])
            self.assertEqual(result["ips"][0]["interface"], 2)
            self.assertEqual(result["dns"], {"nameservers": ["10.1.2.53"]})
        elif CONFIGS[plugin].chained:
            self.assertEqual(result, previous(version), "passed on as it came")
        elif not is_ipam(plugin):
            inside = result["interfaces"][result["ips"][0]["interface"]]
            self.assertEqual((inside["name"], inside["sandbox"]), ("eth0", self.box.path))
            self.assertRegex(inside["mac"], r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$")
        else:
            self.assertNotIn("interfaces", result)
            self.assertNotIn("interface", result["ips"][0])
            self.assertEqual(result["routes"], [{"dst": "0.0.0.0/0", "gw": "10.1.2.1"}])
        if number(version) < (1, 0, 0):
            self.assertIn("dns", result, "always there before 1.0.0, empty or not")

    def check_old_shape(self, plugin, result):
        self.assertLessEqual(result.keys(), {"cniVersion", "ip4", "ip6", "dns"})
        self.assertIn("dns", result)
        if plugin == "loopback":
            self.assertEqual(result["ip4"], {"ip": "127.0.0.1/8"})
            self.assertEqual(result["ip6"], {"ip": "::1/128"})
        else:
            given = plugin == "static" or CONFIGS[plugin].chained
            address = "10.1.2.9/24" if given else "10.1.2.2/24"
            self.assertEqual(result["ip4"]["ip"], address)
            self.assertEqual(result["ip4"]["gateway"], "10.1.2.1")
            self.assertEqual(result["ip4"]["routes"][0]["dst"], "0.0.0.0/0")

    @suite.cases(EACH)
    def without_a_version_it_is_0_1_0_for(self, plugin):
        self.require(plugin)
        conf = config(plugin, "")
        for conf in (conf, {k: v for k, v in conf.items() if k != "cniVersion"}):
            result = self.assert_ok(self.call(plugin, "ADD", conf))
            self.assertEqual(result["cniVersion"], "0.1.0")
            self.check_old_shape(plugin, result)
            self.assert_ok(self.call(plugin, "DEL", conf))
            self.assert_ok(self.call("host-local", "DEL", config("host-local", "1.0.0")))
            os.system("rm -rf /var/lib/cni/networks")  # the second round starts at .2 again

    @suite.cases(EACH)
    def VERSION_needs_nothing_and_reads_nothing(self, plugin):
        none = {name: None for name in ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS",
                                        "CNI_PATH")}
        outcome = cni(plugin, "VERSION", "this is not JSON", env=none)
        self.assert_ok(outcome)
        self.assertEqual(outcome.json, {"cniVersion": "1.1.0", "supportedVersions": list(VERSIONS)})
        self.assertTrue(outcome.stdout.endswith("}\n") and outcome.stdout.count("\n") == 1,
                        "one line")

    @suite.cases(EACH)
    def without_a_verb_it_says_what_it_is(self, plugin):
        for value in (None, ""):
            outcome = cni(plugin, "ADD", "", env={"CNI_COMMAND": value})
            self.assertEqual((outcome.status, outcome.stdout), (0, ""), str(outcome))
            lines = outcome.stderr.splitlines()
            self.assertEqual(len(lines), 2, outcome.stderr)
            self.assertTrue(lines[0].startswith(f"CNI {plugin} plugin "), lines[0])
            self.assertEqual(lines[1],
                             "CNI protocol versions supported: " + ", ".join(VERSIONS))

    @suite.cases([(f"{plugin} {row[1]} {row[0]}", (plugin, row))
                  for plugin in PLUGINS for row in ERRORS])
    def error(self, case):
        plugin, (_, verb, change, code, msg, details) = case
        conf = config(plugin, "1.1.0", **(GC if verb == "GC" else {}))
        conf |= change.get("conf", {})
        text = change.get("text", json.dumps(conf))
        outcome = self.call(plugin, verb, text, env=change.get("env"))
        error = self.assert_error(outcome, code)
        if msg is not None:
            self.assertEqual(error["msg"], msg)
        if details is not None:
            self.assertEqual(error.get("details"), details)
        self.assertLessEqual(error.keys(), {"cniVersion", "code", "msg", "details"})

    @suite.cases([(f"{row[1]} {row[0]}", row) for row in ERRORS
                  if row[1] in ("ADD", "CHECK", "DEL") and "future" not in row[0]
                  and "wins over missing" not in row[0]])  # newer than 1.1.1
    def the_reference_has_the_error(self, row):
        """What the table above demands is not our invention."""
        if not has_reference():
            self.skipTest("the Go plugins are not installed")
        _, verb, change, code, msg, _ = row
        conf = config("bridge", "1.0.0") | change.get("conf", {})
        outcome = self.call("bridge", verb, change.get("text", json.dumps(conf)),
                            env=change.get("env"), directory=REFERENCE)
        self.assertEqual((outcome.status, outcome.json["code"]), (1, code), str(outcome))
        if msg is not None:
            self.assertEqual(outcome.json["msg"], msg)

    @suite.cases(EACH)
    def an_error_carries_the_version_of_the_config(self, plugin):
        conf = config(plugin, "0.4.0", name="a/b")
        self.assertEqual(self.assert_error(self.call(plugin, "ADD", conf))["cniVersion"], "0.4.0")

    @suite.cases(EACH)
    def an_unreadable_stdin_is_an_io_failure(self, plugin):
        outcome = self.call(plugin, "ADD", "", wrap=("sh", "-c", 'exec "$0" </'))
        self.assert_error(outcome, 5)

    @suite.cases([(f"{plugin} {verb}", (plugin, verb))
                  for plugin in PLUGINS for verb in ("ADD", "DEL")])
    def the_node_is_no_container(self, row):
        plugin, verb = row
        outcome = cni(plugin, verb, config(plugin, "1.0.0"), netns=self.node.netns,
                      ifname=CONFIGS[plugin].ifname)
        self.assert_error(outcome, 8,
                          "plugin's netns and netns from CNI_NETNS should not be the same")

    @suite.cases(EACH)
    def keys_match_in_any_case_and_unknown_ones_are_passed_over(self, plugin):
        self.require(plugin)
        conf = config(plugin, "1.0.0")
        if "ipam" in conf:
            conf["IPAM"] = conf.pop("ipam")
        if "runtimeConfig" in conf:
            conf["RUNTIMECONFIG"] = {"portmappings": [
                {key.upper(): value for key, value in entry.items()}
                for entry in conf.pop("runtimeConfig")["portMappings"]]}
        if plugin == "bandwidth":
            conf = {key.upper() if "gress" in key else key: value for key, value in conf.items()}
        conf |= {"capabilities": {"mac": True}, "cni.dev/future": {"a": [1]}, "unheard-of": 0}
        self.assert_ok(self.call(plugin, "ADD", conf, documented=False))
        self.assertEqual(self.ports(), {"8080"} if plugin == "portmap" else set())
        limited = "qdisc tbf 1:" in self.box.run("tc", "qdisc", "show", "dev", "lo")
        self.assertEqual(limited, plugin == "bandwidth")

    def test_gc_removes_what_is_not_listed_and_keeps_what_is(self):
        other = self.pod()
        conf = config("bridge", "1.1.0", ipMasq=True)
        self.assert_ok(self.call("bridge", "ADD", conf))
        self.assert_ok(cni("bridge", "ADD", conf, netns=other.path, container="pod2"))
        keep = {"cni.dev/valid-attachments": [{"containerID": "pod2", "ifname": "eth0"}]}
        self.assert_ok(self.call("bridge", "GC", conf | keep))
        self.assertEqual(leases(), ["10.1.2.3"])
        ruleset = os.popen("nft list ruleset").read()
        self.assertIn("10.1.2.3", ruleset)
        self.assertNotIn("10.1.2.2", ruleset)
        again = self.assert_ok(cni("host-local", "CHECK", config("host-local", "1.1.0"),
                                   netns=other.path, container="pod2"))
        self.assertIsNone(again)

    @suite.cases([(backend, backend) for backend in ("nftables", "iptables")])
    def portmap_gc_removes_what_is_not_listed_and_keeps_what_is(self, backend):
        if backend == "iptables" and have("iptables-restore", "iptables-save"):
            self.skipTest("iptables is not installed")
        conf = config("portmap", "1.1.0", backend=backend)
        self.assert_ok(self.call("portmap", "ADD", conf))
        self.assert_ok(cni("portmap", "ADD", self.second_port(conf), netns=self.pod().path,
                           container="pod2"))
        self.assertEqual(self.ports(), {"8080", "8081"})
        keep = {"cni.dev/valid-attachments": [{"containerID": "pod2", "ifname": "eth0"}]}
        self.assert_ok(self.call("portmap", "GC", conf | keep | {"name": "net2"}))
        self.assertEqual(self.ports(), {"8080", "8081"}, "of another network")
        self.assert_ok(self.call("portmap", "GC", conf | keep))
        self.assertEqual(self.ports(), {"8081"})
        self.assert_ok(self.call("portmap", "GC", conf | GC))
        self.assertEqual(self.ports(), set())

    @staticmethod
    def second_port(conf):
        mappings = [{"hostPort": 8081, "containerPort": 80, "protocol": "tcp"}]
        return conf | {"prevResult": previous("1.1.0", "10.1.2.10"),
                       "runtimeConfig": {"portMappings": mappings}}

    @staticmethod
    def ports():
        """The host ports that lead to a pod."""
        found = set(re.findall(r"tcp \. (\d+) (?:comment \"[^\"]*\" )?: 10\.1\.2\.",
                               run("nft", "list", "ruleset")))
        if not have("iptables-save"):
            found |= set(re.findall(r"--dport (\d+) -j DNAT", run("iptables-save", "-t", "nat")))
        return found

    def test_gc_reads_the_list_under_its_historical_name_too(self):
        conf = config("host-local", "1.1.0")
        self.assert_ok(self.call("host-local", "ADD", conf))
        self.assert_ok(self.call("host-local", "GC", conf | {"cni.dev/attachments": []}))
        self.assertEqual(leases(), [])

    @suite.cases([(f"{plugin}, {what}", (plugin, more)) for plugin in ("host-local", "portmap")
                  for what, more in (
                      ("a list of numbers", {"cni.dev/valid-attachments": [1]}),
                      ("no list but an object", {"cni.dev/valid-attachments": {}}),
                      ("an entry without ifname",
                       {"cni.dev/valid-attachments": [{"containerID": "pod2"}]}))])
    def gc_with_a_broken_list_removes_nothing(self, row):
        plugin, more = row
        conf = config(plugin, "1.1.0")
        self.assert_ok(self.call(plugin, "ADD", conf))
        self.assert_error(self.call(plugin, "GC", conf | more), 7, "cni.dev/valid-attachments")
        if plugin == "portmap":
            self.assertEqual(self.ports(), {"8080"})
        else:
            self.assertEqual(leases(), ["10.1.2.2"])

    @suite.cases(EACH)
    def gc_without_a_list_removes_nothing_and_succeeds(self, plugin):
        """As the reference's cnitool calls it."""
        self.require(plugin)
        conf = config(plugin, "1.1.0")
        self.assert_ok(self.call(plugin, "ADD", conf))
        before = snapshot(), pod_snapshot(self.box)
        outcome = self.call(plugin, "GC", conf | {"cni.dev/other": []})
        self.assertEqual((outcome.status, outcome.stdout), (0, ""), str(outcome))
        self.assert_same(before[0])
        self.assert_same(before[1], pod_snapshot(self.box))

    @suite.cases([(f"{plugin} {verb}", (plugin, verb, msg)) for plugin, verb, msg in (
        ("portmap", "ADD", "must be called as chained plugin"),
        ("portmap", "CHECK", "Required prevResult missing"),
        ("bandwidth", "ADD", "must be called as chained plugin"),
        ("bandwidth", "CHECK", "must be called as a chained plugin"))])
    def a_previous_result_is_needed_for(self, row):
        plugin, verb, msg = row
        conf = config(plugin, "1.0.0")
        del conf["prevResult"]
        self.assert_error(self.call(plugin, verb, conf), 7, msg)

    def test_status_is_good_while_a_range_is_used_up(self):
        """Else one network that is full for a while would make the node NotReady."""
        conf = config("host-local", "1.1.0")
        conf["ipam"]["ranges"] = [[{"subnet": "10.1.2.0/30"}]]
        self.assert_ok(self.call("host-local", "STATUS", conf))
        self.assert_ok(self.call("host-local", "ADD", conf))
        through = config("bridge", "1.1.0", ipam=conf["ipam"])
        for status in (self.call("host-local", "STATUS", conf), self.call("bridge", "STATUS", through)):
            self.assertEqual((status.status, status.stdout), (0, ""), str(status))
            self.assertIn("no IP addresses available in range set: 10.1.2.1-10.1.2.2", status.stderr)

    def test_status_does_not_ask_for_ranges_that_come_with_the_pod(self):
        conf = config("host-local", "1.1.0", capabilities={"ipRanges": True})
        ranges = conf["ipam"].pop("ranges")
        self.assert_ok(self.call("host-local", "ADD", conf | {"runtimeConfig": {"ipRanges": ranges}}))
        self.assert_ok(self.call("host-local", "STATUS", conf))
        through = config("bridge", "1.1.0", ipam=conf["ipam"], capabilities={"ipRanges": True})
        self.assert_ok(self.call("bridge", "STATUS", through))
        del conf["capabilities"]  # then none will come
        self.assert_error(self.call("host-local", "STATUS", conf), 7, "no IP ranges")

    def test_status_says_that_the_ipam_plugin_is_missing(self):
        conf = config("bridge", "1.1.0", ipam={"type": "absent"})
        self.assertIn("absent", self.assert_error(self.call("bridge", "STATUS", conf))["msg"])


def leases():
    """The addresses that host-local has given out in the network net1."""
    return sorted(name for name in os.listdir("/var/lib/cni/networks/net1") if name[0].isdigit())


if __name__ == "__main__":
    suite.main()
