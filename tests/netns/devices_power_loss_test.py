#!/usr/bin/env python3
"""The power fails during ADD or DEL of a pod with a device, and patchbay-agent is down when the node comes back: whatever of the
ledger is on the disk then, the pod does not start without its device. With patchbay-agent it starts."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import ledger, power_loss, suite  # noqa: E402
from support.ledger import LEDGER, LedgerTest, make_nic  # noqa: E402


@suite.spread
class PowerLoss(LedgerTest):
    def losses(self, verb):
        """All ledgers that the disk may hold if the power fails during a verb. Allocate has promised the device, which is on the
        disk. patchbay-agent writes the pod that claims it, without fsync."""
        make_nic("dev0")
        ledger.put("dev0")
        disk = power_loss.Disk(LEDGER, power_loss.read(LEDGER))
        ledger.put("dev0", pod=ledger.pod_of("web-0"), promised=ledger.entry("dev0")["promised"])
        disk.replace("dev0")
        self.play({"web-0": ["dev0"]})
        pod = self.pod()
        if verb == "DEL":
            self.add(pod)
            disk = power_loss.Disk(LEDGER, power_loss.read(LEDGER))
        outcome = self.call(verb, pod, options={"wrap": power_loss.strace("/run/calls")})
        self.assertTrue(outcome.ok, str(outcome))
        found = power_loss.replay("/run/calls", disk)
        _, everything = next(disk.after_a_loss())
        self.assertEqual(everything, power_loss.read(LEDGER), "the model has another result than the run")
        self.assertGreater(len(found), 2)
        self.remove(pod)
        pod.remove()
        self.agent.stop()
        self.agent = None
        return found

    @suite.cases([("ADD", "ADD"), ("DEL", "DEL")])
    def no_pod_starts_without_its_device_after_a_loss_during(self, verb):
        for after, what, files in self.losses(verb):
            with self.subTest(f"{what}, after {after}"):
                power_loss.write(LEDGER, files)
                pod = self.pod()
                self.assert_error(self.call("ADD", pod), 11, "device 'dev0'")
                if ledger.entry("dev0") is None:  # patchbay-agent writes it again from what the kubelet lists
                    ledger.put("dev0")
                self.play({"web-0": ["dev0"]})
                self.add(pod)
                self.agent.stop()
                self.agent = None
                self.ping(pod, "10.50.0.1")
                self.remove(pod)
                pod.remove()
                self.remove(None, container="pod1", options={"netns": ""})  # the late DEL of the runtime
                self.assertEqual((ledger.holders(), ledger.marks()), ({}, []))


if __name__ == "__main__":
    suite.main(needs=("strace",))
