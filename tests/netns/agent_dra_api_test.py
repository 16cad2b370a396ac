#!/usr/bin/env python3
"""Prepare beside an API server that is slow, busy or wrong."""

import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import ledger, suite  # noqa: E402
from support.agent import slots  # noqa: E402
from support.claims import API, DraTest, result  # noqa: E402
from support.ledger import SLOT  # noqa: E402
from support.world import wait_for  # noqa: E402

POOL = slots(4, SLOT, "eth1", ipam=ledger.pool("10.60.0.0/24"))
CLAIMS = "resourceclaims"


@suite.spread
class Api(DraTest):
    def setUp(self):
        super().setUp()
        self.start(POOL)

    def test_Prepare_waits_as_429_says(self):
        claim = self.claim("web-0-nic", result("eth1-macvlan-1"))
        self.api.fault(method="GET", path=CLAIMS, times=2, status=429, headers={"Retry-After": "1"})
        begin = time.monotonic()
        self.of.prepare(claim)
        self.assertGreaterEqual(time.monotonic() - begin, 1.5)

    @suite.cases([("refused", {"status": 403}), ("torn", {"torn": True}), ("closed", {"close": True}), ("huge", {"huge": 64 << 20}),
                  ("another object", {"body": {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}}}),
                  ("no object", {"body": []}), ("deep", {"body": b"[" * 100_000})])
    def Prepare_is_refused_by_an_answer_that_is(self, fault):
        claim = self.claim("web-0-nic", result("eth1-macvlan-1"))
        self.api.fault(method="GET", path=CLAIMS, times=1, **fault)
        self.assertIn("prepare claim 'shop/web-0-nic': ", self.refusal(claim))
        self.assertEqual(ledger.devices(), [])
        self.api.no_faults()
        self.of.prepare(claim)

    def test_a_claim_that_is_gone_or_another_one_s_is_refused(self):
        claim = self.claim("web-0-nic", result("eth1-macvlan-1"))
        self.api.remove(API, CLAIMS, "web-0-nic", "shop")
        self.assertIn("the API server has no such claim", self.refusal(claim))
        self.claim("web-0-nic", result("eth1-macvlan-1"))
        self.assertIn("with UID ", self.refusal(claim))

    def test_others_are_unprepared_while_Prepare_waits_for_the_API_server(self):
        done = self.claim("done", result("eth1-macvlan-1"))
        self.of.prepare(done)
        self.api.fault(method="GET", path=CLAIMS, times=10, slow=6)
        waiting = self.claim("waiting", result("eth1-macvlan-2"), pod="web-1")
        threads = [threading.Thread(target=self.refused_or_not, args=(waiting,), daemon=True) for _ in range(1)]
        for one in threads:
            one.start()
        self.assertTrue(wait_for(lambda: self.api.seen("GET", "waiting")))
        begin = time.monotonic()
        self.by.claim("shop", "web-9", "u9")  # nor do the plugins wait
        self.assertLess(time.monotonic() - begin, 3)
        for one in threads:
            one.join()
        self.of.unprepare(done, timeout=2)
        self.assertEqual(list(self.promises()), ["eth1:macvlan:2"])

    def refused_or_not(self, claim):
        self.of.prepare(claim)


if __name__ == "__main__":
    suite.main(per_processor=2)
