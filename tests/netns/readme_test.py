#!/usr/bin/env python3
"""The commands of a README can be pasted: they succeed, and leave nothing that they do not name."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.plugin import OURS, ROOT  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import MS_BIND, MS_REC, mount  # noqa: E402

# A block of lines that are indented by four spaces; empty lines stand between.
BLOCK = re.compile(r"(?:^    .*\n|^\n(?=    ))+", re.MULTILINE)


def commands(readme):
    """The first block of a README that attaches a pod."""
    with open(os.path.join(ROOT, readme), encoding="utf-8") as file:
        blocks = BLOCK.findall(file.read())
    block = next(block for block in blocks if "cnitool add" in block)
    return re.sub("^    ", "", block, flags=re.MULTILINE).replace("/opt/cni/bin", OURS)


@suite.spread
class Readme(suite.NodeTest):
    @suite.cases([(path, path) for path in ("README.md", "cnitool/README.md")])
    def can_be_pasted(self, path):
        os.makedirs("/etc/cni/net.d", exist_ok=True)
        before = snapshot()
        env = {"PATH": f"{OURS}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-eu"], input=commands(path), env=env, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assert_same(before, ignore=lambda place: left_by_design(place)
                         or place.startswith(("file/var/lib/cni", "sysctl/net/ipv4/ip_forward")))


class Chroot(suite.NodeTest):
    def test_first_pod_says_why_it_cannot_run_in_a_plain_one(self):
        for name in os.listdir("/"):
            place = os.path.join("/run/root", name)
            if os.path.islink(f"/{name}"):
                os.makedirs("/run/root", exist_ok=True)
                os.symlink(os.readlink(f"/{name}"), place)
            elif os.path.isdir(f"/{name}"):
                os.makedirs(place)
                if name != "run":
                    mount(f"/{name}", place, flags=MS_BIND | MS_REC)
        done = subprocess.run(["chroot", "/run/root", sys.executable, os.path.join(ROOT, "scripts/first-pod")],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertTrue(done.stderr.startswith("FAILED: / is no mount point, as in a plain chroot"), done.stderr)
        self.assertIn("mount --bind", done.stderr)


class Help(unittest.TestCase):
    def test_scripts_print_theirs_on_a_machine_that_has_no_git(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("bash", "dirname", "env", "python3", "sed"):
                os.symlink(shutil.which(name), os.path.join(folder, name))
            for script, word in (("test", "--quick"), ("vm", "COMMAND"), ("quickstart", "apt-get")):
                done = subprocess.run([os.path.join(ROOT, "scripts", script), "--help"], env={"PATH": folder},
                                      capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), script)
                self.assertIn(word, done.stdout)


if __name__ == "__main__":
    suite.main(needs=("bash", "ping"))
