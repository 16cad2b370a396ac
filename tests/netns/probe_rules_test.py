#!/usr/bin/env python3
"""`cnitool probe` names rules of nf_tables on every hook."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.rows import sampled  # noqa: E402
from support.troubles import TroubleTest, words  # noqa: E402


def table(family, hook, rule, where="", **more):
    """A rule in a chain of a table of its own."""
    device = f" device {where}" if where else ""
    make = (f"nft add table {family} site; nft 'add chain {family} site c {{ type filter hook {hook}{device} priority {more.pop('priority', 0)}; }}'; "
            f"nft 'add rule {family} site c {rule}'")
    return words(make, f"chain 'c' of table {family} site", *more.pop("parts", ()), undo=f"nft delete table {family} site", **more)


ROWS = [
    ("inet prerouting", table("inet", "prerouting", "ip saddr {a} drop", parts=["ip saddr {a} drop"])),
    ("inet input", table("inet", "input", "ip saddr {a} counter drop", remedy="'ip saddr {a}' accept")),
    ("a port alone", table("inet", "forward", "tcp dport 80 drop", remedy="'tcp dport 80' accept")),
    ("a pod's own drop of an address", words("ip netns exec a nft 'add table ip own; add chain ip own c { type filter hook input priority 0; }; add rule ip own c ip saddr 10.1.2.1 drop'",
                                             "in the pod", "chain 'c' of table ip own", remedy="ip saddr 10.1.2.1", undo="ip netns exec a nft delete table ip own")),
    ("inet forward", table("inet", "forward", "ip saddr {a} drop")),
    ("inet output", table("inet", "output", "ip daddr {a} drop")),
    ("inet postrouting", table("inet", "postrouting", "ip daddr {p} drop")),
    ("inet ingress of the bridge", table("inet", "ingress", "ip saddr {a} drop", "cni0")),
    ("ip6 input", table("ip6", "input", "ip6 saddr {a6} drop")),
    ("netdev ingress of a host veth", table("netdev", "ingress", "ip saddr {a} icmp type echo-request drop", "{va}")),
    ("netdev ingress of the uplink", table("netdev", "ingress", "ip saddr 192.0.2.2 drop", "up0")),
    ("netdev egress of a host veth", table("netdev", "egress", "ip daddr {a} drop", "{va}")),
    ("netdev egress of the uplink", table("netdev", "egress", "ip protocol icmp drop", "up0")),
    ("netdev forward to another link", table("netdev", "ingress", "ip saddr {a} icmp type echo-request fwd to lo", "{va}")),
    ("bridge prerouting", table("bridge", "prerouting", "ip saddr {a} drop")),
    ("bridge forward", table("bridge", "forward", "ip saddr {a} drop")),
    ("bridge input", table("bridge", "input", "ip saddr {a} drop")),
    ("bridge output", table("bridge", "output", "ip daddr {a} drop")),
    ("bridge postrouting", table("bridge", "postrouting", "ip daddr {a} drop")),
    ("arp input", table("arp", "input", "arp saddr ip {a} drop")),
    ("arp output", table("arp", "output", "arp daddr ip {a} drop")),
    ("bridge ARP", table("bridge", "prerouting", "ether type arp arp saddr ip {a} drop")),
    ("neighbour solicitations", table("ip6", "input", "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } drop")),
    ("a queue that nobody reads", table("inet", "forward", "ip saddr {a} queue num 7")),
    ("a reject", table("inet", "forward", "ip saddr {a} reject with icmpx type admin-prohibited")),
    ("a chain by a map", words("nft add table ip site; nft add chain ip site deny; nft add rule ip site deny counter drop; "
                               "nft 'add chain ip site c { type filter hook forward priority 0; }'; "
                               "nft 'add rule ip site c ip saddr vmap { {a} : jump deny }'", "chain 'deny' of table ip site",
                               undo="nft delete table ip site")),
    ("a limit", table("inet", "input", "ip saddr {a} limit rate over 1/hour burst 1 packets drop", remedy="daddr 10.1.2.0/28 accept")),
    ("untracked packets of hostPorts", table("inet", "prerouting", "tcp dport 8080 notrack", priority=-300)),
    ("untracked answers from beyond the node", words(
        "ip addr add fd00:9::1/64 dev up0 nodad; for n in 2 3; do ip -n outside addr add fd00:9::$n/64 dev eth0 nodad; done; ip -6 route add default via fd00:9::2; nft add table ip6 site; "
        "nft 'add chain ip6 site c { type filter hook prerouting priority -300; }; add chain ip6 site f { type filter hook forward priority 0; }; "
        "add rule ip6 site c notrack; add rule ip6 site f ct state untracked drop'", "table ip6 site",
        works="ip netns exec a ping -6 -c1 -W2 fd00:9::3",
        undo="nft delete table ip6 site; ip -6 route del default; ip addr del fd00:9::1/64 dev up0; for n in 2 3; do ip -n outside addr del fd00:9::$n/64 dev eth0; done")),
    ("a source that is rewritten", table("ip", "prerouting", "ip saddr {a} ip saddr set 10.77.0.1", priority=-300, parts=["rewrites packets", "saddr set"])),
    ("a time to live", table("ip", "prerouting", "ip saddr {a} ip ttl set 1", priority=-150, parts=["rewrites packets", "ttl set 1"])),
    ("a protocol that is rewritten", table("ip", "prerouting", "ip saddr {a} ip protocol set 254", priority=-300, parts=["rewrites packets"])),
    ("a packet that is for another host", table("bridge", "prerouting", "ip saddr {a} meta pkttype set other", priority=-300, parts=["rewrites packets"])),
    ("ARP that is rewritten", table("arp", "output", "arp daddr ip {a} arp saddr ether set 02:00:00:00:00:88", parts=["rewrites packets of ARP"])),
    ("a SNAT to the source itself", words("nft 'add table ip site; add chain ip site c { type nat hook postrouting priority 0; }; add rule ip site c ip saddr {a} snat to {a}'",
                                          "the source of packets stays {a} by chain 'c' of table ip site", undo="nft delete table ip site")),
    ("a REDIRECT of a hostPort", words("iptables -t nat -I PREROUTING -p tcp --dport 8080 -j REDIRECT --to-ports 9", "stay on the node", "chain 'PREROUTING' of table ip nat",
                                       undo="iptables -t nat -F")),
    ("a DNAT of a pod's own", words("ip netns exec a nft 'add table ip own; add chain ip own c { type nat hook output priority -100; }; add rule ip own c ip daddr 10.1.2.1 dnat to 10.1.2.14'",
                                    "in the pod", "chain 'c' of table ip own", "dnat to 10.1.2.14", undo="ip netns exec a nft delete table ip own")),
    ("a table of a pod's that has firewalld's name", words("ip netns exec a nft 'add table inet firewalld; add chain inet firewalld c { type filter hook input priority 0; policy drop; }'",
                                                           "in the pod", "chain 'c' of table inet firewalld", remedy="nft insert rule", undo="ip netns exec a nft delete table inet firewalld")),
    ("a source that is replaced on input", words("nft add table ip site; nft 'add chain ip site c { type nat hook input priority 100; }'; nft 'add rule ip site c ip saddr {a} snat to 10.9.9.9'",
                                                 "replaced by 10.9.9.9", "chain 'c' of table ip site", undo="nft delete table ip site")),
    ("a reverse path of a rule", table("inet", "prerouting", "fib saddr . iif oif != cni0 drop")),
    ("a zone of the reply alone", table("inet", "prerouting", "iifname cni0 ct zone set 5", priority=-300)),
]


@suite.spread
class Rules(TroubleTest):
    @suite.cases(sampled(ROWS))
    def names(self, row):
        self.assert_named(row)


if __name__ == "__main__":
    suite.main()
