#!/usr/bin/env python3
"""The default queue behind a limit: a small flow does not wait behind a big one, as it does with the
reference.

Where the kernel has no fq_codel, this runs under another kernel: scripts/vm.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import guest, shaping, suite, traffic  # noqa: E402
from support.plugin import OURS, REFERENCE, has_reference  # noqa: E402
from support.shaping import KUBERNETES_BURST, MBIT, Load, ShapingTest, limits  # noqa: E402

RATE = 10 * MBIT
#: Milliseconds that the slow guest may take for 95 of 100 round trips.
MOST = 10
WAYS = [("ingress", "ifb"), ("egress", "ifb"), ("egress", "pod")]


@suite.spread
class Fair(ShapingTest):
    def setUp(self):
        super().setUp()
        self.site = shaping.surroundings()

    def round_trips(self, way, protocol, burst, directory=OURS):
        """RoundTrips beside a flow that fills the limit."""
        direction, mode = way
        keys = limits(RATE, burst, (direction,)) | {"egressMode": mode}
        pod = self.limit("pod-" + os.path.basename(directory), keys, directory)
        load = Load(pod, direction, protocol, RATE)
        if burst == KUBERNETES_BURST:
            shaping.empty_buckets(self.site, [load])
        found, = shaping.round_trips(self.site, [load], warm_up=2, seconds=4)
        print(f"     {directory}: median {found.at(0.5):.2f}, 95 % {found.at(0.95):.2f} ms, "
              f"{found.lost} lost, {found.share:.2f} of the limit used", flush=True)
        return found

    @suite.cases([(f"{' '.join(way)} {protocol}", (way, protocol))
                  for way in WAYS for protocol in ("tcp", "udp")])
    @traffic.measured
    def a_small_flow_does_not_wait_behind(self, row):
        way, protocol = row
        found = self.round_trips(way, protocol, RATE // 10)
        self.assertGreater(found.share, 0.9)
        self.assertLess(found.at(0.95), MOST)

    @traffic.measured
    def test_nor_does_it_when_the_burst_of_Kubernetes_is_used_up(self):
        found = self.round_trips(("ingress", "ifb"), "tcp", KUBERNETES_BURST)
        self.assertLess(found.at(0.95), MOST)

    @suite.cases([("100 ms", RATE // 10), ("Kubernetes", KUBERNETES_BURST)])
    @traffic.measured
    def with_the_reference_it_waits_after_a_burst_of(self, burst):
        if not has_reference("bandwidth"):
            self.skipTest("the Go plugins are not installed")
        found = self.round_trips(("ingress", "ifb"), "tcp", burst, REFERENCE)
        self.assertGreater(found.at(0.5), 5 * MOST)


if __name__ == "__main__":
    traffic.ahead_of_others()
    os.environ.setdefault("VM_TIMEOUT", "600")
    guest.enter_unless(lambda: guest.has_qdisc("fq_codel"), "the kernel has no fq_codel")
    suite.main(needs=("ping",))
