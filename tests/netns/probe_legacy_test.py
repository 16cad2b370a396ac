#!/usr/bin/env python3
"""`cnitool probe` names rules of iptables-legacy, which no kernel traces: by what they count while the probes are sent."""

import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import guest, suite  # noqa: E402
from support.rows import sampled  # noqa: E402
from support.troubles import TroubleTest, words  # noqa: E402
from support.world import run  # noqa: E402

DROPPED = "iptables-legacy, which cannot be followed, has dropped packets: "


def rule(table, text, *parts, where="", program="iptables-legacy", **more):
    """A rule at the head of a chain: its finding has the rule as it is typed."""
    make = f"{where}{program} -t {table} -I {text}"
    undo = f"{where}{program} -t {table} -F"
    prefix = "" if table == "filter" else f"-t {table} "
    return words(make, *(parts or (f"{DROPPED}{prefix}-A {text}",)), undo=undo, **more)


ROWS = [
    ("raw", rule("raw", "PREROUTING -s {a}/32 -j DROP")),
    ("mangle", rule("mangle", "POSTROUTING -d {p}/32 -j DROP")),
    ("security", rule("security", "INPUT -s {a}/32 -j DROP")),
    ("a reject", rule("filter", "FORWARD -s {a}/32 -j REJECT --reject-with icmp-admin-prohibited")),
    ("a reset", rule("filter", "FORWARD -p tcp -m tcp --dport 80 -j REJECT --reject-with tcp-reset")),
    ("a reset in the pod", rule("filter", "INPUT -p tcp -m tcp --dport 80 -j REJECT --reject-with tcp-reset", "in the pod", "-A INPUT -p tcp -m tcp --dport 80",
                                where="ip netns exec a ")),
    ("what is large", rule("mangle", "FORWARD -s {a}/32 -m length --length 1000:65535 -j DROP")),
    ("output", rule("filter", "OUTPUT -d {a}/32 -o cni0 -j DROP")),
    ("a chain that a rule jumps to", words("iptables-legacy -N SITE; iptables-legacy -A SITE -p icmp -j DROP; iptables-legacy -I INPUT -s {a} -g SITE", "-A SITE -p icmp -j DROP",
                                           undo="iptables-legacy -F; iptables-legacy -X SITE")),
    ("a chain of Docker's", words("iptables-legacy -N DOCKER-USER; iptables-legacy -A DOCKER-USER -s {a} -j DROP; iptables-legacy -I FORWARD -j DOCKER-USER",
                                  "-A DOCKER-USER -s {a}/32 -j DROP (Docker's)", undo="iptables-legacy -F; iptables-legacy -X DOCKER-USER")),
    ("a policy", words("iptables-legacy -P FORWARD DROP", "dropped packets: -P FORWARD DROP", undo="iptables-legacy -P FORWARD ACCEPT; iptables-legacy -F")),
    ("a comment", words("iptables-legacy -I INPUT -s {a} -m comment --comment 'no \"pods\"' -m conntrack --ctstate NEW -j DROP", DROPPED, "no \\\"pods\\\"",
                        undo="iptables-legacy -F")),
    ("IPv6", rule("filter", "INPUT -s {a6}/128 -j DROP", "a rule of ip6tables-legacy", "-A INPUT -s {a6}/128 -j DROP", program="ip6tables-legacy")),
    ("IPv6 in raw", rule("raw", "PREROUTING -s {a6}/128 -j DROP", "-t raw -A PREROUTING -s {a6}/128 -j DROP", program="ip6tables-legacy")),
    ("in the pod", rule("filter", "INPUT -p icmp -j DROP", "in the pod", "-A INPUT -p icmp -j DROP", where="ip netns exec a ")),
    ("output in the pod", rule("mangle", "OUTPUT -d 10.1.2.1/32 -j DROP", "in the pod", "-t mangle -A OUTPUT -d 10.1.2.1/32 -j DROP", where="ip netns exec a ")),
    ("a queue that nobody reads", rule("filter", "FORWARD -s {a}/32 -j NFQUEUE --queue-num 7")),
    ("DNAT", rule("nat", "PREROUTING -p tcp -m tcp --dport 8080 -j DNAT --to-destination {b}:80",
                  "are led to {b} and not to {a} by a rule of iptables-legacy: -t nat -A PREROUTING -p tcp -m tcp --dport 8080 -j DNAT")),
    ("SNAT", rule("nat", "POSTROUTING -s {a}/32 -d 192.0.2.2/32 -j SNAT --to-source 10.77.0.1",
                  "replaced by 10.77.0.1", "by a rule of iptables-legacy: -t nat -A POSTROUTING -s {a}/32")),
    ("untracked packets of hostPorts", rule("raw", "PREROUTING -p tcp -m tcp --dport 8080 -j CT --notrack",
                                            "a rule of iptables-legacy keeps packets from their connection", "-t raw -A PREROUTING")),
    ("a time to live", rule("mangle", "PREROUTING -s {a}/32 -j TTL --ttl-set 1", "a rule of iptables-legacy rewrites packets: -t mangle -A PREROUTING",
                            others=["time to live"])),
    ("what an old rule has counted", words("iptables-legacy -I INPUT -d 10.1.2.1 -s 198.51.100.7 -c 9 900 -j DROP; iptables-legacy -I FORWARD -c 9 900 -p sctp -j DROP; "
                                           "ip netns exec a sysctl -qw net.ipv4.icmp_echo_ignore_all=1", "icmp_echo_ignore_all is 1", "in the pod", remedy="icmp_echo_ignore_all=0",
                                           undo="iptables-legacy -F; ip netns exec a sysctl -qw net.ipv4.icmp_echo_ignore_all=0")),
]


@suite.spread
class Legacy(TroubleTest):
    def setUp(self):
        if shutil.which("iptables-legacy") is None:
            self.skipTest("needs iptables-legacy")
        guest.load("ip_tables", "ip6_tables", *(f"{kind}table_{table}" for kind in ("ip", "ip6") for table in ("raw", "mangle", "nat", "filter", "security")))
        super().setUp()
        try:
            run("iptables-legacy", "-L")
        except RuntimeError as reason:
            self.skipTest(str(reason))

    @suite.cases(sampled(ROWS))
    def names(self, row):
        self.assert_named(row)


if __name__ == "__main__":
    suite.main()
