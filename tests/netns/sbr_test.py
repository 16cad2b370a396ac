#!/usr/bin/env python3
"""What a pod sends leaves by the interface of its source address: two networks whose gateways drop foreign sources;
tables of their own, repeated and parallel calls, what DEL leaves; beside the reference plugin.
"""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.plugin import OURS, REFERENCE, cni, finish_all, start  # noqa: E402
from support.world import run, wait_for  # noqa: E402

RECORDS = "/run/cni/sbr"
PROTOCOL = "67"


def rows(table):
    return [(name, tuple(columns)) for name, *columns in table]


def config(version="1.1.0", **more):
    return {"cniVersion": version, "name": "net1", "type": "sbr"} | more


@suite.spread
class Sbr(suite.NodeTest):
    def attach(self, pod, ifname, net, name=None):
        """An interface of the pod in 10.NET.0.0/24 and fd00:NET::/64, whose gateway is the node, and its plugin's
        result. The main table has a default route by the first one."""
        host = f"{pod.name[-8:]}-{net}"
        run("ip", "link", "add", host, "type", "veth", "peer", "name", ifname, "netns", pod.name)
        self.addCleanup(run, "ip", "link", "del", host, check=False)
        run("ip", "-batch", "-", stdin=f"link set {host} up\naddr add 10.{net}.0.1/24 dev {host}\n"
                                       f"addr add fd00:{net}::1/64 dev {host} nodad\n")
        pod.run("ip", "-batch", "-", stdin=f"link set lo up\nlink set {ifname} up\naddr add 10.{net}.0.2/24 dev {ifname}\n"
                                           f"addr add fd00:{net}::2/64 dev {ifname} nodad\n"
                                           f"route add 10.99.0.0/16 via 10.{net}.0.1 dev {ifname} metric {net} mtu 1400\n")
        # The kernel makes the routes of IPv6 addresses when it has time to.
        wait_for(lambda: f"fd00:{net}::/64" in pod.run("ip", "-6", "route", "show", "dev", ifname))
        link, = json.loads(pod.run("ip", "-j", "link", "show", "dev", ifname))
        return {"cniVersion": "1.1.0",
                "interfaces": [{"name": host}, {"name": ifname, "mac": link["address"], "sandbox": pod.path}],
                "ips": [{"address": f"10.{net}.0.2/24", "gateway": f"10.{net}.0.1", "interface": 1},
                        {"address": f"fd00:{net}::2/64", "gateway": f"fd00:{net}::1", "interface": 1}]}

    def two(self):
        """A pod with eth0, by which the default route leads, and net1."""
        pod = self.pod()
        self.attach(pod, "eth0", 51)
        pod.run("ip", "route", "add", "default", "via", "10.51.0.1")
        pod.run("ip", "-6", "route", "add", "default", "via", "fd00:51::1")
        return pod, self.attach(pod, "net1", 52)

    def call(self, verb, conf, pod, result=None, **options):
        conf = dict(conf)
        if result is not None:
            conf["prevResult"] = result
        return cni("sbr", verb, conf, **({"netns": pod.path, "container": pod.name, "ifname": "net1"} | options))

    def rules(self, pod):
        found = []
        for family in ("-4", "-6"):
            for rule in json.loads(pod.run("ip", "-j", "-N", family, "rule", "show")):
                if rule["src"] != "all":
                    found.append((rule["src"], str(rule["table"]), str(rule.get("protocol", "0"))))
        return found

    def routes(self, pod, table="main"):
        found = set()
        for family in ("-4", "-6"):
            for route in json.loads(pod.run("ip", "-j", family, "route", "show", "table", "all") or "[]"):
                if table not in ("all", route.get("table", "main")):
                    continue
                if route.get("type") in ("multicast", "local", "anycast") or route["dst"].startswith("fe80"):
                    continue
                found.add((route["dst"], route.get("gateway"), route["dev"], route.get("prefsrc"),
                           route.get("metric") if family == "-4" else None, str(route.get("metrics")),
                           route.get("table") if table == "all" else None))
        return found

    def everything(self, pod):
        return self.rules(pod), self.routes(pod), self.routes(pod, "all")

    def records(self):
        return sorted(os.listdir(RECORDS)) if os.path.isdir(RECORDS) else []

    def test_routes_move_to_tables_of_their_own_and_DEL_brings_them_back(self):
        pod, result = self.two()
        before = self.everything(pod)
        added = self.call("ADD", config(), pod, result)
        self.assertTrue(added.ok, added)
        self.assertEqual({k: v for k, v in added.json.items() if k != "dns"}, result)
        self.assertEqual(self.rules(pod), [("10.52.0.2", "100", PROTOCOL), ("fd00:52::2", "101", PROTOCOL)])
        self.assertEqual({route[2] for route in self.routes(pod)}, {"eth0"})
        moved = self.routes(pod, "100")
        self.assertIn(("default", "10.52.0.1", "net1", None, None, "None", None), moved)
        self.assertIn(("10.52.0.0/24", None, "net1", "10.52.0.2", None, "None", None), moved)
        self.assertIn(("10.99.0.0/16", "10.52.0.1", "net1", None, 52, "[{'mtu': 1400}]", None), moved)
        self.assertIn("fd00:52::/64", {route[0] for route in self.routes(pod, "101")})
        self.assertTrue(self.call("CHECK", config(), pod, result).ok)
        for _ in range(2):
            self.assertTrue(self.call("DEL", config(), pod).ok)
            self.assertEqual(self.everything(pod), before)
        self.assertEqual(self.records(), [])

    def test_each_source_leaves_by_its_own_gateway(self):
        pod, result = self.two()
        # Each gateway drops sources that are not of its network, as fabrics with reverse-path filters do.
        run("nft", "-f", "-", stdin="table inet t { chain c { type filter hook prerouting priority -300; }; }")
        self.addCleanup(run, "nft", "delete", "table", "inet", "t", check=False)
        for net in (51, 52):
            host = f"{pod.name[-8:]}-{net}"
            run("nft", "add", "rule", "inet", "t", "c", "iifname", host, "ip", "saddr", "!=", f"10.{net}.0.0/24", "drop")
            run("nft", "add", "rule", "inet", "t", "c", "iifname", host, "ip6", "saddr", f"fd00:{103 - net}::/64", "drop")
        run("ip", "-batch", "-", stdin="link set lo up\naddr add 192.0.2.1/32 dev lo\naddr add 2001:db8::1/128 dev lo nodad\n")
        self.addCleanup(run, "ip", "addr", "del", "192.0.2.1/32", "dev", "lo", check=False)
        self.addCleanup(run, "ip", "addr", "del", "2001:db8::1/128", "dev", "lo", check=False)

        def answers(source, target):
            return "1 received" in pod.run("ping", "-c1", "-W1", "-I", source, target, check=False)
        self.assertFalse(answers("10.52.0.2", "192.0.2.1"))
        self.assertTrue(self.call("ADD", config(), pod, result).ok)
        for source, target in (("10.51.0.2", "192.0.2.1"), ("10.52.0.2", "192.0.2.1"), ("fd00:51::2", "2001:db8::1"),
                               ("fd00:52::2", "2001:db8::1"), ("10.52.0.2", "10.52.0.1")):
            self.assertTrue(answers(source, target), (source, target))

    def test_repeated_ADD_changes_nothing(self):
        pod, result = self.two()
        before = self.everything(pod)
        self.assertTrue(self.call("ADD", config(), pod, result).ok)
        first = self.everything(pod)
        self.assertTrue(self.call("ADD", config(), pod, result).ok)
        self.assertEqual(self.everything(pod), first)
        self.assertTrue(self.call("DEL", config(), pod, result).ok)
        self.assertEqual(self.everything(pod), before)

    def test_tables_with_rules_or_routes_are_left_to_others(self):
        pod, result = self.two()
        pod.run("ip", "route", "add", "198.51.100.0/24", "dev", "eth0", "table", "100")
        pod.run("ip", "rule", "add", "from", "10.77.0.1", "lookup", "101")
        pod.run("ip", "-6", "route", "add", "2001:db8:7::/64", "dev", "eth0", "table", "103")
        before = self.everything(pod)
        self.assertTrue(self.call("ADD", config(), pod, result).ok)
        self.assertEqual([rule[1] for rule in self.rules(pod) if rule[2] == PROTOCOL], ["102", "104"])
        self.assertTrue(self.call("DEL", config(), pod).ok)
        self.assertEqual(self.everything(pod), before)

    def test_a_table_of_the_config_gets_rules_alone(self):
        pod, result = self.two()
        pod.run("ip", "rule", "add", "from", "10.52.0.2", "lookup", "5001")  # an operator's
        before = self.everything(pod)
        for _ in range(2):
            self.assertTrue(self.call("ADD", config(table=5000), pod, result).ok)
            self.assertEqual(self.routes(pod, "all"), before[2])
            self.assertEqual(len([rule for rule in self.rules(pod) if rule[1:] == ("5000", PROTOCOL)]), 2)
        self.assertTrue(self.call("CHECK", config(table=5000), pod, result).ok)
        self.assertTrue(self.call("DEL", config(table=5000), pod).ok)
        self.assertEqual(self.everything(pod), before)

    def test_a_gateway_outside_of_the_subnet_is_reached_over_the_link(self):
        pod, result = self.two()
        pod.run("ip", "route", "add", "169.254.1.1", "dev", "net1")
        pod.run("ip", "route", "add", "10.98.0.0/16", "via", "169.254.1.1", "dev", "net1")
        before = self.everything(pod)
        result["ips"] = [{"address": "10.52.0.2/32", "gateway": "169.254.1.1", "interface": 1}]
        added = self.call("ADD", config(), pod, result)
        self.assertTrue(added.ok, added)
        moved = {route[:3] for route in self.routes(pod, "100")}
        self.assertIn(("default", "169.254.1.1", "net1"), moved)
        self.assertIn(("10.98.0.0/16", "169.254.1.1", "net1"), moved)
        self.assertTrue(self.call("CHECK", config(), pod, result).ok)
        self.assertTrue(self.call("DEL", config(), pod).ok)
        self.assertEqual(self.everything(pod), before)

    def test_parallel_ADDs_of_one_pod_get_different_tables(self):
        pod = self.pod()
        results = {f"net{n}": self.attach(pod, f"net{n}", 60 + n) for n in range(12)}
        before = self.everything(pod)
        outcomes = finish_all([start("sbr", "ADD", config(prevResult=result), netns=pod.path, container=pod.name,
                                     ifname=ifname) for ifname, result in results.items()])
        self.assertEqual([outcome for outcome in outcomes if not outcome.ok], [])
        tables = [rule[1] for rule in self.rules(pod)]
        self.assertEqual(len(set(tables)), 24)
        for ifname, result in results.items():
            self.assertTrue(self.call("CHECK", config(), pod, result, ifname=ifname).ok)
        outcomes = finish_all([start("sbr", "DEL", config(), netns=pod.path, container=pod.name, ifname=ifname)
                               for ifname in results])
        self.assertEqual([outcome for outcome in outcomes if not outcome.ok], [])
        self.assertEqual(self.everything(pod), before)

    def test_CHECK_names_what_is_missing_and_REPAIR_makes_it_again(self):
        pod, result = self.two()
        self.assertTrue(self.call("ADD", config(), pod, result).ok)
        wanted = self.everything(pod)
        for command, text in ((("ip", "rule", "del", "from", "10.52.0.2"), "no rule from 10.52.0.2"),
                              (("ip", "route", "del", "default", "table", "100"), "table 100 of 10.52.0.2 has no default route"),
                              (("ip", "-6", "rule", "del", "from", "fd00:52::2"), "no rule from fd00:52::2")):
            pod.run(*command)
            checked = self.call("CHECK", config(), pod, result)
            self.assertIn(text, checked.json["msg"])
            repaired = self.call("REPAIR", config(), pod, result)
            self.assertTrue(repaired.ok, repaired)
            self.assertTrue(self.call("CHECK", config(), pod, result).ok)
        self.assertEqual(len(self.rules(pod)), len(wanted[0]))

    def test_REPAIR_fills_a_table_that_was_emptied(self):
        pod, result = self.two()
        before = self.everything(pod)
        self.assertTrue(self.call("ADD", config(), pod, result).ok)
        wanted = self.everything(pod)
        for family, table in (("-4", "100"), ("-6", "101")):
            pod.run("ip", family, "route", "flush", "table", table)
            self.assertIn(f"table {table} of", self.call("CHECK", config(), pod, result).json["msg"])
            repaired = self.call("REPAIR", config(), pod, result)
            self.assertTrue(repaired.ok, repaired)
            self.assertEqual(self.everything(pod), wanted)
            self.assertTrue(self.call("CHECK", config(), pod, result).ok)
        self.assertTrue(self.call("DEL", config(), pod).ok)
        self.assertEqual(self.everything(pod), before)

    def hops(self, pod, *selector):
        """Of default routes, each next hop: (gateway, interface)."""
        found = set()
        for family in ("-4", "-6"):
            for route in json.loads(pod.run("ip", "-j", family, "route", "show", "table", "all", "default") or "[]"):
                if (str(route.get("table", "main")),) != selector or route.get("type") == "unreachable":
                    continue
                found |= {(one.get("gateway"), one["dev"]) for one in route.get("nexthops") or [route]}
        return found

    def test_next_hops_of_the_interface_leave_multipath_routes_and_come_back(self):
        pod, result = self.two()
        pod.run("ip", "-6", "route", "append", "default", "via", "fd00:52::1", "dev", "net1")
        pod.run("ip", "-6", "route", "append", "2001:db8:5::/48", "via", "fd00:51::1", "dev", "eth0", "mtu", "1400")
        pod.run("ip", "-6", "route", "append", "2001:db8:5::/48", "via", "fd00:52::1", "dev", "net1", "mtu", "1400")
        pod.run("ip", "route", "add", "198.51.100.0/24", "nexthop", "via", "10.51.0.1", "weight", "3",
                "nexthop", "via", "10.52.0.1")
        main = {("10.51.0.1", "eth0"), ("fd00:51::1", "eth0")}
        before = self.hops(pod, "main")
        self.assertEqual(before, main | {("fd00:52::1", "net1")}, "the kernel made it one route")
        added = self.call("ADD", config(), pod, result)
        self.assertTrue(added.ok, added)
        self.assertEqual(self.hops(pod, "main"), main)
        self.assertEqual(self.hops(pod, "100") | self.hops(pod, "101"),
                         {("10.52.0.1", "net1"), ("fd00:52::1", "net1")})
        main_routes = pod.run("ip", "route") + pod.run("ip", "-6", "route")
        self.assertIn("198.51.100.0/24 via 10.51.0.1 dev eth0", main_routes)
        self.assertIn("2001:db8:5::/48 via fd00:51::1 dev eth0", main_routes)
        self.assertNotIn("net1", main_routes.replace("fe80::/64 dev net1", ""))
        self.assertIn("198.51.100.0/24 via 10.52.0.1 dev net1", pod.run("ip", "route", "show", "table", "100"))
        self.assertIn("2001:db8:5::/48 via fd00:52::1 dev net1", pod.run("ip", "-6", "route", "show", "table", "101"))
        self.assertTrue(self.call("CHECK", config(), pod, result).ok)
        # By another program, after ADD: half of the connections would leave by another interface again.
        pod.run("ip", "-6", "route", "append", "default", "via", "fd00:51::9", "dev", "eth0", "table", "101")
        self.assertEqual(self.call("CHECK", config(), pod, result).json["msg"],
                         "table 101 of fd00:52::2 has another default route via fd00:51::9")
        repaired = self.call("REPAIR", config(), pod, result)
        self.assertTrue(repaired.ok, repaired)
        self.assertTrue(self.call("CHECK", config(), pod, result).ok)
        self.assertEqual(self.hops(pod, "101"), {("fd00:52::1", "net1")})
        pod.run("ip", "-6", "route", "add", "fd00:52::/64", "dev", "net1")
        pod.run("ip", "-6", "route", "append", "default", "via", "fd00:52::1", "dev", "net1")
        self.assertEqual(self.call("CHECK", config(), pod, result).json["msg"],
                         "the main table has a default route via fd00:52::1 on 'net1'")
        self.assertTrue(self.call("REPAIR", config(), pod, result).ok)
        self.assertEqual(self.hops(pod, "main"), main)
        self.assertTrue(self.call("DEL", config(), pod).ok)
        self.assertEqual(self.hops(pod, "main"), before)
        shown = pod.run("ip", "route", "show", "198.51.100.0/24") + pod.run("ip", "-6", "route", "show", "2001:db8:5::/48")
        for gateway in ("10.51.0.1", "10.52.0.1", "fd00:51::1", "fd00:52::1"):
            self.assertIn(f"via {gateway} ", shown)

    def test_routes_by_nexthop_objects_move_as_far_as_they_lead_by_the_interface(self):
        pod, result = self.two()
        pod.run("ip", "-batch", "-", stdin="nexthop add id 1 via 10.51.0.1 dev eth0\nnexthop add id 2 via 10.52.0.1 dev net1\n"
                "nexthop add id 3 group 1/2\nroute add 198.51.100.0/24 nhid 2\nroute add 203.0.113.0/24 nhid 3\n"
                "nexthop add id 11 via fd00:51::1 dev eth0\nnexthop add id 12 via fd00:52::1 dev net1\n"
                "nexthop add id 13 group 11/12\n")
        pod.run("ip", "-6", "route", "add", "2001:db8:7::/48", "nhid", "13")
        added = self.call("ADD", config(), pod, result)
        self.assertTrue(added.ok, added)
        main = pod.run("ip", "route") + pod.run("ip", "-6", "route")
        self.assertNotIn("net1", main.replace("fe80::/64 dev net1", ""))
        self.assertIn("203.0.113.0/24 via 10.51.0.1 dev eth0", main)
        self.assertIn("2001:db8:7::/48 via fd00:51::1 dev eth0", main)
        own = pod.run("ip", "route", "show", "table", "100") + pod.run("ip", "-6", "route", "show", "table", "101")
        for route in ("198.51.100.0/24 via 10.52.0.1 dev net1", "203.0.113.0/24 via 10.52.0.1 dev net1",
                      "2001:db8:7::/48 via fd00:52::1 dev net1"):
            self.assertIn(route, own)
        self.assertTrue(self.call("DEL", config(), pod).ok)
        self.assertIn("net1", pod.run("ip", "route", "show", "198.51.100.0/24"))

    def test_the_table_has_one_default_route_by_the_gateway_of_the_result(self):
        pod, result = self.two()
        for family, gateway in (("-4", "10.52.0.9"), ("-6", "fd00:52::9")):
            pod.run("ip", family, "route", "append", "default", "via", gateway, "dev", "net1")
        before = self.rules(pod), self.hops(pod, "main")
        for _ in range(2):
            added = self.call("ADD", config(), pod, result)
            self.assertTrue(added.ok, added)
            self.assertEqual(self.hops(pod, "100") | self.hops(pod, "101"),
                             {("10.52.0.1", "net1"), ("fd00:52::1", "net1")})
            self.assertEqual(self.hops(pod, "main"), {("10.51.0.1", "eth0"), ("fd00:51::1", "eth0")})
            self.assertTrue(self.call("CHECK", config(), pod, result).ok)
        self.assertTrue(self.call("DEL", config(), pod).ok)
        self.assertEqual((self.rules(pod), self.hops(pod, "main")), before)

    def test_gateways_of_the_config_take_the_place_of_the_results(self):
        pod, result = self.two()
        before = self.everything(pod)
        del result["ips"][1]["gateway"]
        conf = config(gateways=["10.52.0.7", "fd00:52::7"])
        for _ in range(2):
            self.assertTrue(self.call("ADD", conf, pod, result).ok)
            self.assertEqual(self.hops(pod, "100") | self.hops(pod, "101"),
                             {("10.52.0.7", "net1"), ("fd00:52::7", "net1")})
            self.assertTrue(self.call("CHECK", conf, pod, result).ok)
        self.assertFalse(self.call("CHECK", config(), pod, result).ok, "the result's gateway is another")
        pod.run("ip", "route", "del", "default", "table", "100")
        self.assertIn("has no default route via 10.52.0.7", self.call("CHECK", conf, pod, result).json["msg"])
        self.assertTrue(self.call("REPAIR", conf, pod, result).ok)
        self.assertTrue(self.call("CHECK", conf, pod, result).ok)
        self.assertTrue(self.call("DEL", conf, pod).ok)
        self.assertEqual(self.everything(pod), before)

    def test_a_gateway_of_one_family_leaves_the_result_the_other(self):
        pod, result = self.two()
        self.assertTrue(self.call("ADD", config(gateways=["fd00:52::7"]), pod, result).ok)
        self.assertEqual(self.hops(pod, "100") | self.hops(pod, "101"), {("10.52.0.1", "net1"), ("fd00:52::7", "net1")})

    def test_source_hints_keep_the_subnets_in_the_main_table(self):
        pod, result = self.two()
        before = self.everything(pod)
        conf = config(addSourceHints=True)
        for _ in range(2):
            added = self.call("ADD", conf, pod, result)
            self.assertTrue(added.ok, added)
            self.assertEqual({route[:4] for route in self.routes(pod) if route[2] == "net1"},
                             {("10.52.0.0/24", None, "net1", "10.52.0.2"), ("fd00:52::/64", None, "net1", "fd00:52::2")})
            self.assertIn(("default", "10.52.0.1", "net1"), {route[:3] for route in self.routes(pod, "100")})
            self.assertTrue(self.call("CHECK", conf, pod, result).ok)
        # A process that chooses no source reaches the subnet, from the address that has the rule.
        self.assertIn("src 10.52.0.2", pod.run("ip", "route", "get", "10.52.0.1"))
        self.assertIn("src fd00:52::2", pod.run("ip", "-6", "route", "get", "fd00:52::1"))
        self.assertIn("1 received", pod.run("ping", "-c1", "-w5", "fd00:52::1", check=False))
        for family, subnet in (("-4", "10.52.0.0/24"), ("-6", "fd00:52::/64")):
            pod.run("ip", family, "route", "del", subnet, "dev", "net1")
            self.assertEqual(self.call("CHECK", conf, pod, result).json["msg"],
                             f"the main table has no route to {subnet} with a source address on 'net1'")
            repaired = self.call("REPAIR", conf, pod, result)
            self.assertTrue(repaired.ok, repaired)
            self.assertTrue(self.call("CHECK", conf, pod, result).ok)
        for _ in range(2):
            self.assertTrue(self.call("DEL", conf, pod).ok)
            self.assertEqual(self.everything(pod), before)

    def link_local(self, ifname, pod=None):
        """The address of a link of the node or of a pod, once it can be used."""
        def usable():
            link, = json.loads((pod.run if pod else run)("ip", "-j", "-6", "addr", "show", "dev", ifname))
            return [one["local"] for one in link.get("addr_info", []) if one["scope"] == "link" and not one.get("tentative")]
        self.assertTrue(wait_for(usable), ifname)
        return usable()[0]

    def routes_of_link_local(self, pod):
        """The tables with a route to link-local neighbours of net1."""
        routes = json.loads(pod.run("ip", "-j", "-6", "route", "show", "table", "all", "dev", "net1"))
        return sorted(str(one.get("table", "main")) for one in routes
                      if one["dst"] == "fe80::/64" and one.get("type", "unicast") == "unicast")

    @suite.cases(rows([("alone", {}), ("with source hints", {"addSourceHints": True})]))
    def link_local_neighbours_are_reached_and_reach_the_pod(self, row):
        pod, result = self.two()
        host, conf = f"{pod.name[-8:]}-52", config(**row[0])
        theirs, own = self.link_local(host), self.link_local("net1", pod)
        for _ in range(2):
            self.assert_ok(self.call("ADD", conf, pod, result))
            self.assertIn("1 received", pod.run("ping", "-c1", "-w5", f"{theirs}%net1", check=False))
            self.assertIn("1 received", pod.run("ping", "-c1", "-w5", "-I", "fd00:52::2", f"{theirs}%net1", check=False))
            self.assertIn("1 received", run("ping", "-c1", "-w5", f"{own}%{host}", check=False))
            self.assertEqual(self.routes_of_link_local(pod), ["101", "main"])
            self.assert_ok(self.call("CHECK", conf, pod, result))
        self.assert_ok(self.call("DEL", conf, pod))
        self.assertEqual(self.routes_of_link_local(pod), ["main"])

    def test_REPAIR_restores_the_route_to_link_local_neighbours_that_an_earlier_version_moved(self):
        pod, result = self.two()
        self.link_local("net1", pod)
        self.assert_ok(self.call("ADD", config(), pod, result))
        pod.run("ip", "-6", "route", "del", "fe80::/64", "dev", "net1", "table", "main")
        self.assert_error(self.call("CHECK", config(), pod, result), 999, "no route to link-local neighbours on 'net1'")
        self.assert_ok(self.call("REPAIR", config(), pod, result))
        self.assertEqual(self.routes_of_link_local(pod), ["101", "main"])
        self.assert_ok(self.call("CHECK", config(), pod, result))
        self.assert_ok(self.call("DEL", config(), pod))
        self.assertEqual(self.routes_of_link_local(pod), ["main"])

    def test_an_address_of_the_interface_that_has_no_rule_reaches_its_subnet(self):
        pod, result = self.two()
        run("ip", "addr", "add", "2001:db8:52::1/64", "dev", f"{pod.name[-8:]}-52", "nodad")
        pod.run("ip", "addr", "add", "2001:db8:52::2/64", "dev", "net1", "nodad")  # as by a router advertisement
        wait_for(lambda: "2001:db8:52::/64" in pod.run("ip", "-6", "route", "show", "dev", "net1"))
        before = self.everything(pod)
        self.assert_ok(self.call("ADD", config(), pod, result))
        self.assertEqual({route[0] for route in self.routes(pod) if route[2] == "net1"}, {"2001:db8:52::/64"})
        self.assertIn("1 received", pod.run("ping", "-c1", "-w5", "2001:db8:52::1", check=False))
        self.assert_ok(self.call("CHECK", config(), pod, result))
        self.assert_ok(self.call("DEL", config(), pod))
        self.assertEqual(self.everything(pod), before)

    def test_DEL_without_namespace_creates_no_file_and_one_that_comes_late_touches_no_other_pod(self):
        pod, result = self.two()
        self.assertTrue(self.call("ADD", config(), pod, result).ok)
        for path in ("", "/run/netns/absent"):
            self.assertTrue(self.call("DEL", config(), pod, result, netns=path, container="another").ok)
            self.assertFalse(os.path.exists("/run/netns/absent"))
        other, theirs = self.two()
        self.assertTrue(self.call("ADD", config(), other, theirs).ok)
        before = self.everything(other)
        late = self.call("DEL", config(), pod, result, netns=other.path)
        self.assertTrue(late.ok, late)
        self.assertEqual(self.everything(other), before)
        self.assertEqual(len(self.records()), 1)

    @suite.cases(rows([("with prevResult", True), ("without prevResult", False)]))
    def DEL_that_is_repeated_removes_no_rule_of_a_container_that_has_the_path_by_then(self, row):
        pod, result = self.two()
        self.assertTrue(self.call("ADD", config(), pod, result).ok)
        other, theirs = self.two()  # whose rules are of the reference plugin, and nobody on the node knows
        other.run("ip", "rule", "add", "from", "10.52.0.2", "lookup", "100")
        before = self.everything(other)
        for _ in range(2):
            late = self.call("DEL", config(), pod, result if row[0] else None, netns=other.path)
            self.assertTrue(late.ok, late)
            self.assertEqual(self.everything(other), before)
        self.assertTrue(self.call("DEL", config(), other, theirs).ok)
        self.assertEqual(self.rules(other), [])

    def test_DEL_removes_the_rules_of_an_interface_that_is_gone(self):
        pod, result = self.two()
        self.assertTrue(self.call("ADD", config(), pod, result).ok)
        pod.run("ip", "link", "del", "net1")
        self.assertTrue(self.call("DEL", config(), pod).ok)
        self.assertEqual(self.rules(pod), [])

    def test_DEL_passes_over_routes_whose_gateway_the_pod_made_unreachable(self):
        pod, result = self.two()
        self.assert_ok(self.call("ADD", config(), pod, result))
        pod.run("ip", "route", "del", "10.52.0.0/24", "dev", "net1", "table", "100")
        self.assertIn("10.52.0.1", pod.run("ip", "route", "show", "table", "100"))
        self.assert_ok(self.call("DEL", config(), pod, result))
        self.assertEqual(self.rules(pod), [])
        self.assertEqual(pod.run("ip", "route", "show", "table", "100", check=False), "")

    def test_DEL_restores_no_route_and_removes_no_rule_that_it_did_not_make(self):
        pod, result = self.two()
        before = self.everything(pod)
        self.assertTrue(self.call("ADD", config(), pod, result).ok)
        pod.run("ip", "-batch", "-", stdin="route add 198.51.100.0/24 dev eth0 table 100\n"
                "route add 203.0.113.0/24 via 10.52.0.1 dev net1 table 100\nroute del 10.99.0.0/16 table 100\n"
                "rule add from 10.52.0.2 lookup 100 pref 50\nrule add from 10.52.0.2 lookup 7 pref 51 protocol 67\n")
        self.assertTrue(self.call("DEL", config(), pod).ok)
        self.assertEqual({route[0] for route in self.routes(pod, "100")}, {"198.51.100.0/24", "203.0.113.0/24"})
        self.assertEqual(sorted(self.rules(pod)), [("10.52.0.2", "100", "0"), ("10.52.0.2", "7", PROTOCOL)])
        self.assertEqual(before[1] - self.routes(pod), {route for route in before[1] if route[0] == "10.99.0.0/16"
                                                        and route[2] == "net1"})
        self.assertEqual(self.routes(pod) - before[1], set())

    def test_DEL_is_not_held_up_by_thousands_of_routes_and_rules_of_the_pod(self):
        pod, result = self.two()
        before = self.everything(pod)
        self.assertTrue(self.call("ADD", config(), pod, result).ok)
        made = [f"{n // 250}.{n % 250}" for n in range(2000)]
        pod.run("ip", "-batch", "-", stdin="".join(f"route add 198.18.{one} dev net1 table 100 proto 67\n"
                                                   f"rule add from 198.19.{one} lookup 7\n" for one in made))
        self.assertTrue(self.call("DEL", config(), pod).ok)
        self.assertEqual(self.routes(pod, "100"), set())
        self.assertEqual(self.routes(pod), before[1])
        self.assertEqual(len(self.rules(pod)), len(before[0]) + len(made))

    def test_64_interfaces_at_once_share_no_table(self):
        pod = self.pod()
        results = {}
        batch = ["link set lo up"]
        for n in range(64):
            batch += [f"link add net{n} type veth peer name far{n}", f"link set far{n} up", f"link set net{n} up",
                      f"addr add 10.60.{n}.2/24 dev net{n}"]
            results[f"net{n}"] = {"cniVersion": "1.1.0", "interfaces": [{"name": f"net{n}", "sandbox": pod.path}],
                                  "ips": [{"address": f"10.60.{n}.2/24", "gateway": f"10.60.{n}.1", "interface": 0}]}
        pod.run("ip", "-batch", "-", stdin="\n".join(batch) + "\n")
        outcomes = finish_all([start("sbr", "ADD", config(prevResult=result), netns=pod.path, container=pod.name,
                                     ifname=ifname) for ifname, result in results.items()])
        self.assertEqual([str(outcome) for outcome in outcomes if not outcome.ok], [])
        rules = {source: table for source, table, _ in self.rules(pod)}
        self.assertEqual(sorted(map(int, rules.values())), list(range(100, 164)))
        for n in range(64):
            shown = pod.run("ip", "route", "show", "table", rules[f"10.60.{n}.2"])
            self.assertIn(f"default via 10.60.{n}.1 dev net{n}", shown)

    def test_GC_removes_what_is_not_listed(self):
        pods = [self.two() for _ in range(2)]
        before = self.everything(pods[0][0])
        for pod, result in pods:
            self.assertTrue(self.call("ADD", config(), pod, result).ok)
        valid = [{"containerID": pods[1][0].name, "ifname": "net1"}]
        self.assertTrue(cni("sbr", "GC", config()).ok)
        self.assertEqual(len(self.records()), 2)
        self.assertTrue(cni("sbr", "GC", config() | {"cni.dev/valid-attachments": valid}).ok)
        self.assertEqual(self.everything(pods[0][0]), before)
        self.assertEqual(len(self.rules(pods[1][0])), 2)
        self.assertEqual(len(self.records()), 1)

    @suite.cases(rows([("no addresses", {"ips": []}, 999, "No IP addresses supplied on interface: net1"),
                       ("addresses of another interface", {"other": True}, 999, "No IP addresses supplied"),
                       ("two gateways of a family", {"gateways": ["10.52.0.1", "fd00::1", "10.52.0.9"]}, 7, "gateways[2]"),
                       ("a gateway of zeros", {"gateways": ["::"]}, 7, "gateways[0]"),
                       ("a table and gateways", {"table": 5, "gateways": ["10.52.0.1"]}, 7, "gateways"),
                       ("a table and source hints", {"table": 5, "addSourceHints": True}, 7, "addSourceHints"),
                       ("an interface that is missing", {"gone": True}, 999, "Cannot find network interface net1")]))
    def bad_input_with(self, row):
        keys, code, text = row
        pod, result = self.two()
        if "ips" in keys:
            result["ips"] = []
        if "other" in keys:
            result["interfaces"][1]["name"] = "eth0"
        if "gone" in keys:
            pod.run("ip", "link", "del", "net1")
        before = self.everything(pod)
        conf = config(prevResult=result) | {k: v for k, v in keys.items() if k not in ("ips", "other", "gone")}
        failed = self.call("ADD", conf, pod)
        self.assertEqual(failed.json["code"], code, failed)
        self.assertIn(text, failed.json["msg"])
        self.assertEqual(self.everything(pod), before)
        self.assertEqual(self.records(), [])

    def test_failed_ADD_leaves_everything_as_it_was(self):
        pod, result = self.two()
        before = self.everything(pod)
        for when in range(8, 40, 3):
            failed = self.call("ADD", config(), pod, result, wrap=[
                "strace", "-qq", "-o", "/dev/null", "-e", f"inject=sendmsg:error=ENOBUFS:when={when}"])
            if not failed.ok:
                self.assertEqual((when, self.everything(pod)), (when, before))
                self.assertEqual(self.records(), [])
            self.assertTrue(self.call("DEL", config(), pod).ok)

    def test_both_plugins_make_the_same(self):
        if not os.path.exists(f"{REFERENCE}/sbr"):
            self.skipTest("the reference plugins are not installed")
        seen = []
        for directory in (OURS, REFERENCE):
            pod, result = self.two()
            added = self.call("ADD", config("1.0.0"), pod, result | {"cniVersion": "1.0.0"}, directory=directory)
            self.assertTrue(added.ok, added)
            seen.append(([rule[:2] for rule in self.rules(pod)], self.routes(pod),
                         # The reference copies routes of IPv6 to tables of IPv4 addresses, too.
                         {route[:3] for route in self.routes(pod, "100") if ":" not in route[0]},
                         {route[:3] for route in self.routes(pod, "101")}))
        self.assertEqual(seen[0], seen[1])

    @suite.cases(rows([("ours", OURS, REFERENCE), ("the reference's", REFERENCE, OURS)]))
    def rules_are_removed_by_the_other_plugin_that_are(self, row):
        first, second = row
        if not os.path.exists(f"{REFERENCE}/sbr"):
            self.skipTest("the reference plugins are not installed")
        pod, result = self.two()
        result["cniVersion"] = "1.0.0"
        self.assertTrue(self.call("ADD", config("1.0.0"), pod, result, directory=first).ok)
        self.assertEqual(len(self.rules(pod)), 2)
        deleted = self.call("DEL", config("1.0.0"), pod, result, directory=second)
        self.assertTrue(deleted.ok, deleted)
        self.assertEqual(self.rules(pod), [])


if __name__ == "__main__":
    suite.main(needs=("ping", "nft"), per_processor=2)
