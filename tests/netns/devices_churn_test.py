#!/usr/bin/env python3
"""A hundred pods come and go on thirty devices while the plugin, and then patchbay-agent too, are killed at any moment: the
ledger is the kernel's truth.

PATCHBAY_CHURN_PODS sets how many pods, PATCHBAY_CHURN_SEED which moments."""

import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, kubelet, ledger, suite  # noqa: E402
from support.agent import Agent, nics, slots  # noqa: E402
from support.kubelet import Kubelet, Refused  # noqa: E402
from support.ledger import NIC, SLOT, LedgerTest, make_nic, make_parent, nic, pool, slot  # noqa: E402
from support.plugin import start  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import wait_for  # noqa: E402

PODS = int(os.environ.get("PATCHBAY_CHURN_PODS", "100"))
SEED = int(os.environ.get("PATCHBAY_CHURN_SEED", "1"))
NICS, SLOTS, AT_ONCE = 10, 20, 4


class Life:
    """What a runtime knows of a pod: its sandboxes, of which the last one counts, and whether its ADD succeeded."""

    def __init__(self, name, devices):
        self.name, self.devices = name, devices
        self.sandbox, self.number, self.attached = None, 0, False


class Churn(LedgerTest):
    def process(self, verb, life):
        pod = life.sandbox
        conf = {"cniVersion": "1.1.0", "name": "net", "type": "devices", "prevResult": {
            "cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": pod.path}]}}
        return start("devices", verb, conf, netns=pod.path, container=pod.name,
                     args=ledger.args_of(ledger.pod_of(life.name)))

    def run_all(self, calls, chance):
        """[(verb, life)]: runs them at once and kills some; returns the exit status of each."""
        started = [self.process(*call) for call in calls]
        for one in started:
            one.stdin.write(one.config)
            one.stdin.close()
            one.stdin = None
        doomed = [one for one in started if chance.random() < 0.4]
        time.sleep(chance.uniform(0, 0.03))
        for one in doomed:
            one.kill()
        for one in started:
            one.communicate(timeout=60)
        return [one.returncode for one in started]

    def assert_truth(self, lives):
        """The ledger says what the kernel says, of all that is attached as a whole."""
        holders = ledger.holders()
        for life in lives:
            if not life.attached:
                continue
            names = self.names(life.sandbox)
            for number, device in enumerate(sorted(life.devices), 1):
                self.assertEqual(holders.get(device), life.sandbox.name, device)
                self.assertIn(f"net{number}", names)
        self.assertLessEqual({f"dev{n}" for n in range(NICS) if f"dev{n}" not in holders}, self.names())

    def step(self, lives, chance):
        """Some pods start, some end; of those that are neither the runtime calls DEL again."""
        for life in lives:
            if life.sandbox is None:
                life.number += 1
                life.sandbox = self.pod(f"{life.name}-{life.number}")
        calls = [("DEL" if life.attached or chance.random() < 0.3 else "ADD", life) for life in lives]
        for (verb, life), status in zip(calls, self.run_all(calls, chance)):
            life.attached = verb == "ADD" and status == 0
            if verb == "DEL" and status == 0 or status != 0 and chance.random() < 0.5:
                self.end(life, status)

    def end(self, life, status):
        """The sandbox goes, after DEL or, as after a crash of the node's runtime, without it."""
        if status != 0:
            self.remove(life.sandbox, of=life.name)
        life.sandbox.remove()
        life.sandbox, life.attached = None, False

    def test_a_hundred_pods_on_thirty_devices(self):
        chance = random.Random(SEED)
        self.play()
        for number in range(NICS):
            make_nic(f"dev{number}", f"10.50.{number}.1/24")
        make_parent()
        devices = [(f"dev{n}", {"plugins": nic(f"dev{n}", f"10.50.{n}.0/24")}) for n in range(NICS)]
        devices += [(f"slot{n}", {"resource": SLOT, "plugins": slot()}) for n in range(SLOTS)]
        before = snapshot()
        free = list(range(len(devices)))
        for first in range(0, PODS, AT_ONCE):
            lives = []
            for number in range(first, min(PODS, first + AT_ONCE)):
                mine = [devices[i] for i in chance.sample(free, 2)]
                free = [i for i in free if devices[i] not in mine]
                life = Life(f"web-{number}", [name for name, _ in mine])
                for name, more in mine:
                    ledger.put(name, pod=ledger.pod_of(life.name), **more)
                lives.append(life)
            for _ in range(4):
                self.step(lives, chance)
                self.assert_truth(lives)
            for life in lives:
                if life.sandbox:
                    self.end(life, 1)
            free = list(range(len(devices)))
        self.assertEqual((ledger.holders(), ledger.marks(), self.leases()), ({}, [], {}))
        self.assert_same(before, ignore=left_by_design)


