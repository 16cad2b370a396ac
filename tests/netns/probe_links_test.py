#!/usr/bin/env python3
"""`cnitool probe` names links: host veths, bridges and their ports, uplinks, MAC addresses and sizes, of the node and of a pod."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.rows import sampled  # noqa: E402
from support.troubles import TroubleTest, words  # noqa: E402

ROWS = [
    ("host veth down", words("ip link set {va} down", "'{va}'", "is down", remedy="ip link set")),
    ("host veth of ptp down", words("ip link set {vp} down", "'{vp}'", "is down", remedy="cnitool repair")),
    ("host veth no port", words("ip link set {va} nomaster", "'{va}'", "no port of 'cni0'", remedy="ip link set")),
    ("host veth of another bridge", words("ip link add br9 type bridge; ip link set br9 up; ip link set {va} master br9", "'{va}'", "'br9'",
                                          undo="ip link del br9")),
    ("bridge down", words("ip link set cni0 down", "'cni0'", "is down")),
    ("bridge without its address", words("ip addr flush dev cni0", "10.1.2.1", "'cni0'")),
    ("bridge deleted", words("ip link del cni0", "'cni0'", "does not exist")),
    ("uplink down", words("ip link set up0 down", "'up0'", "is down", undo="ip link set up0 up; ip route replace default via 192.0.2.2", heals=False)),
    ("uplink without a carrier", words("ip -n outside link set eth0 down", "'up0'", "no carrier", undo="ip -n outside link set eth0 up", heals=False)),
    ("ports isolated", words("bridge link set dev {va} isolated on; bridge link set dev {vb} isolated on", "isolated from each other", remedy="bridge link set")),
    ("port disabled", words("bridge link set dev {va} state 0", "'{va}'", "disabled")),
    ("port without learning and flooding", words("bridge link set dev {va} learning off; bridge link set dev {va} flood off; bridge fdb del {maca} dev {va} master", "'{va}'", "flood")),
    ("MAC of the host veth is the pod's", words("ip link set {va} address {maca}; ip neigh flush dev cni0", "'{va}' has the pod's MAC address {maca}", remedy="ip link set")),
    ("entry of the fdb elsewhere", words("bridge fdb replace {maca} dev {vb} master static sticky", "{maca}", "'{vb}'", remedy="bridge fdb")),
    ("entry of the fdb on the bridge", words("bridge fdb replace {maca} dev cni0 self local", "{maca}", "'cni0'", remedy="bridge fdb")),
    ("entry of the fdb of a VLAN", words("ip link set cni0 type bridge vlan_filtering 1; bridge fdb replace {maca} dev {vb} master static sticky vlan 1", "{maca}", "'{vb}'",
                                         remedy="vlan 1", undo="ip link set cni0 type bridge vlan_filtering 0; ip neigh flush dev cni0")),
    ("wrong VLAN", words("ip link set cni0 type bridge vlan_filtering 1; bridge vlan del dev {va} vid 1; bridge vlan add dev {va} vid 9 pvid untagged", "'{va}'", "VLAN 9",
                         undo="ip link set cni0 type bridge vlan_filtering 0; bridge vlan del dev {va} vid 9; bridge vlan add dev {va} vid 1 pvid untagged")),
    ("no VLAN", words("ip link set cni0 type bridge vlan_filtering 1; bridge vlan del dev {va} vid 1", "'{va}'", "VLAN",
                      undo="ip link set cni0 type bridge vlan_filtering 0; bridge vlan add dev {va} vid 1 pvid untagged")),
    ("MAC of a pod changed", words("ip -n a link set eth0 address 02:00:00:00:00:77; ip neigh flush dev cni0", "02:00:00:00:00:77", "{maca}",
                                   undo="ip -n a link set eth0 address {maca}; ip neigh flush dev cni0")),
    ("ARP of the bridge off", words("ip link set cni0 arp off", "'cni0'", "ARP", undo="ip link set cni0 arp on; ip neigh flush dev cni0")),
    ("bridge in a VRF", words("ip link add red type vrf table 9; ip link set red up; ip link set cni0 master red", "'cni0'", "'red'",
                              undo="ip link set cni0 nomaster; ip link del red; cnitool repair")),
    ("MTU of a host veth", words("ip link set {va} mtu 1280", "'{va}'", "1280", undo="ip link set {va} mtu 1500")),
    ("MTU of the uplink", words("ip link set up0 mtu 1400", "'up0'", "1400", undo="ip link set up0 mtu 1500")),
    ("interface of a pod down", words("ip -n a link set eth0 down", "'eth0'", "is down", "in the pod", undo="ip -n a link set eth0 up; ip -n a route add default via 10.1.2.1; "
                                      "ip -n a -6 addr add {a6}/64 dev eth0 nodad; ip -n a -6 route add default via fd00:1:2::1")),
    ("uplink in a bridge", words("ip link set up0 master cni0; ip neigh flush dev up0", "'up0'", "port of the bridge 'cni0'", remedy="ip link set up0 nomaster")),
    ("host veth of ptp in a bridge", words("ip link set {vp} master cni0", "'{vp}'", "port of the bridge 'cni0'", remedy="nomaster")),
    ("ARP of the uplink off", words("ip link set up0 arp off; ip neigh flush dev up0", "'up0'", "ARP", undo="ip neigh flush dev up0")),
    ("ARP of a pod off", words("ip -n a link set eth0 arp off", "'eth0'", "ARP", "in the pod")),
    ("MAC of the bridge in a pod", words("ip -n a link set eth0 address $(cat /sys/class/net/cni0/address); ip neigh flush dev cni0", "in the pod", "'cni0'", remedy="address {maca}",
                                         others=["instead of"], undo="ip neigh flush dev cni0; for pod in a b; do ip -n $pod neigh flush all; done")),
    ("one MAC for two pods", words("ip -n b link set eth0 address {maca}; ip neigh flush dev cni0; ip -n a neigh flush all", "{maca} instead of {macb}",
                                   undo="ip neigh flush dev cni0; for pod in a b; do ip -n $pod neigh flush all; done")),
    ("MTU behind the uplink", words("ip -n outside link set eth0 mtu 1400", "1500 bytes are lost behind 'up0'", undo="ip -n outside link set eth0 mtu 1500")),
    ("address twice on the bridge", words("ip -n b addr add {a}/28 dev eth0", "address {a}", "another host", undo="ip -n b addr del {a}/28 dev eth0; ip neigh flush dev cni0", others=["has that address, too"], heals=False)),
    ("the gateway's address behind a pod, with the uplink's MAC address", words(
        "ip netns add deep; ip -n b link add link eth0 name m0 address $(cat /sys/class/net/up0/address) type macvlan mode bridge; ip -n b link set m0 netns deep; "
        "ip -n deep addr add 10.1.2.1/28 dev m0; ip -n deep link set m0 up", "address 10.1.2.1", "another host",
        undo="ip netns del deep; ip neigh flush dev cni0; ip -n a neigh flush all; ip -n b neigh flush all", heals=False)),
    ("a second port with the MAC address of a pod", words("ip link add d0 type veth peer name d1; ip link set d0 address {maca}; ip link set d0 master cni0; ip link set d0 up; ip link set d1 up",
                                                          "forwarding database of 'cni0' has {maca} at 'd0'", undo="ip link del d0")),
    ("address of IPv6 twice on the bridge", words("ip -n b addr add {a6}/64 dev eth0 nodad", "address {a6}", "another host", undo="ip -n b addr del {a6}/64 dev eth0; ip neigh flush dev cni0", others=["has that address, too"], heals=False)),
]


@suite.spread
class Links(TroubleTest):
    @suite.cases(sampled(ROWS))
    def names(self, row):
        self.assert_named(row)


if __name__ == "__main__":
    suite.main()
