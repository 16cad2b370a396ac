#!/usr/bin/env python3
"""ptp: routes and addresses on both sides, traffic in all directions, what CHECK notices and REPAIR
restores, masquerading that goes in every situation. What every interface plugin owes is in
interface_test.py, bad input in bad_input_test.py."""

import itertools
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from interface_test import SITUATIONS  # noqa: E402
from support import hostport, suite  # noqa: E402
from support.hostport import NODE, OUTSIDE, SECOND, Server, Site  # noqa: E402
from support.plugin import cni, finish, start  # noqa: E402
from support.snapshot import left_by_design, pod_snapshot, snapshot  # noqa: E402
from support.world import run  # noqa: E402

RANGES = [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]]
DEFAULT = [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]
LINK_LOCAL = ["169.254.1.1", "fe80::1"]
COUNT = 64


def config(version="1.1.0", **more):
    return {"cniVersion": version, "name": "net1", "type": "ptp",
            "ipam": {"type": "host-local", "ranges": RANGES, "routes": DEFAULT}} | more


def static(*addresses, routes=()):
    """Each address alone, or with its gateway."""
    entries = [{"address": one} if isinstance(one, str) else dict(zip(("address", "gateway"), one))
               for one in addresses]
    return config(ipam={"type": "static", "addresses": entries, "routes": list(routes)})


def addresses(result):
    return [ip["address"].split("/")[0] for ip in result["ips"]]


def gateways(result):
    return [ip["gateway"] for ip in result["ips"]]


def host_veth(result):
    return result["interfaces"][0]["name"]


def routes(family, device, pod=None):
    """The main table as ip(8) shows it, without the kernel's link-local routes."""
    at = ("-n", pod.name) if pod else ()
    found = json.loads(run("ip", *at, "-j", f"-{family}", "route", "show", "dev", device))
    return [" ".join(f"{key} {one[key]}" for key in ("dst", "gateway", "scope", "prefsrc", "metric")
                     if key in one) for one in found if one["dst"] != "fe80::/64"]


def addresses_of(link):
    """Of a link of the node, as ip(8) shows them, without link-local ones of the kernel."""
    found = json.loads(run("ip", "-j", "address", "show", "dev", link))[0]["addr_info"]
    return {f"{one['local']}/{one['prefixlen']}": one for one in found}


class PtpTest(suite.NodeTest):
    def call(self, verb, pod, conf=None, **more):
        return cni("ptp", verb, conf or config(), **({"netns": pod.path, "container": pod.name} | more))

    def add(self, pod, conf=None, **more):
        return self.assert_ok(self.call("ADD", pod, conf, **more))

    def assert_answers(self, pod, *there):
        """One echo request is answered; pod is None for the node. The kernel joins the solicited-node group of an
        IPv6 address in a worker that needs RTNL, which the removal of other namespaces holds: the first neighbour
        solicitation may be lost, and the next comes after a second. netns.lifecycle runs alone and does not wait."""
        for address in there:
            words = ("ping", "-c1", "-w5", address)
            said = pod.run(*words, check=False) if pod else run(*words, check=False)
            self.assertIn("1 received", said, f"{pod and pod.name} asks {address}")


