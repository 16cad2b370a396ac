#!/usr/bin/env python3
"""The daemon of dhcp and its socket: one daemon alone, calls that end in time, clients that do not hang up."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import dhcp, suite  # noqa: E402
from support.plugin import OURS, cni, finish, start  # noqa: E402
from support.world import wait_for  # noqa: E402


class Node(suite.NodeTest):
    def daemon(self, *flags, **options):
        daemon = dhcp.Daemon(*flags, **options)
        self.addCleanup(daemon.process.wait)
        self.addCleanup(lambda: daemon.process.kill())
        return daemon


@suite.spread
class One(Node):
    def other(self, *flags):
        """A second daemon's process."""
        process = subprocess.Popen([f"{OURS}/dhcp", "daemon", *flags], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def assert_refused(self, process, *texts):
        _, said = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 1, said)
        for text in texts:
            self.assertIn(text, said)

    def assert_serves(self, daemon, inode):
        self.assertEqual(os.stat(daemon.socket).st_ino, inode)
        self.assertEqual(daemon.leases(), {})
        self.assert_ok(cni("dhcp", "STATUS", dhcp.config()))

    @suite.cases([("the same flags", ((), "keep the leases in '/run/cni/dhcp'")),
                  ("another directory", (("-statedir", "/run/other"), "listen on '/run/cni/dhcp.sock'")),
                  ("another socket", (("-socketpath", "/run/other.sock"), "keep the leases in '/run/cni/dhcp'")),
                  ("a prefix", (("-hostprefix", "/run/.."), "keep the leases in '/run/../run/cni/dhcp'"))])
    def a_second_daemon_is_refused_and_names_the_first_with(self, row):
        flags, text = row
        daemon = self.daemon("-pidfile", "/run/dhcp.pid")
        inode = os.stat(dhcp.SOCKET).st_ino
        self.assert_refused(self.other("-pidfile", "/run/dhcp.pid", *flags), text + ": another daemon",
                            f"held by process {daemon.process.pid}")
        self.assert_serves(daemon, inode)
        with open("/run/dhcp.pid") as file:
            self.assertEqual(int(file.read()), daemon.process.pid)
        self.assertFalse(os.path.exists("/run/other.sock"))
        daemon.restart()  # a killed one holds nothing
        self.assertEqual(daemon.leases(), {})

    def test_of_daemons_that_find_a_stale_socket_at_once_one_serves(self):
        """Each with its own leases, so that the socket alone decides."""
        self.daemon().kill()
        for _ in range(5):
            others = [self.other("-statedir", f"/run/states{n}") for n in range(8)]
            self.assertTrue(wait_for(lambda others=others: sum(one.poll() is None for one in others) == 1, 30))
            [winner] = [one for one in others if one.poll() is None]
            self.assertTrue(wait_for(lambda: cni("dhcp", "STATUS", dhcp.config()).ok))
            for one in others:
                if one is not winner:
                    self.assert_refused(one, f"held by process {winner.pid}")
            winner.kill()
            winner.wait()

    @suite.cases([("answers", 5), ("accepts nothing", 0)])
    def a_daemon_that_takes_no_lock_is_left_alone_if_it(self, backlog):
        """As the reference plugins' one does."""
        os.makedirs("/run/cni")
        with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
            listener.bind(dhcp.SOCKET)
            listener.listen(backlog)
            first.connect(dhcp.SOCKET)
            inode = os.stat(dhcp.SOCKET).st_ino
            pid = f": process {os.getpid()}" if backlog else ""
            self.assert_refused(self.other(), f"listen on '/run/cni/dhcp.sock': another daemon serves this socket{pid}\n")
            self.assertEqual(os.stat(dhcp.SOCKET).st_ino, inode)


class Removed(Node):
    """Somebody removes the socket beneath the daemon, as by `rm -r /run/cni`."""

    def test_the_socket_is_made_again(self):
        daemon = self.daemon()
        os.unlink(dhcp.SOCKET)
        self.assertTrue(wait_for(lambda: daemon.leases(check=False) is not None, 10), daemon.log)
        shutil.rmtree("/run/cni")
        self.assertTrue(wait_for(lambda: daemon.leases(check=False) is not None, 10), daemon.log)
        self.assertEqual(os.stat(dhcp.SOCKET).st_mode & 0o777, 0o600)
        self.assert_ok(cni("dhcp", "STATUS", dhcp.config()))
        self.assertEqual(daemon.stop(), 0, daemon.log)
        self.assertFalse(os.path.exists(dhcp.SOCKET))

    def test_where_it_cannot_be_made_again_the_daemon_ends(self):
        daemon = self.daemon("-statedir", "/run/states")
        shutil.rmtree("/run/cni")
        with open("/run/cni", "w", encoding="ascii"):
            pass
        self.assertEqual(daemon.process.wait(10), 1, daemon.log)
        self.assertIn("'/run/cni/dhcp.sock' was removed", daemon.log)


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
    suite.main(per_processor=2)
