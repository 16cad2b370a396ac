#!/usr/bin/env python3
"""macvlan: who reaches whom in which mode, whose MAC address it is, and which duplicates it finds."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.segment import (MASTER, NEIGHBOUR_MAC, V4, V6, SegmentTest, addresses, data_of,  # noqa: E402
                             links, static)
from support.snapshot import snapshot  # noqa: E402
from support.world import run, wait_for  # noqa: E402

MAC, OTHER_MAC = "02:00:5e:10:20:30", "02:00:5e:10:20:31"
LEASES = "/var/lib/cni/networks/net1"


class MacvlanTest(SegmentTest):
    plugin = "macvlan"

    def two(self, **more):
        pods = self.pod(), self.pod()
        return pods, [self.add(pod, **more) for pod in pods]


@suite.spread
class Traffic(MacvlanTest):
    @suite.cases([(mode, mode) for mode in ("bridge", "private", "vepa")])
    def pods_and_the_neighbour_outside_reach_each_other_in_mode(self, mode):
        (one, two), results = self.two(mode=mode)
        for pod, result in zip((one, two), results):
            self.assertEqual(data_of(pod)["mode"], mode)
            self.assert_reaches(pod, V4, V6)
            self.assert_reaches(self.outside, *addresses(result))
        between = self.assert_reaches if mode == "bridge" else self.assert_does_not_reach
        between(one, *addresses(results[1]))
        between(two, *addresses(results[0]))

    def test_pods_of_vepa_reach_each_other_by_way_of_a_switch_that_reflects(self):
        self.outside.run("ip", "-batch", "-", stdin="link add br0 type bridge\nlink set br0 up\n"
                         "link set up0 master br0\nlink set up0 type bridge_slave hairpin on\n")
        (one, two), results = self.two(mode="vepa")
        self.assert_reaches(one, *addresses(results[1]))
        self.assert_reaches(two, *addresses(results[0]))

    def test_passthru_gives_the_pod_the_master_and_its_mac_address(self):
        pod = self.pod()
        result = self.add(pod, mode="passthru")
        self.assertEqual(result["interfaces"][0]["mac"], links()[MASTER]["address"])
        self.assert_reaches(pod, V4, V6)
        self.assert_reaches(self.outside, *addresses(result))
        second = self.pod()
        error = self.assert_error(self.call("ADD", second, self.conf(mode="passthru")))
        self.assertIn("passthru is for one interface alone", error["details"])
        self.assertEqual(links(second).keys(), {"lo"})
        self.delete(pod)
        self.assert_same(self.empty, ignore=self.not_of_this_test)

    def test_passthru_with_a_mac_address_changes_the_masters_until_DEL(self):
        pod = self.pod()
        result = self.add(pod, mode="passthru", runtimeConfig={"mac": MAC})
        self.assertEqual((result["interfaces"][0]["mac"], links(pod)["eth0"]["address"]), (MAC, MAC))
        self.assertEqual(links()[MASTER]["address"], MAC)
        self.assert_reaches(pod, V4, V6)
        self.delete(pod)
        self.assert_same(self.empty, ignore=self.not_of_this_test)

    def test_source_receives_from_the_allowed_alone(self):
        stranger = self.pod("stranger")
        self.outside.run("ip", "link", "add", "other0", "link", "up0", "address", OTHER_MAC, "netns",
                         stranger.name, "type", "macvlan", "mode", "bridge")
        strange = "10.1.2.250", "fd00:1:2::250"
        self.neighbour("other0", *strange, pod=stranger)
        usual, pod = self.pod(), self.pod()
        self.assert_reaches(stranger, *addresses(self.add(usual)))
        result = self.add(pod, mode="source", allowedMACs=[NEIGHBOUR_MAC])
        self.assertEqual(data_of(pod)["macaddr_data"], [NEIGHBOUR_MAC])
        self.assert_reaches(self.outside, *addresses(result))
        self.assert_reaches(pod, V4, V6)
        self.assert_does_not_reach(stranger, *addresses(result))
        self.assert_does_not_reach(pod, *strange)

    def test_neighbours_that_know_an_address_learn_which_pod_has_it_now(self):
        # How long an entry is not changed again (arp(7)).
        self.outside.run("sysctl", "-qw", "net.ipv4.neigh.up0.locktime=0")
        ipam = static("10.1.2.9/24", "fd00:1:2::9/64")

        def known():
            return {one.get("lladdr") for one in json.loads(self.outside.run("ip", "-j", "neigh"))
                    if one["dst"] in ("10.1.2.9", "fd00:1:2::9")}
        for number in range(3):
            pod = self.pod()
            result = self.add(pod, ipam=ipam)
            if number == 0:
                self.assert_reaches(self.outside, *addresses(result))
            mac = result["interfaces"][0]["mac"]
            self.assertTrue(wait_for(lambda: known() == {mac}), (mac, known()))
            self.delete(pod, ipam=ipam)

    def test_the_master_may_be_in_the_pod(self):
        pod = self.pod()
        run("ip", "link", "set", MASTER, "netns", pod.name)
        pod.run("ip", "link", "set", MASTER, "up")
        result = self.add(pod, linkInContainer=True)
        self.assert_reaches(self.outside, *addresses(result))
        self.assert_ok(self.check(pod, result, linkInContainer=True))
        self.delete(pod, linkInContainer=True)
        self.assertEqual(links(pod).keys(), {"lo", MASTER})

    def test_a_macvlan_may_be_the_master(self):
        run("ip", "link", "add", "upper0", "link", MASTER, "type", "macvlan", "mode", "bridge")
        pod = self.pod()
        result = self.add(pod, master="upper0")
        self.assert_reaches(pod, V4, V6)
        self.assert_ok(self.check(pod, result, master="upper0"))


@suite.spread
class Settings(MacvlanTest):
    @suite.cases([("with a gateway of IPv4", ["route add default via 10.9.0.2 dev {} metric 50",
                                              "route add default via 10.8.0.2 dev side0 metric 100"]),
                  ("of IPv4 before IPv6", ["-6 route add default dev side0 metric 1",
                                           "route add default via 10.9.0.2 dev {} metric 50"]),
                  ("of IPv6 alone", ["-6 route add default dev {}"]),
                  ("of table main alone", ["route add default via 10.8.0.2 dev side0 table 9 metric 1",
                                           "route add unreachable default metric 1",
                                           "route add default dev {} metric 50"])])
    def without_master_it_is_the_link_of_the_default_route(self, routes):
        run("ip", "-batch", "-", stdin="link add side0 type veth peer name side1\nlink set side0 up\n"
            f"link set side1 up\naddr add 10.8.0.1/24 dev side0\naddr add 10.9.0.1/24 dev {MASTER}\n")
        for route in routes:
            run("ip", *route.format(MASTER).split())
        pod = self.pod()
        result = self.add(pod, master=None)
        self.assertEqual(links(pod)["eth0"]["link_index"], links()[MASTER]["ifindex"])
        self.assert_ok(self.check(pod, result, master=None))
        self.assert_ok(self.call("STATUS", pod, self.conf(master=None)))
        run("ip", "route", "flush", "table", "main")
        run("ip", "-6", "route", "flush", "table", "main")
        self.assert_ok(self.check(pod, result, master=None))
        self.delete(pod, master=None)

    def test_an_alternative_name_of_the_master_is_as_good(self):
        run("ip", "link", "property", "add", "dev", MASTER, "altname", "enp193s0f0np0d1v17")
        pod = self.pod()
        result = self.add(pod, master="enp193s0f0np0d1v17")
        self.assert_ok(self.check(pod, result, master="enp193s0f0np0d1v17"))

    @suite.cases([("mac", ({"mac": MAC}, "", MAC)),
                  ("CNI_ARGS", ({"mac": OTHER_MAC}, f"IgnoreUnknown=1;MAC={MAC}", MAC)),
                  ("runtimeConfig", ({"mac": OTHER_MAC, "RuntimeConfig": {"MAC": MAC}},
                                     f"IgnoreUnknown=1;MAC={OTHER_MAC}", MAC))])
    def the_mac_address_is_from(self, row):
        more, args, mac = row
        pod = self.pod()
        result = self.assert_ok(self.call("ADD", pod, self.conf(**more), args=args))
        self.assertEqual((result["interfaces"][0]["mac"], links(pod)["eth0"]["address"]), (mac, mac))

    def test_mtu_and_bcqueuelen_are_set(self):
        run("ip", "link", "set", MASTER, "mtu", "1450")
        (one, two), _ = self.two()
        self.assertEqual([links(pod)["eth0"]["mtu"] for pod in (one, two)], [1450, 1450])
        pod = self.pod()
        self.add(pod, mtu=1400, bcqueuelen=2000)
        self.assertEqual((links(pod)["eth0"]["mtu"], data_of(pod)["bcqueuelen"]), (1400, 2000))

    def test_without_ipam_the_interface_is_up_without_addresses(self):
        pod = self.pod()
        result = self.add(pod, ipam={}, mac=MAC)
        self.assertEqual(result, {"cniVersion": "1.1.0", "interfaces": [
            {"mac": MAC, "name": "eth0", "sandbox": pod.path}]})
        self.assertIn("UP", links(pod)["eth0"]["flags"])
        self.assert_ok(self.check(pod, result, ipam={}))

    @suite.cases([(version, version) for version in ("0.1.0", "0.2.0")])
    def nothing_is_left_of_layer_2_where_a_result_needs_an_address_in(self, version):
        pod = self.pod()
        conf = self.conf(ipam=None, cniVersion=version)
        self.assert_refused(self.call("ADD", pod, conf), None, "cannot convert: no valid IP addresses", pod)

    def test_the_dns_is_that_of_the_config(self):
        ipam = static("10.1.2.9/24", dns={"nameservers": ["192.0.2.1"]})
        self.assertNotIn("dns", self.add(self.pod(), ipam=ipam))
        dns = {"nameservers": ["192.0.2.53"], "search": ["a.test"]}
        self.assertEqual(self.add(self.pod(), ipam=static("10.1.2.10/24"), dns=dns)["dns"], dns)


#: What a config may have that CHECK compares, what is changed then, and what the error says.
CHANGED = [
    ("mode", {"mode": "bridge"}, {"mode": "vepa"},
     "container macvlan mode bridge does not match expected value: vepa"),
    ("mtu", {"mtu": 1400}, {"mtu": 1300}, "MTU 1400, the config has 1300"),
    ("bcqueuelen", {"bcqueuelen": 2000}, {"bcqueuelen": 3000}, "bcqueuelen"),
    ("allowedMACs", {"mode": "source", "allowedMACs": [MAC]},
     {"mode": "source", "allowedMACs": [MAC, OTHER_MAC]}, "allowedMACs"),
    ("the master", {}, {"master": "side0"}, "another link than master 'side0'"),
    ("a master that is gone", {}, {"master": "gone0"}, 'Link not found master: "gone0"'),
    ("the place of the master", {}, {"linkInContainer": True, "master": None}, "no link of the pod"),
]


@suite.spread
class Lifecycle(MacvlanTest):
    @suite.cases([(row[0], row[1:]) for row in CHANGED])
    def CHECK_notices(self, row):
        first, second, says = row
        run("ip", "link", "add", "side0", "type", "veth")
        pod = self.pod()
        result = self.add(pod, **first)
        self.assert_ok(self.check(pod, result, **first))
        self.assert_error(self.check(pod, result, **(first | second)), msg=says)

    @suite.cases([("bridge", "bridge"), ("private", "private")])
    def ADD_says_which_MAC_address_is_in_use_and_who_has_it_in_mode(self, mode):
        self.add(self.pod(), runtimeConfig={"mac": MAC}, mode=mode)
        run("ip", "link", "add", "own0", "link", MASTER, "address", OTHER_MAC, "type", "macvlan", "mode", mode)
        run("ip", "link", "set", "own0", "up")
        for mac, who in ((links()[MASTER]["address"], f"link '{MASTER}'"), (OTHER_MAC, "link 'own0'"),
                         (MAC, f"the interface of another pod on '{MASTER}'")):
            for keys, args in (({"mac": mac}, ""), ({"runtimeConfig": {"mac": mac}}, ""), ({}, f"IgnoreUnknown=1;MAC={mac}"),
                               ({"mac": mac, "ipam": {}}, "")):
                pod = self.pod()
                before = snapshot()
                error = self.assert_error(self.call("ADD", pod, self.conf(mode=mode, **keys), args=args), 999)
                self.assertTrue(error["msg"].endswith(": address already in use"), error)
                self.assertIn(f"the MAC address {mac} is in use: {who} has it", error["details"])
                self.assertEqual(links(pod).keys(), {"lo"})
                self.assert_same(before, ignore=self.not_of_this_test)
        run("ip", "link", "del", "own0")

    def test_CHECK_notices_an_interface_of_the_same_index_in_the_pod(self):
        """A macvlan on a link of the pod whose index is the master's."""
        pod = self.pod()
        result = self.add(pod)
        index, mac = links()[MASTER]["ifindex"], result["interfaces"][0]["mac"]
        pod.run("ip", "-batch", "-", stdin="link del eth0\n"
                f"link add own0 index {index + 40} type veth peer name own1 index {index}\n"
                f"link set own0 up\nlink set own1 up\n"
                f"link add eth0 link own1 address {mac} type macvlan mode bridge\n"
                "link set eth0 up\naddr add 10.1.2.2/24 dev eth0\naddr add fd00:1:2::2/64 dev eth0 nodad\n"
                "route add default via 10.1.2.1\nroute add default via fd00:1:2::1\n")
        self.assertEqual(links(pod)["eth0"]["link"], "own1")
        self.assert_error(self.check(pod, result), msg="another link than master")

    def test_STATUS_says_that_the_master_is_missing(self):
        self.assert_ok(self.call("STATUS", self.outside, self.conf()))
        for more, says in (({"master": "gone0"}, '"gone0": Link not found'),
                           ({"master": None}, "no default route interface found"),
                           ({"mtu": 9000}, "invalid MTU 9000, must be [0, master MTU(1500)]")):
            self.assert_error(self.call("STATUS", self.outside, self.conf(**more)), 50, says)
            self.assert_ok(self.call("STATUS", self.outside, self.conf(linkInContainer=True, **more)))

    @suite.cases([("with prevResult", True), ("without", False)])
    def DEL_after_the_master_went_releases_the_addresses(self, prev):
        pod = self.pod()
        result = self.add(pod)
        run("ip", "link", "del", MASTER)
        for _ in range(2):
            self.delete(pod, **({"prevResult": result} if prev else {}))
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
        pod_of_two = links(two)["eth0"]["ifalias"]
        one.run("ip", "link", "set", "eth0", "alias", pod_of_two)
        self.delete(one)
        self.assertEqual(links(one).keys(), {"lo", "eth0"})

    def test_two_attachments_of_a_pod_are_removed_one_by_one(self):
        pod = self.pod()
        self.add(pod)
        self.assert_ok(self.call("ADD", pod, self.conf(), ifname="net1"))
        self.delete(pod)
        self.assertEqual(links(pod).keys(), {"lo", "net1"})
        removed = self.call("DEL", pod, self.conf(), ifname="net1")
        self.assertEqual(removed.status, 0, str(removed))
        self.assertEqual(links(pod).keys(), {"lo"})

    def test_64_at_once(self):
        pods = [self.pod() for _ in range(64)]
        results = [self.assert_ok(outcome) for outcome in self.together("ADD", pods, self.conf())]
        self.assertEqual(len({result["interfaces"][0]["mac"] for result in results}), 64)
        self.assertEqual(len({address for result in results for address in addresses(result)}), 128)
        self.assert_reaches(pods[0], *addresses(results[63]))
        self.assert_reaches(self.outside, *addresses(results[31]))
        for outcome in self.together("DEL", pods, self.conf()):
            self.assertEqual((outcome.status, outcome.stdout), (0, ""), str(outcome))
        self.assertEqual({name for pod in pods for name in links(pod)}, {"lo"})
        self.assert_same(self.empty, ignore=self.not_of_this_test)


