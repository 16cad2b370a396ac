#!/usr/bin/env python3
"""`cnitool probe` while a pod does what it can: ICMP errors of all kinds, forged TCP segments, floods of answers, thousands of
neighbours, names with escapes. It ends in time, names no remedy that obeys the pod, and says the same of all others."""

import contextlib
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import cnitool, container_of, start  # noqa: E402
from support.doctor import BIN  # noqa: E402
from support.plugin import Outcome  # noqa: E402
from support.probe import ProbeTest  # noqa: E402
from support.world import Pod, run, wait_for  # noqa: E402

# What the pod does with the packets that it sees: functions of the Ethernet header's rest, which give packets to send.
HOSTILE = r"""
import socket, struct, sys, time
def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return struct.pack("!H", ~total & 0xffff)
def packet(source, target, protocol, data):
    return struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(data), 1, 0, 64, protocol, 0, source, target) + data
def icmp(kind, code, rest):
    data = struct.pack("!BBH", kind, code, 0) + rest
    return data[:2] + checksum(data) + data[4:]
def errors(seen):
    # Of the gateway and of the pod: each kind, which has the whole packet, its beginning, or nothing.
    for kind in (3, 4, 5, 11, 12, 18, 40):
        for code in range(16):
            for inner in (seen, seen[:28], seen[:20], b"\x4f" + seen[1:24], b""):
                for source in (seen[12:16], seen[16:20]):
                    yield packet(source, seen[12:16], 1, icmp(kind, code, b"\0\0\0\x44" + inner))
def segments(seen):
    ports, sequence = seen[22:24] + seen[20:22], struct.unpack("!I", seen[24:28])[0]
    for flags in (0x04, 0x14, 0x12, 0x02, 0x10, 0xff, 0):
        for acknowledged in (sequence + 1, sequence, 0):
            for offset in (5, 0, 15):
                data = ports + struct.pack("!IIBBHHH", 7, acknowledged & 0xffffffff, offset << 4, flags, 1000, 0, 0)
                pseudo = seen[16:20] + seen[12:16] + struct.pack("!HH", 6, len(data))
                data = data[:16] + checksum(pseudo + data) + data[18:]
                yield packet(seen[16:20], seen[12:16], 6, data)
                yield packet(seen[16:20], seen[12:16], 6, data[:12])
def replies(seen):
    for number in range(200):
        yield packet(seen[16:20], seen[12:16], 1, icmp(0, 0, seen[24:26] + struct.pack("!H", number) + seen[28:]))
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x800))
packets.bind(("eth0", 0x800))
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
print("ready", flush=True)
last = []
while True:
    packets.settimeout(None if not last else 0)
    try:
        seen, whence = packets.recvfrom(3000)
        seen = seen[14:]
        if whence[2] == socket.PACKET_OUTGOING:
            continue
        is_echo, is_syn = seen[9] == 1 and seen[20] == 8, seen[9] == 6 and seen[33] & 0x12 == 2
        if is_echo or is_syn:
            forged = [(one, socket.inet_ntoa(one[16:20])) for one in
                      (segments(seen) if is_syn else replies(seen) if sys.argv[1] == "flood" else errors(seen))]
            if is_echo and sys.argv[1] == "flood" and seen[12:16] == bytes([10, 1, 2, 1]):
                last = forged
            for one, to in forged:
                raw.sendto(one, (to, 0))
    except BlockingIOError:
        pass
    for one, to in last:
        raw.sendto(one, (to, 0))
"""
# The same flood as fast as the machine can: whole frames, 200 with one system call, past all queues of the pod.
FASTEST = HOSTILE.split("packets = socket")[0] + r"""
import ctypes, os
libc = ctypes.CDLL(None)
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_char_p), ("size", ctypes.c_size_t)]
class Message(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint), ("iov", ctypes.POINTER(Part)), ("iovlen", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t), ("flags", ctypes.c_size_t), ("sent", ctypes.c_size_t)]
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x800))
packets.bind(("eth0", 0x800))
packets.setblocking(False)
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
wire.setsockopt(263, 20, 1)  # SOL_PACKET, PACKET_QDISC_BYPASS
wire.bind(("eth0", 0))
print("ready", flush=True)
batch = None
while True:
    try:
        seen, whence = packets.recvfrom(3000)
        is_echo = whence[2] != socket.PACKET_OUTGOING and seen[23] == 1 and seen[34] == 8 and seen[26:30] == bytes([10, 1, 2, 1])
        if is_echo:
            frames = [seen[6:12] + seen[:6] + seen[12:14] + one[:10] + checksum(one[:20]) + one[12:]
                      for one in replies(seen[14:])]
            parts = [Part(one, len(one)) for one in frames]
            batch = (Message * len(parts))(*(Message(iov=ctypes.pointer(one), iovlen=1) for one in parts))
    except BlockingIOError:
        if not batch:
            time.sleep(0.001)
    if batch:
        libc.sendmmsg(wire.fileno(), batch, len(batch), 0)
"""
# Commands that would harm somebody who believes the pod.
HARMFUL = ("nft", "iptables", "ip ", "sysctl", "firewall-cmd", "restart")


def received():
    """The ICMP packets that the node has received."""
    with open("/proc/net/snmp", encoding="ascii") as file:
        return int([line for line in file if line.startswith("Icmp: ")][1].split()[1])


