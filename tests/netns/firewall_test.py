#!/usr/bin/env python3
"""The plugin firewall alone: what each backend accepts and keeps apart, shown by traffic, and that it comes
and goes with the pods."""

import os
import shutil
import sys
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import damage, suite  # noqa: E402
from support.firewall import (BACKENDS, TABLE, FirewallTest, addresses, bridge, elements, result_of,  # noqa: E402
                              rules)
from support.hostport import OUTSIDE, Probe, Server, Site, ask, ask_one  # noqa: E402
from support.plugin import cni, finish_all, start  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run, vlan_filtering  # noqa: E402

MANY = 64


def drop_by_default(backend):
    """What is forwarded is dropped, unless a rule accepts it."""
    if backend == "nftables":
        run("nft", f"chain inet {TABLE} forward {{ policy drop; }}")
    else:
        for tool in ("iptables", "ip6tables"):
            run(tool, "-P", "FORWARD", "DROP")


@suite.spread
class Traffic(FirewallTest):
    """Pods, and hosts outside of the node."""

    def site(self):
        self.outside = Site().outside
        Server(self, "outside", (7000,), self.outside, protocols=("tcp",))

    def serve(self, attached, name):
        Server(self, name, (80,), attached.pod, protocols=("tcp",))

    def asked(self, origin, address, port, seconds):
        """Who answered, by family."""
        return [answer.split()[0] for answer in
                ask([Probe(origin, "tcp", address[family], port) for family in (4, 6)], seconds)]

    def assert_reached(self, origin, name, address, port=80):
        self.assertEqual(self.asked(origin, address, port, 30.0), [name] * 2)

    def assert_not_reached(self, origin, address, port=80):
        self.assertEqual(self.asked(origin, address, port, 1.0), ["nothing"] * 2)

    @suite.cases(BACKENDS)
    def pods_send_and_get_replies_where_all_else_is_dropped(self, backend):
        self.use(backend)
        self.site()
        one = self.attach(1)
        self.serve(one, "one")
        drop_by_default(self.backend)
        two = self.attach(1)  # leaves the policy of the chain
        for pod in (one, two):
            self.assert_reached(pod.pod, "outside", OUTSIDE, 7000)
        self.assert_not_reached(self.outside, one.address)
        self.assert_ok(cni("firewall", "DEL", self.conf(one.result), **one.options))
        self.assert_not_reached(one.pod, OUTSIDE, 7000)
        self.assert_reached(two.pod, "outside", OUTSIDE, 7000)

    @suite.cases(BACKENDS)
    def rules_of_the_operator_come_first_and_stay(self, backend):
        self.use(backend)
        self.site()
        one = self.attach(1, iptablesAdminChainName="SITE")
        for family, tool in ((4, "iptables"), (6, "ip6tables")):
            if self.backend == "nftables":
                word = "ip" if family == 4 else "ip6"
                run("nft", f"add rule inet {TABLE} SITE {word} daddr {OUTSIDE[family]} drop")
            else:
                run(tool, "-A", "SITE", "-d", OUTSIDE[family], "-j", "DROP")
        self.assert_not_reached(one.pod, OUTSIDE, 7000)
        two = self.attach(1, iptablesAdminChainName="SITE")
        self.detach(one)
        self.assert_not_reached(two.pod, OUTSIDE, 7000)
        self.attach(2)  # with another chain, beside it
        self.assert_not_reached(two.pod, OUTSIDE, 7000)

    @suite.cases(BACKENDS)
    def a_pod_cannot_leave_its_policy(self, backend):
        """With addresses that nobody gave it, and to such addresses."""
        self.use(backend)
        one, two = self.attach(1, "same-bridge"), self.attach(2, "same-bridge")
        self.serve(two, "two")
        self.assert_not_reached(one.pod, two.address)
        two.pod.run("ip", "addr", "add", "10.1.2.77/24", "dev", "eth0")
        two.pod.run("ip", "addr", "add", "fd00:1:2::77/64", "dev", "eth0", "nodad")
        self.assert_not_reached(one.pod, {4: "10.1.2.77", 6: "fd00:1:2::77"})
        for family, net in (("-4", "10.1.9.9/32"), ("-6", "fd00:1:9::9/128")):
            one.pod.run("ip", family, "addr", "add", net, "dev", "eth0")
            run("ip", family, "route", "add", net, "dev", "br1")
        self.assert_not_reached(one.pod, two.address)

    @suite.cases(BACKENDS)
    def a_vlan_of_a_bridge_has_the_policy_too(self, backend):
        """It is routed by a link of its own, br1.100."""
        if not vlan_filtering():
            self.skipTest("this kernel has no VLAN filtering of bridges")
        self.use(backend)
        one = self.attach(1, "same-bridge", before=bridge(1, vlan=100))
        two = self.attach(2, "same-bridge")
        self.serve(one, "one")
        self.assert_reached(None, "one", one.address)
        self.assert_not_reached(two.pod, one.address)
        self.assertIsNone(one.call("CHECK"))
        self.assertEqual(sorted(elements("policy_links")), ["br1", "br1.100", "br2"])

    @suite.cases(BACKENDS)
    def a_flush_of_the_chain_forward_does_not_put_the_pods_before_the_policies(self, backend):
        self.use(backend)
        one, two = self.attach(1, "same-bridge"), self.attach(2, "same-bridge")
        self.serve(two, "two")
        for tool in ("iptables", "ip6tables"):
            run(tool, "-F", "FORWARD")
        self.attach(3)
        self.assert_not_reached(one.pod, two.address)
        if self.backend == "iptables":
            self.assertEqual([rule.split()[-1] for rule in rules("FORWARD")],
                             ["CNI-ISOLATION-STAGE-1", "CNI-FORWARD"] * 2)

    @suite.cases(BACKENDS)
    def after_everything_was_flushed_check_says_so_and_repair_brings_it_back(self, backend):
        self.use(backend)
        one, near, far = self.attach(1, "isolated"), self.attach(1, "isolated"), self.attach(2, "same-bridge")
        self.serve(one, "one")
        damage.flush_rules()
        self.assert_reached(near.pod, "one", one.address)
        for attached in (one, near, far):
            failed = attached.call("CHECK")
            self.assertRegex(self.assert_error(failed, 999)["msg"], "^check the firewall: |^expected .*rule .*not found$")
            conf = attached.net._request(attached.net.conflist["plugins"][-1], {}, attached.result)
            self.assert_ok(cni("firewall", "REPAIR", conf, **attached.options))
            self.assertIsNone(attached.call("CHECK"))
        for pod in (near, far):
            self.assert_not_reached(pod.pod, one.address)
        for attached in (one, near, far):
            self.detach(attached)
        self.assertEqual(addresses(), [])

    def test_the_policy_of_a_network_is_that_of_its_last_add(self):
        one, two = self.attach(1, "isolated"), self.attach(1, "isolated")
        self.serve(two, "two")
        self.assert_not_reached(one.pod, two.address)
        for attached in (one, two):
            conf = self.conf(attached.result, ingressPolicy="same-bridge")
            self.assert_ok(cni("firewall", "ADD", conf, **attached.options))
        self.assert_reached(one.pod, "two", two.address)
        self.assertEqual(list(elements("same_bridge")), [("br1", "br1")])
        for attached in (one, two):
            self.assert_ok(cni("firewall", "ADD", self.conf(attached.result), **attached.options))
        self.assertEqual(elements("policy_links"), {})

    def test_another_network_on_the_bridge_cannot_loosen_the_policy(self):
        self.attach(1, "isolated")
        before = elements("policy_links")
        for policy in ("open", "same-bridge"):
            conf = self.conf(result_of(9, link="br1"), ingressPolicy=policy, name="other")
            self.assert_ok(cni("firewall", "ADD", conf, netns="/run/netns/x", container="other"))
            self.assertEqual(elements("policy_links"), before)
            self.assertEqual(elements("same_bridge"), {})

    @suite.cases(BACKENDS)
    def a_network_that_loosens_its_policy_leaves_that_of_another_on_the_bridge(self, backend):
        self.use(backend)
        near, far = self.attach(1, "isolated"), self.attach(2, "same-bridge")
        other = self.conf(near.result, name="other", ingressPolicy="same-bridge")
        last = self.conf(near.result, name="last", ingressPolicy="same-bridge")
        options = near.options | {"container": "other"}
        for conf in (other, last):
            self.assert_ok(cni("firewall", "ADD", conf, **options))
            self.assert_ok(cni("firewall", "CHECK", conf, **options))
        self.serve(near, "near")
        self.assert_ok(cni("firewall", "ADD", self.conf(near.result), **near.options))  # open
        for conf in (other, last):
            self.assertEqual(list(elements("same_bridge")), [("br1", "br1"), ("br2", "br2")])
            self.assert_ok(cni("firewall", "CHECK", conf, **options))
            if self.backend == "nftables":
                self.assert_not_reached(far.pod, near.address)
            self.assert_ok(cni("firewall", "ADD", conf | {"ingressPolicy": "open"}, **options))
        if self.backend == "nftables":
            self.assert_reached(far.pod, "near", near.address)
        self.assertEqual((list(elements("policy_links")), elements("other_policies")), (["br2"], {}))

    def test_the_strictest_policy_of_the_networks_on_a_bridge_is_in_force(self):
        one = self.attach(1, "same-bridge")
        strict = self.conf(one.result, name="other", ingressPolicy="isolated")
        options = one.options | {"container": "other"}
        self.assert_ok(cni("firewall", "ADD", strict, **options))
        self.assertEqual(elements("same_bridge"), {})
        self.assertEqual([key[:2] for key in elements("other_policies")], [("br1", "same-bridge")])
        self.assert_ok(cni("firewall", "ADD", strict | {"ingressPolicy": "open"}, **options))
        self.assertEqual(list(elements("same_bridge")), [("br1", "br1")])
        self.assertEqual(elements("other_policies"), {})

    @suite.cases(BACKENDS)
    def pods_of_ptp_are_kept_apart_and_leave_nothing(self, backend):
        self.use(backend)
        ptp = {"type": "ptp", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.5.0/24"}]],
                                       "routes": [{"dst": "0.0.0.0/0"}]}}
        one, two = (self.attach(5, "same-bridge", before=ptp) for _ in range(2))
        self.serve(two, "two")
        self.assertEqual(ask_one(one.pod, "tcp", two.address[4], 80, 1.0), "nothing")
        self.assertEqual(len(elements("policy_links")), 2)
        for attached in (one, two):
            self.detach(attached)
        self.assertEqual(elements("policy_links"), {})


