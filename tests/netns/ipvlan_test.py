#!/usr/bin/env python3
"""ipvlan: who reaches whom in which mode, what is left of a chain's result, and what other pods of a
master change.

Where the kernel has no ipvlan, this runs under another kernel: scripts/vm.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import guest, suite  # noqa: E402
from support.configs import lack  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.segment import MASTER, V4, V6, SegmentTest, addresses, data_of, links, static  # noqa: E402
from support.world import run  # noqa: E402

LEASES = "/var/lib/cni/networks/net1"
#: A subnet that is not the segment's: in modes l3 and l3s the node is a router.
ROUTED = {"type": "host-local", "ranges": [[{"subnet": "10.5.0.0/24"}], [{"subnet": "fd00:5::/64"}]],
          "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}
ROUTES = ("10.5.0.0/24", "fd00:5::/64")


class IpvlanTest(SegmentTest):
    plugin = "ipvlan"

    def two(self, **more):
        pods = self.pod(), self.pod()
        return pods, [self.add(pod, **more) for pod in pods]

    def route_to_pods(self):
        """The neighbour sends what is for the routed subnets to the master, whose MAC address the pods
        have; the node's own addresses do not matter."""
        mac = links()[MASTER]["address"]
        for subnet, hop in zip(ROUTES, ("10.1.2.99", "fd00:1:2::99")):
            self.outside.run("ip", "neigh", "add", hop, "lladdr", mac, "dev", "up0")
            self.outside.run("ip", "route", "add", subnet, "via", hop)
        run("ip", "-batch", "-", stdin=f"addr add 10.1.2.98/24 dev {MASTER}\n"
            f"addr add fd00:1:2::98/64 dev {MASTER} nodad\n")


@suite.spread
class Traffic(IpvlanTest):
    @suite.cases([(flags, flags) for flags in ("bridge", "private", "vepa")])
    def pods_and_the_neighbour_outside_reach_each_other_in_l2_with_flags(self, flags):
        (one, two), results = self.two(flags=flags)
        mac = links()[MASTER]["address"]
        for pod, result in zip((one, two), results):
            self.assertEqual(data_of(pod)["mode"], "l2")
            self.assertEqual(result["interfaces"][0]["mac"], mac)
            self.assert_reaches(pod, V4, V6)
            self.assert_reaches(self.outside, *addresses(result))
        between = self.assert_reaches if flags == "bridge" else self.assert_does_not_reach
        between(one, *addresses(results[1]))
        between(two, *addresses(results[0]))

    @suite.cases([(mode, mode) for mode in ("l3", "l3s")])
    def pods_are_routed_in_mode(self, mode):
        self.route_to_pods()
        (one, two), results = self.two(mode=mode, ipam=ROUTED)
        for pod, result in zip((one, two), results):
            self.assertEqual(data_of(pod)["mode"], mode)
            self.assert_reaches(pod, V4, V6)
            self.assert_reaches(self.outside, *addresses(result))
        self.assert_reaches(one, *addresses(results[1]))
        self.assert_reaches(two, *addresses(results[0]))

    def test_mode_l3_with_flags_private_isolates_the_pods(self):
        self.route_to_pods()
        (one, two), results = self.two(mode="l3", flags="private", ipam=ROUTED)
        self.assert_reaches(one, V4, V6)
        self.assert_does_not_reach(one, *addresses(results[1]))
        self.assert_does_not_reach(two, *addresses(results[0]))

    def test_pods_of_mode_l3_ask_for_no_neighbours(self):
        (one, two), results = self.two(mode="l3", ipam=ROUTED)
        for pod, other in ((one, results[1]), (two, results[0])):
            self.assertIn("NOARP", links(pod)["eth0"]["flags"])
            self.assert_reaches(pod, *addresses(other))
            self.assertEqual(pod.run("ip", "neigh"), "")

    @suite.cases([(f"{mode}, {what}", (mode, ipam)) for mode in ("l3", "l3s") for what, ipam in (
        ("of a route", static("10.5.0.9/32", routes=[{"dst": "0.0.0.0/0", "gw": "10.9.9.9"}])),
        ("of the address", {"type": "static", "addresses": [
            {"address": "10.5.0.9/32", "gateway": "10.9.9.9"}], "routes": [{"dst": "0.0.0.0/0"}]}))])
    def a_gateway_that_is_not_on_the_link_does_no_harm_in(self, row):
        mode, ipam = row
        self.route_to_pods()
        pod = self.pod()
        result = self.add(pod, mode=mode, ipam=ipam)
        self.assertIn("10.9.9.9", str(result), "the result is as it was given")
        self.assert_reaches(pod, V4)
        self.assert_ok(self.check(pod, result, mode=mode, ipam=ipam))

    def test_a_gateway_that_is_in_no_subnet_is_refused_in_l2(self):
        pod = self.pod()
        ipam = static("10.5.0.9/24", routes=[{"dst": "0.0.0.0/0", "gw": "10.9.9.9"}])
        self.assert_refused(self.call("ADD", pod, self.conf(ipam=ipam)), 999, "add route", pod)

    def test_the_master_may_be_in_the_pod(self):
        pod = self.pod()
        run("ip", "link", "set", MASTER, "netns", pod.name)
        pod.run("ip", "link", "set", MASTER, "up")
        result = self.add(pod, linkInContainer=True)
        self.assert_reaches(self.outside, *addresses(result))
        self.assert_ok(self.check(pod, result, linkInContainer=True))
        self.delete(pod, linkInContainer=True)
        self.assertEqual(links(pod).keys(), {"lo", MASTER})

    def test_an_ipvlan_may_be_the_master(self):
        run("ip", "link", "add", "upper0", "link", MASTER, "type", "ipvlan", "mode", "l2")
        pod = self.pod()
        result = self.add(pod, master="upper0")
        self.assert_reaches(pod, V4, V6)
        self.assert_ok(self.check(pod, result, master="upper0"))