@suite.spread
class Duplicates(MacvlanTest):
    @suite.cases([(address, address) for address in ("10.1.2.9", "fd00:1:2::9")])
    def are_refused_with_their_owner_of(self, address):
        self.neighbour("up0", address)
        self.empty = snapshot()
        pod = self.pod()
        ipam = static("10.1.2.8/24", "10.1.2.9/24", "fd00:1:2::9/64")
        error = self.assert_error(self.call("ADD", pod, self.conf(enabledad=True, ipam=ipam)), 999, address)
        self.assertIn(NEIGHBOUR_MAC, error["msg"])
        self.assertEqual(links(pod).keys(), {"lo"})
        self.assert_same(self.empty, ignore=self.not_of_this_test)
        self.add(pod, ipam=ipam)  # off by default

    def test_of_another_pod_are_refused_too(self):
        one, two = self.pod(), self.pod()
        result = self.add(one, ipam=static("10.1.2.9/24"))
        error = self.assert_error(self.call("ADD", two, self.conf(enabledad=True, ipam=static("10.1.2.9/24"))))
        self.assertIn(result["interfaces"][0]["mac"], error["msg"])
        self.assert_reaches(self.outside, "10.1.2.9")

    def test_of_two_that_begin_at_once_not_both_get_it(self):
        pods = self.pod(), self.pod()
        conf = self.conf(enabledad=True, ipam=static("10.1.2.9/24"))
        outcomes = self.together("ADD", pods, conf)
        failed = [outcome for outcome in outcomes if not outcome.ok]
        self.assertGreaterEqual(len(failed), 1)
        for outcome in failed:
            self.assert_error(outcome, 999, "10.1.2.9")

    def test_without_one_the_addresses_are_usable_at_once(self):
        pod = self.pod()
        result = self.add(pod, enabledad=True)
        tentative = [one for one in links(pod)["eth0"]["addr_info"]
                     if one["scope"] == "global" and (one.get("tentative") or one.get("dadfailed"))]
        self.assertEqual(tentative, [])
        self.assert_reaches(pod, V4, V6)
        self.assert_reaches(self.outside, *addresses(result))
        self.assert_ok(self.check(pod, result, enabledad=True))


