#!/usr/bin/env python3
"""The daemon of dhcp and its socket: calls that end in time, clients that do not hang up."""

import os
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import dhcp, suite  # noqa: E402
from support.plugin import OURS, finish, start  # noqa: E402
from support.world import wait_for  # noqa: E402


class Node(suite.NodeTest):
    def daemon(self, *flags, **options):
        daemon = dhcp.Daemon(*flags, **options)
        self.addCleanup(daemon.process.wait)
        self.addCleanup(lambda: daemon.process.kill())
        return daemon


class Stuck(Node):
    """A daemon that does not accept, does not answer, or whose clients do not hang up."""

    CONF = dhcp.config(ipam={"timeout": 1})

    def verbs(self):
        """(code, longest time, call) of all verbs at once."""
        more = {"CHECK": {"prevResult": {"cniVersion": "1.1.0", "ips": []}}, "GC": {"cni.dev/valid-attachments": []}}
        pod = self.pod()
        return [(code, limit, start("dhcp", verb, self.CONF | more.get(verb, {}), netns=pod.path, container=pod.name))
                for verb, code, limit in (("ADD", 11, 6), ("DEL", 11, 10), ("CHECK", 11, 10), ("GC", 11, 10),
                                          ("STATUS", 50, 5))]

    @staticmethod
    def feed(calls):
        for call in calls:
            call.stdin.write(call.config)
            call.stdin.close()
            call.stdin = None

    def assert_in_time(self, msg):
        begun = time.monotonic()
        verbs = sorted(self.verbs(), key=lambda one: one[1])
        self.feed([call for _, _, call in verbs])
        for code, limit, call in verbs:
            error = self.assert_error(finish(call), code, msg)
            self.assertLess(time.monotonic() - begun, limit + 5)
            self.assertIn("systemctl restart cni-dhcp.service", error["details"])

    def test_a_full_backlog_fails_each_verb_in_time(self):
        os.makedirs("/run/cni")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(dhcp.SOCKET)
            listener.listen(0)
            with socket.socket(socket.AF_UNIX) as first:
                first.connect(dhcp.SOCKET)
                self.assert_in_time("connect: resource temporarily unavailable the daemon does not accept connections")

    def test_a_daemon_that_is_stopped_fails_each_verb_in_time(self):
        daemon = self.daemon()
        daemon.process.send_signal(signal.SIGSTOP)
        self.assert_in_time("the daemon did not answer in time")
        daemon.process.send_signal(signal.SIGCONT)
        self.assertTrue(wait_for(lambda: daemon.leases(check=False) == {}), daemon.log)

    def test_calls_wait_for_a_full_backlog_to_empty(self):
        with open("/proc/sys/net/core/somaxconn", "w") as setting:
            setting.write("1")
        daemon = self.daemon()
        daemon.process.send_signal(signal.SIGSTOP)
        calls = [start("dhcp", "DEL", self.CONF, netns="/run/netns/none", container=f"c{n}") for n in range(20)]
        self.feed(calls)
        daemon.process.send_signal(signal.SIGCONT)
        for call in calls:
            self.assert_ok(finish(call))

    def test_a_client_that_does_not_hang_up_after_its_answer_is_hung_up_on(self):
        os.makedirs("/run/cni")
        with socket.socket(socket.AF_UNIX) as listener:  # to learn what a call is
            listener.bind("/run/cni/listener.sock")
            listener.listen()
            process = subprocess.Popen([f"{OURS}/dhcp", "leases", "-socketpath", "/run/cni/listener.sock"],
                                       stderr=subprocess.DEVNULL)
            peer, _ = listener.accept()
            with peer:
                hello = peer.recv(4096)
                peer.sendall(b"HTTP/1.0 200 Connected to Go RPC\n\n")
                call = peer.recv(4096)
            process.wait()
        self.daemon()
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(dhcp.SOCKET)
            client.sendall(hello + call)
            while part := client.recv(4096):
                answer = part
            self.assertIn(b"[]", answer)


if __name__ == "__main__":
    suite.main(daemons=True)
