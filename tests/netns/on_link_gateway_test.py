#!/usr/bin/env python3
"""Gateways that are in no subnet of the interface, as clouds have them: 169.254.1.1 for an address alone. Traffic by
them passes, and CHECK, DEL and REPAIR agree."""

import itertools
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.configs import lack  # noqa: E402
from support.plugin import PLUGINS, cni  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run  # noqa: E402

MASTER = "eth1"
GATEWAYS = {4: "169.254.1.1", 6: "2001:db8:ffff::1"}
BEYOND = {4: "203.0.113.1", 6: "2001:db8:9::1"}
#: Addresses of the pod: alone, and in a subnet that does not have the gateway.
ALONE = {4: "198.51.100.7/32", 6: "2001:db8:1::7/128"}
SUBNET = {4: "198.51.100.7/24", 6: "2001:db8:1::7/64"}
#: How the config says where the gateway is.
BY_ADDRESS, BY_ROUTE = "of the address", "of the route"
#: The plugins by which the pod is on the segment of MASTER.
KEYS = {"bridge": {"bridge": "br0"}, "macvlan": {"master": MASTER}, "ipvlan": {"master": MASTER},
        "vlan": {"master": MASTER, "vlanId": 5}, "host-device": {"device": MASTER}}
EACH = [plugin for plugin in PLUGINS if plugin in KEYS]


def static(given, by=BY_ADDRESS, gateways=None):
    """IPAM's config with addresses by family."""
    gateways = gateways or GATEWAYS
    entries = [{"address": one} | ({"gateway": gateways[family]} if by == BY_ADDRESS else {})
               for family, one in given.items()]
    routes = [{"dst": "0.0.0.0/0" if family == 4 else "::/0"} | ({"gw": gateways[family]} if by == BY_ROUTE else {})
              for family in given]
    return {"type": "static", "addresses": entries, "routes": routes}


class GatewayTest(suite.NodeTest):
    plugin = "bridge"

    def call(self, verb, pod, **more):
        conf = {"cniVersion": "1.1.0", "name": "net1", "type": self.plugin, **self.keys} | more
        return cni(self.plugin, verb, conf, netns=pod.path, container=pod.name)

    def assert_answers(self, pod, *there):
        for address in there:
            said = (pod.run if pod else run)("ping", "-c1", "-w5", address, check=False)
            self.assertIn("1 received", said, f"{pod and pod.name} asks {address}")

    def ways(self, pod, family):
        return json.loads(pod.run("ip", "-j", f"-{family}", "route", "show", "default"))


@suite.spread
class Cloud(GatewayTest):
    """The router of a cloud on the segment of a link of the node."""

    def setUp(self):
        super().setUp()
        self.router = self.pod("router")

    def prepare(self, plugin):
        if reason := lack(plugin):
            self.skipTest(reason)
        self.plugin, self.keys = plugin, KEYS[plugin]
        run("ip", "-batch", "-", stdin=f"link add {MASTER} type veth peer name up0 netns router\nlink set {MASTER} up\n")
        link = "up0"
        if plugin == "vlan":
            link = "up0.5"
            self.router.run("ip", "link", "add", link, "link", "up0", "type", "vlan", "id", "5")
        if plugin == "bridge":
            run("ip", "-batch", "-", stdin=f"link add br0 type bridge\nlink set br0 up\nlink set {MASTER} master br0\n")
        self.router.run("ip", "-batch", "-", stdin=f"link set up0 up\nlink set {link} up\nlink set lo up\n" + "".join(
            f"addr add {address}/{32 if family == 4 else 128} dev {dev} {nodad}\n"
            for dev, each in ((link, GATEWAYS), ("lo", BEYOND)) for family, address in each.items()
            for nodad in (["nodad"] if family == 6 else [""])) +
            f"route add 198.51.100.0/24 dev {link} src {GATEWAYS[4]}\nroute add 2001:db8:1::/64 dev {link}\n")
        self.empty = snapshot()

    @suite.cases([(f"{plugin}, {by}, {name}", (plugin, by, given)) for plugin, (by, name, given) in itertools.product(
        EACH, ((BY_ADDRESS, "alone", ALONE), (BY_ROUTE, "alone", ALONE), (BY_ADDRESS, "in a subnet", SUBNET)))])
    def traffic_passes_by_the_gateway(self, row):
        plugin, by, given = row
        self.prepare(plugin)
        pod = self.pod()
        result = self.assert_ok(self.call("ADD", pod, ipam=static(given, by)))
        for family in (4, 6):
            self.assert_answers(pod, BEYOND[family])
            self.assert_answers(self.router, given[family].split("/")[0])
            way, = self.ways(pod, family)
            self.assertEqual((way["gateway"], way["dev"]), (GATEWAYS[family], "eth0"))
        self.assert_ok(self.call("CHECK", pod, ipam=static(given, by), prevResult=result))
        pod.run("ip", "route", "del", "default")
        self.assert_error(self.call("CHECK", pod, ipam=static(given, by), prevResult=result), msg="0.0.0.0/0")
        for _ in range(2):
            self.assert_ok(self.call("DEL", pod, ipam=static(given, by), prevResult=result))
        pod.remove()
        self.assert_same(self.empty, ignore=lambda place: left_by_design(place, "br0"))

    @suite.cases([(plugin, plugin) for plugin in EACH])
    def a_gateway_that_no_address_names_and_no_subnet_has_is_refused_by(self, plugin):
        self.prepare(plugin)
        pod = self.pod()
        error = self.assert_error(self.call("ADD", pod, ipam=static(SUBNET, BY_ROUTE)), 999, "network is unreachable")
        self.assertIn("gateway 169.254.1.1 is in no subnet of the interface", error["details"])
        self.assertNotIn("eth0", pod.run("ip", "link"))

    def test_sbr_moves_the_routes_by_it_and_traffic_goes_on(self):
        self.prepare("macvlan")
        pod = self.pod()
        result = self.assert_ok(self.call("ADD", pod, ipam=static(ALONE)))
        chained = {"cniVersion": "1.1.0", "name": "net1", "type": "sbr", "prevResult": result}
        self.assert_ok(cni("sbr", "ADD", chained, netns=pod.path, container=pod.name))
        self.assertEqual(self.ways(pod, 4), [])
        for family in (4, 6):
            self.assert_answers(self.router, ALONE[family].split("/")[0])
        self.assert_ok(cni("sbr", "CHECK", chained, netns=pod.path, container=pod.name))
        self.assert_ok(self.call("CHECK", pod, ipam=static(ALONE), prevResult=result))
        self.assert_ok(cni("sbr", "DEL", chained, netns=pod.path, container=pod.name))
        self.assert_answers(pod, *BEYOND.values())


