#!/usr/bin/env python3
"""Seeds for the targets that read what the kernel says: real answers, asked for in a new network
namespace that has some of everything. Needs root.

    unshare -n tests/fuzz/capture.py CORPUS     # writes CORPUS/<target>/*; then scripts/fuzz --merge
"""

import hashlib
import pathlib
import socket
import struct
import subprocess
import sys

OUT = pathlib.Path(sys.argv[1])
NETLINK_ROUTE, NETLINK_SOCK_DIAG, NETLINK_NETFILTER = 0, 4, 12
SOL_NETLINK, EXT_ACK, CAP_ACK = 270, 11, 10
REQUEST, ACK, DUMP = 1, 4, 0x300

NODE = """
ip link set lo up
ip link add br0 type bridge
ip link set br0 up alias bridge-of-pods
ip addr add 10.1.0.1/24 dev br0
ip -6 addr add fd00::1/64 dev br0 nodad
ip link add veth0 type veth peer name eth0
ip link set veth0 master br0 up
ip link set eth0 up
bridge link set dev veth0 hairpin on isolated on
ip link add macvlan0 link eth0 type macvlan mode source
ip link set macvlan0 type macvlan macaddr add 02:00:00:00:00:07
ip link add vlan0 link br0 type vlan proto 802.1ad id 9 egress 6:7 0:1 ingress 5:3
ip link add veth1 type veth peer name eth1
ip link add ipvlan0 link eth1 type ipvlan mode l3 private
ip tuntap add tap0 mode tap user 107 vnet_hdr
ip link add ifb0 type ifb
ip link set ifb0 up
ip route add 192.0.2.0/24 via 10.1.0.9 metric 7 mtu 1400 table 100
ip -6 route add 2001:db8::/32 via fd00::9 metric 5
ip route add blackhole 198.51.100.0/24
tc qdisc add dev veth0 root handle 1: tbf rate 8mbit burst 10kb latency 30ms
tc qdisc add dev veth0 parent 1:1 bfifo limit 20000
tc qdisc add dev ifb0 root handle 1: htb default 2
tc class add dev ifb0 parent 1: classid 1:1 htb rate 1mbit ceil 50gbit
tc class add dev ifb0 parent 1: classid 1:2 htb rate 40gbit
tc filter add dev ifb0 parent 1: prio 3 protocol ip u32 match ip dst 10.0.0.0/8 flowid 1:1
tc filter add dev ifb0 parent 1: prio 4 protocol ipv6 u32 match ip6 src fd00::/64 flowid 1:1
tc qdisc add dev eth0 ingress
tc filter add dev eth0 parent ffff: prio 1 u32 match u32 0 0 action mirred egress redirect dev ifb0
tc qdisc add dev br0 clsact
iptables-nft -t nat -N CNI-1
iptables-nft -t nat -A CNI-1 -d 10.1.0.0/24 -m comment --comment "name: \\"net1\\"" -j ACCEPT
iptables-nft -t nat -A CNI-1 ! -d 224.0.0.0/4 -j MASQUERADE
iptables-nft -t nat -A POSTROUTING -s 10.1.0.3 -m comment --comment x -j CNI-1
iptables-nft -t nat -A CNI-1 -p tcp -m multiport --dports 80,443 -m mark --mark 0x2000/0x2000 -j RETURN
iptables-nft -t nat -A PREROUTING -m addrtype --dst-type LOCAL -p tcp --dport 80 -j DNAT --to 10.1.0.3:8080
iptables-nft -t nat -A CNI-1 -i veth+ -p udp --dport 53 -j MARK --set-xmark 0x2000/0x2000
iptables-nft -t filter -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
ip6tables-nft -t nat -A PREROUTING -p tcp --dport 80 -j DNAT --to [fd00::3]:8080
iptables-legacy -t nat -N CNI-1
iptables-legacy -t nat -N CNI-2
iptables-legacy -t nat -A CNI-1 -d 10.1.0.0/24 -m comment --comment net1 -j ACCEPT
iptables-legacy -t nat -A CNI-1 ! -d 224.0.0.0/4 -j MASQUERADE
iptables-legacy -t nat -A POSTROUTING -s 10.1.0.3 -o eth+ -j CNI-1
iptables-legacy -t nat -A PREROUTING -i eth0 -p tcp -m tcp --dport 80 -j DNAT --to 10.1.0.3:8080
iptables-legacy -t nat -A CNI-1 -p udp -m multiport --dports 53,54 -m mark --mark 1/1 -g CNI-2
iptables-legacy -P FORWARD DROP
iptables-legacy -A FORWARD -i br0 -j ACCEPT
iptables-legacy -A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT
ip6tables-legacy -t nat -N CNI-6
ip6tables-legacy -t nat -A CNI-6 -p tcp --dport 80 -j DNAT --to [fd00::3]:80
ip6tables-legacy -t nat -A PREROUTING -d fd00::/64 -m addrtype --dst-type LOCAL -j CNI-6
ip6tables-legacy -A FORWARD -o br0 -j ACCEPT
"""

