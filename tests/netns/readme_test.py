#!/usr/bin/env python3
"""The commands of a README can be pasted: they succeed, and leave nothing that they do not name."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import daemons, dhcp, suite  # noqa: E402
from support.cnitool import default_containerd  # noqa: E402
from support.configs import lack, provide  # noqa: E402
from support.pages import ROOTS_PATH, blocks  # noqa: E402
from support.plugin import OURS, PLUGINS, ROOT  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import MS_BIND, MS_REC, MS_SHARED, World, mount, run, umount  # noqa: E402

PAGES = ["README.md", "cnitool/README.md", *sorted(os.path.relpath(path, ROOT)
                                                   for path in glob.glob(f"{ROOT}/plugins/*/README.md"))]
CONFIG = re.compile(r"<<'(\w+)'\n(.*?)^\1$", re.MULTILINE | re.DOTALL)


def example(page):
    """The first block of a page that attaches a pod, and the plugins of its network."""
    block = next(block for _, block in blocks(page) if "cnitool add" in block)
    return block, [each for each in re.findall(r'"type": "([\w-]+)"', CONFIG.search(block)[2]) if each in PLUGINS]


def lack_of(page):
    """Why the example cannot run here; None."""
    block, plugins = example(page)
    if "etcd --" in block and not shutil.which("etcd"):
        return "there is no etcd"
    return lack(*plugins)


def left(place):
    """What an example leaves: what all pods share, and the files of a daemon."""
    return left_by_design(place) or place.startswith("file/run/cni/dhcp")


@suite.spread
class Readme(suite.NodeTest):
    def setUp(self):
        super().setUp()
        # As the README installs it, and a link eth1 with a host on its segment.
        World.private("/opt/cni/bin")
        mount(OURS, "/opt/cni/bin", flags=MS_BIND)
        os.makedirs("/etc/cni/net.d", exist_ok=True)
        default_containerd()
        os.mkdir("/run/tools")
        for name in ("cnitool", "patchbay-agent"):
            os.symlink(f"/opt/cni/bin/{name}", f"/run/tools/{name}")
        provide("macvlan")
        run("ip", "addr", "add", "192.0.2.1/24", "dev", "eth1-out")

    def paste(self, page):
        """Pastes the example of a page. What the node has afterwards is what it had before."""
        block, plugins = example(page)
        if "dhcp" in plugins:
            with tempfile.TemporaryDirectory(prefix="dhcp-") as folder:
                daemons.play(lambda: dhcp.dnsmasq(pool="192.0.2.100,192.0.2.199", folder=folder, interface="eth1-out"))
                self.run_block(page, block)
                daemons.stop()
            return
        self.run_block(page, block)

    def run_block(self, page, block):
        roots = ("/var/lib/cni", "/run", "/etc/cni")
        before = snapshot(roots)
        done = subprocess.run(["bash", "-eu"], input=block, env=os.environ | {"PATH": f"/run/tools:{ROOTS_PATH}"},
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"{page}: {done.stdout}{done.stderr}")
        if "daemon &" not in block:
            self.assertEqual(done.stderr, "", page)
        self.assert_same(before, snapshot(roots), ignore=left, what=page)

    @suite.cases([(page, page) for page in PAGES])
    def can_be_pasted(self, page):
        if reason := lack_of(page):
            self.skipTest(reason)
        self.paste(page)

    def test_all_can_be_pasted_in_order_on_one_node(self):
        for page in PAGES:
            if not lack_of(page):
                self.paste(page)

    def test_one_that_needs_a_link_of_the_node_says_so_first(self):
        for page in PAGES:
            with open(os.path.join(ROOT, page), encoding="utf-8") as file:
                before = file.read().split("\n\n    ")[0]
            if "eth1" in example(page)[0]:
                self.assertIn("The example needs a link `eth1` of the node that is up", before, page)


class Chroot(suite.NodeTest):
    def first_pod(self):
        return subprocess.run(["chroot", "/run/root", sys.executable, os.path.join(ROOT, "scripts/first-pod")],
                              capture_output=True, text=True)

    def test_first_pod_runs_in_a_plain_one_and_mounts_nothing_outside(self):
        if ROOT.startswith("/run/"):
            self.skipTest("the repository is below /run, and the chroot has another one")
        mount("none", "/run", flags=MS_SHARED)  # as systemd has it: what is mounted in a chroot reaches all
        for name in os.listdir("/"):
            place = os.path.join("/run/root", name)
            if os.path.islink(f"/{name}"):
                os.makedirs("/run/root", exist_ok=True)
                os.symlink(os.readlink(f"/{name}"), place)
            elif os.path.isdir(f"/{name}"):
                os.makedirs(place)
                if name != "run":
                    mount(f"/{name}", place, flags=MS_BIND | MS_REC)
        os.makedirs("/run/root/run", exist_ok=True)
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            before = file.read()
        done = self.first_pod()
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("nothing: no link, no address", done.stdout)
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            self.assertEqual(file.read(), before)
        umount("/run/root/proc")
        self.assertIn("FAILED: needs /proc: mount -t proc", self.first_pod().stderr)


class Help(unittest.TestCase):
    def test_scripts_print_theirs_on_a_machine_that_has_no_git(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("bash", "dirname", "env", "python3", "sed"):
                program = sys.executable if name == "python3" else shutil.which(name)
                os.symlink(program, os.path.join(folder, name))
            for script, word in (("test", "--quick"), ("vm", "COMMAND"), ("quickstart", "apt-get")):
                done = subprocess.run([os.path.join(ROOT, "scripts", script), "--help"], env={"PATH": folder},
                                      capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), script)
                self.assertIn(word, done.stdout)


if __name__ == "__main__":
    suite.main(needs=("bash", "ping"))
