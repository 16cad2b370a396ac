#!/usr/bin/env python3
"""Claims of DRA while patchbay-agent, the kubelet or the API server are killed or away: what the drivers that attach by NRI lose."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import ledger, suite  # noqa: E402
from support.agent import nics, slots  # noqa: E402
from support.claims import DraTest, result  # noqa: E402
from support.ledger import LEDGER, NIC, SLOT  # noqa: E402
from support.world import run, wait_for  # noqa: E402

POOLS = [nics("dev*", force=["dev0"], ipam=ledger.pool("10.50.0.0/24")),
         slots(4, SLOT, "eth1", ipam=ledger.pool("10.60.0.0/24"))]
#: Who is killed between two steps, and whether it is started again.
KILLS = [(f"{who} {moment}, and {'started again' if again else 'away'}", (who, moment, again))
         for who in ("the agent", "the kubelet", "the API server") for again in (True, False)
         for moment in ("after Prepare", "after ADD", "after DEL")]


def rewrite(device, **changes):
    path = f"{LEDGER}/{device}"
    with open(path, encoding="utf-8") as file:
        entry = json.load(file)
    entry["claim"] |= changes.pop("claim", {})
    with open(path, "w", encoding="utf-8") as file:
        json.dump(entry | changes, file)


@suite.spread
class Kills(DraTest):
    def kill(self, who, again):
        if who == "the API server":
            self.api.away()
            if again:
                self.api.back()
            return
        {"the agent": self.by.kill, "the kubelet": self.of.kill}[who]()
        if again:
            {"the agent": self.by.start, "the kubelet": self.of.start}[who]()

    def has_driver(self):
        """Whether the kubelet has an instance that answers; by then it has done without."""
        if self.of.process.poll() is not None:
            self.of.start()
        if self.by.process.poll() is not None:
            self.by.start()
        return wait_for(lambda: any(os.path.exists(one) for one in self.of.drivers()), 20)

    @suite.cases(KILLS)
    def a_claim_is_attached_and_returned_though(self, row):
        who, moment, again = row
        self.start(*POOLS)
        claim = self.claim("web-0-nic", result("netdev-dev0"), result("eth1-macvlan-1", "slot"))
        self.prepared(claim)
        if moment == "after Prepare":
            self.kill(who, again)
            if who == "the kubelet" and again:
                self.of.own_claims("shop", "web-0", claim)
        pod = self.pod()
        if who == "the kubelet" and moment == "after Prepare" and not again:
            # The agent answers what the ledger says only beside what the kubelet lists.
            self.assert_error(self.call("ADD", pod), 11)
            self.of.start()
            self.of.own_claims("shop", "web-0", claim)
        made = self.add(pod)
        self.assertEqual(len(made["interfaces"]), 3)
        self.assertEqual(ledger.holders(), {"netdev:dev0": pod.name, "eth1:macvlan:1": pod.name})
        if moment == "after ADD":
            self.kill(who, again)
        self.remove(pod)
        self.assertEqual(ledger.holders(), {})
        if moment == "after DEL":
            self.kill(who, again)
        self.assertTrue(self.has_driver(), self.by.log)
        self.assertTrue(wait_for(lambda: self.is_unprepared(claim)), self.by.log)
        self.assertEqual(ledger.devices(), [])
        self.assertIn("dev0", self.names())

    def is_unprepared(self, claim):
        try:
            self.of.unprepare(claim)
            return True
        except Exception:  # noqa: BLE001 the socket of a killed instance, which goes soon
            return False


class Reports(DraTest):
    def test_dranet_88_and_nri_142_a_pod_gets_its_device_while_the_driver_is_updated(self):
        self.start(*POOLS)
        self.prepared(self.claim("web-0-nic", result("eth1-macvlan-1")))
        self.by.kill()  # and is slow to come back
        pod = self.pod()
        self.assertEqual(len(self.add(pod)["interfaces"]), 2)
        other = self.pod()
        self.assertEqual(len(self.add(other, of="web-1")["interfaces"]), 1)  # of which no claim names the UID
        self.remove(pod)
        self.assertEqual(list(self.promises()), ["eth1:macvlan:1"])

    def test_dranet_232_what_nobody_lists_yet_is_not_pruned(self):
        self.start(*POOLS)
        claim = self.claim("web-0-nic", result("eth1-macvlan-1"))
        self.of.prepare(claim)
        self.by.kill()
        entry = ledger.entry("eth1:macvlan:1") | {"promised": 1}
        rewrite("eth1:macvlan:1", promised=1)
        self.by.start()  # lists pods, of which none has the claim
        self.assertTrue(wait_for(self.by.status), self.by.log)
        self.assertEqual(ledger.entry("eth1:macvlan:1"), entry)
        self.of.own_claims("shop", "web-0", claim)
        self.assertEqual(len(self.add(self.pod())["interfaces"]), 2)

    def test_cni_dra_driver_11_DEL_is_called_and_ADD_twice_attaches_once(self):
        self.start(*POOLS)
        claim = self.claim("web-0-nic", result("netdev-dev0"))
        self.prepared(claim)
        pod = self.pod()
        self.add(pod)
        self.assert_error(self.call("ADD", pod), 999, "call DEL")
        self.assertEqual(ledger.holders(), {"netdev:dev0": pod.name})
        self.remove(pod)
        self.remove(pod)
        self.assertEqual((ledger.holders(), "dev0" in self.names()), ({}, True))
        pod = self.pod()  # the pod's next sandbox, of the same promise
        self.add(pod)
        self.assertEqual(ledger.holders(), {"netdev:dev0": pod.name})

    def test_after_a_boot_no_link_is_attached_by_the_name_that_it_had_before(self):
        self.start(*POOLS)
        claim = self.claim("web-0-nic", result("netdev-dev0"))
        self.prepared(claim)
        self.by.kill()
        rewrite("netdev:dev0", claim={"boot": "an earlier one"}, plugins=json.dumps(ledger.nic("was-dev0")))
        self.assert_error(self.call("ADD", self.pod()), 11, "patchbay-agent has not looked for its link since the boot")
        self.by.start()
        self.assertEqual(len(self.add(self.pod())["interfaces"]), 2)  # by the name that it has now
        self.assertEqual(json.loads(ledger.entry("netdev:dev0")["plugins"])[0]["device"], "dev0")

    def test_Unprepare_needs_neither_API_server_nor_namespace_nor_promise(self):
        self.start(*POOLS)
        claims = [self.claim(f"web-{n}", result(f"eth1-macvlan-{n}")) for n in (1, 2)]
        self.prepared(*claims)
        pod = self.pod()
        self.add(pod)
        self.api.away()
        pod.remove()
        self.of.unprepare(claims[0], timeout=3)
        self.of.unprepare(claims[0], timeout=3)
        os.unlink(f"{LEDGER}/eth1:macvlan:2")
        self.of.unprepare(claims[1], timeout=3)
        self.of.unprepare({"metadata": {"namespace": "shop", "name": "never", "uid": "seen"}}, timeout=3)
        self.assertEqual(self.promises(), {})

    def test_Prepare_is_answered_from_the_ledger_while_the_API_server_is_away(self):
        self.start(*POOLS)
        claim = self.claim("web-0-nic", result("netdev-dev0"))
        before = self.prepared(claim)
        self.api.away()
        self.of.restart()  # and prepares all claims again
        self.assert_registered()
        self.assertEqual(self.of.prepare(claim), before)
        other = self.claim("web-1-nic", result("eth1-macvlan-1"), pod="web-1")
        self.assertIn("the API server cannot be asked", self.refusal(other))
        self.api.back()
        self.of.prepare(other)


if __name__ == "__main__":
    suite.main(per_processor=2)
