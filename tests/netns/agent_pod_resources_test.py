#!/usr/bin/env python3
"""patchbay-agent asks the kubelet's PodResources which pod has a device: large answers, the rate limit, kubelets without Get."""

import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, kubelet, suite  # noqa: E402
from support.agent import RESOURCE, Agent, slots  # noqa: E402
from support.kubelet import Kubelet  # noqa: E402
from support.world import run, set_up, wait_for  # noqa: E402

IDS = [f"uplink:macvlan:{n}" for n in range(1, 31)]


@suite.spread
class Claims(suite.NodeTest):
    """What a plugin gets for its pod."""

    def setUp(self):
        super().setUp()
        run("ip", "link", "add", "uplink", "type", "veth", "peer", "name", "uplink-out")
        set_up("uplink-out")
        set_up("uplink")
        self.of = Kubelet()
        self.addCleanup(lambda: self.of.kill())
        self.by = Agent(slots(30))
        self.addCleanup(self.by.process.wait)
        self.addCleanup(lambda: self.by.process.kill())
        self.assertTrue(wait_for(lambda: len(self.of.devices(RESOURCE)) == 30, 20), self.by.log)

    def admit(self, name, *ids):
        """As a kubelet admits a pod."""
        self.of.allocate(RESOURCE, ids)
        self.of.own("shop", name, {"other.example/gpu": ["g1"], RESOURCE: list(ids)})

    def assert_try_again(self, answer, *texts):
        self.assertIsInstance(answer, dict)
        self.assertEqual(answer["code"], 11, answer)
        for text in texts:
            self.assertIn(text, f"{answer['msg']} {answer.get('details', '')}")

    @suite.cases([("Get", "on"), ("the list, if the kubelet does not know Get", "unimplemented"),
                  ("the list, if Get is disabled", "disabled")])
    def a_pod_gets_its_devices_by(self, get):
        self.of.ask("rules", get=get)
        self.admit("web-0", *IDS[:2])
        self.admit("web-1", IDS[2])
        self.assertEqual(self.by.claim("shop", "web-0"), IDS[:2])
        self.assertEqual(self.by.claim("shop", "web-1", "u2"), IDS[2:3])
        self.assertEqual(self.by.claim("shop", "none", "u3"), [])
        entry = next(one for one in agent.ledger().values() if one["id"] == IDS[2])
        self.assertEqual(entry["pod"], {"namespace": "shop", "name": "web-1", "uid": "u2"})

    @suite.cases([("an empty answer to Get", {"get": "empty"}), ("two pods of its name", {"get": "unimplemented", "times": 2}),
                  ("a list without any pod", {"get": "unimplemented", "times": 0})])
    def a_claim_is_tried_again_after(self, rules):
        self.admit("web-0", IDS[0])
        self.of.ask("rules", **rules)
        self.assert_try_again(self.by.claim("shop", "web-0"))
        self.of.ask("rules", get="on", times=1)
        self.assertEqual(self.by.claim("shop", "web-0"), IDS[:1])

    def test_a_kubelet_without_get_is_not_asked_for_it_each_time(self):
        self.of.ask("rules", get="disabled")
        self.admit("web-0", IDS[0])
        self.of.ask("rules")
        for _ in range(5):
            self.assertEqual(self.by.claim("shop", "web-0"), IDS[:1])
        self.assertLessEqual(self.of.ask("rules")["Get"], 1)

    def test_an_answer_of_five_megabytes_is_read(self):
        self.of.ask("rules", get="unimplemented", padding=5 << 20)
        self.admit("web-0", IDS[0])
        before = self.by.memory()
        for _ in range(5):
            self.assertEqual(self.by.claim("shop", "web-0"), IDS[:1])
        self.assertLess(self.by.memory() - before, 8 << 10, "KiB stay the agent's")

    def test_an_answer_beyond_sixteen_mebibytes_is_an_error(self):
        self.of.ask("rules", get="unimplemented", padding=20 << 20)
        self.admit("web-0", IDS[0])
        self.assertIn("the answer is larger than 16 MiB", self.by.claim("shop", "web-0")["msg"])
        self.of.ask("rules", padding=0)
        self.assertEqual(self.by.claim("shop", "web-0"), IDS[:1])

    def test_a_call_over_the_rate_limit_is_made_again(self):
        self.admit("web-0", IDS[0])
        self.of.ask("rules", refuse=3)
        self.assertEqual(self.by.claim("shop", "web-0"), IDS[:1])
        self.assertEqual(self.of.ask("rules")["refused"], 3)

    def test_a_kubelet_that_refuses_for_long_is_for_a_later_attempt(self):
        self.admit("web-0", IDS[0])
        self.of.ask("rules", refuse=1000)
        begun = time.monotonic()
        self.assert_try_again(self.by.claim("shop", "web-0"), "rejected by rate limit")
        self.assertLess(time.monotonic() - begun, 10)
        self.of.ask("rules", refuse=0)
        self.assertEqual(self.by.claim("shop", "web-0"), IDS[:1])

    def test_a_crowd_of_pods_stays_below_the_kubelets_limit(self):
        """100 calls a second, with a burst of 10, as the kubelet has it."""
        for n in range(30):
            self.admit(f"web-{n}", IDS[n])
        time.sleep(1)
        self.of.ask("rules", rate=100)
        self.assertEqual(self.claim_at_once(30), {n: [IDS[n]] for n in range(30)})
        self.assertEqual(self.of.ask("rules")["refused"], 0)

    def test_a_crowd_of_pods_is_answered_by_few_calls(self):
        """Of those who wait while the kubelet answers others, one list says it."""
        for n in range(30):
            self.admit(f"web-{n}", IDS[n])
        time.sleep(1)
        self.of.ask("rules", delay=0.5)
        answers = self.claim_at_once(30)
        self.assertEqual(answers, {n: [IDS[n]] for n in range(30)})
        calls = self.of.ask("rules", delay=0)
        self.assertLess(calls["Get"] + calls["List"], 15, calls)

    def test_where_the_list_is_too_large_each_of_a_crowd_is_asked_for_alone(self):
        for n in range(8):
            self.admit(f"web-{n}", IDS[n])
        self.of.ask("rules", padding=20 << 20, delay=0.2)
        self.assertEqual(self.claim_at_once(8), {n: [IDS[n]] for n in range(8)})

    def claim_at_once(self, count):
        """{number: answer}"""
        answers = {}

        def claim(n):
            answers[n] = self.by.claim("shop", f"web-{n}", f"u{n}")
        callers = [threading.Thread(target=claim, args=(n,)) for n in range(count)]
        for one in callers:
            one.start()
        for one in callers:
            one.join()
        return answers

    def test_without_a_kubelet_the_runtime_tries_again_later(self):
        self.admit("web-0", IDS[0])
        self.of.kill()
        begun = time.monotonic()
        self.assert_try_again(self.by.claim("shop", "web-0"), "/pod-resources/kubelet.sock", "--kubelet-dir")
        self.assertLess(time.monotonic() - begun, 3)
        self.of.start()
        self.of.own("shop", "web-0", {RESOURCE: IDS[:1]})
        self.assertEqual(self.by.claim("shop", "web-0"), IDS[:1])

    def test_a_kubelet_that_does_not_answer_takes_five_seconds(self):
        self.admit("web-0", IDS[0])
        self.of.ask("rules", delay=20)
        begun = time.monotonic()
        self.assert_try_again(self.by.claim("shop", "web-0"), "did not answer in 5 s")
        self.assertLess(time.monotonic() - begun, 12)


if __name__ == "__main__":
    reason = kubelet.why_impossible() or agent.why_impossible()
    if reason:
        print(f"skip everything: {reason}\n0 passed, 0 failed, 1 skipped", flush=True)
        sys.exit(suite.SKIPPED)
    suite.main(per_processor=2)