def before(**more):
    """What a plugin said that made the master, as the reference plugin's test has it."""
    return {"interfaces": [{"name": MASTER}], "routes": [],
            "ips": [{"version": "4", "address": "10.1.2.9/24", "interface": 0}]} | more


@suite.spread
class Chain(IpvlanTest):
    def test_addresses_and_master_are_those_of_prevResult(self):
        pod = self.pod()
        result = self.add(pod, master=None, ipam=None, prevResult=before())
        self.assertEqual([one["name"] for one in result["interfaces"]], [MASTER, "eth0"])
        self.assertEqual(result["ips"], [{"address": "10.1.2.9/24", "interface": 1}])
        self.assert_reaches(pod, V4)
        for master in (None, MASTER):
            self.assert_ok(self.check(pod, result, ipam=None, master=master))
        self.delete(pod, master=None, ipam=None, prevResult=result)
        self.assertEqual(links(pod).keys(), {"lo"})

    def test_routes_of_prevResult_are_the_interfaces(self):
        pod = self.pod()
        routes = [{"dst": "0.0.0.0/0", "gw": V4}]
        result = self.add(pod, master=None, ipam=None, prevResult=before(routes=routes))
        self.assertEqual(result["routes"], routes)
        self.assertIn(f"default via {V4} dev eth0", pod.run("ip", "route"))

    def test_with_an_IPAM_plugin_the_addresses_of_others_stay_theirs(self):
        pod = self.pod()
        result = self.add(pod, prevResult=before(ips=[{"address": "192.0.2.9/24", "interface": 0}]))
        self.assertEqual([one["name"] for one in result["interfaces"]], [MASTER, "eth0"])
        self.assertEqual([(one["address"], one["interface"]) for one in result["ips"]],
                         [("192.0.2.9/24", 0), ("10.1.2.2/24", 1), ("fd00:1:2::2/64", 1)])
        own = [one["local"] for one in links(pod)["eth0"]["addr_info"] if one["scope"] == "global"]
        self.assertEqual(own, addresses(result)[1:])
        self.assert_ok(self.check(pod, result))

    @suite.cases([("none", []), ("two", [{"name": MASTER}, {"name": "other0"}]), ("one without a name", [{}])])
    def a_master_cannot_be_found_among(self, row):
        pod = self.pod()
        conf = self.conf(master=None, ipam=None, prevResult=before(interfaces=row, ips=[
            {"address": "10.1.2.9/24"}]))
        outcome = self.call("ADD", pod, conf, documented=False)
        self.assert_error(outcome)
        if row != [{}]:
            self.assert_error(outcome, 7, "chained master failure. PrevResult lacks a single named interface")
        self.assertEqual(links(pod).keys(), {"lo"})

    def test_without_IPAM_and_addresses_it_is_an_error(self):
        pod = self.pod()
        for more in ({}, {"prevResult": before(ips=[])}):
            self.assert_refused(self.call("ADD", pod, self.conf(ipam=None, **more)), 7,
                                "no plugin name provided", pod)


