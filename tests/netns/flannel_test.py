#!/usr/bin/env python3
"""flannel: what the delegate reads on stdin, the state file, and what of an attachment is left whatever becomes of
subnet.env, the state file or the delegate. Below it is a delegate that records, or the bridge."""

import fcntl
import json
import os
import shutil
import stat
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.plugin import OURS, VERSIONS, cni, finish_all, start  # noqa: E402
from support.snapshot import left_by_design, pod_snapshot, snapshot  # noqa: E402
from support.world import run  # noqa: E402

FILE = "/run/flannel/subnet.env"
STATES = "/var/lib/cni/flannel"
RECORDS = "/run/records"
PATH = f"{RECORDS}:{OURS}"
#: A delegate that keeps its stdin and environment, and answers what the file VERB.answer says.
RECORDER = f"""#!/bin/sh
number=$(ls {RECORDS} | grep -c '\\.stdin$')
cat > {RECORDS}/$number.$CNI_COMMAND.stdin
env > {RECORDS}/$number.env
[ ! -e {RECORDS}/$CNI_COMMAND.error ] || {{ cat {RECORDS}/$CNI_COMMAND.error; exit 1; }}
[ ! -e {RECORDS}/$CNI_COMMAND.answer ] || cat {RECORDS}/$CNI_COMMAND.answer
"""
ANSWER = {"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "/run/netns/pod1"}],
          "ips": [{"address": "10.1.17.2/24", "gateway": "10.1.17.1", "interface": 0}],
          "routes": [{"dst": "10.1.0.0/16"}], "dns": {"nameservers": ["192.0.2.53"]}}

E = "FLANNEL_NETWORK=10.1.0.0/16\nFLANNEL_SUBNET=10.1.17.1/24\nFLANNEL_MTU=1472\nFLANNEL_IPMASQ=true\n"
DUAL = ("FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_IPV6_NETWORK=fd00:244::/56\n"
        "FLANNEL_IPV6_SUBNET=fd00:244:0:1::1/64\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n")
PLAIN = {"name": "mynet", "type": "flannel"}
K3S = {"name": "cbr0", "cniVersion": "1.0.0", "type": "flannel",
       "delegate": {"hairpinMode": True, "forceAddress": True, "isDefaultGateway": True}}
#: subnet.env, the config, and the delegate's stdin, which is the state file.
WORKED = [
    ("the least", (E, PLAIN, '{"ipMasq":false,"ipam":{"ranges":[[{"subnet":"10.1.17.0/24"}]],"routes":[{"dst":"10.1.0.0/16"}],'
                   '"type":"host-local"},"isGateway":true,"mtu":1472,"name":"mynet","type":"bridge"}')),
    ("k3s's", (DUAL, K3S,
               '{"cniVersion":"1.0.0","forceAddress":true,"hairpinMode":true,"ipMasq":false,"ipam":{"ranges":[[{"subnet":'
               '"10.244.1.0/24"}],[{"subnet":"fd00:244:0:1::/64"}]],"routes":[{"dst":"10.244.0.0/16"},{"dst":'
               '"fd00:244::/56"}],"type":"host-local"},"isDefaultGateway":true,"isGateway":true,"mtu":1450,"name":"cbr0",'
               '"type":"bridge"}')),
    ("networks in a list, another delegate", (
        E.replace("10.1.0.0/16", "10.1.0.0/16,192.168.5.5/16,10.1.7.7/16").replace("1472", "0").replace("true", "True"),
        PLAIN | {"cniVersion": "1.0.0", "delegate": {"type": "ipvlan", "master": "eth0"}},
        '{"cniVersion":"1.0.0","ipMasq":true,"ipam":{"ranges":[[{"subnet":"10.1.17.0/24"}]],"routes":[{"dst":"10.1.0.0/16"},'
        '{"dst":"192.168.0.0/16"}],"type":"host-local"},"master":"eth0","mtu":0,"name":"mynet","type":"ipvlan"}')),
    ("keys that are set already", (
        E, PLAIN | {"delegate": {"mtu": 1400, "isGateway": False, "ipMasq": True},
                    "ipam": {"dataDir": "/x", "ranges": [[{"subnet": "9.9.9.0/24"}]],
                             "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.17.1"}]},
                    "runtimeConfig": {"ips": ["10.1.17.9/24"]}},
        '{"ipMasq":true,"ipam":{"dataDir":"/x","ranges":[[{"subnet":"10.1.17.0/24"}]],"routes":[{"dst":"0.0.0.0/0","gw":'
        '"10.1.17.1"},{"dst":"10.1.0.0/16"}],"type":"host-local"},"isGateway":false,"mtu":1400,"name":"mynet",'
        '"runtimeConfig":{"ips":["10.1.17.9/24"]},"type":"bridge"}')),
]

