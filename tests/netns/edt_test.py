#!/usr/bin/env python3
"""egressMode "edt": a program gives packets departure times, fq keeps to them. What a pod sends
then is within 5 % of its limit; it is dropped where it would wait too long; a change does not
interrupt it; and nothing stays behind.

Where the kernel has no fq, this runs under another kernel: scripts/vm.
"""

import ctypes
import json
import os
import platform
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import guest, shaping, suite, traffic  # noqa: E402
from support.hostport import OUTSIDE  # noqa: E402
from support.plugin import cni  # noqa: E402
from support.shaping import KBIT, MBIT, ShapingTest, limits  # noqa: E402
from support.snapshot import diff, pod_snapshot  # noqa: E402
from support.world import Pod, run, wait_for  # noqa: E402

SECONDS = 3  # of measurement
WARM_UP = 1  # the bucket is empty and TCP has found its window
TOLERANCE = 0.05
#: More than any horizon here lets through: the queue drops, the socket does not wait.
LARGE_BUFFER = 200_000_000


def keys(rate, burst=None, latency=500, **more):
    """The keys of a limit in bits/s and bits (20 ms of the rate, but ten frames), and ms."""
    burst = burst or max(rate // 50, 120_000)
    return limits(rate, burst, ("egress",)) | {"egressMode": "edt", "latency": latency} | more


def program_exists(number):
    """Whether the kernel has a program of this number: bpf(2), BPF_PROG_GET_FD_BY_ID."""
    call = {"x86_64": 321, "aarch64": 280}[platform.machine()]
    attributes = ctypes.create_string_buffer(number.to_bytes(4, sys.byteorder), 128)
    fd = ctypes.CDLL(None, use_errno=True).syscall(call, 13, attributes, 12)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


class EdtTest(ShapingTest):
    def setUp(self):
        super().setUp()
        status = cni("bandwidth", "STATUS", {"cniVersion": "1.1.0", "name": "shaped",
                                             "type": "bandwidth", "egressMode": "edt",
                                             "egressRate": 8_000_000, "egressBurst": 80_000})
        if "without eBPF" in status.stdout:
            self.skipTest(status.json["msg"])
        self.assert_ok(status)

    def shaped(self, name="p", **conf):
        """A pod that can talk to the outside; conf is for keys()."""
        if not hasattr(self, "outside"):
            self.outside = shaping.surroundings().outside
        return self.limit(name, keys(**conf), families=(4, 6))

    def start(self, pod, protocol, family=4, rate=None, port=5000, warm_up=WARM_UP,
              seconds=SECONDS, **options):
        """A flow out of the pod, which wants rate where it is UDP."""
        begin = time.monotonic() + warm_up
        return traffic.Flow(protocol, pod.pod, self.outside, OUTSIDE[family], port,
                            (begin, begin + seconds), rate, **options)

    def qdisc(self, pod, kind):
        """What tc(8) shows of a qdisc of eth0, with its counters; None where there is none."""
        shown = json.loads(pod.run("tc", "-j", "-s", "qdisc", "show", "dev", "eth0"))
        return next((one for one in shown if one["kind"] == kind), None)

    def program(self, pod):
        """The number of the program at the egress."""
        shown = json.loads(pod.run("tc", "-j", "filter", "show", "dev", "eth0", "egress"))
        (options,) = (one["options"] for one in shown if "options" in one)
        self.assertEqual(options["bpf_name"], "patchbay_edt")
        self.assertTrue(options["direct-action"])
        return options["prog"]["id"]

    def run_bandwidth(self, verb, pod, result=None, **conf):
        """A call of the plugin alone."""
        return cni("bandwidth", verb, {
            "cniVersion": "1.0.0", "name": "shaped", "type": "bandwidth",
            "prevResult": result or {"cniVersion": "1.0.0"}} | keys(**conf),
            netns=pod.path, container=pod.name)


@suite.spread
class Rates(EdtTest):
    # Each rate with both protocols, each protocol with both families.
    @suite.cases([(f"{rate} Mbit {protocol} IPv{family}", (rate * MBIT, protocol, family))
                  for rate, flip in ((1, 0), (10, 2), (100, 0), (300, 2))
                  for protocol, family in (("tcp", 4 + flip), ("udp", 6 - flip))])
    @traffic.measured
    def what_is_sent_is_the_limit_of(self, row):
        rate, protocol, family = row
        pod = self.shaped(rate=rate, latency=1000)
        wish = {"rate": 1.7 * rate, "buffer": LARGE_BUFFER} if protocol == "udp" else {}
        flow = self.start(pod, protocol, family, warm_up=3, **wish)
        heard, offered = flow.finish()
        share = heard.rate / rate
        print(f"     {share:.4f} of the limit", flush=True)
        if share < 1 - TOLERANCE and protocol == "udp" and offered.rate < 1.2 * rate:
            raise traffic.NotOffered(f"{offered.rate / rate:.2f} of the limit could be sent")
        self.assertLess(share, 1 + TOLERANCE)
        self.assertGreater(share, 1 - TOLERANCE)
        self.assertEqual(self.qdisc(pod.pod, "fq")["drops"], 0, "it is the program that drops")

    @suite.cases([("horizon", {"latency": 20}), ("horizon and burst", {"latency": 20,
                                                                      "burst": 8000})])
    @traffic.measured
    def large_packets_of_TCP_get_through_a_short(self, conf):
        rate = 10 * MBIT
        pod = self.shaped(rate=rate, **conf)
        share = self.start(pod, "tcp").finish()[0].rate / rate
        print(f"     {share:.4f} of the limit", flush=True)
        self.assertLess(share, 1 + TOLERANCE)
        self.assertGreater(share, 0.85)

    @traffic.measured
    def test_a_slow_pod_is_slow_and_not_cut_off(self):
        rate = 64 * KBIT
        pod = self.shaped(rate=rate, burst=24_000, latency=2000)
        share = self.start(pod, "tcp", warm_up=8, seconds=10).finish()[0].rate / rate
        print(f"     {share:.4f} of the limit", flush=True)
        self.assertLess(share, 1.1)  # what is measured is 53 frames
        self.assertGreater(share, 0.7)


@suite.spread
class Queue(EdtTest):
    @traffic.measured
    def test_a_datagram_socket_waits_for_the_limit_and_loses_nothing(self):
        rate = 10 * MBIT
        pod = self.shaped(rate=rate, latency=1000)
        share = self.start(pod, "udp", rate=3 * rate).finish()[0].rate / rate
        print(f"     {share:.4f} of the limit", flush=True)
        self.assertLess(share, 1 + TOLERANCE)
        self.assertGreater(share, 0.7)  # a busy machine wakes it late
        self.assertEqual(self.qdisc(pod.pod, "clsact")["drops"], 0)
        self.assertEqual(self.qdisc(pod.pod, "fq")["drops"], 0)

    @suite.cases([("1 Mbit", (MBIT, 100)), ("10 Mbit", (10 * MBIT, 30))])
    @traffic.measured
    def a_transfer_does_not_keep_others_waiting_at(self, row):
        """TCP alone knows how little it may queue, if its packets are small: with those of 64 KiB
        the middle is 400 and 80 ms."""
        rate, most = row
        pod = self.shaped(rate=rate)
        begin = time.monotonic() + 2
        flow = self.start(pod, "tcp", warm_up=2)
        echo = traffic.Echo(pod.pod, self.outside, OUTSIDE[4], 6000, (begin, begin + SECONDS), 0.02)
        asked, took = echo.finish()
        share = flow.finish()[0].rate / rate
        middle = took[len(took) // 2]
        print(f"     {share:.4f} of the limit, waited {middle:.1f} ms (middle of {len(took)} of "
              f"{asked})", flush=True)
        self.assertGreater(share, 0.85)
        self.assertLess(middle, most)

    @traffic.measured
    def test_nothing_waits_longer_than_the_horizon(self):
        rate = 4 * MBIT
        pod = self.shaped(rate=rate, latency=100)
        begin = time.monotonic() + WARM_UP
        flow = self.start(pod, "udp", rate=2 * rate, buffer=LARGE_BUFFER, warm_up=WARM_UP)
        echo = traffic.Echo(pod.pod, self.outside, OUTSIDE[4], 6000, (begin, begin + SECONDS), 0.02)
        asked, took = echo.finish()
        share = flow.finish()[0].rate / rate
        self.assertLess(share, 1 + TOLERANCE)
        self.assertGreater(self.qdisc(pod.pod, "clsact")["drops"], 100)
        middle = took[len(took) // 2]
        print(f"     {share:.4f} of the limit, waited {middle:.0f} ms (middle of {len(took)} of "
              f"{asked}), {took[0]:.0f} to {took[-1]:.0f} ms", flush=True)
        self.assertGreater(middle, 60)
        self.assertLess(middle, 130)  # a packet of the flow takes 3 ms


class Changes(EdtTest):
    @traffic.measured
    def test_a_connection_lives_on_with_another_rate(self):
        pod = self.shaped(rate=20 * MBIT)
        for rate in (5 * MBIT, 40 * MBIT):
            flow = self.start(pod, "tcp", warm_up=3)
            time.sleep(0.7)
            sent = self.qdisc(pod.pod, "fq")["packets"]
            self.assertGreater(sent, 0)
            pod.change(keys(rate))
            self.assertGreaterEqual(self.qdisc(pod.pod, "fq")["packets"], sent, "the same queue")
            share = flow.finish()[0].rate / rate
            print(f"     {share:.4f} of the limit", flush=True)
            self.assertAlmostEqual(share, 1, delta=TOLERANCE)

    @traffic.measured
    def test_an_ADD_again_gives_no_second_burst(self):
        rate = 10 * MBIT
        pod = self.shaped(rate=rate, burst=rate)  # a second of it
        flow = self.start(pod, "udp", rate=3 * rate, buffer=LARGE_BUFFER, warm_up=4)
        programs, end = set(), time.monotonic() + 4 + SECONDS
        while time.monotonic() < end:
            pod.change(keys(rate, burst=rate))
            programs.add(self.program(pod.pod))
            time.sleep(0.2)
        share = flow.finish()[0].rate / rate
        print(f"     {share:.4f} of the limit, {len(programs)} programs", flush=True)
        self.assertGreater(len(programs), 2)
        self.assertLess(share, 1 + TOLERANCE)
        self.assertGreater(share, 0.9)
        self.assertEqual([number for number in programs if program_exists(number)],
                         [self.program(pod.pod)])

    def test_without_a_limit_the_mode_is_taken_away(self):
        pod = self.shaped(rate=10 * MBIT)
        pod.change({"egressMode": "edt",
                    "runtimeConfig": {"bandwidth": limits(0, 0, ("egress",))}})
        self.assertIsNone(self.qdisc(pod.pod, "fq"))
        self.assertIsNone(self.qdisc(pod.pod, "clsact"))


@suite.spread
class Lifecycle(EdtTest):
    def test_CHECK_names_what_is_missing(self):
        pod = self.shaped(rate=10 * MBIT)

        def check(**conf):
            return self.run_bandwidth("CHECK", pod.pod, pod.result, **({"rate": 10 * MBIT} | conf))

        self.assert_ok(check())
        self.assert_error(check(rate=11 * MBIT), msg="1250000 bytes/s")
        self.assert_error(check(latency=400), msg="a horizon of 500000000 ns, not 1250000 bytes/s")
        pod.pod.run("tc", "qdisc", "replace", "dev", "eth0", "root", "handle", "ed7:", "fq",
                    "limit", "77")
        self.assert_error(check(), msg="fq ed7: of 'eth0' has other limits")
        pod.change(keys(10 * MBIT))
        self.assert_ok(check())
        for command in (("filter", "del", "dev", "eth0", "egress"),
                        ("qdisc", "del", "dev", "eth0", "clsact")):
            pod.pod.run("tc", *command)
            self.assert_error(check(), msg="the program 'patchbay_edt' is not attached at the egress hook")
        pod.pod.run("tc", "qdisc", "del", "dev", "eth0", "root")
        self.assert_error(check(), msg="the root qdisc of 'eth0' is not fq ed7:")
        pod.change(keys(10 * MBIT))
        self.assert_ok(check())

    def test_DEL_leaves_nothing_and_others_things_alone(self):
        pod = self.pod()
        run("ip", "link", "add", "veth1", "up", "type", "veth", "peer", "eth0", "netns", pod.name)
        pod.run("ip", "link", "set", "eth0", "up")
        result = {"cniVersion": "1.0.0", "interfaces": [{"name": "veth1"},
                                                        {"name": "eth0", "sandbox": pod.path}]}
        self.assertTrue(wait_for(lambda: "state UP" in pod.run("ip", "link", "show", "eth0")))
        before = pod_snapshot(pod)
        for others in (False, True):
            if others:
                pod.run("tc", "qdisc", "add", "dev", "eth0", "clsact")
                pod.run("tc", "filter", "add", "dev", "eth0", "egress", "prio", "1", "protocol",
                        "all", "bpf", "bytecode", "1,6 0 0 0")
                before = pod_snapshot(pod)
            filters = pod.run("tc", "filter", "show", "dev", "eth0", "egress")
            for _ in range(2):
                self.assert_ok(self.run_bandwidth("ADD", pod, result, rate=MBIT))
            self.assertIsNotNone(self.qdisc(pod, "fq"))
            number = int(re.search(r"patchbay_edt .* id (\d+) ",
                                   pod.run("tc", "filter", "show", "dev", "eth0", "egress"))[1])
            self.assertTrue(program_exists(number))
            for _ in range(2):
                self.assert_ok(self.run_bandwidth("DEL", pod, result, rate=MBIT))
                self.assertEqual(diff(before, pod_snapshot(pod)), "")
                self.assertEqual(pod.run("tc", "filter", "show", "dev", "eth0", "egress"), filters)
            self.assertTrue(wait_for(lambda number=number: not program_exists(number)))

    def test_the_program_goes_with_the_namespace(self):
        pod = self.shaped(rate=MBIT)
        number = self.program(pod.pod)
        self.assertTrue(program_exists(number))
        pod.pod.remove()
        self.assertTrue(wait_for(lambda: not program_exists(number)))

    @suite.cases([
        ("root queue", (("root", "handle", "7:", "bfifo"),
                        "the root qdisc is 'bfifo' with handle 7:, which belongs to another program")),
        ("hook", (("ingress",), "it has the qdisc ingress, which excludes clsact"))])
    def an_interface_is_refused_and_left_as_it_was_with_anothers(self, row):
        qdisc, reason = row
        pod = Pod("taken")
        run("ip", "link", "add", "veth1", "up", "type", "veth", "peer", "eth0", "netns", pod.name)
        pod.run("ip", "link", "set", "eth0", "up")
        pod.run("tc", "qdisc", "add", "dev", "eth0", *qdisc)
        self.assertTrue(wait_for(lambda: "state UP" in pod.run("ip", "link", "show", "eth0")))
        before = pod_snapshot(pod)
        result = {"cniVersion": "1.0.0", "interfaces": [{"name": "veth1"},
                                                        {"name": "eth0", "sandbox": pod.path}]}
        self.assert_error(self.run_bandwidth("ADD", pod, result, rate=MBIT),
                          msg=f"limit 'eth0': {reason}")
        self.assertEqual(diff(before, pod_snapshot(pod)), "")


if __name__ == "__main__":
    traffic.ahead_of_others()
    os.environ.setdefault("VM_TIMEOUT", "850")
    guest.enter_unless(lambda: guest.has_qdisc("fq"), "the kernel has no qdisc fq")
    suite.main(needs=("bridge", "ping"))
