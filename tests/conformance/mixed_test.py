#!/usr/bin/env python3
"""A node is upgraded while pods run: what the Go plugins added, ours remove, and the reverse."""

import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import hostport, rows, suite  # noqa: E402
from support.configs import provide  # noqa: E402
from support.firewall import FirewallTest, addresses, reference_knows, rules  # noqa: E402
from support.firewall import result_of as firewall_result  # noqa: E402
from support.hostport import mapping  # noqa: E402
from support.plugin import OURS, REFERENCE, cni, has_reference  # noqa: E402
from support.portmap import STATE_FILES, PortmapTest  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run, wait_for  # noqa: E402

V4 = [{"subnet": "10.1.2.0/24"}]
V6 = [{"subnet": "fd00:1:2::/64"}]


def bridge(*ranges, **more):
    return {"type": "bridge", "isDefaultGateway": True,
            "ipam": {"type": "host-local", "ranges": list(ranges)}, **more}


def ptp(ipam, **more):
    return {"type": "ptp", "ipam": ipam | {"routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}, **more}


def on_master(plugin, *ranges, **more):
    return {"type": plugin, "master": "eth1", "ipam": {"type": "host-local", "ranges": list(ranges)}, **more}


MASQ = {"ipMasq": True, "ipMasqBackend": "iptables"}
CONFIGS = {
    "host-local alone": {"type": "host-local", "ipam": {"type": "host-local", "ranges": [V4, V6]}},
    "bridge L2": {"type": "bridge"},
    "bridge IPv4": bridge(V4),
    "bridge dual-stack": bridge(V4, V6),
    "bridge IPv4, ipMasq": bridge(V4, **MASQ),
    "bridge dual-stack, ipMasq": bridge(V4, V6, **MASQ),
    "bridge static, ipMasq": {"type": "bridge", "isGateway": True, **MASQ,
                              "ipam": {"type": "static", "addresses": [
                                  {"address": "10.1.2.9/24"}, {"address": "fd00:1:2::9/64"}]}},
    "ptp IPv4": {"type": "ptp", "ipam": {"type": "host-local", "ranges": [V4]}},
    "ptp dual-stack": ptp({"type": "host-local", "ranges": [V4, V6]}),
    "ptp dual-stack, ipMasq": ptp({"type": "host-local", "ranges": [V4, V6]}, **MASQ),
    "ptp static, ipMasq": ptp({"type": "static", "addresses": [
        {"address": "10.1.2.9/24", "gateway": "10.1.2.1"},
        {"address": "fd00:1:2::9/64", "gateway": "fd00:1:2::1"}]}, mtu=1400, **MASQ),
    "macvlan L2": {"type": "macvlan", "master": "eth1"},
    "macvlan dual-stack": on_master("macvlan", V4, V6),
    "macvlan private with mtu": on_master("macvlan", V4, mode="private", mtu=1400),
    "macvlan without master": on_master("macvlan", V4, master=""),
    "ipvlan dual-stack": on_master("ipvlan", V4, V6),
    "ipvlan l3 with mtu": on_master("ipvlan", V4, mode="l3", mtu=1400),
}
MASTER = {"type": "vlan", "master": "eth1", "vlanId": 5, "mtu": 1400}
# The CHECK of the reference does not find a route without gw, nor one of its own.
CONFIGS |= {"vlan": MASTER | {"ipam": {"type": "host-local", "ranges": [V4],
                                       "routes": [{"dst": "10.9.0.0/16", "gw": "10.1.2.1"}]}}}
WAYS = {"ours removes what the reference added": (REFERENCE, OURS),
        "the reference removes what ours added": (OURS, REFERENCE)}
CASES = [(f"{way}: {name}, {version}, {'with' if prev else 'without'} prevResult",
          (first, second, conf, version, prev))
         for way, (first, second) in WAYS.items() for name, conf in CONFIGS.items()
         for version, prev in (("1.0.0", True), ("1.0.0", False), ("0.4.0", True))]


@suite.spread
class Mixed(suite.NodeTest):
    def setUp(self):
        super().setUp()
        if not has_reference():
            self.skipTest(f"the Go plugins are not in {REFERENCE}")

    def prepare(self, conf):
        """What the plugin needs of the node."""
        if reason := provide(conf["type"]):
            self.skipTest(reason)

    def call(self, directory, command, conf, pod, **options):
        outcome = cni(conf["type"], command, conf, netns=pod.path, container=pod.name, directory=directory, **options)
        if directory == REFERENCE and "no default route interface found" in outcome.stdout:
            self.skipTest("this build of the reference does not find the default route")  # Debian 13's
        return outcome

    def add(self, directory, conf, pod, **options):
        outcome = self.call(directory, "ADD", conf, pod, **options)
        self.assertEqual(outcome.status, 0, str(outcome))
        return outcome.json

    def remove(self, directory, conf, pod, **options):
        outcome = self.call(directory, "DEL", conf, pod, **options)
        self.assertEqual((outcome.status, outcome.stdout), (0, ""), str(outcome))

    @suite.cases(rows.sampled(CASES))
    def nothing_is_left_when(self, case):
        first, second, conf, version, prev = case
        conf = {"cniVersion": version, "name": "net1", **conf}
        self.prepare(conf)
        pod = self.pod()
        before = snapshot()
        result = self.add(first, conf, pod)
        if prev and "ipam" in conf and conf["type"] != "host-local":
            checked = self.call(second, "CHECK", conf | {"prevResult": result}, pod)
            self.assertEqual(checked.status, 0, f"CHECK by the other: {checked}")
        self.remove(second, conf | ({"prevResult": result} if prev else {}), pod)
        self.assert_same(before, ignore=left_by_design)

    @suite.cases([(name, conf) for name, conf in CONFIGS.items() if "ipam" in conf
                  and conf["ipam"]["type"] == "host-local" and conf["type"] != "vlan"])
    def both_share_one_node(self, conf):
        """Pods of the two, side by side: no address twice, and each leaves the other's alone."""
        conf = {"cniVersion": "1.0.0", "name": "net1", **conf}
        self.prepare(conf)
        empty = snapshot()
        pods = [self.pod() for _ in range(4)]
        results = [self.add(directory, conf, pod)
                   for pod, directory in zip(pods, (REFERENCE, OURS, REFERENCE, OURS))]
        given = [ip["address"] for result in results for ip in result["ips"]]
        self.assertEqual(len(given), len(set(given)), str(given))
        for pod, other in zip(pods, results[1:] + results[:1]):
            if conf["type"] in ("bridge", "ptp"):
                pod.run("ping", "-c1", "-W1", "10.1.2.1")
            elif conf["type"] != "host-local" and "mode" not in conf:
                pod.run("ping", "-c1", "-W1", other["ips"][0]["address"].split("/")[0])
        for pod, directory in zip(pods, (OURS, REFERENCE, REFERENCE, OURS)):
            self.remove(directory, conf, pod)
        self.assert_same(empty, ignore=lambda place: left_by_design(place)
                         or place.startswith("file/run/netns/"))

    def test_an_attachment_of_the_reference_is_not_added_again(self):
        conf = {"cniVersion": "1.0.0", "name": "net1", **CONFIGS["host-local alone"]}
        pod = self.pod()
        self.add(REFERENCE, conf, pod)
        before = snapshot()
        self.assert_error(cni("host-local", "ADD", conf, netns=pod.path, container=pod.name))
        self.assert_same(before)

    @suite.cases([(plugin, f"{plugin} dual-stack, ipMasq") for plugin in ("bridge", "ptp")])
    def gc_removes_what_the_reference_added_and_nobody_lists(self, name):
        conf = {"cniVersion": "1.0.0", "name": "net1", **CONFIGS[name]}
        one, two = self.pod(), self.pod()
        self.add(REFERENCE, conf, one)
        kept = snapshot()
        self.add(REFERENCE, conf, two)
        two.remove()
        wait_for(lambda: run("ip", "-br", "link", "show", "type", "veth").count("\n") == 1)
        outcome = cni(conf["type"], "GC", conf | {"cniVersion": "1.1.0", "cni.dev/valid-attachments": [
            {"containerID": "pod1", "ifname": "eth0"}]})
        self.assertEqual((outcome.status, outcome.stdout), (0, ""), str(outcome))
        self.assert_same(kept, ignore=lambda place: "last_reserved_ip" in place
                         or place == "file/run/netns/pod2" or "/.owners" in place)


EVERY = [mapping(8000, 80), mapping(8001, 81, "udp"), mapping(8002, 82, "sctp")]
AT = [mapping(8000, 80), mapping(8001, 81, host_ip="192.0.2.1"), mapping(8003, 83, host_ip="::"),
      mapping(8002, 82, host_ip="2001:db8::1"), mapping(8004, 84, "udp", "0.0.0.0")]
# Name: mappings, whether the pod has IPv6 too, and what else the config has.
PORTS = {
    "one port": (EVERY[:1], False, {}),
    "dual-stack": (EVERY, True, {}),
    "40 ports": ([mapping(8000 + i, 80) for i in range(40)], True, {}),
    "at addresses": (AT, True, {}),
    "without snat": (EVERY, True, {"snat": False}),
    "markMasqBit": (EVERY, True, {"markMasqBit": 5}),
    "externalSetMarkChain": (EVERY, True, {"externalSetMarkChain": "KUBE-MARK-MASQ"}),
    "conditions": (EVERY, True, {"conditionsV4": ["!", "-s", "192.0.2.0/24"],
                                 "conditionsV6": ["-i", "eth7"]}),
}
# With ip6tables-legacy the reference loses all but the first port of a protocol, since that tool's
# -C takes one for the other: only the rows without a second one are for both.
VARIANTS = [(variant, ("iptables", variant)) for variant in ("nft", "legacy")]
PORT_CASES = [(f"{way}: {name}, iptables-{variant}, {others}, {with_prev} prevResult",
               (first, second, name, backend, others, with_prev == "with"))
              for way, (first, second) in WAYS.items() for name in PORTS
              for variant, backend in VARIANTS if variant == "nft" or name == "dual-stack"
              for others, with_prev in (("alone", "with"), ("between others", "without"))]

# What releases 1.6 to 1.9 of the reference leave in nftables, the rules of three containers mixed.
HOSTPORT_NFT = """
table FAMILY cni_hostport {
  comment "CNI portmap plugin";
  chain hostports {
    tcp dport 8000 dnat to TO1:80 comment "ONE"
    tcp dport 8000 dnat to TO2:80 comment "TWO"
    FAMILY daddr NODE udp dport 8001 dnat to TO1:81 comment "ONE"
    tcp dport 9000 dnat to TO1:80 comment "ONE1"
    tcp dport 9001 dnat to TO1:80
  }
  chain hostip_hostports {
    FAMILY daddr NODE tcp dport 8002 dnat to TO1:82 comment "ONE"
    FAMILY daddr NODE tcp dport 8002 dnat to TO2:82 comment "TWO"
  }
  chain hostports_all { jump hostip_hostports; jump hostports; }
  chain prerouting {
    type nat hook prerouting priority -100;
    fib daddr type local jump hostports_all
  }
  chain output { type nat hook output priority -100; fib daddr type local jump hostports_all; }
  chain masquerading {
    type nat hook postrouting priority 100;
    FAMILY saddr POD1 FAMILY daddr POD1 masquerade comment "ONE"
    FAMILY saddr LOOPBACK FAMILY daddr POD1 masquerade comment "ONE"
    FAMILY saddr POD2 FAMILY daddr POD2 masquerade comment "TWO"
  }
}
"""


def ruleset():
    return run("nft", "list", "ruleset").splitlines()


@suite.spread
class MixedPortmap(PortmapTest):
    def setUp(self):
        super().setUp()
        if not has_reference("portmap"):
            self.skipTest(f"the Go plugins are not in {REFERENCE}")

    def use(self, backend):
        super().use(backend)
        for tool in ("iptables", "ip6tables"):
            run(tool, "-t", "nat", "-N", "KUBE-MARK-MASQ")

    def by(self, directory, verb, one, ports, **more):
        """One run of the plugin in directory, for the pod and that row of PORTS."""
        mappings, dual, options = PORTS[ports]
        prev = hostport.result(one, one.v4, one.v6 if dual else None)
        return self.assert_ok(self.call(verb, one, mappings, {"directory": directory},
                                        **{"prevResult": prev} | options | more))

    def add_other(self, directory, ports):
        other = self.container(f"other{ports}")
        added = self.call("ADD", other, [mapping(ports + i, 80) for i in range(3)],
                          {"directory": directory})
        self.assert_ok(added)

    @suite.cases(PORT_CASES)
    def no_port_is_left_when(self, case):
        first, second, name, backend, others, prev = case
        self.use(backend)
        one = self.container()
        if others != "alone":
            self.add_other(first, 7000)
            self.add_other(second, 7010)
        before = snapshot()
        self.assertNotIn("8000", str(self.rules()))
        self.by(first, "ADD", one, name)
        if others != "alone":
            self.add_other(first, 7020)
            with_all = snapshot()
            self.by(first, "DEL", one, name)
            before = snapshot()  # with those that were added behind
            self.by(first, "ADD", one, name)
            self.assert_same(with_all)
        self.assertIn("8000", str(self.rules()))
        if first == REFERENCE:
            self.by(OURS, "CHECK", one, name)
        self.by(second, "DEL", one, name, **{} if prev else {"prevResult": None})
        by_design = left_by_design if others == "alone" else lambda place: False
        if second == REFERENCE:  # knows nothing of our record: our DEL, some time, removes that
            self.assert_same(before, ignore=lambda place: by_design(place)
                             or place.startswith("file" + STATE_FILES))
            self.by(OURS, "DEL", one, name)
        self.assert_same(before, ignore=by_design)

    @suite.cases([(f"{name}, iptables-{variant}", (name, backend)) for name in PORTS
                  for variant, backend in VARIANTS if variant == "nft" or name == "dual-stack"])
    def check_without_a_backend_finds_what_the_reference_added(self, row):
        name, backend = row
        self.use(backend)
        one = self.container()
        self.by(REFERENCE, "ADD", one, name)
        self.by(OURS, "CHECK", one, name, backend=None)

    @suite.cases([(what, (rule, says)) for what, rule, says in (
        ("a port", "-A CNI-DN-{} -p tcp --dport 8000 -j DNAT --to-destination {}:80", "DNAT"),
        ("the marking of a port", "-A CNI-DN-{} -s 127.0.0.1 -p tcp --dport 8000 "
         "-j CNI-HOSTPORT-SETMARK", "SETMARK"),
        ("the hook", "-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT",
         "PREROUTING"),
        ("the way into the pod's chain", "-F CNI-HOSTPORT-DNAT", "CNI-HOSTPORT-DNAT"),
        ("all", "-F", "CNI-"))])
    def check_of_what_the_reference_added_notices_the_loss_of(self, row):
        rule, says = row
        self.use(("iptables", "nft"))
        one = self.container()
        self.by(REFERENCE, "ADD", one, "dual-stack")
        chain = next(chain for chain, _ in self.rules() if chain.startswith("CNI-DN-"))
        words = rule.replace("-A ", "-D ").format(chain.removeprefix("CNI-DN-"), one.v4).split()
        run("iptables", "-t", "nat", *words)
        checked = self.call("CHECK", one, PORTS["dual-stack"][0])
        self.assertIn(says, self.assert_error(checked, 999)["msg"])

    def test_check_of_ours_without_its_record_demands_all_that_ours_makes(self):
        self.use(("iptables", "nft"))
        one = self.container()
        self.by(OURS, "ADD", one, "at addresses")
        shutil.rmtree(STATE_FILES)
        self.by(OURS, "CHECK", one, "at addresses", backend=None)
        run("iptables", "-D", "INPUT", "-j", "CNI-HOSTPORT-GUARD")
        self.assert_error(self.call("CHECK", one, PORTS["at addresses"][0]), 999, "GUARD")

    @suite.cases(VARIANTS)
    def gc_removes_ports_that_the_reference_added_and_nobody_lists_with_iptables(self, backend):
        self.use(backend)
        one, two, three = (self.container(name) for name in ("one", "two", "three"))
        self.by(REFERENCE, "ADD", two, "dual-stack")
        self.by(REFERENCE, "ADD", three, "conditions", name="net2")
        kept = snapshot()
        self.by(REFERENCE, "ADD", one, "at addresses")
        valid = {"version": "1.1.0", "cni.dev/valid-attachments": [
            {"containerID": two.name, "ifname": "eth0"}]}
        self.assert_ok(self.call("GC", one, **valid))
        self.assert_same(kept)
        self.assert_ok(self.call("GC", one, **valid | {"name": "net2"}))
        self.assertEqual({port for _, _, port in self.targets()}, {8000, 8001, 8002})
        self.by(OURS, "CHECK", two, "dual-stack")

    def nft_of_the_reference(self, one, two):
        """Loads what the reference has for both pods, and returns the ruleset as nft lists it."""
        words = {"ip": {"POD1": one.v4, "POD2": two.v4, "TO1": one.v4, "TO2": two.v4,
                        "NODE": "192.0.2.1", "LOOPBACK": "127.0.0.1"},
                 "ip6": {"POD1": one.v6, "POD2": two.v6, "TO1": f"[{one.v6}]",
                         "TO2": f"[{two.v6}]", "NODE": "2001:db8::1", "LOOPBACK": "::1"}}
        for family, meanings in words.items():
            text = HOSTPORT_NFT
            for word, value in (meanings | {"FAMILY": family, "ONE": one.name,
                                            "TWO": two.name}).items():
                text = text.replace(word, value)
            run("nft", "-f", "-", stdin=text)
        return ruleset()

    @suite.cases([(f"{what}, {with_prev} prevResult", (backend, with_prev == "with"))
                  for what, backend in (("no backend given", None), ("nftables", "nftables"),
                                        ("iptables", "iptables"))
                  for with_prev in ("with", "without")])
    def ours_removes_what_the_reference_has_in_nftables(self, row):
        backend, prev = row
        one, two = self.container("one"), self.container("two")
        text = self.nft_of_the_reference(one, two)
        kept = [line for line in text if f'"{one.name}"' not in line]
        self.assertEqual(len(text) - len(kept), 10)
        before = snapshot()
        other = self.container("three")
        more = {} if prev else {"prevResult": None}
        self.assert_ok(self.call("DEL", other, EVERY, backend=backend, **more))
        self.assert_same(before, ignore=lambda place: "three" in place)
        for _ in range(2):
            self.assert_ok(self.call("DEL", one, EVERY, backend=backend, **more))
            self.assertEqual(ruleset(), kept)

    @suite.cases([("no backend given", None), ("nftables", "nftables")])
    def check_accepts_what_the_reference_has_in_nftables(self, backend):
        one, two = self.container("one"), self.container("two")
        self.nft_of_the_reference(one, two)
        run("sysctl", "-qw", "net.ipv4.conf.cni0.route_localnet=1")
        ports = [mapping(8000, 80), *(mapping(*port, node) for node in ("192.0.2.1", "2001:db8::1")
                                      for port in ((8001, 81, "udp"), (8002, 82, "tcp")))]
        self.assert_ok(self.call("CHECK", one, ports, backend=backend))
        run("nft", "flush", "chain", "ip6", "cni_hostport", "masquerading")
        self.assert_error(self.call("CHECK", one, ports, backend=backend), 999, "missing hostport rules")

    def test_adds_beside_what_the_reference_has_in_nftables_leave_it(self):
        one, two = self.container("one"), self.container("two")
        text = self.nft_of_the_reference(one, two)
        three = self.container("three")
        self.add(three, mapping(8500, 80), backend=None)
        self.assertIn(("tcp", None, 8500), self.targets())
        listed = json.dumps(ruleset())
        self.assertIn("patchbay_hostport", listed)
        self.delete(three, backend=None, prevResult=None)
        self.assertEqual([line for line in ruleset() if "cni_hostport" in line],
                         [line for line in text if "cni_hostport" in line])
        self.assertTrue(set(text) <= set(ruleset()))
        self.assertNotIn(("tcp", None, 8500), self.targets())


FIREWALL_CASES = [
    (f"{way}: {policy}, iptables-{variant}", (first, second, policy, ("iptables", variant)))
    for way, (first, second) in WAYS.items() for policy in ("open", "same-bridge") for variant in ("nft", "legacy")]


@suite.spread
class MixedFirewall(FirewallTest):
    """Rules of the firewall, among those of pods of both."""

    def setUp(self):
        super().setUp()
        if not has_reference("firewall"):
            self.skipTest(f"the Go plugins are not in {REFERENCE}")
        run("ip", "link", "add", "cni0", "type", "bridge")

    def by(self, directory, verb, number, policy):
        return self.assert_ok(self.call(verb, f"pod{number}", firewall_result(number), directory=directory,
                                        ingressPolicy=policy))

    @suite.cases(FIREWALL_CASES)
    def no_rule_is_left_when(self, case):
        first, second, policy, backend = case
        self.use(backend)
        for number, directory in ((5, first), (6, second)):
            self.by(directory, "ADD", number, policy)
        before, seen = rules(), snapshot()
        self.by(first, "ADD", 2, policy)
        self.assertEqual(len(rules()), len(before) + 4)
        self.by(second, "CHECK", 2, policy)
        self.by(second, "DEL", 2, policy)
        self.assertEqual(rules(), before)
        left = [place for place in set(snapshot()) - set(seen) if not place.startswith("file/run/cni/firewall/")]
        self.assertEqual(left, [])
        for number, directory in ((5, second), (6, first)):
            self.by(directory, "DEL", number, policy)
        self.assertEqual(addresses(), [])

    @suite.cases([(way, directories) for way, directories in WAYS.items()])
    def a_second_add_by_the_other_adds_no_rule(self, directories):
        self.use(("iptables", "nft"))
        for directory in directories:
            self.by(directory, "ADD", 2, "same-bridge")
        self.assertEqual(len(rules("CNI-FORWARD")), 6)
        # The comments of rules that bridges share are other ones since 1.6. Ours tells no rules apart by them; the
        # reference does, and adds its own.
        again = directories == (OURS, REFERENCE) and reference_knows("isolated")
        self.assertEqual([len(rules(chain)) for chain in ("FORWARD", "CNI-ISOLATION-STAGE-1", "CNI-ISOLATION-STAGE-2")],
                         [6, 6, 8] if again else [4, 4, 4])

    def test_a_claim_that_the_reference_removed_does_not_harm_the_next_pod(self):
        self.use(("iptables", "nft"))
        self.by(OURS, "ADD", 2, "open")
        self.by(REFERENCE, "DEL", 2, "open")
        conf = self.conf(firewall_result(2))
        self.assert_ok(cni("firewall", "ADD", conf, container="next", netns="/run/netns/next"))
        self.assert_ok(cni("firewall", "CHECK", conf, container="next", netns="/run/netns/next"))
        self.assertEqual(len(rules("CNI-FORWARD")), 6)
        self.assert_ok(cni("firewall", "DEL", conf, container="next", netns="/run/netns/next"))
        self.assertEqual(addresses(), [])


if __name__ == "__main__":
    suite.main(needs=("iptables", "ip6tables"), per_processor=2)
