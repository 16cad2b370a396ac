#!/usr/bin/env python3
"""The status of ResourceClaims is what the ledger has of their devices, whatever the API server and other writers do."""

import json
import os
import re
import resource
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.api_rights import Account, node_selector  # noqa: E402
from support.api_server import ApiServer  # noqa: E402
from support.ledger import LEDGER  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.world import run, wait_for  # noqa: E402

PROGRAM = os.path.join(OURS, "claim_status")
API, CLAIMS = "resource.k8s.io/v1", "resourceclaims"
DRIVER, POOL = "devices.patchbay", "n1"
RESULT = {"cniVersion": "1.1.0", "interfaces": [{"name": "br0", "mac": "02:00:00:00:00:01"},
                                                {"name": "net1", "mac": "02:00:00:00:00:02", "sandbox": "/run/netns/c1"}],
          "ips": [{"address": "10.1.0.2/24", "interface": 1}, {"address": "fd00::2/64", "interface": 1}, {"address": "10.9.0.1/24", "interface": 0}]}
#: What a driver of another kind, or the same one on another node, has said of the claim.
OTHERS = [{"driver": "gpu.example.com", "pool": POOL, "device": "gpu-0", "data": {"a": [1, {"b": None}]}},
          {"driver": DRIVER, "pool": "n2", "device": "d1", "conditions": []}]


def allocated(driver, pool, device, share=None):
    return {"request": "r", "driver": driver, "pool": pool, "device": device} | ({"shareID": share} if share else {})


