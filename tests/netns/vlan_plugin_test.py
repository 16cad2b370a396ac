#!/usr/bin/env python3
"""A VLAN of a link of the node in a pod: tags as a sniffer on the wire sees them, errors, and what is left.

Where the kernel has no VLANs, this runs under another kernel: scripts/vm.
"""

import json
import os
import socket
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import guest, suite  # noqa: E402
from support.configs import GC, lack  # noqa: E402
from support.plugin import OURS, cni, finish_all, start  # noqa: E402
from support.snapshot import left_by_design, pod_snapshot, snapshot  # noqa: E402
from support.world import run, wait_for  # noqa: E402

PROTOCOLS = {"802.1Q": 0x8100, "802.1ad": 0x88a8}
SOL_PACKET, PACKET_AUXDATA, VLAN_VALID = 263, 8, 0x10
ADDRESSES = {"type": "static", "addresses": [{"address": "10.1.2.3/24"}, {"address": "fd00:1:2::3/64"}]}
POOL = {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}]]}


def config(**more):
    return {"cniVersion": "1.1.0", "name": "net1", "type": "vlan", "master": "up0", "vlanId": 100,
            "ipam": ADDRESSES} | more


class Wire:
    """Sees frames, with their tags, at a link of this namespace."""

    def __init__(self, link):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.socket.bind((link, 3))
        self.socket.settimeout(5)

    def tag_of(self, mark):
        """(protocol, VLAN ID, priority) of the frame with mark in it; of one without a tag None."""
        while True:
            frame, extra, _, _ = self.socket.recvmsg(2000, 200)
            if mark not in frame:
                continue
            (_, _, data), = extra
            status, _, _, _, _, tag, protocol = struct.unpack("=IIIHHHH", data[:20])
            return (protocol, tag & 0xfff, tag >> 13) if status & VLAN_VALID else None


