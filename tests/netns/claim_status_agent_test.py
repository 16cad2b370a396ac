#!/usr/bin/env python3
"""The agent writes what it prepares and CNI attaches into the status of claims, and waits for no API server."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import ledger, suite  # noqa: E402
from support.agent import Agent, nics, slots  # noqa: E402
from support.claims import DraTest, result  # noqa: E402
from support.ledger import SLOT  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.world import wait_for  # noqa: E402

POOLS = [nics("dev*", force=["dev0"], ipam=ledger.pool("10.50.0.0/24")), slots(4, SLOT, "eth1", ipam=ledger.pool("10.60.0.0/24"))]


@suite.spread
class Status(DraTest):
    def devices(self, claim):
        found = self.api.get("resource.k8s.io/v1", "resourceclaims", claim["metadata"]["name"], claim["metadata"]["namespace"])
        return {one["device"]: one for one in found["status"].get("devices", [])}

    def reasons(self, claim):
        return {name: one["conditions"][0]["reason"] for name, one in self.devices(claim).items()}

    def assert_reasons(self, claim, wanted, timeout=10):
        self.assertTrue(wait_for(lambda: self.reasons(claim) == wanted, timeout), f"{self.reasons(claim)}; {self.by.log}")

    def test_a_status_is_right_from_prepare_to_unprepare(self):
        self.start(*POOLS)
        claim = self.claim("web-0-nic", result("netdev-dev0"), result("eth1-macvlan-2", "slot"))
        self.prepared(claim)
        self.assert_reasons(claim, {"netdev-dev0": "Prepared", "eth1-macvlan-2": "Prepared"})
        pod = self.pod()
        made = self.add(pod)
        self.assert_reasons(claim, {"netdev-dev0": "Attached", "eth1-macvlan-2": "Attached"})
        shown = {one["networkData"]["interfaceName"]: one["networkData"] for one in self.devices(claim).values()}
        for index, one in enumerate(made["interfaces"]):
            if one["name"] in shown and one.get("sandbox"):
                self.assertEqual(shown[one["name"]]["hardwareAddress"], one["mac"])
                self.assertEqual(shown[one["name"]]["ips"], [ip["address"] for ip in made["ips"] if ip.get("interface") == index])
        self.assertEqual(set(shown), {"net1", "net2"})
        self.remove(pod)
        self.assert_reasons(claim, {"netdev-dev0": "Prepared", "eth1-macvlan-2": "Prepared"})
        self.end(claim)
        self.assert_reasons(claim, {})

    def test_neither_ADD_nor_Unprepare_waits_for_an_API_server_that_is_silent(self):
        self.start(*POOLS)
        claim = self.claim("web-0-nic", result("netdev-dev0"))
        self.prepared(claim)
        self.assert_reasons(claim, {"netdev-dev0": "Prepared"})
        self.api.fault(path="resourceclaims", times=10**6, slow=60)
        pod = self.pod()
        begun = time.monotonic()
        self.add(pod)
        self.remove(pod)
        self.end(claim)
        self.assertLess(time.monotonic() - begun, 5)
        self.assertEqual(self.by.stop(), 0)

    def test_a_token_that_is_written_anew_ends_the_wait_after_401(self):
        self.start(*POOLS)
        self.by.stop()
        self.assertTrue(wait_for(lambda: not self.of.drivers(), 10))
        self.config["dra"]["kubeconfig"] = self.api.kubeconfig(user="tokenFile")
        self.by = Agent(config=self.config, flags=["--plugin-dir", OURS])
        self.addCleanup(self.by.kill)
        self.assert_registered()
        claim = self.claim("web-0-nic", result("netdev-dev0"))
        self.prepared(claim)
        self.assert_reasons(claim, {"netdev-dev0": "Prepared"})
        self.api.rotate("second-token")
        self.add(self.pod())
        refused = lambda: [one for one in self.api.seen("GET", "resourceclaims/web-0-nic") if one["code"] == 401]  # noqa: E731
        self.assertTrue(wait_for(lambda: len(refused()) == 3, 15), "after 1 and 2 s and a half more: the next is 4 s later")
        self.api.kubeconfig(user="tokenFile")
        self.assert_reasons(claim, {"netdev-dev0": "Attached"}, timeout=2.5)

    def test_an_agent_that_was_killed_corrects_what_changed_meanwhile(self):
        self.start(*POOLS)
        claim = self.claim("web-0-nic", result("netdev-dev0"))
        self.prepared(claim)
        pod = self.pod()
        self.add(pod)
        self.assert_reasons(claim, {"netdev-dev0": "Attached"})
        self.by.kill()
        self.remove(pod)
        self.by.start()
        self.assert_reasons(claim, {"netdev-dev0": "Prepared"})


if __name__ == "__main__":
    suite.main(per_processor=2)