@suite.spread
class Routes(PtpTest):
    def test_a_pod_has_the_routes_and_the_node_those_to_it(self):
        pod = self.pod()
        link = host_veth(self.add(pod))
        self.assertEqual(routes(4, "eth0", pod), [
            "dst default gateway 10.1.0.1", "dst 10.1.0.0/24 gateway 10.1.0.1 prefsrc 10.1.0.2",
            "dst 10.1.0.1 scope link prefsrc 10.1.0.2"])
        self.assertEqual(sorted(routes(6, "eth0", pod)), [
            "dst default gateway fd00:1::1 metric 1024",
            "dst fd00:1::/64 gateway fd00:1::1 prefsrc fd00:1::2 metric 1024",
            "dst fd00:1::1 prefsrc fd00:1::2 metric 1024"])
        self.assertEqual(routes(4, link), ["dst 10.1.0.2 scope host"])
        self.assertIn("dst fd00:1::2 metric 1024", routes(6, link))

    def test_the_host_veth_is_named_after_its_owner_and_has_the_gateway_at_once(self):
        pod = self.pod()
        link = host_veth(self.add(pod))
        shown, = json.loads(run("ip", "-j", "-d", "link", "show", link))
        self.assertRegex(link, "^veth[0-9a-f]{8}$")
        self.assertIn(f"net: net1, if: eth0, id: {pod.name}", shown["ifalias"])
        found = addresses_of(link)
        self.assertLessEqual({"10.1.0.1/32", "fd00:1::1/128"}, found.keys())
        self.assertEqual([name for name, one in found.items() if "tentative" in one], [])
        for name, at in ((link, None), ("eth0", pod)):
            words = ("cat", f"/proc/sys/net/ipv6/conf/{name}/accept_ra")
            self.assertEqual((at.run(*words) if at else run(*words)).strip(), "0", name)

    def test_the_MTU_is_that_of_both(self):
        pod = self.pod()
        result = self.add(pod, config(mtu=1400))
        for at, name in (((), host_veth(result)), (("-n", pod.name), "eth0")):
            self.assertEqual(json.loads(run("ip", *at, "-j", "link", "show", name))[0]["mtu"], 1400)

    @suite.cases([
        ("no gateway", (("10.1.0.7/24", "fd00:1::7/64"), ["10.1.0.1", "fd00:1::1"])),
        ("one address alone", (("10.1.0.7/32", "fd00:1::7/128"), LINK_LOCAL)),
        ("the first host of the subnet", (("10.1.0.1/24", "fd00:1::1/64"), LINK_LOCAL)),
        ("an address of two", (("10.1.0.7/31", "fd00:1::7/127"), ["10.1.0.6", "fd00:1::6"])),
        ("one address alone and a gateway elsewhere",
         ((("10.1.0.7/32", "10.9.9.9"), ("fd00:1::7/128", "fd00:9::9")), ["10.9.9.9", "fd00:9::9"])),
        ("a gateway that is link-local", ((("10.1.0.7/24", "169.254.7.7"), ("fd00:1::7/64", "fe80::7")),
                                          ["169.254.7.7", "fe80::7"])),
        ("two addresses with one gateway", ((("10.1.0.7/24", "10.1.0.1"), ("10.1.0.8/24", "10.1.0.1"),
                                             ("fd00:1::7/64", "fd00:1::1"), ("fd00:1::8/64", "fd00:1::1")),
                                            ["10.1.0.1"] * 2 + ["fd00:1::1"] * 2)),
        ("two gateways in one subnet", ((("10.1.0.7/24", "10.1.0.1"), ("10.1.0.8/24", "10.1.0.9"),
                                         ("fd00:1::7/64", "fd00:1::1"), ("fd00:1::8/64", "fd00:1::9")),
                                        ["10.1.0.1", "10.1.0.9", "fd00:1::1", "fd00:1::9"])),
        ("three subnets", (("10.1.0.7/24", "10.2.0.7/16", "fd00:1::7/64", "fd00:2::7/66"),
                           ["10.1.0.1", "10.2.0.1", "fd00:1::1", "fd00:2::1"]))])
    def traffic_passes_with(self, row):
        given, expected = row
        conf = static(*given, routes=DEFAULT)
        empty = snapshot()
        pod, other = self.pod(), self.pod()
        self.add(other, config(name="net2", ipam={"type": "host-local", "routes": DEFAULT, "ranges": [
            [{"subnet": "10.8.0.0/24"}], [{"subnet": "fd00:8::/64"}]]}))
        result = self.add(pod, conf)
        self.assertEqual(gateways(result), expected)
        self.assertEqual(result["routes"], DEFAULT)
        for gateway in expected:
            self.assert_answers(pod, f"{gateway}%eth0" if gateway.startswith("fe80") else gateway)
        self.assert_answers(None, *addresses(result))
        self.assert_answers(other, *addresses(result))
        self.assert_answers(pod, "10.8.0.2", "fd00:8::2")
        self.assert_ok(self.call("CHECK", pod, conf | {"prevResult": result}))
        self.assert_ok(self.call("DEL", pod, conf))
        self.assert_ok(self.call("DEL", other, config(name="net2")))
        self.assert_same(empty, ignore=lambda place: left_by_design(place) or "run/netns" in place)

    def test_a_route_of_IPAM_to_the_subnet_stays_as_it_is(self):
        pod = self.pod()
        conf = static(("10.1.0.7/24", "10.1.0.1"), ("fd00:1::7/64", "fd00:1::1"), routes=[
            {"dst": "10.1.0.0/24"}, {"dst": "fd00:1::/64"}, {"dst": "10.7.0.0/16", "priority": 7},
            {"dst": "10.6.6.6/32"}])
        result = self.add(pod, conf)
        found = routes(4, "eth0", pod) + routes(6, "eth0", pod)
        for wanted in ("dst 10.1.0.0/24 gateway 10.1.0.1", "dst 10.6.6.6 gateway 10.1.0.1",
                       "dst 10.7.0.0/16 gateway 10.1.0.1 metric 7",
                       "dst fd00:1::/64 gateway fd00:1::1 metric 1024"):
            self.assertEqual(found.count(wanted), 1, found)
        self.assertEqual(sum("10.1.0.0/24" in one for one in found), 1)
        self.assert_ok(self.call("CHECK", pod, conf | {"prevResult": result}))

    def test_two_networks_of_a_pod_do_not_disturb_each_other(self):
        pod = self.pod()
        result = self.add(pod)
        middle = snapshot(), pod_snapshot(pod)
        other = config(name="net2", ipam={"type": "host-local", "subnet": "10.2.0.0/24"})
        second = self.add(pod, other, ifname="net1")
        self.assert_answers(None, *addresses(result), *addresses(second))
        self.assert_ok(self.call("CHECK", pod, config() | {"prevResult": result}))
        self.assert_ok(self.call("DEL", pod, other, ifname="net1"))
        self.assert_same(middle[0], ignore=left_by_design)
        self.assert_same(middle[1], pod_snapshot(pod))


