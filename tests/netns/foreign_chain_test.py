#!/usr/bin/env python3
"""bandwidth, portmap and sbr after plugins of other projects, which report no host veth: hostPorts are reached, traffic
is limited both ways, replies leave by the right interface. A pod that exchanges its interfaces gains nothing."""

import os
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import foreign, suite  # noqa: E402
from support.bandwidth import bucket, ifb_name, ifbs, qdiscs, redirections  # noqa: E402
from support.chain import Network  # noqa: E402
from support.hostport import NODE, OUTSIDE, Server, Site, ask_one, mapping  # noqa: E402
from support.plugin import OURS, cni  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run, wait_for  # noqa: E402

#: In bits. Slow, so that far more is sent than passes, however slow the machine is.
RATE, BURST = 800_000, 160_000
LIMITS = {"ingressRate": RATE, "ingressBurst": BURST, "egressRate": RATE, "egressBurst": BURST}
PORTS = {"portMappings": [mapping(8080, 80), mapping(8080, 80, "udp")]}
EACH = [(name, name) for name in foreign.PLUGINS]


def udp(pod, address):
    """A socket in the pod's namespace, bound to the address."""
    with pod.inside():
        one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        one.bind((address, 0))
    one.setblocking(False)
    return one


def passed(source, target, seconds=0.25):
    """(bytes sent, bytes that arrived, the time from the first to the last of both)."""
    packet, sent, arrived, begin = b"x" * 1200, 0, 0, time.monotonic()
    last = begin
    while time.monotonic() < begin + 2 * seconds:
        if time.monotonic() < begin + seconds:
            try:
                sent += source.sendto(packet, target.getsockname()[:2])
            except BlockingIOError:
                pass
        try:
            arrived += len(target.recv(2048))
            last = time.monotonic()
        except BlockingIOError:
            pass
    return sent, arrived, last - begin


def rename(pod):
    pod.run("ip", "link", "set", "eth0", "down")
    pod.run("ip", "link", "set", "eth0", "name", "other")


class ForeignTest(suite.NodeTest):
    def setUp(self):
        super().setUp()
        foreign.install()

    def network(self, first, *chained):
        return Network({"cniVersion": "1.0.0", "name": "net1", "plugins": [{"type": first}, *chained]},
                       (foreign.DIRECTORY, OURS))

    def add(self, network, pod, capabilities=None):
        result, failed = network.add(capabilities, netns=pod.path, container=pod.name)
        self.assertIsNone(failed, str(failed))
        return result

    def each(self, network, verb, result, pod, capabilities=None, **options):
        failed = network.each(verb, result, capabilities, **{"netns": pod.path, "container": pod.name} | options)
        self.assertIsNone(failed, str(failed))