PREFIX = "failed to load flannel 'subnet.env' file: "
SUFFIX = ". Check the flannel pod log for this node."
#: What is wrong with subnet.env: code, the message between PREFIX and SUFFIX, a part of the details.
BAD_FILES = [
    ("no file", (None, 11, f"open {FILE}: no such file or directory", "flanneld")),
    ("a network and no more", ("FLANNEL_NETWORK=10.1.0.0/16", 11,
                               f"{FILE} is missing FLANNEL_SUBNET, FLANNEL_IPV6_SUBNET, FLANNEL_MTU, FLANNEL_IPMASQ", "")),
    ("an MTU that is no number", (E.replace("1472", "x"), 7, 'strconv.ParseUint: parsing "x": invalid syntax',
                                  ":3: FLANNEL_MTU")),
]
#: Files that are as good as E.
GOOD_FILES = [
    ("without the last newline", E[:-1]), ("with CR", E.replace("\n", "\r\n")),
    ("with export", "export " + E.replace("\n", "\nexport ", 3)),
    ("with quotes and blanks", ' FLANNEL_NETWORK = "10.1.0.0/16" \n' + E.partition("\n")[2]),
    ("with keys twice", "FLANNEL_MTU=9000\n" + E), ("with comments", "# comment\n\nFOO=bar\n" + E),
    ("with a long line", "FOO=" + "x" * 200000 + "\n" + E)]

#: What is wrong with the config: code and message.
BAD_CONFIGS = [
    ("delegate that is no object", ({"delegate": 5}, 7, "failed to load flannel netconf file: failed to load netconf: delegate")),
    ("dataDir that is relative", ({"dataDir": "x"}, 7, "dataDir")),
    ("a delegate's type with a slash", ({"delegate": {"type": "a/b"}}, 7, "failed to delegate add: invalid plugin name: a/b")),
    ("a delegate's type that is empty", ({"delegate": {"type": ""}}, 7, "failed to delegate add: no plugin name provided")),
    ("a delegate that is not there", ({"delegate": {"type": "absent"}}, 7,
                                      f'failed to delegate add: failed to find plugin "absent" in path [{RECORDS} {OURS}]')),
]
#: Parts of the config, and a part of the delegate's stdin.
PASSED = [
    ("null as absent", ({"delegate": None, "ipam": None, "runtimeConfig": None}, None)),
    ("null in the delegate", ({"delegate": {"mtu": None, "ipMasq": None, "isGateway": None}},
                              '"isGateway":null,"mtu":null,')),
    ("NAME and IPAM", ({"delegate": {"NAME": "x", "IPAM": 1}}, '{"IPAM":1,"NAME":"x",')),
    ("numbers of a double", ({"delegate": {"a": 12345678901234567890, "b": 1e3, "c": 1.5e-7, "d": 0.000001, "e": 1e21,
                                           "f": -2.5}},
                             '"a":12345678901234567000,"b":1000,"c":1.5e-7,"d":0.000001,"e":1e+21,"f":-2.5,')),
    ("escapes", ({"delegate": {"x": "<&>\u2028\"\u00e9\x01"}}, '"x":"\\u003c\\u0026\\u003e\\u2028\\"\u00e9\\u0001"')),
    ("keys of a route", ({"ipam": {"routes": [{"dst": "10.9.0.0/16", "scope": 0, "table": 7, "priority": 3, "advmss": 2,
                                               "mtu": 1300, "other": 1}]}},
                         '"routes":[{"dst":"10.9.0.0/16","mtu":1300,"advmss":2,"priority":3,"table":7,"scope":0},{')),
    ("another IPAM plugin", ({"ipam": {"type": "static", "subnet": "1.2.3.0/24"}},
                             '"ipam":{"ranges":[[{"subnet":"10.1.17.0/24"}]],"routes":[{"dst":"10.1.0.0/16"}],'
                             '"subnet":"1.2.3.0/24","type":"static"}')),
    ("no other keys", ({"dns": {"domain": "x"}, "args": {"cni": {}}, "capabilities": {"ips": True}, "other": 1}, None)),
]


