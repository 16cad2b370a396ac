#!/usr/bin/env python3
"""The status of ResourceClaims beside writers, deletions and refusals at the worst moment: nothing of others is lost, nothing
is written to another claim, and nothing is asked for ever."""

import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.ledger import LEDGER  # noqa: E402
from support.world import wait_for  # noqa: E402

from claim_status_test import API, ATTACHED, CLAIMS, OTHERS, PREPARED, StatusTest, allocated  # noqa: E402

LARGE = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "data": {"text": "x" * 100_000}}


@suite.spread
class Enemy(StatusTest):
    def between(self):
        """Waits until the claim has been read, and not written yet: the answer comes late."""
        self.api.fault(method="GET", path=CLAIMS, late=1)
        self.start()
        self.assertTrue(wait_for(lambda: any(one["code"] == 200 for one in self.api.seen("GET")), 5), self.lines())

    def test_100_KB_of_another_driver_stay_as_they_are(self):
        self.prepare(self.claim(others=[LARGE]))
        self.start()
        self.assert_ready({"d1": PREPARED})
        self.attach()
        self.assert_ready({"d1": ATTACHED})
        self.assertEqual(self.devices()[0], LARGE)

    def test_what_another_driver_writes_between_read_and_write_stays(self):
        uid = self.claim(others=OTHERS)
        self.prepare(uid)
        self.between()
        changed = [OTHERS[0] | {"data": {"new": 1}}, OTHERS[1]]
        self.api.patch(API, CLAIMS, "web-0", {"status": {"devices": changed}, "metadata": {"labels": {"a": "b"}}}, "shop", "status")
        self.assert_ready({"d1": PREPARED})
        self.assertEqual(self.devices()[:2], changed)

    def test_a_claim_that_is_deleted_between_read_and_write_is_no_failure(self):
        self.prepare(self.claim())
        self.between()
        self.api.remove(API, CLAIMS, "web-0", "shop")
        self.assertTrue(wait_for(lambda: self.api.seen("PATCH"), 5))
        time.sleep(1)
        self.assertEqual((len(self.api.seen("PATCH")), self.lines()), (1, []))

    def test_a_claim_of_that_name_that_is_made_between_read_and_write_gets_nothing(self):
        self.prepare(self.claim())
        self.between()
        self.api.remove(API, CLAIMS, "web-0", "shop")
        self.claim(others=OTHERS)
        self.assertTrue(wait_for(lambda: len(self.api.seen("GET")) > 1, 5), "its version is another: read again")
        time.sleep(0.5)
        self.assertEqual(self.devices(), OTHERS)

    def test_a_claim_that_is_allocated_elsewhere_meanwhile_gets_none_of_ours(self):
        self.prepare(self.claim())
        self.start()
        self.assert_ready({"d1": PREPARED})
        with self.api.store.changed:
            status = self.api.get(API, CLAIMS, "web-0", "shop")["status"]
            status["allocation"]["devices"]["results"] = [allocated("devices.patchbay", "n2", "d1")]
            self.api.patch(API, CLAIMS, "web-0", {"status": status | {"devices": []}}, "shop", "status")
        asked = len(self.api.seen("GET"))
        self.assertTrue(wait_for(lambda: len(self.api.seen("GET")) > asked, 6))
        time.sleep(0.3)
        self.assertEqual((self.devices(), self.lines()), ([], []))

    def test_a_change_of_the_ledger_is_seen_while_many_claims_wait(self):
        """As after a start of the agent, with an API server that takes its time."""
        for number in range(8):
            self.prepare(self.claim(f"web-{number}", [f"d{number}"]), f"web-{number}", f"d{number}")
        self.api.fault(path=CLAIMS, times=1000, slow=0.1)
        self.start()
        self.assertTrue(wait_for(lambda: self.writes(), 5), self.lines())
        last = max((f"web-{number}" for number in range(8)), key=lambda name: self.api.get(API, CLAIMS, name, "shop")["metadata"]["uid"])
        self.assertEqual(self.devices(last), [])
        self.attach(last.replace("web-", "d"))
        self.assert_ready({last.replace("web-", "d"): ATTACHED}, last)
        written = [one["at"] for one in self.api.seen("PATCH", f"{last}/")]
        self.assertEqual(len(written), 1, "never what is not so any more")

    def test_claims_that_ended_and_are_refused_are_not_asked_for_ever(self):
        self.api.fault(path=CLAIMS, times=1_000_000, status=403, reason="Forbidden", message='User "u" cannot get resource "resourceclaims"')
        self.prepare("u", "web", "d")
        with open(f"{LEDGER}/d", encoding="utf-8") as file:
            entry = json.load(file)
        os.unlink(f"{LEDGER}/d")
        names = [f"d{number}" for number in range(1_100)]
        for name in names:
            entry["id"] = entry["claim"]["device"] = name
            entry["claim"]["uid"] = entry["claim"]["name"] = f"claim-{name}"
            with open(f"{LEDGER}/{name}", "w", encoding="utf-8") as file:
                json.dump(entry, file)
        self.start()
        self.assertTrue(wait_for(lambda: len(self.api.seen("GET")) > 20, 10), self.lines())
        for name in names:
            os.unlink(f"{LEDGER}/{name}")
        time.sleep(1)  # until it has looked
        asked = len(self.api.seen("GET"))
        time.sleep(1)
        self.assertEqual(len(self.api.seen("GET")), asked)
        self.api.no_faults()
        self.prepare(self.claim())
        self.assert_ready({"d1": PREPARED})
        self.assertEqual(len([line for line in self.lines() if line["level"] == "warning"]), 1)


if __name__ == "__main__":
    suite.main(per_processor=2)