@suite.spread
class Refused(PtpTest):
    @suite.cases([("IPv4", "10.1.0.7/24"), ("IPv6", "fd00:1::7/64")])
    def an_address_that_the_node_routes_to_another_pod(self, address):
        """The reference goes on, and the pod is without network."""
        first, second = self.pod(), self.pod()
        result = self.add(first, static(address))
        before = snapshot(), pod_snapshot(first), pod_snapshot(second)
        error = self.assert_error(self.call("ADD", second, static(address)), 999, host_veth(result))
        self.assertIn(address.split("/")[0], error["msg"])
        self.assert_same(before[0])
        self.assert_same(before[1], pod_snapshot(first))
        self.assert_same(before[2], pod_snapshot(second))
        self.assert_answers(None, *addresses(result))

    @suite.cases([("IPv4", "10.1.0.7/24"), ("IPv6", "fd00:1::7/64")])
    def a_gateway_that_is_the_pods_own_address(self, address):
        pod = self.pod()
        own = address.split("/", maxsplit=1)[0]
        before = snapshot()
        self.assert_error(self.call("ADD", pod, static((address, own))), 999, f"gateway {own}")
        self.assert_same(before)

    def test_an_IPv6_address_where_the_node_has_IPv6_disabled(self):
        pod = self.pod()
        for scope in ("all", "default"):
            run("sysctl", "-qw", f"net.ipv6.conf.{scope}.disable_ipv6=1")
        before = snapshot()
        self.assert_error(self.call("ADD", pod), 999, "IPv6 is disabled")
        self.assert_same(before, ignore=left_by_design)
        self.add(pod, config(ipam={"type": "host-local", "subnet": "10.1.0.0/24"}))


