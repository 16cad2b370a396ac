#!/usr/bin/env python3
"""On a terminal of 80 columns cnitool's tables and findings fit its width, and a healthy node with three networks and
twelve pods is one screen. In a pipe nothing is cut."""

import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import UNSEEN, cnitool, environment, printed_on, use  # noqa: E402
from support.doctor import BANDWIDTH, BIN, BRIDGE, PORTMAP, DoctorTest, chain  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.world import Pod, run  # noqa: E402

LINES, COLUMNS = 24, 80
COLOUR = re.compile("\x1b\\[[0-9]*m")


def on_terminal(*words, **env):
    """The status of cnitool, and the lines that it prints on a terminal, without what it waits for on a busy machine."""
    parent, child = os.openpty()
    process = subprocess.Popen([os.path.join(OURS, "cnitool"), *words],
                               env=environment(**({"CNI_PATH": BIN, "COLUMNS": str(COLUMNS)} | env)),
                               stdin=subprocess.DEVNULL, stdout=child, stderr=child)
    os.close(child)
    printed = printed_on(parent)
    if shown := os.environ.get("PATCHBAY_SCREENS"):
        with open(os.path.join(shown, "-".join(words).replace("/", "_")), "wb") as file:
            file.write(printed)
    lines = COLOUR.sub("", printed.decode()).splitlines()
    return process.wait(), [line for line in lines if not re.search(r", waiting for .*, \d+ s$", line)]


class Screen(DoctorTest):
    def setUp(self):
        super().setUp()
        shutil.copy(os.path.join(OURS, "ptp"), BIN)
        for name, number, plugin in (("storage", 3, {"type": "bridge", "bridge": "cni1"}), ("edge", 4, {"type": "ptp"})):
            use({"cniVersion": "1.1.0", "name": name, "plugins": [plugin | {
                "ipMasq": True, "ipam": {"type": "host-local", "ranges": [
                    [{"subnet": f"10.1.{number}.0/24"}], [{"subnet": f"fd00:1:{number}::/64"}]]}}]}, f"{number}0.conflist")
        for pod in self.pods:
            self.assert_ok(cnitool("del", "net", pod.path, CNI_PATH=BIN))
        run("ip", "link", "del", "cni0")
        use(chain(BRIDGE | {"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}],
                                                                      [{"subnet": "fd00:1:2::/64"}]]}}, PORTMAP, BANDWIDTH))
        for n, pod in enumerate(self.pods):
            self.add(pod, 8080 + n)
        self.many = [Pod(f"p{n}") for n in range(10)]
        for n, pod in enumerate(self.many):
            args = ("--container-id", f"{n:064x}"[::-1], "--args",
                    f"IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-{n}")
            self.add(pod, 9000 + n, *args)
            for k, network in enumerate(("storage", "edge")[:n % 3]):
                self.assert_ok(cnitool("add", network, pod.path, "-i", f"net{k}", *args, CNI_PATH=BIN))
        self.all = json.loads(cnitool("list", "--json").stdout)["attachments"]

    def assert_fits(self, lines):
        for line in lines:
            self.assertLessEqual(len(line), COLUMNS, line)


