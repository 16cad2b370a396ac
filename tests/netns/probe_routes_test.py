#!/usr/bin/env python3
"""`cnitool probe` names routes and rules of the routing policy."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.rows import sampled  # noqa: E402
from support.troubles import TroubleTest, words  # noqa: E402


def route(text, *parts, **more):
    return words(f"ip route add {text}", *parts, undo=f"ip route del {text}", **more)


LOCAL_FIRST = ("ip rule add lookup local pref 0; for pref in 100 50 49 48; do while ip rule del pref $pref; do :; done; done; "
               "ip route flush table 77")
ROWS = [
    ("blackhole", route("blackhole {a}", "blackhole {a}", remedy="ip route del blackhole {a}")),
    ("unreachable", route("unreachable {a}", "unreachable {a}")),
    ("prohibit", route("prohibit {a}", "prohibit {a}")),
    ("throw", route("throw {a}", "throw {a}")),
    ("blackhole6", words("ip -6 route add blackhole {a6}", "blackhole {a6}", undo="ip -6 route del blackhole {a6}")),
    ("local", words("ip route add local {a} dev lo table local", "local {a}", undo="ip route del local {a} dev lo table local")),
    ("local of the gateway deleted", words("ip route del local 10.1.2.1 dev cni0 table local", "10.1.2.1", "table local", remedy="ip route add local 10.1.2.1")),
    ("more specific", route("{a} dev up0", "{a}", "dev up0", remedy="ip route del")),
    ("by a gateway on the link", route("{a} via 192.0.2.77 dev up0 onlink", "{a}", "192.0.2.77", remedy="ip route del")),
    ("nexthop object", words("ip nexthop add id 7 via 192.0.2.77 dev up0; ip route add {a} nhid 7", "{a}", "192.0.2.77", remedy="ip route del", undo="ip nexthop del id 7")),
    ("nexthop object that drops", words("ip nexthop add id 7 blackhole; ip route add {a} nhid 7", "blackhole {a}", remedy="ip route del", undo="ip nexthop del id 7")),
    ("multipath", route("{a} nexthop dev up0 nexthop dev lo", "{a}", remedy="ip route del")),
    ("default deleted while pods have connections", words("ip netns exec a python3 -c 'import socket; socket.socket(2, 2).sendto(b\"x\", (\"198.51.100.7\", 9))'; ip route del default",
                                                          "no default route for IPv4", "connections to hosts without a route", remedy="restart ", undo="ip link set up0 down; ip link set up0 up; ip route add default via 192.0.2.2")),  # which forgets masqueraded connections
    ("default by a dead gateway", words("ip route replace default via 192.0.2.77", "192.0.2.77", undo="ip route replace default via 192.0.2.2", heals=False)),
    ("default by a dead gateway that decides", words("ip route del default; ip route add default via 192.0.2.77 metric 50; ip route add default via 192.0.2.2 metric 100",
                                                     "192.0.2.77", undo="ip route flush default; ip route add default via 192.0.2.2", heals=False)),
    ("rule to", words("ip route add default via 192.0.2.2 table 77; ip rule add to {a} lookup 77 pref 50", "priority 50", "to {a}",
                      undo="ip rule del pref 50; ip route flush table 77; while ip rule del pref 49; do :; done")),
    ("rule from", words("ip route add default via 192.0.2.2 table 77; ip rule add from {a} lookup 77 pref 50", "priority 50", "from {a}",
                        undo="ip rule del pref 50; ip route flush table 77; while ip rule del pref 49; do :; done")),
    ("rule iif prohibit", words("ip rule add iif cni0 prohibit pref 50", "priority 50", "iif cni0", "prohibit", undo="ip rule del pref 50; while ip rule del pref 49; do :; done")),
    ("rule blackhole", words("ip rule add to {a} blackhole pref 50", "priority 50", "blackhole", undo="ip rule del pref 50; while ip rule del pref 49; do :; done")),
    ("rule unreachable", words("ip rule add from {p} unreachable pref 50", "priority 50", "unreachable", undo="ip rule del pref 50; while ip rule del pref 49; do :; done")),
    ("rule uidrange", words("ip rule add uidrange 0-0 prohibit pref 50", "priority 50", "uidrange", undo="ip rule del pref 50; while ip rule del pref 49; do :; done")),
    ("rule ipproto", words("ip rule add ipproto icmp prohibit pref 50", "priority 50", "ipproto", undo="ip rule del pref 50; while ip rule del pref 49; do :; done")),
    ("rule dport", words("ip rule add ipproto tcp dport 80 blackhole pref 50", "priority 50", "dport 80", undo="ip rule del pref 50; while ip rule del pref 49; do :; done")),
    ("rule sport", words("ip rule add ipproto tcp sport 80 prohibit pref 50", "priority 50", "sport 80", undo="ip rule del pref 50; while ip rule del pref 49; do :; done")),
    ("rule6", words("ip -6 rule add to {a6} prohibit pref 50", "priority 50", "prohibit", undo="ip -6 rule del pref 50; while ip -6 rule del pref 49; do :; done")),
    ("fwmark and blackhole", words("nft add table ip m; nft 'add chain ip m c { type filter hook prerouting priority -150; }'; "
                                   "nft add rule ip m c ip saddr {a} meta mark set 7; ip route add blackhole default table 77; "
                                   "ip rule add fwmark 7 lookup 77 pref 50", "priority 50", "fwmark 0x7", "blackhole",
                                   undo="nft delete table ip m; ip rule del pref 50; while ip rule del pref 49; do :; done; ip route flush table 77")),
    ("a rule for main was removed", words("ip rule del lookup main", "lookup main", undo="ip rule show | grep -q 'lookup main' || ip rule add lookup main pref 32766")),
    ("a jump to a rule that refuses", words("ip rule add pref 40000 prohibit; ip rule add from {a} goto 40000 pref 50", "priority 50", "goto 40000", "priority 40000",
                                            undo="ip rule del pref 50; ip rule del pref 40000; while ip rule del pref 49; do :; done")),
    ("a jump past main", words("ip rule add pref 40000 nop; ip rule add from {a} goto 40000 pref 50", "priority 50", "goto 40000",
                               undo="ip rule del pref 50; ip rule del pref 40000; while ip rule del pref 49; do :; done")),
    ("a jump to another table", words("ip rule add pref 40000 lookup 77; ip route add default via 192.0.2.77 dev up0 table 77; ip rule add to {a} goto 40000 pref 50",
                                      "priority 50", "goto 40000", "lookup 77",
                                      undo="ip rule del pref 50; ip rule del pref 40000; while ip rule del pref 49; do :; done; ip route flush table 77")),
    ("a rule before local that refuses", words("ip rule add lookup local pref 100; ip rule del pref 0; ip rule add to 10.1.2.1 prohibit pref 50", "priority 50", "prohibit", remedy="lookup local priority 48",
                                               undo=LOCAL_FIRST)),
    ("a rule before local from pods", words("ip rule add lookup local pref 100; ip rule del pref 0; ip route add default via 192.0.2.77 table 77; ip rule add from 10.1.2.0/28 lookup 77 pref 50",
                                            "priority 50", "from 10.1.2.0/28 lookup 77", remedy="lookup local priority 48", undo=LOCAL_FIRST)),
    ("a rule before local to pods", words("ip rule add lookup local pref 100; ip rule del pref 0; ip route add default via 192.0.2.77 table 77; ip rule add to 10.1.2.0/28 lookup 77 pref 50",
                                          "priority 50", "to 10.1.2.0/28 lookup 77", remedy="lookup local priority 48", undo=LOCAL_FIRST)),
    ("a rule for local was removed", words("ip rule del pref 0", "lookup local", remedy="ip rule add lookup local priority 0")),
    ("routes that are suppressed", words("ip rule add lookup main suppress_prefixlength 28 pref 32765; ip rule del pref 32766", "suppress_prefixlength 28",
                                         undo="ip rule add lookup main pref 32766; ip rule del pref 32765; while ip rule del pref 32764; do :; done")),
    ("a rule for what comes by the uplink", words("ip rule add iif up0 blackhole pref 50", "priority 50", "iif up0", undo="ip rule del pref 50; while ip rule del pref 49; do :; done")),
    ("broadcast", words("ip route add broadcast {a} dev cni0", "broadcast {a}", remedy="ip route del broadcast {a}")),
    ("multicast", words("ip route add multicast {a} dev cni0 table local", "multicast {a}", remedy="table local")),
    ("more specific of a connected subnet", words("ip addr add 10.1.2.6/29 dev up0", "10.1.2.0/29 dev up0", undo="ip addr del 10.1.2.6/29 dev up0")),
    ("address of a pod on the node", words("ip addr add {a}/32 dev lo", "the node has {a} on 'lo'", remedy="ip addr del {a}/32 dev lo")),
    ("the router's address is local", words("ip route add local 192.0.2.2 dev lo table local", "192.0.2.2", "for itself", undo="ip route del local 192.0.2.2 dev lo table local", heals=False)),
    ("default that refuses", words("ip route replace unreachable default", "unreachable default", undo="ip route flush default; ip route add default via 192.0.2.2")),
    ("one of two hops is dead", words("ip route replace default nexthop via 192.0.2.2 dev up0 nexthop via 192.0.2.77 dev up0", "192.0.2.77", "MAC", undo="ip route replace default via 192.0.2.2", heals=False)),
    ("default by a link where its gateway is not", words("ip route replace default via 192.0.2.2 dev cni0 onlink", "192.0.2.2", "'cni0'", undo="ip route replace default via 192.0.2.2", heals=False)),
    ("a link-local router of IPv6 is dead", words("ip -6 route add default via fe80::99 dev up0 metric 5", "fe80::99", "'up0'", undo="ip -6 route del default via fe80::99 dev up0", heals=False)),
    ("an MTU of a route", words("ip route add 192.0.2.2 dev up0 proto dhcp src 192.0.2.1 metric 100 mtu lock 600", "192.0.2.2/32 dev up0", "takes 600 bytes", remedy="src 192.0.2.1 metric 100",
                               undo="ip route del 192.0.2.2 dev up0")),
    ("another table in the pod", words("ip -n a route add default via 10.1.2.14 table 9; ip -n a rule add from {a} lookup 9 pref 9", "10.1.2.14", "in the pod",
                                       undo="ip -n a rule del pref 9; ip -n a route flush table 9")),
    ("by a link in the pod whose name is a command", words("ip -n a link add 'x;false' type veth peer name x1; ip -n a link set x1 up; ip -n a link set 'x;false' up; ip -n a route add 10.1.2.1 dev 'x;false'",
                                                           "dev 'x;false'", "in the pod", undo="ip -n a link del 'x;false'")),
    ("address of a pod on the uplink", words("ip addr add {a}/32 dev up0", "the node has {a} on 'up0'", remedy="cnitool list --address {a}", undo="ip addr del {a}/32 dev up0", heals=False)),
    ("local in the pod was removed", words("ip -n a rule del pref 0", "lookup local", "in the pod")),
]


@suite.spread
class Routes(TroubleTest):
    @suite.cases(sampled(ROWS))
    def names(self, row):
        self.assert_named(row)


if __name__ == "__main__":
    suite.main()
