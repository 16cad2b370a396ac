#!/usr/bin/env python3
"""Two nodes with containerd under flannel, as a kubelet drives them: k3s's list as it stands, pods that reach those of the
other node, hostPorts, and a node whose flanneld comes late."""

import contextlib
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import cri, nodes, suite  # noqa: E402
from support.cnitool import cnitool  # noqa: E402
from support.containerd import OWN_FILES, PAGE, SOCKET, Daemon  # noqa: E402
from support.hostport import mapping  # noqa: E402
from support.nodes import Flanneld, Lan, Node, Vxlan  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import MS_BIND, Pod, fetch, mount, wait_for  # noqa: E402

HOST_PORT = 30080
LIMITS = {"kubernetes.io/ingress-bandwidth": "80M", "kubernetes.io/egress-bandwidth": "80M"}


class Runtime:
    """A node's containerd, asked as a kubelet does."""

    def __init__(self, test, node):
        self.node, self.cri = node, cri.Cri(SOCKET)
        with node.inside():
            self._daemon = Daemon(test)
            if os.path.exists("/etc/containerd/config.toml"):
                mount("/run/c8d/config.toml", "/etc/containerd/config.toml", flags=MS_BIND)  # doctor reads it
            with open("/etc/cni/net.d/10-flannel.conflist", "w", encoding="ascii") as file:
                json.dump(nodes.CONFLIST | {"cniVersion": "1.0.0"}, file)
            assert wait_for(self.cri.is_ready, 20, 0.1), "containerd takes the network"
        self.sandboxes = []

    def run_pod(self, name, *ports, annotations=None):
        """The network namespace of a new pod."""
        with self.node.inside():
            others = set(os.listdir("/run/netns"))
            self.sandboxes.append(self.cri.run_pod(name, ports, annotations, f"/{self._daemon.cgroup}"))
            found, = set(os.listdir("/run/netns")) - others
        return Pod.existing(found)

    def end_pods(self):
        with self.node.inside():
            for sandbox in self.sandboxes:
                self.cri.stop_pod(sandbox)
                self.cri.stop_pod(sandbox)  # as a kubelet does
                self.cri.remove_pod(sandbox)
        self.sandboxes.clear()

    def findings(self, *options):
        """What doctor finds on the node, beyond notes."""
        with self.node.inside():
            outcome = cnitool("doctor", *options, "--json", CNI_PATH="/opt/cni/bin", NETCONFPATH="/etc/cni/net.d")
        return [one for one in outcome.json["findings"] if one["level"] not in ("ok", "note")]

    @contextlib.contextmanager
    def inside(self, pod):
        with self.node.inside(), pod.inside():
            yield

    def addresses(self, pod):
        with self.inside(pod):
            return nodes.global_addresses("eth0")


class Containerd(suite.NodeTest):
    def setUp(self):
        if reason := cri.why_impossible():
            self.skipTest(reason)
        super().setUp()
        lan, self.flanneld = Lan(), Flanneld(Vxlan())
        self.nodes = [Node(lan, number) for number in (1, 2)]
        self.flanneld.start(self.nodes[0])
        self.runtimes = [Runtime(self, node) for node in self.nodes]
        for runtime in self.runtimes:
            self.addCleanup(runtime.end_pods)

    def assert_serves(self, places, runtime=None, pod=None):
        """From a pod, from a node where pod is None, or from outside."""
        entered = runtime.inside(pod) if pod else runtime.node.inside() if runtime else contextlib.nullcontext()
        with entered:
            for place in places:
                self.assertEqual(fetch(place), PAGE, f"{place} from {runtime.node.name if runtime else 'outside'}")

    def test_pods_of_both_nodes_and_their_ports_are_reached(self):
        one, two = self.runtimes
        with self.assertRaisesRegex(RuntimeError, "subnet.env: no such file or directory"):
            two.run_pod("early")
        self.flanneld.start(self.nodes[1])
        empty = [self.state_of(node) for node in self.nodes]
        pods = [runtime.run_pod(f"web-{node.number}", mapping(HOST_PORT, 80), annotations=LIMITS)
                for runtime, node in zip(self.runtimes, self.nodes)]
        addresses = [runtime.addresses(pod) for runtime, pod in zip(self.runtimes, pods)]
        self.assertEqual([set(each) for each in addresses], [{4, 6}, {4, 6}])
        ports = [[f"{node.address[4]}:{HOST_PORT}", f"[{node.address[6]}]:{HOST_PORT}"] for node in self.nodes]
        self.assert_serves([*addresses[1].values(), *ports[1]], one, pods[0])
        self.assert_serves([*addresses[0].values(), *ports[0]], two, pods[1])
        self.assert_serves([*addresses[1].values(), *ports[1]], one)
        self.assert_serves(ports[0] + ports[1])
        for runtime in self.runtimes:
            self.assertEqual((runtime.findings(), runtime.findings("--kubernetes")), ([], []))
        for runtime, before in zip(self.runtimes, empty):
            runtime.end_pods()
            self.assert_same(before, self.state_of(runtime.node),
                             lambda place: left_by_design(place, "cni0") or place.startswith(OWN_FILES))

    @staticmethod
    def state_of(node):
        with node.inside():
            return snapshot()


if __name__ == "__main__":
    suite.main(needs=("containerd", "ctr", "runc", "busybox", "bridge"))
