#!/usr/bin/env python3
"""A node is upgraded while pods with limits run: what the Go plugins limited, ours check, change and
remove, and the reverse."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.bandwidth import (BOTH, EGRESS, INGRESS, ON_NODE, SLOW_FROM, SLOW_TO,  # noqa: E402
                               TO_POD, BandwidthTest, everything, ifb_name, ifbs, qdiscs, runtime)
from support.chain import Network  # noqa: E402
from support.plugin import OURS, REFERENCE, cni, has_reference  # noqa: E402
from support.shaping import KUBERNETES_BURST  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run, wait_for  # noqa: E402

KUBERNETES = runtime(ingressRate=1_000_000, ingressBurst=KUBERNETES_BURST,
                     egressRate=2_000_000, egressBurst=KUBERNETES_BURST)
CONFIGS = {"both ways": BOTH, "to the pod": INGRESS, "from the pod": EGRESS,
           "the runtime's": runtime(**BOTH), "Kubernetes' bursts": KUBERNETES,
           "fifo": BOTH | {"queue": "fifo"}, "no limits": {}}
WAYS = {"ours removes what the reference limited": (REFERENCE, OURS),
        "the reference removes what ours limited": (OURS, REFERENCE)}


class MixedTest(BandwidthTest):
    def setUp(self):
        super().setUp()
        if not has_reference("bandwidth"):
            self.skipTest(f"the Go plugins are not in {REFERENCE}")

    def gone(self, one):
        """The pod is removed, and its veth with it."""
        one.remove()
        wait_for(lambda: one.outside not in run("ip", "link"))


@suite.spread
class Mixed(MixedTest):
    @suite.cases([(f"{way}: {name}, {version}, {'with' if prev else 'without'} prevResult",
                   (first, second, keys, version, prev))
                  for way, (first, second) in WAYS.items() for name, keys in CONFIGS.items()
                  for version, prev in (("1.0.0", True), ("1.0.0", False), ("0.4.0", True))])
    def nothing_is_left_when(self, case):
        first, second, keys, version, prev = case
        before = snapshot()
        one = self.container()
        with_pod = everything(one)
        keys = {"cniVersion": version} | keys
        result = self.add(one, {"directory": first}, **keys)
        if keys.items() >= BOTH.items():
            self.assertEqual(self.limits(one), {TO_POD: SLOW_TO, ON_NODE: SLOW_FROM})
        checked = self.call("CHECK", one, {"directory": second}, **keys | {"prevResult": result})
        wraps = second == REFERENCE and KUBERNETES.items() <= keys.items()
        crashes = second == REFERENCE and len(keys) == 1  # its CHECK needs a limit
        if wraps:  # it expects what its arithmetic makes of the burst
            self.assertIn("Buffer doesn't match", checked.stdout)
        elif not crashes:
            self.assert_ok(checked)
        self.delete(one, {"directory": second}, **keys | {"prevResult": result if prev else None})
        self.assertEqual(ifbs(), {})
        if second == OURS:
            self.assertEqual(everything(one), with_pod)
        self.gone(one)
        self.assert_same(before)

    @suite.cases([(name, keys) for name, keys in CONFIGS.items() if keys])
    def an_upgrade_takes_over(self, keys):
        """ADD again, by the other one: the same as if it had been ours from the start."""
        one = self.container()
        self.add(one, **keys | {"queue": "fifo"})
        wanted = qdiscs(one.outside), [qdiscs(name) for name in ifbs()]
        self.delete(one, **keys)
        self.add(one, {"directory": REFERENCE}, **keys)
        self.add(one, **keys | {"queue": "fifo"})
        self.assertEqual((qdiscs(one.outside), [qdiscs(name) for name in ifbs()]), wanted)
        self.check(one, **keys | {"queue": "fifo"})

    def test_the_reference_refuses_what_is_limited_already(self):
        one = self.container()
        self.add(one, **BOTH)
        before = everything(one)
        self.assert_error_of_reference(self.call("ADD", one, {"directory": REFERENCE}, **BOTH))
        self.assertEqual(everything(one), before)

    def assert_error_of_reference(self, outcome):
        self.assertEqual(outcome.status, 1, str(outcome))
        self.assertIn("file exists", outcome.stdout)

    def test_GC_leaves_what_the_reference_limited(self):
        """Its device does not say whose it is."""
        one, two = self.container(), self.container()
        self.add(one, {"directory": REFERENCE}, **EGRESS)
        self.add(two, **EGRESS)
        self.assert_ok(cni("bandwidth", "GC", {
            "cniVersion": "1.1.0", "name": "net1", "type": "bandwidth",
            "cni.dev/valid-attachments": []}))
        self.assertEqual(set(ifbs()), {ifb_name("pod1")})

    def test_both_limit_pods_of_one_node(self):
        before = snapshot()
        ones = [self.container() for _ in range(4)]
        for one, directory in zip(ones, (REFERENCE, OURS, REFERENCE, OURS)):
            self.add(one, {"directory": directory}, **BOTH)
        for one in ones:
            self.assertEqual(self.limits(one), {TO_POD: SLOW_TO, ON_NODE: SLOW_FROM})
        for one, directory in zip(ones, (OURS, REFERENCE, REFERENCE, OURS)):
            self.delete(one, {"directory": directory}, **BOTH)
            self.gone(one)
        self.assert_same(before)


BRIDGE = {"type": "bridge", "isDefaultGateway": True,
          "ipam": {"type": "host-local", "subnet": "10.1.2.0/24"}}
# Whose bridge, whose bandwidth.
MIXES = [("the reference's bandwidth after our bridge", (OURS, REFERENCE)),
         ("our bandwidth after the reference's bridge", (REFERENCE, OURS)),
         ("both ours", (OURS, OURS))]


@suite.spread
class Chains(MixedTest):
    @suite.cases(MIXES)
    def works_and_leaves_nothing(self, row):
        first, second = row
        os.makedirs("/run/bin")
        for directory, names in ((first, ("bridge", "host-local")), (second, ("bandwidth",))):
            for name in names:
                os.symlink(os.path.join(directory, name), f"/run/bin/{name}")
        network = Network({"cniVersion": "1.0.0", "name": "net1", "plugins": [
            BRIDGE, {"type": "bandwidth", "capabilities": {"bandwidth": True}}]}, ("/run/bin",))
        before = snapshot()
        pod = self.pod()
        result, failed = network.add({"bandwidth": BOTH}, netns=pod.path)
        self.assertIsNone(failed, str(failed))
        self.assertEqual([i["name"] for i in result["interfaces"]][2:],
                         ["eth0", ifb_name("pod1")])
        pod.run("ping", "-c1", "-W2", "10.1.2.1")
        for verb in ("CHECK", "DEL", "DEL"):
            failed = network.each(verb, result, {"bandwidth": BOTH}, netns=pod.path)
            self.assertIsNone(failed, str(failed))
        pod.remove()
        self.assert_same(before, ignore=left_by_design)


if __name__ == "__main__":
    suite.main(needs=("ping",))
