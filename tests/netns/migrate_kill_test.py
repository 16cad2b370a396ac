#!/usr/bin/env python3
"""MIGRATE is killed at each change that it makes: traffic goes on, and a second one or DEL completes it.
With PATCHBAY_SWEEP_STEP at fewer calls: support/rows.py."""

import json
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import rows, suite  # noqa: E402
from support.cnitool import cached  # noqa: E402
from support.migration import MigrateTest, network  # noqa: E402
from support.plugin import cni  # noqa: E402
from support.steady import Echoes  # noqa: E402

#: What of an attachment's chain has two forms.
CHAIN = {"bridge": 0, "portmap": 1, "firewall": 3}
#: System calls that change something: netlink messages, state files, programs.
CHANGES = "sendmsg,sendto,write,renameat,renameat2,linkat,unlinkat,execve"


@suite.spread
class Killed(MigrateTest):
    def killed(self, pod, plugin, back, at):
        """One MIGRATE that is killed at that change. False: there are fewer."""
        doc = cached("net", pod.name)
        conf = json.loads(doc["config"])["plugins"][CHAIN[plugin]]
        conf |= {"cniVersion": "1.0.0", "name": "net", "prevResult": doc["result"],
                 "runtimeConfig": doc.get("capabilityArgs", {})}
        if back:
            conf["patchbay/form"] = "reference"
        done = cni(plugin, "MIGRATE", conf, netns=pod.path, container=pod.name, wrap=[
            "strace", "-qq", "-o", "/dev/null", "-e", f"inject={CHANGES}:signal=KILL:when={at}"])
        if done.status == 0:
            return False
        self.assertIn(done.status, (-signal.SIGKILL, 137), str(done))
        return True

    @suite.cases([(f"{plugin}, {'back' if back else 'forth'}", (plugin, back))
                  for plugin in CHAIN for back in (False, True)])
    def whatever_change_kills_it_traffic_goes_on_and_it_is_completed_or_deleted(self, row):
        plugin, back = row
        self.begin(network("nftables" if plugin == "firewall" else None), 1)
        again, before = ("--back",) if back else (), () if back else ("--back",)
        kills, at = 0, 1 + rows.OFFSET % min(rows.STEP, 6)
        while True:
            pod = next(iter(self.all.values()))
            self.migrate(*before)
            if not self.killed(pod, plugin, back, at):
                break
            kills += 1
            self.assert_works()
            if kills % 2:
                self.migrate(*again)
                self.assert_migrated("ok", *again)
                self.assert_works()
            else:
                self.delete(pod)
                pod.remove()
                Echoes(self, [self.add(directory="/run/reference")])
            at += min(rows.STEP, 6)
        self.assertGreater(kills, 0)
        self.assert_nothing_left()


if __name__ == "__main__":
    suite.main(needs=("iptables", "ip6tables", "strace"))