@suite.spread
class Masquerade(PtpTest):
    """A host outside that knows no way back to the pods' subnets."""

    @suite.cases([(backend, backend) for backend in ("nftables", "iptables")])
    def all_ways(self, backend):
        site = Site()
        for family in ("-4", "-6"):  # what has no NAT is lost outside
            site.outside.run("ip", family, "route", "del", "default")
        one, two = self.pod(), self.pod()
        conf = config(ipMasq=True, ipMasqBackend=backend)
        for pod in (one, two):
            self.add(pod, conf)
        Server(self, "outside", (7000,), site.outside, protocols=("tcp", "udp"))
        Server(self, "two", (7000,), two, protocols=("tcp",))
        Server(self, "node", (7000,), None, protocols=("tcp",))
        for family, own, there in ((4, "10.1.0.2", "10.1.0.3"), (6, "fd00:1::2", "fd00:1::3")):
            for protocol in ("tcp", "udp"):
                said = hostport.ask_one(one, protocol, OUTSIDE[family], 7000)
                self.assertIn(said, [f"outside 7000 {node[family]}" for node in (NODE, SECOND)])
            self.assertEqual(hostport.ask_one(one, "tcp", there, 7000), f"two 7000 {own}")
            self.assertEqual(hostport.ask_one(one, "tcp", NODE[family], 7000), f"node 7000 {own}")
            self.assertTrue(hostport.ask_one(None, "tcp", there, 7000).startswith("two 7000 "))

    @suite.cases([(f"{backend}, {name}, {how}", (backend, act, options, how))
                  for backend, (name, act, options), how in itertools.product(
                      ("nftables", "iptables"), SITUATIONS,
                      ("with prevResult", "from the config", "with ipMasq false"))
                  if (backend, how) != ("iptables", "with ipMasq false") or name == "as usual"])
    def nothing_is_left_of(self, row):
        backend, act, options, how = row
        self.conf = config(ipMasq=True, ipMasqBackend=backend)
        empty = snapshot()
        self.one = pod = self.pod()
        result = self.add(pod, self.conf)
        act(self)
        if how == "with prevResult":
            self.conf |= {"prevResult": result}
        if how == "with ipMasq false":
            self.conf |= {"ipMasq": False}
        for _ in range(2):
            self.assert_ok(self.call("DEL", pod, self.conf, **options))
        self.assert_same(empty, ignore=lambda place: left_by_design(place) or "run/netns" in place)

    def test_rules_that_iptables_restore_has_added_again_are_found(self):
        """They have other handles, and the jumps come before the pod's chain."""
        conf = config(ipMasq=True, ipMasqBackend="iptables")
        empty = snapshot()
        pod = self.pod()
        conf |= {"prevResult": self.add(pod, conf)}
        for iptables in ("iptables", "ip6tables"):
            run("sh", "-c", f"{iptables}-save -t nat >/run/nat && {iptables}-restore /run/nat")
        self.assert_ok(self.call("CHECK", pod, conf))
        self.assert_ok(self.call("DEL", pod, conf))
        self.assert_same(empty, ignore=lambda place: left_by_design(place) or "run/netns" in place or place == "file/run/nat")

    @suite.cases([(backend, backend) for backend in ("nftables", "iptables")])
    def GC_leaves_exactly_the_listed(self, backend):
        conf = config(ipMasq=True, ipMasqBackend=backend)
        keep, lost, elsewhere = self.pod(), self.pod(), self.pod()
        other = conf | {"name": "net2", "ipam": {"type": "host-local", "subnet": "10.2.0.0/24"}}
        result = self.add(keep, conf)
        self.add(elsewhere, other)
        self.add(lost, conf)  # what is left is what its DEL leaves
        self.assert_ok(self.call("DEL", lost, conf))
        before = snapshot()
        self.add(lost, conf)
        self.assert_ok(self.call("GC", lost, conf | {"cni.dev/valid-attachments": [
            {"containerID": keep.name, "ifname": "eth0"}]}))
        self.assert_same(before, ignore=lambda place: "last_reserved" in place or ".owners/seen" in place)
        self.assert_answers(None, *addresses(result), "10.2.0.2")
        for broken in ("all", [{"containerID": "x"}], [None]):
            self.assert_error(self.call("GC", lost, conf | {"cni.dev/valid-attachments": broken}), 7)
        self.assert_answers(None, *addresses(result))


