#!/usr/bin/env python3
"""dhcp daemon as systemd runs it: with a socket that is passed, sd_notify(3), and no more rights than the
unit gives. The test plays systemd.
"""

import configparser
import os
import re
import shutil
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import dhcp, suite  # noqa: E402
from support.plugin import OURS, ROOT, cni, start, finish  # noqa: E402
from support.world import World, run, wait_for  # noqa: E402

UNITS = os.path.join(ROOT, "plugins/dhcp/systemd")
NOTIFY = "/run/notify"
#: What runs as the child that has got the descriptors: LISTEN_PID is its own.
PASS = ("import os, sys\nfor number, fd in enumerate(map(int, sys.argv[1].split(','))):\n    os.dup2(fd, 3 + number)\n"
        "os.environ['LISTEN_PID'] = str(os.getpid() + int(sys.argv[2]))\nos.execvp(sys.argv[3], sys.argv[3:])\n")


def unit(name):
    """The sections of a unit; a key that stands twice has its last value."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(f"{UNITS}/{name}")
    return parser


class Systemd(suite.NodeTest):
    def setUp(self):
        super().setUp()
        dhcp.segment()
        os.makedirs("/run/cni")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(unit("cni-dhcp.socket")["Socket"]["ListenStream"])
        os.chmod(dhcp.SOCKET, int(unit("cni-dhcp.socket")["Socket"]["SocketMode"], 8))
        self.listener.listen()
        self.addCleanup(self.listener.close)
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.bind(NOTIFY)
        self.notified.settimeout(20)
        self.addCleanup(self.notified.close)

    def service(self, *flags, descriptors=None, notify=NOTIFY, pid_offset=0, wrap=()):
        """The daemon, as the service's process."""
        passed = descriptors or [self.listener]
        numbers = [one.fileno() for one in passed]
        environment = os.environ | {"LISTEN_FDS": str(len(passed)), "LISTEN_FDNAMES": "x", "NOTIFY_SOCKET": notify}
        process = subprocess.Popen([sys.executable, "-c", PASS, ",".join(map(str, numbers)), str(pid_offset), *wrap,
                                    f"{OURS}/dhcp", "daemon", *flags], env=environment, pass_fds=numbers,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True, start_new_session=True)
        self.addCleanup(process.communicate)
        self.addCleanup(self.kill, process)
        return process

    @staticmethod
    def kill(process):
        """With what it runs by strace."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    def assert_ready(self):
        self.assertEqual(self.notified.recv(100), b"READY=1")

    def leases(self):
        return run(f"{OURS}/dhcp", "leases")

    def end(self, process):
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.notified.recv(100), b"STOPPING=1")
        self.assertEqual(process.wait(timeout=20), 0)

    def test_the_daemon_serves_the_socket_it_is_given_and_says_when_it_is_ready(self):
        server = dhcp.dnsmasq()
        self.addCleanup(server.stop)
        # As the first call that starts the service: it came before the daemon did.
        first = start("dhcp", "STATUS", dhcp.config())
        process = self.service()
        self.assert_ready()
        self.assert_ok(finish(first))
        pod = self.pod()
        result = self.assert_ok(dhcp.attach("ADD", pod, dhcp.config()))
        self.assertIn("pod1", self.leases())
        inode = os.stat(dhcp.SOCKET).st_ino
        self.end(process)
        self.assertEqual(os.stat(dhcp.SOCKET).st_ino, inode, "the socket is systemd's")
        # A call between two daemons waits, as in a restart of the service.
        waiting = start("dhcp", "CHECK", dhcp.config(prevResult=result), netns=pod.path, container="pod1")
        waiting.stdin.write(waiting.config)
        waiting.stdin.close()
        waiting.stdin = None
        process = self.service()
        self.assert_ready()
        self.assert_ok(finish(waiting))
        self.assert_ok(dhcp.attach("DEL", pod, dhcp.config(prevResult=result)))
        self.assertTrue(dhcp.released())
        self.end(process)

    def test_a_passed_socket_counts_whatever_the_flag_says(self):
        process = self.service("-socketpath", "/run/other.sock")
        self.assert_ready()
        self.assertIn("CONTAINER", self.leases())
        self.assertFalse(os.path.exists("/run/other.sock"))
        open("/run/other.sock", "w").close()
        self.end(process)
        self.assertTrue(os.path.exists("/run/other.sock"), "a file that the daemon did not make")

    def test_a_killed_daemon_leaves_the_socket_to_the_next_one(self):
        for _ in range(3):
            process = self.service()
            self.assert_ready()
            self.assertIn("CONTAINER", self.leases())
            process.kill()
            process.wait()

    def test_a_passed_socket_whose_file_was_removed_is_made_again(self):
        for _ in range(2):  # systemd goes on to pass the one that nobody reaches
            process = self.service("-socketpath", "/run/other.sock")
            self.assert_ready()
            if os.path.exists("/run/cni/dhcp.sock"):
                shutil.rmtree("/run/cni")
            self.assertTrue(wait_for(lambda: cni("dhcp", "STATUS", dhcp.config()).ok, 10))
            self.end(process)
            self.assertFalse(os.path.exists("/run/cni/dhcp.sock"))

    def test_what_is_no_socket_to_listen_on_ends_the_daemon_with_a_reason(self):
        other = socket.socket(socket.AF_UNIX)
        self.addCleanup(other.close)
        with open("/dev/null") as null:
            for descriptors, text in (
                    ([self.listener, other], "Too many (2) FDs passed through socket activation"),
                    ([other], "LISTEN_FDS=1 but no FD found"), ([null], "LISTEN_FDS=1 but no FD found")):
                process = self.service(descriptors=descriptors)
                self.assertEqual(process.wait(timeout=20), 1)
                self.assertIn(text, process.stderr.read())

    def test_descriptors_for_another_process_are_left_alone(self):
        process = self.service("-socketpath", "/run/own.sock", pid_offset=1)
        self.assert_ready()
        self.assertIn("CONTAINER", run(f"{OURS}/dhcp", "leases", "-socketpath", "/run/own.sock"))
        self.end(process)
        self.assertFalse(os.path.exists("/run/own.sock"))

    def test_a_notification_that_fails_is_logged_and_an_abstract_socket_works(self):
        process = self.service(notify="/run/nobody")
        self.assertTrue(wait_for(self.leases))
        process.kill()
        self.assertIn("notify '/run/nobody'", process.stderr.read())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as abstract:
            abstract.bind("\0patchbay-dhcp-test")
            abstract.settimeout(20)
            self.service(notify="@patchbay-dhcp-test")
            self.assertEqual(abstract.recv(100), b"READY=1")

    def test_the_unit_gives_all_rights_that_the_daemon_needs(self):
        """Capabilities and NoNewPrivileges as setpriv plays them; of address families what strace has seen."""
        service = unit("cni-dhcp.service")["Service"]
        names = service["CapabilityBoundingSet"].lower().replace("cap_", "+").split()
        self.assertEqual(service["NoNewPrivileges"], "true")
        server = dhcp.dnsmasq()
        self.addCleanup(server.stop)
        process = self.service("-timeout", "1s", wrap=(
            "strace", "-D", "-f", "-o", "/run/trace", "-e", "trace=socket", "setpriv",
            "--bounding-set", ",".join(["-all", *names]), "--inh-caps", ",".join(["-all", *names]), "--no-new-privs"))
        self.assert_ready()
        pod, late = self.pod(), self.pod()
        conf = dhcp.config(ipam={"probe": True})
        result = self.assert_ok(dhcp.attach("ADD", pod, conf))
        self.assert_ok(dhcp.attach("ADD", late, conf))
        with late.inside():
            holder = subprocess.Popen(["sleep", "600"])
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        dhcp.veth(late, "more", "eth1")
        # By the path that some runtimes give, for which the kernel asks for SYS_PTRACE.
        self.assert_ok(cni("dhcp", "ADD", dhcp.config(), netns=f"/proc/{holder.pid}/ns/net", container="c",
                           ifname="eth1"))
        self.assert_ok(dhcp.attach("CHECK", pod, conf | {"prevResult": result}))
        self.assert_ok(dhcp.attach("DEL", pod, conf | {"prevResult": result}))
        self.assertTrue(dhcp.released(2))
        with open("/run/trace") as trace:
            used = set(re.findall(r"socket\((AF_\w+)", trace.read()))
        self.assertIn("AF_PACKET", used)
        self.assertLessEqual(used, set(service["RestrictAddressFamilies"].split()))

    def test_systemd_finds_nothing_to_say_about_the_units(self):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("there is no systemd-analyze")
        World.private("/opt/cni/bin")
        os.symlink(f"{OURS}/dhcp", "/opt/cni/bin/dhcp")
        for name in ("cni-dhcp.service", "cni-dhcp.socket"):
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", f"{UNITS}/{name}"],
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


if __name__ == "__main__":
    suite.main(needs=("dnsmasq", "setpriv", "strace"))
