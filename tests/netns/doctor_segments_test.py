#!/usr/bin/env python3
"""cnitool doctor and validate: networks of one segment that can give an address twice are named with a remedy that heals, and networks
of different segments may have the same addresses."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import blocks, suite  # noqa: E402
from support.cnitool import CONF_DIR, cnitool, use  # noqa: E402
from support.world import run  # noqa: E402

A, B = f"{CONF_DIR}/a.conflist", f"{CONF_DIR}/b.conflist"
NET = "10.5.0.0/24"


def pool(subnet=NET, **more):
    return {"type": "cluster-pool", "subnet": subnet, "waitForBlock": 0} | more


def local(subnet=NET, **more):
    return {"type": "host-local", "ranges": [[{"subnet": subnet} | more]]}


def static(*addresses):
    return {"type": "static", "addresses": [{"address": one} for one in addresses]}


def elsewhere(text=NET, **more):
    return {"type": "whereabouts", "range": text} | more


def lan(ipam, master="eth1", **more):
    return {"type": "macvlan", "ipam": ipam} | ({"master": master} if master else {}) | more


def vlan(ipam, number, master="eth1", **more):
    return {"type": "vlan", "master": master, "vlanId": number, "ipam": ipam} | more


def bridge(ipam, name="br1", **more):
    return {"type": "bridge", "bridge": name, "ipam": ipam} | more


def ptp(ipam):
    return {"type": "ptp", "ipam": ipam}


UPLINK = "link add br1 type bridge\nlink set eth1 master br1\n"
ALTNAME = "link property add dev eth1 altname enp1s0\n"
FILTER = "link add br1 type bridge vlan_filtering 1\nlink set eth1 master br1\n"
VLAN = "link add link eth1 name eth1.10 type vlan id 10\n"
DEEP = VLAN + "link add br1 type bridge\nlink set eth1.10 master br1\n"
CABLE = ("link add br1 type bridge\nlink add br2 type bridge\nlink add c1 type veth peer name c2\n"
         "link set c1 master br1\nlink set c2 master br2\n")
DEFAULT = "link set eth1 up\naddr add 192.0.2.1/24 dev eth1\nroute add default via 192.0.2.2\n"
HALF, REST = {"rangeEnd": "10.5.0.127"}, {"rangeStart": "10.5.0.128"}

#: What, the links, two plugins, and what is shared: by validate, too, where names say it.
SHARED = [
    ("one master", "", lan(pool()), lan(pool("10.5.0.0/28")), "10.5.0.2-10.5.0.14", True),
    ("macvlan and ipvlan", "", lan(pool()), lan(pool("10.5.0.0/16"), type="ipvlan"), "10.5.0.2-10.5.0.254", True),
    ("IPv6", "", lan(pool("fd00:5::/64")), lan(pool("fd00:5::/96")), "fd00:5::2-fd00:5::ffff:ffff", True),
    ("the link of the default route", DEFAULT, lan(pool()), lan(pool("10.5.0.0/28"), ""), "10.5.0.2-10.5.0.14", False),
    ("another name of the link", ALTNAME, lan(pool()), lan(pool("10.5.0.64/28"), "enp1s0"), "10.5.0.66-10.5.0.78", False),
    ("a bridge and its uplink", UPLINK, lan(pool()), bridge(pool("10.5.0.64/28")), "10.5.0.66-10.5.0.78", False),
    ("a VLAN and its link", VLAN, vlan(pool(), 10), lan(pool("10.5.0.64/28"), "eth1.10"), "10.5.0.66-10.5.0.78", False),
    ("one VLAN", "", vlan(pool(), 10), vlan(pool("10.5.0.64/28"), 10), "10.5.0.66-10.5.0.78", True),
    ("a VLAN below a bridge", DEEP, vlan(pool(), 10), bridge(pool("10.5.0.64/28")), "10.5.0.66-10.5.0.78", False),
    ("a VLAN of a bridge and of its uplink", FILTER, vlan(pool(), 10), bridge(pool("10.5.0.64/28"), vlan=10), "10.5.0.66-10.5.0.78", False),
    ("the untagged VLAN of a bridge", FILTER, lan(pool()), bridge(pool("10.5.0.64/28")), "10.5.0.66-10.5.0.78", False),
    ("a macvlan of the node", "link add link eth1 name mac0 type macvlan mode bridge\n", lan(pool()), lan(pool("10.5.0.64/28"), "mac0"),
     "10.5.0.66-10.5.0.78", False),
    ("two bridges with a cable", CABLE, bridge(pool()), bridge(pool("10.5.0.64/28"), "br2"), "10.5.0.66-10.5.0.78", False),
    ("one bridge", "", bridge(pool()), bridge(pool("10.5.0.64/28")), "10.5.0.66-10.5.0.78", True),
    ("host-local", "", lan(pool()), lan(local("10.5.0.64/28")), "10.5.0.66-10.5.0.78", True),
    ("host-local alone", "", lan(local(rangeEnd="10.5.0.99")), lan(local(rangeStart="10.5.0.90")), "10.5.0.90-10.5.0.99", True),
    ("an address", "", lan(pool()), lan(static("10.5.0.7/24")), "10.5.0.7", True),
    ("an address of host-local", "", lan(local()), lan(static("10.5.0.254/24")), "10.5.0.254", True),
    ("whereabouts", "", lan(pool()), lan(elsewhere("10.5.0.225-10.5.0.230/24")), "10.5.0.225-10.5.0.230", True),
    ("whereabouts with host bits", "", lan(pool(**HALF)), lan(elsewhere("10.5.0.100/24")), "10.5.0.2-10.5.0.127", True),
    ("ranges of whereabouts", "", lan(pool()), lan({"type": "whereabouts", "ipRanges": [{"range": "10.5.0.64/28", "exclude": ["10.5.0.64/29"]}]}),
     "10.5.0.72-10.5.0.78", True),
]
APART = [
    ("two masters", "", lan(pool()), lan(pool(), "eth2")),
    ("host-local on two masters", "", lan(local()), lan(local(), "eth2")),
    ("two VLANs", "", vlan(pool(), 10), vlan(pool(), 11)),
    ("one VLAN of two masters", "", vlan(pool(), 10), vlan(pool(), 10, "eth2")),
    ("a VLAN, and no tag", VLAN, lan(pool()), lan(pool(), "eth1.10")),
    ("two tags of one number", "", vlan(pool(), 10), vlan(pool(), 10, protocol="802.1ad")),
    ("a bridge with another uplink", UPLINK, lan(pool(), "eth2"), bridge(pool())),
    ("a bridge without an uplink", "", lan(pool()), bridge(pool())),
    ("two bridges", "", bridge(pool()), bridge(pool(), "br2")),
    ("two VLANs of one bridge", FILTER, bridge(pool(), vlan=10), bridge(pool(), vlan=11)),
    ("a VLAN that the bridge keeps inside", "link add br1 type bridge vlan_filtering 1\nlink set eth1 master br1\nOFF", vlan(pool(), 10), bridge(pool(), vlan=10)),
    ("parts of a subnet", "", lan(pool(**HALF)), lan(pool(**REST))),
    ("parts, with host-local", "", lan(pool(**HALF)), lan(local(**REST))),
    ("an excluded address", "", lan(pool(exclude=["10.5.0.7"])), lan(static("10.5.0.7/24"))),
    ("an excluded network", "", lan(pool(exclude=["10.5.0.0/25"])), lan(elsewhere("10.5.0.0/25"))),
    ("the gateway", "", lan(pool()), lan(static("10.5.0.1/24"))),
    ("whereabouts alone", "", lan(elsewhere()), lan(elsewhere())),
    ("what whereabouts excludes", "", lan(pool(**HALF)), lan(elsewhere(exclude=["10.5.0.0/25"]))),
    ("parts of a subnet, with ptp", "", ptp(local(**HALF)), ptp(local(**REST))),
    ("a link of the pod", "", lan(pool()), lan(pool(), linkInContainer=True)),
]
#: What, two IPAM plugins of which the former must have addresses left, and the remedy.
TAKEN = [
    ("behind the other's gateway", local(rangeStart="10.5.0.1", rangeEnd="10.5.0.100", gateway="10.5.0.254"),
     local(rangeStart="10.5.0.50", rangeEnd="10.5.0.99", gateway="10.5.0.1"), 'of network \'b\' .* set another "subnet"'),
    ("before the gateway", local(gateway="10.5.0.254"), local(gateway="10.5.0.254"), 'of network \'b\' .* set another "subnet"'),
    ("an address of a part", pool(**HALF), static("10.5.0.7/25"), 'of network \'a\' .* add "10.5.0.7" to "exclude"'),
    ("addresses of a part", pool(**HALF), local("10.5.0.0/25", rangeStart="10.5.0.8", rangeEnd="10.5.0.15"), 'of network \'a\' .* add "10.5.0.8/29" to "exclude"'),
]


def put(one, other):
    for name, plugin in (("a", one), ("b", other)):
        use({"cniVersion": "1.1.0", "name": name, "plugins": [plugin]}, f"{name}.conflist")


@suite.spread
class Segments(suite.NodeTest):
    def world(self, links):
        run("ip", "-batch", "-", stdin="link add eth1 type veth peer name far1\nlink add eth2 type veth peer name far2\n")
        try:
            run("ip", "-batch", "-", stdin="link set far1 up\n" + links.removesuffix("OFF"))
        except RuntimeError as error:
            if "not supported" not in str(error) and "Unknown device type" not in str(error):
                raise
            self.skipTest("this kernel has no " + ("VLAN filtering" if "vlan_filtering" in links else "links of kind vlan"))
        if links.startswith(FILTER) and not links.endswith("OFF"):
            run("bridge", "vlan", "add", "dev", "eth1", "vid", "10-11")

    def findings(self):
        found = [one for one in cnitool("doctor", "--json").json["findings"] if one["check"] == "subnets"]
        return [one for one in found if one["level"] != "ok"]

    def warnings(self):
        return [one for one in cnitool("validate", "--json", A, B).json if "overlaps" in one["message"]]

    @suite.cases([(row[0], row[1:]) for row in SHARED])
    def is_shared(self, row):
        links, one, other, shared, is_named = row
        self.world(links)
        put(one, other)
        found, = self.findings()
        self.assertEqual(found["level"], "error")
        self.assertEqual(found["what"], f"networks 'a' and 'b' can give the same addresses on one segment: {shared}")
        self.assertEqual(len(found["lines"]), 2)
        self.assertIn(A, found["lines"][0])
        self.assertIn(B, found["lines"][1])
        said = self.warnings()
        self.assertEqual(len(said), is_named, str(said))
        if is_named:
            self.assertIn(f"both may allocate {shared}", said[0]["message"])
        self.heal(found["remedy"])
        self.assertEqual((self.findings(), self.warnings()), ([], []), found["remedy"])

    def heal(self, remedy):
        """What a person would do."""
        place, name, file, do = re.fullmatch(r'in "(\S+)" of network \'(\w)\' \((\S+)\) (.*?)(?:, on all nodes)?', remedy).groups()
        self.assertEqual(file, {"a": A, "b": B}[name])
        with open(file, encoding="utf-8") as text:
            conf = json.load(text)
        at = conf["plugins"][0]
        for key, index in re.findall(r"(\w+)|\[(\d+)\]", place):
            at = at[key or int(index)]
        if added := re.fullmatch(r'add (.*) to "exclude"', do):
            at["exclude"] = at.get("exclude", []) + json.loads(f"[{added[1]}]")
        elif (change := re.fullmatch(r'set "(\w+)": "(.*)"', do)):
            at[change[1]] = change[2]
        else:
            at[re.fullmatch(r'set another "(\w+)"', do)[1]] = "10.77.0.0/24"
        use(conf, os.path.basename(file))

    @suite.cases([(row[0], row[1:]) for row in APART])
    def is_apart(self, row):
        links, one, other = row
        self.world(links)
        put(one, other)
        self.assertEqual((self.findings(), self.warnings()), ([], []))

    def test_blocks_that_nodes_have_of_what_is_shared_are_named(self):
        self.world("")
        put(lan(pool()), lan(pool("10.5.0.64/28")))
        blocks.held(network="a")
        blocks.seen({"node1": ["10.5.0.16/28"], "node2": ["10.5.0.64/28"]}, network="a")
        self.assertEqual(self.findings()[0]["why"], "two pods can get the same address; node 'node2' has block 10.5.0.64/28 of network 'a'")

    def test_gateways_of_one_node_need_subnets_of_their_own(self):
        put(bridge(local(**HALF), isGateway=True), bridge(local(**REST), "br2", isGateway=True))
        self.assertIn("two routes", self.findings()[0]["why"])
        self.assertIn("two routes", self.warnings()[0]["message"])
        put(bridge(local(**HALF), isGateway=True), bridge(local(**REST), isGateway=True))
        self.assertEqual((self.findings(), self.warnings()), ([], []))
        put(bridge(local(), isGateway=True), bridge(pool(), "br2", isGateway=True))
        self.assertIn("two pods", self.findings()[0]["why"])

    def test_a_name_that_no_link_can_have_hides_nothing(self):
        put(bridge(local()), bridge(local(), "br1") | {"master": "x" * 300})
        self.assertEqual(len(self.findings()), 1)
        self.assertNotIn("unknown", {one["level"] for one in self.findings()})

    def test_a_single_address_does_not_spare_a_bridge_its_subnet(self):
        put(bridge(local(rangeStart="10.5.0.7", rangeEnd="10.5.0.7"), isGateway=True), bridge(local(**REST), "br2", isGateway=True))
        self.assertIn("two routes", self.findings()[0]["why"])
        self.assertIn("two routes", self.warnings()[0]["message"])

    def test_a_remedy_names_a_key_that_the_network_has(self):
        put(bridge(local(), isGateway=True), bridge(elsewhere(), "br2", isGateway=True))
        self.assertEqual(self.findings()[0]["remedy"], f'in {B} set another "range" in "ipam"')

    @suite.cases([(row[0], row[1:]) for row in TAKEN])
    def takes_no_more_than_is_shared(self, row):
        one, other, remedy = row
        put(lan(one), lan(other))
        self.assertRegex(self.findings()[0]["remedy"], remedy)

    def test_a_network_without_a_file_is_not_the_one_to_change(self):
        put(bridge(pool(**REST), isGateway=True), bridge(local(**HALF), "br2", isGateway=True))
        self.assert_ok(cnitool("add", "b", self.pod("p").path))
        os.remove(B)
        self.assertEqual(self.findings()[0]["remedy"], f'in {A} set another "subnet" in "ipam"')

    def test_a_subnet_of_flannel_is_not_the_one_to_change(self):
        env = "/run/subnet.env"
        with open(env, "w", encoding="utf-8") as file:
            file.write("FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.0.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n")
        flannel = {"type": "flannel", "subnetFile": env, "delegate": {"bridge": "br2", "isDefaultGateway": True}}
        for name in ("br1", "br2"):
            put(bridge(local(), name, isGateway=True), flannel)
            self.assertIn(A, self.findings()[0]["remedy"])
        put(flannel, flannel)
        self.assertEqual(self.findings()[0]["remedy"], f"keep only one of {A} and {B}")

    def test_a_bridge_with_an_address_of_the_node_is_a_gateway(self):
        run("ip", "-batch", "-", stdin="link add br1 type bridge\nlink add br2 type bridge\naddr add 10.5.0.1/24 dev br1\n")
        put(bridge(local()), bridge(local(), "br2"))
        self.assertEqual(self.findings(), [])
        run("ip", "addr", "add", "10.5.0.254/24", "dev", "br2")
        self.assertIn("two pods", self.findings()[0]["why"])

    def test_a_network_that_no_file_has_is_known_by_its_pods(self):
        put(bridge(local()), bridge(local(), "br2"))
        pod = self.pod("p")
        self.assert_ok(cnitool("add", "a", pod.path))
        os.remove(A)
        self.assertEqual(self.findings(), [])
        put(bridge(local(), "br3"), bridge(pool(rangeEnd="10.5.0.9"), "br1"))
        os.remove(A)
        found, = self.findings()
        self.assertIn("network 'a': host-local, 10.5.0.0/24, a config that no file has, on br1", found["lines"])
        pod.remove()
        self.assertEqual(self.findings(), [])

    def test_pods_with_such_an_address_are_named(self):
        put(bridge(local("10.5.0.0/28")), bridge(local("10.5.0.0/24"), "br2"))
        pod = self.pod("p")
        self.assert_ok(cnitool("add", "b", pod.path))
        put(bridge(local("10.5.0.0/28")), bridge(local("10.5.0.0/24")))
        self.assertRegex(self.findings()[0]["remedy"], r'set "rangeStart": "10.5.0.15"; then restart the pod of container ')


if __name__ == "__main__":
    suite.main()
