#!/usr/bin/env python3
"""Claims of DRA that a pod must not start with, or must not start without: shared ones, lost ones, and their parameters."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import ledger, suite  # noqa: E402
from support.agent import slots  # noqa: E402
from support.claims import API, DraTest, opaque, result  # noqa: E402
from support.dra_kubelet import NODE  # noqa: E402
from support.ledger import LEDGER, SLOT  # noqa: E402
from support.world import run, wait_for  # noqa: E402

POOL = slots(4, SLOT, "eth1", ipam=ledger.pool("10.60.0.0/24"))
FIRST = "eth1:macvlan:1"


@suite.spread
class Pods(DraTest):
    def setUp(self):
        super().setUp()
        self.start(POOL)

    def test_a_claim_of_two_pods_is_refused_with_the_reason(self):
        claim = self.claim("shared", result("eth1-macvlan-1"), reservedFor=[
            {"resource": "pods", "name": f"web-{n}", "uid": f"uid-web-{n}"} for n in range(2)])
        self.assertIn("2 pods have reserved it: a device is moved into one pod. Give each pod a claim of its own", self.refusal(claim))

    def test_a_pod_that_reserves_a_prepared_claim_later_does_not_start(self):
        claim = self.claim("shared", result("eth1-macvlan-1"))
        self.prepared(claim)
        self.of.own_claims("shop", "web-1", claim)  # the kubelet does not prepare it again
        self.of.own_claims("shop", "web-0", claim)
        pod = self.pod()
        self.add(pod)
        self.by.claim("shop", "web-1", "uid-web-1")
        other = self.pod()
        self.assert_error(self.call("ADD", other, of="web-1"), 7,
                          "claim 'shop/shared' of pod 'shop/web-1' was prepared for pod 'shop/web-0', and a device is in one pod")

    @suite.cases([("before the kubelet was asked", False), ("after the kubelet has listed the claim", True)])
    def a_pod_that_reserves_a_claim_whose_entry_was_lost_does_not_start(self, is_listed):
        claim = self.claim("shared", result("eth1-macvlan-1"))
        self.prepared(claim)
        lists = lambda: self.of.ask("rules")["List"]  # noqa: E731
        if is_listed:
            self.assertTrue(wait_for(lists, 20), self.by.log)
            self.by.kill()
            os.unlink(f"{LEDGER}/{FIRST}")
            self.by.start()  # of the entry it knows nothing
            self.assertTrue(wait_for(lists, 20), self.by.log)
        else:
            os.unlink(f"{LEDGER}/{FIRST}")
        self.of.own_claims("shop", "web-1", claim)
        self.assert_error(self.call("ADD", self.pod(), of="web-1"), 11, "the ledger has lost device 'eth1-macvlan-1'")

    def test_claims_of_pod_groups_and_with_admin_access_are_refused(self):
        group = self.claim("group", result("eth1-macvlan-1"), reservedFor=[
            {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g1"}])
        self.assertIn("it is reserved for podgroups 'g': this driver attaches devices to pods alone", self.refusal(group))
        admin = self.claim("admin", result("eth1-macvlan-1", adminAccess=True))
        self.assertIn("asks for adminAccess", self.refusal(admin))
        self.assertEqual(ledger.devices(), [])

    def test_dranet_89_a_pod_whose_entry_was_lost_does_not_start_without_its_device(self):
        claim = self.claim("web-0-nic", result("eth1-macvlan-1"))
        self.prepared(claim)
        os.unlink(f"{LEDGER}/{FIRST}")
        self.assert_error(self.call("ADD", self.pod()), 11,
                          "claim 'shop/web-0-nic' of pod 'shop/web-0': the ledger has lost device 'eth1-macvlan-1'")

    def test_the_same_while_the_agent_was_down(self):
        self.prepared(self.claim("web-0-nic", result("eth1-macvlan-1")))
        self.by.kill()
        os.unlink(f"{LEDGER}/{FIRST}")
        self.by.start()
        self.assert_error(self.call("ADD", self.pod()), 11, "claim 'shop/web-0-nic' of pod 'shop/web-0': the ledger has lost device "
                          "'eth1-macvlan-1'")

    @suite.cases([("while the agent is down", True), ("of a kubelet that does not list claims", False)])
    def a_pod_with_one_of_the_two_devices_of_its_claim_does_not_start(self, is_down):
        self.prepared(self.claim("web-0-nic", result("eth1-macvlan-1"), result("eth1-macvlan-2", "other")))
        os.unlink(f"{LEDGER}/{FIRST}")
        if is_down:
            self.by.kill()
        else:
            self.of.own("shop", "web-0", {})
        self.assert_error(self.call("ADD", self.pod()), 11, "claim 'shop/web-0-nic' of pod 'shop/web-0': the ledger has lost some of its 2 devices")

    def test_a_prepared_claim_that_has_more_devices_by_now_is_refused(self):
        claim = self.claim("web-0-nic", result("eth1-macvlan-1"))
        self.prepared(claim)
        more = [result("eth1-macvlan-1"), result("eth1-macvlan-2", "other")]
        self.api.patch(API, "resourceclaims", "web-0-nic", {"status": {"allocation": {"devices": {"results": more}}}}, "shop", "status")
        self.assertIn(f"device '{FIRST}' of its earlier allocation is still prepared", self.refusal(claim))
        self.assertEqual(ledger.devices(), [FIRST])

    @suite.cases([("a torn entry", "{"), ("an entry of a later format", '{"format":9}')])
    def Prepare_does_not_overwrite(self, text):
        with open(f"{LEDGER}/{FIRST}", "w", encoding="utf-8") as file:
            file.write(text)
        self.assertIn(f"device '{FIRST}': its entry in the ledger cannot be read",
                      self.refusal(self.claim("web-0-nic", result("eth1-macvlan-1"))))
        with open(f"{LEDGER}/{FIRST}", encoding="utf-8") as file:
            self.assertEqual(file.read(), text)

    def test_a_pod_without_claims_is_no_concern_of_the_agent(self):
        self.prepared(self.claim("web-0-nic", result("eth1-macvlan-1")))
        self.of.own("shop", "web-9", {})
        pod = self.pod()
        self.assertEqual(len(self.add(pod, of="web-9")["interfaces"]), 1)

    def make_pod(self, name, uid=None, **spec):
        """In the API, on this node; the kubelet lists it without devices. Its ADD names its UID."""
        self.of.own("shop", name, {})
        return self.api.create("v1", "pods", {"metadata": {"name": name, "uid": uid or f"uid-{name}"}, "spec": {
            "nodeName": NODE, "containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]} | spec}, "shop")

    def questions_of(self, name):
        """How often ADD and DEL of the pod, without a device, ask the kubelet for it."""
        self.of.ask("rules")
        pod = self.pod()
        self.add(pod, of=name)
        self.remove(pod)
        return self.of.ask("rules")["Get"]

    def test_the_kubelet_is_not_asked_about_a_pod_whose_spec_asks_for_no_device(self):
        self.prepared(self.claim("web-0-nic", result("eth1-macvlan-1")))
        for name, spec in (("plain", {}), ("claims", {"resourceClaims": [{"name": "nic", "resourceClaimName": "web-0-nic"}]}),
                           ("extended", {"initContainers": [{"name": "init", "resources": {"requests": {"a.example/nic": "1"}}}]})):
            self.make_pod(name, **spec)
        self.assertEqual(self.questions_of("plain"), 1, "the watch begins with it")
        self.assertTrue(wait_for(lambda: self.questions_of("plain") == 0, 10), self.by.log)
        for name in ("claims", "extended"):
            self.assertEqual(self.questions_of(name), 1, name)
        self.make_pod("later")
        self.assertTrue(wait_for(lambda: self.questions_of("later") == 0, 10), self.by.log)
        self.api.remove("v1", "pods", "later", "shop")  # its successor has another UID
        self.make_pod("later", uid="uid-other")
        self.assertTrue(wait_for(lambda: self.questions_of("later") == 1, 10))

    def test_without_the_API_server_or_the_right_to_watch_pods_the_kubelet_is_asked(self):
        self.prepared(self.claim("web-0-nic", result("eth1-macvlan-1")))
        self.make_pod("plain")
        refusal = 'pods is forbidden: User "system:serviceaccount:kube-system:patchbay-agent" cannot watch resource "pods" in API group ""'
        self.api.fault(method="WATCH", path="/v1/pods", times=3, status=403, reason="Forbidden", message=refusal)
        self.assertEqual(self.questions_of("plain"), 1)
        self.assertTrue(wait_for(lambda: "no Role or ClusterRole bound to that user allows it" in self.by.log, 5), self.by.log)
        self.assertEqual(self.questions_of("plain"), 1)
        self.assertTrue(wait_for(lambda: self.questions_of("plain") == 0, 15), self.by.log)
        self.assertEqual(self.by.log.count("cannot watch resource"), 1)


@suite.spread
class Parameters(DraTest):
    def setUp(self):
        super().setUp()
        self.start(POOL)

    def test_parameters_of_class_and_claim_change_the_plugins(self):
        claim = self.claim("web-0-nic", result("eth1-macvlan-1"), config=[
            opaque({"plugins": [{"type": "macvlan", "mtu": 1300}], "ifname": "storage"}),
            opaque({"plugins": [{"type": "macvlan", "mtu": 1200}, {"type": "sbr"}]}, "FromClass"),
            opaque({"plugins": [{"type": "macvlan", "mtu": 1100}]}, requests=["other"])])
        self.prepared(claim)
        pod = self.pod()
        self.add(pod)
        [link] = json.loads(run("ip", "-n", pod.name, "-j", "link", "show", "storage"))
        self.assertEqual(link["mtu"], 1300)
        self.assertIn("10.60.0", run("ip", "-n", pod.name, "rule"))
        self.remove(pod)

    @suite.cases([(what, (parameters, text)) for what, parameters, text in [
        ("an unknown key", {"plugin": []}, "status.allocation.devices.config[0].opaque.parameters.plugin: unknown key, expected plugins or ifname"),
        ("the device's name", {"plugins": [{"type": "macvlan", "master": "eth0"}]},
         "status.allocation.devices.config[0].opaque.parameters.plugins[0].master: expected no such key"),
        ("a program", {"plugins": [{"type": "macvlan", "ipam": {"type": "dhcp"}}]}, "plugins[0].ipam.type: expected the type that the pool has"),
        ("a path", {"plugins": [{"type": "tuning", "file": "/etc"}]}, "plugins[0].file: expected no path"),
        ("a plugin that makes a link", {"plugins": [{"type": "bridge"}]}, "plugins[0].type: expected a plugin of the pool, or tuning"),
        ("a value that the plugin refuses", {"plugins": [{"type": "macvlan", "mode": "fast"}]},
         "plugins[0]: plugin macvlan refuses it: unknown macvlan mode: \"fast\""),
        ("no name of a link", {"ifname": "a/b"}, "parameters.ifname: expected a name of a link"),
        ("the name of the pod's own interface", {"ifname": "eth0"}, "parameters.ifname: expected a name of a link, other than lo and eth0"),
        ("a name of sysctls", {"ifname": "default"}, "parameters.ifname: expected a name of a link"),
        ("a name that is too long", {"ifname": "sixteen-letters-"}, "parameters.ifname: expected a name of a link"),
    ]])
    def a_claim_is_refused_for(self, row):
        parameters, text = row
        self.assertIn(text, self.refusal(self.claim("web-0-nic", result("eth1-macvlan-1"), config=[opaque(parameters)])))
        self.assertEqual(ledger.devices(), [])

    def test_two_requests_of_a_pod_cannot_name_one_interface(self):
        named = [opaque({"ifname": "storage"})]
        results = [result("eth1-macvlan-1", "a"), result("eth1-macvlan-2", "b")]
        self.assertIn("ifname 'storage' of request 'b' is that of request 'a' of claim 'shop/two' of the same pod",
                      self.refusal(self.claim("two", *results, config=named)))
        self.prepared(self.claim("one", results[0], config=named))
        self.assertIn("is that of request 'a' of claim 'shop/one' of the same pod", self.refusal(self.claim("other", results[1], config=named)))
        self.of.prepare(self.claim("other-pod", results[1], pod="web-1", config=named))
        self.of.prepare(self.claim("count", *(result(f"eth1-macvlan-{n}") for n in (3, 4)), pod="web-2", config=named))
        self.assertEqual(len(ledger.devices()), 4)


if __name__ == "__main__":
    suite.main(per_processor=2)