def write(text, path=FILE):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def states():
    return sorted(os.listdir(STATES)) if os.path.isdir(STATES) else []


class Stage(suite.NodeTest):
    def setUp(self):
        super().setUp()
        write(E)

    def call(self, verb, conf, **options):
        return cni("flannel", verb, conf, **({"netns": "/run/netns/pod1", "documented": False} | options))

    def record(self, *names):
        """A recording delegate in front of our plugins."""
        os.makedirs(RECORDS)
        write(json.dumps(ANSWER), f"{RECORDS}/ADD.answer")
        for name in names or ("bridge",):
            write(RECORDER, f"{RECORDS}/{name}")
            os.chmod(f"{RECORDS}/{name}", 0o755)

    def calls(self):
        """The recorded calls: (verb, stdin)."""
        names = sorted((name for name in os.listdir(RECORDS) if name.endswith(".stdin")),
                       key=lambda name: int(name.split(".")[0]))
        return [(name.split(".")[1], read(f"{RECORDS}/{name}")) for name in names]

    def refuse(self, verb):
        write(json.dumps({"cniVersion": "1.0.0", "code": 123, "msg": "a message", "details": "the details"}),
              f"{RECORDS}/{verb}.error")


@suite.spread
class Config(Stage):
    @suite.cases(WORKED)
    def the_delegate_and_the_state_file_get(self, row):
        text, conf, expected = row
        self.record("bridge", "ipvlan")
        write(text)
        self.assert_ok(self.call("ADD", conf | ({} if "cniVersion" in conf else {"cniVersion": ""}), path=PATH))
        self.assertEqual(self.calls(), [("ADD", expected)])
        self.assertEqual(read(f"{STATES}/pod1"), expected)
        self.assertEqual(stat.S_IMODE(os.stat(f"{STATES}/pod1").st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(STATES).st_mode), 0o700)
        for _ in range(2):
            self.assert_ok(self.call("DEL", conf | {"delegate": {"type": "ipvlan"}}, path=PATH))
        self.assertEqual(self.calls()[1], ("DEL", expected))
        self.assertEqual(states(), [])

    @suite.cases(BAD_FILES)
    def subnet_env_is_refused_with(self, row):
        text, code, says, details = row
        self.record()
        os.unlink(FILE)
        if text is not None:
            write(text)
        error = self.assert_error(self.call("ADD", PLAIN | {"delegate": {"name": "wrong, too"}}, path=PATH), code)
        self.assertEqual(error["msg"], PREFIX + says + SUFFIX)
        self.assertIn(details, error.get("details", ""))
        self.assertEqual((self.calls(), states()), ([], []))
        self.assert_error(self.call("STATUS", PLAIN | {"cniVersion": "1.1.0"}, path=PATH), 50, says)

    @suite.cases(GOOD_FILES)
    def subnet_env_is_read(self, text):
        self.record()
        write(text)
        self.assert_ok(self.call("ADD", PLAIN, path=PATH))
        self.assertEqual(self.calls(), [("ADD", WORKED[0][1][2])])

    @suite.cases(BAD_CONFIGS)
    def refused_before_any_change(self, row):
        more, code, says = row
        self.record()
        self.assert_error(self.call("ADD", PLAIN | more, path=PATH), code, says)
        self.assertEqual((self.calls(), states()), ([], []))
        self.assert_ok(self.call("DEL", PLAIN | more, path=PATH))

    @suite.cases(PASSED)
    def the_delegate_gets(self, row):
        more, expected = row
        self.record()
        self.assert_ok(self.call("ADD", PLAIN | more, path=PATH))
        (_, given), = self.calls()
        if expected is None:
            self.assertEqual(given, WORKED[0][1][2])
        self.assertIn(expected or "", given)
        self.assertEqual(read(f"{STATES}/pod1"), given)

    def test_the_other_places_of_file_and_state_are_used(self):
        self.record()
        os.renames(FILE, "/run/other/env")
        conf = PLAIN | {"subnetFile": "/run/other/env", "dataDir": "/run/states"}
        self.assert_ok(self.call("ADD", conf, path=PATH))
        self.assertEqual((os.listdir("/run/states"), states()), (["pod1"], []))
        self.assert_ok(self.call("DEL", conf, path=PATH))
        self.assertEqual(os.listdir("/run/states"), [])

    def test_the_delegate_of_the_first_directory_gets_the_environment_with_its_verb_alone(self):
        self.record()
        os.makedirs("/run/first/bridge")  # no regular file
        self.assert_ok(self.call("ADD", PLAIN, path=f"/run/first:{PATH}", args="A=B", env={"OTHER": "kept"}))
        self.assert_ok(self.call("DEL", PLAIN, path=f"/run/first:{PATH}"))
        for number, verb in enumerate(("ADD", "DEL")):
            env = dict(line.split("=", 1) for line in read(f"{RECORDS}/{number}.env").splitlines() if "=" in line)
            self.assertEqual((env["CNI_COMMAND"], env["CNI_CONTAINERID"], env["CNI_IFNAME"], env["CNI_PATH"]),
                             (verb, "pod1", "eth0", f"/run/first:{PATH}"))
            if verb == "ADD":
                self.assertEqual((env["CNI_ARGS"], env["OTHER"]), ("A=B", "kept"))
            self.assertEqual([key for key in env if key.startswith("PATCHBAY_") and key not in os.environ], [])

    @suite.cases([(version, version) for version in VERSIONS])
    def the_result_is_in_version(self, version):
        self.record()
        result = self.assert_ok(self.call("ADD", PLAIN | {"cniVersion": version}, path=PATH))
        self.assertEqual(result["cniVersion"], version)
        ip = result["ip4"]["ip"] if "ip4" in result else result["ips"][0]["address"]
        self.assertEqual((ip, result["dns"]), ("10.1.17.2/24", ANSWER["dns"]))