@suite.spread
class Bridge(GatewayTest):
    """The node is the gateway."""

    keys = {"bridge": "br0", "isGateway": True}

    @suite.cases([("by IPAM's routes", {}), ("by isDefaultGateway", {"isDefaultGateway": True}),
                  ("for a VLAN", {"vlan": 7})])
    def has_a_gateway_of_no_subnet_alone(self, more):
        if "vlan" in more:
            from support.world import vlan_filtering
            if not vlan_filtering():
                self.skipTest("this kernel has no VLAN filtering")
        device = "br0.7" if "vlan" in more else "br0"
        run("ip", "-batch", "-", stdin="".join(f"addr add {one} dev lo\n" for one in BEYOND.values()) + "link set lo up\n")
        one, two = self.pod(), self.pod()
        conf = more | {"ipam": static(SUBNET)}
        result = self.assert_ok(self.call("ADD", one, **conf))
        other = {4: "198.51.100.8/24", 6: "2001:db8:1::8/64"}
        self.assert_ok(self.call("ADD", two, **conf | {"ipam": static(other)}))
        shown = json.loads(run("ip", "-j", "addr", "show", "dev", device))[0]["addr_info"]
        self.assertLessEqual({("169.254.1.1", 32), ("2001:db8:ffff::1", 128)},
                             {(one["local"], one["prefixlen"]) for one in shown})
        for family in (4, 6):
            self.assert_answers(one, BEYOND[family], other[family].split("/")[0])
            self.assert_answers(None, SUBNET[family].split("/")[0], other[family].split("/")[0])
        self.assert_ok(self.call("CHECK", one, **conf, prevResult=result))
        self.assert_ok(self.call("DEL", two, **conf))
        self.assert_answers(None, "198.51.100.7")  # the route is that of both
        run("ip", "route", "del", "198.51.100.0/24")
        self.assert_error(self.call("CHECK", one, **conf, prevResult=result), 999,
                          f"no route to 198.51.100.7 on '{device}'")
        self.assertEqual(len(self.assert_ok(self.call("REPAIR", one, **conf, prevResult=result))["found"]), 1)
        self.assert_answers(None, "198.51.100.7")
        self.assert_ok(self.call("CHECK", one, **conf, prevResult=result))
        run("ip", "link", "del", "br0")
        self.assert_ok(self.call("REPAIR", one, **conf, prevResult=result))
        self.assert_answers(one, BEYOND[4])

    def test_is_no_gateway_of_an_address_alone(self):
        pod = self.pod()
        error = self.assert_error(self.call("ADD", pod, ipam=static(ALONE)), 7, "198.51.100.7/32 has no subnet")
        self.assertIn("ptp", error["details"])
        self.assertNotIn("eth0", pod.run("ip", "link"))
        self.assert_ok(self.call("DEL", pod, ipam=static(ALONE)))


if __name__ == "__main__":
    suite.main(needs=("ping",))
