#!/usr/bin/env python3
"""cnitool's help lists everything, and a wrong command line is reported with what is near."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import cnitool  # noqa: E402

# The command line, and what is reported.
WRONG = [
    ((), "cnitool: a command is required"),
    (("frob", "net", "/ns"), "cnitool: unknown command 'frob'"),
    (("lst",), "cnitool: unknown command 'lst' (did you mean list?)"),
    (("lst", "--help"), "cnitool: unknown command 'lst' (did you mean list?)"),
    (("add", "net"), "cnitool add: netns is required"),
    (("del", "net", ""), "cnitool del: netns: expected the path of a network namespace"),
    (("add", "", "/ns"), "cnitool add: network: expected the name of a network"),
    (("list", "--container-id", ""), "cnitool list: --container-id: expected a container ID"),
    (("add", "--ifnam", "eth1", "net", "/ns"), "cnitool add: unknown option '--ifnam' (did you mean --ifname?)"),
    (("validate", "--strct"), "cnitool validate: unknown option '--strct' (did you mean --strict?)"),
    (("add", "net", "/ns", "eth0"), "cnitool add: unknown argument 'eth0'"),
    (("graph", "--format", "png"), "cnitool graph: --format: png not in {text,dot,svg}"),
    (("help", "frob"), "cnitool help: command: frob not in {add,"),
    (("show", "net"), "show: expected the path of a network namespace"),
    (("gc", "net", "--keep", ":eth0"), "--keep ':eth0': expected CONTAINER:IFNAME"),
    (("gc", "net", "--container-id", "c1"), "gc: --container-id selects nothing"),
    (("gc",), "gc: expected a network"),
]


class Help(unittest.TestCase):
    def printed(self, *words):
        got = cnitool(*words)
        self.assertEqual((got.status, got.stderr), (0, ""))
        return got.stdout

    def test_it_lists_all_commands(self):
        text = self.printed("--help")
        for command in ("add", "validate", "completion", "version", "help"):
            self.assertIn(f"\n  {command} ", text)
        self.assertEqual(self.printed("help"), text)
        self.assertEqual(self.printed("version"), self.printed("--version"))

    def test_that_of_a_command_has_its_options(self):
        for command in ("add", "del", "check", "show", "trace"):
            text = self.printed(command, "--help")
            for option in ("--ifname", "--container-id", "--cap-args", "--json", "--conf-dir"):
                self.assertIn(f"{option} ", text, command)
            self.assertEqual(self.printed("help", command), text)
        for command in ("gc", "status", "doctor"):
            text = self.printed(command, "--help")
            self.assertIn("--json ", text)
            self.assertNotIn("--ifname", text, "of no meaning to " + command)


class WrongCommandLine(unittest.TestCase):
    def test_it_is_reported_with_status_2(self):
        for words, report in WRONG:
            with self.subTest(words):
                got = cnitool(*words)
                self.assertEqual((got.status, got.stdout), (2, ""), str(got))
                self.assertTrue(got.stderr.startswith(report), got.stderr)
                self.assertIn("\nhint: `cnitool ", got.stderr)

    def test_it_is_json_where_json_is_wanted(self):
        for words, report in WRONG[1:]:
            with self.subTest(words):
                got = cnitool(*words, "--json")
                self.assertEqual((got.status, got.stderr, got.json["code"] in (4, 7)), (2, "", True), str(got))
                self.assertTrue(got.json["msg"].startswith(report), str(got))
                self.assertIn("cnitool ", got.json["hint"])


if __name__ == "__main__":
    suite.main()
