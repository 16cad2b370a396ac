#!/usr/bin/env python3
"""--version has the commit of the sources: a commit, and a change after it, compile one source again and no other."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHO = ["-c", "user.name=test", "-c", "user.email=test@localhost"]


def git(folder, *arguments):
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout.strip()


class Commit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="patchbay-commit-")
        self.addCleanup(folder.cleanup)
        self.sources, self.written = pathlib.Path(folder.name, "sources"), pathlib.Path(folder.name, "build_text.cc")
        self.sources.mkdir()

    def look(self):
        """(what build_text() returns after the version, when the source was written)"""
        subprocess.run(["cmake", "-D", f"ROOT={self.sources}", "-D", f"SOURCE={self.written}", "-P",
                        ROOT / "scripts/cmake/commit.cmake"], check=True, capture_output=True)
        text = self.written.read_text()
        return text.split("PATCHBAY_VERSION \"")[1].split("\"")[0], self.written.stat().st_mtime_ns

    def commit(self, text):
        (self.sources / "file").write_text(text)
        git(self.sources, "add", "file")
        git(self.sources, *WHO, "commit", "-q", "-m", text)
        return git(self.sources, "rev-parse", "HEAD")[:12]

    def test_without_git_there_is_none(self):
        self.assertEqual(self.look()[0], "")
        git(self.sources.parent, "init", "-q")
        self.assertEqual(self.look()[0], "", "of a repository that the sources were unpacked in")

    def test_it_follows_commits_and_changes(self):
        git(self.sources, "init", "-q")
        self.assertEqual(self.look()[0], "", "before the first commit")
        one = self.commit("one")
        first = self.look()
        self.assertEqual(first[0], f" (commit {one})")
        self.assertEqual(self.look(), first, "the file is not written again")
        (self.sources / "file").write_text("changed")
        self.assertEqual(self.look()[0], f" (commit {one}+)")
        other = self.commit("other")
        self.assertEqual(self.look()[0], f" (commit {other})")
        self.assertNotEqual(one, other)

    def test_one_source_of_the_build_has_it(self):
        """So that a commit does not compile the others again."""
        build = pathlib.Path(os.environ["PATCHBAY_BIN"]).parent
        compiled = [entry["file"] for entry in json.loads((build / "compile_commands.json").read_text())]
        self.assertEqual(len([path for path in compiled if path.endswith("/build_text.cc")]), 1)
        users = [path for path in build.rglob("unity_*.cxx") if "build_text" in path.read_text()]
        self.assertEqual(users, [], "compiled together with others")


if __name__ == "__main__":
    if subprocess.run(["sh", "-c", "command -v git"], capture_output=True).returncode != 0:
        print("skip everything: needs the program git")
        sys.exit(77)
    unittest.main(verbosity=2)
