#!/usr/bin/env python3
"""Claims come and go while everything else is killed or away: at the end ledger, kernel, slices and claims say the same."""

import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import kubelet, ledger, suite  # noqa: E402
from support.agent import slots  # noqa: E402
from support.claims import API, DraTest, result  # noqa: E402
from support.dra_kubelet import DRIVER  # noqa: E402
from support.ledger import SLOT  # noqa: E402
from support.world import wait_for  # noqa: E402

SLOTS, CLAIMS = 12, int(os.environ.get("PATCHBAY_DRA_CLAIMS", "60"))
#: How many seconds the API server is away at the least; scripts/test --full: 60.
AWAY = float(os.environ.get("PATCHBAY_DRA_AWAY", "0"))


class Churn(DraTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(57)
        self.live, self.waiting, self.free = {}, [], list(range(1, SLOTS + 1))  # {number: (claim, its slot, pod)}
        self.gone = None  # since when the API server is away

    def agent_dies(self):
        self.by.kill()
        self.by.start()

    def kubelet_dies(self):
        self.of.kill()
        self.of.restart()
        for number, (claim, _, _) in self.live.items():
            self.of.own_claims("shop", f"web-{number}", claim)

    def server_goes(self):
        self.api.away()
        self.gone = time.monotonic()

    def server_comes(self):
        """After its time. Until then others are killed, live pods end, and one gets its next sandbox."""
        gone, self.gone = self.gone, None
        turns = [self.agent_dies, self.replace_sandbox, self.kubelet_dies, self.replace_sandbox, self.end_any]
        for turn in range(10_000):
            if gone is None or time.monotonic() - gone >= AWAY:
                break
            turns[turn % len(turns)]()
            self.prepare_waiting()
            self.assertEqual(ledger.holders(), self.held())
            time.sleep(1)
        self.api.back()

    def replace_sandbox(self):
        """Of a claim that is prepared: the kubelet prepares it again, which the API server is not needed for."""
        if self.live:
            number = self.random.choice(sorted(self.live))
            claim, slot, pod = self.live[number]
            self.remove(pod)
            pod.remove()
            self.assertTrue(wait_for(lambda: self.is_prepared(claim, number), 20, 0.2), self.by.log)
            self.live[number] = claim, slot, self.pod()
            self.add(self.live[number][2], of=f"web-{number}")

    def is_prepared(self, claim, number):
        """False as in has_ended()."""
        try:
            return self.prepared(claim, pod=f"web-{number}")
        except kubelet.Refused:
            return False

    def end_any(self):
        if self.live:
            self.end_one()

    def begin_claim(self, number):
        slot = self.free.pop(0)
        self.waiting.append((number, slot, self.claim(f"web-{number}", result(f"eth1-macvlan-{slot}"), pod=f"web-{number}")))

    def prepare_waiting(self):
        """As a kubelet does it: what was refused, or not answered, is asked for again."""
        for one in list(self.waiting):
            number, slot, claim = one
            if not self.is_prepared(claim, number):
                continue
            pod = self.pod()
            self.add(pod, of=f"web-{number}")
            self.waiting.remove(one)
            self.live[number] = claim, slot, pod

    def has_ended(self, claim, pod):
        """False: the kubelet has no socket of the agent that lives, and tries again later."""
        try:
            self.end(claim, pod)
        except kubelet.Refused:
            return False
        return True

    def end_one(self):
        number = self.random.choice(sorted(self.live))
        claim, slot, pod = self.live[number]
        self.remove(pod)
        pod.remove()
        self.assertTrue(wait_for(lambda: self.has_ended(claim, f"web-{number}"), 20, 0.2), self.by.log)
        del self.live[number]
        self.api.remove(API, "resourceclaims", claim["metadata"]["name"], "shop")
        self.free.append(slot)

    def status_of(self, claim):
        found = self.api.get(API, "resourceclaims", claim["metadata"]["name"], "shop")["status"].get("devices", [])
        return [(one["device"], one["conditions"][0]["reason"], one["networkData"].get("ips")) for one in found if "networkData" in one]

    def test_ledger_kernel_slices_and_claims_agree_after_churn(self):
        self.start(slots(SLOTS, SLOT, "eth1", ipam=ledger.pool("10.60.0.0/24")))
        events = {CLAIMS // 5: self.agent_dies, CLAIMS * 3 // 10: self.server_goes, CLAIMS // 2: self.agent_dies, CLAIMS * 6 // 10: self.server_comes,
                  CLAIMS * 7 // 10: self.kubelet_dies, CLAIMS * 8 // 10: self.agent_dies}
        for number in range(CLAIMS):
            events.get(number, lambda: None)()
            while not self.free:
                if self.live:
                    self.end_one()
                else:  # all wait for the API server
                    self.server_comes()
                    self.assertTrue(wait_for(lambda: self.prepare_waiting() or not self.waiting, 20, 0.2), self.by.log)
            self.begin_claim(number)
            self.prepare_waiting()
            if self.live and self.random.random() < 0.4:
                self.end_one()
        self.assertTrue(wait_for(lambda: self.prepare_waiting() or not self.waiting, 20, 0.2), self.by.log)
        self.assert_agreement()
        while self.live:
            self.end_one()
        self.assertEqual((ledger.devices(), ledger.holders(), ledger.marks()), ([], {}, []))

    def held(self):
        return {f"eth1:macvlan:{slot}": pod.name for _, slot, pod in self.live.values()}

    def assert_agreement(self):
        wanted = {f"eth1:macvlan:{slot}": (f"uid-web-{number}", f"web-{number}") for number, (_, slot, _) in self.live.items()}
        self.assertEqual(self.promises(), wanted)
        self.assertEqual(ledger.holders(), self.held())
        for claim, slot, pod in self.live.values():
            addresses = [word for word in pod.run("ip", "-4", "-o", "addr", "show", "net1").split() if word.startswith("10.60.")]
            attached = [(f"eth1-macvlan-{slot}", "Attached", addresses[:1])]
            self.assertTrue(wait_for(lambda claim=claim, attached=attached: self.status_of(claim) == attached, 10),
                            f"{self.status_of(claim)}, not {attached}: {self.by.log}")

        def offered():
            return sorted(device["name"] for one in self.api.list(API, "resourceslices") if one["spec"]["driver"] == DRIVER
                          for device in one["spec"].get("devices", []))
        names = sorted(f"eth1-macvlan-{number}" for number in range(1, SLOTS + 1))
        self.assertTrue(wait_for(lambda: offered() == names, 10), offered())


if __name__ == "__main__":
    suite.main()
