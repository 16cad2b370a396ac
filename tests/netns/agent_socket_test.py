#!/usr/bin/env python3
"""The socket of patchbay-agent under clients that are slow, many, loud or wrong: others are served, nothing is kept."""

import json
import os
import shutil
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, kubelet, suite  # noqa: E402
from support.agent import SOCKET, Agent, slots  # noqa: E402
from support.kubelet import Kubelet  # noqa: E402
from support.world import run, set_up, wait_for  # noqa: E402

STATUS = b'{"version":1,"do":"status"}\n'
CLAIM = {"version": 1, "do": "claim", "pod": {"namespace": "shop", "name": "web-0", "uid": "u"}, "containerID": "c1",
         "network": "net"}
REFUSED = [
    ("no JSON", b"hello\n"), ("an empty line", b"\n"), ("a list", b"[]\n"), ("null", b"null\n"), ("zero bytes", b"\0\0\0\n"),
    ("another verb", b'{"do":"reboot"}\n'), ("a verb that is a number", b'{"do":1}\n'),
    ("a claim without a pod", b'{"do":"claim"}\n'),
    ("a pod without a UID", json.dumps(CLAIM | {"pod": {"namespace": "a", "name": "b", "uid": ""}}).encode() + b"\n"),
    ("a name of 60 kB", json.dumps(CLAIM | {"network": "n" * 60_000}).encode() + b"\n"),
    ("a deep list", b'{"do":' + b"[" * 60_000 + b"\n"), ("a deep object", b'{"a":' * 9_000 + b"\n"),
    ("a line of 1 MB", b'{"do":"' + b"x" * 1_000_000 + b"\n"), ("a line without an end", b"x" * 1_000_000),
    ("bytes that are not UTF-8", b'{"do":"\xff\xfe"}\n'), ("a number that is too large", b'{"version":1e999,"do":"status"}\n'),
]


def client(path=SOCKET, timeout=10):
    out = socket.socket(socket.AF_UNIX)
    out.settimeout(timeout)
    out.connect(path)
    return out


def answer_of(one):
    """All that comes until the end, as JSON; None without a line."""
    text = b""
    try:
        while piece := one.recv(65536):
            text += piece
    except ConnectionResetError:
        pass
    return json.loads(text) if text else None


@suite.spread
class Hostile(suite.NodeTest):
    def setUp(self):
        super().setUp()
        if reason := agent.why_impossible() or kubelet.why_impossible():
            self.skipTest(reason)
        run("ip", "link", "add", "uplink", "type", "veth", "peer", "name", "uplink-out")
        set_up("uplink")
        self.of = Kubelet()
        self.addCleanup(lambda: self.of.kill())
        self.by = Agent(slots(4))
        self.addCleanup(self.by.process.wait)
        self.addCleanup(lambda: self.by.process.kill())
        self.assertTrue(wait_for(lambda: self.by.status() is not None, 20))
        time.sleep(0.5)  # what it opens for the kubelet
        self.before = self.by.descriptors()

    def assert_well(self, seconds=2):
        """It answers within the time, and has no more descriptors than before."""
        begin = time.monotonic()
        self.assertIsNotNone(self.by.status())
        self.assertLess(time.monotonic() - begin, seconds)
        self.assertTrue(wait_for(lambda: self.by.descriptors() <= self.before + 2, 10), self.by.descriptors())
        self.assertTrue(self.by.is_alive())

    @suite.cases(REFUSED)
    def refuses(self, text):
        with client() as one:
            try:
                one.sendall(text)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has heard enough
            answer = answer_of(one)
        self.assertEqual(answer["error"]["code"], 6, answer)
        self.assert_well()

    def test_a_later_version_is_named(self):
        with client() as one:
            one.sendall(b'{"version":2,"do":"status"}\n')
            self.assertEqual(answer_of(one)["error"]["code"], 1)

    def test_a_question_that_comes_byte_by_byte_is_answered(self):
        with client() as one:
            for byte in STATUS:
                one.sendall(bytes([byte]))
                time.sleep(0.005)
            self.assertIn("resources", answer_of(one))

    def test_a_client_that_says_nothing_is_closed_after_5_s(self):
        with client() as one:
            begin = time.monotonic()
            self.assertIsNone(answer_of(one))
            self.assertTrue(4 < time.monotonic() - begin < 8)
        self.assert_well()

    def test_64_silent_clients_hold_up_others_for_5_s_at_most(self):
        silent = [client() for _ in range(64)]
        self.assert_well_after(silent, 8)

    def assert_well_after(self, clients, seconds):
        begin = time.monotonic()
        self.assertIsNotNone(self.by.status())
        self.assertLess(time.monotonic() - begin, seconds)
        for one in clients:
            one.close()
        self.assert_well()

    def test_a_flood_of_clients_that_leave_at_once(self):
        for number in range(2000):
            with client() as one:
                if number % 2:
                    one.sendall(STATUS[:number % len(STATUS)])
        self.assert_well()

    def test_clients_that_do_not_read_their_answer(self):
        many = [client() for _ in range(50)]
        for one in many:
            one.sendall(STATUS * 100)
        self.assert_well_after(many, 8)

    def test_another_user_is_not_answered(self):
        os.chmod(SOCKET, 0o666)
        child = os.fork()
        if child == 0:
            os.setresuid(65534, 65534, 65534)
            try:
                with client() as one:
                    one.sendall(STATUS)
                    os._exit(1 if answer_of(one) else 0)
            except OSError:
                os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assert_well()

    def test_the_socket_is_root_s_alone(self):
        self.assertEqual(os.stat(SOCKET).st_mode & 0o777, 0o600)

    def test_a_second_instance_takes_the_socket_over_and_the_first_leaves_it(self):
        before = os.stat(SOCKET).st_ino
        second = Agent(slots(4), folder="/run/second")  # the first may be the one that answers it
        self.addCleanup(second.process.wait)
        self.addCleanup(second.process.kill)
        self.assertTrue(wait_for(lambda: os.path.exists(SOCKET) and os.stat(SOCKET).st_ino != before, 20), second.log)
        self.by.stop()
        self.assertTrue(os.path.exists(SOCKET))
        self.assertIsNotNone(second.status())
        second.stop()
        self.assertFalse(os.path.exists(SOCKET))

    def test_a_socket_that_somebody_removes_is_made_again(self):
        shutil.rmtree(os.path.dirname(SOCKET))
        self.assertTrue(wait_for(lambda: self.by.status() is not None, 10), self.by.log)
        self.assertEqual(os.stat(SOCKET).st_mode & 0o777, 0o600)
        self.assertTrue(any("was removed: listen on it again" in line["what"] for line in self.by.lines()))
        self.by.stop()
        self.assertFalse(os.path.exists(SOCKET))

    def test_where_it_cannot_be_made_again_the_agent_ends(self):
        """As in a container, whose mount is that of the folder that was removed."""
        shutil.rmtree(os.path.dirname(SOCKET))
        with open(os.path.dirname(SOCKET), "w", encoding="ascii"):
            pass
        self.assertEqual(self.by.process.wait(10), 1)
        self.assertIn("nobody reaches the socket", self.by.log)


if __name__ == "__main__":
    suite.main(per_processor=2)