class Delegate(Stage):
    """What becomes of the state with the delegate."""

    def test_a_failing_ADD_passes_the_error_and_keeps_the_state_with_which_DEL_undoes_it(self):
        self.record()
        self.refuse("ADD")
        error = self.assert_error(self.call("ADD", PLAIN, path=PATH), 123)
        self.assertEqual((error["msg"], error["details"]), ("a message", "the details"))
        self.assertEqual(states(), ["pod1"])
        self.assert_ok(self.call("DEL", PLAIN, path=PATH))
        self.assertEqual([verb for verb, _ in self.calls()], ["ADD", "DEL"])
        self.assertEqual(states(), [])

    def test_a_failing_DEL_passes_the_error_and_keeps_the_state_for_the_next(self):
        self.record()
        self.assert_ok(self.call("ADD", PLAIN, path=PATH))
        self.refuse("DEL")
        for _ in range(2):
            error = self.assert_error(self.call("DEL", PLAIN, path=PATH), 123)
            self.assertEqual((error["msg"], error["details"]), ("a message", "the details"))
            self.assertEqual(states(), ["pod1"])
        os.unlink(f"{RECORDS}/DEL.error")
        self.assert_ok(self.call("DEL", PLAIN, path=PATH))
        self.assertEqual([verb for verb, _ in self.calls()], ["ADD", "DEL", "DEL", "DEL"])
        self.assertEqual({stdin for _, stdin in self.calls()}, {WORKED[0][1][2]})
        self.assertEqual(states(), [])

    def test_DEL_fails_as_long_as_the_delegate_is_not_there_and_keeps_the_state(self):
        self.record("other")
        conf = PLAIN | {"delegate": {"type": "other"}}
        self.assert_ok(self.call("ADD", conf, path=PATH))
        os.rename(f"{RECORDS}/other", "/run/other")
        error = self.assert_error(self.call("DEL", conf, path=PATH), 7)
        self.assertEqual(error["msg"], f'failed to find plugin "other" in path [{RECORDS} {OURS}]')
        os.rename("/run/other", f"{RECORDS}/other")
        self.assert_ok(self.call("DEL", conf, path=PATH))
        self.assertEqual(states(), [])

    def test_CHECK_reaches_the_delegate_with_the_result(self):
        self.record()
        conf = PLAIN | {"cniVersion": "1.0.0"}
        result = self.assert_ok(self.call("ADD", conf, path=PATH))
        write(E.replace("10.1.17", "10.1.18"))
        self.assert_ok(self.call("CHECK", conf | {"prevResult": result}, path=PATH))
        verb, given = self.calls()[1]
        self.assertEqual((verb, json.loads(given)), ("CHECK", json.loads(self.calls()[0][1]) | {"prevResult": result}))
        self.refuse("CHECK")
        self.assert_error(self.call("CHECK", conf | {"prevResult": result}, path=PATH), 123, "a message")
        os.unlink(f"{STATES}/pod1")
        self.assert_error(self.call("CHECK", conf | {"prevResult": result}, path=PATH), 999, "missing")

    def test_STATUS_is_50_without_the_delegate_and_else_the_delegates(self):
        self.record()
        conf = PLAIN | {"cniVersion": "1.1.0"}
        self.assert_ok(self.call("STATUS", conf, path=PATH))
        self.assertEqual([verb for verb, _ in self.calls()], ["STATUS"])
        self.refuse("STATUS")
        self.assert_error(self.call("STATUS", conf, path=PATH), 123, "a message")
        self.assert_error(self.call("STATUS", conf | {"delegate": {"type": "absent"}}, path=PATH), 50, "absent")
        self.assert_error(self.call("STATUS", conf | {"ipam": {"type": "absent"}}), msg="absent")
        self.assert_ok(self.call("STATUS", conf))

    def test_GC_asks_the_delegate_and_drops_the_states_of_its_network_that_are_not_valid(self):
        self.record()
        conf = PLAIN | {"cniVersion": "1.1.0"}
        for container in ("kept", "gone"):
            self.assert_ok(self.call("ADD", conf, path=PATH, container=container))
            self.assert_ok(self.call("ADD", conf, path=PATH, container=container, ifname="eth1"))
            self.assert_ok(self.call("ADD", conf | {"name": "other"}, path=PATH, container=container, ifname="net1"))
        valid = {"cni.dev/valid-attachments": [{"containerID": "kept", "ifname": "eth0"}]}
        before = states()
        self.refuse("GC")
        self.assert_error(self.call("GC", conf | valid, path=PATH), 123)
        self.assertEqual(states(), before)
        os.unlink(f"{RECORDS}/GC.error")
        self.assert_ok(self.call("GC", conf | valid, path=PATH))
        self.assertEqual(json.loads(self.calls()[-1][1])["cni.dev/valid-attachments"], valid["cni.dev/valid-attachments"])
        self.assertEqual(states(), ["gone:net1", "kept", "kept:net1"])


