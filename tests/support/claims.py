"""ResourceClaims, as a scheduler has allocated them, and a node on which patchbay-agent serves DRA."""

import os
import uuid

from support import agent, kubelet, ledger
from support.agent import Agent
from support.api_rights import Account, node_selector
from support.api_server import ApiServer
from support.dra_kubelet import DRIVER, NODE, DraKubelet
from support.ledger import LedgerTest, make_nic, make_parent, pod_of
from support.plugin import OURS
from support.world import wait_for

API = "resource.k8s.io/v1"


def result(device, request="nic", **more):
    return {"driver": DRIVER, "pool": NODE, "device": device, "request": request} | more


def share(device, bandwidth, request="nic"):
    """A share of a device with capacities."""
    return result(device, request, shareID=str(uuid.uuid4()), consumedCapacity={"slots": "1", "bandwidth": bandwidth})


def opaque(parameters, source="FromClaim", **more):
    return {"source": source, "opaque": {"driver": DRIVER, "parameters": parameters}} | more


class DraTest(LedgerTest):
    """A node with devices, API server and kubelet."""

    def serve(self):
        """Starts the API server; the agent's kubeconfig."""
        os.makedirs("/run/api", exist_ok=True)
        self.api = ApiServer()
        self.api.account = Account("patchbay-agent.yaml", NODE)
        self.addCleanup(self.api.stop)
        return self.api.kubeconfig()

    def start(self, *pools, kubelet_options=None, driver=None, waits=True):
        """The agent with these pools, once the kubelet has registered it."""
        if reason := agent.why_impossible() or kubelet.why_impossible():
            self.skipTest(reason)
        kubeconfig = self.serve()
        self.api.create("v1", "nodes", {"metadata": {"name": NODE}})
        make_nic("dev0")
        make_parent()
        self.of = DraKubelet(**(kubelet_options or {}))
        self.addCleanup(lambda: self.of.kill())
        self.config = {"dra": {"node": NODE, "kubeconfig": kubeconfig, **(driver or {})}, "pools": list(pools)}
        self.by = Agent(config=self.config, flags=["--plugin-dir", OURS])
        self.addCleanup(self.by.process.wait)
        self.addCleanup(lambda: self.by.process.kill())
        if waits and not (kubelet_options or {}).get("refuses"):
            self.assert_registered()

    def assert_registered(self, seconds=20):
        self.assertTrue(wait_for(lambda: self.of.drivers(), seconds), self.by.log)

    def claim(self, name, *results, pod="web-0", config=(), uid=None, **status):
        """A claim that is allocated, and reserved for the pod."""
        users = [{"resource": "pods", "name": pod, "uid": uid or f"uid-{pod}"}] if pod else []
        return self.api.create(API, "resourceclaims", {"metadata": {"name": name}, "spec": {}, "status": {
            "allocation": {"devices": {"results": list(results), "config": list(config)}, "nodeSelector": node_selector(NODE)},
            "reservedFor": users} | status}, "shop")

    def prepared(self, *claims, pod="web-0"):
        """Prepares claims, and lists them as the pod's: what the kubelet does before a sandbox."""
        out = [device for one in claims for device in self.of.prepare(one)]
        self.of.own_claims("shop", pod, *claims)
        return out

    def refusal(self, claim, **more):
        """The sentence with which Prepare refuses a claim."""
        with self.assertRaises(kubelet.Refused) as caught:
            self.of.prepare(claim, **more)
        return caught.exception.text

    def promises(self):
        """{device: (pod's UID, claim)} of the ledger."""
        return {device: (one["pod"]["uid"], one["claim"]["name"]) for device in ledger.devices()
                if (one := ledger.entry(device)) and "claim" in one}

    def end(self, claim, pod="web-0"):
        """What the kubelet does when a pod has ended."""
        self.of.unprepare(claim)
        self.of.disown("shop", pod)

    @staticmethod
    def pod_of(name):
        return pod_of(name)
