#!/usr/bin/env python3
"""`cnitool probe` finds nothing on nodes on which nothing is wrong, beside the rules of Docker, kube-proxy, Calico, flannel and
firewalld: once each, and without PATCHBAY_SWEEP_STEP 200 runs of all together."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import rows, suite  # noqa: E402
from support.troubles import TroubleTest, current_node, shown  # noqa: E402

DOCKER = """iptables -P FORWARD DROP; iptables -N DOCKER; iptables -N DOCKER-USER; iptables -N DOCKER-ISOLATION-STAGE-1; iptables -N DOCKER-ISOLATION-STAGE-2
iptables -A FORWARD -j DOCKER-USER; iptables -A FORWARD -j DOCKER-ISOLATION-STAGE-1
iptables -A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT; iptables -A FORWARD -o docker0 -j DOCKER
iptables -A FORWARD -i docker0 ! -o docker0 -j ACCEPT; iptables -A FORWARD -i docker0 -o docker0 -j ACCEPT
iptables -A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2; iptables -A DOCKER-ISOLATION-STAGE-1 -j RETURN
iptables -A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP; iptables -A DOCKER-ISOLATION-STAGE-2 -j RETURN
iptables -I DOCKER-USER -s 10.1.2.0/28 -j ACCEPT; iptables -I DOCKER-USER -d 10.1.2.0/28 -j ACCEPT
iptables -I DOCKER-USER -s 10.2.0.0/24 -j ACCEPT; iptables -I DOCKER-USER -d 10.2.0.0/24 -j ACCEPT
iptables -t nat -N DOCKER; iptables -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
iptables -t nat -A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
iptables -t nat -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE"""
KUBE_IPTABLES = """for chain in SERVICES FORWARD FIREWALL EXTERNAL-SERVICES PROXY-FIREWALL NODEPORTS; do iptables -N KUBE-$chain; done
iptables -A INPUT -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL; iptables -A INPUT -j KUBE-NODEPORTS
iptables -A INPUT -m conntrack --ctstate NEW -j KUBE-EXTERNAL-SERVICES; iptables -A INPUT -j KUBE-FIREWALL
iptables -A FORWARD -m conntrack --ctstate NEW -j KUBE-PROXY-FIREWALL; iptables -A FORWARD -j KUBE-FORWARD
iptables -A FORWARD -m conntrack --ctstate NEW -j KUBE-SERVICES; iptables -A OUTPUT -j KUBE-FIREWALL
iptables -A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
iptables -A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP; iptables -A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
iptables -A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
for chain in SERVICES POSTROUTING MARK-MASQ SVC SEP; do iptables -t nat -N KUBE-$chain; done
iptables -t nat -A PREROUTING -j KUBE-SERVICES; iptables -t nat -A OUTPUT -j KUBE-SERVICES; iptables -t nat -A POSTROUTING -j KUBE-POSTROUTING
iptables -t nat -A KUBE-MARK-MASQ -j MARK --or-mark 0x4000; iptables -t nat -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
iptables -t nat -A KUBE-POSTROUTING -j MARK --xor-mark 0x4000; iptables -t nat -A KUBE-POSTROUTING -j MASQUERADE --random-fully
iptables -t nat -A KUBE-SERVICES -d 10.96.0.1/32 -p tcp --dport 443 -j KUBE-SVC; iptables -t nat -A KUBE-SVC -j KUBE-SEP
iptables -t nat -A KUBE-SEP -p tcp -j DNAT --to-destination 192.0.2.2:6443"""
KUBE_NFTABLES = """nft -f - <<E
table ip kube-proxy {
  set cluster-ips { type ipv4_addr; elements = { 10.96.0.1 }; }
  map no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict; elements = { 10.96.0.9 . tcp . 80 : goto reject-chain }; }
  map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; elements = { 10.96.0.1 . tcp . 443 : goto service }; }
  chain reject-chain { reject; }
  chain service { meta l4proto tcp dnat to 192.0.2.2:6443; }
  chain filter-prerouting { type filter hook prerouting priority -110; ct state new jump firewall-check; }
  chain filter-input { type filter hook input priority -110; ct state new ip daddr . meta l4proto . th dport vmap @no-endpoint-services; }
  chain filter-forward { type filter hook forward priority -110; ct state new ip daddr . meta l4proto . th dport vmap @no-endpoint-services; }
  chain filter-output { type filter hook output priority -110; ct state new ip daddr . meta l4proto . th dport vmap @no-endpoint-services; }
  chain firewall-check { }
  chain cluster-ips-check { ip daddr @cluster-ips drop; }
  chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }
  chain nat-prerouting { type nat hook prerouting priority -100; jump services; }
  chain nat-output { type nat hook output priority -100; jump services; }
  chain nat-postrouting { type nat hook postrouting priority 100; meta mark & 0x4000 == 0 return
    meta mark set meta mark ^ 0x4000
    masquerade fully-random; }
  chain filter-forward-late { type filter hook forward priority 10; ct state new jump cluster-ips-check; }
}
E"""
CALICO = """nft -f - <<E
table inet calico {
  chain cali-from-wl { ct state established,related accept
    ct state invalid drop
    meta mark set meta mark | 0x10000
    meta mark & 0x10000 == 0x10000 return
    drop; }
  chain cali-FORWARD { type filter hook forward priority 0; policy accept; iifname "cali*" jump cali-from-wl
    iifname "cni0" jump cali-from-wl
    meta mark & 0x10000 == 0x10000 accept; }
  chain cali-INPUT { type filter hook input priority 0; policy accept; iifname "cali*" goto cali-from-wl; }
  chain cali-PREROUTING { type filter hook prerouting priority -300; meta mark set meta mark & 0xff00ffff; }
  chain cali-rpf { type filter hook prerouting priority -150; iifname "cali*" fib saddr . mark . iif oif 0 drop; }
}
E
ip rule add fwmark 0x20000000/0x20000000 lookup 201 pref 100; ip route add blackhole 10.244.7.0/26 proto 80"""
FLANNEL = """iptables -N FLANNEL-FWD; iptables -A FORWARD -j FLANNEL-FWD; iptables -A FLANNEL-FWD -s 10.1.0.0/16 -j ACCEPT; iptables -A FLANNEL-FWD -d 10.1.0.0/16 -j ACCEPT
iptables -t nat -N FLANNEL-POSTRTG; iptables -t nat -A POSTROUTING -j FLANNEL-POSTRTG
iptables -t nat -A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -j RETURN; iptables -t nat -A FLANNEL-POSTRTG -s 10.1.2.0/28 -d 10.1.0.0/16 -j RETURN
iptables -t nat -A FLANNEL-POSTRTG -s 10.1.0.0/16 -d 10.1.0.0/16 -j RETURN; iptables -t nat -A FLANNEL-POSTRTG ! -s 10.1.0.0/16 -d 10.1.2.0/28 -j RETURN
iptables -t nat -A FLANNEL-POSTRTG -s 10.1.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE --random-fully"""
FIREWALLD = """nft -f - <<E
table inet firewalld {
  chain mangle_PREROUTING { type filter hook prerouting priority -140; icmpv6 type { nd-router-advert, nd-neighbor-solicit } accept
    meta nfproto ipv6 fib saddr . mark . iif oif missing drop; }
  chain filter_INPUT { type filter hook input priority 10; policy accept; ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ip saddr { 10.1.2.0/28, 10.2.0.0/24 } accept
    ip6 saddr { fd00:1:2::/64, fd00:2::/64, fe80::/10 } accept
    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept
    ct state invalid drop
    reject with icmpx type admin-prohibited; }
  chain filter_FORWARD { type filter hook forward priority 10; policy accept; ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ip saddr { 10.1.2.0/28, 10.2.0.0/24 } accept
    ip6 saddr { fd00:1:2::/64, fd00:2::/64 } accept
    ct state invalid drop
    reject with icmpx type admin-prohibited; }
  chain filter_OUTPUT { type filter hook output priority 10; policy accept; ct state { established, related } accept
    oifname "lo" accept; }
}
E"""
# Its gateway answers no echo, and rules count what is none of the probes.
SILENT = """ip netns exec outside sysctl -qw net.ipv4.icmp_echo_ignore_all=1; iptables -t mangle -A POSTROUTING -o up0 -j TTL --ttl-set 65
! iptables-legacy -A INPUT -i up0 -m conntrack --ctstate ESTABLISHED -j ACCEPT || { iptables-legacy -A INPUT -i up0 -j DROP; iptables-legacy -A FORWARD -m conntrack --ctstate INVALID -j DROP; }
timeout 5 ip netns exec outside python3 -c 'import socket, time
while True: socket.socket(2, 2).sendto(b"x", ("192.0.2.1", 9999)); time.sleep(0.01)' >/dev/null 2>&1 &"""
# The pods' packets have a way out of their own, whose router lets nobody ask for the node's.
TWO_UPLINKS = """ip netns add second; ip link add up1 type veth peer name eth0 netns second; ip addr add 198.18.0.1/24 dev up1; ip link set up1 up
ip -n second addr add 198.18.0.2/24 dev eth0; ip -n second link set eth0 up; ip -n second route add default via 198.18.0.1; ip netns exec second sysctl -qw net.ipv4.ip_forward=1
ip route add default via 198.18.0.2 table 100; ip rule add pref 99 to 10.0.0.0/8 lookup main; ip rule add pref 100 from 10.1.2.0/28 lookup 100"""
# A gateway that another host answers ARP for, as in a pod of Calico's.
PROXIED = """ip netns exec outside sysctl -qw net.ipv4.conf.eth0.proxy_arp=1 net.ipv4.ip_forward=1; ip -n outside link add d0 type veth peer name d1; ip -n outside link set d1 up; ip -n outside link set d0 up
ip -n outside route add 169.254.1.1 dev d0; ip route replace default via 169.254.1.1 dev up0 onlink"""
# Programs that let all pass are on the way to a gateway that answers no echo.
FILTERED = """ip netns exec outside sysctl -qw net.ipv4.icmp_echo_ignore_all=1; tc qdisc add dev up0 clsact
for way in ingress egress; do tc filter add dev up0 $way pref 7 bpf da bytecode '1,6 0 0 0'; done"""
# As without a cable: of pods, none has a connection with a host beyond.
ALONE = "ip route del default"
OF_RA = """ip netns exec a sysctl -qw net.ipv6.conf.eth0.accept_ra=2; python3 -c 'import socket
s = socket.socket(10, 3, 58); s.setsockopt(41, 18, 255)
s.sendto(bytes([134, 0, 0, 0, 64, 0, 7, 8]) + bytes(8), ("ff02::1", 0, 0, socket.if_nametoindex("cni0")))'
for n in 1 2 3 4 5 6 7 8 9; do ip -n a -6 route show default proto ra | grep -q via && break; sleep 0.1; done; ip -n a -6 route show default proto ra | grep -q via"""
# As two cards of the node on one wire, of which the bridge has one: its kernel answers ARP for the gateway by the other.
TWO_CARDS = """ip link add br2 address 02:00:00:00:00:b2 type bridge; ip link add c1 type veth peer name c2; ip link set c1 master cni0; ip link set c2 master br2
for link in br2 c1 c2; do ip link set $link up; done; ip addr add 198.18.1.1/24 dev br2"""
CASES = [("a silent gateway", SILENT), ("two uplinks", TWO_UPLINKS), ("proxy ARP", PROXIED), ("filters that drop nothing", FILTERED), ("no way out", ALONE), ("router advertisements", OF_RA), ("Docker", DOCKER), ("kube-proxy, iptables", KUBE_IPTABLES), ("kube-proxy, nftables", KUBE_NFTABLES), ("Calico", CALICO),
         ("flannel", FLANNEL), ("firewalld", FIREWALLD), ("two cards", TWO_CARDS)]
