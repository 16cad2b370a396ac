#!/usr/bin/env python3
"""Debian's firewalld: pods are accepted by it, and its reloads open no policy."""

import json
import os
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import rows, suite  # noqa: E402
from support.cnitool import cnitool, use  # noqa: E402
from support.firewall import OVER, FirewallTest, addresses, bridge, knock, listen, result_of  # noqa: E402
from support.firewalld import Firewalld  # noqa: E402
from support.forked import Forked  # noqa: E402
from support.hostport import OUTSIDE, Probe, Server, Site, ask  # noqa: E402
from support.plugin import cni  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import CLONE_NEWNET, run, setns, wait_for  # noqa: E402

RELOADS = max(100 // rows.STEP, 10)
BOTH = ["10.1.2.2/32", "fd00:1:2::2/128"]


def connect(pod, address, port):
    """Connects again and again; says how often that worked and failed."""
    setns(pod, CLONE_NEWNET)
    said = {"made": 0, "failed": 0, "wrong": []}
    while not os.path.exists(OVER):
        try:
            with socket.create_connection((address, port), 30) as one:
                said["made"] += bool(one.recv(100))
        except OSError:  # firewalld rejects while it loads its zones
            said["failed"] += 1
        time.sleep(0.005)
    return said


@suite.spread
class Sources(FirewallTest):
    """Without traffic."""

    def setUp(self):
        super().setUp()
        self.backend = ""  # detected
        self.firewalld = Firewalld(self)

    def test_it_is_used_where_it_runs(self):
        before = snapshot()
        self.assertEqual(self.assert_ok(self.call("ADD", "pod1", result_of(2))), result_of(2))
        self.assertEqual((self.firewalld.sources(), addresses()), (BOTH, []))
        added = snapshot()
        self.assert_ok(self.call("ADD", "pod1", result_of(2)))
        self.assert_same(added, ignore=lambda place: "firewalld/log" in place)
        self.assert_ok(self.call("CHECK", "pod1", result_of(2)))
        self.assert_ok(self.call("STATUS", cniVersion="1.1.0"))
        self.assert_ok(self.call("DEL", "pod1", result_of(2)))
        self.assertEqual(self.firewalld.sources(), [])
        self.assert_same(before, ignore=lambda place: left_by_design(place) or "/firewalld/" in place)

    def test_other_backends_can_be_configured(self):
        for backend in ("nftables", "iptables"):
            self.backend = backend
            self.assert_ok(self.call("ADD", "pod1", result_of(2)))
            self.assertEqual((self.firewalld.sources(), addresses()), ([], ["10.1.2.2", "fd00:1:2::2"]))
        self.backend = "firewalld"
        self.assert_ok(self.call("ADD", "pod1", result_of(2)))
        self.assertEqual((self.firewalld.sources(), addresses()), (BOTH, []))

    def test_a_zone_of_the_config(self):
        self.assert_ok(self.call("ADD", "pod1", result_of(2), firewalldZone="internal"))
        self.assertEqual((self.firewalld.sources("internal"), self.firewalld.sources()), (BOTH, []))
        self.assert_ok(self.call("ADD", "pod1", result_of(2)))  # another zone by now
        self.assertEqual((self.firewalld.sources("internal"), self.firewalld.sources()), ([], BOTH))
        error = self.call("ADD", "pod2", result_of(3), firewalldZone="nowhere")
        self.assert_error(error, 999, "failed to add the address 10.1.2.3/32 to nowhere zone: INVALID_ZONE")

    def test_a_source_of_the_operator_is_not_moved(self):
        run("firewall-cmd", "--zone=drop", "--add-source=10.1.2.2/32")
        self.assert_error(self.call("ADD", "pod1", result_of(2)), 999, "ZONE_CONFLICT")
        self.assertEqual((self.firewalld.sources("drop"), self.firewalld.sources()), (BOTH[:1], []))

    @suite.cases([("with prevResult", True), ("without prevResult", False)])
    def del_after_a_reload_succeeds(self, with_result):
        self.assert_ok(self.call("ADD", "pod1", result_of(2)))
        self.firewalld.reload()
        self.assertEqual(self.firewalld.sources(), [])
        self.assert_ok(self.call("DEL", "pod1", result_of(2) if with_result else None))
        self.assertEqual(sorted(os.listdir("/run/cni/firewall")), ["lock"])

    def test_del_without_prev_result_and_a_late_del(self):
        for name in ("gone", "next"):
            self.assert_ok(self.call("ADD", name, result_of(2)))
        self.assert_ok(self.call("DEL", "gone"))
        self.assert_ok(self.call("DEL", "gone", result_of(2)))
        self.assertEqual(self.firewalld.sources(), BOTH)
        self.assert_ok(self.call("DEL", "next"))
        self.assertEqual(self.firewalld.sources(), [])

    def test_who_shares_an_address_gets_it_back_in_its_zone(self):
        zones = {"one": "trusted", "two": "internal", "three": "internal"}
        for name, zone in zones.items():
            self.assert_ok(self.call("ADD", name, result_of(2), name=name, firewalldZone=zone))
        self.assertEqual((self.firewalld.sources("internal"), self.firewalld.sources()), (BOTH, []))
        self.assert_ok(self.call("DEL", "two", result_of(2), name="two"))
        self.assertEqual((self.firewalld.sources("internal"), self.firewalld.sources()), (BOTH, []))
        self.assert_ok(self.call("DEL", "three", result_of(2), name="three"))
        self.assertEqual((self.firewalld.sources("internal"), self.firewalld.sources()), ([], BOTH))
        self.assert_ok(self.call("CHECK", "one", result_of(2), name="one"))
        self.assert_ok(self.call("DEL", "one", name="one"))
        self.assertEqual(self.firewalld.sources(), [])

    def test_gc_removes_what_nobody_lists(self):
        for number in (2, 3):
            self.assert_ok(self.call("ADD", f"pod{number}", result_of(number)))
        conf = self.conf(cniVersion="1.1.0", **{"cni.dev/valid-attachments": [
            {"containerID": "pod2", "ifname": "eth0"}]})
        self.assert_ok(cni("firewall", "GC", conf))
        self.assertEqual(self.firewalld.sources(), BOTH)

    def test_what_the_reference_plugin_added_is_removed(self):
        for address in BOTH:
            run("firewall-cmd", "--zone=trusted", f"--add-source={address}")
        self.assert_ok(self.call("DEL", "pod1", result_of(2)))
        self.assertEqual(self.firewalld.sources(), [])

    def test_sources_of_the_reference_plugin_are_migrated_and_left_to_it_again(self):
        for address in BOTH:
            run("firewall-cmd", "--zone=trusted", f"--add-source={address}")
        back, look = {"patchbay/form": "reference"}, {"patchbay/onlyLook": True}
        for form, words in (({}, "10.1.2.2 to be accepted"), (back, "10.1.2.2 to be left to the reference plugin"),
                            ({}, "10.1.2.2 to be accepted")):
            before = snapshot()
            self.assertIn(words, str(self.assert_ok(self.call("MIGRATE", "pod1", result_of(2), **form, **look))))
            self.assert_same(before)
            self.assert_ok(self.call("MIGRATE", "pod1", result_of(2), **form))
            self.assertNotIn("10.1.2.2", str(self.assert_ok(self.call("MIGRATE", "pod1", result_of(2), **form, **look))))
            self.assertEqual((self.firewalld.sources(), addresses()), (BOTH, []))
            self.assertEqual(sorted(os.listdir("/run/cni/firewall")) == ["lock"], form == back)
        self.assert_ok(self.call("CHECK", "pod1", result_of(2)))
        self.assert_ok(self.call("DEL", "pod1"))
        self.assertEqual(self.firewalld.sources(), [])

    def test_check_says_what_a_reload_forgot_and_repair_adds_it(self):
        self.assert_ok(self.call("ADD", "pod1", result_of(2)))
        self.firewalld.reload()
        error = self.assert_error(self.call("CHECK", "pod1", result_of(2)), 999)
        self.assertEqual(error["msg"], "check the firewall: address 10.1.2.2 is not a source of zone 'trusted'")
        self.assert_ok(self.call("REPAIR", "pod1", result_of(2)))
        self.assert_ok(self.call("CHECK", "pod1", result_of(2)))
        self.assertEqual(self.firewalld.sources(), BOTH)


@suite.spread
class Without(FirewallTest):
    """A node without firewalld."""

    def test_the_backend_is_refused_and_said_by_status(self):
        self.backend = "firewalld"
        for verb in ("ADD", "STATUS"):
            outcome = self.call(verb, "pod1", result_of(2), cniVersion="1.1.0") if verb == "STATUS" else self.call(
                verb, "pod1", result_of(2))
            self.assert_error(outcome, 50, "org.fedoraproject.FirewallD1")

    def test_a_bus_that_has_ended_is_none(self):
        os.makedirs("/run/dbus")
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("/run/dbus/system_bus_socket")
        self.backend = ""
        self.assert_ok(self.call("ADD", "pod1", result_of(2)))
        self.assertEqual(addresses(), ["10.1.2.2", "fd00:1:2::2"])


@suite.spread
class Traffic(FirewallTest):
    """Pods, hosts outside of the node, and a firewalld that rejects what it does not know."""

    def setUp(self):
        super().setUp()
        self.backend = ""

    def start(self, backend="nftables"):
        self.outside = Site().outside
        Server(self, "outside", (7000,), self.outside, protocols=("tcp",))
        self.firewalld = Firewalld(self, backend)

    def outside_answers(self, pod, seconds=30.0):
        return [answer.split()[0] == "outside" for answer in
                ask([Probe(pod, "tcp", OUTSIDE[family], 7000) for family in (4, 6)], seconds)]

    @suite.cases([(f"firewalld with {backend}", backend) for backend in ("nftables", "iptables")])
    def a_pod_passes_where_others_are_rejected(self, backend):
        self.start(backend)
        without = self.attach(1, before=bridge(1), backend="nftables")
        one = self.attach(1)
        self.assertEqual(self.outside_answers(without.pod, 1.0), [False, False])
        self.assertEqual(self.outside_answers(one.pod), [True, True])
        self.firewalld.reload()
        self.assertEqual(self.outside_answers(one.pod, 1.0), [False, False])
        conf = self.conf(one.result)
        self.assert_ok(cni("firewall", "REPAIR", conf, **one.options))
        self.assertEqual(self.outside_answers(one.pod), [True, True])
        self.detach(one)

    def closed_by_firewalld(self):
        found = json.loads(cnitool("doctor", "--json").stdout)["findings"]
        return [one for one in found if one["check"] == "firewalld" and one["level"] in ("error", "warning")]

    def test_doctor_names_a_backend_that_firewalld_does_not_see(self):
        self.start()
        plugins = [bridge(1), {"type": "firewall", "backend": "nftables"}]
        use({"cniVersion": "1.1.0", "name": "net", "plugins": plugins})
        pod = self.pod()
        self.assert_ok(cnitool("add", "net", pod.path))
        found = self.closed_by_firewalld()
        self.assertEqual(len(found), 1, str(found))
        self.assertTrue(found[0]["remedy"].startswith("firewall-cmd --zone=trusted --change-interface=br1 && "), str(found))
        plugins[1].pop("backend")
        use({"cniVersion": "1.1.0", "name": "net", "plugins": plugins})
        self.assertEqual(self.closed_by_firewalld(), [])

    @suite.cases([(f"backend {ours or 'detected'}, firewalld with {its}", (ours, its)) for ours, its in (
        ("", "nftables"), ("", "iptables"), ("nftables", "nftables"), ("iptables", "iptables"))])
    def no_reload_opens_a_policy_and_traffic_goes_on(self, case):
        self.backend, its = case
        self.start(its)
        for number in (1, 2):  # of the operator: traffic of these bridges is accepted after a reload too
            run("firewall-cmd", "--permanent", "--zone=trusted", f"--add-interface=br{number}")
        self.firewalld.reload()
        one, near, far = self.attach(1, "isolated"), self.attach(1, "isolated"), self.attach(2, "same-bridge")
        self.set_bridge_netfilter(False)
        self.assertTrue(wait_for(lambda: all(self.outside_answers(one.pod)), 20))
        targets = [(other.address[family], 5000) for other in (near, far) for family in (4, 6)]
        knocking = Forked(knock, one.pod.path, targets)
        hearing = [Forked(listen, other.pod.path, 5000) for other in (near, far)]
        asking = [Forked(connect, one.pod.path, OUTSIDE[family], 7000) for family in (4, 6)]
        for _ in range(RELOADS):
            self.firewalld.reload()
        open(OVER, "w", encoding="ascii").close()
        self.assertGreater(knocking.result()["sent"], 10 * RELOADS)
        self.assertEqual([one.result() for one in hearing], [{"heard": 0, "wrong": []}] * 2)
        for said in (one.result() for one in asking):
            self.assertEqual(said["wrong"], [])
            self.assertGreater(said["made"], 0)  # a lost SYN is sent again after a second
        self.assertTrue(wait_for(lambda: all(self.outside_answers(one.pod)), 20))


if __name__ == "__main__":
    suite.main(needs=("dbus-daemon", "dbus-send", "firewalld", "firewall-cmd", "iptables"), per_processor=2)