RULES = """
table ip pods {
  comment "all pods"
  map ports {
    type inet_proto . inet_service : ipv4_addr . inet_service
    comment "by port"
    elements = { tcp . 80 comment "c1" : 10.1.0.3 . 8080, udp . 53 : 10.1.0.4 . 53 }
  }
  set links {
    type ifname . inet_service
    elements = { "veth0" . 80 }
  }
  chain pre {
    type nat hook prerouting priority -100; policy accept;
    fib daddr type local dnat ip to meta l4proto . th dport map @ports comment "to pods"
    iifname "veth0" meta mark set mark and 0xffffdfff xor 0x2000 counter
    iifname . th dport @links return
  }
  chain post {
    type nat hook postrouting priority 100;
    ip saddr 10.1.0.0/24 ip daddr != 10.1.0.0/24 masquerade random comment "net1 c1 eth0"
    ct status dnat ip saddr 10.1.2.3/31 jump more
  }
  chain more {
    ct state vmap { new : accept, invalid : drop }
    ether saddr 02:00:00:00:00:01 accept
  }
}
table ip6 pods {
  chain post {
    type nat hook postrouting priority 100;
    ip6 saddr fd00::/64 ip6 daddr != ff00::/8 masquerade
    ip6 saddr != fd00::1 snat to fd00::2
  }
}
table bridge nat {
  chain drop_all {
    drop
  }
  chain pre {
    type filter hook prerouting priority -300; policy drop;
    iifname "veth0" ether saddr != 02:00:00:00:00:01 goto drop_all
  }
}
"""


def sh(line):
    done = subprocess.run(line, shell=True, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"passed over: {line}: {done.stderr.strip()[:100]}", file=sys.stderr)


def save(target, data):
    folder = OUT / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


def message(kind, flags, body, sequence=1):
    return struct.pack("=IHHII", 16 + len(body), kind, flags, sequence, 0) + body


