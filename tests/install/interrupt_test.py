#!/usr/bin/env python3
"""Ctrl-C in the scripts that take minutes: no traceback, and no process that goes on."""

import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import installed, suite  # noqa: E402
from support.plugin import ROOT  # noqa: E402
from support.world import wait_for  # noqa: E402

#: In place of a build: as ninja, with a child, and one that detached itself (setsid).
BUILD = """#!/bin/bash
[ "$1" = --build ] || { touch "$FOLDER/configuring"; sleep 0.5; exit; }
touch "$FOLDER/building"
echo '[12/345] Building CXX object a.o'
[ -n "$BUILT" ] && exit
[ -z "$DETACHED" ] || setsid sleep 4711 &
sleep 4711
"""
#: In place of the tests.
CTEST = """#!/bin/bash
touch "$FOLDER/testing"
setsid sleep 4711 & sleep 4711
"""
MOMENTS = (0, 0.03, 0.06, 0.1, 0.15, 0.25, 0.5)  # seconds after the start; then when the build runs


def sleepers(folder):
    """The processes that the scripts of a folder started."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if f"FOLDER={folder}".encode() in file.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


@suite.spread
class Interrupt(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="interrupt-")
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(os.path.join(ROOT, "scripts"), f"{self.folder}/scripts")
        os.mkdir(f"{self.folder}/bin")
        installed.write(self.folder)
        for name, text in (("cmake", BUILD), ("ctest", CTEST), ("apt-cache", "#!/bin/sh\n"), ("apt-get", "#!/bin/sh\nexit 1\n")):
            with open(f"{self.folder}/bin/{name}", "w", encoding="ascii") as file:
                os.chmod(file.fileno(), 0o755)
                file.write(text)

    def start(self, *command, detached, built=False):
        """Runs a script on a terminal of its own."""
        env = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "FOLDER": self.folder, "DPKG_ADMINDIR": self.folder, "TERM": "xterm",
               "DETACHED": "1" if detached else "", "BUILT": "1" if built else ""}
        shutil.rmtree(f"{self.folder}/build", ignore_errors=True)
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execve(f"{self.folder}/scripts/{command[0]}", command, env)
        # Neither Python between fork and exec nor one that starts is the script.
        own = pathlib.Path("/proc/self/cmdline").read_bytes()
        wait_for(lambda: pathlib.Path(f"/proc/{self.pid}/cmdline").read_bytes() != own)
        if command[0] == "test":
            wait_for(lambda: os.path.isdir(f"{self.folder}/build/test"), 20)
        os.set_blocking(self.terminal, False)
        self.output = b""

    def read(self):
        """All that is on the terminal."""
        while True:
            try:
                more = os.read(self.terminal, 4096)
            except OSError:  # nothing now, or nothing more
                return self.output.decode(errors="replace")
            self.output += more

    def interrupted(self, key):
        if key:
            os.write(self.terminal, b"\x03")
        else:
            os.kill(self.pid, signal.SIGTERM)
        ended = lambda: self.read() and False or os.waitpid(self.pid, os.WNOHANG)[0]
        self.assertTrue(wait_for(ended, 20), f"goes on: {self.read()}")
        os.close(self.terminal)
        self.assertTrue(wait_for(lambda: not sleepers(self.folder), 2), "processes go on")
        self.assertNotIn("Traceback", self.read())

    @suite.cases([(script, script) for script in ("test --quick", "quickstart")])
    def ends_all_at_any_moment(self, script):
        for moment in MOMENTS:
            self.start(*script.split(), detached=False)
            time.sleep(moment)
            self.interrupted(key=True)
        self.start(*script.split(), detached=False)
        self.assertTrue(wait_for(lambda: "12/345" in self.read(), 20), self.read())
        self.interrupted(key=True)

    @suite.cases([("Ctrl-C", True), ("SIGTERM to scripts/test alone", False)])
    def ends_what_detached_itself_by(self, key):
        self.start("test", "--quick", detached=True)
        self.assertTrue(wait_for(lambda: "12/345" in self.read(), 20), self.read())
        self.interrupted(key)

    @suite.cases([("Ctrl-C", True), ("SIGTERM to scripts/test alone", False)])
    def starts_nothing_after(self, key):
        self.start("test", "--quick", detached=False)
        self.assertTrue(wait_for(lambda: os.path.exists(f"{self.folder}/configuring"), 20), self.read())
        self.interrupted(key)
        time.sleep(1)
        self.assertEqual(sleepers(self.folder), [])
        self.assertFalse(os.path.exists(f"{self.folder}/building"))

    @suite.cases([("Ctrl-C", True), ("SIGTERM to scripts/test alone", False)])
    def ends_the_tests_by(self, key):
        self.start("test", "--quick", detached=False, built=True)
        self.assertTrue(wait_for(lambda: os.path.exists(f"{self.folder}/testing"), 20), self.read())
        self.interrupted(key)

    def test_its_exit_status_is_130_without_a_terminal(self):
        env = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "FOLDER": self.folder, "DPKG_ADMINDIR": self.folder}
        piped = subprocess.Popen([f"{self.folder}/scripts/test", "--quick"], env=env, stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.STDOUT)
        wait_for(lambda: os.path.exists(f"{self.folder}/building"), 20)
        piped.send_signal(signal.SIGINT)
        output = piped.communicate(timeout=20)[0]
        self.assertEqual(piped.returncode, 130)
        self.assertRegex(output, r"== packages: passed after \d+ s\n(.*\n)*interrupted\n$")


if __name__ == "__main__":
    suite.main(needs=("bash", "setsid"), needs_plugins=False)
