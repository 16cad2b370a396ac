#!/usr/bin/env python3
"""DHCP servers that lie, and many pods at once: no crash, no ADD past its deadline, no address without a DHCPACK."""

import json
import os
import random
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import dhcp, suite  # noqa: E402
from support.plugin import finish_all, start  # noqa: E402
from support.world import run, wait_for  # noqa: E402

DISCOVER, OFFER, REQUEST, ACK, NAK, RELEASE = 1, 2, 3, 5, 6, 7
MASK = {1: b"\xff\xff\xff\0"}
LEASE = {51: struct.pack(">I", 3600)}


def options_of(packet):
    found, at = {}, 240
    while at < len(packet) and packet[at] != 255:
        if packet[at] == 0:
            at += 1
            continue
        found[packet[at]] = packet[at + 2:at + 2 + packet[at + 1]]
        at += 2 + packet[at + 1]
    return found


def reply(packet, kind, address="10.77.0.50", options=None, server="10.77.0.1", xid=None, chaddr=None, raw=None):
    body = bytearray(packet[:240])
    body[0] = 2
    if xid is not None:
        body[4:8] = struct.pack(">I", xid)
    body[16:20] = socket.inet_aton(address)
    if chaddr is not None:
        body[28:34] = chaddr
    if raw is not None:
        return bytes(body) + raw
    for code, value in ({53: bytes([kind]), 54: socket.inet_aton(server)} | MASK | LEASE | (options or {})).items():
        if value is not None:
            body += bytes([code, len(value)]) + value
    return bytes(body) + b"\xff" + bytes(60)


class Liar:
    """A server that answers each message by what answer(message type, packet) gives."""

    def __init__(self, answer):
        self.answer, self.heard, self.done = answer, [], False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, dhcp.BRIDGE.encode())
        self.socket.bind(("", 67))
        self.socket.settimeout(0.1)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.done:
            try:
                packet = self.socket.recv(4096)
            except OSError:
                continue
            kind = options_of(packet).get(53, b"\0")[0]
            self.heard.append(kind)
            for one in self.answer(kind, packet) or ():
                self.socket.sendto(one, ("255.255.255.255", 68))

    def stop(self):
        self.done = True
        self.thread.join()
        self.socket.close()


def honest(kind, packet, **more):
    return [reply(packet, {DISCOVER: OFFER, REQUEST: ACK}[kind], **more)] if kind in (DISCOVER, REQUEST) else []


def garbage(kind, packet):
    picks = random.Random(len(packet) + kind)
    for size in (0, 1, 2, 3, 60, 255, 600, 1200):
        yield reply(packet, OFFER, raw=bytes(picks.randrange(256) for _ in range(size)))
    for code in range(1, 255):  # each option with a length that leads out of the packet
        yield reply(packet, OFFER, raw=bytes([53, 1, OFFER, code, 255, 1]))
    yield b"" * 10
    yield reply(packet, OFFER)[:239]