@suite.spread
class Traffic(ForeignTest):
    @suite.cases(EACH)
    def a_hostPort_is_reached_and_traffic_is_limited_both_ways_after(self, first):
        site = Site()
        pod = self.pod("pod7")
        empty = snapshot()
        network = self.network(first, {"type": "portmap", "capabilities": {"portMappings": True}},
                               {"type": "bandwidth"} | LIMITS)
        result = self.add(network, pod, PORTS)
        self.each(network, "CHECK", result, pod, PORTS)
        Server(self, "pod7", (80,), pod)
        for family in (4, 6):
            for protocol in ("tcp", "udp"):
                answer = ask_one(site.outside, protocol, NODE[family], 8080)
                self.assertEqual(answer, f"pod7 80 {OUTSIDE[family]}")
            inside = udp(pod, foreign.addresses(pod)[family])
            outside = udp(site.outside, OUTSIDE[family])
            for way in ((outside, inside), (inside, outside)):
                self.assert_limited(*way)
        self.each(network, "DEL", result, pod, PORTS)
        self.assert_same(empty, ignore=left_by_design)

    def assert_limited(self, source, target):
        sent, arrived, seconds = passed(source, target)
        # Headers count for the limit, not here. The queue is emptied after the last is sent.
        bound = BURST / 8 + RATE / 8 * seconds
        self.assertGreater(sent, 3 * bound, "too little was sent")
        self.assertGreater(arrived, 0)
        self.assertLessEqual(arrived, bound)

    @suite.cases(EACH)
    def replies_leave_by_the_interface_of_sbr_after(self, first):
        site = Site()
        pod, other = self.pod("pod7"), self.pod("pod8")
        with_sbr, without = self.network(first, {"type": "sbr"}), self.network(first)
        result = self.add(with_sbr, pod)
        self.add(without, other)
        for one in (pod, other):  # a second interface takes the default routes
            one.run("ip", "-batch", "-", stdin="link add second type veth peer name nowhere\nlink set second up\n"
                    "route replace default dev second metric 0\nroute add ::/0 dev second metric 1\n")
        for family in (4, 6):
            # Until the node's link-local address is usable, it asks for no neighbour.
            ping = ("ping", "-c1", "-W1", foreign.addresses(pod)[family])
            said = wait_for(lambda words=ping: "1 received" in site.outside.run(*words, check=False), 15)
            self.assertTrue(said, f"with sbr, IPv{family}")
            table = pod.run("ip", f"-{family}", "route", "show", "table", str(100 if family == 4 else 101))
            self.assertIn(f"default via {foreign.GATEWAY[family]} dev eth0", table)
        ping = ("ping", "-c1", "-W1", foreign.addresses(other)[4])
        self.assertNotIn("1 received", site.outside.run(*ping, check=False), "without sbr")
        self.each(with_sbr, "CHECK", result, pod)
        pod.run("ip", "link", "del", "second")
        self.each(self.network("sbr"), "DEL", result, pod)  # sbr alone: what it made goes, the rest stays
        self.assertIn("1 received", site.outside.run("ping", "-c1", "-W2", foreign.addresses(pod)[4], check=False))

    def test_sbr_needs_no_route_to_a_gateway_of_IPv4_that_is_link_local(self):
        pod = self.pod("pod7")
        result = self.add(self.network("foreign-alone"), pod)
        pod.run("ip", "route", "del", "default")
        self.assert_ok(cni("sbr", "ADD", {"cniVersion": "1.0.0", "name": "net1", "type": "sbr", "prevResult": result},
                           netns=pod.path, container=pod.name))
        self.assertIn("1 received", run("ping", "-c1", "-W2", foreign.addresses(pod)[4], check=False))