@suite.spread
class Rules(FirewallTest):
    """Without traffic."""

    def setUp(self):
        super().setUp()
        run("ip", "link", "add", "cni0", "type", "bridge")

    def assert_gone(self, before):
        self.assert_same(before, ignore=left_by_design)

    @suite.cases(BACKENDS)
    def the_result_is_passed_on(self, backend):
        self.use(backend)
        self.assertEqual(self.add(2), result_of(2))

    @suite.cases(BACKENDS)
    def a_second_add_changes_nothing(self, backend):
        self.use(backend)
        self.add(2, ingressPolicy="same-bridge")
        before = snapshot()
        self.add(2, ingressPolicy="same-bridge")
        self.assert_same(before)

    @suite.cases([(f"{name}, {how}", (row, how)) for name, row in BACKENDS
                  for how in ("with prevResult", "without prevResult", "twice", "by another policy")])
    def del_leaves_nothing(self, case):
        row, how = case
        self.use(row)
        self.add(3)
        before = snapshot()
        self.add(2, ingressPolicy="same-bridge")
        result = None if how == "without prevResult" else result_of(2)
        more = {"ingressPolicy": "x"} if how == "by another policy" else {}
        for _ in range(2 if how == "twice" else 1):
            self.assert_ok(self.call("DEL", "pod2", result, **more))
        self.assert_gone(before)
        self.assertEqual(addresses(), ["10.1.2.3", "fd00:1:2::3"])

    @suite.cases(BACKENDS)
    def a_late_del_leaves_the_next_owner_of_the_address(self, backend):
        self.use(backend)
        self.add(2, "gone")
        self.add(2, "next")
        for result in (result_of(2), None):
            self.assert_ok(self.call("DEL", "gone", result))
            self.assertEqual(addresses(), ["10.1.2.2", "fd00:1:2::2"])
        self.assert_ok(self.call("CHECK", "next", result_of(2)))
        self.assert_ok(self.call("DEL", "next", result_of(2)))
        self.assertEqual(addresses(), [])

    @suite.cases([(f"{backend}, {how}", (row, how)) for backend, row in BACKENDS
                  for how in ("by DEL", "by DEL without prevResult", "by GC")])
    def who_shares_an_address_keeps_it_when_another_is_removed(self, case):
        backend, how = case
        self.use(backend)
        version = {"cniVersion": "1.1.0"}
        for name in ("one", "two", "three"):  # of three networks
            self.add(2, name, name=name, **version)
        rest = ["one", "two", "three"]
        for gone in ("two", "three", "one"):  # in between, the last ADD, the last one left
            for name in rest:
                self.assert_ok(self.call("CHECK", name, result_of(2), name=name, **version))
            self.assertEqual(addresses(), ["10.1.2.2", "fd00:1:2::2"])
            rest.remove(gone)
            for _ in range(2 if how == "by DEL" else 1):
                if how == "by GC":
                    valid = {"cni.dev/valid-attachments": [{"containerID": name, "ifname": "eth0"} for name in rest]}
                    self.assert_ok(self.call("GC", gone, name=gone, **version, **valid))
                else:
                    result = None if how == "by DEL without prevResult" else result_of(2)
                    self.assert_ok(self.call("DEL", gone, result, name=gone, **version))
        self.assertEqual(addresses(), [])
        self.assertEqual((elements("pods4_more"), elements("pods6_more")), ({}, {}))

    @suite.cases(BACKENDS)
    def the_rules_with_a_shared_address_are_what_nft_takes_back(self, backend):
        self.use(backend)
        run("ip", "link", "add", "port0", "master", "cni0", "type", "veth", "peer", "name", "port1")
        for name, policy in (("one", "same-bridge"), ("two", "isolated")):
            result = result_of(2)
            result["interfaces"].append({"name": "port0"})
            self.assert_ok(self.call("ADD", name, result, name=name, ingressPolicy=policy))
        before = run("nft", "list", "table", "inet", TABLE)
        run("nft", "delete", "table", "inet", TABLE)
        run("nft", "-f", "-", stdin=before)
        self.assertEqual(run("nft", "list", "table", "inet", TABLE), before)

    @suite.cases(BACKENDS)
    def an_attachment_can_change_its_backend(self, backend):
        for other in BACKENDS:
            self.use(other[1])
            self.add(2)
            self.use(backend)
            self.add(2)
            self.assertEqual(addresses(), ["10.1.2.2", "fd00:1:2::2"])
            self.assertEqual(len(rules("CNI-FORWARD")) > 2, self.backend == "iptables")
            self.assertEqual(elements("pods4") != {}, self.backend == "nftables")
        self.assert_ok(self.call("DEL", "pod2", result_of(2)))
        self.assertEqual(addresses(), [])

    @suite.cases(BACKENDS)
    def many_at_once_share_one_set_of_chains(self, backend):
        self.use(backend)
        numbers = range(2, 2 + MANY)
        empty = snapshot()

        def all_at_once(verb, policy="same-bridge"):
            for outcome in finish_all([start("firewall", verb, self.conf(result_of(n), ingressPolicy=policy),
                                             container=f"pod{n}", netns=f"/run/netns/pod{n}") for n in numbers]):
                self.assert_ok(outcome)

        all_at_once("ADD")
        self.assertEqual(len(addresses()), 2 * MANY)
        if self.backend == "iptables":
            for chain, count in (("FORWARD", 2), ("CNI-FORWARD", 2 * MANY + 1), ("CNI-ISOLATION-STAGE-1", 2),
                                 ("CNI-ISOLATION-STAGE-2", 2)):
                self.assertEqual(len(rules(chain)), 2 * count, chain)
        listing = run("nft", "list", "table", "inet", TABLE)
        self.assertEqual(listing.count("jump"), 3, listing)
        self.assertEqual(listing.count("accept\n"), 3, listing)
        all_at_once("DEL")
        self.assertEqual(addresses(), [])
        self.assert_gone(empty)

    @suite.cases(BACKENDS)
    def gc_removes_what_nobody_lists(self, backend):
        self.use(backend)
        self.add(2)
        self.add(5, name="other")
        kept = snapshot()
        self.add(3)
        run("ip", "link", "del", "cni0")
        conf = self.conf(cniVersion="1.1.0", **{"cni.dev/valid-attachments": [
            {"containerID": "pod2", "ifname": "eth0"}]})
        self.assert_ok(cni("firewall", "GC", conf))
        self.assert_same(kept, ignore=lambda place: left_by_design(place) or "cni0" in place)
        self.assertEqual(addresses(), ["10.1.2.2", "10.1.2.5", "fd00:1:2::2", "fd00:1:2::5"])
        self.assert_ok(cni("firewall", "GC", self.conf(cniVersion="1.1.0")))  # without a list
        self.assertEqual(len(addresses()), 4)

    def test_gc_removes_the_policy_of_a_bridge_that_does_not_exist(self):
        self.add(2, ingressPolicy="same-bridge")
        conf = self.conf(cniVersion="1.1.0", **{"cni.dev/valid-attachments": []})
        self.assert_ok(cni("firewall", "GC", conf))
        self.assertEqual(list(elements("policy_links")), ["cni0"])
        run("ip", "link", "del", "cni0")
        self.assert_ok(cni("firewall", "GC", conf))
        self.assertEqual((elements("policy_links"), elements("same_bridge")), ({}, {}))

    def test_gc_removes_the_policies_of_each_network_on_a_bridge_that_does_not_exist(self):
        for name in ("one", "two"):
            self.add(2, name=name, ingressPolicy="same-bridge")
        run("ip", "link", "del", "cni0")
        for name in ("one", "two"):
            self.assert_ok(cni("firewall", "GC", self.conf(
                cniVersion="1.1.0", name=name, **{"cni.dev/valid-attachments": []})))
        self.assertEqual((elements("policy_links"), elements("other_policies")), ({}, {}))

    @suite.cases([("an unknown policy", ({"ingressPolicy": "x"}, 'unknown ingress policy: "x"')),
                  ("an unknown backend", ({"backend": "ufw"}, 'unknown firewall backend: "ufw"')),
                  ("a chain of our own for the operator", ({"iptablesAdminChainName": "CNI-FORWARD"}, "chain")),
                  ("a chain name with a space", ({"iptablesAdminChainName": "a b"}, "chain")),
                  ("a zone with a line break", ({"firewalldZone": "a\nb"}, "zone")),
                  ("no result", ({"prevResult": None}, "missing prevResult from earlier plugin")),
                  ("isolated without a port", ({"ingressPolicy": "isolated"}, "no port of bridge 'cni0'")),
                  ("a policy without an interface", (
                      {"ingressPolicy": "isolated", "prevResult": result_of(2) | {"interfaces": [], "ips": [
                          {"address": "10.1.2.2/24"}]}}, "interface needs to be set for ingress policy")),
                  ("a policy where the first interface is the pod's", (
                      {"ingressPolicy": "same-bridge", "prevResult": result_of(2) | {
                          "interfaces": [{"name": "eth0", "sandbox": "/run/netns/x"}], "ips": [
                              {"address": "10.1.2.2/24", "interface": 0}]}},
                      "interface needs to be set for ingress policy"))])
    def nothing_is_changed_by(self, case):
        more, said = case
        for backend in ("nftables", "iptables"):
            self.backend = backend
            before = snapshot()
            conf = {key: value for key, value in (self.conf(result_of(2)) | more).items() if value is not None}
            code = 999 if "interface needs" in said or "no port" in said else 7
            self.assert_error(cni("firewall", "ADD", conf, netns="/run/netns/x", documented=False), code, said)
            self.assert_same(before, ignore=lambda place: place in ("file/run/cni/",))

    @suite.cases([("nftables", "nftables"), ("iptables", "iptables"), ("detected", "")])
    def del_of_nothing_runs_no_program(self, backend):
        self.backend = backend
        self.add(3)
        log = "/run/log"
        for result in (result_of(2), None):
            outcome = cni("firewall", "DEL", self.conf(result), netns="/run/netns/x", container="x",
                          wrap=("strace", "-f", "-qq", "-e", "trace=execve", "-o", log))
            self.assert_ok(outcome)
            with open(log, encoding="ascii") as file:
                self.assertEqual(file.read().count("execve("), 1)

    def test_nftables_needs_no_program(self):
        nowhere = {"PATH": "/nowhere"}
        for verb in ("ADD", "CHECK", "DEL"):
            outcome = cni("firewall", verb, self.conf(result_of(2)), netns="/run/netns/x", env=nowhere,
                          wrap=("/usr/bin/strace", "-f", "-qq", "-e", "trace=execve", "-o", "/run/log"))
            self.assert_ok(outcome)
            with open("/run/log", encoding="ascii") as file:
                self.assertEqual(file.read().count("execve("), 1)

    def test_without_iptables_the_backend_is_nftables(self):
        conf = self.conf(result_of(2)) | {"backend": ""}
        self.assert_ok(cni("firewall", "ADD", conf, netns="/run/netns/x"))
        self.assertEqual((len(rules("CNI-FORWARD")), elements("pods4")), (6, {}))
        self.assert_ok(cni("firewall", "DEL", conf, netns="/run/netns/x"))
        os.mkdir("/run/tools")
        shutil.copy(shutil.which("nft"), "/run/tools/nft")
        self.node.private("/usr/sbin")  # where plugins look, too
        with mock.patch.dict(os.environ, PATH="/run/tools:/usr/bin:/bin"):
            self.assert_ok(cni("firewall", "ADD", conf, netns="/run/netns/x"))
            self.assertEqual(list(elements("pods4")), ["10.1.2.2"])

    @suite.cases([("nftables", ("nftables", "nft flush set inet patchbay_firewall pods4", "pods4")),
                  ("a rule of nftables", ("nftables", "nft flush chain inet patchbay_firewall isolation",
                                          "isolation")),
                  ("the jump to the operator's chain", ("nftables", "nft flush chain inet patchbay_firewall admin",
                                                        "admin")),
                  ("the policy", ("nftables", "nft flush set inet patchbay_firewall policy_links", "policy_links")),
                  ("iptables, an address", ("iptables", "iptables -D CNI-FORWARD -s 10.1.2.2/32 -j ACCEPT",
                                            "-s 10.1.2.2/32 -j ACCEPT")),
                  ("iptables, the jump", ("iptables", "ip6tables -F FORWARD", "-j CNI-FORWARD")),
                  ("iptables, the policy", ("iptables", "iptables -F CNI-ISOLATION-STAGE-2", "-o cni0")),
                  ("iptables, the policy in nftables", (
                      "iptables", "nft flush set inet patchbay_firewall policy_links", "policy_links"))])
    def check_names_what_is_missing_and_repair_adds_it(self, case):
        self.backend, command, said = case
        self.add(2, ingressPolicy="same-bridge")
        self.assert_ok(self.call("CHECK", "pod2", result_of(2), ingressPolicy="same-bridge"))
        before = snapshot()
        run(*command.split())
        failed = self.call("CHECK", "pod2", result_of(2), ingressPolicy="same-bridge")
        self.assertIn(said, self.assert_error(failed, 999)["msg"])
        self.assert_ok(self.call("REPAIR", "pod2", result_of(2), ingressPolicy="same-bridge"))
        self.assert_ok(self.call("CHECK", "pod2", result_of(2), ingressPolicy="same-bridge"))
        self.assertEqual(set(snapshot()), set(before))


if __name__ == "__main__":
    suite.main(needs=("iptables", "strace"), per_processor=2)
