#!/usr/bin/env python3
"""docs/pod-without-network.md: each symptom is made, and the command of its row prints what the row says."""

import os
import re
import shlex
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import CONF_DIR, cnitool, use  # noqa: E402
from support.plugin import ROOT  # noqa: E402
from support.world import run  # noqa: E402

ROW = re.compile(r"^\| (\d) \| ([^|]+) \| `cnitool ([^`]+)` \| `([^`]+)` \|", re.MULTILINE)
with open(os.path.join(ROOT, "docs/pod-without-network.md"), encoding="utf-8") as page:
    ROWS = [(symptom, (number, command, words)) for number, symptom, command, words in ROW.findall(page.read())]


def network(subnet="10.1.2.0/24"):
    return {"cniVersion": "1.1.0", "name": "net", "plugins": [
        {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "hairpinMode": True,
         "ipam": {"type": "host-local", "subnet": subnet}}]}


@suite.spread
class PodWithoutNetwork(suite.NodeTest):
    def setUp(self):
        super().setUp()
        self.node_pod = self.pod()

    def add(self, conflist):
        use(conflist)
        got = cnitool("add", "net", self.node_pod.path)
        self.assertEqual(got.status, 0, str(got))

    def make_1(self):
        use(network())
        with open(f"{CONF_DIR}/10-test.conflist", "a", encoding="ascii") as file:
            file.write("}")
        self.assertEqual(cnitool("add", "net", self.node_pod.path).status, 1)

    def make_2(self):
        use({"cniVersion": "1.1.0", "name": "net", "plugins": [{"type": "brigde"}]})
        self.assertEqual(cnitool("add", "net", self.node_pod.path).status, 1)

    def make_3(self):
        self.add(network("10.1.2.0/30"))
        self.assertEqual(cnitool("add", "net", self.pod().path).status, 1)

    def make_4(self):
        self.add(network())
        self.node_pod.run("ip", "link", "del", "eth0")

    def make_5(self):
        self.add(network())
        run("ip", "link", "del", "cni0")

    def make_6(self):
        self.add(network())
        run("iptables", "-P", "FORWARD", "DROP")

    def make_7(self):
        self.add(network())
        self.node_pod.run("ip", "addr", "flush", "dev", "eth0")

    @suite.cases(ROWS)
    def symptom(self, row):
        number, command, words = row
        getattr(self, f"make_{number}")()
        command = command.replace("$NETNS", self.node_pod.path).replace("$NET", "net")
        got = cnitool(*shlex.split(command))
        self.assertIn(words, got.stdout + got.stderr)

    def test_every_row_has_its_symptom(self):
        self.assertEqual([row[0] for _, row in ROWS], list("1234567"))


if __name__ == "__main__":
    suite.main(needs=("iptables",))