FLUSH = """tc qdisc del dev up0 clsact; iptables -P FORWARD ACCEPT; for t in filter nat mangle; do iptables -t $t -F; iptables -t $t -X; done
iptables-legacy -F; ip netns exec outside sysctl -qw net.ipv4.icmp_echo_ignore_all=0; ip netns del second; ip rule del pref 99
ip -n outside link del d0; ip netns exec outside sysctl -qw net.ipv4.conf.eth0.proxy_arp=0; ip route replace default via 192.0.2.2; ip -n a -6 route del default proto ra
for t in 'ip kube-proxy' 'inet calico' 'inet firewalld'; do nft delete table $t; done
while ip rule del pref 100; do :; done; ip route del blackhole 10.244.7.0/26
ip link del c1; ip link del br2; ip neigh flush dev cni0; true"""
RUNS = 1 if rows.STEP > 1 else 200 // len(CASES) + 1


@suite.spread
class Healthy(TroubleTest):
    @suite.cases(CASES)
    def rules(self, make):
        node = current_node()
        done = node.shell(f"set -e; {make}")
        try:
            self.assertEqual(done.returncode, 0, done.stderr)
            for run in range(RUNS):
                status, findings, _ = node.probe()
                self.assertEqual((status, shown(findings)), (0, ""), run)
        finally:
            node.shell(FLUSH)


if __name__ == "__main__":
    suite.main()
