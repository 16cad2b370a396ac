#!/usr/bin/env python3
"""cnitool's completion and manual page are made of its own table of commands: a bash completes with
them, man reads them, and they are installed with it."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import blocks, suite  # noqa: E402
from support.cnitool import CONF_DIR, cnitool, environment, use  # noqa: E402
from support.plugin import OURS, ROOT  # noqa: E402

BUILD = os.path.dirname(OURS)
COMPLETE = r"""
. {script}
COMP_LINE={line}; COMP_POINT=${{#COMP_LINE}}
{words}
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
compopt() {{ :; }}  # there is no completion going on that could have options
_cnitool cnitool "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
printf '%s\n' "${{COMPREPLY[@]}}"
"""


def commands_in_help():
    """The names that --help prints: CLI11's own account of the table."""
    lines = cnitool("--help").stdout.split("Subcommands:\n")[1].split("\n\n")[0].splitlines()
    return sorted(line.split()[0] for line in lines if line.startswith("  ") and line[2] != " ")


class Completion(suite.NodeTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="patchbay-completion-")
        self.addCleanup(folder.cleanup)
        self.script = os.path.join(folder.name, "cnitool.bash")
        self.folder = folder.name
        with open(self.script, "w", encoding="utf-8") as file:
            file.write(cnitool("completion", "bash").stdout)

    def completed(self, *words):
        """What bash offers for the last word, the words being as bash breaks them."""
        listed = " ".join("'" + word + "'" for word in ("cnitool", *words))
        text = COMPLETE.format(script=self.script, line=f"'{' '.join(words)}'",
                               words=f"COMP_WORDS=({listed})")
        env = environment() | {"PATH": f"{OURS}:{os.environ['PATH']}"}
        got = subprocess.run(["bash", "--norc", "-c", text], env=env, capture_output=True, text=True)
        self.assertEqual((got.returncode, got.stderr), (0, ""), got)
        return got.stdout.split()

    def network_with_a_pod(self):
        use({"cniVersion": "1.0.0", "name": "net1", "plugins": [{"type": "loopback"}]}, "1.conflist")
        use({"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "loopback"}]}, "2.conflist")
        pod = self.pod()
        got = cnitool("add", "net1", pod.path, "--ifname", "lo", "--container-id", "c1", "--args",
                      "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-1")
        self.assertEqual(got.status, 0, str(got))
        return pod

    def test_networks_of_blocks_and_nodes_that_have_some(self):
        blocks.held("10.5.0.16/28", network="lan")
        blocks.seen({"node1": ["10.5.0.16/28"], "node2": ["10.5.0.64/28"]}, network="lan")
        self.assertEqual(self.completed("blocks", ""), ["lan", "release"])
        self.assertEqual(self.completed("blocks", "release", ""), ["node2"])
        self.assertEqual(self.completed("blocks", "lan", ""), [])

    def test_commands(self):
        self.assertEqual(sorted(self.completed("")), commands_in_help())
        self.assertIn("validate", commands_in_help())
        self.assertEqual(self.completed("va"), ["validate"])
        self.assertEqual(self.completed("--json", "va"), ["validate"])
        self.assertEqual(self.completed("--ifname", "va"), [])

    def test_options_of_a_command_and_of_all(self):
        self.assertEqual(self.completed("validate", "--s"), ["--strict"])
        self.assertEqual(self.completed("add", "--s"), [])
        self.assertLess({"--no-undo", "--json", "--conf-dir", "--help"},
                        set(self.completed("add", "--")))

    def test_networks_and_namespaces(self):
        pod = self.network_with_a_pod()
        self.assertEqual(self.completed("add", ""), ["net1", "other"])
        self.assertEqual(self.completed("add", "--json", "ne"), ["net1"])
        self.assertEqual(self.completed("del", "net1", ""), [pod.path])
        other = self.pod()
        self.assertEqual(self.completed("add", "net1", ""), [pod.path, other.path])
        self.assertEqual(self.completed("trace", "check", "net1", ""), [pod.path])
        self.assertEqual(self.completed("trace", "ch"), ["check"])
        self.assertEqual(self.completed("trace", "add", ""), ["net1", "other"])
        # A network that was taken away still has an attachment.
        os.remove(os.path.join(CONF_DIR, "1.conflist"))
        self.assertEqual(self.completed("del", "n"), ["net1"])

    def test_values_of_options(self):
        self.network_with_a_pod()
        self.assertEqual(self.completed("show", "--container-id", ""), ["c1"])
        # As bash breaks words: at '=' and at ':', of which only what follows is put in.
        self.assertEqual(self.completed("show", "--container-id", "=", "c"), ["c1"])
        self.assertEqual(self.completed("doctor", "--container-id", ""), ["c1", "default/web-1"])
        self.assertEqual(self.completed("repair", "--container-id", "d"), ["default/web-1"])
        for command in ("list", "show", "graph", "doctor", "repair", "migrate"):
            self.assertEqual(self.completed(command, "--pod", ""), ["default/web-1"])
        self.assertEqual(self.completed("gc", "net1", "--keep", "c1", ":", "l"), ["lo"])
        self.assertEqual(self.completed("gc", "net1", "--keep", "c"), ["c1:lo"])
        os.makedirs(os.path.join(self.folder, "etc/net.d"))
        self.assertEqual(self.completed("--conf-dir", f"{self.folder}/e"), [f"{self.folder}/etc"])
        with open(f"{self.folder}/etc/net.d/a.conflist", "w", encoding="utf-8") as file:
            json.dump({"name": "third", "plugins": [{"type": "loopback"}]}, file)
        self.assertEqual(self.completed("--conf-dir", f"{self.folder}/etc/net.d", "add", "t"),
                         ["third"])
        self.assertEqual(self.completed("validate", f"{self.folder}/etc/net.d/"),
                         [f"{self.folder}/etc/net.d/a.conflist"])

    def test_in_a_bash_that_somebody_types_into(self):
        self.network_with_a_pod()
        # An interactive bash with readline: TAB after each half of a word.
        keys = f"PS1=; . {self.script}\ncnitool val\t--str\t--js\t no\nexit\n"
        env = environment() | {"PATH": f"{OURS}:{os.environ['PATH']}", "TERM": "dumb"}
        script = shutil.which("script")
        if not script:
            self.skipTest("needs the program script")
        got = subprocess.run([script, "-qec", "bash --norc -i", "/dev/null"], input=keys, env=env,
                             capture_output=True, text=True, timeout=60)
        self.assertIn('"file": "no"', got.stdout, "validate --strict --json no: " + got.stdout)

    def test_unknown_shells_are_refused(self):
        got = cnitool("completion", "ksh")
        self.assertEqual(got.status, 2)
        self.assertIn("ksh", got.stderr)


class Others(unittest.TestCase):
    def assert_parsed(self, shell, option):
        if not shutil.which(shell):
            self.skipTest(f"needs the program {shell}")
        got = subprocess.run([shell, option], input=cnitool("completion", shell).stdout,
                             capture_output=True, text=True)
        self.assertEqual((got.returncode, got.stderr), (0, ""))

    def test_zsh_can_read_its_script(self):
        self.assert_parsed("zsh", "-n")

    def test_fish_can_read_its_script(self):
        self.assert_parsed("fish", "--no-execute")


class Manual(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        subprocess.run([sys.executable, os.path.join(ROOT, "scripts/dist/manual.py"), os.path.join(OURS, "cnitool"), folder.name,
                        "1.2.3", "/opt/cni/bin"], check=True)
        with open(os.path.join(folder.name, "cnitool.1"), encoding="utf-8") as page:
            self.source = page.read()

    def rendered(self):
        if not shutil.which("man"):
            self.skipTest("needs the program man")
        with tempfile.NamedTemporaryFile("w", suffix=".1") as file:
            file.write(self.source)
            file.flush()
            got = subprocess.run(["man", "-l", "--warnings", file.name], capture_output=True,
                                 text=True, env=os.environ | {"MANWIDTH": "200", "LC_ALL": "C.UTF-8"})
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        return re.sub(".\x08", "", got.stdout)  # bold is a letter, a step back, the letter

    def test_man_renders_it_without_a_warning(self):
        text = self.rendered()
        self.assertIn("cnitool - Calls the plugins of CNI networks from the command line", text)
        self.assertIn("/var/lib/cni/results", text)

    def test_every_command_is_in_it_and_every_option(self):
        text = self.rendered()
        for command in commands_in_help():
            self.assertRegex(text, rf"cnitool {command}\b")
            for word in cnitool(command, "--help").stdout.split():
                if word.startswith("--") and word != "--help":
                    self.assertIn(word.split(",")[-1].split("=")[0], text)


class Installed(unittest.TestCase):
    def test_it_is_installed_with_the_tool(self):
        if not os.path.exists(os.path.join(BUILD, "manual/cnitool.1")):
            self.skipTest("the targets cnitool_documents and manual_of_cnitool are not built")
        with tempfile.TemporaryDirectory() as prefix:
            got = subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix, "--component",
                                  "tool"], capture_output=True, text=True)
            self.assertEqual(got.returncode, 0, got.stderr)
            for path, command in (("share/bash-completion/completions/cnitool",
                                   ["completion", "bash"]),
                                  ("share/zsh/site-functions/_cnitool", ["completion", "zsh"]),
                                  ("share/fish/vendor_completions.d/cnitool.fish",
                                   ["completion", "fish"])):
                with open(os.path.join(prefix, path), encoding="utf-8") as file:
                    self.assertEqual(file.read(), cnitool(*command).stdout, path)


if __name__ == "__main__":
    suite.main(needs=("bash",))
