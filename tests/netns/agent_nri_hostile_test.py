#!/usr/bin/env python3
"""Whoever listens at the runtime's socket may be hostile: no crash, no hang, no memory or descriptor that stays, and the next
runtime is served. And the simulated runtime has the limits of the real one."""

import contextlib
import os
import random
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, suite  # noqa: E402
from support.nri_node import IDS, SOCKET, NriNode  # noqa: E402
from support.nri_runtime import (CutOff, MOST, PLUGIN_SERVICE, REQUEST, RESPONSE, RUNTIME_SERVICE, Plugin, Runtime, Sandbox,  # noqa: E402
                                 field, frame, message, ttrpc)
from support.rows import sampled  # noqa: E402
from support.world import wait_for  # noqa: E402


def call(stream, method, payload=b""):
    return ttrpc(stream, REQUEST, field(1, "nri.pkg.api.v1alpha1.Plugin") + field(2, method) + field(3, payload))


def described(number):
    """A sandbox whose texts are longer than any of Kubernetes."""
    return message(1, field(1, f"{number:06}" + "x" * 600) + b"".join(field(key, "x" * 600) for key in (2, 3, 4)) + b"".join(
        field(10, "1" * 600) for _ in range(16)) + message(8, message(5, field(1, "network") + field(2, "x" * 600))))


REGISTERED = frame(RUNTIME_SERVICE, ttrpc(1, RESPONSE, b"")) + frame(PLUGIN_SERVICE, call(1, "Configure")) + frame(
    PLUGIN_SERVICE, call(3, "Synchronize"))
NOISE = random.Random(57).randbytes(300_000)
#: (name, what is sent, whether the agent has to close the connection)
ATTACKS = [
    ("bytes that are no frames", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 1000, True),
    ("random bytes", NOISE, True),
    ("a frame of 4 GiB", struct.pack(">II", PLUGIN_SERVICE, 0xffffffff), True),
    ("a message of 4 GiB", frame(PLUGIN_SERVICE, ttrpc(1, REQUEST, b"x", 0xffffffff)), True),
    ("a message of an unknown type", frame(PLUGIN_SERVICE, ttrpc(1, 9, b"x")), True),
    ("an answer in place of a call", frame(PLUGIN_SERVICE, ttrpc(1, RESPONSE, b"x")), True),
    ("a call with stream 0", frame(PLUGIN_SERVICE, call(0, "Shutdown")), True),
    ("an answer to the registration that is no message", frame(RUNTIME_SERVICE, ttrpc(1, RESPONSE, b"\xff" * 50)), True),
    ("a refusal of control sequences", frame(RUNTIME_SERVICE, ttrpc(1, RESPONSE, message(1, field(1, 2) + field(2, "\x1b[2J\n")))), True),
    ("a hundred thousand empty frames", REGISTERED + frame(PLUGIN_SERVICE, b"") * 100_000, False),
    ("frames of unknown connections", REGISTERED + b"".join(frame(n, b"x" * 100) for n in range(3, 20_000)), False),
    ("random payloads in calls", REGISTERED + b"".join(
        frame(PLUGIN_SERVICE, call(2 * n + 5, method, NOISE[n * 100:n * 100 + 100])) for n in range(1000)
        for method in ("RunPodSandbox", "StateChange", "Synchronize", "Configure", "CreateContainer")), False),
    ("a list without an end", REGISTERED + frame(PLUGIN_SERVICE, call(5, "Synchronize", b"".join(
        message(1, field(1, f"{n}")) for n in range(4_000)) + field(3, 1))) * 40, False),
    ("a list as long as it may be", frame(RUNTIME_SERVICE, ttrpc(1, RESPONSE, b"")) + b"".join(
        frame(PLUGIN_SERVICE, call(2 * n + 3, "Synchronize", b"".join(map(described, range(n * 250, n * 250 + 250))) + field(3, int(n < 19))))
        for n in range(20)), False),
    ("a text of 4 MB", REGISTERED + frame(PLUGIN_SERVICE, call(5, "RunPodSandbox", message(1, field(1, "x" * (MOST - 1000))))), False),
    ("messages within messages", REGISTERED + frame(PLUGIN_SERVICE, call(5, "RunPodSandbox", b"\x0b" * 100_000)), False),
]