#: What CHECK compares: the config of ADD, what is different then, and what the error says.
CHANGED = [
    ("mode", {"mode": "l2"}, {"mode": "l3"}, "Container IPVlan mode l2 does not match expected value: l3"),
    ("flags", {"flags": "vepa"}, {"flags": "private"}, "flags"),
    ("mtu", {"mtu": 1400}, {"mtu": 1300}, "MTU 1400, the config has 1300"),
    ("the master", {}, {"master": "side0"}, "another link than master 'side0'"),
    ("a master that is gone", {}, {"master": "gone0"}, 'failed to lookup master "gone0": Link not found'),
    ("the place of the master", {}, {"linkInContainer": True, "master": None}, "no link of the pod"),
]


@suite.spread
class Lifecycle(IpvlanTest):
    @suite.cases([(row[0], row[1:]) for row in CHANGED])
    def CHECK_notices(self, row):
        first, second, says = row
        run("ip", "link", "add", "side0", "type", "veth")
        pod = self.pod()
        result = self.add(pod, **first)
        self.assert_ok(self.check(pod, result, **first))
        self.assert_error(self.check(pod, result, **(first | second)), msg=says)

    def test_CHECK_notices_that_another_network_of_the_master_changed_the_mode(self):
        one, two = self.pod(), self.pod()
        result = self.add(one)
        self.add(two, name="net2", mode="l3", ipam=static("10.5.0.9/32"))
        self.assert_error(self.check(one, result), msg="Container IPVlan mode l3 does not match")

    def test_STATUS_says_that_the_master_is_missing(self):
        self.assert_ok(self.call("STATUS", self.outside, self.conf()))
        for more, says in (({"master": "gone0"}, '"gone0": Link not found'),
                           ({"master": None}, "no default route interface found"),
                           ({"mtu": 9000}, "invalid MTU 9000, must be [0, master MTU(1500)]")):
            self.assert_error(self.call("STATUS", self.outside, self.conf(**more)), 50, says)
            self.assert_ok(self.call("STATUS", self.outside, self.conf(linkInContainer=True, **more)))
        self.assert_ok(self.call("STATUS", self.outside, self.conf(master=None, ipam=None)))

    def test_without_master_it_is_the_link_of_the_default_route(self):
        run("ip", "route", "add", "default", "dev", MASTER)
        pod = self.pod()
        result = self.add(pod, master=None)
        run("ip", "route", "flush", "table", "main")
        self.assert_ok(self.check(pod, result, master=None))
        self.delete(pod, master=None)
        self.assertEqual(links(pod).keys(), {"lo"})

    @suite.cases([("with prevResult", True), ("without", False)])
    def DEL_after_the_master_went_releases_the_addresses(self, prev):
        pod = self.pod()
        result = self.add(pod)
        run("ip", "link", "del", MASTER)
        for _ in range(2):
            self.delete(pod, master=None, **({"prevResult": result} if prev else {}))
        self.assertEqual([name for name in os.listdir(LEASES) if name[0].isdigit()], [])

    def test_DEL_finds_what_the_pod_renamed_and_whose_alias_it_changed(self):
        pod = self.pod()
        result = self.add(pod)
        pod.run("ip", "-batch", "-", stdin="link set eth0 down\nlink set eth0 name other alias none\n")
        self.delete(pod)  # by nothing that the node knows
        self.assertEqual(links(pod).keys(), {"lo", "other"})
        self.delete(pod, prevResult=result)
        self.assertEqual(links(pod).keys(), {"lo"})

    def test_DEL_leaves_an_interface_with_the_alias_of_another_attachment(self):
        one, two = self.pod(), self.pod()
        self.add(one)
        self.add(two)
        one.run("ip", "link", "set", "eth0", "alias", links(two)["eth0"]["ifalias"])
        self.delete(one)
        self.assertEqual(links(one).keys(), {"lo", "eth0"})

    def test_an_address_that_another_pod_of_the_master_has_is_refused(self):
        one, two = self.pod(), self.pod()
        self.add(one, ipam=static("10.1.2.9/24"))
        self.assert_error(self.call("ADD", two, self.conf(ipam=static("10.1.2.9/24"))), msg="10.1.2.9")
        self.assertEqual(links(two).keys(), {"lo"})
        self.assert_reaches(self.outside, "10.1.2.9")

    def test_64_at_once(self):
        pods = [self.pod() for _ in range(64)]
        results = [self.assert_ok(outcome) for outcome in self.together("ADD", pods, self.conf())]
        self.assertEqual(len({address for result in results for address in addresses(result)}), 128)
        self.assert_reaches(pods[0], *addresses(results[63]))
        self.assert_reaches(self.outside, *addresses(results[31]))
        for outcome in self.together("DEL", pods, self.conf()):
            self.assertEqual((outcome.status, outcome.stdout), (0, ""), str(outcome))
        self.assertEqual({name for pod in pods for name in links(pod)}, {"lo"})
        self.assert_same(self.empty, ignore=self.not_of_this_test)