#: What a server does that never gives a lease.
LIES = {
    "offers alone": lambda kind, packet: [reply(packet, OFFER)] if kind == DISCOVER else [],
    "a NAK to each request": lambda kind, packet: [reply(packet, OFFER if kind == DISCOVER else NAK)],
    "another transaction": lambda kind, packet: honest(kind, packet, xid=7),
    "another client": lambda kind, packet: honest(kind, packet, chaddr=b"\2\0\0\0\0\7"),
    "an ACK of another server": lambda kind, packet: honest(kind, packet, server="10.77.0.1" if kind == DISCOVER else "10.77.0.9"),
    "an ACK of another address": lambda kind, packet: honest(kind, packet, address="10.77.0.50" if kind == DISCOVER else "10.77.0.51"),
    "an ACK without an offer": lambda kind, packet: [reply(packet, ACK)],
    "no server identifier": lambda kind, packet: honest(kind, packet, options={54: None}),
    "a type of another length": lambda kind, packet: honest(kind, packet, options={53: b"\2\5"}),
    "garbage": garbage,
    **{f"the server identifier {ip}": lambda kind, packet, ip=ip: honest(kind, packet, server=ip)
       for ip in ("0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "255.255.255.255", "10.77.0.50")},
}
#: What makes ADD fail at once, and the text.
USELESS = {
    "no subnet mask": ({"options": {1: None}}, "DHCP option Subnet Mask not found in DHCPACK"),
    "a mask with a hole": ({"options": {1: b"\xff\0\xff\0"}}, "a subnet mask that is none"),
    "a multicast address": ({"address": "224.0.0.5"}, "which no host can have"),
    "a loopback address": ({"address": "127.0.0.1"}, "which no host can have"),
    "the broadcast address": ({"address": "10.77.0.255"}, "which no host can have"),
    "a server with the broadcast address": ({"server": "10.77.0.255"}, "which no server can have"),
}


@suite.spread
class Hostile(suite.NodeTest):
    def setUp(self):
        super().setUp()
        dhcp.segment()
        self.daemon = dhcp.Daemon("-timeout", "500ms", "-resendmax", "1s")
        self.addCleanup(self.daemon.process.wait)
        self.addCleanup(lambda: self.daemon.process.kill())

    def lie(self, answer):
        liar = Liar(answer)
        self.addCleanup(liar.stop)
        return liar

    def assert_alive(self):
        self.assertIsNone(self.daemon.process.poll(), self.daemon.log)
        self.assertEqual(self.daemon.leases(), {})
        self.assertEqual(os.listdir(dhcp.STATES), [])

    @suite.cases(list(LIES.items()))
    def no_lease_comes_of(self, answer):
        liar = self.lie(answer)
        pod = self.pod()
        begun = time.monotonic()
        self.assert_error(dhcp.attach("ADD", pod, dhcp.config(ipam={"timeout": 3})), 11, "no more tries")
        self.assertLess(time.monotonic() - begun, 40)
        self.assertIn(DISCOVER, liar.heard)
        self.assertLess(len(liar.heard), 40, "a loop of messages")
        self.assert_alive()

    @suite.cases(list(USELESS.items()))
    def ADD_fails_at_once_for(self, row):
        keys, text = row
        self.lie(lambda kind, packet: honest(kind, packet, **keys))
        self.assert_error(dhcp.attach("ADD", self.pod(), dhcp.config()), 999, text)
        self.assert_alive()

    @suite.cases([("its interface is removed", lambda self, pod: pod.run("ip", "link", "del", "eth0")),
                  ("its namespace is removed", lambda self, pod: pod.remove()),
                  ("it goes while there is no daemon", lambda self, pod: (self.daemon.kill(), pod.remove(), self.daemon.start()))])
    def the_node_sends_nothing_to_the_server_that_a_pod_names_when(self, remove):
        """The server is in a network of the node's that the pod does not reach."""
        run("ip", "link", "add", "mgmt", "type", "veth", "peer", "name", "mgmt-out")
        run("ip", "addr", "add", "192.0.2.2/24", "dev", "mgmt")
        for link in ("mgmt", "mgmt-out"):
            run("ip", "link", "set", link, "up")
        run("nft", "-f", "-", stdin="table inet watch { chain out { type filter hook output priority 0; "
            "udp sport 68 counter; udp dport 67 counter\n}\n}\n")
        liar = self.lie(lambda kind, packet: honest(kind, packet, server="192.0.2.1", options={51: struct.pack(">I", 2)}))
        pod = self.pod()
        self.assert_ok(dhcp.attach("ADD", pod, dhcp.config()))
        self.assertEqual(self.daemon.leases()["pod1"]["server"], "192.0.2.1")
        remove(self, pod)
        self.assertTrue(wait_for(lambda: self.daemon.leases() == {}, 20), self.daemon.log)
        rules = json.loads(run("nft", "-j", "list", "chain", "inet", "watch", "out"))["nftables"]
        sent = [part["counter"]["packets"] for one in rules for part in one.get("rule", {}).get("expr", ()) if "counter" in part]
        self.assertEqual(sent, [0, 0])
        self.assertIn("does not release 10.77.0.50", self.daemon.log)
        self.assertNotIn(RELEASE, liar.heard)
        self.assert_alive()

    def test_options_that_lie_do_no_harm(self):
        liar = self.lie(lambda kind, packet: honest(kind, packet, options={
            3: b"\1\2\3", 6: b"\1", 15: b"a.test\nnameserver 6.6.6.6", 26: b"\0\1", 33: b"\1", 119: b"\xc0\0" * 9,
            121: b"\x21" + b"\1" * 8, 58: b"\0\0\0\0", 59: b"\xff\xff\xff\xff", 52: b"\3", 56: b"\x1b[2J"}))
        pod = self.pod()
        request = [{"option": str(code)} for code in (6, 15, 26, 33, 119, 121)]
        result = self.assert_ok(dhcp.attach("ADD", pod, dhcp.config(ipam={"request": request})))
        self.assertEqual(result["ips"], [{"address": "10.77.0.50/24", "interface": 2}])
        self.assertNotIn("routes", result)
        self.assertNotIn("dns", result)
        self.assertTrue(liar.heard)
        self.assert_ok(dhcp.attach("DEL", pod, dhcp.config()))
        self.assert_alive()

    def test_of_two_servers_the_first_offer_counts_and_a_flood_changes_nothing(self):
        def both(kind, packet):
            other = [reply(packet, OFFER, address=f"10.77.0.{n}", server="10.77.0.9") for n in range(60, 260 - 60)]
            if kind == DISCOVER:
                return [reply(packet, OFFER), *other * 10]
            asked = options_of(packet).get(54)
            return [*other * 10, reply(packet, ACK, server=socket.inet_ntoa(asked))] if asked else []
        self.lie(both)
        result = self.assert_ok(dhcp.attach("ADD", self.pod(), dhcp.config()))
        self.assertEqual(result["ips"][0]["address"], "10.77.0.50/24")

    def test_a_lease_of_no_time_is_no_loop(self):
        liar = self.lie(lambda kind, packet: honest(kind, packet, options={51: b"\0\0\0\0"}))
        self.assert_ok(dhcp.attach("ADD", self.pod(), dhcp.config()))
        heard = len(liar.heard)
        time.sleep(5)
        self.assertLess(len(liar.heard) - heard, 12)

    def test_what_talks_nonsense_by_the_socket_is_hung_up_on(self):
        for text in (b"GET / HTTP/1.0\n\n", b"\0" * 10000, b"CONNECT /_goRPC_ HTTP/1.0\n\n\xf8" + b"\xff" * 8,
                     b"CONNECT /_goRPC_ HTTP/1.0\n\n" + b"\2\x0c\1" * 100):
            with socket.socket(socket.AF_UNIX) as peer:
                peer.settimeout(20)
                peer.connect(dhcp.SOCKET)
                peer.sendall(text)
                answer = b""
                while part := peer.recv(4096):
                    answer += part
                if text.startswith(b"GET"):
                    self.assertIn(b"405 must CONNECT", answer)
        self.assert_alive()

    def test_another_user_is_not_answered(self):
        os.chmod(dhcp.SOCKET, 0o666)
        os.chmod("/run/cni", 0o755)
        code = ("import os, socket\nos.setuid(65534)\npeer = socket.socket(socket.AF_UNIX)\n"
                f"peer.connect('{dhcp.SOCKET}')\n\n"
                "try:\n    peer.sendall(b'CONNECT /_goRPC_ HTTP/1.0\\n\\n')\n    print(len(peer.recv(100)))\nexcept OSError:\n    print(0)\n")
        self.assertEqual(run(sys.executable, "-c", code).strip(), "0")
        self.assertIn("of another user", self.daemon.log)


class Crowd(suite.NodeTest):
    def test_a_hundred_pods_at_once_and_a_steady_daemon(self):
        dhcp.segment("10.77.0.1/20")
        server = dhcp.dnsmasq(pool="10.77.1.0,10.77.8.250,255.255.240.0", options=("--dhcp-lease-max=2000",))
        self.addCleanup(server.stop)
        daemon = dhcp.Daemon()
        self.addCleanup(daemon.process.wait)
        self.addCleanup(lambda: daemon.process.kill())
        idle = daemon.descriptors()
        pods = [self.pod() for _ in range(100)]
        conf = dhcp.config()

        def each(verb):
            for at in range(0, len(pods), 25):
                calls = [start("bridge", verb, conf, netns=pod.path, container=pod.name) for pod in pods[at:at + 25]]
                for outcome in finish_all(calls):
                    self.assert_ok(outcome)

        memory = []
        for _ in range(3):
            each("ADD")
            self.assertEqual(len({lease["address"] for lease in daemon.leases().values()}), 100)
            self.assertTrue(wait_for(lambda: daemon.descriptors() <= idle + 1), os.listdir(f"/proc/{daemon.process.pid}/fd"))
            memory.append(daemon.memory())
            each("DEL")
            self.assertEqual(daemon.leases(), {})
        self.assertTrue(dhcp.released())
        self.assertTrue(wait_for(lambda: daemon.descriptors() <= idle + 1))
        self.assertLess(memory[-1], memory[0] + 1024, memory)
        self.assertLess(memory[-1], 20 * 1024)

    def test_a_thousand_leases_take_less_than_20_MiB(self):
        dhcp.segment("10.77.0.1/20")
        server = dhcp.dnsmasq(pool="10.77.1.0,10.77.8.250,255.255.240.0", options=("--dhcp-lease-max=2000",))
        self.addCleanup(server.stop)
        daemon = dhcp.Daemon()
        self.addCleanup(daemon.process.wait)
        self.addCleanup(lambda: daemon.process.kill())
        pod = self.pod()
        for n in range(25):  # dnsmasq offers one address to clients of one MAC address that come at once
            dhcp.veth(pod, f"peer{n}", f"e{n}")
        for at in range(0, 1000, 25):
            calls = [start("dhcp", "ADD", dhcp.config(), netns=pod.path, container=f"c{at + n}", ifname=f"e{n}")
                     for n in range(25)]
            for outcome in finish_all(calls):
                self.assert_ok(outcome)
        self.assertEqual(len(daemon.leases()), 1000)
        self.assertEqual(len(os.listdir(dhcp.STATES)), 1000)
        self.assertLess(daemon.memory(), 20 * 1024)
        before = daemon.memory()
        daemon.restart()
        self.assertTrue(wait_for(lambda: len(daemon.leases(check=False) or ()) == 1000, 20), daemon.log[-2000:])
        self.assertLess(daemon.memory(), before + 2048)
        self.assertLess(daemon.descriptors(), 30)


if __name__ == "__main__":
    suite.main(needs=("dnsmasq",), per_processor=2)