def say(pod, mark, priority=0, address="10.1.2.9"):
    """Sends a datagram with mark in it from a pod, whose neighbour need not be there."""
    pod.run("ip", "neigh", "replace", address, "lladdr", "02:00:00:00:00:09", "dev", "eth0")
    with pod.inside(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mouth:
        mouth.setsockopt(socket.SOL_SOCKET, 12, priority)  # SO_PRIORITY
        mouth.sendto(mark, (address, 9))


BAD = [
    ("a master of more than 15 bytes", {"master": "a" * 16}, 7, "Link not found"),
    ("a master of the node, in the pod", {"linkInContainer": True}, 7, "Link not found"),
    ("mtu 67", {"mtu": 67}, 7, "mtu: expected 0"),
    ("a master that cannot have VLANs", {"master": "lo"}, None, "VLANs not supported on device"),
]
#: What somebody changes, in the pod or on the node, and what CHECK says.
MUTATIONS = [
    ("another VLAN ID", "{pod} del eth0; {pod} add eth0 mtu 1400 address {mac} link if{index} link-netnsid 0 type vlan id 101 "
     "proto 802.1ad", "VLAN ID 101"),
    ("another protocol", "{pod} del eth0; {pod} add eth0 mtu 1400 address {mac} link if{index} link-netnsid 0 type vlan id 100",
     "protocol"),
    ("another egress map", "{pod} set eth0 type vlan egress 6:5", "egressQosMap"),
    ("another ingress map", "{pod} set eth0 type vlan ingress 5:4", "ingressQosMap"),
    ("another MTU", "{pod} set eth0 mtu 1300", "MTU of eth0 is 1400, current value is 1300"),
    ("another master", "{pod} del eth0; ip link add eth0 address {mac} link out0 netns pod1 type vlan id 100 "
     "proto 802.1ad", "stands on another link than master 'up0'"),
]


@suite.spread
class Vlan(suite.NodeTest):
    def setUp(self):
        super().setUp()
        run("ip", "-batch", "-", stdin="link add up0 type veth peer name out0\n"
            "link set up0 addrgenmode none\nlink set out0 addrgenmode none\nlink set out0 up\nlink set up0 up\n")

    def call(self, verb, conf, pod, **options):
        return cni("vlan", verb, conf, **({"netns": pod.path, "container": pod.name} | options))

    def add(self, **more):
        pod = self.pod()
        return pod, self.assert_ok(self.call("ADD", config(**more), pod))

    def link(self, pod):
        link, = json.loads(pod.run("ip", "-j", "-d", "link", "show", "eth0"))
        return link

    @suite.cases([(f"{protocol}, VLAN {number}", (protocol, number)) for protocol in PROTOCOLS for number in (0, 100, 4094)])
    def frames_are_tagged_with(self, row):
        protocol, number = row
        pod, _ = self.add(protocol=protocol, vlanId=number)
        wire = Wire("out0")
        say(pod, b"patchbay")
        self.assertEqual(wire.tag_of(b"patchbay"), (PROTOCOLS[protocol], number, 0))

    @suite.cases([(protocol, protocol) for protocol in PROTOCOLS])
    def priorities_are_mapped_with(self, protocol):
        pod, _ = self.add(protocol=protocol, egressQosMap=["0:1", "6:7"], ingressQosMap=["5:3"])
        self.assertEqual({one: self.link(pod)["linkinfo"]["info_data"].get(one) for one in ("egress_qos", "ingress_qos")},
                         {"egress_qos": [{"from": 0, "to": 1}, {"from": 6, "to": 7}],
                          "ingress_qos": [{"from": 5, "to": 3}]})
        wire = Wire("out0")
        for priority, seen in ((0, 1), (6, 7), (3, 0)):
            mark = f"priority{priority}".encode()
            say(pod, mark, priority)
            self.assertEqual(wire.tag_of(mark), (PROTOCOLS[protocol], 100, seen))
        self.assert_received(pod, protocol)

    def assert_received(self, pod, protocol):
        """A tag with priority 5 becomes the packet's priority 3, which nft(8) calls 0:3."""
        pod.run("nft", "-f", "-", stdin="table ip t { counter three { }; chain c { type filter hook prerouting priority 0; "
                "udp dport 9 meta priority 0:3 counter name three; }; }")
        mac = bytes.fromhex(self.link(pod)["address"].replace(":", ""))
        datagram = struct.pack("!HHHH", 7, 9, 8, 0)
        header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28, 0, 0, 64, 17, 0, bytes((10, 1, 2, 9)), bytes((10, 1, 2, 3)))
        total = sum(struct.unpack("!10H", header))
        total = (total & 0xffff) + (total >> 16)
        header = header[:10] + struct.pack("!H", ~total & 0xffff) + header[12:]
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as mouth:
            mouth.bind(("out0", 0))
            for priority in (5, 4):
                tag = struct.pack("!HH", PROTOCOLS[protocol], priority << 13 | 100)
                mouth.send(mac + b"\x02" + bytes(5) + tag + b"\x08\x00" + header + datagram + bytes(20))
        self.assertTrue(wait_for(lambda: "packets 1 " in pod.run("nft", "list", "counter", "ip", "t", "three")))

    @suite.cases([(protocol, protocol) for protocol in PROTOCOLS])
    def both_ways_and_no_other_VLAN_with(self, protocol):
        pod, _ = self.add(protocol=protocol)
        stranger, _ = self.add(protocol=protocol, vlanId=101, ipam={"type": "static", "addresses": [
            {"address": "10.1.2.4/24"}]})
        far = self.pod("far")
        run("ip", "link", "set", "out0", "netns", "far", "up")
        far.run("ip", "-batch", "-", stdin=f"link add far0 link out0 type vlan proto {protocol} id 100\n"
                "link set far0 up\naddr add 10.1.2.9/24 dev far0\naddr add fd00:1:2::9/64 dev far0 nodad\n")
        for address in ("10.1.2.9", "fd00:1:2::9"):
            self.assertIn(" 0% packet loss", pod.run("ping", "-c1", "-w5", address))
        for address in ("10.1.2.3", "fd00:1:2::3"):
            self.assertIn(" 0% packet loss", far.run("ping", "-c1", "-w5", address))
        self.assertIn("100% packet loss", stranger.run("ping", "-c1", "-W1", "10.1.2.9", check=False))

    def test_the_MTU_is_the_masters_or_the_configs_and_never_more(self):
        run("ip", "link", "set", "up0", "mtu", "1400")
        pod, _ = self.add()
        self.assertEqual(self.link(pod)["mtu"], 1400)
        self.assert_ok(self.call("DEL", config(), pod))
        pod, _ = self.add(mtu=1300)
        self.assertEqual(self.link(pod)["mtu"], 1300)

    @suite.cases([(str(mtu), mtu) for mtu in (1600, -100, 1501)])
    def the_reference_has_the_same_words_for_MTU(self, mtu):
        conf = config(mtu=mtu)
        del conf["vlanId"]
        error = self.assert_error(self.call("ADD", conf, self.pod(), documented=False), 7)
        self.assertEqual(error["msg"], f"invalid MTU {mtu}, must be [0, master MTU(1500)]")

    @suite.cases([(name, row) for name, *row in BAD])
    def refused_before_any_change(self, row):
        keys, code, says = row
        pod = self.pod()
        before = snapshot(), pod_snapshot(pod)
        self.assert_error(self.call("ADD", config(**keys), pod, documented=False), code, says)
        self.assert_same(before[0])
        self.assert_same(before[1], pod_snapshot(pod))

    def test_a_second_interface_of_a_VLAN_is_refused_with_a_hint(self):
        self.add()
        other = self.pod()
        error = self.assert_error(self.call("ADD", config(), other), msg="VLAN device already exists")
        self.assertIn("has a link for VLAN 100 already", error["details"])
        self.assertNotIn("eth0", other.run("ip", "link"))
        self.assert_ok(self.call("ADD", config(protocol="802.1ad"), other))

    def test_a_master_that_is_down_is_named_by_ADD_and_STATUS(self):
        run("ip", "link", "set", "up0", "down")
        pod = self.pod()
        self.assert_error(self.call("ADD", config(), pod), msg="master 'up0' is down")
        self.assert_error(self.call("STATUS", config(), pod), 50, "ip link set up0 up")
        self.assertNotIn("eth0", pod.run("ip", "link"))

    def test_STATUS_says_that_the_master_is_missing(self):
        pod = self.pod()
        self.assert_ok(self.call("STATUS", config(), pod))
        self.assert_error(self.call("STATUS", config(master="up9"), pod), 50, "up9")
        self.assert_ok(self.call("STATUS", config(master="up9", linkInContainer=True), pod))

    def test_the_master_may_be_a_link_of_the_pod(self):
        pod = self.pod()
        run("ip", "link", "set", "up0", "netns", pod.name, "up")
        conf = config(linkInContainer=True)
        result = self.assert_ok(self.call("ADD", conf, pod))
        wire = Wire("out0")
        say(pod, b"from the pod")
        self.assertEqual(wire.tag_of(b"from the pod"), (0x8100, 100, 0))
        self.assert_ok(self.call("CHECK", conf | {"prevResult": result}, pod))
        self.assert_ok(self.call("DEL", conf, pod))
        self.assertNotIn("eth0", pod.run("ip", "link"))
        for netns in ("", "/run/netns/absent"):
            self.assert_ok(self.call("DEL", conf, pod, netns=netns))

    def test_layer_2_without_ipam(self):
        pod, result = self.add(ipam=None)
        self.assertNotIn("ips", result)
        self.assertIn("UP", self.link(pod)["flags"])
        self.assert_ok(self.call("CHECK", config(ipam=None) | {"prevResult": result}, pod))
        self.assert_ok(self.call("DEL", config(ipam=None), pod))

    @suite.cases([(verb, verb) for verb in ("DEL", "GC")])
    def addresses_are_released_without_the_master_by(self, verb):
        before = snapshot()
        pod, result = self.add(ipam=POOL)
        self.assertTrue(os.path.exists("/var/lib/cni/networks/net1/10.1.2.2"))
        run("ip", "link", "del", "up0")
        self.assertNotIn("eth0", pod.run("ip", "link"))
        self.assert_error(self.call("CHECK", config(ipam=POOL) | {"prevResult": result}, pod), msg="up0")
        conf = config(ipam=POOL) | (GC if verb == "GC" else {})
        for _ in range(2):
            self.assert_ok(self.call(verb, conf, pod))
        pod.remove()
        # up0 and out0 are one pair.
        self.assert_same(before, ignore=lambda place: left_by_design(place) or "up0" in place or "out0" in place)

    @suite.cases([(name, row) for name, *row in MUTATIONS])
    def CHECK_notices(self, row):
        command, says = row
        keys = {"protocol": "802.1ad", "egressQosMap": ["6:7"], "ingressQosMap": ["5:3"], "mtu": 1400}
        pod, result = self.add(**keys)
        conf = config(**keys) | {"prevResult": result}
        self.assert_ok(self.call("CHECK", conf, pod))
        index = json.loads(run("ip", "-j", "link", "show", "up0"))[0]["ifindex"]
        pod.run("ip", "netns", "set", "pod1", "0", check=False)
        run("sh", "-ec", command.format(pod="ip -n pod1 link", index=index, mac=result["interfaces"][0]["mac"]))
        pod.run("ip", "-batch", "-", stdin="link set eth0 up\naddr replace 10.1.2.3/24 dev eth0\n"
                "addr replace fd00:1:2::3/64 dev eth0 nodad\n")
        self.assert_error(self.call("CHECK", conf, pod), msg=says)

    def test_64_come_and_go_at_once(self):
        lack("vlan")  # loads the module: of its loaders the kernel has no more than 50 at once
        before = snapshot()
        pods = [self.pod() for _ in range(64)]
        for verb in ("ADD", "DEL"):
            outcomes = finish_all([start("vlan", verb, config(vlanId=number, ipam=POOL), netns=pod.path, container=pod.name)
                                   for number, pod in enumerate(pods, 1)])
            self.assertEqual([str(one) for one in outcomes if not one.ok], [])
            if verb == "ADD":
                self.assertEqual(len({one.json["ips"][0]["address"] for one in outcomes}), len(pods))
                self.assertEqual({self.link(pod)["linkinfo"]["info_data"]["id"] for pod in pods}, set(range(1, 65)))
        for pod in pods:
            pod.remove()
        self.assert_same(before, ignore=left_by_design)


if __name__ == "__main__":
    if os.path.isdir(OURS):
        guest.enter_unless(lambda: not lack("vlan"), "this kernel has no VLANs")
    suite.main(needs=("ping",), sampled_in_guest=True)
