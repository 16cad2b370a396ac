#!/usr/bin/env python3
"""What gets through a limit of bandwidth, counted by those who receive it: within 5 % of the rate.

What is counted are whole frames, headers included, as the kernel's token buckets do. Flows that do
not share a limit are measured at the same time.
"""

import dataclasses
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import shaping, suite, traffic  # noqa: E402
from support.hostport import BEYOND, OUTSIDE  # noqa: E402
from support.plugin import OURS, REFERENCE, has_reference  # noqa: E402
from support.shaping import (GBIT, KUBERNETES_BURST, MBIT, ShapingTest,  # noqa: E402
                             limits)

SECONDS = 5  # of measurement
SLOW_SECONDS = 15  # where a packet of 64 KiB, which comes as a whole, is some per cent of 5 seconds
WARM_UP = 1.5  # the bucket is empty and TCP has found its window
TOLERANCE = 0.05

#: {mode: keys}
MODES = {"ifb": {"egressMode": "ifb"}, "pod": {"egressMode": "pod"}}


def typical(rate):
    """A burst for a rate, in bits: 20 ms, but ten frames."""
    return max(rate // 50, 120000)


@dataclasses.dataclass(frozen=True)
class Lane:
    """A flow through a limit that nothing else goes through."""

    mode: str
    direction: str
    protocol: str
    family: int
    directory: str = OURS

    def __str__(self):
        return f"{self.direction} {self.mode} {self.protocol} IPv{self.family}"


def lanes(protocols=("tcp", "udp"), modes=MODES, directory=OURS):
    """A lane for each direction, protocol and family; those into the pod do not know a mode."""
    ways = [("ifb", "ingress")] if "ifb" in modes else []
    ways += [(mode, "egress") for mode in modes]
    return [Lane(mode, direction, protocol, family, directory)
            for mode, direction in ways for protocol in protocols for family in (4, 6)]


class RateTest(ShapingTest):
    def setUp(self):
        super().setUp()
        site = shaping.surroundings()
        self.outside, self.beyond = site.outside, site.beyond

    def flow(self, pod, lane, moments, rate, port, **options):
        """A flow through a limit, which wants rate, or what it can get (TCP)."""
        ends, address = (self.outside, pod.pod), pod.addresses[lane.family]
        if lane.direction == "egress":
            ends, address = ends[::-1], OUTSIDE[lane.family]
        rate = rate if lane.protocol == "udp" else None
        return traffic.Flow(lane.protocol, *ends, address, port, moments, rate, **options)

    def shaped(self, name, lane, rate, burst, **keys):
        """A pod with a limit for the lane alone."""
        return self.limit(name, limits(rate, burst, (lane.direction,)) | MODES[lane.mode] | keys,
                          lane.directory, (lane.family,))

    def assert_rate(self, what, rate):
        """Each lane lets its rate through, all at the same time."""
        pods = [self.shaped(f"p{i}", lane, rate, typical(rate)) for i, lane in enumerate(what)]
        begin = time.monotonic() + WARM_UP
        moments = begin, begin + (SLOW_SECONDS if rate <= MBIT else SECONDS)
        flows = [self.flow(pod, lane, moments, 1.3 * rate, 5000 + i)
                 for i, (pod, lane) in enumerate(zip(pods, what))]
        found = {lane: flow.finish()[0].rate / rate for lane, flow in zip(what, flows)}
        wrong = [f"{lane}: {share:.3f} of the limit" for lane, share in found.items()
                 if abs(1 - share) > TOLERANCE]
        self.assertEqual(wrong, [])
        print(f"     {min(found.values()):.4f} to {max(found.values()):.4f} of the limit in "
              f"{len(found)} flows", flush=True)


@suite.spread
class Rates(RateTest):
    @suite.cases([("1 Mbit", MBIT), ("10 Mbit", 10 * MBIT), ("100 Mbit", 100 * MBIT)])
    @traffic.measured
    def every_flow_has_its(self, rate):
        self.assert_rate(lanes(), rate)

    @suite.cases([(f"1 Gbit {protocol} {mode}", (protocol, mode))
                  for protocol in ("tcp", "udp") for mode in MODES])
    @traffic.measured
    def every_flow_has_its_whole(self, row):
        protocol, mode = row
        self.assert_rate(lanes((protocol,), (mode,)), GBIT)

    @traffic.measured
    def test_the_reference_is_measured_in_the_same_way(self):
        if not has_reference("bandwidth"):
            self.skipTest("the Go plugins are not installed")
        self.assert_rate(lanes(modes=("ifb",), directory=REFERENCE), 10 * MBIT)


@suite.spread
class BothWays(RateTest):
    @suite.cases([(mode, mode) for mode in MODES])
    @traffic.measured
    def acknowledgements_count_where_both_directions_are_limited_by(self, mode):
        rate = 10 * MBIT
        pod = self.limit("p", limits(rate, typical(rate)) | MODES[mode])
        begin = time.monotonic() + WARM_UP
        into, out = (self.flow(pod, Lane(mode, direction, "tcp", 4), (begin, begin + SECONDS), None,
                               port) for port, direction in ((5000, "ingress"), (5001, "egress")))
        (data_in, acks_out), (data_out, acks_in) = into.finish(), out.finish()
        for one, other in ((data_in, acks_in), (data_out, acks_out)):
            self.assertGreater(other.packets, 0)
            share = (one.rate + other.rate) / rate
            # Each direction's data waits for acknowledgements behind the other's: less than its
            # rate is TCP's doing.
            self.assertLess(share, 1 + TOLERANCE)
            self.assertGreater(share, 0.8)


class Changes(RateTest):
    @traffic.measured
    def test_a_connection_lives_on_with_a_lower_rate_and_a_smaller_bucket_and_with_a_higher_one(self):
        what = [lane for lane in lanes(protocols=("tcp",)) if lane.family == 4]
        rates = (20 * MBIT, 5 * MBIT, 40 * MBIT)
        pods = [self.shaped(f"p{i}", lane, rates[0], typical(rates[0]))
                for i, lane in enumerate(what)]
        for rate in rates[1:]:
            begin = time.monotonic() + 3
            flows = [self.flow(pod, lane, (begin, begin + 4), None, 5000 + i)
                     for i, (pod, lane) in enumerate(zip(pods, what))]
            time.sleep(0.7)
            for pod, lane in zip(pods, what):
                pod.change(limits(rate, typical(rate), (lane.direction,)) | MODES[lane.mode])
            for flow, lane in zip(flows, what):
                share = flow.finish()[0].rate / rate
                # What was lost when the bucket became smaller arrives late.
                self.assertAlmostEqual(share, 1, delta=2 * TOLERANCE, msg=f"{lane} {rate}")


SUBNETS = {"shapedSubnets": ["192.0.2.0/24", "2001:db8:1::/64"],
           "unshapedSubnets": ["198.51.100.0/24", "2001:db8:2::/64"]}


@suite.spread
class Subnets(RateTest):
    @suite.cases([(which, which) for which in SUBNETS])
    @traffic.measured
    def the_limit_is_for_one_of_two_hosts_with(self, which):
        rate = 10 * MBIT
        lanes_out = [Lane("ifb", "egress", "udp", family) for family in (4, 6)]
        pods = [self.shaped(f"p{lane.family}", lane, rate, typical(rate),
                            **{which: SUBNETS[which]}) for lane in lanes_out]
        begin = time.monotonic() + WARM_UP
        moments = (begin, begin + 3)
        limited, free = [], []
        for number, (pod, lane) in enumerate(zip(pods, lanes_out)):
            limited.append(self.flow(pod, lane, moments, 1.5 * rate, 5000 + number))
            free.append(traffic.Flow("udp", pod.pod, self.beyond, BEYOND[lane.family],
                                     6000 + number, moments, 3 * rate))
        for flow in limited:
            self.assertAlmostEqual(flow.finish()[0].rate / rate, 1, delta=TOLERANCE)
        for flow in free:
            self.assertAlmostEqual(flow.finish()[0].rate / rate, 3, delta=3 * TOLERANCE)


FIRST = [(str(lane), lane) for lane in lanes() if lane.family == 4]


@suite.spread
class FirstSecond(RateTest):
    """Of a pod that has not sent or received anything."""

    def first_second(self, lane, **keys):
        """What is let through in the first second, as a share of the limit."""
        rate = 10 * MBIT
        pod = self.shaped("p", lane, rate, KUBERNETES_BURST, **keys)
        begin = time.monotonic() + 0.5
        flow = self.flow(pod, lane, (begin, begin + 1), 20 * rate, 5000, begin=begin)
        return flow.finish()[0].rate / rate

    @suite.cases(FIRST)
    @traffic.measured
    def it_is_no_more_than_the_rate_with_burstTime(self, lane):
        share = self.first_second(lane, burstTime=20)
        print(f"     {share:.3f} of the limit", flush=True)
        self.assertLess(share, 1.02 + TOLERANCE)
        self.assertGreater(share, 0.9)

    @suite.cases([row for row in FIRST if row[1].mode == "ifb"])
    @traffic.measured
    def the_reference_lets_through_whatever_comes(self, lane):
        if not has_reference("bandwidth"):
            self.skipTest("the Go plugins are not installed")
        share = self.first_second(dataclasses.replace(lane, directory=REFERENCE))
        print(f"     {share:.3f} times the limit", flush=True)
        self.assertGreater(share, 10)


if __name__ == "__main__":
    traffic.ahead_of_others()
    suite.main(needs=("ping",))
