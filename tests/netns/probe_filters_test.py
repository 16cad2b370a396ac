#!/usr/bin/env python3
"""`cnitool probe` names rules of iptables, of a pod's own, and filters and qdiscs of tc."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.rows import sampled  # noqa: E402
from support.troubles import TroubleTest, words  # noqa: E402


ROWS = [
    ("iptables raw", words("iptables -t raw -I PREROUTING -s {a} -j DROP", "chain 'PREROUTING' of table ip raw", undo="iptables -t raw -F")),
    ("iptables mangle", words("iptables -t mangle -A POSTROUTING -d {p} -j DROP", "chain 'POSTROUTING' of table ip mangle",
                              undo="iptables -t mangle -F")),
    ("iptables reject", words("iptables -I FORWARD -s {a} -j REJECT", "chain 'FORWARD' of table ip filter", undo="iptables -F FORWARD")),
    ("ip6tables", words("ip6tables -I INPUT -s {a6} -j DROP", "chain 'INPUT' of table ip6 filter", undo="ip6tables -F INPUT")),
    ("iptables-legacy", words("iptables-legacy -I FORWARD -s {a} -j DROP", "iptables-legacy", undo="iptables-legacy -F FORWARD")),
    ("iptables-legacy, security", words("iptables-legacy -t security -I FORWARD -s {a} -j DROP", "iptables-legacy", undo="iptables-legacy -t security -F FORWARD")),
    ("input in the pod", words("ip netns exec a nft 'add table inet own; add chain inet own c { type filter hook input priority 0; policy drop; }'",
                               "chain 'c' of table inet own", "in the pod", undo="ip netns exec a nft delete table inet own")),
    ("output in the pod", words("ip netns exec a iptables -I OUTPUT -j DROP", "chain 'OUTPUT' of table ip filter", "in the pod",
                                undo="ip netns exec a iptables -F")),
    ("netdev egress in the pod", words("ip netns exec a nft 'add table netdev own; add chain netdev own c { type filter hook egress device eth0 priority 0; }; "
                                       "add rule netdev own c ip protocol icmp drop'", "chain 'c' of table netdev own", "in the pod",
                                       undo="ip netns exec a nft delete table netdev own")),
    ("tc ingress of a host veth", words("tc qdisc add dev {va} clsact; tc filter add dev {va} ingress matchall action drop", "filter", "'{va}'",
                                        undo="tc qdisc del dev {va} clsact", heals=False)),
    ("tc egress of a host veth", words("tc qdisc add dev {va} clsact; tc filter add dev {va} egress protocol ip u32 match ip dst {a} action drop",
                                       "filter", "'{va}'", undo="tc qdisc del dev {va} clsact", heals=False)),
    ("tc ingress of the uplink", words("tc qdisc add dev up0 clsact; tc filter add dev up0 ingress protocol ip u32 match ip protocol 1 0xff action drop",
                                       "filter", "'up0'", undo="tc qdisc del dev up0 clsact", heals=False)),
    ("tc by eBPF", words("tc qdisc add dev {va} clsact; tc filter add dev {va} ingress pref 7 bpf da bytecode '1,6 0 0 2'", "filter of tc", "'{va}'", "bpf of priority 7",
                         undo="tc qdisc del dev {va} clsact", heals=False)),
    ("tc of the bridge by eBPF", words("tc qdisc add dev cni0 clsact; tc filter add dev cni0 egress pref 7 bpf da bytecode '1,6 0 0 2'", "filter of tc", "'cni0'", "bpf of priority 7",
                                       undo="tc qdisc del dev cni0 clsact", heals=False)),
    ("tc of the uplink by eBPF", words("tc qdisc add dev up0 clsact; tc filter add dev up0 egress pref 7 bpf da bytecode '1,6 0 0 2'", "filter of tc", "'up0'", "bpf of priority 7",
                                       undo="tc qdisc del dev up0 clsact", heals=False)),
    ("tc of the uplink by eBPF, ingress", words("tc qdisc add dev up0 clsact; tc filter add dev up0 ingress pref 7 bpf da bytecode '1,6 0 0 2'", "'up0'", "bpf", "of priority 7",
                                                undo="tc qdisc del dev up0 clsact", heals=False)),
    ("tc police", words("tc qdisc add dev {va} clsact; tc filter add dev {va} ingress matchall action police rate 8bit burst 10 conform-exceed drop",
                        "filter", "'{va}'", undo="tc qdisc del dev {va} clsact", heals=False)),
    ("tc redirect", words("tc qdisc add dev {va} clsact; tc filter add dev {va} ingress matchall action mirred egress redirect dev lo",
                          "filter", "'{va}'", undo="tc qdisc del dev {va} clsact", heals=False)),
    ("netem of a host veth", words("tc qdisc add dev {va} root netem loss 100%", "netem", "'{va}'", undo="tc qdisc del dev {va} root", heals=False)),
    ("netem in the pod", words("tc -n a qdisc add dev eth0 root netem loss 100%", "netem", "'eth0'", "the pod", undo="tc -n a qdisc del dev eth0 root", heals=False)),
    ("tbf that holds all back", words("tc qdisc add dev {va} root tbf rate 8bit burst 10 limit 10", "tbf", "'{va}'", heals=False, undo="tc qdisc del dev {va} root")),
    ("a qdisc that drops all", words("tc qdisc add dev up0 root handle 1: prio; tc qdisc add dev up0 parent 1:1 blackhole; tc qdisc add dev up0 parent 1:2 blackhole; "
                                     "tc qdisc add dev up0 parent 1:3 blackhole", "qdisc prio", "'up0'", undo="tc qdisc del dev up0 root", heals=False)),
]


@suite.spread
class Filters(TroubleTest):
    @suite.cases(sampled(ROWS))
    def names(self, row):
        self.assert_named(row)


if __name__ == "__main__":
    suite.main()
