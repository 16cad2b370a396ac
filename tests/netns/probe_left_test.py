#!/usr/bin/env python3
"""`cnitool probe` leaves nothing where it has to look for it: connections in a zone of conntrack, or with a source that rules have
replaced before they were tracked, and what IPv6 has learnt of a path. What was there before stays."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import cnitool  # noqa: E402
from support.doctor import BIN  # noqa: E402
from support.probe import FAST, TRACKED, ProbeTest, connections  # noqa: E402
from support.world import Pod, run, wait_for  # noqa: E402


class Connections(ProbeTest):
    def setUp(self):
        super().setUp()
        if not os.path.exists(TRACKED):
            self.skipTest(f"needs {TRACKED}")
        third = Pod("c")
        self.assert_ok(cnitool("add", "net", third.path, CNI_PATH=BIN, CAP_ARGS={
            "portMappings": [{"hostPort": 5353, "containerPort": 53, "protocol": "udp"}]}))
        self.pods.append(third)
        self.settle()
        run("ping", "-c1", "-W2", "-q", self.address_of(self.pods[0]))

    def assert_nothing_tracked(self, rules):
        run("nft", "add table inet x; add chain inet x p { type filter hook prerouting priority -400; }; "
            "add chain inet x o { type filter hook output priority -400; }; " + rules)
        run("ping", "-c1", "-W2", "-q", "-I", "127.0.0.1", "127.0.0.1")
        before = connections()
        self.assertTrue(before)
        cnitool("probe", *FAST, CNI_PATH=BIN)
        self.assertEqual(connections() - before, set())
        self.assertEqual(before - connections(), set())

    def test_in_a_zone(self):
        self.assert_nothing_tracked("add rule inet x p ct zone set 7; add rule inet x o ct zone set 7")

    def test_in_a_zone_of_one_direction(self):
        self.assert_nothing_tracked("add rule inet x p ct original zone set 9; add rule inet x o ct original zone set 9")

    def test_with_another_source(self):
        self.assert_nothing_tracked(f"add rule inet x p ip saddr {self.address_of(self.pods[1])} ip saddr set 10.1.2.13")


class Paths(ProbeTest):
    def test_the_mtu_of_a_path(self):
        run("ip", "-n", "outside", "-6", "addr", "add", "2001:db8::2/64", "dev", "eth0", "nodad")
        run("ip", "-n", "outside", "-6", "route", "add", "fd00:1:2::/64", "via", "2001:db8::1")
        run("ip", "-6", "route", "add", "default", "via", "2001:db8::2")
        self.settle()
        run("ip", "link", "set", "up0", "mtu", "1400")

        def learnt(pod):
            return "2001:db8::2" in pod.run("ip", "-6", "route", "show", "cache")
        knows, asks = self.pods
        wait_for(lambda: knows.run("ping", "-6", "-c1", "-W1", "-q", "-s", "1452", "2001:db8::2", check=False) is not None and learnt(knows), 5)
        self.assertEqual([learnt(knows), learnt(asks)], [True, False])
        self.assertIn("'up0' takes 1400 bytes", str(self.probe()["findings"]))
        self.assertEqual([learnt(knows), learnt(asks)], [True, False])


if __name__ == "__main__":
    suite.main()