class Fits(Screen):
    def test_a_healthy_node_is_one_screen_with_a_line_for_each_subject(self):
        status, lines = on_terminal("doctor")
        self.assertEqual(status, 0, "\n".join(lines))
        self.assert_fits(lines)
        self.assertLess(len(lines), LINES)
        summary = {name: (state, what) for name, state, what in
                   (re.split("  +", line, maxsplit=2) for line in lines if re.match(r"\w+ +ok  ", line))}
        self.assertEqual({name: state for name, (state, _) in summary.items()}, {name: "ok" for name in (
            "configs", "plugins", "attachments", "addresses", "firewall", "node")})
        self.assertEqual(summary["configs"][1], "3 networks in /run/net.d")
        self.assertEqual(summary["attachments"][1], f"{len(self.all)} attachments of 12 pods")
        self.assertEqual(summary["addresses"][1], f"{2 * len(self.all)} addresses allocated in 6 ranges")
        links = json.loads(run("ip", "-j", "link"))
        self.assertTrue(summary["node"][1].startswith(f"{len(links)} links, "), summary["node"])
        self.assertTrue(summary["node"][1].endswith(", uplink up0"), summary["node"])
        self.assertIn("12 hostPorts", summary["firewall"][1])
        self.assertEqual(lines[-2:], ["0 errors, 0 warnings", UNSEEN.strip()])

    def test_findings_come_before_the_summary_that_counts_them(self):
        run("ip", "link", "del", "cni1")
        self.many[0].remove()
        status, lines = on_terminal("doctor")
        self.assertEqual(status, 1)
        text = "\n".join(lines)
        self.assertRegex(text, r"(?m)^attachments  1 error, 1 warning ")
        self.assertRegex(text, r"(?m)^configs +ok ")
        self.assertTrue(text.endswith(f"\n1 error, 1 warning\n{UNSEEN.strip()}"), text)
        self.assertLess(text.index("remedy: "), text.index("configs "))
        self.assert_fits(line for line in lines if "remedy: " not in line)  # a command is one line
        self.assertIn("has 1 attachment whose pod does not", " ".join(text.split()))
        quiet = on_terminal("doctor", "-q")[1]
        self.assertEqual(quiet, lines[:len(quiet)])
        self.assertEqual(len(lines) - len(quiet), 8)  # six subjects, the sum, and what is not looked at
        checks = [one["check"] for one in cnitool("doctor", "--json", CNI_PATH=BIN).json["findings"]]
        self.assertIn("uplink", checks)  # programs get what is well, too

    def test_tables_are_cut_or_wrapped_on_a_terminal_alone(self):
        wide = cnitool("list", COLUMNS="40").stdout.splitlines()
        self.assertEqual(len(wide), 1 + len(self.all))
        for one in self.all:
            self.assertTrue(any(one["containerID"] in line and ",".join(one["addresses"]) in line for line in wide))
        self.assert_fits(on_terminal("list")[1])
        lines = on_terminal("list", COLUMNS="100")[1]
        self.assertEqual(len(lines), 1 + len(self.all))  # IDs are cut before addresses are wrapped
        text = "\n".join(lines)
        for one in self.all:  # cnitool takes the beginning of an ID
            for address in one["addresses"]:
                self.assertIn(address, text)
        begin = re.search(r"(\w+)…  net1 ", text)[1]
        self.assertEqual({one["containerID"] for one in cnitool("list", "--json", "--container-id", begin).json
                          ["attachments"]}, {one["containerID"] for one in self.all if one["containerID"].startswith(begin)})
        lines = on_terminal("networks")[1]
        self.assert_fits(lines)
        self.assertIn("portmap,", "\n".join(lines))
        self.assertIn("/run/net.d/", "\n".join(lines))
        for columns in ("1", "junk", "100000"):
            self.assertEqual(on_terminal("networks", COLUMNS=columns)[0], 0)
        self.assertGreater(len(on_terminal("list", COLUMNS="200")[1][1]), COLUMNS)
        shown = on_terminal("show", "net", "--container-id", self.all[-1]["containerID"])[1]
        self.assertTrue(any(self.all[-1]["containerID"] in line for line in shown))

    def test_repair_fits_too(self):
        run("ip", "link", "del", "cni0")
        lines = on_terminal("repair", "--dry-run")[1]
        self.assertEqual(len([line for line in lines if line.startswith(("net ", "edge ", "storage "))]), len(self.all))
        self.assert_fits(lines)
        for one in self.all:
            self.assertIn(one["containerID"], cnitool("repair", "--dry-run", CNI_PATH=BIN).stdout)
            break

    def test_names_that_a_pod_chose_do_not_command_the_terminal(self):
        """Plugins name links of a pod, which may have control characters in their names."""
        with open(os.path.join(BIN, "evil"), "w", encoding="utf-8") as file:
            os.chmod(file.fileno(), 0o755)
            file.write("#!/bin/sh\n[ $CNI_COMMAND != ADD ] || { echo '{\"cniVersion\": \"1.0.0\"}'; exit; }\n"
                       "echo '{\"code\": 100, \"msg\": \"link \\u001b[2Jx\\u009b2Jy\\u007f\"}'\nexit 1\n")
        use({"cniVersion": "1.0.0", "name": "evil", "plugins": [{"type": "evil"}]}, "90-evil.conflist")
        pod = self.pods[0]
        self.assert_ok(cnitool("add", "evil", pod.path, "-i", "net9", CNI_PATH=BIN))
        for words in (("check", "evil", pod.path, "-i", "net9"), ("check", "evil", pod.path, "-i", "net9", "--json"),
                      ("doctor",), ("doctor", "--json"), ("del", "evil", pod.path, "-i", "net9")):
            text = "\n".join(on_terminal(*words, COLUMNS="1000")[1])
            self.assertIn("\\u001b[2Jx" if "--json" in words else "link ?[2Jx?2Jy?", text, words)
            self.assertIsNone(re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text), (words, text))


if __name__ == "__main__":
    suite.main()
