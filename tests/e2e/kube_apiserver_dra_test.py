#!/usr/bin/env python3
"""ResourceSlices and the status of claims with the API server of Kubernetes' own libraries: scripts/kube-apiserver."""

import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, kube_apiserver, ledger, suite  # noqa: E402
from support.agent import nics, slots  # noqa: E402
from support.claims import DraTest, result  # noqa: E402
from support.kube_apiserver import KubeApiServer  # noqa: E402
from support.slices import NODE, SlicesTest, links  # noqa: E402
from support.world import run, set_up, wait_for  # noqa: E402

USER = "system:serviceaccount:kube-system:patchbay-agent"


def served(test):
    """The server, and the kubeconfig of the agent's service account on the node."""
    test.api = KubeApiServer()
    test.addCleanup(test.api.stop)
    for manifest in ("patchbay-agent.yaml", "patchbay-agent-policy.yaml", "device-classes.yaml"):
        test.api.apply(manifest)
    return test.api.account(NODE, USER, "system:serviceaccounts", node=NODE)


class Claims(DraTest):
    def serve(self):
        out = served(self)
        self.api.create("v1", "namespaces", {"metadata": {"name": "shop"}})
        return out

    def reasons(self, claim):
        found = self.api.get("resource.k8s.io/v1", "resourceclaims", claim["metadata"]["name"], "shop")
        return {one["device"]: one["conditions"][0]["reason"] for one in found["status"].get("devices", [])}

    def assert_reasons(self, claim, wanted):
        self.assertTrue(wait_for(lambda: self.reasons(claim) == wanted, 60, 0.2), f"{self.reasons(claim)}; {self.by.log}")

    def test_the_status_of_a_claim_is_right_also_after_the_server_was_away(self):
        self.start(nics("dev*", force=["dev0"], ipam=ledger.pool("10.50.0.0/24")))
        claim = self.claim("web-0-nic", result("netdev-dev0"))
        self.prepared(claim)
        self.assert_reasons(claim, {"netdev-dev0": "Prepared"})
        pod = self.pod()
        self.api.away()
        self.add(pod)
        self.api.back()
        self.assert_reasons(claim, {"netdev-dev0": "Attached"})
        self.api.kubectl("-n", "shop", "annotate", "resourceclaim", "web-0-nic", "of=person")  # another resourceVersion
        self.remove(pod)
        self.assert_reasons(claim, {"netdev-dev0": "Prepared"})
        self.end(claim)
        self.assert_reasons(claim, {})


class Slices(SlicesTest):
    def setUp(self):
        suite.NodeTest.setUp(self)
        set_up("lo")
        self.kubeconfig = served(self)
        self.api.create("v1", "nodes", {"metadata": {"name": NODE}})

    def config(self, *pools, **dra):
        return {"dra": {"node": NODE, "kubeconfig": self.kubeconfig, **dra}, "pools": list(pools)}

    def test_slices_follow_the_node_and_no_hand_spoils_them(self):
        links("eth1", "eth2", "uplink")
        by = self.agent(nics("eth*"), slots(300))
        names = {"netdev-eth1", "netdev-eth2", *(f"uplink-macvlan-{number}" for number in range(1, 301))}
        self.assert_published(names, by)
        run("ip", "link", "set", "eth1", "mtu", "1300")
        self.assert_soon(lambda: self.attribute("netdev-eth1", "mtu") == 1300 and self.is_whole(), by)
        for spoil in (("delete", self.slices()[0]["metadata"]["name"]), ("patch", self.slices()[0]["metadata"]["name"], "--type=json", "-p",
                                                                         '[{"op": "remove", "path": "/spec/devices/0"}]'), ("delete", "--all")):
            self.api.kubectl(spoil[0], "resourceslices", *spoil[1:])
            self.assert_published(names, by, 30)
        for _ in range(2):
            by.kill()
            self.api.away()
            run("ip", "link", "set", "eth1", "mtu", "1280")
            by.start()
            time.sleep(1)
            self.api.back()
            self.assert_soon(lambda: self.attribute("netdev-eth1", "mtu") == 1280 and self.is_whole(), by, 60)
            self.api.compact()
            run("ip", "link", "set", "eth1", "mtu", "1300")
            self.assert_soon(lambda: self.attribute("netdev-eth1", "mtu") == 1300 and self.is_whole(), by, 60)

    def test_the_policy_refuses_slices_of_another_node(self):
        links("eth1")
        self.kubeconfig = self.api.account("n2", USER, "system:serviceaccounts", node="n2")
        by = self.agent(nics("eth*"))
        self.assertTrue(wait_for(lambda: "changes ResourceSlices of its own node alone" in by.log, 20), by.log)
        self.assertEqual(self.slices(), [])

    def test_a_server_that_stops_and_a_token_that_is_rotated(self):
        links("eth1")
        by = self.agent(nics("eth*"))
        self.assert_published(["netdev-eth1"], by)
        self.api.server.process.send_signal(signal.SIGSTOP)
        links("eth2")
        time.sleep(5)
        self.api.server.process.send_signal(signal.SIGCONT)
        self.assert_published(["netdev-eth1", "netdev-eth2"], by, 60)
        self.api.rotate(NODE)
        links("eth3")
        self.assertTrue(wait_for(lambda: "401" in by.log, 30), by.log)
        self.api.hand_out(NODE)
        self.assert_published(["netdev-eth1", "netdev-eth2", "netdev-eth3"], by, 60)


if __name__ == "__main__":
    reason = kube_apiserver.why_impossible() or agent.why_impossible()
    suite.main() if not reason else (print(f"skip everything: {reason}"), sys.exit(suite.SKIPPED))
