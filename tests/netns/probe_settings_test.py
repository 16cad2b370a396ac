#!/usr/bin/env python3
"""`cnitool probe` names kernel settings, neighbours, and what is wrong in a pod."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.rows import sampled  # noqa: E402
from support.troubles import TroubleTest, take_node, words  # noqa: E402


def sysctl(key, value, good, **more):
    return words(f"sysctl -qw {key}={value}", more.pop("what", key), undo=f"sysctl -qw {key}={good}", **more)


# Of two that do not know each other, one that asks is enough: the other one learns from that.
EACH = "each() { for pod in a b; do ip netns exec $pod \"$@\"; done; }; "
ROWS = [
    ("ip_forward", sysctl("net.ipv4.ip_forward", 0, 1, what="ip_forward is 0")),
    ("forwarding of a link", sysctl("net.ipv4.conf.cni0.forwarding", 0, 1, what="conf/cni0/forwarding is 0")),
    ("forwarding of the uplink", sysctl("net.ipv4.conf.up0.forwarding", 0, 1, what="conf/up0/forwarding is 0")),
    ("IPv6 forwarding", sysctl("net.ipv6.conf.all.forwarding", 0, 1, what="ipv6/conf/all/forwarding is 0")),
    ("rp_filter", words("sysctl -qw net.ipv4.conf.cni0.rp_filter=1; ip route add {a} dev up0", "{a}",
                        undo="sysctl -qw net.ipv4.conf.cni0.rp_filter=0; ip route del {a} dev up0")),
    ("rp_filter of another link", words("ip link add up1 type veth peer name eth1 netns outside; ip addr add 203.0.113.1/24 dev up1; ip link set up1 up; "
                                        "ip -n outside link set eth1 up; ip -n outside addr add 203.0.113.2/24 dev eth1; "
                                        "ip -n outside neigh add 203.0.113.1 dev eth1 lladdr $(cat /sys/class/net/up1/address); "
                                        "ip -n outside route add 192.0.2.1/32 via 203.0.113.1 dev eth1; sysctl -qw net.ipv4.conf.all.rp_filter=1",
                                        "reverse path filtering drops packets from 192.0.2.2 at link 'up1'", remedy="rp_filter=2",
                                        undo="ip link del up1; sysctl -qw net.ipv4.conf.all.rp_filter=0")),
    ("icmp_echo_ignore_all", sysctl("net.ipv4.icmp_echo_ignore_all", 1, 0, what="icmp_echo_ignore_all is 1")),
    ("echo_ignore_all of IPv6", sysctl("net.ipv6.icmp.echo_ignore_all", 1, 0, what="ipv6/icmp/echo_ignore_all is 1")),
    ("arp_ignore", words(EACH + "each sysctl -qw net.ipv4.conf.eth0.arp_ignore=8; sysctl -qw net.ipv4.conf.cni0.arp_ignore=8; ip neigh flush dev cni0; "
                         "ip -n a neigh flush all; ip -n b neigh flush all", "arp_ignore is 8",
                         undo=EACH + "each sysctl -qw net.ipv4.conf.eth0.arp_ignore=0; sysctl -qw net.ipv4.conf.cni0.arp_ignore=0")),
    ("no solicitations", words(EACH + "each sysctl -qw net.ipv4.neigh.eth0.mcast_solicit=0; sysctl -qw net.ipv4.neigh.cni0.mcast_solicit=0; ip neigh flush dev cni0; "
                               "ip -n a neigh flush all; ip -n b neigh flush all", "mcast_solicit is 0", undo=EACH + "each sysctl -qw net.ipv4.neigh.eth0.mcast_solicit=3; "
                               "sysctl -qw net.ipv4.neigh.cni0.mcast_solicit=3")),
    ("disable_ipv6", words("sysctl -qw net.ipv6.conf.cni0.disable_ipv6=1", "ipv6/conf/cni0/disable_ipv6 is 1")),
    ("route_localnet", sysctl("net.ipv4.conf.cni0.route_localnet", 0, 1, what="route_localnet is 0")),
    ("echoes ignored in the pod", words("ip netns exec a sysctl -qw net.ipv4.icmp_echo_ignore_all=1", "icmp_echo_ignore_all is 1", "in the pod",
                                        undo="ip netns exec a sysctl -qw net.ipv4.icmp_echo_ignore_all=0")),
    ("time to live of a pod", words("ip netns exec a sysctl -qw net.ipv4.ip_default_ttl=1", "ip_default_ttl is 1", "time to live", "in the pod", remedy="ip_default_ttl=64")),
    ("time to live of IPv6 in a pod", words("ip netns exec a sysctl -qw net.ipv6.conf.eth0.hop_limit=1", "hop_limit is 1", "time to live", "in the pod", remedy="hop_limit=64")),
    ("time to live of a route in a pod", words("ip -n a route change default via 10.1.2.1 hoplimit 1", "route 'default via 10.1.2.1 dev eth0' has hoplimit 1", "time to live", "in the pod",
                                               remedy="hoplimit 64", undo="ip -n a route replace default via 10.1.2.1")),
    ("time to live of a route of IPv6 in a pod", words("ip -n a -6 route change default via fd00:1:2::1 dev eth0 hoplimit 1", "has hoplimit 1", "in the pod", remedy="hoplimit 64",
                                                       undo="ip -n a -6 route change default via fd00:1:2::1 dev eth0")),
    ("permanent neighbour", words("ip neigh replace {a} lladdr 02:00:00:00:00:99 dev cni0 nud permanent", "neighbour {a}", "02:00:00:00:00:99",
                                  remedy="ip neigh del {a}")),
    ("noarp neighbour", words("ip neigh replace {a} lladdr 02:00:00:00:00:99 dev cni0 nud noarp", "neighbour {a}", "02:00:00:00:00:99")),
    ("permanent neighbour of IPv6", words("ip -6 neigh replace {a6} lladdr 02:00:00:00:00:99 dev cni0 nud permanent", "neighbour {a6}")),
    ("permanent neighbour of the router", words("ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:99 dev up0 nud permanent", "neighbour 192.0.2.2", "02:00:00:00:00:99",
                                                heals=False, undo="ip neigh del 192.0.2.2 dev up0")),
    ("permanent gateway in the pod", words("ip -n a neigh replace 10.1.2.1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent", "neighbour 10.1.2.1", "in the pod")),
    ("no router", words("ip -n outside link set eth0 arp off; ip neigh flush dev up0", "192.0.2.2", "MAC", undo="ip -n outside link set eth0 arp on", heals=False)),
    ("route of a pod deleted", words("ip -n a route del default", "default", "in the pod", undo="ip -n a route add default via 10.1.2.1")),
    ("address of a pod deleted", words("ip -n a addr del {a}/28 dev eth0", "{a}", "in the pod", undo="ip -n a addr add {a}/28 dev eth0; ip -n a route add default via 10.1.2.1")),
    ("prefix of a pod too short", words("ip -n a addr add {a}/8 dev eth0; ip -n a addr del {a}/28 dev eth0; ip -n a route replace default via 10.1.2.1", "{a}/8", "/28", "in the pod",
                                       undo="ip -n a addr add {a}/28 dev eth0; ip -n a addr del {a}/8 dev eth0; ip -n a route replace default via 10.1.2.1")),
    ("route of a pod elsewhere", words("ip -n a route replace default via 10.1.2.14", "10.1.2.14", "in the pod", undo="ip -n a route replace default via 10.1.2.1")),
    ("blackhole in the pod", words("ip -n a route add blackhole 192.0.2.0/24", "blackhole 192.0.2.0/24", "in the pod", undo="ip -n a route del blackhole 192.0.2.0/24")),
    ("rule in the pod", words("ip -n a rule add prohibit pref 50", "priority 50", "prohibit", "in the pod", undo="ip -n a rule del pref 50")),
    ("IPsec blocks what is forwarded", words("ip xfrm policy add src {a} dst 0.0.0.0/0 dir fwd action block", "IPsec blocks packets", "dir fwd", remedy="xfrm policy delete", undo="ip xfrm policy flush")),
    ("IPsec blocks what leaves", words("ip xfrm policy add src 0.0.0.0/0 dst {a} dir out action block", "IPsec blocks packets", "dir out", remedy="xfrm policy delete", undo="ip xfrm policy flush")),
    ("IPsec blocks what is for the node", words("ip xfrm policy add src {a} dst 0.0.0.0/0 dir in action block", "IPsec blocks packets", "dir in", remedy="xfrm policy delete", undo="ip xfrm policy flush")),
    ("IPsec in the pod", words("ip -n a xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir out action block", "IPsec blocks packets", "dir out", "in the pod", remedy="xfrm policy delete", undo="ip -n a xfrm policy flush")),
    ("IPsec at a link of the pod", words("ip -n a xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dev eth0 dir out action block", "IPsec blocks packets", "dev eth0", "in the pod", remedy="dev eth0",
                                         undo="ip -n a xfrm policy flush")),
    ("IPsec without a tunnel", words("ip xfrm policy add src 0.0.0.0/0 dst {a} dir out tmpl src 192.0.2.1 dst 192.0.2.2 proto esp mode tunnel", "demands a tunnel", heals=False,
                                     undo="ip xfrm policy flush")),
]


@suite.spread
class Settings(TroubleTest):
    @suite.cases(sampled(ROWS))
    def names(self, row):
        self.assert_named(row)

    @suite.cases([
        ("of IPv4", ("a", "default via 10.1.2.1 dev eth0 onlink proto 77 src {a} mtu lock 1480 advmss 1400 initcwnd 20 rto_min 300 hoplimit 1", "hoplimit 1", "hoplimit 64")),
        ("of IPv6", ("a", "-6 default via fd00:1:2::1 dev eth0 proto 77 src {a6} metric 50 pref high mtu 1480 hoplimit 1", "hoplimit 1", "hoplimit 64")),
        ("of several next hops", ("", "192.0.2.2 proto 77 scope link mtu lock 1400 initcwnd 20 nexthop dev up0 weight 3 nexthop dev up0 weight 2",
                                  "mtu lock 1400", "mtu lock 1500")),
    ])
    def a_remedy_changes_nothing_else_of_a_route(self, case):
        where, text, was, remedied = case
        node = take_node()
        ip = f"ip {'-n a' if where else ''} {'-6' if '6' in text.split()[0] else ''}"
        text = text.removeprefix("-6 ")
        show = f"{ip} -d route show {text.split()[0]}"
        done = node.shell(f"while {ip} route del {text.split()[0]}; do :; done; {ip} route add {text}")
        self.assertEqual(done.returncode, 0, done.stderr)
        before = node.shell(show).stdout
        self.assertIn(was, before)
        _, findings, _ = node.probe()
        remedies = {one["remedy"] for one in findings if ("hoplimit 1" if where else "takes 1400 bytes") in one["what"]}
        self.assertEqual(len(remedies), 1, findings)
        done = node.shell(remedies.pop())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(node.shell(show).stdout, before.replace(was, remedied))


if __name__ == "__main__":
    suite.main()