def measured(*words, **env):
    """What came of cnitool, and how many KiB it had at most."""
    process = start(*words, **env)
    with process.stdout, process.stderr:
        out, error = process.stdout.read(), process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Outcome(process.returncode, out, error), used.ru_maxrss


class Hostile(ProbeTest):
    def setUp(self):
        super().setUp()
        self.third = Pod("c")
        self.add(self.third, 8082)
        self.settle()
        self.name_of_hostile = container_of(self.pods[1].path)[:12]

    @contextlib.contextmanager
    def hostile(self, what):
        """The second pod, whose kernel answers nothing."""
        self.pods[1].run("nft", "add table inet x; add chain inet x i { type filter hook input priority 0; policy drop; }")
        pod = subprocess.Popen(["ip", "netns", "exec", "b", "python3", "-c", FASTEST if what == "fastest" else HOSTILE, what], stdout=subprocess.PIPE, text=True)
        self.assertEqual(pod.stdout.readline(), "ready\n")
        try:
            yield
            self.assertIsNone(pod.poll())
        finally:
            pod.kill()
            pod.communicate()

    def others(self, answer):
        """What is said of all others: {question: level}."""
        return {one["question"]: one["level"] for one in answer["questions"] if self.name_of_hostile not in one["question"]}

    def assert_believes_nothing(self, what, seconds):
        honest = self.others(self.probe())
        self.assertEqual(set(honest.values()), {"ok"})
        self.assertGreater(len(honest), 8)
        with self.hostile(what):
            began = time.monotonic()
            done, self.memory = measured("probe", "--json", CNI_PATH=BIN)
            self.took = took = time.monotonic() - began
        self.assertEqual((done.status, done.stderr), (1, ""))
        self.assertLess(took, seconds)
        answer = done.json
        self.assertEqual(self.others(answer), honest)
        for found in answer["findings"]:
            self.assertTrue(all(self.name_of_hostile in line for line in found["lines"]), found)
            self.assertFalse(found["remedy"].startswith(HARMFUL), found)
        return answer

    def test_errors_of_ICMP_and_segments_of_TCP(self):
        answer = self.assert_believes_nothing("errors", 20)
        self.assertNotIn("ok", {one["level"] for one in answer["questions"] if "the node to " + self.name_of_hostile in one["question"]
                                and "10.1.2." in one["question"]})

    def test_a_flood_of_answers(self):
        before, began = received(), time.monotonic()
        self.assert_believes_nothing("flood", 20)
        self.assertGreater(received() - before, 1000)
        print(f"     {received() - before} forged answers in {time.monotonic() - began:.1f} s", flush=True)

    def test_the_fastest_flood_of_answers(self):
        calm = measured("probe", "--json", CNI_PATH=BIN)[1]
        before = received()
        self.assert_believes_nothing("fastest", 30)
        flooded = received() - before
        print(f"     {flooded} forged answers, {flooded / self.took:.0f} a second; {self.memory} KiB, and {calm} without", flush=True)
        self.assertGreater(flooded, 10_000)
        self.assertLess(self.memory, calm + 16 * 1024)

    def test_ten_thousand_neighbours(self):
        lines = [f"neigh add 10.1.{n // 250 + 100}.{n % 250 + 1} lladdr 02:00:00:00:00:07 dev eth0 nud permanent\n" for n in range(10_000)]
        run("ip", "-n", "b", "-batch", "-", stdin="".join(lines))
        self.assert_silent()
        self.assertEqual(len(self.pods[1].run("ip", "neigh", "show", "nud", "permanent").splitlines()), 10_000)

    def test_names_with_escapes(self):
        name = "v\x1b]0;x\x07\x1b[8m"
        run("ip", "link", "add", name, "type", "veth", "peer", "name", "w\x1b[2J")
        run("ip", "link", "set", name, "up")
        run("ip", "link", "set", "w\x1b[2J", "up")
        run("ip", "route", "add", "default", "dev", name, "table", "77")
        run("ip", "rule", "add", "from", "10.1.2.0/28", "lookup", "77", "pref", "100")
        run("nft", 'add table inet x; add chain inet x i { type filter hook input priority 0; }; '
            'add rule inet x i iifname cni0 icmp type echo-request drop comment "\x1b[31m$(id)"')
        for words in ((), ("-q",), ("--json",)):
            done = cnitool("probe", *words, CNI_PATH=BIN)
            self.assertEqual(done.status, 1)
            self.assertIn("v?]0;x??[8m'", done.stdout)
            self.assertFalse(any(ord(letter) < 32 and letter != "\n" for letter in done.stdout), done.stdout)
            self.assertIn("chain 'i' of table inet x", done.stdout)

    def test_a_pod_that_takes_its_interface_away(self):
        for words in (("link", "set", "eth0", "down"), ("link", "set", "eth0", "name", "eth\x1b[1m"), ("addr", "flush", "dev", "eth0")):
            with contextlib.suppress(RuntimeError):
                self.pods[1].run("ip", "link", "set", "eth0", "down")
            self.pods[1].run("ip", *words)
            done = cnitool("probe", "--json", CNI_PATH=BIN)
            self.assertEqual(done.stderr, "")
            levels = self.others(done.json)
            self.assertEqual(set(levels.values()), {"ok"}, levels)
            if "name" in words:
                self.pods[1].run("ip", "link", "set", "eth\x1b[1m", "name", "eth0")
            self.pods[1].run("ip", "link", "set", "eth0", "up")


if __name__ == "__main__":
    suite.main()
