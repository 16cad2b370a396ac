#!/usr/bin/env python3
"""VLANs of the bridge, as bridge(8) shows them and as packets meet them.

Where the kernel's bridges know no VLANs, this runs under another kernel: scripts/vm.
"""

import json
import os
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import guest, suite  # noqa: E402
from support.chain import Network  # noqa: E402
from support.plugin import ROOT, cni, has_reference, REFERENCE  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import World, run, vlan_filtering, wait_for  # noqa: E402

PVID = ["PVID", "Egress Untagged"]


def config(address=None, **more):
    """An L2 attachment, with a fixed address where one is given."""
    ipam = {"ipam": {"type": "static", "addresses": [{"address": address}]}} if address else {}
    return {"cniVersion": "1.0.0", "name": "net1", "type": "bridge"} | ipam | more


def vlans_of(link):
    """{VLAN: flags} of a port, without the bridge's compression of ranges."""
    found = {}
    for port in json.loads(run("bridge", "-j", "vlan", "show", "dev", link)):
        for vlan in port["vlans"]:
            for number in range(vlan["vlan"], vlan.get("vlanEnd", vlan["vlan"]) + 1):
                found[number] = vlan.get("flags", [])
    return found


def tagged(*numbers):
    return dict.fromkeys(numbers, [])


TRUNK = [{"id": 101}, {"minID": 200, "maxID": 210}]
TRUNKED = tagged(101, *range(200, 211))
PORTS = [
    ("vlan", {"vlan": 100}, {100: PVID}),
    ("vlan 4094", {"vlan": 4094}, {4094: PVID}),
    ("vlan 1", {"vlan": 1}, {1: PVID}),
    ("vlan beside the default one", {"vlan": 100, "preserveDefaultVlan": True},
     {1: ["Egress Untagged"], 100: PVID}),
    ("vlanTrunk", {"vlanTrunk": TRUNK}, {1: PVID} | TRUNKED),
    ("vlanTrunk beside the default one", {"vlanTrunk": TRUNK, "preserveDefaultVlan": True},
     {1: PVID} | TRUNKED),
    ("vlan and vlanTrunk", {"vlan": 100, "vlanTrunk": TRUNK}, {100: PVID} | TRUNKED),
    ("vlan that is in the trunk", {"vlan": 205, "vlanTrunk": TRUNK}, TRUNKED | {205: PVID}),
    ("the whole trunk", {"vlan": 7, "vlanTrunk": [{"minID": 1, "maxID": 4094}]},
     tagged(*range(1, 4095)) | {7: PVID}),
    ("an empty trunk", {"vlanTrunk": []}, {1: PVID}),
    ("items of both kinds, twice", {"vlanTrunk": [{"id": 5, "minID": 7, "maxID": 8}, {"id": 7}]},
     {1: PVID} | tagged(5, 7, 8)),
]
# The reference of 1.1.1 keeps the default VLAN, and has a bug or no such key.
NOT_LIKE_REFERENCE = {"vlan", "vlan 4094", "vlan that is in the trunk", "the whole trunk",
                      "vlan and vlanTrunk", "vlanTrunk", "vlanTrunk beside the default one",
                      "items of both kinds, twice", "an empty trunk"}

# What somebody breaks, and what CHECK must say about it.
MUTATIONS = [
    ("the port's VLAN", "bridge vlan del dev {port} vid 100", "is not in VLAN 100"),
    ("the port's VLAN that is not its own any more", "bridge vlan add dev {port} vid 100",
     "is not in VLAN 100"),
    ("a VLAN of the port's trunk", "bridge vlan del dev {port} vid 205", "is not in trunk VLAN 205"),
    ("the gateway down", "ip link set {gateway} down", "'cni0.100' is down"),
    ("the gateway's port out of the bridge", "ip link set {behind} nomaster", "is not a port of"),
    ("the gateway's port down", "ip link set {behind} down", "is down"),
]


