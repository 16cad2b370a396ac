#!/usr/bin/env python3
"""Devices that only init containers ask for: PodResources does not list them, and the pod's spec in the API server does."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import ledger, suite  # noqa: E402
from support.agent import slots  # noqa: E402
from support.claims import DraTest  # noqa: E402
from support.ledger import SLOT  # noqa: E402
from support.world import wait_for  # noqa: E402

POOL = slots(4, SLOT, "eth1", ipam=ledger.pool("10.60.0.0/24")) | {"devicePlugin": True}
IDS = [f"eth1:macvlan:{n}" for n in range(1, 5)]


class InitContainers(DraTest):
    def begin(self):
        self.start(POOL, waits=False)
        self.assertTrue(wait_for(lambda: len(self.of.devices(SLOT)) == 4, 20), self.by.log)

    def make_pod(self, name="web-0", init=1, app=0, uid=None):
        """What the API server has of a pod."""
        def container(count):
            return {"name": "c", "resources": {"limits": {SLOT: str(count)}} if count else {}}
        self.api.create("v1", "pods", {"metadata": {"name": name, "uid": uid or f"uid-{name}"}, "spec": {
            "nodeName": "n1", "initContainers": [container(init)], "containers": [container(app)]}}, "shop")

    def admit(self, *ids, name="web-0", listed=()):
        """As the kubelet does it: Allocate for the init container, and a list without it."""
        self.of.allocate(SLOT, list(ids))
        self.of.own("shop", name, {SLOT: list(listed)} if listed else {})

    def links(self, result):
        return [one["name"] for one in result["interfaces"] if one.get("sandbox")]

    def test_a_pod_gets_the_device_of_its_init_container_and_gives_it_back(self):
        self.begin()
        self.make_pod()
        self.admit(IDS[1])
        pod = self.pod()
        self.assertEqual(self.links(self.add(pod)), ["eth0", "net1"])
        entry = ledger.entry(IDS[1])
        self.assertEqual(entry["pod"], {"namespace": "shop", "name": "web-0", "uid": "uid-web-0"})
        self.remove(pod)
        again = self.pod()  # its next sandbox
        self.assertEqual(self.links(self.add(again)), ["eth0", "net1"])
        self.assertEqual(list(ledger.holders()), [IDS[1]])

    def test_what_app_containers_have_is_not_counted_again(self):
        self.begin()
        self.make_pod(init=2, app=1)
        self.of.allocate(SLOT, IDS[:2])
        self.of.own("shop", "web-0", {SLOT: IDS[:1]})  # the app container uses one of them
        self.assertEqual(sorted(self.by.claim("shop", "web-0", "uid-web-0")), IDS[:2])

    def test_a_pod_waits_while_a_promise_may_be_another_pods(self):
        self.begin()
        self.make_pod()
        self.admit(IDS[0])
        time.sleep(1.1)
        self.admit(IDS[1], name="web-1")
        answer = self.by.claim("shop", "web-0", "uid-web-0")
        self.assertEqual(answer["code"], 11, answer)
        self.assertIn("which of 2 promises are theirs is not known", answer["msg"])
        self.of.own("shop", "web-1", {SLOT: [IDS[1]]})
        self.assertEqual(self.by.claim("shop", "web-1", "uid-web-1"), [IDS[1]])
        self.assertEqual(self.by.claim("shop", "web-0", "uid-web-0"), [IDS[0]])

    def test_a_pod_without_devices_gets_none_while_a_promise_is_open(self):
        self.begin()
        self.make_pod(init=0)
        self.make_pod("web-1", uid="another")
        self.admit(IDS[0], name="web-9")
        for name in ("web-0", "web-1", "web-2"):
            self.of.own("shop", name, {})
            self.assertEqual(self.by.claim("shop", name, f"uid-{name}"), [])

    def test_the_API_server_is_not_asked_while_no_promise_is_open(self):
        self.begin()
        self.of.own("shop", "web-0", {})
        self.of.allocate(SLOT, [IDS[0]])
        self.of.own("shop", "web-1", {SLOT: [IDS[0]]})
        self.assertEqual(self.by.claim("shop", "web-1", "uid-web-1"), [IDS[0]])
        self.assertEqual(self.by.claim("shop", "web-0", "uid-web-0"), [])
        self.assertEqual(self.api.seen("GET", "/pods/"), [])

    def test_an_API_server_that_is_away_or_silent_holds_up_no_pod_without_devices(self):
        self.begin()
        self.make_pod(init=0)
        self.admit(IDS[0], name="web-9")
        self.of.own("shop", "web-0", {})
        self.api.fault(path="/pods/", slow=60)
        begun = time.monotonic()
        self.assertEqual(self.by.claim("shop", "web-0", "uid-web-0"), [])
        self.assertLess(time.monotonic() - begun, 4)
        self.api.away()
        self.assertEqual(self.by.claim("shop", "web-0", "uid-web-0"), [])
        self.assertTrue([line for line in self.by.lines() if line["what"].startswith("look for devices of init containers")])

    def test_an_API_server_that_has_just_started_and_has_no_rules_yet_is_asked_again(self):
        self.begin()
        self.make_pod()
        self.admit(IDS[1])
        self.api.fault(path="/pods/", times=3, status=403, reason="Forbidden")
        self.assertEqual(self.by.claim("shop", "web-0", "uid-web-0"), [IDS[1]])

    def test_an_agent_that_may_not_get_pods_holds_up_one_pod_without_devices(self):
        self.begin()
        self.admit(IDS[0], name="web-9")
        self.api.fault(path="/pods/", times=1000, status=403, reason="Forbidden")
        took = []
        for name in ("web-0", "web-1", "web-2"):
            self.of.own("shop", name, {})
            begun = time.monotonic()
            self.assertEqual(self.by.claim("shop", name, f"uid-{name}"), [])
            took.append(time.monotonic() - begun)
        self.assertGreater(len(self.api.seen("GET", "/pods/")), 4)
        self.assertLess(len(self.api.seen("GET", "/pods/web-1")) + len(self.api.seen("GET", "/pods/web-2")), 3)
        self.assertLess(took[0], 8)

    def test_a_pod_whose_device_is_known_does_not_start_without_it_while_the_API_server_is_away(self):
        self.begin()
        self.make_pod()
        self.admit(IDS[0])
        self.assertEqual(self.by.claim("shop", "web-0", "uid-web-0"), [IDS[0]])
        self.api.away()
        self.assertEqual(self.by.claim("shop", "web-0", "uid-web-0")["code"], 11)
        self.api.back()
        self.assertEqual(self.by.claim("shop", "web-0", "uid-web-0"), [IDS[0]])


if __name__ == "__main__":
    suite.main(per_processor=2)