class StatusTest(suite.NodeTest):
    def setUp(self):
        super().setUp()
        self.api = ApiServer()
        self.api.account = Account("patchbay-agent.yaml", POOL)
        self.addCleanup(self.api.stop)
        os.makedirs(LEDGER, mode=0o700, exist_ok=True)

    def claim(self, name="web-0", devices=("d1",), others=(), share=None):
        """A claim with these devices of ours, as the scheduler leaves it. Returns its UID."""
        results = [allocated(DRIVER, POOL, device, share) for device in devices]
        results += [allocated(one["driver"], one["pool"], one["device"]) for one in others]
        made = self.api.create(API, CLAIMS, {"metadata": {"name": name}, "spec": {}, "status": {
            "allocation": {"devices": {"results": results}, "nodeSelector": node_selector(POOL)}, "reservedFor": [{"resource": "pods", "name": name, "uid": f"pod-{name}"}],
            **({"devices": list(others)} if others else {})}}, "shop")
        return made["metadata"]["uid"]

    def ledger(self, verb, device, *more):
        run(PROGRAM, verb, LEDGER, device, *more)

    def prepare(self, uid, name="web-0", device="d1", **more):
        self.ledger("put", device, json.dumps({"uid": uid, "namespace": "shop", "name": name, "device": device} | more))

    def attach(self, device="d1", result=None):
        self.ledger("hold", device)
        self.ledger("result", device, json.dumps(result or RESULT))

    def start(self, **more):
        self.log = open("/run/status.log", "a+", encoding="utf-8")
        self.addCleanup(self.log.close)
        self.process = subprocess.Popen([PROGRAM, "serve", LEDGER, self.api.kubeconfig(), DRIVER, POOL], stdin=subprocess.PIPE,
                                        stdout=self.log, stderr=self.log, **more)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)

    def end(self):
        self.process.stdin.close()
        return self.process.wait(timeout=5)

    def lines(self):
        with open("/run/status.log", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def devices(self, name="web-0"):
        claim = self.api.get(API, CLAIMS, name, "shop")
        return claim["status"].get("devices", []) if claim else None

    def ready(self, name="web-0"):
        """{device: (status of Ready, its reason)} of ours."""
        return {one["device"]: (one["conditions"][0]["status"], one["conditions"][0]["reason"]) for one in self.devices(name) or []
                if one["driver"] == DRIVER and one["pool"] == POOL}

    def assert_ready(self, wanted, name="web-0", timeout=10):
        self.assertTrue(wait_for(lambda: self.ready(name) == wanted, timeout), f"{self.ready(name)}; {self.lines()}")

    def writes(self):
        return [one for one in self.api.seen("PATCH") if one.get("code") == 200]


PREPARED, ATTACHED, ATTACHING = ("False", "Prepared"), ("True", "Attached"), ("False", "Attaching")


class Life(StatusTest):
    def test_a_status_follows_its_device_from_prepare_to_unprepare(self):
        self.start()
        uid = self.claim()
        self.prepare(uid)
        self.assert_ready({"d1": PREPARED})
        self.ledger("hold", "d1")
        self.assert_ready({"d1": ATTACHING})
        self.ledger("result", "d1", json.dumps(RESULT))
        self.assert_ready({"d1": ATTACHED})
        [device] = self.devices()
        self.assertEqual(device["networkData"], {"interfaceName": "net1", "hardwareAddress": "02:00:00:00:00:02", "ips": ["10.1.0.2/24", "fd00::2/64"]})
        [condition] = device["conditions"]
        self.assertEqual((condition["type"], condition["message"]), ("Ready", "attached as interface net1"))
        self.assertRegex(condition["lastTransitionTime"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.ledger("release", "d1")
        self.assert_ready({"d1": PREPARED})
        self.assertNotIn("networkData", self.devices()[0])
        self.ledger("remove", "d1")
        self.assert_ready({})
        self.assertEqual(self.end(), 0)

    def test_a_status_is_written_when_it_changes_alone(self):
        self.start()
        self.prepare(self.claim())
        self.attach()
        self.assert_ready({"d1": ATTACHED})
        before = len(self.writes())
        self.ledger("put", "other", json.dumps({"uid": "gone", "namespace": "shop", "name": "gone", "device": "x"}))
        time.sleep(2.5)  # and all claims are read again meanwhile
        self.assertEqual(len(self.writes()), before)
        self.assertLess(len(self.api.seen("GET", "gone")), 4)
        [device] = self.devices()
        self.end()
        self.start()  # another process knows what the API server has
        time.sleep(1)
        self.assertEqual(len(self.writes()), before)
        self.assertEqual(self.devices(), [device])

    def test_a_condition_keeps_its_time_while_its_status_does(self):
        uid = self.claim()
        self.prepare(uid)
        self.start()
        self.assert_ready({"d1": PREPARED})
        first = self.devices()[0]["conditions"][0]["lastTransitionTime"]
        time.sleep(1.1)
        self.ledger("hold", "d1")
        self.assert_ready({"d1": ATTACHING})
        self.assertEqual(self.devices()[0]["conditions"][0]["lastTransitionTime"], first)
        self.ledger("result", "d1", json.dumps(RESULT))
        self.assert_ready({"d1": ATTACHED})
        self.assertNotEqual(self.devices()[0]["conditions"][0]["lastTransitionTime"], first)

    def test_what_others_say_of_the_claim_stays(self):
        self.start()
        self.prepare(self.claim(others=OTHERS, devices=("d1", "d2")))
        self.attach()
        self.assert_ready({"d1": ATTACHED})
        self.prepare(self.api.get(API, CLAIMS, "web-0", "shop")["metadata"]["uid"], device="d2")
        self.assert_ready({"d1": ATTACHED, "d2": PREPARED})
        self.assertEqual(self.devices()[:2], OTHERS)
        for device in ("release", "remove"):
            self.ledger(device, "d1")
        self.assert_ready({"d2": PREPARED})
        self.assertEqual(self.devices()[:2], OTHERS)

    def test_a_share_of_a_device_has_an_entry_of_its_own(self):
        self.start()
        self.prepare(self.claim(devices=("eth1-macvlan",), share="s-1"), device="eth1-macvlan", share="s-1")
        self.assert_ready({"eth1-macvlan": PREPARED})
        self.assertEqual(self.devices()[0]["shareID"], "s-1")

    def test_no_more_is_written_than_the_api_takes(self):
        result = {"interfaces": [{"name": "net1", "mac": "0" * 200, "sandbox": "/x"}], "ips": [{"address": "bad"}, {"address": "10.0.0.300/8"}, 7, {"address": "FD00:0::7/64"}]
                  + [{"address": f"10.0.0.{n}/8"} for n in range(1, 41)]}
        self.start()
        self.prepare(self.claim())
        self.attach(result=result)
        self.assert_ready({"d1": ATTACHED})
        data = self.devices()[0]["networkData"]
        self.assertEqual((data["ips"][:2], len(data["ips"]), "hardwareAddress" in data), (["fd00::7/64", "10.0.0.1/8"], 16, False))

    def test_a_device_that_the_claim_has_not_is_not_written(self):
        self.start()
        uid = self.claim()
        self.prepare(uid)
        self.prepare(uid, device="d9")
        self.assert_ready({"d1": PREPARED})

    def test_a_claim_of_that_name_with_another_uid_is_left_alone(self):
        self.start()
        self.claim()
        self.prepare("another")
        self.assertTrue(wait_for(lambda: self.api.seen("GET", "web-0"), 5))
        time.sleep(0.5)
        self.assertEqual((self.devices(), self.writes(), self.lines()), ([], [], []))


@suite.spread
class Troubles(StatusTest):
    def test_a_status_is_corrected_when_the_api_server_is_back(self):
        self.prepare(self.claim())
        self.start()
        self.assert_ready({"d1": PREPARED})
        self.api.away()
        self.attach()
        time.sleep(1.5)
        warnings = [line for line in self.lines() if line["level"] == "warning"]
        self.assertEqual(len(warnings), 1, warnings)
        self.assertIn("claim 'shop/web-0'", warnings[0]["what"])
        self.api.back()
        self.assert_ready({"d1": ATTACHED}, timeout=4)

    def test_a_server_that_has_just_started_and_has_no_rules_yet_is_asked_again_soon(self):
        self.prepare(self.claim())
        self.start(env=os.environ | {"STATUS_REFUSED": "60000"})
        self.assert_ready({"d1": PREPARED})
        self.api.away()
        self.attach()
        self.assertTrue(wait_for(lambda: any(line["level"] == "warning" for line in self.lines()), 5))
        self.api.fault(path=CLAIMS, times=3, status=403, reason="Forbidden")
        self.api.back()
        self.assert_ready({"d1": ATTACHED}, timeout=20)

    @suite.cases([("429", {"status": 429, "headers": {"Retry-After": "1"}}), ("503", {"status": 503}), ("500", {"status": 500}), ("closed connections", {"close": True}),
                  ("torn answers", {"torn": True}), ("no JSON", {"body": b"<html>"}), ("missing permissions", {"status": 403, "reason": "Forbidden"}), ("an answer that is not valid", {"status": 422, "reason": "Invalid"}),
                  ("another claim", {"body": {"kind": "ResourceClaim", "metadata": {"name": "web-9", "namespace": "shop", "uid": "u9"}}}),
                  ("an object without a name", {"body": {"kind": "Status", "metadata": {}}}),
                  ("another claim as the answer of a write", {"method": "PATCH", "body": {"kind": "ResourceClaim", "metadata": {"name": "web-9"}}})])
    def a_status_is_written_after(self, fault):
        self.api.fault(times=2, path=CLAIMS, **fault)
        self.start()
        self.prepare(self.claim())
        self.assert_ready({"d1": PREPARED}, timeout=12)

    def test_a_write_whose_answer_was_lost_is_no_second_change(self):
        self.api.fault(method="PATCH", torn=True)
        self.start()
        self.prepare(self.claim())
        self.assert_ready({"d1": PREPARED})
        version = self.api.get(API, CLAIMS, "web-0", "shop")["metadata"]["resourceVersion"]
        time.sleep(1.5)
        self.assertEqual(self.api.get(API, CLAIMS, "web-0", "shop")["metadata"]["resourceVersion"], version)

    def test_a_storm_of_conflicts_loses_nothing(self):
        """Another writer changes the claim between each read and write."""
        self.prepare(self.claim(others=OTHERS))
        self.api.fault(method="PATCH", times=12, status=409, reason="Conflict")
        self.start()
        self.assert_ready({"d1": PREPARED})
        self.assertEqual(self.devices()[:2], OTHERS)
        self.assertEqual(len(self.api.seen("PATCH")), 13)

    def test_writers_beside_each_other_keep_what_each_has_written(self):
        self.prepare(self.claim(others=OTHERS[:1]))
        self.start()
        for number in range(60):  # our own writes are among these
            if number % 10 == 5:
                self.attach()
            elif number % 10 == 9:
                self.ledger("release", "d1")
            self.other(number)
            time.sleep(0.04)
        self.assert_ready({"d1": PREPARED})
        self.assertEqual(self.devices()[0]["data"], {"n": 59})
        self.assertGreater(len(self.writes()), 1)  # of a loaded machine less than each change

    def other(self, number):
        with self.api.store.changed:
            devices = self.devices()
            devices[0]["data"] = {"n": number}
            self.api.patch(API, CLAIMS, "web-0", {"status": {"devices": devices}}, "shop", "status")

    def test_a_refused_claim_does_not_hold_up_others(self):
        self.api.fault(method="PATCH", path="web-0", times=1000, status=403, reason="Forbidden", message="no RBAC")
        for number in range(3):
            self.prepare(self.claim(f"web-{number}", [f"d{number}"]), f"web-{number}", f"d{number}")
        self.start()
        for number in (1, 2):
            self.assert_ready({f"d{number}": PREPARED}, f"web-{number}", timeout=3)
        self.assertEqual(self.devices("web-0"), [])

    def test_what_RBAC_refuses_is_one_line_for_all_claims_and_goes_on_when_it_is_allowed(self):
        for number in range(4):
            self.prepare(self.claim(f"web-{number}", [f"d{number}"]), f"web-{number}", f"d{number}")
            self.api.fault(method="PATCH", path=f"web-{number}/", times=2, status=403, reason="Forbidden", message=(
                f'resourceclaims "web-{number}" is forbidden: User "u" cannot patch resource "resourceclaims/status" in API group "resource.k8s.io"'))
        self.start()
        for number in range(4):
            self.assert_ready({f"d{number}": PREPARED}, f"web-{number}", timeout=10)
        said = [line["error"] for line in self.lines() if "cannot patch" in line.get("error", "")]
        self.assertEqual(len(said), 1, said)
        self.assertTrue(said[0].endswith("no Role or ClusterRole bound to that user allows it"), said)
        self.assertTrue(any("claims again" in line["what"] for line in self.lines()))

    def test_a_claim_that_always_fails_does_not_hold_up_others_and_is_one_line_of_the_log(self):
        """As where a webhook of one namespace fails: by the status alone the server might be absent."""
        uids = {name: self.claim(name, [f"d-{name}"]) for name in (f"web-{number}" for number in range(6))}
        first = min(uids, key=uids.get)
        self.api.fault(method="PATCH", path=f"{first}/", times=1000, status=500, reason="InternalError", message="failed calling webhook")
        for name, uid in uids.items():
            self.prepare(uid, name, f"d-{name}")
        self.start()
        for name in uids:
            if name != first:
                self.assert_ready({f"d-{name}": PREPARED}, name, timeout=5)
        self.assertTrue(wait_for(lambda: len(self.api.seen("PATCH", first)) >= 3, 10))
        self.assertEqual([line["level"] for line in self.lines() if "failed calling" in line.get("error", "")], ["warning"])

    def test_without_descriptors_nothing_ends_and_the_status_is_written_when_there_are_some(self):
        self.prepare(self.claim())
        survived = 0
        for most in range(9, 13):
            with self.subTest(most=most):
                if os.path.exists("/run/status.log"):
                    os.unlink("/run/status.log")
                self.start(preexec_fn=lambda most=most: resource.setrlimit(resource.RLIMIT_NOFILE, (most, 100)))
                time.sleep(0.3)
                self.assertIn(self.process.poll(), (None, 1), "not by a signal")  # 1: it says that it cannot start
                if self.process.poll() is None:
                    resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (100, 100))
                    self.assert_ready({"d1": PREPARED})
                    survived += 1
                self.process.kill()
                self.api.patch(API, CLAIMS, "web-0", {"status": {"devices": []}}, "shop", "status")
        self.assertGreater(survived, 0)

    def test_a_slow_answer_does_not_hold_up_the_end(self):
        self.api.fault(times=100, slow=30)
        self.prepare(self.claim())
        self.start()
        self.assertTrue(wait_for(lambda: self.api.seen("GET"), 5))
        begun = time.monotonic()
        self.assertEqual(self.end(), 0)
        self.assertLess(time.monotonic() - begun, 1)

    def test_a_foreign_change_of_our_entry_is_corrected(self):
        self.prepare(self.claim())
        self.start()
        self.assert_ready({"d1": PREPARED})
        self.api.patch(API, CLAIMS, "web-0", {"status": {"devices": []}}, "shop", "status")
        self.assert_ready({"d1": PREPARED}, timeout=6)

    def test_a_hundred_claims_are_right_after_kills_and_an_absent_server(self):
        names = [f"web-{number}" for number in range(100)]
        uids = {name: self.claim(name, [f"d-{name}"]) for name in names}
        self.start()
        for number, name in enumerate(names):
            self.prepare(uids[name], name, f"d-{name}")
            if number % 2:
                self.attach(f"d-{name}")
            if number % 25 == 10:
                self.process.kill()
                self.process.wait()
                self.start()
            if number == 40:
                self.api.away()
            if number == 70:
                self.api.back()
        for number, name in enumerate(names):
            self.assert_ready({f"d-{name}": ATTACHED if number % 2 else PREPARED}, name)
        time.sleep(0.5)
        before = self.processor_time()
        time.sleep(1)  # the claims are read again once
        self.assertLess(self.processor_time() - before, 0.2)

    def processor_time(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            return sum(int(value) for value in re.sub(r"^.*\) ", "", file.read()).split()[11:13]) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    if not os.path.exists(PROGRAM):
        print("skip everything: claim_status is not built: it needs libgrpc++ and libcurl (scripts/install-deps build)\n0 passed, 0 failed, 1 skipped", flush=True)
        sys.exit(suite.SKIPPED)
    suite.main(per_processor=2)
