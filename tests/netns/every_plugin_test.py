#!/usr/bin/env python3
"""Every plugin adds, checks and deletes, on this kernel and on those of scripts/vm: ADD changes something, CHECK
nothing, and DEL leaves nothing, twice."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import daemons, suite  # noqa: E402
from support.configs import lack  # noqa: E402
from support.faults.subjects import SUBJECTS, Stage, comes_and_goes  # noqa: E402
from support.plugin import PLUGINS  # noqa: E402

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


if __name__ == "__main__":
    suite.main(needs=("iptables-restore",), daemons=True)
