#!/usr/bin/env python3
"""Whoever speaks to patchbay-agent as a kubelet may be hostile: no crash, no hang, no descriptor left, others are served."""

import contextlib
import os
import random
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, kubelet, suite  # noqa: E402
from support.agent import RESOURCE, Agent, slots  # noqa: E402
from support.kubelet import Kubelet  # noqa: E402
from support.world import run, set_up, wait_for  # noqa: E402

IDS = [f"uplink:macvlan:{n}" for n in range(1, 5)]
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags=0, stream=0, payload=b"", length=None):
    """A frame of HTTP/2 (RFC 9113, section 4.1), whose length may be a lie."""
    return struct.pack(">I", len(payload) if length is None else length)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


SETTINGS = frame(4)
HEADERS, DATA, RST, PING, CONTINUATION = 1, 0, 3, 6, 9


def literal(name, value):
    """A header of HPACK, neither indexed nor compressed, shorter than 127 bytes."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def call(method, stream=1):
    """The headers of a call."""
    return frame(HEADERS, 4, stream, b"".join(literal(*pair) for pair in (
        (":method", "POST"), (":scheme", "http"), (":path", f"/v1beta1.DevicePlugin/{method}"), (":authority", "localhost"),
        ("content-type", "application/grpc"), ("te", "trailers"))))


def message(data, length=None):
    """A message of gRPC, whose length may be a lie."""
    return b"\0" + struct.pack(">I", len(data) if length is None else length) + data


HELLO = PREFACE + SETTINGS
ATTACKS = [
    ("bytes that are no HTTP/2", b"GET / HTTP/1.0\r\n\r\n" * 1000),
    ("zeros", bytes(100_000)),
    ("a frame of 16 MiB that ends early", HELLO + frame(DATA, 0, 1, b"x" * 1000, (1 << 24) - 1)),
    ("a message of 4 GiB", HELLO + call("Allocate") + frame(DATA, 0, 1, message(b"x" * 1000, 0xffffffff))),
    ("a message that is no protobuf", HELLO + call("Allocate") + frame(DATA, 1, 1, message(b"\xff" * 1000))),
    ("a field of 2 GiB in a message", HELLO + call("Allocate") + frame(DATA, 1, 1, message(b"\x0a\xff\xff\xff\xff\x07x"))),
    ("messages within messages", HELLO + call("Allocate") + frame(DATA, 1, 1, message(b"\x0b" * 10_000))),
    ("headers without an end", HELLO + frame(HEADERS, 0, 1, b"") + b"".join(
        frame(CONTINUATION, 0, 1, literal("x" * 100, "y" * 100) * 50) for _ in range(200))),
    ("an id that is no UTF-8", HELLO + call("Allocate") + frame(DATA, 1, 1, message(b"\x0a\x04\x0a\x02\xff\xfe"))),
    ("a method that does not exist", HELLO + call("Destroy") + frame(DATA, 1, 1, message(b""))),
    ("ten thousand pings", HELLO + frame(PING, 0, 0, b"12345678") * 10_000),
    ("ten thousand settings", HELLO + SETTINGS * 10_000),
    ("calls that are reset at once", HELLO + b"".join(
        call("ListAndWatch", 2 * n + 1) + frame(RST, 0, 2 * n + 1, struct.pack(">I", 8)) for n in range(5_000))),
    ("a thousand calls on one connection", HELLO + b"".join(
        call("Allocate", 2 * n + 1) for n in range(1_000))),
]


class Node(suite.NodeTest):
    def setUp(self):
        super().setUp()
        run("ip", "link", "add", "uplink", "type", "veth", "peer", "name", "uplink-out")
        set_up("uplink-out")
        set_up("uplink")

    def start(self, **options):
        self.of = Kubelet(**options)
        self.addCleanup(lambda: self.of.kill())
        self.by = Agent(slots())
        self.addCleanup(self.by.process.wait)
        self.addCleanup(lambda: self.by.process.kill())

    def listed(self):
        return self.of.devices(RESOURCE) == dict.fromkeys(IDS, "Healthy")


@suite.spread
class OnItsSocket(Node):
    def setUp(self):
        super().setUp()
        self.start()
        self.assertTrue(wait_for(self.listed, 20), self.by.log)
        self.of.allocate(RESOURCE, IDS[:1])
        time.sleep(0.3)
        self.before = self.by.descriptors()
        self.path = f"{kubelet.DIR}/plugins_registry/{self.of.resource(RESOURCE)['socket']}"

    def connect(self):
        one = socket.socket(socket.AF_UNIX)
        self.addCleanup(one.close)
        one.settimeout(5)
        one.connect(self.path)
        return one

    def assert_serves(self):
        self.assertTrue(self.by.is_alive(), self.by.log)
        self.assertEqual(len(self.of.allocate(RESOURCE, IDS[:1], timeout=10)), 1)
        self.assertTrue(self.listed())

    def assert_left_nothing(self, seconds=20):
        self.assert_serves()
        self.by.lines()  # are JSON
        self.assertTrue(wait_for(lambda: self.by.descriptors() <= self.before, seconds),
                        f"{self.by.descriptors()} descriptors, before {self.before}")

    @suite.cases(ATTACKS)
    def it_survives(self, data):
        for cut in (False, True):
            one = self.connect()
            with contextlib.suppress(OSError):
                one.sendall(data)
                if cut:
                    one.shutdown(socket.SHUT_WR)
                one.settimeout(0.3)
                while one.recv(65536):
                    pass
            self.assert_serves()
            one.close()
        self.assert_left_nothing()

    def test_it_survives_random_changes_of_a_call(self):
        whole = HELLO + call("Allocate") + frame(DATA, 1, 1, message(b"\x0a\x12\x0a\x10uplink:macvlan:1"))
        chance = random.Random(4)
        for _ in range(300):
            data = bytearray(whole)
            for _ in range(chance.randint(1, 8)):
                data[chance.randrange(len(PREFACE), len(data))] = chance.randrange(256)
            one = self.connect()
            with contextlib.suppress(OSError):
                one.sendall(data)
                one.shutdown(socket.SHUT_WR)
            one.close()
        self.assert_left_nothing()

    def test_connections_that_say_nothing_are_closed(self):
        quiet = [self.connect() for _ in range(200)]
        for one in quiet[::2]:
            one.sendall(PREFACE)
        self.assert_serves()
        for one in quiet:
            one.settimeout(15)
            with contextlib.suppress(ConnectionResetError):
                while one.recv(65536):  # its settings, and then the end
                    pass
        self.assert_left_nothing()

    def test_streams_beyond_eight_are_refused(self):
        one = self.connect()
        one.sendall(HELLO + b"".join(call("ListAndWatch", 2 * n + 1) + frame(DATA, 1, 2 * n + 1, message(b"")) for n in range(20)))
        answer = b""
        with contextlib.suppress(OSError):
            while b"too many streams" not in answer:
                answer += one.recv(65536)
        self.assertIn(b"too many streams", answer)
        self.assert_serves()
        one.close()
        self.assert_left_nothing()

    def test_a_reader_that_does_not_read_costs_no_memory(self):
        one = self.connect()
        one.sendall(HELLO + call("ListAndWatch") + frame(DATA, 1, 1, message(b"")))
        before = self.by.memory()
        for n in range(40):
            set_up("uplink", n % 2 == 1)
            time.sleep(0.02)
        self.assertTrue(wait_for(self.listed, 20))
        self.assertLess(self.by.memory() - before, 4096)
        one.close()
        self.assert_left_nothing()

    def test_a_flood_of_calls_is_answered(self):
        """Each by an answer or as refused."""
        request = {"container_requests": [{"device_ids": IDS[:2]}]}
        for method in ("Allocate", "GetDevicePluginOptions"):
            seen = self.of.ask("flood", resource=RESOURCE, method=method, request=request, count=2000)
            self.assertEqual(sum(seen.values()), 2000)
            self.assertLessEqual(set(seen), {"OK", "RESOURCE_EXHAUSTED"})
            self.assertGreater(seen["OK"], 50)
        self.assert_left_nothing()


@suite.spread
class OnTheKubeletsSocket(Node):
    """A program in place of the kubelet, to which the agent connects."""

    ANSWERS = [("nothing", b""), ("an end", None), ("bytes that are no HTTP/2", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 100),
               ("a frame of 16 MiB", SETTINGS + frame(HEADERS, 4, 1, b"", (1 << 24) - 1)),
               ("settings without an end", SETTINGS * 20_000),
               ("an answer of 4 GiB", SETTINGS + frame(HEADERS, 4, 1, literal(":status", "200") + literal(
                   "content-type", "application/grpc")) + frame(DATA, 0, 1, message(b"x" * 100, 0xffffffff)))]

    def answer(self, path, data):
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(path)
        listener.listen(64)
        listener.settimeout(0.1)
        kept, ended = [], threading.Event()

        def serve():
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    one, _ = listener.accept()
                    kept.append(one)
                    one.settimeout(0.5)
                    one.sendall(data or b"")
                    if data is None:
                        one.close()
        thread = threading.Thread(target=serve)
        thread.start()

        def end():  # the next test's namespaces want a process of one thread
            ended.set()
            thread.join()
            for one in kept:
                one.close()
        self.addCleanup(end)
        return kept

    @suite.cases(ANSWERS)
    def the_agent_survives_at_registration(self, data):
        os.makedirs(f"{kubelet.DIR}/device-plugins")
        seen = self.answer(f"{kubelet.DIR}/device-plugins/kubelet.sock", data)
        self.by = Agent(slots())
        self.addCleanup(self.by.process.wait)
        self.addCleanup(lambda: self.by.process.kill())
        self.assertTrue(wait_for(lambda: seen, 10), self.by.log)
        time.sleep(3)
        self.assertIsNotNone(self.by.status())
        self.assertLess(self.by.descriptors(), 60)
        self.assertLess(self.by.memory(), 60 << 10)
        self.start_kubelet()

    def start_kubelet(self):
        """Instead of the other; the agent is registered, whatever it has seen."""
        self.of = Kubelet(registry=False)
        self.addCleanup(lambda: self.of.kill())
        self.assertTrue(wait_for(self.listed, 60), self.by.log)
        self.assertEqual(self.by.stop(), 0, self.by.log)

    @suite.cases(ANSWERS)
    def the_agent_survives_in_pod_resources(self, data):
        self.start()
        self.assertTrue(wait_for(self.listed, 20), self.by.log)
        self.of.allocate(RESOURCE, IDS[:1])
        self.of.kill()
        os.unlink(f"{kubelet.DIR}/pod-resources/kubelet.sock")
        self.answer(f"{kubelet.DIR}/pod-resources/kubelet.sock", data)
        begun = time.monotonic()
        answer = self.by.claim("shop", "web-0")
        self.assertIn(answer["code"], (11, 999), answer)
        self.assertLess(time.monotonic() - begun, 15)
        self.assertTrue(self.by.is_alive())
        self.assertLess(self.by.memory(), 60 << 10)


if __name__ == "__main__":
    reason = kubelet.why_impossible() or agent.why_impossible()
    if reason:
        print(f"skip everything: {reason}\n0 passed, 0 failed, 1 skipped", flush=True)
        sys.exit(suite.SKIPPED)
    suite.main(per_processor=3)
