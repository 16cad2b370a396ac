"""Pods whose traffic is limited, and a host outside their node to talk to.

    outside --- up0 node cni0 --- pods, each behind a limit of the plugin bandwidth
"""

from support.chain import Network
from support.hostport import BRIDGE_CONF, OUTSIDE, Site
from support.plugin import OURS, cni
from support.world import Pod, run, wait_for

#: What containerd and CRI-O give as the burst of every limit, in bits.
KUBERNETES_BURST = 4294967295

KBIT, MBIT, GBIT = 1000, 1000 ** 2, 1000 ** 3


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