#: name, code, what the error says, what is different in the config. Others: tests/conformance/interface_errors_test.py.
BAD = [
    ("a mode that is none", 7, 'unknown ipvlan mode: "x"', {"mode": "x"}),
    ("a master that is no Ethernet device", 999, "failed to create ipvlan", {"master": "lo"}),
    ("a master in the pod that is on the node", 7, "Link not found", {"linkInContainer": True}),
]


@suite.spread
class BadInput(IpvlanTest):
    @suite.cases([(row[0], row[1:]) for row in BAD])
    def refused(self, row):
        code, says, more = row
        pod = self.pod()
        self.assert_refused(self.call("ADD", pod, self.conf(**more)), code, says, pod)

    @suite.cases([(row[0], row[1:]) for row in BAD])
    def DEL_succeeds_with(self, row):
        pod = self.pod()
        self.add(pod)
        removed = self.call("DEL", pod, self.conf(**row[2]))
        self.assertEqual((removed.status, removed.stdout), (0, ""), str(removed))
        self.assertEqual(links(pod).keys(), {"lo"})

    def test_a_master_with_a_macvlan_is_busy(self):
        run("ip", "link", "add", "mac0", "link", MASTER, "type", "macvlan")
        pod = self.pod()
        error = self.assert_error(self.call("ADD", pod, self.conf()), 999, "busy")
        self.assertIn("may be no Ethernet device, or have a macvlan", error["details"])
        self.assertEqual(links(pod).keys(), {"lo"})


if __name__ == "__main__":
    if os.path.isdir(OURS):
        guest.enter_unless(lambda: not lack("ipvlan"), "this kernel has no ipvlan")
    suite.main(needs=("ping",), sampled_in_guest=True)
