"""Pods whose traffic is limited, and a host outside their node to talk to.

    outside --- up0 node cni0 --- pods, each behind a limit of the plugin bandwidth
"""

import dataclasses
import os
import re
import time

from support import suite, traffic
from support.chain import Network
from support.hostport import BRIDGE_CONF, OUTSIDE, Site
from support.plugin import OURS, cni
from support.traffic import Echo, Flow
from support.world import Pod, run, wait_for

#: What containerd and CRI-O give as the burst of every limit, in bits.
KUBERNETES_BURST = 4294967295

KBIT, MBIT, GBIT = 1000, 1000 ** 2, 1000 ** 3


class ShapingTest(suite.NodeTest):
    """A test on a node of its own that measures what limits do to traffic."""

    def setUp(self):
        reason = traffic.why_impossible()
        if not os.access(os.path.join(OURS, "bandwidth"), os.X_OK):
            reason = "the plugin bandwidth is not built"
        if reason:
            self.skipTest(reason)
        super().setUp()
        self.limited = []

    def limit(self, name, keys, directory=OURS, families=(4,)):
        """A ShapedPod that can talk to the outside."""
        pod = ShapedPod(name, keys, directory)
        self.limited.append(pod)
        for family in families:
            self.assertTrue(reachable(pod.pod, family), f"IPv{family} of {name} is connected")
        return pod

    def start_again(self):
        """Removes all limited pods."""
        while self.limited:
            self.limited.pop().remove()


def limits(rate, burst, directions=("ingress", "egress")):
    """The keys of limits in bits/s and bits; no burst where it is None."""
    out = {}
    for direction in directions:
        out[direction + "Rate"] = rate
        if burst is not None:
            out[direction + "Burst"] = burst
    return out


class ShapedPod:
    """A pod on the bridge, with the keys of bandwidth given."""

    def __init__(self, name, keys, directory=OURS):
        self.pod = Pod(name)
        self.network = Network({"cniVersion": "1.0.0", "name": "shaped", "plugins": [
            BRIDGE_CONF, {"type": "bandwidth"} | keys]}, (directory, OURS))
        self.result, failed = self.network.add(netns=self.pod.path, container=name)
        assert failed is None, f"{directory} {keys}: {failed}"
        self.addresses = {6 if ":" in ip["address"] else 4: ip["address"].split("/")[0]
                          for ip in self.result["ips"]}

    def change(self, keys):
        """Another ADD of bandwidth, with other keys."""
        conf = {"cniVersion": "1.0.0", "name": "shaped", "type": "bandwidth",
                "prevResult": self.result} | keys
        outcome = cni("bandwidth", "ADD", conf, netns=self.pod.path, container=self.pod.name)
        assert outcome.ok, str(outcome)

    def remove(self):
        """DEL, and the namespace is gone."""
        failed = self.network.each("DEL", self.result, netns=self.pod.path,
                                   container=self.pod.name)
        assert failed is None, str(failed)
        self.pod.remove()


def surroundings():
    """The hosts around the node, which forwards."""
    site = Site()
    run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
    return site


def reachable(pod, family):
    """Whether the pod and the host outside can talk, after some time if need be."""
    return wait_for(lambda: " 0% packet loss" in pod.run("ping", "-c1", "-W1", OUTSIDE[family],
                                                         check=False), 10)


@dataclasses.dataclass(frozen=True)
class Load:
    """What fills a limit: a flow of tcp or udp in one direction of a pod."""

    pod: ShapedPod
    direction: str
    protocol: str
    rate: int


@dataclasses.dataclass(frozen=True)
class RoundTrips:
    """Of a small datagram to the outside and back while a limit is full. share is what the flow
    that fills it had of it."""

    share: float
    asked: int
    milliseconds: list

    def at(self, quantile):
        """The time that this share of those that came back was back in."""
        if not self.milliseconds:
            return float("inf")
        return self.milliseconds[min(int(len(self.milliseconds) * quantile),
                                     len(self.milliseconds) - 1)]

    @property
    def lost(self):
        return self.asked - len(self.milliseconds)


def flow(site, load, port, moments, rate=None, **options):
    """The flow of a load, which wants more than the limit: rate where it is UDP."""
    ends, address = (site.outside, load.pod.pod), load.pod.addresses[4]
    if load.direction == "egress":
        ends, address = ends[::-1], OUTSIDE[4]
    rate = (rate or 2 * load.rate) if load.protocol == "udp" else None
    return Flow(load.protocol, *ends, address, port, moments, rate, **options)


def _is_idle(pod):
    """Whether nothing of the pod's is queued: a ping is back at once."""
    answer = pod.run("ping", "-c1", "-W1", OUTSIDE[4], check=False)
    took = re.search(r"time=([\d.]+)", answer)
    return took is not None and float(took.group(1)) < 5


def empty_buckets(site, loads, patience=30):
    """Uses up the bursts of the loads, of any size, and waits until nothing of that is queued."""
    left = list(loads)
    for _ in range(patience):
        begin = time.monotonic() + 1
        burning = [flow(site, dataclasses.replace(load, protocol="tcp"), 7000 + i,
                        (begin, begin + 1)) for i, load in enumerate(left)]
        shares = [one.finish()[0].rate / load.rate for one, load in zip(burning, left)]
        for load in loads:
            assert wait_for(lambda load=load: _is_idle(load.pod.pod), patience, 0.1), "a queue stays"
        # What was let through is at least a bucket's fill of these seconds.
        left = [load for load, share in zip(left, shares) if share > 10]
        if not left:
            return
    raise AssertionError("a bucket is never empty")


def round_trips(site, loads, warm_up=3, seconds=5):
    """RoundTrips of each load, all at the same time, after the seconds of warming up."""
    begin = time.monotonic() + warm_up
    moments = (begin, begin + seconds)
    flows = [flow(site, load, 5000 + i, moments) for i, load in enumerate(loads)]
    echoes = [Echo(load.pod.pod, site.outside, OUTSIDE[4], 6000 + i, moments)
              for i, load in enumerate(loads)]
    out = []
    for load, one, echo in zip(loads, flows, echoes):
        asked, milliseconds = echo.finish()
        out.append(RoundTrips(one.finish()[0].rate / load.rate, asked, milliseconds))
    return out
