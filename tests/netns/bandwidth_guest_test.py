#!/usr/bin/env python3
"""Fair queues and departure times from the first ADD to the last DEL.

Where the kernel has no fq_codel and no fq, this runs under another kernel: scripts/vm.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import guest, suite  # noqa: E402
from support.bandwidth import (BOTH, EDT, EGRESS, INGRESS, POD, BandwidthTest, everything,  # noqa: E402
                               ifb_name, ifbs, qdiscs)
from support.plugin import REFERENCE, cni, has_reference  # noqa: E402
from support.snapshot import pod_snapshot, snapshot  # noqa: E402
from support.world import run  # noqa: E402

SUBNETS = {"unshapedSubnets": ["10.0.0.0/8", "fd00::/8"]}


class GuestTest(BandwidthTest):
    def setUp(self):
        super().setUp()
        self.before = snapshot()
        self.one = self.container()
        self.with_pod, self.inside = snapshot(), pod_snapshot(self.one)

    def waiting(self, dev, place="1:1"):
        """What waits below a bucket: (kind, handle, options)."""
        return qdiscs(dev).get(place, (None, None, None))

    def assert_nothing_left(self):
        self.assert_same(self.with_pod)
        self.assert_same(self.inside, pod_snapshot(self.one))


class Fair(GuestTest):
    def test_queues_are_what_is_made_without_a_word(self):
        one = self.one
        self.add(one, **BOTH)
        for dev in (one.outside, ifb_name("pod1")):
            kind, handle, options = self.waiting(dev)
            self.assertEqual((kind, handle), ("fq_codel", "3:"))
            self.assertEqual(options["memory_limit"], 32 << 20)
        self.check(one, **BOTH)
        self.check(one, queue="fair", **BOTH)
        self.assert_error(self.call("CHECK", one, queue="fifo", **BOTH), 999, one.outside)
        for _ in range(2):
            self.delete(one, **BOTH)
        self.assert_nothing_left()

    def test_queues_become_others_and_fair_again(self):
        one, keys = self.one, EGRESS | POD
        self.add(one, queue="fifo", **keys)
        with one.inside():
            self.assertEqual(list(qdiscs("eth0")), ["root"])
        self.assert_error(self.call("CHECK", one, queue="fair", **keys), 999, "bfifo")
        for queue, kind in (("fair", "fq_codel"), ("fifo", "bfifo"), (None, "fq_codel")):
            self.add(one, queue=queue, **keys)
            with one.inside():
                self.assertEqual(self.waiting("eth0")[0], kind)
            self.check(one, queue=queue, **keys)
        one.run("ping", "-c1", "-w5", one.gateway)
        self.delete(one, **keys)
        self.assert_nothing_left()

    def test_queues_are_in_the_class_with_the_limit(self):
        one, keys = self.one, INGRESS | SUBNETS | {"latency": 300}
        self.add(one, queue="fair", **keys)
        wanted = everything(one)
        kind, _, options = self.waiting(one.outside, "1:30")
        self.assertEqual(kind, "fq_codel")
        self.assertEqual(options["memory_limit"], 2 * 300_000 + 16384)
        self.assertEqual(self.waiting(one.outside, "1:1")[0], "bfifo")
        self.check(one, queue="fair", **keys)
        self.add(one, **INGRESS)
        self.add(one, queue="fair", **keys)
        self.assertEqual(everything(one), wanted)
        run("tc", "qdisc", "replace", "dev", one.outside, "parent", "1:30", "handle", "9:", "pfifo")
        self.assert_error(self.call("CHECK", one, **keys), 999, "pfifo")
        self.add(one, **keys)
        self.check(one, queue="fair", **keys)
        self.delete(one, **keys)
        self.assert_nothing_left()

    def test_queues_follow_the_reference_s_limits(self):
        if not has_reference("bandwidth"):
            self.skipTest(f"the Go plugins are not in {REFERENCE}")
        one = self.one
        self.add(one, {"directory": REFERENCE}, **BOTH)
        self.check(one, **BOTH)
        self.add(one, **BOTH)
        self.assertEqual(self.waiting(one.outside)[0], "fq_codel")
        checked = self.call("CHECK", one, {"directory": REFERENCE}, **BOTH)
        self.assertEqual((checked.status, checked.stdout), (0, ""))
        self.delete(one, **BOTH)
        self.assert_nothing_left()


class Edt(GuestTest):
    def assert_shaped(self):
        with self.one.inside():
            kinds = {place: what[0] for place, what in qdiscs("eth0").items()}
            self.assertEqual(kinds, {"root": "fq", "ffff:fff1": "clsact"})
            self.assertIn("patchbay_edt", run("tc", "filter", "show", "dev", "eth0", "egress"))

    def test_lives_and_goes(self):
        one, keys = self.one, BOTH | EDT
        result = self.add(one, **keys)
        self.assert_shaped()
        self.assertEqual(qdiscs(one.outside)["root"][0], "tbf")
        self.assertEqual([i["name"] for i in result["interfaces"]], [one.outside, "eth0"])
        self.check(one, **keys)
        one.run("ping", "-c1", "-w5", one.gateway)
        self.add(one, **keys | {"egressRate": 8_000_000})
        self.assert_error(self.call("CHECK", one, **keys), 999, "the program of")
        self.check(one, **keys | {"egressRate": 8_000_000})
        one.run("tc", "filter", "del", "dev", "eth0", "egress")
        self.assert_error(self.call("CHECK", one, **keys), 999, "patchbay_edt")
        self.add(one, **keys)
        self.check(one, **keys)
        for _ in range(2):
            self.delete(one, **keys)
        self.assert_nothing_left()
        one.run("ping", "-c1", "-w5", one.gateway)

    def test_is_repaired_wherever_it_was_taken_away(self):
        one, keys = self.one, BOTH | EDT
        self.add(one, **keys)
        for what in (["filter", "del", "dev", "eth0", "egress"], ["qdisc", "del", "dev", "eth0", "clsact"],
                     ["qdisc", "del", "dev", "eth0", "root"]):
            one.run("tc", *what)
            run("tc", "qdisc", "del", "dev", one.outside, "root")
            self.assert_error(self.call("CHECK", one, **keys), 999)
            self.assertEqual(len(self.assert_ok(self.call("REPAIR", one, **keys))["found"]), 1)
            self.assert_shaped()
            self.check(one, **keys)
            self.assertEqual(self.assert_ok(self.call("REPAIR", one, **keys))["found"], [])
        self.delete(one, **keys)
        self.assert_nothing_left()

    def test_takes_the_place_of_other_modes_and_gives_it_back(self):
        one = self.one
        for mode in ({}, EDT, POD, EDT, {}, POD):
            self.add(one, **EGRESS | mode)
            self.check(one, **EGRESS | mode)
            self.assertEqual(len(ifbs()), 0 if mode else 1)
        self.add(one, **EGRESS | EDT)
        self.add(one, **INGRESS | EDT)  # no limit from the pod any more
        self.assert_same(self.inside, pod_snapshot(one))
        self.delete(one, **INGRESS | EDT)
        self.assert_nothing_left()

    def test_goes_with_its_namespace_and_without_words(self):
        one = self.one
        self.add(one, **BOTH | EDT)
        self.delete(one, egressMode="moon")  # whatever it may have been
        self.assert_nothing_left()
        self.add(one, **BOTH | EDT)
        one.remove()
        self.delete(one, **BOTH | EDT)
        self.assert_same(self.before, ignore=lambda place: one.outside in place)


class Status(suite.NodeTest):
    def test_of_a_kernel_that_has_it_all_is_content(self):
        before = snapshot()
        for keys in ({}, {"queue": "fair"}, {"queue": "fair"} | SUBNETS, EDT | {"queue": "fair"}):
            self.assert_ok(cni("bandwidth", "STATUS", {"cniVersion": "1.1.0", "name": "net1",
                                                       "type": "bandwidth"} | BOTH | keys))
        self.assert_same(before)


def able():
    return guest.has_qdisc("fq_codel") and guest.has_qdisc("fq")


if __name__ == "__main__":
    guest.enter_unless(able, "the kernel has no fq_codel or no fq")
    suite.main(needs=("ping",))