#: What somebody breaks, what CHECK says about it, and whether REPAIR restores it.
MUTATIONS = [
    ("the host veth down", "ip link set {port} down", "'{port}' is down", True),
    ("the gateways address", "ip addr del 10.1.0.1/32 dev {port}", "gateway address 10.1.0.1/32", True),
    ("the gateways IPv6 address", "ip addr del fd00:1::1/128 dev {port}", "fd00:1::1/128", True),
    ("the route to the pod", "ip route del 10.1.0.2", "no route to 10.1.0.2", True),
    ("the IPv6 route to the pod", "ip -6 route del fd00:1::2", "no route to fd00:1::2", True),
    ("a route that leads elsewhere",
     "ip link add br9 up type bridge; ip route replace 10.1.0.2/32 dev br9", "to 'br9'", False),
    ("a route of several hops",
     "ip link add br9 up type bridge; ip route replace 10.1.0.2 nexthop dev br9 nexthop dev {port}",
     "no route to 10.1.0.2 on '{port}'", False),
    ("the pods address on the node", "ip addr add 10.1.0.2/32 dev lo", "node itself has the address",
     False),
    ("forwarding", "sysctl -qw net.ipv4.ip_forward=0", "net/ipv4/ip_forward is 0", True),
    ("IPv6 forwarding", "sysctl -qw net.ipv6.conf.all.forwarding=0", "ipv6/conf/all/forwarding is 0",
     True),
    ("the masquerading", "nft flush map inet patchbay_masquerade pods4", "no element", True),
    ("all rules", "nft flush ruleset", "asquerad", True),
    ("everything on the node", "ip link set {port} down; nft flush ruleset; "
     "sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0", "is down", True),
    ("the host veths MTU", "ip link set {port} mtu 1300", "has MTU 1300", False),
    ("the host veths MAC address", "ip link set {port} address 02:00:00:00:00:78", "Mac doesn't match",
     False),
    ("the pods MTU", "ip -n {pod} link set eth0 mtu 1300", "has MTU 1300", False),
    ("the pods route to the gateway", "ip -n {pod} route del 10.1.0.1", "10.1.0.1/32", False),
    ("the pods route to its subnet", "ip -n {pod} -6 route del fd00:1::/64", "fd00:1::/64", False),
    ("something else in the interfaces place",
     "ip -n {pod} link del eth0; ip -n {pod} link add eth0 type bridge", "not of type veth", False),
    ("another pair in the interfaces place",
     "mac=$(ip netns exec {pod} cat /sys/class/net/eth0/address); ip -n {pod} link del eth0;"
     " ip -n {pod} link add eth0 up address $mac type veth peer name other", "host veth of 'eth0'", False),
]


