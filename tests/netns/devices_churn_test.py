#!/usr/bin/env python3
"""A hundred pods come and go on thirty devices while the plugin is killed at any moment: the ledger is the kernel's truth.

PATCHBAY_CHURN_PODS sets how many pods, PATCHBAY_CHURN_SEED which moments."""

import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import ledger, suite  # noqa: E402
from support.ledger import SLOT, LedgerTest, make_nic, make_parent, nic, slot  # noqa: E402
from support.plugin import start  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402

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


if __name__ == "__main__":
    suite.main()
