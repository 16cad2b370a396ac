#!/usr/bin/env python3
"""A device of a pod whose sandbox patchbay-agent has seen to end, by NRI, is free as soon as the kubelet's word allows it."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import ledger, suite  # noqa: E402
from support.nri_node import IDS, NriNode  # noqa: E402
from support.nri_runtime import Sandbox  # noqa: E402
from support.world import wait_for  # noqa: E402


class Free(NriNode):
    def test_a_device_is_free_30_s_after_its_pods_sandbox_was_removed(self):
        of, web = self.runtime(), Sandbox("web")
        self.agent()
        self.admit(web, IDS[0])
        of.run(web)
        self.quiet()
        self.of.disown(web.space, web.name)
        of.stop_sandbox(web)
        of.remove(web)
        begun = time.monotonic()
        self.assertTrue(wait_for(lambda: not ledger.devices(), 40), self.by.log)
        self.assertGreater(time.monotonic() - begun, 25, "a kubelet that has just started lists nothing: two looks")
        self.assertLess(time.monotonic() - begun, 34)


if __name__ == "__main__":
    suite.main()
