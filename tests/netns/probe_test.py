#!/usr/bin/env python3
"""`cnitool probe` on a node with two pods of a bridge network: silence where all is well, and otherwise the rule, route,
neighbour or size that takes the packets, with a remedy that heals. Nothing of it is left."""

import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import cnitool, environment, use  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.doctor import BIN, BRIDGE, PORTMAP, chain  # noqa: E402
from support.probe import FAST, ProbeTest  # noqa: E402
from support.world import run, wait_for  # noqa: E402

# Prints each ARP probe that comes in, and neighbour solicitation that is for no pod: when, its kind, who asks, and for whom.
HEARD = r"""
import socket, struct
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
packets.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
packets.bind(("eth0", 3))
print("ready", flush=True)
while True:
    frame, more, _, whence = packets.recvmsg(2000, 100)
    if whence[2] == socket.PACKET_OUTGOING: continue
    when = struct.unpack("qq", more[0][2])
    at = when[0] + when[1] / 1e9
    if frame[12:14] == b"\x08\x06" and frame[28:32] == bytes(4):
        print(at, "arp", "0.0.0.0", socket.inet_ntop(2, frame[38:42]), flush=True)
    if frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54] == 135:
        print(at, "ns", socket.inet_ntop(10, frame[22:38]), socket.inet_ntop(10, frame[62:78]), flush=True)
"""


class Asked(ProbeTest):
    """What other hosts hear."""

    def heard(self, pod, *words):
        """[(when, kind, who asks, for whom)] while it probes."""
        listening = subprocess.Popen(["ip", "netns", "exec", pod, "python3", "-c", HEARD], stdout=subprocess.PIPE, text=True)
        self.assertEqual(listening.stdout.readline(), "ready\n")
        done = cnitool("probe", *words, CNI_PATH=BIN)
        listening.kill()
        self.assertEqual(done.status, 0, str(done))
        return [(float(line.split()[0]), *line.split()[1:]) for line in listening.communicate()[0].splitlines()]

    def test_a_router_is_solicited_by_an_address_of_the_node(self):
        def link_local(link, *where):
            return next(one["local"] for one in json.loads(run("ip", *where, "-j", "-6", "addr", "show", "dev", link))[0]["addr_info"] if one["scope"] == "link")
        router = link_local("eth0", "-n", "outside")
        run("ip", "-6", "route", "add", "default", "via", router, "dev", "up0")
        self.settle()
        self.assertEqual({who for _, kind, who, whom in self.heard("outside", *FAST) if kind == "ns" and whom == router}, {link_local("up0")})

    def test_segments_are_asked_at_the_rate(self):
        times = [when for when, kind, *_ in self.heard("a", "--rate", "20") if kind == "arp"]
        self.assertGreater(len(times), 3)  # for two pods and their gateway, and by the other one for the gateway
        self.assertGreater(min(after - before for before, after in zip(times, times[1:])), 0.03, times)


class Silence(ProbeTest):
    def test_pods_that_work(self):
        for _ in range(2):
            self.assert_silent()

    def test_a_gateway_that_does_not_exist(self):
        run("ip", "-6", "route", "add", "default", "via", "2001:db8::2")
        self.found("gateway 2001:db8::2 has no MAC address on 'up0'")

    def test_a_route_that_takes_as_much_as_its_config_says(self):
        for pod in self.pods:
            self.assert_ok(cnitool("del", "net", pod.path, CNI_PATH=BIN))
        ipam = {**BRIDGE["ipam"], "routes": [{"dst": "0.0.0.0/0", "mtu": 1400}, {"dst": "::/0", "mtu": 1300}]}
        use(chain({**BRIDGE, "ipam": ipam}, PORTMAP))
        self.add(self.pods[0], 8080)
        self.assertIn("mtu 1400", self.pods[0].run("ip", "route"))
        answer = self.probe()
        self.assertEqual(answer["findings"], [])
        self.assertTrue([one for one in answer["questions"] if one["question"].endswith(" with 1400 bytes")], answer)
        run("ip", "link", "set", "up0", "mtu", "1350")
        self.found("'up0' takes 1350 bytes, and the pods send up to 1400")

    def test_nothing_is_left(self):
        def state():
            return [run(*words) for words in (
                ("nft", "-j", "list", "ruleset"), ("ip", "-j", "link"), ("ip", "-j", "addr"), ("ip", "-j", "route"))] + [
                sorted((one["dst"], one["dev"]) for one in json.loads(run("ip", "-j", *where, "neigh"))
                       if not one["dst"].startswith("fe80:"))  # other hosts announce themselves at any time
                for where in ((), ("-n", "a"), ("-n", "b"))]
        wait_for(lambda: '"tentative":true' not in run("ip", "-j", "addr"))
        def connections():
            if not os.path.exists("/proc/net/nf_conntrack"):
                return set()
            with open("/proc/net/nf_conntrack", encoding="ascii") as file:
                return {tuple(word for word in line.split() if "=" in word) for line in file}
        for pod in self.pods:  # what is there before stays
            pod.run("ping", "-c1", "-W2", "10.1.2.1")
        run("ping", "-c1", "-W2", "192.0.2.2")  # that host would ask for the node's address 5 s after its answer
        tracked = connections()
        before = state()
        self.assert_silent()
        self.assertEqual(state(), before)
        run("nft", "add table inet x; add chain inet x i { type filter hook input priority 0; policy drop; }")
        broken = state()
        self.found("table inet x")
        self.assertEqual(state(), broken)
        self.assertEqual(connections() - tracked, set())

    def test_a_killed_probe_leaves_no_table(self):
        run("nft", "add table inet x; add chain inet x i { type filter hook input priority 0; policy drop; }")
        before = run("nft", "-j", "list", "ruleset")
        for seconds in (0.02, 0.3, 0.8, 1.3, 1.6, 2.0):
            one = subprocess.Popen([os.path.join(OURS, "cnitool"), "probe"], env=environment(CNI_PATH=BIN), stdout=subprocess.DEVNULL)
            time.sleep(seconds)
            one.send_signal(signal.SIGKILL)
            one.wait()
            self.assertEqual(run("nft", "-j", "list", "ruleset"), before, seconds)

    def test_a_dry_run_sends_nothing(self):
        def sent():
            """Echo requests that the node received: interfaces send packets of their own."""
            return [int(line.split()[1]) for line in run("nstat", "-asz", "IcmpInEchos", "Icmp6InEchos").splitlines()[1:]]
        before = sent()
        done = cnitool("probe", "--dry-run", CNI_PATH=BIN)
        self.assertIn("to its gateway 10.1.2.1", done.stdout)
        self.assertEqual(sent(), before)
        self.assertEqual(len(before), 2)


