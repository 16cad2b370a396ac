#!/usr/bin/env python3
"""Every plugin adds, checks and deletes, on this kernel and on those of scripts/vm: ADD changes something, CHECK
nothing, and DEL leaves nothing, twice."""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import daemons, suite  # noqa: E402
from support.configs import lack  # noqa: E402
from support.faults.subjects import LOG, SUBJECTS, Stage, comes_and_goes  # noqa: E402
from support.plugin import PLUGINS, have  # noqa: E402

#: Each plugin, and with iptables those that can.
ROWS = [name for name in SUBJECTS if name in PLUGINS or name.endswith(", iptables")]
#: What keeps no state on the node.
STATELESS = ("static",)


@suite.spread
class EveryPlugin(suite.NodeTest):
    def test_there_is_a_row_for_every_plugin(self):
        self.assertEqual({name.split(",")[0] for name in ROWS}, set(PLUGINS))

    @suite.cases([(name, name) for name in ROWS])
    def comes_and_goes(self, name):
        if reason := lack(name.split(",")[0]):
            self.skipTest(reason)
        self.addCleanup(daemons.stop)
        comes_and_goes(self, Stage(name, "ADD"), is_stateless=name in STATELESS)

    @suite.cases([(name, name) for name in ROWS])
    def locks_only_what_root_alone_can_open(self, name):
        """Who can open a file can lock it: flock(2) asks for no right."""
        if reason := lack(name.split(",")[0]) or have("strace"):
            self.skipTest(reason)
        self.addCleanup(daemons.stop)
        stage = Stage(name, "ADD")
        os.makedirs("/var/lib/cni/flannel", mode=0o755, exist_ok=True)  # as where another program made it
        self.assert_ok(stage.run("ADD", strace=["-f", "-y", "-e", "trace=flock,fcntl"]))
        with open(LOG, encoding="utf-8") as file:
            locked = set(re.findall(r"(?:flock|fcntl)\(\d+<([^>]*)>, (?:LOCK_EX|F_OFD_SETLK)", file.read()))
        self.assertEqual([path for path in locked if not path.startswith("/") or os.stat(path).st_mode & 0o007], [])


if __name__ == "__main__":
    suite.main(needs=("iptables-restore",))