class Whole(Churn):
    """With patchbay-agent and a kubelet, which allocates devices that its list has as free."""

    test_a_hundred_pods_on_thirty_devices = None

    def setUp(self):
        super().setUp()
        if reason := agent.why_impossible() or kubelet.why_impossible():
            self.skipTest(reason)
        for number in range(NICS):
            make_nic(f"dev{number}", f"10.50.{number}.1/24")
        make_parent()
        self.of = Kubelet()
        self.addCleanup(self.of.kill)
        self.by = Agent(nics(*(f"dev{n}" for n in range(NICS)), ipam=pool("10.50.0.0/24")),
                        slots(SLOTS, SLOT, "eth1", ipam=pool("10.60.0.0/24")))
        self.addCleanup(lambda: self.by.is_alive() and self.by.kill())
        self.assertTrue(wait_for(self.all_listed, 20), self.by.log)

    def all_listed(self):
        return len(self.of.devices(NIC)) == NICS and len(self.of.devices(SLOT)) == SLOTS

    def allocate(self, life):
        """As at admission: the kubelet tries again where the device plugin is away."""
        for resource, device in life.devices:
            def allocated(resource=resource, device=device):
                try:
                    return self.of.allocate(resource, [device]) is not None
                except (Refused, RuntimeError):
                    return False
            self.assertTrue(wait_for(allocated, 30, 0.2), self.by.log)
        self.of.own("shop", life.name, {resource: [device] for resource, device in life.devices})

    def assert_truth(self, lives):
        holders = ledger.holders()
        for life in lives:
            if life.attached:
                self.assertEqual({holders.get(device) for _, device in life.devices}, {life.sandbox.name})
                self.assertLessEqual({"net1", "net2"}, self.names(life.sandbox))

    def kill_sometimes(self, chance):
        if chance.random() < 0.3:
            self.by.kill()
            if chance.random() < 0.5:
                return
        if not self.by.is_alive():
            self.by.start()

    def test_a_hundred_pods_while_patchbay_agent_is_killed_too(self):
        chance, whole = random.Random(SEED), 0
        before = snapshot()
        for first in range(0, PODS, AT_ONCE):
            if not self.by.is_alive():
                self.by.start()
            self.assertTrue(wait_for(lambda: all(self.of.devices(one) for one in (NIC, SLOT)), 10))
            nics, places = (sorted(self.of.devices(one)) for one in (NIC, SLOT))
            chance.shuffle(nics)
            chance.shuffle(places)
            lives = [Life(f"web-{n}", [(NIC, nics.pop()), (SLOT, places.pop())]) for n in range(first, min(PODS, first + AT_ONCE))]
            for life in lives:
                self.allocate(life)
            for _ in range(3):
                self.kill_sometimes(chance)
                self.step(lives, chance)
                self.assert_truth(lives)
                whole += sum(life.attached for life in lives)
            for life in lives:
                if life.sandbox:
                    self.end(life, 1)
                self.of.disown("shop", life.name)
        self.assertGreater(whole, PODS // 2)
        self.assertEqual((ledger.holders(), ledger.marks(), self.leases()), ({}, [], {}))
        self.assert_same(before, ignore=lambda place: left_by_design(place) or place.startswith(("file/run/", "file/var/lib/")))


if __name__ == "__main__":
    suite.main(per_processor=2)
