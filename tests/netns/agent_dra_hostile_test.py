#!/usr/bin/env python3
"""A driver of DRA beside a kubelet that sends what no kubelet does, and an API server that does not answer."""

import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import ledger, suite  # noqa: E402
from support.agent import slots  # noqa: E402
from support.claims import API, DraTest, opaque, result  # noqa: E402
from support.dra_kubelet import encode  # noqa: E402
from support.kubelet import Refused  # noqa: E402
from support.ledger import SLOT  # noqa: E402
from support.world import wait_for  # noqa: E402

POOL = slots(4, SLOT, "eth1", ipam=ledger.pool("10.60.0.0/24"))
CLAIMS = "resourceclaims"


@suite.spread
class Hostile(DraTest):
    def setUp(self):
        super().setUp()
        self.start(POOL)

    def test_Prepare_is_answered_in_time_though_the_API_server_does_not_answer(self):
        self.api.fault(method="GET", path=CLAIMS, times=10, slow=60)
        begin = time.monotonic()
        self.assertIn("the API server cannot be asked", self.refusal(self.claim("web-0-nic", result("eth1-macvlan-1"))))
        self.assertLess(time.monotonic() - begin, 30)

    def test_Prepare_of_a_kubelet_that_was_killed_meanwhile_prepares_nothing(self):
        claim = self.claim("web-0-nic", result("eth1-macvlan-1"))
        self.api.fault(method="GET", path=CLAIMS, times=1, slow=4)
        asked = threading.Thread(target=lambda: self.assertRaises(Exception, self.of.prepare, claim))
        asked.start()
        self.assertTrue(wait_for(lambda: self.api.seen("GET", CLAIMS)))
        self.of.kill()
        asked.join()
        self.assertTrue(wait_for(lambda: "the kubelet has hung up" in self.by.log, 15), self.by.log)
        self.assertEqual(ledger.devices(), [])

    @suite.cases([("too many claims", (["claim"] * 300, "INVALID_ARGUMENT")), ("a claim twice", (["same", "same"], "INVALID_ARGUMENT"))])
    def a_call_is_refused_with(self, row):
        names, code = row
        claims = [{"metadata": {"namespace": "shop", "name": name, "uid": name if name == "same" else f"{name}-{n}"}} for n, name in enumerate(names)]
        for method in ("NodePrepareResources", "NodeUnprepareResources"):
            with self.assertRaises(Refused) as caught:
                self.of.call(method, *claims)
            self.assertEqual(caught.exception.code, code)

    def test_claims_as_long_as_the_API_takes_them_cost_no_memory(self):
        """A namespace's user writes 32 configs of 10 KiB; in the allocation they are once more."""
        self.assertIn("more than 262144 bytes", self.refusal(self.claim("long", result("eth1-macvlan-1"), config=[
            opaque({"plugins": [{"type": "macvlan", "args": {"x": [[1]] * 2300}}]}) for _ in range(64)])))
        claims = [self.claim(f"web-{n}", result(f"eth1-macvlan-{n + 1}"), pod=f"web-{n}", config=[
            opaque({"plugins": [{"type": "macvlan", "args": {"x": [[1]] * 2300}}]}) for _ in range(20)]) for n in range(4)]
        callers = [threading.Thread(target=self.of.prepare, args=(claim,)) for claim in claims]
        for step in (threading.Thread.start, threading.Thread.join):
            for caller in callers:
                step(caller)
        self.assertEqual(len(self.promises()), 4)
        self.assertTrue(wait_for(lambda: self.by.memory() < 25 << 10, 5), self.by.memory())
        self.assertLess(self.by.most_memory(), 64 << 10)  # the limit in conf-examples/kubernetes

    def test_claims_that_grew_after_Prepare_cost_the_writer_of_their_status_no_memory(self):
        claims = [self.claim(f"web-{n}", result(f"eth1-macvlan-{n + 1}"), pod=f"web-{n}") for n in range(4)]
        for n, claim in enumerate(claims):
            self.of.prepare(claim)
            self.assertTrue(wait_for(lambda n=n: "devices" in self.api.get(API, CLAIMS, f"web-{n}", "shop")["status"], 10))
            self.api.patch(API, CLAIMS, f"web-{n}", {"metadata": {"managedFields": [[[1]] * 90_000] * 2}}, "shop")
        reads = len(self.api.seen("GET", "resourceclaims/web-"))
        for claim in claims:
            self.of.unprepare(claim)
        self.assertTrue(wait_for(lambda: len(self.api.seen("GET", "resourceclaims/web-")) >= reads + 4, 10))
        self.assertTrue(wait_for(lambda: self.by.memory() < 25 << 10, 5), self.by.memory())

    def test_names_and_bytes_that_no_kubelet_sends_end_nothing(self):
        for wrong in ({"namespace": "../../nodes", "name": "n1", "uid": "u"}, {"namespace": "shop", "name": "x" * 5000, "uid": "u"},
                      {"namespace": "", "name": "", "uid": "u"}, {"namespace": "shop", "name": "a?b", "uid": "u"},
                      {"namespace": "..", "name": "x", "uid": "u"}, {"namespace": "shop", "name": "..", "uid": "u"}):
            self.assertIn("prepare claim", self.refusal({"metadata": wrong}))
        self.of.unprepare({"metadata": {"namespace": "", "name": "", "uid": ""}})
        for data in (b"\xff" * 40, b"\x0a\xff\xff\xff\xff\x0f", encode("Claims", {"claims": [{"uid": "u" * 2_000_000}]})):
            self.assertNotEqual(self.of.raw("NodePrepareResources", data), "OK")
        self.assertEqual([one["path"] for one in self.api.seen("GET", "/resource.k8s.io/v1/(resourceclaims|namespaces/[^/]*/[^/]*$)")], [])
        self.assertNotIn("nodes/n1", [one["path"] for one in self.api.seen("GET")])
        self.of.prepare(self.claim("web-0-nic", result("eth1-macvlan-1")))
        self.assertLess(self.by.memory(), 30_000)


if __name__ == "__main__":
    suite.main(per_processor=2)
