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
]


@suite.spread
class Routes(TroubleTest):
    @suite.cases(sampled(ROWS))
    def names(self, row):
        self.assert_named(row)


if __name__ == "__main__":
    suite.main()
