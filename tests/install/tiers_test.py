#!/usr/bin/env python3
"""What a green run of scripts/test means: no skip that is not in tests/skips, the rows of the day, and those that failed on
an earlier one."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import installed, suite  # noqa: E402
from support.plugin import ROOT  # noqa: E402

#: In place of ctest: writes the report of one test, whose output is in $SAID, and keeps what it was called with.
CTEST = """#!/bin/bash
echo "$PATCHBAY_DAY $PATCHBAY_SWEEP_STEP $*" >"$FOLDER/called"
while [ "$1" != --output-junit ]; do shift; done
cat >"$2" <<END
<testsuite><testcase name="netns.one" time="1.5" status="run"><system-out>$SAID</system-out></testcase></testsuite>
END
"""
#: A test whose rows 3 and 9 fail while $BROKEN says so.
ROWS = """
import os, sys, unittest
sys.path.insert(0, ROOT)
from support import rows, suite
@suite.spread
class Table(unittest.TestCase):
    @suite.cases(rows.sampled([(f"row {number}", number) for number in range(12)]))
    def is_right(self, number):
        self.assertFalse(number in (3, 9) and os.environ["BROKEN"])
suite.main(needs_plugins=False)
"""
DAY_OF_3, NEXT_DAY = "2026-11-27", "2026-11-28"  # whose ordinals are 3 and 4 modulo 6


class Tiers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tiers-")
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(os.path.join(ROOT, "scripts"), f"{self.folder}/scripts")
        os.makedirs(f"{self.folder}/bin")
        os.makedirs(f"{self.folder}/tests")
        installed.write(self.folder)
        for name, text in (("cmake", "#!/bin/sh\n"), ("ctest", CTEST), ("apt-cache", "#!/bin/sh\n")):
            self.write(f"bin/{name}", text, 0o755)
        self.write("tests/skips", "# a comment\nnetns\\..* | no (dummy|vrf) | runs elsewhere\n")
        for name in ("failed_rows", "passed"):
            self.write(f"tests/{name}", "")

    def write(self, name, text, mode=0o644):
        with open(f"{self.folder}/{name}", "w", encoding="utf-8") as file:
            os.chmod(file.fileno(), mode)
            file.write(text)

    def read(self, name):
        with open(f"{self.folder}/{name}", encoding="utf-8") as file:
            return file.read()

    def run_tier(self, said="ok   all (0.1 s)", **more):
        env = os.environ | {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "FOLDER": self.folder, "SAID": said,
                            "DPKG_ADMINDIR": self.folder} | more
        return subprocess.run([f"{self.folder}/scripts/test"], env=env, capture_output=True, text=True, check=False)

    def test_a_skip_that_is_not_listed_fails_the_run(self):
        done = self.run_tier("skip works a: b (0.02 s): needs the program fish")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("not in tests/skips: netns.one: works a: b: needs the program fish\n", done.stdout)
        for said in ("skip everything: needs QEMU", "SKIP link: needs root", "skip: needs virtiofsd"):
            self.assertEqual(self.run_tier(said).returncode, 1, said)

    def test_a_listed_skip_is_counted_with_where_it_runs(self):
        done = self.run_tier("ok   a (0.1 s)\nskip works b: c (0.02 s): no vrf\nskip d (1.00 s): no dummy")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("skipped: 2\n    2 runs elsewhere\n", done.stdout)

    def test_the_rows_of_a_day_can_be_repeated(self):
        done = self.run_tier(PATCHBAY_DAY="2026-01-02")
        self.assertIn("rows of PATCHBAY_DAY=2026-01-02\n", done.stdout)
        self.assertTrue(self.read("called").startswith("2026-01-02 6 --preset default "), self.read("called"))

    def test_rows_that_failed_are_kept_until_they_pass(self):
        one, two = f"{NEXT_DAY} netns/a_test.py row 5", f"{NEXT_DAY} netns/b_test.py row 6: a"
        self.run_tier(f"failed row: {two}\nok   x (0.1 s)\nfailed row: {one}")
        self.assertEqual(self.read("tests/failed_rows"), f"{one}\n{two}\n")
        self.assertIn(f"to be committed until they pass:\n{one}\n{two}\n", self.run_tier().stdout)
        self.run_tier(f"passed row: {one}")
        self.assertEqual(self.read("tests/failed_rows"), f"{two}\n")

    def test_a_commit_that_passed_is_kept_and_nothing_else(self):
        def git(*words):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=self.folder, check=True,
                           stdout=subprocess.DEVNULL)
        self.write(".gitignore", "build\nbin\ncalled\nstatus\n__pycache__\n")
        git("init", "-q")
        git("add", ".")
        git("commit", "-qm", "one")
        self.assertEqual(self.run_tier("skip: needs QEMU").returncode, 1)
        self.assertEqual(self.read("tests/passed"), "")
        self.assertEqual(self.run_tier().returncode, 0)
        commit = self.read(".git/refs/heads/" + self.read(".git/HEAD").strip().rsplit("/", 1)[1])
        self.assertEqual(self.read("tests/passed"), commit)
        self.write("scripts/changed", "by hand")
        git("commit", "-qam", "two")
        self.assertEqual(self.run_tier().returncode, 0)
        self.assertEqual(self.read("tests/passed"), commit, "what passed is no commit")

    def test_a_virtual_machine_without_QEMU_is_a_skip(self):
        os.makedirs(f"{self.folder}/empty")
        for name in ("bash", "dirname", "find"):
            os.symlink(shutil.which(name), f"{self.folder}/empty/{name}")
        done = subprocess.run([f"{self.folder}/scripts/vm", "true"], env={"PATH": f"{self.folder}/empty"},
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout),
                         (77, "skip: needs qemu-system-x86_64: scripts/install-deps test\n"))

    def rows(self, day, broken=""):
        """(exit status, the cases that ran, the rows that failed or passed), with rows 3 and 9 in tests/failed_rows."""
        self.write("table_test.py", ROWS.replace("ROOT", repr(os.path.join(ROOT, "tests"))))
        done = subprocess.run([sys.executable, f"{self.folder}/table_test.py"], capture_output=True, text=True, check=False,
                              env=os.environ | {"PATCHBAY_SWEEP_STEP": "6", "PATCHBAY_DAY": day, "BROKEN": broken,
                                                "PATCHBAY_FAILED_ROWS": f"{self.folder}/tests/failed_rows"})
        ran = [line.split(" (")[0] for line in done.stdout.splitlines() if line.startswith(("ok ", "FAIL"))]
        said = [re.sub(r" \S*table_test.py", "", line) for line in done.stdout.splitlines() if " row: " in line]
        return done.returncode, sorted(ran), said

    def test_a_row_that_failed_runs_every_day_until_it_has_passed(self):
        three, nine = "is_right row 3", "is_right row 9"
        self.assertEqual(self.rows(DAY_OF_3, "yes"), (1, [f"FAIL {three}", f"FAIL {nine}"],
                                                      [f"failed row: {DAY_OF_3} {case}" for case in (three, nine)]))
        test = os.path.relpath(f"{self.folder}/table_test.py", os.path.join(ROOT, "tests"))
        self.write("tests/failed_rows", "".join(f"{DAY_OF_3} {test} {case}\n" for case in (three, nine)))
        today = ["ok   is_right row 10", "ok   is_right row 4"]
        self.assertEqual(self.rows(NEXT_DAY, "yes"), (1, [f"FAIL {three}", f"FAIL {nine}", *today], []))
        passed = [f"passed row: {DAY_OF_3} {case}" for case in (three, nine)]
        self.assertEqual(self.rows(NEXT_DAY), (0, sorted([*today, f"ok   {three}", f"ok   {nine}"]), passed))
        self.assertEqual(self.rows(DAY_OF_3), (0, [f"ok   {three}", f"ok   {nine}"], passed))


if __name__ == "__main__":
    suite.main(needs=("git",), needs_plugins=False)
