#!/usr/bin/env python3
"""Which capabilities(7) each verb needs: with these alone it does its work, and without any one of
them it says which, before it has changed anything. What is established here is the table of
docs/security.md.

    capabilities_test.py --table    # writes the table anew
"""

import contextlib
import dataclasses
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import cnitool as tool  # noqa: E402
from support import hostport, ledger, rows, suite  # noqa: E402
from support.configs import SUBNET_ENV, give_device, provide  # noqa: E402
from support.guest import has_qdisc  # noqa: E402
from support.plugin import ROOT, cni  # noqa: E402
from support.snapshot import is_flannels_state, left_by_design, pod_snapshot, snapshot  # noqa: E402
from support.world import run, wait_for  # noqa: E402

PAGE = os.path.join(ROOT, "docs/security.md")
VERBS = ("ADD", "DEL", "CHECK", "GC", "STATUS", "REPAIR")
NAMES = {"N": "CAP_NET_ADMIN", "S": "CAP_SYS_ADMIN", "R": "CAP_NET_RAW"}
#: What a runtime of the host has besides; none of it may be asked for.
ROOTS = ("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "KILL", "SETUID", "SETGID", "SETPCAP",
         "SYS_PTRACE", "SYS_RESOURCE", "SYS_MODULE", "MKNOD", "BPF", "PERFMON")

#: For strace, which counts the calls of each thread: all are then the first one's.
ONE_THREAD = "inject=clone,clone3:error=EAGAIN"