@suite.spread
class Vlan(suite.NodeTest):
    def add(self, conf, container="pod1", pod=None, **options):
        pod = pod or self.pod()
        result = self.assert_ok(cni("bridge", "ADD", conf, netns=pod.path, container=container,
                                    **options))
        return pod, result

    @suite.cases([(name, (conf, expected)) for name, conf, expected in PORTS])
    def port_with(self, row):
        conf, expected = row
        before = snapshot()
        pod, result = self.add(config("10.9.0.1/24", **conf))
        link, = json.loads(run("ip", "-j", "-d", "link", "show", "cni0"))
        self.assertEqual(link["linkinfo"]["info_data"]["vlan_filtering"], 1)
        self.assertEqual(vlans_of(result["interfaces"][1]["name"]), expected)
        checked = cni("bridge", "CHECK", config("10.9.0.1/24", **conf) | {"prevResult": result},
                      netns=pod.path)
        self.assert_ok(checked)
        self.assert_ok(cni("bridge", "DEL", config(**conf), netns=pod.path))
        pod.remove()
        self.assert_same(before, ignore=left_by_design)

    @suite.cases([(name, (conf, expected)) for name, conf, expected in PORTS
                  if name not in NOT_LIKE_REFERENCE])
    def the_reference_has_a_port_with(self, row):
        if not has_reference():
            self.skipTest("the Go plugins are not installed")
        conf, expected = row
        _, result = self.add(config(**conf), directory=REFERENCE)
        self.assertEqual(vlans_of(result["interfaces"][1]["name"]), expected)

    def test_a_bridge_without_VLANs_does_not_filter(self):
        self.add(config())
        link, = json.loads(run("ip", "-j", "-d", "link", "show", "cni0"))
        self.assertEqual(link["linkinfo"]["info_data"]["vlan_filtering"], 0)

    def test_a_deleted_bridge_is_repaired_with_its_VLANs_and_their_gateway(self):
        conf = {"vlan": 100, "vlanTrunk": TRUNK, "isGateway": True}
        ipam = {"type": "static", "addresses": [{"address": "10.9.0.2/24", "gateway": "10.9.0.1"}]}
        conf = config(**conf) | {"ipam": ipam}
        pod, result = self.add(conf)
        port, mac = result["interfaces"][1]["name"], result["interfaces"][0]["mac"]
        self.assertIn(" 0% packet loss", pod.run("ping", "-c1", "-W2", "10.9.0.1"))
        run("ip", "link", "del", "cni0")
        call = {"netns": pod.path, "container": "pod1"}
        self.assert_error(cni("bridge", "CHECK", conf | {"prevResult": result}, **call))
        answer = self.assert_ok(cni("bridge", "REPAIR", conf | {"prevResult": result}, **call))
        self.assertEqual(answer["result"], result)
        self.assertTrue(answer["found"])
        self.assert_ok(cni("bridge", "CHECK", conf | {"prevResult": result}, **call))
        self.assertEqual(vlans_of(port), {100: PVID} | TRUNKED)
        link, = json.loads(run("ip", "-j", "-d", "link", "show", "cni0"))
        self.assertEqual((link["linkinfo"]["info_data"]["vlan_filtering"], link["address"]), (1, mac))
        self.assertTrue(wait_for(lambda: " 0% packet loss" in pod.run(
            "ping", "-c1", "-W1", "10.9.0.1", check=False)))
        again = self.assert_ok(cni("bridge", "REPAIR", conf | {"prevResult": result}, **call))
        self.assertEqual(again["found"], [])

    @suite.cases([(name, name) for name in ("dummy in another namespace", "veth in another namespace",
                                           "veth in this one")])
    def the_operators_cni0_100_does_not_bring_in_the_uplink_a(self, what):
        """A veth of that name whose other end has the index of the uplink in another namespace, or
        is the uplink."""
        other = self.pod("other")
        index = "77"
        if what == "veth in this one":
            run("ip", "link", "add", "cni0.100", "type", "veth", "peer", "up0")
        elif what.startswith("dummy"):
            run("ip", "link", "add", "name", "up0", "index", index, "type", "dummy")
        else:
            run("ip", "link", "add", "name", "up0", "index", index, "type", "veth", "peer", "name",
                "eth0", "netns", "other")
        if what != "veth in this one":
            # The kernel takes an index for the other end only beside one for this end.
            run("ip", "link", "add", "name", "cni0.100", "index", "88", "type", "veth", "peer",
                "name", "far", "index", index, "netns", "other")
            self.assertEqual(json.loads(run("ip", "-n", "other", "-j", "link", "show", "far"))[0]
                             ["ifindex"], 77)
        run("ip", "link", "set", "up0", "up")
        ipam = {"type": "host-local", "ranges": [[{"subnet": "10.9.0.0/24"}]]}
        conf = config(vlan=100, isGateway=True, ipam=ipam)
        pod, result = self.add(conf)
        for verb in ("CHECK", "REPAIR", "DEL"):
            self.assert_ok(cni("bridge", verb, conf | {"prevResult": result}, netns=pod.path))
            up0, = json.loads(run("ip", "-j", "link", "show", "up0"))
            self.assertNotIn("master", up0, verb)
        other.remove()

    @suite.cases([(name, (command, said)) for name, command, said in MUTATIONS])
    def check_notices(self, row):
        command, said = row
        ipam = {"type": "host-local", "ranges": [[{"subnet": "10.9.0.0/24"}]]}
        conf = config(vlan=100, vlanTrunk=TRUNK, isGateway=True, ipam=ipam)
        pod, result = self.add(conf)
        check = {"netns": pod.path, "container": "pod1"}
        self.assert_ok(cni("bridge", "CHECK", conf | {"prevResult": result}, **check))
        _, port, _, gateway = result["interfaces"]
        behind, = [link["ifname"] for link in json.loads(run("ip", "-j", "link", "show", "master", "cni0"))
                   if link["ifname"] != port["name"]]
        run("sh", "-c", command.format(port=port["name"], gateway=gateway["name"], behind=behind))
        self.assert_error(cni("bridge", "CHECK", conf | {"prevResult": result}, **check), None, said)

    def test_a_bridge_that_does_not_filter_is_refused_with_a_reason(self):
        run("ip", "link", "add", "cni0", "type", "bridge")
        pod = self.pod()
        before = snapshot()
        error = self.assert_error(cni("bridge", "ADD", config(vlan=100), netns=pod.path))
        self.assertIn("vlan_filtering", error["msg"] + error.get("details", ""))
        self.assert_same(before)

    def test_an_access_port_meets_only_its_VLAN(self):
        one, _ = self.add(config("10.9.0.1/24", vlan=100), "one")
        two, _ = self.add(config("10.9.0.2/24", vlan=100), "two")
        other, _ = self.add(config("10.9.0.3/24", vlan=200), "other")
        native, _ = self.add(config("10.9.0.4/24"), "native")
        one.run("ping", "-c1", "-W2", "10.9.0.2")
        for pod in (other, native):
            self.assertEqual(self.heard(one, two, pod), (True, False))
        self.assertEqual(self.heard(native, native, one)[1], False)

    def heard(self, speaker, friend, stranger):
        """Whether a broadcast of speaker reaches friend, and stranger."""
        mark = b"patchbay" + os.urandom(8)
        ears = []
        for pod in (friend, stranger):
            with pod.inside():
                ears.append(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
            ears[-1].bind(("eth0", 3))
            ears[-1].settimeout(0.01)
        with speaker.inside():
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as mouth:
                mouth.bind(("eth0", 0))
                mouth.send(b"\xff" * 6 + mouth.getsockname()[4] + b"\x88\xb5" + mark + bytes(40))
        answers = []
        for ear in ears:
            def listen(ear=ear):
                try:
                    return mark in ear.recv(2000)
                except TimeoutError:
                    return False
            answers.append(bool(wait_for(listen, 0.7, 0)))
            ear.close()
        return tuple(answers)

    def test_a_trunk_port_carries_its_VLANs_and_no_other(self):
        access, _ = self.add(config("10.9.0.1/24", vlan=100), "access")
        hidden, _ = self.add(config("10.9.0.2/24", vlan=300), "hidden")
        trunk, _ = self.add(config(vlanTrunk=[{"id": 100}, {"id": 200}]), "trunk")
        for vlan, last in ((100, 3), (300, 4)):
            trunk.run("ip", "link", "add", f"eth0.{vlan}", "link", "eth0", "type", "vlan",
                      "id", str(vlan))
            trunk.run("ip", "addr", "add", f"10.9.0.{last}/24", "dev", f"eth0.{vlan}")
        trunk.run("ip", "link", "set", "eth0.100", "up")
        trunk.run("ping", "-c1", "-W2", "10.9.0.1")
        trunk.run("ip", "link", "set", "eth0.100", "down")
        trunk.run("ip", "link", "set", "eth0.300", "up")
        lost = trunk.run("ping", "-c1", "-W1", "10.9.0.2", check=False)
        self.assertIn("100% packet loss", lost)
        self.assertIn("100% packet loss", hidden.run("ping", "-c1", "-W1", "10.9.0.1", check=False))

    @suite.cases([("IPv4", ["10.9.0.0/24"]), ("dual-stack", ["10.9.0.0/24", "fd00:9::/64"])])
    def gateway_of_a_VLAN(self, subnets):
        ipam = {"type": "host-local", "ranges": [[{"subnet": subnet}] for subnet in subnets]}
        conf = config(vlan=100, isDefaultGateway=True, ipam=ipam)
        one, result = self.add(conf, "one")
        two, again = self.add(conf, "two")
        self.assertEqual([i["name"] for i in result["interfaces"]][::3], ["cni0", "cni0.100"])
        self.assertEqual(len(result["interfaces"]), 4)
        self.assertEqual(again["interfaces"][3], result["interfaces"][3], "one for all pods")
        # lo, the bridge, a port for each pod, the gateway's two ends.
        links = json.loads(run("ip", "-j", "-d", "link", "show"))
        self.assertEqual(len(links), 6, str([link["ifname"] for link in links]))
        ports = [link["ifname"] for link in links if link.get("master") == "cni0"]
        self.assertEqual([vlans_of(port) for port in ports], [{100: PVID}] * 3)
        addresses = {link["ifname"]: [a["local"] for a in link["addr_info"]
                                      if a["scope"] == "global"]
                     for link in json.loads(run("ip", "-j", "addr"))}
        gateways = [ip["gateway"] for ip in result["ips"]]
        self.assertEqual(addresses["cni0.100"], gateways)
        self.assertEqual(addresses["cni0"], [])
        for pod in (one, two):
            for gateway in gateways:
                pod.run("ping", "-c1", "-W2", gateway)
        one.run("ping", "-c1", "-W2", again["ips"][0]["address"].split("/")[0])
        checked = cni("bridge", "CHECK", conf | {"prevResult": result}, netns=one.path,
                      container="one")
        self.assert_ok(checked)
        for name, pod in (("one", one), ("two", two)):
            self.assert_ok(cni("bridge", "DEL", conf, netns=pod.path, container=name))
        self.assertEqual(os.listdir("/var/lib/cni/networks/net1").count("10.9.0.2"), 0)


    def test_the_example_works(self):
        network = Network(os.path.join(ROOT, "conf-examples/10-bridge-vlan.conflist"))
        # The other kernel has no NAT chains; masquerading is tested with the other examples.
        network.conflist["plugins"][0]["ipMasq"] = False
        pod = self.pod()
        before = snapshot()
        result, failed = network.add(netns=pod.path)
        self.assertIsNone(failed, str(failed))
        pod.run("ping", "-c1", "-W2", result["ips"][0]["gateway"])
        for verb in ("CHECK", "DEL", "DEL"):
            self.assertIsNone(network.each(verb, result, netns=pod.path), verb)
        port = network.conflist["plugins"][0]["bridge"]
        links = {link["ifname"]: link.get("master") for link in
                 json.loads(run("ip", "-j", "link", "show"))}
        self.assertEqual(list(links.values()).count(port), 1, "the gateway's port stays")
        self.assertEqual({place for place in snapshot() if "/networks/" in place and "10.24" in
                          place} - before.keys(), set())


if __name__ == "__main__":
    guest.enter_unless(vlan_filtering, "the kernel's bridges know no VLANs")
    suite.main(needs=("bridge", "ping"), sampled_in_guest=True)
