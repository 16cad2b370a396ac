#!/usr/bin/env python3
"""`cnitool probe` where it could err: nodes on which nothing is wrong, state that was lost, pods that end in between, pods
that lie, and command lines that say nothing."""

import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import cnitool, container_of, finish, start, use  # noqa: E402
from support.doctor import BANDWIDTH, BIN, BRIDGE, PORTMAP, chain  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.probe import ProbeTest  # noqa: E402
from support.world import Pod, run, wait_for  # noqa: E402

# Answers each echo request that it sees with replies for all others of its run, in the name of another host.
LIAR = r"""
import socket, struct, sys
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x800))
packets.bind(("eth0", 0x800))
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return struct.pack("!H", ~total & 0xffff)
print("ready", flush=True)
while True:
    packet = packets.recv(2000)[14:]
    if packet[9] != 1 or packet[20] != 8 or len(packet) % 2:
        continue
    for number in range(64):
        echo = b"\0\0\0\0" + packet[24:26] + struct.pack("!H", number) + packet[28:]
        echo = echo[:2] + checksum(echo) + echo[4:]
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(echo), 1, 0, 64, 1, 0, socket.inet_aton(sys.argv[1]), packet[12:16])
        raw.sendto(head + echo, (socket.inet_ntoa(packet[12:16]), 0))
"""


def add_macvlan(test, mode, *routes):
    """Two pods of a macvlan network in this mode, with these routes. Returns where the other end of its master is."""
    shutil.copy(os.path.join(OURS, "macvlan"), BIN)
    wire = Pod("wire")
    run("ip", "link", "add", "lan0", "type", "veth", "peer", "name", "eth0", "netns", "wire")
    run("ip", "link", "set", "lan0", "up")
    wire.run("ip", "link", "set", "eth0", "up")
    use({"cniVersion": "1.1.0", "name": "lan", "plugins": [
        {"type": "macvlan", "master": "lan0", "mode": mode, "ipam": {"type": "host-local", "subnet": "10.77.0.0/24",
                                                                         "routes": [{"dst": one} for one in routes]}}]},
        "20-lan.conflist")
    for name in ("c", "d"):
        test.assert_ok(cnitool("add", "lan", Pod(name).path, CNI_PATH=BIN))
    return wire


class Healthy(ProbeTest):
    def again(self, conf, *ports):
        """Attaches the pods by another config; the first has these ports."""
        for pod in self.pods:
            self.assert_ok(cnitool("del", "net", pod.path, CNI_PATH=BIN))
        use(conf)
        for pod, mine in zip(self.pods, (list(ports), [])):
            self.assert_ok(cnitool("add", "net", pod.path, CNI_PATH=BIN, CAP_ARGS={"portMappings": mine}))

    def test_a_bridge_without_the_node(self):
        alone = {"type": "bridge", "bridge": "cni7", "ipam": {"type": "host-local", "ranges": BRIDGE["ipam"]["ranges"]}}
        self.again(chain(alone))
        run("ip", "link", "del", "cni0")
        answer = self.probe()
        self.assertEqual((answer["findings"], answer["asked"], answer["answered"]), ([], 4, 4))

    def test_hostPorts_of_one_address_or_family(self):
        self.again(chain(), *({"hostPort": 8080 + n, "containerPort": 80, "protocol": "tcp", "hostIP": ip}
                              for n, ip in enumerate(("127.0.0.1", "0.0.0.0", "::", "192.0.2.1"))))
        self.assert_silent()

    def test_pods_that_do_not_reach_each_other(self):
        add_macvlan(self, "private")
        self.assert_silent()

    def test_a_gateway_of_router_advertisements(self):
        wait_for(lambda: '"tentative":true' not in run("ip", "-n", "outside", "-j", "addr"))  # until then it answers nobody
        link = json.loads(run("ip", "-n", "outside", "-6", "-j", "addr", "show", "dev", "eth0", "scope", "link"))[0]
        run("ip", "-6", "route", "add", "default", "via", link["addr_info"][0]["local"], "dev", "up0", "proto", "ra", "metric", "1024")
        self.assert_silent()

    def test_a_default_route_that_does_not_decide(self):
        run("ip", "route", "add", "default", "via", "192.0.2.77", "metric", "200")
        self.assert_silent()

    def test_a_Service(self):
        to = self.address_of(self.pods[0])
        run("iptables", "-t", "nat", "-N", "KUBE-SVC")
        run("iptables", "-t", "nat", "-A", "PREROUTING", "-j", "KUBE-SVC")
        run("iptables", "-t", "nat", "-A", "KUBE-SVC", "-d", "10.96.0.1", "-p", "tcp", "--dport", "443", "-j", "DNAT",
            "--to-destination", f"{to}:80")
        other = container_of(self.pods[1].path)
        self.assertEqual(self.probe("--to", "10.96.0.1:443", "--container-id", other)["findings"], [])

    def test_a_pod_that_ends_in_between(self):
        for seconds in (0.1, 0.4):
            third = Pod("c")
            self.assert_ok(cnitool("add", "net", third.path, CNI_PATH=BIN))
            process = start("probe", "--json", "--rate", "50", CNI_PATH=BIN)
            time.sleep(seconds)
            run("ip", "netns", "del", "c")
            answer = finish(process).json
            self.assertEqual((answer["findings"], answer["complete"]), ([], True))
            self.assert_ok(cnitool("del", "net", third.path, CNI_PATH=BIN))