@suite.spread
class Damaged(PtpTest):
    def setUp(self):
        super().setUp()
        self.one = self.pod()
        self.conf = config(ipMasq=True, ipMasqBackend="nftables", mtu=1400)
        self.result = self.add(self.one, self.conf)
        self.conf |= {"prevResult": self.result}
        self.assert_ok(self.call("CHECK", self.one, self.conf))
        self.port = host_veth(self.result)

    def damage(self, command):
        run("sh", "-c", command.format(pod=self.one.name, port=self.port))

    @suite.cases([(name, row) for name, *row in MUTATIONS])
    def CHECK_notices(self, row):
        command, said, _ = row
        self.damage(command)
        self.assert_error(self.call("CHECK", self.one, self.conf), 999, said.format(port=self.port))
        self.assert_ok(self.call("DEL", self.one, self.conf))

    def test_CHECK_finds_the_routes_in_the_tables_of_sbr(self):
        self.assert_ok(cni("sbr", "ADD", {"cniVersion": "1.1.0", "name": "net1", "type": "sbr", "prevResult": self.result},
                           netns=self.one.path, container=self.one.name))
        self.assertEqual(routes(4, "eth0", self.one) + routes(6, "eth0", self.one), [])
        self.assert_ok(self.call("CHECK", self.one, self.conf))
        table = json.loads(self.one.run("ip", "-j", "rule", "show", "from", addresses(self.result)[0]))[0]["table"]
        self.one.run("ip", "route", "del", "10.1.0.0/24", "table", table)
        self.assert_error(self.call("CHECK", self.one, self.conf), 999, "Failed to find Gateway 10.1.0.1 for interface eth0")

    @suite.cases([(name, row) for name, *row in MUTATIONS if row[2]])
    def REPAIR_restores(self, row):
        command, said, _ = row
        inside, whole = pod_snapshot(self.one), snapshot()
        self.damage(command)
        damaged = snapshot()
        look = self.assert_ok(self.call("REPAIR", self.one, self.conf | {"patchbay/onlyLook": True}))
        self.assertIn(said.format(port=self.port), " ".join(look["found"]))
        self.assert_same(damaged)
        for _ in range(2):
            self.assert_ok(self.call("REPAIR", self.one, self.conf))
            self.assert_same(whole)
        self.assert_same(inside, pod_snapshot(self.one))
        self.assert_ok(self.call("CHECK", self.one, self.conf))
        self.assert_answers(self.one, "10.1.0.1", "fd00:1::1")
        self.assert_answers(None, *addresses(self.result))

    @suite.cases([("the route elsewhere", ("ip link add br9 up type bridge; ip route del 10.1.0.2;"
                                           " ip route add 10.1.0.2/32 dev br9", "br9")),
                  ("a pod without its interface", ("ip -n {pod} link del eth0", "restart the pod"))])
    def REPAIR_cannot_restore(self, row):
        command, said = row
        self.damage(command)
        before = snapshot()
        self.assert_error(self.call("REPAIR", self.one, self.conf), 999, said)
        self.assert_same(before)


class Crowd(PtpTest):
    def all_at_once(self, verb, pods):
        conf = config(ipMasq=True)
        calls = [start("ptp", verb, conf, netns=pod.path, container=pod.name) for pod in pods]
        for call in calls:  # each waits for its stdin: now they run at once
            call.stdin.write(call.config)
            call.stdin.close()
            call.stdin = None
        return [self.assert_ok(finish(call)) for call in calls]

    def test_64_pods_come_and_go_at_once(self):
        pods = [self.pod() for _ in range(COUNT)]
        before = snapshot()
        results = self.all_at_once("ADD", pods)
        every = [address for result in results for address in addresses(result)]
        self.assertEqual(len(set(every)), 2 * COUNT, "every address once")
        self.assertEqual(run("nft", "list", "ruleset").count(" : goto masq_"), 2 * COUNT)
        self.assert_answers(None, *every)
        for pod, there in zip(pods[:4], results[-4:]):
            self.assert_answers(pod, *addresses(there))
        self.all_at_once("DEL", pods)
        self.assert_same(before, ignore=left_by_design)


@suite.spread
class Status(PtpTest):
    @suite.cases([("nftables", "nftables"), ("iptables", "iptables"), ("none", None)])
    def accepts_a_ready_node_with_backend(self, backend):
        before = snapshot()
        more = {"ipMasqBackend": backend} if backend else {}
        self.assert_ok(cni("ptp", "STATUS", config(ipMasq=True, **more)))
        self.assert_same(before)


if __name__ == "__main__":
    suite.main(needs=("ping", "iptables", "ip6tables"), per_processor=2)