@suite.spread
class Limits(ForeignTest):
    """The limits of one pod."""

    def setUp(self):
        super().setUp()
        self.one = self.pod("pod1")

    def start(self, first):
        self.result = self.assert_ok(cni(first, "ADD", {"cniVersion": "1.0.0", "name": "net1"}, netns=self.one.path,
                                         directory=foreign.DIRECTORY, container="pod1"))
        self.before = snapshot()
        self.added = self.assert_ok(self.call("ADD", prevResult=self.result))

    def call(self, verb, **more):
        conf = {"cniVersion": "1.0.0", "name": "net1", "type": "bandwidth", **LIMITS} | more
        return cni("bandwidth", verb, conf, netns=self.one.path, container="pod1")

    def assert_limited(self):
        self.assertEqual(bucket("foreign1")[0], RATE / 8)
        self.assertEqual(bucket(ifb_name("pod1"))[0], RATE / 8)
        self.assertEqual(redirections("foreign1"), [(ifb_name("pod1"), "stolen")])

    @suite.cases(EACH)
    def the_result_names_the_host_veth_that_the_kernel_showed_after(self, first):
        self.start(first)
        self.assert_limited()
        known = self.result["interfaces"] if self.result.get("interfaces") else []
        self.assertEqual(self.added["interfaces"][:len(known)], known)
        names = [one["name"] for one in self.added["interfaces"][len(known):]]
        self.assertEqual(names, ["foreign1", ifb_name("pod1")])
        self.assertEqual(self.added["ips"], self.result["ips"])
        self.assert_ok(self.call("CHECK", prevResult=self.added))

    @suite.cases([(f"{name} with {'prevResult' if prev else 'the config alone'}", (act, prev)) for name, act in (
        ("as it was", lambda one: None), ("renamed", rename), ("gone with the pod", lambda one: one.remove()))
        for prev in (True, False) if prev or name != "renamed"])
    def DEL_removes_the_limits_of_an_interface(self, row):
        act, with_result = row
        self.start("foreign-alone")
        act(self.one)
        for _ in range(2):
            self.assert_ok(self.call("DEL", **{"prevResult": self.added} if with_result else {}))
        self.assertEqual(ifbs(), {})
        if os.path.exists(self.one.path):
            self.assertEqual(qdiscs("foreign1"), {})
            self.assertEqual(redirections("foreign1"), [])

    @suite.cases([("to the pod", ("foreign1", "root")), ("redirecting from the pod", ("foreign1", "ingress")),
                  ("from the pod", ("ifb", "root"))])
    def REPAIR_restores_the_queue(self, row):
        dev, where = row
        self.start("foreign-alone")
        run("tc", "qdisc", "del", "dev", ifb_name("pod1") if dev == "ifb" else dev, where)
        self.assert_error(self.call("CHECK", prevResult=self.added))
        self.assertEqual(len(self.assert_ok(self.call("REPAIR", prevResult=self.added))["found"]), 1)
        self.assert_limited()
        self.assert_ok(self.call("CHECK", prevResult=self.added))
        self.assertEqual(self.assert_ok(self.call("REPAIR", prevResult=self.added))["found"], [])

    def test_MIGRATE_finds_them_too(self):
        self.start("foreign-alone")
        run("ip", "link", "set", ifb_name("pod1"), "alias", "")
        found = self.assert_ok(self.call("MIGRATE", prevResult=self.added))["found"]
        self.assertEqual(len(found), 1, found)
        self.assertIn("id: pod1", ifbs()[ifb_name("pod1")])
        self.assert_limited()

    def exchange(self):
        """Root in the pod gives another interface, which leads to the node, too, the name of its interface."""
        self.assert_ok(cni("ptp", "ADD", {"cniVersion": "1.0.0", "name": "net2", "type": "ptp", "ipam": {
            "type": "static", "addresses": [{"address": "10.3.0.2/32"}]}}, netns=self.one.path, container="pod1",
            ifname="net1"))
        rename(self.one)
        self.one.run("ip", "link", "set", "net1", "down")
        self.one.run("ip", "link", "set", "net1", "name", "eth0")

    def test_a_pod_that_exchanges_its_interfaces_keeps_its_limits(self):
        self.start("foreign-alone")
        self.exchange()
        self.assert_error(self.call("CHECK", prevResult=self.added), 999)
        self.assert_error(self.call("ADD", prevResult=self.added), 999)
        self.assert_error(self.call("REPAIR", prevResult=self.added), 999)
        self.assert_limited()
        self.assert_ok(self.call("DEL", prevResult=self.added))
        self.assertEqual((qdiscs("foreign1"), redirections("foreign1"), ifbs()), ({}, [], {}))

    def test_a_link_of_the_node_with_the_index_that_a_pod_chose_is_not_the_host_veth(self):
        other = self.pod("pod2")
        run("ip", "link", "add", "victim", "index", "777", "type", "veth", "peer", "name", "victim2")
        other.run("ip", "link", "add", "forged", "index", "777", "type", "veth", "peer", "name", "eth0", "netns",
                  self.one.name)
        self.one.run("ip", "link", "set", "eth0", "up")
        before = snapshot()
        prev = {"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": self.one.path}], "ips": [], "dns": {}}
        for verb in ("ADD", "DEL"):
            outcome = self.call(verb, prevResult=prev)
            if verb == "ADD":
                self.assert_error(outcome, 999, "veth peer with index 777 is not in host ns")
            else:
                self.assert_ok(outcome)
            self.assert_same(before)


if __name__ == "__main__":
    suite.main(needs=("ping",), per_processor=2)