@contextlib.contextmanager
def listening():
    """A socket at which the agent finds a runtime."""
    os.makedirs(os.path.dirname(SOCKET), exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(SOCKET)
        listener.listen()
        listener.settimeout(10)
        yield listener


@suite.spread
class Hostile(NriNode):
    def attack(self, data, reads=True):
        """Sends data to the agent, once it is connected; returns whether the agent closes the connection."""
        with listening() as listener:
            peer, _ = listener.accept()
            os.unlink(SOCKET)
        peer.settimeout(0.3)
        closed = threading.Event()

        def read():
            try:
                while True:
                    if not peer.recv(65536):
                        return closed.set()
            except TimeoutError:
                return read() if not done.is_set() else None
            except OSError:
                return closed.set()
        done = threading.Event()
        reader = threading.Thread(target=read, daemon=True)
        if reads:
            reader.start()
        try:
            peer.settimeout(5)
            peer.sendall(data)
        except OSError:
            closed.set()
        out = closed.wait(1)
        done.set()
        with contextlib.suppress(OSError):
            peer.shutdown(socket.SHUT_RDWR)
        peer.close()
        return out

    def assert_serves(self):
        """The next runtime is served."""
        of = self.runtime()
        self.assertEqual(of.run(Sandbox("web")), b"", self.by.log)
        of.stop()

    @suite.cases([(name, row) for name, *row in ATTACKS])
    def the_agent_survives(self, row):
        data, ends = row
        self.agent()
        before = self.by.descriptors()
        self.assertEqual(self.attack(data), ends, self.by.log)
        self.assert_serves()
        self.assertTrue(wait_for(lambda: self.by.descriptors() <= before, 5))
        self.assertTrue(all(byte == 10 or 32 <= byte for byte in self.by.log.encode()))
        self.assertTrue(wait_for(lambda: self.by.memory() < 16 << 10, 5), self.by.memory())
        self.assertLess(self.by.most_memory(), 64 << 10)  # the limit in conf-examples/kubernetes
        self.assertTrue(self.by.lines())

    def test_a_peer_that_asks_and_does_not_read_is_left_alone(self):
        self.agent()
        self.attack(REGISTERED + frame(PLUGIN_SERVICE, call(5, "Shutdown")) * 60_000, reads=False)
        self.assert_serves()
        self.assertLess(self.by.memory(), 25 << 10)

    def test_a_peer_that_says_nothing_costs_nothing(self):
        self.agent()
        with socket.socket(socket.AF_UNIX) as listener:
            os.makedirs(os.path.dirname(SOCKET), exist_ok=True)
            listener.bind(SOCKET)
            listener.listen()
            peer, _ = listener.accept()
            begun = self.by.processor_seconds()
            time.sleep(3)
            self.assertLess(self.by.processor_seconds() - begun, 0.05)
            self.assertIsNotNone(self.by.status())
            peer.close()
        os.unlink(SOCKET)
        self.assert_serves()

    def test_a_message_that_stops_in_the_middle_is_waited_for_10_s(self):
        self.agent()
        of = self.runtime()
        plugin = of.plugin()
        plugin.socket.sendall(frame(PLUGIN_SERVICE, call(5, "RunPodSandbox"))[:20])
        begun = time.monotonic()
        self.assertTrue(plugin.ended.wait(15), self.by.log)
        self.assertGreater(time.monotonic() - begun, 8)
        self.assertTrue(wait_for(lambda: of.plugins[-1] is not plugin, 5), "it registers again")

    def test_a_busy_runtime_of_whose_next_call_a_part_has_always_come_is_not_cut_off(self):
        self.agent()
        plugin = self.runtime().plugin()
        whole = frame(PLUGIN_SERVICE, call(5, "RunPodSandbox", message(1, Sandbox("web").encoded())))
        plugin.socket.sendall(whole[:20])
        begun = time.monotonic()
        while time.monotonic() - begun < 11:
            plugin.socket.sendall(whole[20:] + whole[:20])
            self.assertIs(plugin.ended.wait(0.5), False, self.by.log)

    def test_a_connection_that_ends_at_any_byte_leaves_nothing(self):
        self.agent()
        before = self.by.descriptors()
        data = REGISTERED + frame(PLUGIN_SERVICE, call(5, "RunPodSandbox", message(1, Sandbox("web").encoded())))
        for cut in sampled(range(len(data))):
            with listening() as listener:
                peer, _ = listener.accept()
                os.unlink(SOCKET)
                peer.sendall(data[:cut])
                peer.close()
        self.assert_serves()
        self.assertTrue(wait_for(lambda: self.by.descriptors() <= before + 1, 5), (before, self.by.descriptors()))
        self.assertLess(self.by.memory(), 16 << 10)

    def test_a_runtime_that_listens_a_moment_after_it_made_its_socket_does_not_wait_for_failures_of_the_former(self):
        self.agent()
        with listening() as listener:
            for _ in range(5):  # the next pause is 3.2 s
                listener.accept()[0].close()
            os.unlink(SOCKET)
        refused = self.by.log.count("connection refused")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(SOCKET)
            self.assertTrue(wait_for(lambda: self.by.log.count("connection refused") > refused, 5), self.by.log)
            listener.listen()
            listener.settimeout(2)
            listener.accept()[0].close()
            os.unlink(SOCKET)
        self.assert_serves()

    def test_a_socket_of_another_user_is_not_spoken_with(self):
        self.agent()
        os.makedirs(os.path.dirname(SOCKET), exist_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(SOCKET)
            os.seteuid(65534)
            try:
                listener.listen()  # which takes the credentials of SO_PEERCRED
            finally:
                os.seteuid(0)
            listener.settimeout(5)
            peer, _ = listener.accept()
            peer.settimeout(5)
            self.assertEqual(peer.recv(100), b"")
            peer.close()
        self.assertTrue(wait_for(lambda: "operation not permitted" in self.by.log, 5), self.by.log)


RUN, STOP, REMOVE = "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"
ORDERS = [(" ".join(one.replace("PodSandbox", "") for one in order) or "nothing", order) for order in (
    (STOP, RUN), (STOP,), (REMOVE,), (REMOVE, RUN), (RUN, REMOVE), (RUN, STOP, STOP, REMOVE), (RUN, STOP, REMOVE, STOP, REMOVE), (RUN, RUN))]


@suite.spread
class Odd(NriNode):
    """Lives of sandboxes as no runtime should tell them: the kubelet alone says whose a device is."""

    def setUp(self):
        super().setUp()
        self.runtime_of = self.runtime(version=(0, 11))
        self.agent()
        self.web = Sandbox("web")
        self.admit(self.web, IDS[0])

    def assert_kept(self, uid="web-uid"):
        self.assertEqual({one: entry["pod"]["uid"] for one, entry in agent.ledger().items()}, {IDS[0]: uid})
        self.assertEqual(self.by.claim("default", "web", uid), [IDS[0]])

    @suite.cases(ORDERS)
    def a_device_stays_its_pods_after(self, order):
        for method in order:
            self.assertEqual(self.runtime_of.plugin().happen(method, self.web), b"")
        self.assert_kept()
        self.runtime_of.stop()  # which forgets all, and starts anew
        self.runtime_of.sandboxes.clear()
        self.runtime_of.start()
        self.runtime_of.plugin()
        self.by.kill()
        self.by.start()
        self.runtime_of.plugin()
        self.assert_kept()

    def test_the_end_of_an_earlier_sandbox_of_the_same_pod_ends_nothing_of_the_next(self):
        first, second = self.web, Sandbox("web", id="second")
        for method, sandbox in ((RUN, first), (STOP, first), (RUN, second), (STOP, first), (REMOVE, first)):
            self.runtime_of.plugin().happen(method, sandbox)
        self.assert_kept()

    def test_a_pod_of_the_same_name_gets_nothing_of_the_earlier_one_by_its_sandbox(self):
        second = Sandbox("web", id="second")
        second.uid = "another"
        for method, sandbox in ((RUN, self.web), (RUN, second), (STOP, self.web), (REMOVE, self.web)):
            self.runtime_of.plugin().happen(method, sandbox)
        self.assertIn("still belongs to default/web", self.by.claim("default", "web", "another")["msg"])
        self.assert_kept()

    def test_a_flood_of_ends_is_a_few_looks_and_lines(self):
        self.quiet()
        self.of.ask("rules")
        begun = time.monotonic()
        for _ in range(1500):
            self.runtime_of.plugin().happen(STOP, self.web)
        lasted = time.monotonic() - begun
        self.assertIsNotNone(self.by.status())
        said = sum("sandbox ended" in line["what"] for line in self.by.lines())
        self.assertLess(said, 10 * lasted + 5)
        self.assertLess(self.of.ask("rules")["List"], 10 * lasted + 5)
        self.assertLess(self.by.memory(), 16 << 10)
        self.assert_kept()

    def test_a_second_runtime_at_the_socket_is_seen_when_the_first_has_ended(self):
        other = self.runtime(version=(0, 12), itself=("cri-o", "1.36.0"))
        self.assertEqual(self.runtime_of.plugin().happen(RUN, self.web), b"")
        self.assertEqual((other.plugins, other.failures), ([], []))
        self.runtime_of.stop(unlink=False)
        self.assertEqual(other.plugin().happen(STOP, self.web), b"")
        self.assert_kept()


class Limits(suite.NodeTest):
    """Of the simulated runtime."""

    def setUp(self):
        super().setUp()
        self.runtime = Runtime(path="")

    def violation(self, sent):
        """Why the runtime ends the connection of a plugin that sends this."""
        ours, theirs = socket.socketpair()
        plugin = Plugin(self.runtime, ours)
        with contextlib.suppress(OSError):
            theirs.sendall(sent)
        with contextlib.suppress(CutOff):
            plugin.receive(RUNTIME_SERVICE, time.monotonic() + 1)
        theirs.close()
        return plugin.violation

    def test_a_message_of_9_kB_in_one_frame_ends_the_connection_and_in_two_does_not(self):
        whole = ttrpc(1, REQUEST, b"x" * 9000)
        self.assertIn("a frame of 9010 bytes for a buffer of 4096", self.violation(frame(RUNTIME_SERVICE, whole)))
        self.assertEqual(self.violation(frame(RUNTIME_SERVICE, whole[:4096]) + frame(RUNTIME_SERVICE, whole[4096:])), "")

    def test_257_unread_frames_end_the_connection(self):
        self.assertEqual(self.violation(frame(PLUGIN_SERVICE, b"x") * 257), "256 frames are unread")
        self.assertEqual(self.violation(frame(PLUGIN_SERVICE, b"x") * 256), "")

    def test_an_empty_frame_and_two_messages_in_a_frame_end_the_connection(self):
        self.assertEqual(self.violation(frame(RUNTIME_SERVICE, b"")), "a frame of 0 bytes")
        two = ttrpc(1, REQUEST, b"x") + ttrpc(3, REQUEST, b"x")
        self.assertEqual(self.violation(frame(RUNTIME_SERVICE, two)), "parts of two messages in a frame")

    def test_an_unknown_bit_of_the_mask_ends_the_registration_and_0_is_everything(self):
        register = ttrpc(1, REQUEST, field(1, "nri.pkg.api.v1alpha1.Runtime") + field(2, "RegisterPlugin")
                         + field(3, field(1, "x") + field(2, "10")))
        for version, mask, known in (((0, 9), 0x3800, None), ((0, 10), 0x4000, None), ((0, 9), 0, 0x7ff), ((0, 12), 0, 0x3fff)):
            with self.subTest(version=version, mask=mask):
                self.runtime.version = version
                ours, theirs = socket.socketpair()
                theirs.sendall(frame(RUNTIME_SERVICE, register)
                               + frame(PLUGIN_SERVICE, ttrpc(1, RESPONSE, field(2, field(2, mask))))
                               + frame(PLUGIN_SERVICE, ttrpc(3, RESPONSE, b"")))
                before = len(self.runtime.plugins)
                self.runtime.admit(ours)
                theirs.close()
                if known is None:
                    self.assertIn("invalid plugin events", str(self.runtime.failures[-1]))
                else:
                    self.assertEqual(self.runtime.plugins[before].mask, known)


if __name__ == "__main__":
    suite.main(per_processor=4)
