#!/usr/bin/env python3
"""How long packets wait behind a limit of bandwidth that is full: not longer than `latency` says.

A small datagram goes to the host outside and back every 10 ms. What it takes has 5 ms for all that
is not the queue.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import shaping, suite, traffic  # noqa: E402
from support.shaping import KUBERNETES_BURST, MBIT, Load, ShapingTest, limits  # noqa: E402

ELSE = 5  # milliseconds
WAYS = [("ingress", "ifb"), ("egress", "ifb"), ("egress", "pod")]
# Every flow of a row is there at the same time, behind a limit of its own.
ROWS = [
    ("1 Mbit and 50 ms", (1 * MBIT, 100_000, 50)),
    ("10 Mbit and 10 ms", (10 * MBIT, 1 * MBIT, 10)),
    ("10 Mbit, 10 ms and the burst of Kubernetes", (10 * MBIT, KUBERNETES_BURST, 10)),
    ("100 Mbit and 2 ms", (100 * MBIT, 10 * MBIT, 2)),
    ("100 Mbit and 10 ms", (100 * MBIT, 10 * MBIT, 10)),
]


@suite.spread
class Latency(ShapingTest):
    def setUp(self):
        super().setUp()
        self.site = shaping.surroundings()

    def loads(self, rate, burst, latency):
        out = []
        for direction, mode in WAYS:
            for protocol in ("tcp", "udp"):
                keys = limits(rate, burst, (direction,)) | {"latency": latency, "egressMode": mode,
                                                            "queue": "fifo"}
                pod = self.limit(f"{direction}-{mode}-{protocol}", keys)
                out.append(Load(pod, direction, protocol, rate))
        return out

    @suite.cases(ROWS)
    @traffic.measured
    def no_longer_than_asked_for_with(self, row):
        rate, burst, latency = row
        loads = self.loads(rate, burst, latency)
        found = shaping.round_trips(self.site, loads, warm_up=2, seconds=3)
        for load, one in zip(loads, found):
            print(f"     {load.pod.pod.name:15} median {one.at(0.5):6.2f}, 95 % "
                  f"{one.at(0.95):6.2f} ms, {one.lost} lost, {one.share:.2f} of the limit used",
                  flush=True)
        late = {load.pod.pod.name: one.at(0.95) for load, one in zip(loads, found)
                if one.at(0.95) >= latency + ELSE}
        idle = {load.pod.pod.name: one.share for load, one in zip(loads, found)
                if one.share < 0.9}
        self.assertEqual((late, idle), ({}, {}), "late, and limits that are not used")


if __name__ == "__main__":
    traffic.ahead_of_others()
    suite.main(needs=("ping",))