def attribute(kind, value):
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def ask(family, request):
    """The messages of the answer, up to the one that ends it."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family) as asked:
        asked.setsockopt(SOL_NETLINK, EXT_ACK, 1)
        asked.setsockopt(SOL_NETLINK, CAP_ACK, 1)
        asked.settimeout(2)
        asked.send(request)
        out = []
        while True:
            datagram = asked.recv(1 << 17)
            while datagram:
                length, kind = struct.unpack_from("=IH", datagram)
                out.append(datagram[:length])
                if kind in (2, 3):  # NLMSG_ERROR, NLMSG_DONE
                    return out
                datagram = datagram[(length + 3) & ~3:]


def save_answers(target, family, kind, body, flags=DUMP):
    answers = ask(family, message(kind, REQUEST | flags, body))
    for one in answers[:40]:
        save(target, one)
        save("acks", one) if one is answers[-1] else None
    whole = b"".join(one + b"\0" * (-len(one) % 4) for one in answers)
    if len(whole) <= 1500:
        save(target, whole)


def routes():
    save_answers("rtnetlink", NETLINK_ROUTE, 18, struct.pack("=BxHiII", 0, 0, 0, 0, 0))
    save_answers("rtnetlink", NETLINK_ROUTE, 22, struct.pack("=BBBBI", 0, 0, 0, 0, 0))
    for family in (socket.AF_INET, socket.AF_INET6):
        save_answers("rtnetlink", NETLINK_ROUTE, 26, struct.pack("=BBBBBBBBI", family, *[0] * 8))
    for name in ("veth0", "ifb0", "eth0", "br0"):
        index = socket.if_nametoindex(name)
        for kind, parent in ((38, 0), (42, 0), (46, 0x10000), (46, 0xffff0000), (46, 0xfffffff2)):
            save_answers("rtnetlink", NETLINK_ROUTE, kind,
                         struct.pack("=BBHiIII", 0, 0, 0, index, 0, parent, 0))
    # Kinds that not every kernel has: of the shape that those have which do.
    u32 = [attribute(i, struct.pack("=I", 5000 * i)) for i in range(1, 10)]
    for kind, options in (("fq_codel", u32), ("fq", u32 + [attribute(15, b"\1")])):
        body = struct.pack("=BBHiIII", 0, 0, 0, 2, 0x10000, 0xffffffff, 0)
        body += attribute(1, kind.encode() + b"\0") + attribute(2, b"".join(options))
        save("rtnetlink", message(36, 0, body))
    program = [attribute(7, b"edt\0"), attribute(8, struct.pack("=I", 1)),
               attribute(11, struct.pack("=I", 42))]
    body = struct.pack("=BBHiIII", 0, 0, 0, 2, 1, 0xfffffff3, 0x10300)
    save("rtnetlink", message(44, 0, body + attribute(1, b"bpf\0") + attribute(2, b"".join(program))))
    vlan = b"".join(attribute(1, attribute(1, struct.pack("=HH", flags, vid)) + end)
                    for flags, vid, end in ((6, 1, b""), (0, 7, attribute(2, struct.pack("=H", 9)))))
    save("rtnetlink", message(112, 0, struct.pack("=BBHI", 7, 0, 0, 2) + vlan))


def tables():
    def nf(subsystem, kind, family, body=b""):
        return (subsystem << 8 | kind), struct.pack("=BBH", family, 0, 0) + body

    for family in (1, 2, 7, 10):
        for kind in (1, 4, 7):  # GETTABLE, GETCHAIN, GETRULE
            number, body = nf(10, kind, family)
            save_answers("nftables", NETLINK_NETFILTER, number, body)
    for name in (b"ports\0", b"links\0"):
        number, body = nf(10, 13, 2, attribute(1, b"pods\0") + attribute(2, name))
        save_answers("nftables", NETLINK_NETFILTER, number, body)
    for family in (2, 10):
        number, body = nf(1, 1, family)
        save_answers("conntrack", NETLINK_NETFILTER, number, body)


def connections():
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        listener = socket.create_server((host, 0), family=family)
        held = [listener, socket.create_connection(listener.getsockname()[:2])]
        datagrams = socket.socket(family, socket.SOCK_DGRAM)
        datagrams.bind((host, 5353))
        held.append(datagrams)
        yield held


def refusals():
    for kind, body in ((16, struct.pack("=BxHiII", 0, 0, 0, 0, 0) + attribute(3, b"/\0")),
                       (24, struct.pack("=BBBBBBBBI", 2, 99, 0, 0, 0, 0, 0, 0, 0)),
                       (36, struct.pack("=BBHiIII", 0, 0, 0, 1, 0, 1, 0) + attribute(1, b"tbf\0")),
                       (20, struct.pack("=BBBBI", 2, 24, 0, 0, 99))):
        save("acks", ask(NETLINK_ROUTE, message(kind, REQUEST | ACK, body))[0])
    for family in (socket.AF_INET, socket.AF_INET6):
        for protocol in (6, 17, 132):
            body = struct.pack("=BBBxI", family, protocol, 0, 0xffffffff) + b"\0" * 48
            save_answers("acks", NETLINK_SOCK_DIAG, 20, body)


def saved():
    for program in ("iptables-legacy-save", "ip6tables-legacy-save", "iptables-nft-save"):
        done = subprocess.run([program], stdout=subprocess.PIPE, check=True)
        save("iptables_save", done.stdout)


def main():
    for line in NODE.strip().split("\n"):
        sh(line)
    subprocess.run(["nft", "-f", "-"], input=RULES, text=True, check=True)
    held = list(connections())
    routes()
    tables()
    refusals()
    saved()
    del held


if __name__ == "__main__":
    main()