#: What happens to the state file between ADD and DEL.
SPOILT = [("empty", lambda path: write("", path)), ("gone", os.unlink), ("no JSON", lambda path: write("\0\0\0", path)),
          ("of another network", lambda path: write(read(path).replace('"cbr0"', '"other"'), path)),
          ("a directory", lambda path: (os.unlink(path), os.mkdir(path))),
          ("a symbolic link", lambda path: (os.unlink(path), os.symlink("/etc/passwd", path)))]


@suite.spread
class State(Stage):
    """With the bridge and host-local below."""

    def setUp(self):
        super().setUp()
        write(DUAL)
        self.one = self.pod()

    def add(self, conf=None, pod=None, **options):
        pod = pod or self.one
        return self.assert_ok(self.call("ADD", conf or K3S, netns=pod.path, container=pod.name, **options))

    def delete(self, conf=None, pod=None, **options):
        pod = pod or self.one
        self.assert_ok(self.call("DEL", conf or K3S, netns=pod.path, container=pod.name, **options))

    def leases(self, network="cbr0"):
        folder = f"/var/lib/cni/networks/{network}"
        return sorted(name for name in os.listdir(folder) if name[0].isdigit() or ":" in name) if os.path.isdir(folder) else []

    def assert_nothing_is_left(self):
        self.assertNotIn("eth0", self.one.run("ip", "link"))
        self.assertEqual(run("ip", "-o", "link", "show", "type", "veth"), "")
        self.assertEqual((self.leases(), states()), ([], []))

    def test_ks_list_gives_a_pod_what_flannels_does(self):
        result = self.add()
        bridge, = json.loads(run("ip", "-j", "address", "show", "cni0"))
        self.assertEqual(bridge["mtu"], 1450)
        self.assertEqual([one["local"] for one in bridge["addr_info"] if one["scope"] == "global"],
                         ["10.244.1.1", "fd00:244:0:1::1"])
        self.assertEqual([ip["address"] for ip in result["ips"]], ["10.244.1.2/24", "fd00:244:0:1::2/64"])
        self.assertEqual(result["routes"], [{"dst": "10.244.0.0/16"}, {"dst": "fd00:244::/56"},
                                            {"dst": "0.0.0.0/0", "gw": "10.244.1.1"}, {"dst": "::/0", "gw": "fd00:244:0:1::1"}])
        for family, routes in (("-4", {"default", "10.244.0.0/16"}), ("-6", {"default", "fd00:244::/56"})):
            by = {one["dst"]: one.get("gateway") for one in json.loads(self.one.run("ip", family, "-j", "route"))}
            self.assertEqual({by[dst] for dst in routes}, {"10.244.1.1" if family == "-4" else "fd00:244:0:1::1"})
        port, = json.loads(run("ip", "-j", "-d", "link", "show", "master", "cni0"))
        self.assertTrue(port["linkinfo"]["info_slave_data"]["hairpin"])
        self.assertNotIn("masquerade", run("nft", "list", "ruleset"))
        self.assertEqual(self.leases(), ["10.244.1.2", "fd00:244:0:1::2"])
        self.assertIn(" 0% packet loss", self.one.run("ping", "-c1", "-W2", "10.244.1.1"))
        self.assert_ok(self.call("CHECK", K3S | {"prevResult": result}, container="pod1"))
        self.delete()
        self.assert_nothing_is_left()

    @suite.cases(SPOILT)
    def DEL_leaves_nothing_where_the_state_file_is(self, spoil):
        for has_subnets in (True, False):
            write(DUAL)
            result = self.add()
            spoil(f"{STATES}/pod1")
            if not has_subnets:
                os.unlink(FILE)
            for _ in range(2):
                self.delete(K3S | {"prevResult": result})
            foreign = f"{STATES}/pod1"
            if os.path.isfile(foreign) and "other" in read(foreign):
                os.unlink(foreign)  # it is another attachment's
            self.assert_nothing_is_left()

    @suite.cases([("a list", "[]"), ("without a type", '{"name":"cbr0"}')])
    def DEL_fails_and_keeps_a_state_file_that_is(self, text):
        self.add()
        path = f"{STATES}/pod1"
        whole = read(path)
        write(text, path)
        call = self.call("DEL", K3S, netns=self.one.path, container=self.one.name)
        self.assert_error(call, 999, f"read '{path}': this version of patchbay does not understand it")
        self.assertEqual(read(path), text)
        write(whole, path)
        self.delete()
        self.assert_nothing_is_left()

    def test_DEL_leaves_nothing_where_the_state_file_is_torn_at_some_byte(self):
        for end in range(0, len(WORKED[1][1][2]), 9):  # StateFiles takes none of them for whole: its unit test
            self.add()
            os.truncate(f"{STATES}/pod1", end)
            self.delete()
            self.assert_nothing_is_left()

    def test_DEL_leaves_nothing_after_ADD_of_which_the_answer_was_lost(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            process = start("flannel", "ADD", K3S, netns=self.one.path, documented=False,
                            wrap=("sh", "-c", 'exec "$0" > /dev/full'))
            process.communicate(process.config)
            self.assertEqual(process.returncode, 1)
            full.flush()
        self.assert_nothing_is_left()

    @suite.cases([("the first", ("eth0", "net1")), ("the second", ("net1", "eth0"))])
    def two_attachments_of_a_container_are_undone_beginning_with(self, order):
        for second in ("cbr1", "cbr0"):  # of another network, and of the same
            confs = {"eth0": K3S, "net1": K3S | {"name": second, "delegate": {"bridge": "cni1"} if second == "cbr1" else
                                                 K3S["delegate"]}}
            for ifname, conf in confs.items():
                self.add(conf, ifname=ifname)
            self.assertEqual(states(), ["pod1", "pod1:net1"])
            for ifname in order:
                for _ in range(2):
                    self.delete(confs[ifname], ifname=ifname)
                self.assertNotIn(ifname, self.one.run("ip", "link"))
                left = [name for name in confs if name in self.one.run("ip", "link")]
                self.assertEqual(len(states()), len(left))
            self.assert_nothing_is_left()
            self.assertEqual(self.leases(second), [])

    def test_a_second_ADD_of_the_attachment_leaves_the_state_of_the_first(self):
        before = snapshot()
        self.add()
        state = read(f"{STATES}/pod1")
        self.assert_error(self.call("ADD", K3S, netns=self.one.path))
        self.assertEqual((states(), read(f"{STATES}/pod1")), (["pod1"], state))
        calls = [start("flannel", "ADD", K3S, netns=pod.path, container=pod.name, documented=False)
                 for pod in [self.pod()] * 4]
        self.assertEqual([one.ok for one in finish_all(calls)].count(True), 1)
        self.assertEqual(states(), ["pod1", "pod2"])
        for container in ("pod1", "pod2"):
            self.assert_ok(self.call("DEL", K3S, netns=f"/run/netns/{container}", container=container))
        self.assertEqual((states(), self.leases()), ([], []))
        self.assert_same({place: what for place, what in before.items() if "netns" not in place},
                         {place: what for place, what in snapshot().items() if "netns" not in place}, left_by_design)

    def test_whoever_locks_a_data_folder_that_every_user_can_open_does_not_hold_up_ADD(self):
        os.makedirs(STATES, mode=0o755)
        folder = os.open(STATES, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        fcntl.flock(folder, fcntl.LOCK_EX)
        self.add()
        self.assertEqual(stat.S_IMODE(os.stat("/run/cni/flannel/lock").st_mode), 0o600)
        self.delete()
        self.assert_nothing_is_left()

    def test_64_come_and_go_at_once(self):
        pods = [self.pod() for _ in range(64)]
        for verb in ("ADD", "DEL"):
            outcomes = finish_all([start("flannel", verb, K3S, netns=pod.path, container=pod.name, documented=False)
                                   for pod in pods])
            self.assertEqual([str(one) for one in outcomes if not one.ok], [])
            if verb == "ADD":
                self.assertEqual(len({one.json["ips"][0]["address"] for one in outcomes}), len(pods))
                self.assertEqual(states(), sorted(pod.name for pod in pods))
        self.assert_nothing_is_left()

    def test_after_a_kill_at_any_call_for_the_state_file_DEL_leaves_nothing(self):
        if not shutil.which("strace"):
            self.skipTest("there is no strace")
        for call, when in (("mkdir", 1), ("flock", 1), ("fsetxattr", 1), ("fsync", 1), ("renameat", 1), ("fsync", 2),
                           ("write", 1), ("unlinkat", 1)):
            wrap = ("strace", "-qqo", "/dev/null", "-e", f"inject={call}:signal=KILL:when={when}")
            killed = self.call("ADD", K3S, netns=self.one.path, wrap=wrap)
            self.assertEqual(killed.status, -9, f"{call}: {killed}")
            self.delete()
            self.assert_nothing_is_left()
        self.add()
        for call, when in (("flock", 1), ("unlinkat", 1), ("unlinkat", 2)):
            wrap = ("strace", "-qqo", "/dev/null", "-e", f"inject={call}:signal=KILL:when={when}")
            self.call("DEL", K3S, netns=self.one.path, wrap=wrap)
        self.delete()
        self.assert_nothing_is_left()

    def test_the_state_is_on_disk_before_its_name_and_the_name_before_the_delegate_is_called(self):
        if not shutil.which("strace"):
            self.skipTest("there is no strace")
        self.record()
        log = "/run/strace"
        self.assert_ok(self.call("ADD", K3S, path=PATH, wrap=(
            "strace", "-yqqo", log, "-e", "trace=write,fsync,fdatasync,rename,renameat,renameat2,linkat,vfork,execve")))
        lines = [line for line in read(log).splitlines() if STATES in line or line.startswith("vfork")]
        self.assertEqual([line.split("(")[0] for line in lines], ["write", "fsync", "renameat", "fsync", "vfork"])
        self.assertIn(".pod1:eth0.new", lines[1])
        self.assertIn(f"{STATES}>", lines[3])

    def test_a_changed_subnet_is_refused_in_words_or_followed_with_forceAddress(self):
        stubborn = K3S | {"delegate": {"isDefaultGateway": True}}
        self.add(stubborn)
        other = self.pod()
        write(DUAL.replace("10.244.1.1", "10.244.2.1"))
        error = self.assert_error(self.call("ADD", stubborn, netns=other.path, container="pod2"))
        self.assertIn("already has an IP address different from 10.244.2.1/24", error["msg"])
        for what in ("10.244.1.1/24", "10.244.2.1/24", FILE, "forceAddress"):
            self.assertIn(what, error["details"])
        self.assert_ok(self.call("DEL", stubborn, netns=other.path, container="pod2"))
        self.assertEqual(states(), ["pod1"])
        self.add(K3S, other)
        self.assertIn("10.244.2.1/24", run("ip", "address", "show", "cni0"))
        self.delete(K3S, other)
        self.delete(stubborn)
        self.assert_nothing_is_left()

    @suite.cases([(version, version) for version in VERSIONS])
    def a_pod_comes_and_goes_in_version(self, version):
        write(E)
        conf = K3S | {"cniVersion": version}
        before = snapshot(), pod_snapshot(self.one)
        self.assertEqual(self.add(conf)["cniVersion"], version)
        self.assertIn("10.1.17.2/24", self.one.run("ip", "address", "show", "eth0"))
        for _ in range(2):
            self.delete(conf)
        self.assert_same(before[0], ignore=lambda place: left_by_design(place) or place.startswith("file/run/flannel"))
        self.assert_same(before[1], pod_snapshot(self.one))

    def test_REPAIR_writes_the_state_again_and_repairs_the_bridge(self):
        conf = K3S | {"cniVersion": "1.1.0"}
        result = self.add(conf)
        os.unlink(f"{STATES}/pod1")
        run("ip", "link", "set", "cni0", "down")
        more = conf | {"prevResult": result}
        looked = self.assert_ok(self.call("REPAIR", more | {"patchbay/onlyLook": True}, netns=self.one.path))
        self.assertIn("missing", looked["found"][0])
        self.assertEqual(states(), [])
        repaired = self.assert_ok(self.call("REPAIR", more, netns=self.one.path))
        self.assertGreater(len(repaired["found"]), 1)
        self.assert_ok(self.call("CHECK", conf | {"prevResult": repaired["result"]}, netns=self.one.path))
        self.assertEqual(self.assert_ok(self.call("REPAIR", more, netns=self.one.path))["found"], [])
        self.delete(conf)
        self.assert_nothing_is_left()


if __name__ == "__main__":
    suite.main(needs=("ping",))