RANGES = [[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1:2::/64"}]]
IPAM = {"type": "host-local", "ranges": RANGES}
BRIDGE = {"isGateway": True, "ipMasq": True, "ipam": IPAM}
STATIC = {"ipam": {"type": "static", "addresses": [{"address": "10.1.2.3/24"}]}}
LAYER_3 = {"isGateway": True, "ipam": IPAM}
SLOTS = {"type": "host-local", "ranges": [[{"subnet": "10.60.0.0/24"}]]}
PORTS = {"runtimeConfig": {"portMappings": [hostport.mapping(8080, 80)]}}
LIMITS = {"ingressRate": 8_000_000, "ingressBurst": 80_000, "egressRate": 8_000_000,
          "egressBurst": 80_000}


@dataclasses.dataclass(frozen=True)
class Row:
    """A plugin with a config, and what each verb needs: letters of NAMES. damage is what REPAIR
    mends, VETH in it the node's end of the pod's interface; None: the plugin has no REPAIR."""

    title: str
    plugin: str
    conf: dict
    needs: dict
    damage: str = None
    behind: dict = None   # the config of a bridge that comes before it
    variant: str = None   # of iptables
    qdisc: str = None     # which the kernel must know
    slot: list = None     # the plugins of a device that the ledger has for the pod

    def __hash__(self):
        return hash(self.title)


def needs(*letters):
    return dict(zip(VERBS, letters))


ROWS = [
    Row("loopback", "loopback", {}, needs("NS", "NS", "S", "", "NS", "NS"),
        "ip -n pod1 link set lo down"),
    Row("host-local", "host-local", {"ipam": IPAM}, needs("", "", "", "", "")),
    Row("cluster-pool", "cluster-pool", {"ipam": {"type": "cluster-pool", "subnet": "10.1.2.0/24", "waitForBlock": 0}},
        needs("", "", "", "", "")),
    Row("static", "static", STATIC, needs("", "", "", "", "")),
    Row("dhcp", "dhcp", {"ipam": {"type": "dhcp"}}, needs("", "", "", "", "")),
    Row("dummy", "dummy", {"ipam": IPAM}, needs("NS", "NS", "S", "NS", "NS", "NS"), "true"),
    Row("vlan", "vlan", {"master": "eth1", "vlanId": 5, "ipam": IPAM}, needs("NS", "NS", "S", "NS", "NS", "NS"), "true"),
    Row("bridge, nothing but layer 2", "bridge", {}, needs("NS", "NS", "S", "N", "NS", "NS"),
        "ip link set cni0 down"),
    Row("bridge with `ipMasq`", "bridge", BRIDGE, needs("NS", "NS", "NS", "N", "NS", "NS"),
        "nft delete table inet patchbay_masquerade"),
    Row("bridge with `macspoofchk`", "bridge", {"macspoofchk": True} | STATIC,
        needs("NS", "NS", "NS", "N", "NS", "NS"), "nft flush chain bridge nat PREROUTING"),
    Row("bridge with `ipMasq` in iptables-nft", "bridge", BRIDGE | {"ipMasqBackend": "iptables"},
        needs("NS", "NS", "NS", "N", "NS", "NS"), "iptables -t nat -F POSTROUTING", variant="nft"),
    Row("bridge with `ipMasq` in iptables-legacy", "bridge", BRIDGE | {"ipMasqBackend": "iptables"},
        needs("NSR", "NSR", "NSR", "NR", "NSR", "NSR"), "iptables -t nat -F POSTROUTING",
        variant="legacy"),
    Row("ptp", "ptp", {"ipam": IPAM}, needs("NS", "NS", "S", "N", "NS", "NS"),
        "sysctl -qw net.ipv4.ip_forward=0"),
    Row("ptp with `ipMasq`", "ptp", {"ipMasq": True, "ipam": IPAM},
        needs("NS", "NS", "NS", "N", "NS", "NS"), "nft delete table inet patchbay_masquerade"),
    Row("ptp with `ipMasq` in iptables-legacy", "ptp",
        {"ipMasq": True, "ipMasqBackend": "iptables", "ipam": IPAM},
        needs("NSR", "NSR", "NSR", "NR", "NSR", "NSR"), "iptables -t nat -F POSTROUTING",
        variant="legacy"),
    Row("flannel, for bridge", "flannel", {"subnetFile": SUBNET_ENV}, needs("NS", "NS", "S", "N", "NS", "NS"),
        "ip link set cni0 down"),
    Row("ipvlan", "ipvlan", {"master": "eth1", "ipam": IPAM}, needs("NS", "NS", "S", "NS", "NS", "NS"), "true"),
    Row("macvlan", "macvlan", {"master": "eth1", "ipam": IPAM}, needs("NS", "NS", "S", "NS", "NS", "NS"), "true"),
    Row("macvlan with `enabledad`", "macvlan", {"master": "eth1", "enabledad": True, "ipam": IPAM},
        needs("NSR", "NS", "S", "NS", "NSR", "NS"), "true"),
    Row("host-device", "host-device", {"device": "device0", "ipam": IPAM}, needs("NS", "NS", "S", "NS", "NS")),
    Row("devices, for a pod without one", "devices", {}, needs("", "", "", "", "NS"), behind=LAYER_3),
    Row("devices, for a macvlan slot", "devices", {}, needs("NS", "NS", "S", "NS", "NS", "NS"), "true", behind=LAYER_3,
        slot=[{"type": "macvlan", "master": "eth1", "ipam": SLOTS}]),
    Row("portmap", "portmap", PORTS | {"backend": "nftables"},
        needs("N", "N", "N", "N", "N", "N"), "nft flush chain ip patchbay_hostport prerouting",
        behind=BRIDGE),
    Row("portmap in iptables-nft", "portmap", PORTS | {"backend": "iptables"},
        needs("N", "N", "N", "N", "N", "N"), "iptables -t nat -F CNI-HOSTPORT-DNAT", behind=BRIDGE,
        variant="nft"),
    Row("portmap in iptables-legacy", "portmap", PORTS | {"backend": "iptables"},
        needs("NR", "NR", "NR", "NR", "NR", "NR"), "iptables -t nat -F CNI-HOSTPORT-DNAT",
        behind=BRIDGE, variant="legacy"),
    Row("firewall", "firewall", {"backend": "nftables", "ingressPolicy": "isolated"},
        needs("N", "N", "N", "N", "N", "N"), "nft flush set inet patchbay_firewall pods4", behind=BRIDGE),
    Row("firewall in iptables-nft", "firewall", {"backend": "iptables", "ingressPolicy": "same-bridge"},
        needs("N", "N", "N", "N", "N", "N"), "iptables -F CNI-FORWARD", behind=BRIDGE, variant="nft"),
    Row("firewall in iptables-legacy", "firewall", {"backend": "iptables", "ingressPolicy": "same-bridge"},
        needs("NR", "NR", "NR", "NR", "NR", "NR"), "iptables -F CNI-FORWARD", behind=BRIDGE, variant="legacy"),
    *(Row(f"bandwidth with `egressMode` {mode}", "bandwidth", LIMITS | {"egressMode": mode},
          needs("NS", "NS", "S", "N", "NS", "NS"), "tc qdisc del dev VETH root",
          behind={"isGateway": True, "ipam": IPAM}, qdisc="fq" if mode == "edt" else None)
      for mode in ("ifb", "pod", "edt")),
    Row("sbr", "sbr", {}, needs("NS", "NS", "S", "NS", "NS", "NS"), "ip -n pod1 rule del from 10.1.2.2",
        behind={"isGateway": True, "ipam": IPAM}),
    Row("vrf", "vrf", {"vrfname": "blue"}, needs("NS", "NS", "S", "NS", "NS", "NS"),
        "ip -n pod1 link set eth0 nomaster", behind={"isGateway": True, "ipam": IPAM}),
    Row("tuning", "tuning", {"mtu": 1400, "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"}},
        needs("NS", "NS", "S", "NS", "NS", "NS"), "ip -n pod1 link set eth0 mtu 1500",
        behind={"isGateway": True, "ipam": IPAM}),
    Row("tap", "tap", {"owner": 107, "group": 107, "ipam": IPAM}, needs("NS", "NS", "S", "NS", "NS", "NS"), "true"),
]

CHAIN = {"cniVersion": "1.1.0", "name": "net1", "plugins": [
    {"type": "loopback"}, {"type": "bridge"} | BRIDGE,
    {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": True}},
    {"type": "bandwidth"} | LIMITS]}
#: Of cnitool with that chain, by its own words.
TOOL = {"add": "NS", "del": "NS", "check": "NS", "gc": "NS", "status": "NS", "repair": "NS",
        "list": "", "show": "", "validate": ""}


def limited(letters, keep=()):
    """A command that runs what follows as root with these capabilities alone."""
    names = [NAMES[letter].removeprefix("CAP_") for letter in letters] + list(keep)
    return ("setpriv", "--inh-caps=-all",
            "--bounding-set=" + ",".join(["-all", *(f"+{name.lower()}" for name in names)]))


def all_but(letter):
    """What root usually has, without one."""
    return limited([one for one in NAMES if one != letter], ROOTS)


class Stage(suite.NodeTest):
    """A node with a pod that is ready for a verb."""

    def prepare(self, row, verb):
        """The config for the verb, everything before it being done by one who may do everything."""
        if reason := provide(row.plugin):
            self.skipTest(reason)
        if row.variant and (reason := hostport.select_iptables(row.variant)):
            self.skipTest(reason)
        if row.qdisc and not has_qdisc(row.qdisc):
            self.skipTest(f"this kernel has no {row.qdisc}; scripts/vm has one that does")
        if reason := provide(row.plugin):
            self.skipTest(reason)
        self.one = self.pod()
        give_device(row.plugin)
        if row.slot:
            if reason := provide("macvlan"):
                self.skipTest(reason)
            ledger.put("slot", ledger.SLOT, row.slot, pod=ledger.pod_of("web-0"))
            self.addCleanup(ledger.Agent().stop)
        conf = {"cniVersion": "1.1.0", "name": "net1", "type": row.plugin} | row.conf
        if row.behind is not None:
            before = {"cniVersion": "1.1.0", "name": "net1", "type": "bridge"} | row.behind
            conf["prevResult"] = self.assert_ok(self.call("ADD", "bridge", before))
        if verb not in ("ADD", "STATUS"):
            self.empty = snapshot()
            result = self.assert_ok(self.call("ADD", row.plugin, conf))
            if verb != "GC":
                conf["prevResult"] = result
        if verb == "REPAIR":
            run("sh", "-ec", row.damage.replace("VETH", self.veth()) if "VETH" in row.damage
                else row.damage)
        return conf | ({"cni.dev/valid-attachments": []} if verb == "GC" else {})

    @staticmethod
    def veth():
        return re.search(r"^\d+: (veth\w+)", run("ip", "link", "show", "master", "cni0"), re.M)[1]

    def call(self, verb, plugin, conf, wrap=()):
        return cni(plugin, verb, conf, netns=self.one.path, wrap=wrap, args=ledger.args_of(ledger.pod_of("web-0")))

    def assert_worked(self, row, verb, conf, outcome):
        """What the verb is for is done, says someone who may look everywhere."""
        result = self.assert_ok(outcome)
        if verb in ("ADD", "REPAIR"):
            result = result["result"] if verb == "REPAIR" else result
            self.assert_ok(self.call("CHECK", row.plugin, conf | {"prevResult": result}))
        if verb in ("DEL", "GC"):
            # What is at the pod's interface goes with it; GC of bandwidth removes its devices.
            self.assert_same(self.empty, ignore=lambda place: left_by_design(place) or (
                row.plugin == "bandwidth" and verb == "GC" and "veth" in place))
        if verb == "DEL":
            self.one.remove()

    def assert_refused(self, outcome, name, node, pod):
        error = self.assert_error(outcome)
        said = error["msg"] + " " + error.get("details", "")
        self.assertIn(name, said)
        for other in set(NAMES.values()) - {name}:
            self.assertNotIn(other, said, "it is there")
        self.assert_same(node, ignore=is_flannels_state, what=f"changed on the node without {name}:")
        self.assert_same(pod, pod_snapshot(self.one), what=f"changed in the pod without {name}:")
        return error


EACH = [(f"{verb} of {row.title}", (row, verb)) for row in ROWS for verb in row.needs]


@suite.spread
class Plugins(Stage):
    @suite.cases(EACH)
    def with_these_alone(self, case):
        row, verb = case
        conf = self.prepare(row, verb)
        outcome = self.call(verb, row.plugin, conf, limited(row.needs[verb]))
        self.assert_worked(row, verb, conf, outcome)

    @suite.cases(rows.sampled([(f"{NAMES[letter]}, {name}", (*case, letter)) for name, case in EACH
                                for letter in case[0].needs[case[1]]]))
    def without(self, case):
        row, verb, letter = case
        conf = self.prepare(row, verb)
        node, pod = snapshot(), pod_snapshot(self.one)
        outcome = self.call(verb, row.plugin, conf, all_but(letter))
        error = self.assert_refused(outcome, NAMES[letter], node, pod)
        if verb == "STATUS":
            self.assertEqual(error["code"], 50, "the plugin is not available")
        # Nothing is broken by it either.
        self.assert_worked(row, verb, conf, self.call(verb, row.plugin, conf))

    def test_a_pod_that_keeps_its_interface_keeps_its_addresses(self):
        """What is left of a DEL or GC that could do only a part must not be given to the next pod."""
        conf = {"cniVersion": "1.1.0", "name": "net1", "type": "bridge", "ipam": IPAM}
        self.one = self.pod()
        result = self.assert_ok(self.call("ADD", "bridge", conf))
        leases = "/var/lib/cni/networks/net1"
        wrong = {"DEL": {}, "GC": {"cni.dev/valid-attachments": []}}
        for verb, more in wrong.items():
            # The kernel refuses to remove the link, as injected here.
            outcome = self.call(verb, "bridge", conf | {"prevResult": result} | more, (
                "strace", "-f", "-qq", "-o", "/run/strace", "-e", ONE_THREAD, "-e",
                "inject=sendmsg:error=ENOBUFS:when=" + self.removal(verb, conf | more)))
            self.assert_error(outcome)
            self.assertIn("eth0", self.one.run("ip", "link"))
            self.assertIn("10.1.2.2", os.listdir(leases), verb)

    @contextlib.contextmanager
    def beside(self):
        """A process in the pod that may do all; CNI_NETNS is its file, to which only one may look
        who has its capabilities or CAP_SYS_PTRACE."""
        self.one = self.pod()
        with subprocess.Popen(["ip", "netns", "exec", self.one.name, "sleep", "100"]) as process:
            self.one.path = f"/proc/{process.pid}/ns/net"
            inode = os.stat(f"/run/netns/{self.one.name}").st_ino
            try:
                self.assertTrue(wait_for(lambda: os.stat(self.one.path).st_ino == inode))
                yield
            finally:
                process.kill()

    @suite.cases([("loopback", ("loopback", {})),
                  ("bandwidth", ("bandwidth", LIMITS)),
                  ("bridge, whose port has another name",
                   ("bridge", {"ipam": {"type": "static", "addresses": []}}))])
    def DEL_of_what_it_may_not_look_at_fails(self, row):
        plugin, more = row
        with self.beside():
            self.one.run("ip", "link", "set", "lo", "up")
            before = snapshot(), pod_snapshot(self.one)
            conf = {"cniVersion": "1.1.0", "name": "net1", "type": plugin} | more
            outcome = self.call("DEL", plugin, conf, limited("NS"))
            self.assert_error(outcome, None, "CAP_SYS_PTRACE): permission denied")
            self.assert_same(before[0])
            self.assert_same(before[1], pod_snapshot(self.one))

    def test_DEL_of_a_bridge_needs_no_look_at_the_pod_where_the_node_knows_the_port(self):
        before = snapshot()
        with self.beside():
            conf = {"cniVersion": "1.1.0", "name": "net1", "type": "bridge"} | BRIDGE
            self.assert_ok(self.call("ADD", "bridge", conf))
            self.assert_ok(self.call("DEL", "bridge", conf, limited("NS")))
            self.assertNotIn("eth0", self.one.run("ip", "link"))
        self.one.remove()
        self.assert_same(before, ignore=left_by_design)

    def removal(self, verb, conf):
        """Which of its sendmsg calls removes the link, seen in a run of another pod's."""
        other = self.pod()
        result = self.assert_ok(cni("bridge", "ADD", {k: v for k, v in conf.items() if "/" not in k},
                                    netns=other.path, container="other"))
        conf = conf | {"prevResult": result}
        keep = [{"containerID": "pod1", "ifname": "eth0"}]
        if verb == "GC":
            conf = conf | {"cni.dev/valid-attachments": keep}
        self.assert_ok(cni("bridge", verb, conf, netns=other.path, container="other", wrap=(
            "strace", "-f", "-qq", "-o", "/run/calls", "-e", ONE_THREAD, "-e", "trace=sendmsg")))
        with open("/run/calls", encoding="ascii") as file:
            calls = [line for line in file if "sendmsg(" in line]
        return next(str(i + 1) for i, line in enumerate(calls) if "RTM_DELLINK" in line or "nlmsg_type=0x11 " in line)


@suite.spread
class Tool(Stage):
    """cnitool, with all plugins in a chain."""

    def prepare_tool(self, word):
        tool.use(CHAIN)
        self.one = self.pod()
        self.ports = {"CAP_ARGS": PORTS["runtimeConfig"]}
        self.empty = snapshot()
        if word != "add":
            self.assert_ok(tool.cnitool("add", "net1", self.one.path, **self.ports))
        if word == "repair":
            run("nft", "flush", "ruleset")

    def words(self, word):
        return [word] + {"gc": ["net1", self.one.path, "--yes"], "status": ["net1"], "list": [], "repair": [],
                         "validate": []}.get(word, ["net1", self.one.path])

    def tool(self, word, wrap=()):
        return tool.finish(tool.start(*self.words(word), wrap=wrap, **self.ports))

    @suite.cases([(word, word) for word in TOOL])
    def with_these_alone_cnitool(self, word):
        self.prepare_tool(word)
        self.assertEqual((done := self.tool(word, limited(TOOL[word]))).status, 0, str(done))
        if word in ("add", "repair"):
            self.assertEqual((done := self.tool("check")).status, 0, str(done))
        if word in ("del", "gc"):
            self.assertEqual(tool.cache_names(), [])
            self.assert_same(self.empty, ignore=lambda place: left_by_design(place)
                             or "/results" in place or place == "file/var/lib/cni/lock")

    @suite.cases([(f"{NAMES[letter]}, cnitool {word}", (word, letter))
                  for word, letters in TOOL.items() for letter in letters])
    def without(self, case):
        word, letter = case
        self.prepare_tool(word)
        node, pod = snapshot(), pod_snapshot(self.one)
        done = self.tool(word, all_but(letter))
        self.assertNotEqual(done.status, 0, str(done))
        self.assertIn(NAMES[letter], done.stdout + done.stderr)
        # Its own notes of what it tried.
        own = ("file/var/lib/cni/results", "file/var/lib/cni/lock")
        if (word, letter) != ("gc", "S"):  # the plugins' own GC needs it not, and goes on
            self.assert_same(node, ignore=lambda place: place.startswith(own))
            self.assert_same(pod, pod_snapshot(self.one))
        self.assertEqual((done := self.tool(word)).status, 0, str(done))


def cell(letters):
    if letters is None:
        return ""
    return ", ".join(NAMES[letter].removeprefix("CAP_") for letter in letters) or "none"


def table():
    lines = ["| | " + " | ".join(VERBS) + " |", "|---" * (len(VERBS) + 1) + "|"]
    for row in ROWS:
        lines.append(f"| {row.title} | " + " | ".join(cell(row.needs.get(v)) for v in VERBS) + " |")
    lines.append("| cnitool with bridge, portmap, bandwidth and loopback | "
                 + " | ".join(cell(TOOL[verb.lower()]) for verb in VERBS) + " |")
    return "\n".join(lines)


MARKS = "<!-- capabilities -->\n", "\n<!-- /capabilities -->"


class Page(Stage):
    def test_the_table_of_the_documentation_is_what_is_tested(self):
        with open(PAGE, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text.split(MARKS[0])[1].split(MARKS[1])[0], table())


def write_page():
    with open(PAGE, encoding="utf-8") as file:
        before, rest = file.read().split(MARKS[0])
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(before + MARKS[0] + table() + MARKS[1] + rest.split(MARKS[1].strip())[1])


if __name__ == "__main__":
    if "--table" in sys.argv:
        write_page()
        sys.exit(0)
    suite.main(needs=("setpriv",))
