#!/usr/bin/env python3
"""A pod's interface in a VRF: its routes and addresses go with it and come back; two networks in one VRF, and in two
with the same addresses; parallel calls, a pod that does what it likes. Beside the reference plugin:
tests/conformance/mixed_vrf_test.py.

Where the kernel has no VRFs, this runs under another kernel: scripts/vm.
"""

import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import guest, suite  # noqa: E402
from support.cnitool import cnitool, use  # noqa: E402
from support.configs import lack  # noqa: E402
from support.plugin import OURS, cni, finish_all, start  # noqa: E402
from support.snapshot import pod_snapshot  # noqa: E402
from support.vrf import STATES, VrfTest, config, l3mdev  # noqa: E402
from support.world import run  # noqa: E402


def rows(table):
    return [(name, tuple(columns)) for name, *columns in table]


@suite.spread
class Vrf(VrfTest):
    @suite.cases([("addresses that look for duplicates", True), ("addresses that do not", False)])
    def routes_and_addresses_go_with_the_interface_and_come_back(self, dad):
        pod = self.pod()
        self.attach(pod, "eth0", 50)
        result = self.attach(pod, "net1", 51, dad=dad)
        before, addresses = pod_snapshot(pod), self.addresses(pod, "net1")
        own = {route for route in self.routes(pod) if route[2] == "net1"}
        self.assertEqual(len(own), 5)
        added = self.call("ADD", config(), pod, result)
        self.assert_ok(added)
        self.assertEqual({k: v for k, v in added.json.items() if k != "dns"}, result)
        self.assertEqual(self.vrfs(pod), {"blue": 1})
        self.assertEqual(self.links(pod)["net1"]["master"], "blue")
        self.assertIn("UP", self.links(pod)["blue"]["flags"])
        self.assertEqual(self.routes(pod, 1), own)
        self.assertEqual({route[2] for route in self.routes(pod)}, {"eth0"})
        self.assertEqual(self.addresses(pod, "net1"), addresses)
        self.assertNotIn("tentative", pod.run("ip", "addr", "show", "dev", "net1", "scope", "global"))
        self.assertEqual(self.call("CHECK", config(), pod, result).stdout, "")
        for _ in range(2):
            self.assert_ok(self.call("DEL", config(), pod))
            self.settle(pod, "net1", 51)
            self.assert_untouched(pod, before)
        self.assertEqual(self.states(), [])

    @suite.cases([("keeps addresses already", "1"), ("would drop addresses", "0")])
    def addresses_of_IPv6_survive_on_an_interface_that(self, setting):
        pod = self.pod()
        result = self.attach(pod, "net1")
        key = "/proc/sys/net/ipv6/conf/net1/keep_addr_on_down"
        pod.run("sh", "-c", f"echo {setting} >{key}")
        pod.run("ip", "addr", "add", "fd00:51::7/64", "dev", "net1", "nodad",
                "valid_lft", "1000", "preferred_lft", "500")
        addresses = self.addresses(pod, "net1")
        self.assert_ok(self.call("ADD", config(), pod, result))
        self.assertEqual(self.addresses(pod, "net1"), addresses)
        self.assertEqual(pod.run("cat", key).strip(), setting)
        leased = pod.run("ip", "-6", "addr", "show", "dev", "net1", "to", "fd00:51::7")
        self.assertIn("valid_lft", leased)
        self.assertNotIn("forever", leased)
        self.assert_ok(self.call("DEL", config(), pod))
        self.assertEqual(self.addresses(pod, "net1"), addresses)
        self.assertEqual(pod.run("cat", key).strip(), setting)

    def test_addresses_survive_where_sysctls_cannot_be_written(self):
        pod = self.pod()
        result = self.attach(pod, "net1")
        addresses = self.addresses(pod, "net1")
        self.assert_ok(self.call("ADD", config(), pod, result, wrap=(
            "unshare", "--mount", "sh", "-c", 'mount --bind -o ro /proc/sys /proc/sys && exec "$0"')))
        self.assertEqual(self.addresses(pod, "net1"), addresses)
        self.assertIn(("default", "fd00:51::1", "net1", "fd00:51::2", 51, "None"), self.routes(pod, 1))

    def test_repeated_ADD_changes_nothing(self):
        pod = self.pod()
        result = self.attach(pod, "net1")
        before = pod_snapshot(pod)
        self.assert_ok(self.call("ADD", config(), pod, result))
        first = pod_snapshot(pod)
        self.assert_ok(self.call("ADD", config(), pod, result))
        self.assert_untouched(pod, first)
        self.assert_ok(self.call("DEL", config(), pod))
        self.assert_untouched(pod, before)

    def test_two_networks_share_a_VRF_which_goes_with_the_last_one(self):
        pod = self.pod()
        results = {ifname: self.attach(pod, ifname, net) for ifname, net in (("net1", 51), ("net2", 52))}
        for ifname, result in results.items():
            self.assert_ok(self.call("ADD", config(), pod, result, ifname=ifname))
        self.assertEqual(self.vrfs(pod), {"blue": 1})
        self.assertEqual({route[2] for route in self.routes(pod, 1)}, {"net1", "net2"})
        for ifname, result in results.items():
            self.assert_ok(self.call("CHECK", config(), pod, result, ifname=ifname))
        self.assert_ok(self.call("DEL", config(), pod, ifname="net1"))
        self.assertEqual(self.vrfs(pod), {"blue": 1})
        self.assert_ok(self.call("CHECK", config(), pod, results["net2"], ifname="net2"))
        self.assert_ok(self.call("DEL", config(), pod, ifname="net2"))
        self.assertEqual(self.vrfs(pod), {})
        self.assertEqual(self.states(), [])

    def answers(self, pod, vrf, target):
        return "1 received" in pod.run("ip", "vrf", "exec", vrf, "ping", "-c1", "-w2", target, check=False)

    def test_two_networks_with_the_same_addresses_are_apart(self):
        """Two gateways that are called the same and drop what has a foreign source; each is reached by its VRF."""
        pod, far = self.pod(), {vrf: self.pod(f"far-{vrf}") for vrf in ("red", "blue")}
        results = {}
        for number, (vrf, gateway) in enumerate(far.items()):
            ifname = f"net{number}"
            run("ip", "link", "add", ifname, "netns", pod.name, "type", "veth", "peer",
                "name", "in0", "netns", gateway.name)
            gateway.run("ip", "-batch", "-", stdin="link set lo up\nlink set in0 up\naddr add 10.51.0.1/24 dev in0\n"
                        "addr add fd00:51::1/64 dev in0 nodad\naddr add 192.0.2.1/32 dev lo\n"
                        f"addr add 198.51.100.{number + 1}/32 dev lo\naddr add 2001:db8::1/128 dev lo nodad\n")
            gateway.run("nft", "-f", "-", stdin="table inet t { chain c { type filter hook prerouting priority -300; "
                        "iifname in0 ip saddr != 10.51.0.0/24 drop; }; }")
            pod.run("ip", "-batch", "-", stdin=f"link set lo up\naddr add 10.51.0.2/24 dev {ifname}\n"
                    f"addr add fd00:51::2/64 dev {ifname} nodad\nlink set {ifname} up\n")
            result = {"cniVersion": "1.1.0", "interfaces": [{"name": ifname, "sandbox": pod.path}],
                      "ips": [{"address": "10.51.0.2/24", "interface": 0},
                              {"address": "fd00:51::2/64", "interface": 0}],
                      "routes": [{"dst": "0.0.0.0/0", "gw": "10.51.0.1"}, {"dst": "::/0", "gw": "fd00:51::1"}]}
            pod.run("ip", "route", "add", "default", "via", "10.51.0.1", "dev", ifname)
            pod.run("ip", "-6", "route", "add", "default", "via", "fd00:51::1", "dev", ifname)
            results[vrf] = result
            self.assert_ok(self.call("ADD", config(vrf), pod, result, ifname=ifname))
        self.assertEqual(self.vrfs(pod), {"red": 1, "blue": 2})
        for number, vrf in enumerate(far):
            for target in ("10.51.0.1", "192.0.2.1", "fd00:51::1", "2001:db8::1", f"198.51.100.{number + 1}"):
                self.assertTrue(self.answers(pod, vrf, target), (vrf, target))
            self.assertFalse(self.answers(pod, vrf, f"198.51.100.{2 - number}"), "the other's gateway")
            self.assert_ok(self.call("CHECK", config(vrf), pod, results[vrf], ifname=f"net{number}"))
        for number, vrf in enumerate(far):
            self.assert_ok(self.call("DEL", config(vrf), pod, ifname=f"net{number}"))
        self.assertEqual(self.vrfs(pod), {})

    def test_each_source_leaves_by_its_own_VRF_where_gateways_drop_foreign_sources(self):
        pod = self.pod()
        results = {vrf: self.attach(pod, f"net{net}", net) for vrf, net in (("red", 51), ("blue", 52))}
        run("nft", "-f", "-", stdin="table inet t { chain c { type filter hook prerouting priority -300; }; }")
        for net in (51, 52):
            for rule in (f"ip saddr != 10.{net}.0.0/24", f"ip6 saddr fd00:{103 - net}::/64"):
                run("nft", "add", "rule", "inet", "t", "c", "iifname", f"{pod.name[-6:]}-net{net}", *rule.split(),
                    "drop")
        run("ip", "-batch", "-", stdin="addr add 192.0.2.1/32 dev lo\naddr add 2001:db8::1/128 dev lo nodad\n")
        lost = [net for net in (51, 52) for target in ("192.0.2.1", "2001:db8::1") if "1 received" not in pod.run(
            "ping", "-c1", "-W1", "-I", f"{'10.%d.0.2' if '.' in target else 'fd00:%d::2'}" % net, target, check=False)]
        self.assertEqual(set(lost), {52}, "the second network's, by the first one's gateway")
        for vrf, net in (("red", 51), ("blue", 52)):
            self.assert_ok(self.call("ADD", config(vrf), pod, results[vrf], ifname=f"net{net}"))
        for vrf in ("red", "blue"):
            for target in ("192.0.2.1", "2001:db8::1"):
                self.assertTrue(self.answers(pod, vrf, target), (vrf, target))

    def test_tables_with_rules_or_routes_or_of_others_are_left_alone(self):
        pod = self.pod()
        self.attach(pod, "eth0", 50)
        result = self.attach(pod, "net1", 51)
        pod.run("ip", "-batch", "-", stdin="route add 198.51.100.0/24 dev eth0 table 1\n"
                "rule add from 10.77.0.1 lookup 2\n"
                "route add blackhole default table 3\nroute add unreachable 2001:db8:9::/64 table 4\n"
                "link add other type vrf table 6\n")
        self.assert_ok(self.call("ADD", config(), pod, result))
        self.assertEqual(self.vrfs(pod), {"other": 6, "blue": 5})

    def test_sbr_takes_no_table_of_a_VRF(self):
        pod = self.pod()
        first, second = self.attach(pod, "net1", 51), self.attach(pod, "net2", 52)
        self.assert_ok(self.call("ADD", config(table=100), pod, first))
        pod.run("ip", "route", "flush", "table", "100")
        conf = {"cniVersion": "1.1.0", "name": "net2", "type": "sbr", "prevResult": second}
        self.assert_ok(cni("sbr", "ADD", conf, netns=pod.path, container=pod.name, ifname="net2"))
        self.assertNotIn(" 100 ", pod.run("ip", "rule", "show"))
        self.assertIn(("default", "10.52.0.1", "net2"), {route[:3] for route in self.routes(pod, 101)})

    def test_routes_of_other_tables_stay_in_them(self):
        pod = self.pod()
        result = self.attach(pod, "net1")
        pod.run("ip", "-batch", "-", stdin="route add 198.51.100.0/24 via 10.51.0.1 dev net1 table 70\n"
                "route add 2001:db8:7::/64 dev net1 table 70\n")
        seventy = self.routes(pod, 70)
        self.assertEqual(len(seventy), 2)
        for verb in ("ADD", "DEL"):
            self.assert_ok(self.call(verb, config(), pod, result))
            self.assertEqual(self.routes(pod, 70), seventy)

    def test_gateways_on_the_link_and_several_next_hops_are_carried_over(self):
        pod = self.pod()
        result = self.attach(pod, "net1")
        pod.run("ip", "-batch", "-", stdin="route add 169.254.1.1 dev net1 scope link\n"
                "route add 203.0.113.0/24 via 169.254.1.1 dev net1\nroute add 198.51.100.0/24 "
                "nexthop via 10.51.0.1 dev net1 nexthop via 169.254.1.1 dev net1\n"
                "route add 10.98.0.0/16 via 192.0.2.99 dev net1 onlink\n")
        before = pod_snapshot(pod)
        self.assert_ok(self.call("ADD", config(), pod, result))
        shown = pod.run("ip", "route", "show", "table", "1")
        for text in ("203.0.113.0/24 via 169.254.1.1 dev net1", "nexthop via 169.254.1.1 dev net1",
                     "10.98.0.0/16 via 192.0.2.99 dev net1 onlink"):
            self.assertIn(text, shown)
        self.assert_ok(self.call("DEL", config(), pod))
        self.assert_untouched(pod, before)

    def test_thousands_of_routes_are_carried_over(self):
        pod = self.pod()
        result = self.attach(pod, "net1")
        pod.run("ip", "-batch", "-", stdin="".join(f"route add 198.18.{n // 250}.{n % 250} via 10.51.0.1 dev net1\n"
                                                   for n in range(2000)))
        count = len(self.routes(pod))
        self.assertGreater(count, 2000)
        self.assert_ok(self.call("ADD", config(), pod, result))
        self.assertEqual(len(self.routes(pod, 1)), count)
        self.assert_ok(self.call("DEL", config(), pod))
        self.assertEqual(len(self.routes(pod)), count)

    def test_an_interface_that_is_down_stays_down(self):
        pod = self.pod()
        pod.run("ip", "link", "add", "net1", "type", "dummy")
        pod.run("ip", "addr", "add", "fd00:51::2/64", "dev", "net1", "nodad")
        before = pod_snapshot(pod)
        result = {"cniVersion": "1.1.0", "interfaces": [{"name": "net1", "sandbox": pod.path}],
                  "ips": [{"address": "fd00:51::2/64", "interface": 0}]}
        start = time.monotonic()
        self.assert_ok(self.call("ADD", config(), pod, result))
        self.assertLess(time.monotonic() - start, 4, "it waited for addresses, which need an interface that is up")
        self.assertIn(("fd00:51::2", 64, True), self.addresses(pod, "net1"))
        self.assertNotIn("UP", self.links(pod)["net1"]["flags"])
        self.assert_ok(self.call("DEL", config(), pod))
        self.assert_untouched(pod, before)

    def test_next_hops_of_the_interface_leave_multipath_routes_and_come_back(self):
        pod = self.pod()
        self.attach(pod, "eth0", 50)
        result = self.attach(pod, "net1", 51)
        result["routes"] += [{"dst": "2001:db8:5::/48"}]
        for net, ifname in ((50, "eth0"), (51, "net1")):
            pod.run("ip", "-6", "route", "append", "2001:db8:5::/48", "via", f"fd00:{net}::1", "dev", ifname)
        pod.run("ip", "route", "add", "198.51.100.0/24", "nexthop", "via", "10.50.0.1", "nexthop", "via", "10.51.0.1")
        pod.run("ip", "route", "add", "198.51.100.0/24", "table", "7", "nexthop", "via", "10.50.0.1", "dev", "eth0",
                "nexthop", "via", "10.51.0.1", "dev", "net1")

        def shown(*selector):
            text = "".join(pod.run("ip", family, "route", "show", *selector, to) for family, to in
                           (("-4", "198.51.100.0/24"), ("-6", "2001:db8:5::/48")))
            return {gateway for gateway in ("10.50.0.1", "10.51.0.1", "fd00:50::1", "fd00:51::1") if gateway in text}
        main = {"10.50.0.1", "fd00:50::1"}
        both = main | {"10.51.0.1", "fd00:51::1"}
        self.assertEqual(shown(), both)
        self.assert_ok(self.call("ADD", config(), pod, result))
        self.assertEqual(shown(), main)
        self.assertEqual(shown("vrf", "blue"), both - main)
        self.assertIn("nexthop via 10.51.0.1", pod.run("ip", "route", "show", "table", "7"))
        self.assert_ok(self.call("CHECK", config(), pod, result))
        # Another interface joins, and the routes of both are one route of the VRF.
        second = self.attach(pod, "net2", 52)
        pod.run("ip", "-6", "route", "append", "2001:db8:5::/48", "via", "fd00:52::1", "dev", "net2")
        self.assert_ok(self.call("ADD", config(), pod, second, ifname="net2"))
        self.assertIn("fd00:52::1", pod.run("ip", "-6", "route", "show", "vrf", "blue", "2001:db8:5::/48"))
        self.assert_ok(self.call("DEL", config(), pod))
        self.assertEqual(shown(), both)
        left = pod.run("ip", "-6", "route", "show", "vrf", "blue", "2001:db8:5::/48")
        self.assertIn("fd00:52::1", left)
        self.assertNotIn("fd00:51::1", left)

    def test_a_VRF_of_the_pod_is_used_and_stays(self):
        pod = self.pod()
        results = {ifname: self.attach(pod, ifname, net) for ifname, net in (("net1", 51), ("net2", 52))}
        pod.run("ip", "link", "add", "blue", "type", "vrf", "table", "77")
        for order in (("net1", "net2"), ("net2", "net1")):
            for ifname, result in results.items():
                self.assert_ok(self.call("ADD", config(), pod, result, ifname=ifname))
            self.assertIn("UP", self.links(pod)["blue"]["flags"])
            self.assertEqual({route[2] for route in self.routes(pod, 77)}, {"net1", "net2"})
            for ifname in order:
                self.assert_ok(self.call("DEL", config(), pod, ifname=ifname))
            self.assertEqual(self.vrfs(pod), {"blue": 77})

    def test_a_table_is_shared_where_the_config_says_so(self):
        pod = self.pod()
        results = {ifname: self.attach(pod, ifname, net) for ifname, net in (("net1", 51), ("net2", 52))}
        for vrf, (ifname, result) in zip(("red", "blue"), results.items()):
            self.assert_ok(self.call("ADD", config(vrf, table=1000), pod, result, ifname=ifname))
        self.assertEqual(self.vrfs(pod), {"red": 1000, "blue": 1000})
        self.assertEqual({route[2] for route in self.routes(pod, 1000)}, {"net1", "net2"})
        self.assert_ok(self.call("DEL", config("red", table=1000), pod, ifname="net1"))
        self.assertEqual({route[2] for route in self.routes(pod, 1000)}, {"net2"})

    def test_16_parallel_ADDs_of_one_pod(self):
        """Eight VRFs of two interfaces each: each VRF is created once, and no table is there twice."""
        pod = self.pod()
        results = {f"net{n}": self.attach(pod, f"net{n}", 60 + n) for n in range(16)}
        before = pod_snapshot(pod)

        def all_at_once(verb):
            return finish_all([start("vrf", verb, config(f"vrf{n % 8}", prevResult=results[f"net{n}"]), netns=pod.path,
                                     container=pod.name, ifname=f"net{n}") for n in range(16)])
        self.assertEqual([str(one) for one in all_at_once("ADD") if not one.ok], [])
        tables = self.vrfs(pod)
        self.assertEqual(sorted(tables), [f"vrf{n}" for n in range(8)])
        self.assertEqual(sorted(tables.values()), list(range(1, 9)))
        for n in range(16):
            self.assertEqual(self.links(pod)[f"net{n}"]["master"], f"vrf{n % 8}")
            self.assert_ok(self.call("CHECK", config(f"vrf{n % 8}"), pod, results[f"net{n}"], ifname=f"net{n}"))
        self.assertEqual([str(one) for one in all_at_once("DEL") if not one.ok], [])
        self.assert_untouched(pod, before)
        self.assertEqual(self.states(), [])

    def test_CHECK_names_what_is_missing_and_REPAIR_makes_it_again(self):
        pod = self.pod()
        result = self.attach(pod, "net1")
        self.assert_ok(self.call("ADD", config(), pod, result))
        wanted = self.routes(pod, 1)
        for command, text in ((("route", "del", "10.99.0.0/16", "table", "1"), "has no route to 10.99.0.0/16"),
                              (("-6", "route", "del", "default", "table", "1"), "has no route to ::/0"),
                              (("link", "set", "net1", "nomaster"), "failed to find net1 associated to vrf blue"),
                              (("link", "set", "blue", "down"), "VRF blue is down"),
                              (("link", "del", "blue"), "Link not found")):
            pod.run("ip", *command)
            self.assert_error(self.call("CHECK", config(), pod, result), 999, text)
            looked = self.call("REPAIR", config() | {"patchbay/onlyLook": True}, pod, result)
            self.assertIn(text, looked.stdout)
            self.assert_error(self.call("CHECK", config(), pod, result), 999, text)
            self.assert_ok(self.call("REPAIR", config(), pod, result))
            self.assert_ok(self.call("CHECK", config(), pod, result))
        self.assertEqual({route[:3] for route in self.routes(pod, 1)}, {route[:3] for route in wanted})
        pod.run("ip", "addr", "del", "fd00:51::2/64", "dev", "net1")
        self.assert_error(self.call("CHECK", config(), pod, result), 999, "does not have the address fd00:51::2/64")
        self.assert_ok(self.call("REPAIR", config(), pod, result))
        self.assert_ok(self.call("CHECK", config(), pod, result))

    def test_CHECK_of_the_interface_plugin_finds_the_routes_in_the_VRF(self):
        pod = self.pod()
        bridge = {"cniVersion": "1.1.0", "name": "net1", "type": "bridge", "bridge": "br1", "isGateway": True,
                  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1:2::/64"}]],
                           "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}}
        options = {"netns": pod.path, "container": pod.name, "ifname": "net1"}
        result = self.assert_ok(cni("bridge", "ADD", bridge, **options))
        self.assert_ok(self.call("ADD", config(), pod, result))
        self.assert_ok(cni("bridge", "CHECK", bridge | {"prevResult": result}, **options))
        self.assertTrue(self.answers(pod, "blue", "10.1.2.1"))
        self.assertTrue(self.answers(pod, "blue", "fd00:1:2::1"))
        self.assert_ok(self.call("DEL", config(), pod))
        self.assert_ok(cni("bridge", "DEL", bridge, **options))
        self.assertEqual(set(self.links(pod)) & {"net1", "blue"}, set())

    def test_DEL_without_ADD_or_namespace_does_nothing(self):
        pod = self.pod()
        result = self.attach(pod, "net1")
        pod.run("ip", "link", "add", "blue", "type", "vrf", "table", "9")
        before = pod_snapshot(pod)
        for options in ({}, {"netns": ""}, {"netns": "/run/netns/absent"}, {"ifname": "net9"}):
            self.assert_ok(self.call("DEL", config(), pod, result, **options))
            self.assert_ok(self.call("DEL", config() | {"vrfname": None}, pod, **options))
        self.assertFalse(os.path.exists("/run/netns/absent"))
        self.assert_untouched(pod, before)

    def test_DEL_after_the_namespace_went_removes_the_state(self):
        pod = self.pod()
        self.assert_ok(self.call("ADD", config(), pod, self.attach(pod, "net1")))
        pod.remove()
        self.assert_ok(self.call("DEL", config(), pod))
        self.assertEqual(self.states(), [])

    def test_DEL_that_comes_late_touches_no_other_pod(self):
        pod, other = self.pod(), self.pod()
        self.assert_ok(self.call("ADD", config(), pod, self.attach(pod, "net1")))
        self.assert_ok(self.call("ADD", config(), other, self.attach(other, "net1", 52)))
        before = pod_snapshot(other)
        self.assert_ok(self.call("DEL", config(), pod, netns=other.path))
        self.assert_untouched(other, before)
        self.assertEqual(len(self.states()), 1)

    @suite.cases([("with prevResult", True), ("without prevResult", False)])
    def DEL_that_is_repeated_touches_no_container_that_has_the_path_by_then(self, prev):
        pod, other = self.pod(), self.pod()
        result, theirs = self.attach(pod, "net1"), self.attach(other, "net1", 52)
        self.assert_ok(self.call("ADD", config(), pod, result))
        self.assert_ok(self.call("ADD", config(), other, theirs))
        # By the reference plugin, which has no state: in a VRF, and nobody on the node knows.
        unknown = self.pod()
        self.attach(unknown, "net1", 53)
        unknown.run("ip", "-batch", "-", stdin="link add blue type vrf table 9\nlink set blue up\nlink set net1 master blue\n")
        before = [pod_snapshot(one) for one in (other, unknown)]
        for path in (other.path, other.path, unknown.path):
            self.assert_ok(self.call("DEL", config(), pod, result if prev else None, netns=path))
        # Not even where it has the same MAC address, as a pod that was restarted with its own.
        self.assert_ok(self.call("DEL", config(), pod, theirs, netns=other.path))
        for one, was in zip((other, unknown), before):
            self.assert_untouched(one, was)
        self.assertEqual(len(self.states()), 1)

    @suite.cases([("alone", False), ("with another in the VRF", True)])
    def DEL_of_an_interface_that_was_removed(self, shared):
        pod = self.pod()
        self.assert_ok(self.call("ADD", config(), pod, self.attach(pod, "net1")))
        if shared:
            self.assert_ok(self.call("ADD", config(), pod, self.attach(pod, "net2", 52), ifname="net2"))
        pod.run("ip", "link", "del", "net1")
        self.assert_ok(self.call("DEL", config(), pod))
        self.assertEqual(self.vrfs(pod), {"blue": 1} if shared else {})
        self.assertEqual(len(self.states()), 1 if shared else 0)

    @suite.cases([("the interface", "link set net1 down\nlink set net1 name other up\n"),
                  ("the VRF", "link set blue down\nlink set blue name other up\n"),
                  ("both", "link set net1 down\nlink set net1 name one up\nlink set blue down\n"
                   "link set blue name two\n")])
    def DEL_finds_what_the_pod_renamed(self, batch):
        pod = self.pod()
        result = self.attach(pod, "net1")
        self.assert_ok(self.call("ADD", config(), pod, result))
        pod.run("ip", "-batch", "-", stdin=batch)
        self.assert_ok(self.call("DEL", config(), pod))
        self.assertEqual(self.vrfs(pod), {})
        self.assertEqual([link["ifname"] for link in self.links(pod).values() if "master" in link], [])

    @suite.cases(rows([("a device of the VRF's name", "link del blue\nlink add blue type dummy\n", {"blue"}),
                  ("a VRF of its name with another table", "link del blue\nlink add blue type vrf table 9\n", {"blue"}),
                  ("a VRF of its own for the interface", "link add own type vrf table 9\nlink set own up\n"
                   "link set net1 master own\n", {"own"}),
                  ("a bridge for the interface", "link add own type bridge\nlink set net1 master own\n", {"own"}),
                  ("rules of its own", "rule add from 10.51.0.2 lookup 1 pref 5\n"
                   "rule add iif net1 lookup 9 pref 6\n", set()),
                  ("an interface of its own in the VRF", "link add own type dummy\nlink set own master blue\n",
                   {"own", "blue"})]))
    def DEL_leaves_what_the_pod_made(self, row):
        batch, stays = row
        pod, other = self.pod(), self.pod()
        self.attach(other, "net1", 52)
        self.assert_ok(self.call("ADD", config(), pod, self.attach(pod, "net1")))
        pod.run("ip", "-batch", "-", stdin=batch)
        rules, untouched = pod.run("ip", "rule"), pod_snapshot(other)
        master = self.links(pod)["net1"].get("master")
        self.assert_ok(self.call("DEL", config(), pod))
        self.assertEqual(set(self.links(pod)) & {"own", "blue"}, stays)
        self.assertEqual(self.links(pod)["net1"].get("master"), master if master == "own" else None)
        self.assertEqual(pod.run("ip", "rule"), rules)
        self.assert_untouched(other, untouched)
        self.assertEqual(self.states(), [])

    @suite.cases([("torn", '{"network": "net1", "con'), ("of another network", None)])
    def DEL_with_a_state_that_is(self, content):
        pod = self.pod()
        result = self.attach(pod, "net1")
        before = pod_snapshot(pod)
        self.assert_ok(self.call("ADD", config(), pod, result))
        path = f"{STATES}/{self.states()[0]}"
        with open(path, encoding="utf-8") as file:
            written = json.load(file)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content or json.dumps(written | {"network": "net2"}))
        within = pod_snapshot(pod)
        if not content:
            self.assert_ok(self.call("DEL", config(), pod, result))
            self.assert_untouched(pod, within)
            self.assertEqual(len(self.states()), 1)
            return
        # prevResult tells then that it is the interface.
        self.assert_ok(self.call("DEL", config(), pod, result))
        self.assert_untouched(pod, before)
        self.assertEqual(self.states(), [])

    def test_GC_removes_what_is_not_listed(self):
        pods = [self.pod() for _ in range(3)]
        before = {}
        for number, pod in enumerate(pods):
            result = self.attach(pod, "net1", 51 + number)
            before[pod.name] = pod_snapshot(pod)
            self.assert_ok(self.call("ADD", config(), pod, result))
        pods[2].remove()
        self.assert_ok(cni("vrf", "GC", config()))
        self.assertEqual(len(self.states()), 3)
        valid = [{"containerID": pods[1].name, "ifname": "net1"}]
        self.assert_ok(cni("vrf", "GC", config() | {"name": "net2", "cni.dev/valid-attachments": valid}))
        self.assertEqual(len(self.states()), 3)
        self.assert_ok(cni("vrf", "GC", config() | {"cni.dev/valid-attachments": valid}))
        self.assert_untouched(pods[0], before[pods[0].name])
        self.assertEqual(self.vrfs(pods[1]), {"blue": 1})
        self.assertEqual(len(self.states()), 1)

    @suite.cases(rows([
        ("an empty vrfname", {"vrfname": ""}, 7, "configuration is expected to have a valid vrf name"),
        ("a vrfname with a slash", {"vrfname": "../x"}, 7, "vrfname: expected an interface name"),
        ("the main table", {"table": 254}, 7, "table: is one of the kernel's own tables"),
        ("the local table", {"table": 255}, 7, "table: is one of the kernel's own tables"),
        ("no prevResult", {"prevResult": None}, 7, "missing prevResult from earlier plugin"),
        ("an interface that does not exist", {"batch": "link del net1"}, 999, "could not get link by name net1"),
        ("a name that is another link's", {"batch": "link add blue type dummy"}, 999, "Netlink blue is not a VRF"),
        ("the interface's own name", {"vrfname": "net1"}, 999, "Netlink net1 is not a VRF"),
        ("another table than the VRF's", {"batch": "link add blue type vrf table 9", "table": 8}, 999,
         "VRF blue already exist with different routing table 9"),
        ("an interface of a bridge", {"batch": "link add name br0 type bridge\nlink set net1 master br0"}, 999,
         "interface net1 has already a master set: br0"),
        ("an interface of another VRF", {"batch": "link add red type vrf table 9\nlink set net1 master red"}, 999,
         "interface net1 has already a master set: red"),
        ("lo", {"ifname": "lo"}, 999, "loopback device")]))
    def bad_input_changes_nothing(self, row):
        keys, code, text = row
        pod = self.pod()
        result = self.attach(pod, "net1")
        pod.run("ip", "-batch", "-", stdin=keys.get("batch", "") + "\n")
        before = self.steady_snapshot(pod) if "master" in keys.get("batch", "") else pod_snapshot(pod)
        conf = config(prevResult=result) | {k: v for k, v in keys.items() if k not in ("batch", "ifname")}
        failed = self.call("ADD", conf, pod, ifname=keys.get("ifname", "net1"), documented=False)
        self.assert_error(failed, code, text)
        self.assert_untouched(pod, before)
        self.assertEqual(self.states(), [])

    def steady_snapshot(self, pod):
        """The kernel looks at a new master's carrier once a second, and then adds multicast routes."""
        before = pod_snapshot(pod)
        for _ in range(10):
            time.sleep(1.1)
            now = pod_snapshot(pod)
            if now == before:
                return now
            before = now
        self.fail("the pod's routes keep changing")

    def test_failed_ADD_leaves_everything_as_it_was(self):
        pod = self.pod()
        result = self.attach(pod, "net1")
        before = pod_snapshot(pod)
        failures = 0
        for when in range(6, 40, 4):
            failed = self.call("ADD", config(), pod, result, wrap=[
                "strace", "-qq", "-o", "/dev/null", "-e", f"inject=sendmsg:error=ENOBUFS:when={when}"])
            if not failed.ok:
                failures += 1
                self.assert_same(before, pod_snapshot(pod), ignore=l3mdev, what=f"call {when}:")
                self.assertEqual(self.states(), [])
            self.assert_ok(self.call("DEL", config(), pod))
            self.assert_untouched(pod, before)
        self.assertGreater(failures, 2)

    @suite.cases([("repeated", "ADD"), ("undone", "DEL")])
    def killed_ADD_is(self, verb):
        pod = self.pod()
        result = self.attach(pod, "net1", dad=True)
        before = pod_snapshot(pod)
        self.assert_ok(self.call("ADD", config(), pod, result))
        wanted = pod_snapshot(pod)
        self.assert_ok(self.call("DEL", config(), pod))
        killed = 0
        for when in range(11, 22):
            outcome = self.call("ADD", config(), pod, result, wrap=[
                "strace", "-qq", "-o", "/dev/null", "-e", f"inject=sendmsg:signal=KILL:when={when}"])
            killed += not outcome.ok
            self.assert_ok(self.call(verb, config(), pod, result))
            self.assert_same(wanted if verb == "ADD" else before, pod_snapshot(pod),  # another VRF of the name
                             ignore=lambda place: l3mdev(place) or place == "link/blue", what=f"call {when}:")
            self.assert_ok(self.call("DEL", config(), pod))
            self.assert_untouched(pod, before)
        self.assertGreater(killed, 4)

    def test_cnitool_attaches_shows_and_repairs_it(self):
        use({"cniVersion": "1.1.0", "name": "blue", "plugins": [
            {"type": "bridge", "bridge": "br1", "isGateway": True,
             "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
            {"type": "vrf", "vrfname": "blue"}]})
        pod = self.pod()
        before = set(self.links(pod))
        for word, after in (("add", ""), ("check", "link set eth0 nomaster"), ("repair", ""), ("check", "")):
            done = cnitool(word, "blue", *([] if word == "repair" else [pod.path]))
            self.assertEqual(done.status, 0, str(done))
            if after:
                pod.run("ip", *after.split())
        shown = cnitool("graph", "--json").json
        self.assertEqual(shown["bridges"][0]["pods"][0]["vrf"], "blue, table 1")
        self.assertIn("VRF blue, table 1", cnitool("graph").stdout)
        self.assertEqual(cnitool("del", "blue", pod.path).status, 0)
        self.assertEqual(set(self.links(pod)), before)
        self.assertEqual(self.states(), [])

    def test_STATUS_knows_whether_the_kernel_has_VRFs(self):
        self.assert_ok(cni("vrf", "STATUS", config()))


if __name__ == "__main__":
    if os.path.isdir(OURS):
        guest.enter_unless(lambda: not lack("vrf"), "this kernel has no VRFs")
    suite.main(needs=("ping", "nft", "strace"), sampled_in_guest=True)
