#!/usr/bin/env python3
"""`cnitool probe` of UDP hostPorts: an empty datagram, which has to reach the pod; whether a server there says anything to it
does not matter. A rule that takes it is named, and nothing is left of it."""

import contextlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import cnitool  # noqa: E402
from support.doctor import BIN  # noqa: E402
from support.probe import ProbeTest, connections  # noqa: E402
from support.troubles import LACKS  # noqa: E402
from support.world import Pod, run  # noqa: E402

# Prints the sizes of what it receives. With "talks" it answers.
SERVER = r"""
import socket, sys
server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
server.bind(("::", 53))
print("ready", flush=True)
while True:
    data, whence = server.recvfrom(2000)
    print(len(data), flush=True)
    if sys.argv[1] == "talks":
        server.sendto(b"what?", whence)
"""


# Says to a pod that no port of the node is open, for all that it may have sent.
FORGER = r"""
import socket, struct, sys
own, pod, host, port = (*map(socket.inet_aton, sys.argv[1:4]), int(sys.argv[4]))
def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
print("ready", flush=True)
while True:
    for number in range(10_000, 12_100):
        sent = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28, 1, 0, 64, 17, 0, pod, host) + struct.pack("!HHHH", number, port, 8, 0)
        error = struct.pack("!BBHI", 3, 3, 0, 0) + sent
        raw.sendto(error[:2] + struct.pack("!H", checksum(error)) + error[4:], (sys.argv[2], 0))
"""


class Datagrams(ProbeTest):
    def setUp(self):
        super().setUp()
        self.third = Pod("c")
        self.assert_ok(cnitool("add", "net", self.third.path, CNI_PATH=BIN, CAP_ARGS={
            "portMappings": [{"hostPort": 5353, "containerPort": 53, "protocol": "udp"}]}))
        self.pods.append(self.third)
        self.settle()

    @contextlib.contextmanager
    def server(self, what):
        process = subprocess.Popen(["ip", "netns", "exec", "c", "python3", "-c", SERVER, what], stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.received = []
        try:
            yield
        finally:
            process.kill()
            self.received = process.communicate()[0].split()

    def said(self):
        """{question: answer} about the hostPort, of a probe that finds nothing."""
        answer = self.probe()
        self.assertEqual(answer["findings"], [])
        out = {one["question"]: one["answer"] for one in answer["questions"] if "UDP hostPort 5353" in one["question"]}
        # From the node by the address of the uplink and by 127.0.0.1, and from a pod.
        self.assertEqual([one.split(" to ")[0] == "the node" for one in out], [True, False, True], out)
        return out

    def test_a_port_without_a_server(self):
        before = connections()
        self.assertEqual(set(self.said().values()), {"closed"})
        self.assertEqual(connections() - before, set())

    def test_a_server_that_says_nothing(self):
        before = connections()
        with self.server("listens"):
            self.assertEqual(set(self.said().values()), {"arrived"})
        self.assertGreaterEqual(len(self.received), 3)
        self.assertEqual(set(self.received), {"0"})
        self.assertEqual(connections() - before, set())

    def test_a_server_that_answers(self):
        with self.server("talks"):
            self.assertEqual(set(self.said().values()), {"answered"})

    def test_a_port_that_a_neighbour_says_is_closed(self):
        forgers = [subprocess.Popen(["ip", "netns", "exec", pod.name, "python3", "-c", FORGER, self.address_of(pod), self.address_of(other), "192.0.2.1", "5353"],
                                    stdout=subprocess.PIPE, text=True) for pod, other in zip(self.pods[:2], self.pods[1::-1])]
        try:
            self.assertEqual([one.stdout.readline() for one in forgers], ["ready\n"] * 2)
            with self.server("listens"):
                self.assertEqual(set(self.said().values()), {"arrived"})
        finally:
            for one in forgers:
                one.kill()
                one.communicate()

    def test_what_takes_it(self):
        drop = "udp dport 53 drop"
        for where, table in (((), "inet"), (("ip", "netns", "exec", "c"), "inet"), ((), "bridge")):
            hook = "input" if where else "output" if table == "bridge" else "postrouting"
            run(*where, "nft", f"add table {table} x; add chain {table} x c {{ type filter hook {hook} priority 0; }}; "
                f"add rule {table} x c {drop}")
            with self.server("listens"):
                self.found(f"chain 'c' of table {table} x drops packets: {drop}")
            run(*where, "nft", f"delete table {table} x")
        self.assert_silent()

    def assert_not_seen(self, make):
        """Of what a virtual machine does with a datagram nothing is seen, and nothing is said to be wrong."""
        run("ip", "-n", "c", "tuntap", "add", "tap0", "mode", "tap")
        run("ip", "-n", "c", "link", "set", "tap0", "up")
        try:
            run("sh", "-ec", make)
        except RuntimeError as reason:
            if any(lack in str(reason) for lack in LACKS):
                self.skipTest("this kernel lacks what the row needs")
            raise
        answer = self.probe()
        self.assertEqual(answer["findings"], [])
        mine = [one for one in answer["questions"] if "UDP hostPort 5353" in one["question"]]
        self.assertEqual({(one["level"], one["answer"]) for one in mine}, {("unknown", "no answer")}, mine)

    def test_a_virtual_machine_of_Kata_Containers_that_says_nothing(self):
        self.assert_not_seen("tc -n c qdisc add dev eth0 clsact; tc -n c filter add dev eth0 ingress protocol ip u32 match ip protocol 17 0xff "
                             "action mirred egress redirect dev tap0")

    def test_a_virtual_machine_of_KubeVirt_that_says_nothing(self):
        self.third.run("nft", "add table ip vm; add chain ip vm p { type nat hook prerouting priority -100; }; "
                       "add rule ip vm p udp dport 53 dnat to 10.0.2.2")
        self.assert_not_seen("ip netns exec c sysctl -qw net.ipv4.ip_forward=1; ip -n c addr add 10.0.2.1/24 dev tap0; "
                             "ip -n c neigh add 10.0.2.2 lladdr 02:00:00:00:00:02 dev tap0")

    def test_a_lost_table_of_hostPorts(self):
        run("nft", "delete table ip patchbay_hostport")
        with self.server("listens"):
            self.assert_heals("hostPorts stay on the node")


if __name__ == "__main__":
    suite.main()