class Causes(ProbeTest):
    def test_an_input_policy(self):
        run("nft", "add table inet harden; add chain inet harden i { type filter hook input priority 0; policy drop; }; "
            "add rule inet harden i iifname lo accept; add rule inet harden i ip6 nexthdr icmpv6 accept")
        self.assert_heals("chain 'i' of table inet harden drops packets: policy drop")

    def test_a_rule_that_drops_what_is_forwarded(self):
        run("nft", "add table inet site; add chain inet site f { type filter hook forward priority -5; }; "
            "add rule inet site f ip saddr 10.1.2.0/28 counter drop")
        self.assert_heals("chain 'f' of table inet site drops packets: ip saddr 10.1.2.0/28 counter")

    def test_a_rule_of_iptables(self):
        run("iptables", "-I", "FORWARD", "-s", "10.1.2.0/28", "-j", "DROP")
        self.assert_heals("chain 'FORWARD' of table ip filter drops packets")

    def test_a_foreign_source(self):
        run("nft", "add table ip site; add chain ip site post { type nat hook postrouting priority 50; }; "
            "add rule ip site post oifname up0 snat to 203.0.113.9")
        self.assert_heals("the source of packets is replaced by 203.0.113.9", "table ip site")

    def test_a_rule_of_a_vpn(self):
        run("ip", "link", "add", "vpn0", "type", "veth", "peer", "name", "vpn1")
        run("ip", "addr", "add", "172.20.0.2/24", "dev", "vpn0")
        run("ip", "link", "set", "vpn0", "up")
        run("ip", "link", "set", "vpn1", "up")
        run("ip", "route", "add", "default", "via", "172.20.0.1", "table", "77")
        run("ip", "rule", "add", "from", "10.1.2.0/28", "lookup", "77", "pref", "100")
        self.assert_heals("rule of priority 100 (from 10.1.2.0/28 lookup 77) leads packets to 'default via 172.20.0.1 dev vpn0'")

    def test_a_permanent_neighbour(self):
        ip = self.address_of(self.pods[0])
        run("ip", "neigh", "replace", ip, "lladdr", "02:00:00:00:00:99", "dev", "cni0", "nud", "permanent")
        self.assert_heals(f"permanent neighbour {ip} on 'cni0' is 02:00:00:00:00:99")

    def test_an_address_twice_on_the_bridge(self):
        ip = self.address_of(self.pods[0])
        self.pods[1].run("ip", "addr", "add", f"{ip}/28", "dev", "eth0")
        self.found(f"address {ip}", "another host has it, too")

    def test_an_uplink_with_a_smaller_mtu(self):
        run("ip", "link", "set", "up0", "mtu", "1400")
        self.found("'up0' takes 1400 bytes, and the pods send up to 1500")
        self.assertEqual([pod.run("ip", "route", "show", "cache") for pod in self.pods], ["", ""])  # what a router has said is not kept

    def test_a_port_that_another_table_leads_elsewhere(self):
        run("nft", "add table ip site; add chain ip site pre { type nat hook prerouting priority -110; }; "
            "add rule ip site pre tcp dport 8080 dnat to 192.0.2.2:80")
        self.assert_heals("are led to 192.0.2.2", "table ip site")


if __name__ == "__main__":
    suite.main(per_processor=2)
