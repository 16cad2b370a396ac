#!/usr/bin/env python3
"""`patchbay install` into the data folder of a k3s node: k3s's upgrade leaves the plugins, its own checks hold, and
`uninstall` gives k3s its links back."""

import glob
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import rows, suite  # noqa: E402
from support.k3s import CNI, DATA, LINKS, folder_of_runtime, start, write_config  # noqa: E402
from support.plugin import OURS, PLUGINS  # noqa: E402

PATCHBAY = os.path.join(OURS, "patchbay")
OURS_OF_K3S = [name for name in LINKS if name in PLUGINS]


def plugin_dir():
    """Where cnitool says that k3s looks."""
    return subprocess.run([os.path.join(OURS, "cnitool"), "runtimes", "k3s", "--plugin-dir"], capture_output=True, text=True,
                          check=True).stdout.strip()


def call(verb, *arguments, wrap=(), program=PATCHBAY):
    return subprocess.run([*wrap, program, verb, *(arguments or (plugin_dir(),))], capture_output=True, text=True,
                          timeout=60, check=False, env={"PATH": os.environ["PATH"]})


def named(name):
    """What the name in data/cni says of itself."""
    done = subprocess.run([f"{CNI}/{name}"], capture_output=True, text=True, timeout=60, check=True, env={"PATH": os.environ["PATH"]})
    return done.stderr.splitlines()[0]


class K3s(suite.NodeTest):
    def setUp(self):
        super().setUp()
        self.first = start("v1.8.0-k3s1")

    def assert_check_config(self):
        """What `k3s check-config` verifies, in data/current/bin."""
        there = os.path.realpath(f"{DATA}/current") + "/bin"
        done = subprocess.run(["sha256sum", "--status", "-c", ".sha256sums"], cwd=there, check=False)
        self.assertEqual(done.returncode, 0)
        with open(f"{there}/.links", encoding="ascii") as file:
            for name, target in (line.split() for line in file):
                self.assertEqual(os.readlink(f"{there}/{name}"), target)

    def assert_ours(self, k3s):
        """Every plugin is a file of ours; `cni` is k3s's link to the release in that folder."""
        for name in (*PLUGINS, "patchbay"):
            self.assertFalse(os.path.islink(f"{CNI}/{name}"), name)
            self.assertEqual(os.stat(f"{CNI}/{name}").st_mode & 0o7777, 0o755)
        for name in PLUGINS:
            self.assertRegex(named(name), rf"^CNI {name} plugin v\S+\+patchbay")
        self.assertEqual(os.readlink(f"{CNI}/cni"), f"{k3s}/bin/cni")
        self.assertEqual(call("verify").returncode, 0)
        self.assert_check_config()
        self.assertEqual(folder_of_runtime(), CNI)

    def install(self, **options):
        done = call("install", **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def assert_k3s_alone(self, k3s):
        self.assertEqual({name: os.readlink(f"{CNI}/{name}") for name in os.listdir(CNI)},
                         dict.fromkeys(("cni", *LINKS), f"{k3s}/bin/cni"))
        self.assert_check_config()

    def test_its_links_become_files_which_an_upgrade_leaves(self):
        done = self.install()
        self.assertEqual(plugin_dir(), CNI)
        for name in OURS_OF_K3S:
            self.assertIn(f"replaced  {name} (CNI {name} plugin v1.8.0-k3s1, which uninstall restores)", done.stdout)
        self.assert_ours(self.first)
        self.assertEqual({os.stat(f"{CNI}/{name}").st_nlink for name in PLUGINS}, {1})
        second = start("v1.9.1-k3s1")
        self.assert_ours(second)
        self.assertEqual(os.readlink(f"{DATA}/previous"), self.first)
        self.assertIn("0 of", self.install().stdout)

    def test_uninstall_restores_the_links(self):
        self.install()
        done = call("uninstall")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in OURS_OF_K3S:
            self.assertIn(f"restored {name}", done.stdout)
        self.assert_k3s_alone(self.first)
        self.assertEqual(named("bridge"), "CNI bridge plugin v1.8.0-k3s1")

    def test_uninstall_after_upgrades_restores_links_to_the_release_of_now(self):
        self.install()
        start("v1.9.1-k3s1")
        third = start("v1.10.0-k3s1")
        for folder in glob.glob(f"{DATA}/{'[0-9a-f]' * 64}"):
            if folder != third:  # an operator made room
                shutil.rmtree(folder)
        self.assertEqual(call("uninstall").returncode, 0)
        self.assert_k3s_alone(third)
        self.assertEqual(named("host-local"), "CNI host-local plugin v1.10.0-k3s1")

    def test_without_host_local_k3s_uses_its_own_folder_for_everything(self):
        own = f"{self.first}/bin"
        for spoil in (lambda file: os.chmod(file, 0o644), os.remove):
            with self.subTest(spoil):
                self.install()
                self.assertEqual(folder_of_runtime(), CNI)
                spoil(f"{CNI}/host-local")
                self.assertEqual(folder_of_runtime(), own)
                done = call("verify", CNI)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"{CNI}/host-local: it is ", done.stdout)
                write_config()  # k3s restarts
                # There the installer has nothing to do, and what k3s verifies stays.
                before = sorted(os.listdir(own))
                refused = call("install")
                self.assertEqual((refused.returncode, sorted(os.listdir(own))), (3, before), refused.stdout)
                self.assertIn(f"'{own}' is what k3s unpacked", refused.stderr)
                self.assert_check_config()
                self.assertEqual(call("install", CNI).returncode, 0)
                write_config()
                self.assert_ours(self.first)

    def test_an_install_killed_anywhere_leaves_host_local(self):
        """A k3s that starts at that moment goes on with data/cni."""
        step = 40 * rows.STEP
        number = 1 + rows.OFFSET % step
        while True:
            done = call("install", wrap=("strace", "-o", "/dev/null", "-e", "signal=none", "-e",
                                         f"inject=%file,%desc:signal=KILL:when={number}"))
            self.assertEqual(folder_of_runtime(), CNI, f"call {number}")
            self.assert_check_config()
            if done.returncode == 0:
                break
            number += step
        self.assert_ours(self.first)
        self.assertEqual(call("uninstall").returncode, 0)
        self.assert_k3s_alone(self.first)


if __name__ == "__main__":
    suite.main(needs=("strace", "sha256sum"))
