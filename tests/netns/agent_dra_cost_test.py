#!/usr/bin/env python3
"""What 500 devices and 200 claims of DRA cost the agent."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import ledger, suite  # noqa: E402
from support.agent import slots  # noqa: E402
from support.claims import DraTest, result  # noqa: E402
from support.ledger import SLOT  # noqa: E402
from support.world import wait_for  # noqa: E402

DEVICES, CLAIMS = 500, 200


class Cost(DraTest):
    def test_memory_and_processor_with_500_devices_and_200_claims(self):
        self.start(slots(DEVICES, SLOT, "eth1", ipam=ledger.pool("10.60.0.0/16")))
        claims = [self.claim(f"web-{n}-nic", result(f"eth1-macvlan-{n + 1}"), pod=f"web-{n}") for n in range(CLAIMS)]
        begin = time.monotonic()
        for claim in claims:
            self.of.prepare(claim)
        each = (time.monotonic() - begin) / CLAIMS
        for n, claim in enumerate(claims):
            self.of.own_claims("shop", f"web-{n}", claim)
        self.assertEqual(len(self.promises()), CLAIMS)
        self.assertTrue(wait_for(lambda: len(self.of.health() or ()) == DEVICES))
        pod = self.pod()
        self.add(pod)
        self.remove(pod)
        time.sleep(3)  # a burst of looks ends
        before = self.by.processor_seconds()
        time.sleep(5)
        idle = (self.by.processor_seconds() - before) / 5 * 100
        print(f"     {self.by.memory()} KiB resident, {idle:.1f} % of a processor, {self.by.threads()} threads, {each * 1000:.1f} ms a claim")
        self.assertLess(self.by.memory(), 25 * 1024)
        self.assertLess(idle, 1)
        for claim in claims:
            self.of.unprepare(claim)
        self.assertEqual(self.promises(), {})


if __name__ == "__main__":
    suite.main()
