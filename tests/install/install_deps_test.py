#!/usr/bin/env python3
"""scripts/install-deps names the missing packages and installs them by one call; where none is missing, it makes no call to
the package manager."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import installed, suite  # noqa: E402
from support.plugin import ROOT  # noqa: E402

#: In place of each: writes what it was called with.
FAKE = """#!/bin/sh
echo "${0##*/} $*" >>"$CALLS"
"""


class InstallDeps(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="install-deps-")
        self.calls = f"{self.folder}/calls"
        os.makedirs(f"{self.folder}/bin")
        for name in ("apt-get", "apt-cache", "apt", "dpkg", "dpkg-query"):
            with open(f"{self.folder}/bin/{name}", "w", encoding="ascii") as file:
                os.chmod(file.fileno(), 0o755)
                file.write(FAKE)

    def run_with(self, *arguments, without=()):
        """The output, and the calls of the package manager."""
        installed.write(self.folder, without)
        env = os.environ | {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "CALLS": self.calls,
                            "DPKG_ADMINDIR": self.folder}
        open(self.calls, "w", encoding="ascii").close()
        done = subprocess.run([f"{ROOT}/scripts/install-deps", *arguments], env=env, capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(self.calls, encoding="ascii") as file:
            return done.stdout, file.read().splitlines()

    def test_nothing_is_called_where_all_is_installed(self):
        for what in ("build", "bpf", "unit"):
            self.assertEqual(self.run_with(what), ("", []))

    def test_what_is_missing_is_named_and_installed_at_once(self):
        said, calls = self.run_with("unit", without=("clang", "doctest-dev", "strace"))
        self.assertEqual(said, "installing clang doctest-dev\n")
        self.assertEqual(calls, ["apt-get install -y -q --no-install-recommends clang doctest-dev"])

    def test_without_a_list_of_packages_it_says_what_is_needed(self):
        done = subprocess.run([f"{ROOT}/scripts/install-deps", "build"], capture_output=True, text=True, check=False,
                              env=os.environ | {"DPKG_ADMINDIR": f"{self.folder}/none"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("install by yourself: g++ make cmake", done.stderr)


if __name__ == "__main__":
    suite.main(needs_plugins=False)