#: name, code, what the error says, what is different in the config; CNI_ARGS. Others:
#: tests/conformance/interface_errors_test.py.
BAD = [
    ("a mode that is none", 7, 'unknown macvlan mode: "x"', {"mode": "x"}, ""),
    ("a master with a long name", 7, "Link not found", {"master": "m" * 300}, ""),
    ("a master that is no Ethernet device", 999, "failed to create macvlan", {"master": "lo"}, ""),
    ("a master in the pod that is on the node", 7, "Link not found", {"linkInContainer": True}, ""),
    ("unknown CNI_ARGS", 4, "FOO=1", {}, "FOO=1"),
    ("the MAC address of the master", 999, "address already in use", {"mac": "MASTER"}, ""),
    ("a route that cannot be", 999, "", {"ipam": static("10.1.2.9/24", routes=[
        {"dst": "10.9.0.0/16", "gw": "10.8.8.8"}])}, ""),
]


@suite.spread
class BadInput(MacvlanTest):
    @suite.cases([(row[0], row[1:]) for row in BAD])
    def refused(self, row):
        code, says, more, args = row
        more = {key: links()[MASTER]["address"] if value == "MASTER" else value for key, value in more.items()}
        pod = self.pod()
        self.assert_refused(self.call("ADD", pod, self.conf(**more), args=args), code, says, pod)

    # Of ipam the IPAM plugin decides.
    @suite.cases([(row[0], row[1:]) for row in BAD if not row[3].get("ipam")])
    def DEL_succeeds_with(self, row):
        _, _, more, args = row
        pod = self.pod()
        self.add(pod)
        removed = self.call("DEL", pod, self.conf(**more), args=args)
        self.assertEqual((removed.status, removed.stdout), (0, ""), str(removed))
        self.assertEqual(links(pod).keys(), {"lo"})


if __name__ == "__main__":
    suite.main(needs=("ping",), per_processor=2)