class Lost(ProbeTest):
    def test_the_table_of_hostPorts(self):
        run("nft", "delete table ip patchbay_hostport")
        self.assert_heals("hostPorts stay on the node")

    def test_the_interface_of_a_pod(self):
        self.pods[1].run("ip", "link", "set", "eth0", "name", "other")
        answer = self.probe()
        self.assertFalse(answer["ok"])
        self.assertEqual([one["what"] for one in answer["findings"] if "'eth0' does not exist" not in one["what"]], [])
        self.assertTrue(answer["findings"][0]["remedy"].startswith("restart the pod "), answer)

    def test_the_carrier_of_the_link_below_a_pod(self):
        wire = add_macvlan(self, "bridge")
        self.assert_silent()
        wire.run("ip", "link", "set", "eth0", "down")
        self.assertIn("ip -d link show dev eth0", self.found("link 'eth0' of the pod", "has no carrier")[0])

    def test_the_mode_of_a_macvlan(self):
        add_macvlan(self, "bridge")
        run("ip", "-n", "c", "link", "set", "eth0", "type", "macvlan", "mode", "private")
        self.assert_heals("'eth0' is a macvlan of mode private", "in the pod")

    def test_the_default_route_of_a_macvlan_pod(self):
        wire = add_macvlan(self, "bridge", "0.0.0.0/0")
        wire.run("ip", "addr", "add", "10.77.0.1/24", "dev", "eth0")
        self.assert_silent()
        run("ip", "-n", "c", "route", "replace", "default", "via", "10.77.0.9")
        self.assertTrue(self.found("its default route is 'default via 10.77.0.9 dev eth0', and its result has 'default via 10.77.0.1'")[0].startswith("restart "))
        run("ip", "-n", "c", "route", "del", "default")
        self.found("there is no default route, which its result has", "in the pod")
        run("ip", "-n", "c", "route", "add", "default", "via", "10.77.0.1", "table", "9")  # as sbr has it
        self.assert_silent()

    def test_the_table_of_masquerading(self):
        run("nft", "delete table inet patchbay_masquerade")
        self.assert_heals("does not masquerade")

    def test_forwarding(self):
        run("sysctl", "-qw", "net.ipv4.conf.cni0.forwarding=0")
        self.assert_heals("net/ipv4/conf/cni0/forwarding is 0")

    def test_a_route_that_drops(self):
        run("ip", "route", "add", "blackhole", self.address_of(self.pods[0]))
        self.assert_heals("'blackhole 10.1.2.")

    def test_a_rule_of_a_device(self):
        run("nft", "add table netdev m; add chain netdev m c { type filter hook ingress device cni0 priority 0; }; "
            "add rule netdev m c ip saddr 10.1.2.0/28 drop")
        self.assert_heals("chain 'c' of table netdev m drops packets: ip saddr 10.1.2.0/28")

    def test_what_a_name_server_is_asked(self):
        for pod in self.pods:
            self.assert_ok(cnitool("del", "net", pod.path, CNI_PATH=BIN))
        use(chain({**BRIDGE, "dns": {"nameservers": ["192.0.2.2"]}}, PORTMAP, BANDWIDTH))
        self.add(self.pods[0], 8080)
        run("nft", "add table inet m; add chain inet m f { type filter hook forward priority 0; }; add rule inet m f udp dport 53 drop")
        self.found("chain 'f' of table inet m drops packets: udp dport 53")
        run("nft", "delete table inet m")
        self.found("192.0.2.2 says: port unreachable")
        if os.path.exists("/proc/net/nf_conntrack"):
            with open("/proc/net/nf_conntrack", encoding="ascii") as file:
                self.assertNotIn("dport=53", file.read())

    def test_no_size_where_nothing_arrives(self):
        self.pods[0].run("nft", "add table inet x; add chain inet x i { type filter hook input priority 0; policy drop; }")
        found = [one["what"] for one in self.probe()["findings"]]
        self.assertEqual(len(found), 1, found)
        self.assertIn("chain 'i' of table inet x drops packets: policy drop", found[0])


class Liars(ProbeTest):
    def test_replies_for_others(self):
        third = Pod("c")
        self.assert_ok(cnitool("add", "net", third.path, CNI_PATH=BIN))
        third.run("nft", "add table inet x; add chain inet x i { type filter hook input priority 0; policy drop; }")
        wait_for(lambda: '"tentative":true' not in third.run("ip", "-j", "addr"))
        honest = self.probe()
        liar = subprocess.Popen(["ip", "netns", "exec", "b", "python3", "-c", LIAR, self.address_of(third)],
                                stdout=subprocess.PIPE, text=True)
        self.assertEqual(liar.stdout.readline(), "ready\n")
        try:
            self.assertEqual(self.probe(), honest)
        finally:
            liar.kill()
            liar.communicate()


class CommandLine(ProbeTest):
    def test_a_target_that_is_none(self):
        for text in ("", "1.2.3.4:", "1.2.3.4:0", "1.2.3.4:65536", "[fd00::1", "fd00:0:0:0:0:0:0:1:80", "0.0.0.0", "::",
                     "127.0.0.1", "224.0.0.1", "ff02::1", "255.255.255.255"):
            self.assertEqual(cnitool("probe", "--to", text, CNI_PATH=BIN).status, 2, text)

    def test_a_network_that_does_not_exist(self):
        self.assertEqual(cnitool("probe", "--network", "nonet", CNI_PATH=BIN).status, 1)

    def test_the_time_limit(self):
        began = time.monotonic()
        done = cnitool("probe", "--json", "--rate", "1", "--time-limit", "1", CNI_PATH=BIN)
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual((done.status, done.json["complete"]), (1, False))

    def test_a_dry_run_as_JSON(self):
        done = cnitool("probe", "--dry-run", "--json", CNI_PATH=BIN)
        self.assertIn("packet", json.loads(done.stdout)["probes"][0])


if __name__ == "__main__":
    suite.main(per_processor=2)
