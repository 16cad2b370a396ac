#!/usr/bin/env python3
"""Two and three nodes under flannel: k3s's list of plugins on each, routes as flanneld makes them, and pods that reach each
other, the nodes and hosts outside of the cluster. A node is replaced and another rebooted."""

import itertools
import json
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import nodes, suite  # noqa: E402
from support.hostport import Probe, Server, Servers, ask  # noqa: E402
from support.nodes import NETWORK, OUTSIDE, Flanneld, HostGateway, Lan, Node, Vxlan  # noqa: E402
from support.cnitool import cnitool  # noqa: E402
from support.parallel import parallel  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402

PORT, HOST_PORT, SERVED_OUTSIDE = 8080, 30080, 7000
SECONDS = 15.0  # for all questions that are asked at once
HEADERS = {4: 28, 6: 48}  # of an echo request


def call(item):
    """A verb for a pod: [exit status, stdout, what it was]."""
    verb, pod, options = item
    outcome = pod.call(verb, **options)
    return [outcome.status, outcome.stdout, str(outcome)]


def pods_of(some):
    return [pod for node in some for pod in node.pods]


def of_the_node(place):
    """Whether it is of a node itself, as it differs after a reboot, or a route to one that went or came."""
    kind, _, rest = place.partition("/")
    if kind == "link":
        return rest.startswith(("eth0", "flannel"))
    if kind == "file":
        return rest in ("run/boot_id", "run/stat")  # support.reboot
    return kind.startswith(("route-", "neighbour-")) and (" dev eth0" in place or " dev flannel" in place)


def findings(node):
    """What doctor finds on a node, beyond notes."""
    with node.inside():
        outcome = cnitool("doctor", "--json")
    return [one for one in outcome.json["findings"] if one["level"] not in ("ok", "note")]


class Cluster(suite.NodeTest):
    """Nodes on one segment."""

    def setUp(self):
        super().setUp()
        self.lan, self.nodes, self.servers, self.empty = Lan(), [], {}, {}
        Server(self, "outside", (SERVED_OUTSIDE,), protocols=("tcp",))

    def boot(self, number, disk=None):
        node = Node(self.lan, number, disk)
        self.nodes.append(node)
        return node

    def switch_off(self, node):
        for servers in self.servers.pop(node.name, []):
            servers.stop()
        node.switch_off()
        self.nodes.remove(node)

    def start(self, *numbers):
        """Nodes with a flanneld each."""
        for number in numbers:
            node = self.boot(number)
            self.flanneld.start(node)
            self.empty[node.name] = self.state_of(node)

    @staticmethod
    def state_of(node):
        with node.inside():
            return snapshot()

    def every(self, verb, pods, **options):
        """Several at once, as a kubelet calls them."""
        for status, _, said in (outcomes := parallel(call, [(verb, pod, options) for pod in pods], 2)):
            self.assertEqual(status, 0, said)
        return [json.loads(stdout) if stdout else None for _, stdout, _ in outcomes]

    def run_pods(self, count, *on):
        """Now each of the nodes has so many pods, with a server in each; the first of a node has a hostPort."""
        for node in on:
            node.new_pods(count - len(node.pods), HOST_PORT)
        for pod, result in zip(pods := pods_of(on), self.every("add", pods)):
            pod.addresses = {6 if ":" in ip["address"] else 4: ip["address"].split("/")[0] for ip in result["ips"]}
        for node in on:
            served = Servers(self, [(pod.name, pod) for pod in node.pods], (PORT,), protocols=("tcp", "udp"))
            self.servers.setdefault(node.name, []).append(served)

    def assert_answered(self, questions):
        """(Probe, "NAME PORT PEER") each."""
        answers = ask([probe for probe, _ in questions], SECONDS)
        wrong = [f"{probe}: {answer}, not {right}" for (probe, right), answer in zip(questions, answers) if answer != right]
        self.assertEqual(wrong[:5], [], f"{len(wrong)} of {len(questions)}")

    def assert_reach_each_other(self, pairs):
        """Pods of a sample, on the same and on other nodes, under their own addresses."""
        pods = pods_of(self.nodes)
        chosen = [random.Random(n).sample(pods, 2) for n in range(pairs)]
        self.assertEqual(len({(one.node, other.node) for one, other in chosen}), len(self.nodes) ** 2)
        self.assert_answered([(Probe(one, ("tcp", "udp")[n % 2], other.addresses[family], PORT),
                               f"{other.name} {PORT} {one.addresses[family]}")
                              for n, (one, other) in enumerate(chosen) for family in (4, 6)])

    def assert_all_reach_all(self):
        self.assert_reach_each_other(200)
        self.assert_seen_outside_as_their_nodes()
        self.assert_host_ports_lead_to_pods()

    def assert_seen_outside_as_their_nodes(self):
        self.assert_answered([(Probe(node.pods[0], "tcp", OUTSIDE[family], SERVED_OUTSIDE),
                               f"outside {SERVED_OUTSIDE} {node.address[family]}")
                              for node in self.nodes for family in (4, 6)])

    def assert_host_ports_lead_to_pods(self):
        """From other nodes, their pods, and outside."""
        questions = []
        for node in self.nodes:
            for family, address in node.address.items():
                right = f"{node.pods[0].name} {PORT}"
                questions.append((Probe(None, "tcp", address, HOST_PORT), f"{right} {OUTSIDE[family]}"))
                for other in self.nodes:
                    if other is node:
                        continue
                    questions += [(Probe(origin, "tcp", address, HOST_PORT), f"{right} {other.address[family]}")
                                  for origin in (other, other.pods[-1])]
        self.assert_answered(questions)

    def assert_mtu(self, backend):
        """A packet of the MTU passes without fragments, and one that is a byte larger does not."""
        one, other = self.nodes[0].pods[0], self.nodes[1].pods[0]
        for family, mtu in backend.mtu.items():
            for size, passes in ((mtu, True), (mtu + 1, False)):
                said = one.run("sh", "-c", f"ping -c1 -W3 -M do -s {size - HEADERS[family]} {other.addresses[family]} 2>&1",
                               check=False)
                self.assertEqual(" 0% packet loss" in said, passes, said)
                self.assertEqual(f"mtu={mtu}" in said.replace("mtu: ", "mtu="), not passes, said)
        for node in self.nodes:
            self.assertEqual(self.fragments(node), 0, node.name)

    @staticmethod
    def fragments(node):
        """How many fragments the node sent: of packets of its pods or of its tunnels."""
        with node.inside(), open("/proc/net/snmp", encoding="ascii") as file:
            names, numbers = [line.split() for line in file if line.startswith("Ip:")]
        with node.inside(), open("/proc/net/snmp6", encoding="ascii") as file:
            six = dict(line.split() for line in file)
        return int(numbers[names.index("FragCreates")]) + int(six["Ip6FragCreates"])

    def remove_all(self):
        """DEL of every pod: nothing is left on any node."""
        self.every("del", pods_of(self.nodes))
        for node in self.nodes:
            with node.inside():
                for pod in node.pods:
                    pod.remove()
            self.assert_same(self.empty[node.name], self.state_of(node),
                             lambda place: left_by_design(place, "cni0") or of_the_node(place), f"on {node.name}:")

    def assert_refused(self, outcome, code, text):
        self.assertEqual(outcome.status, 1, str(outcome))
        error = outcome.json
        self.assertEqual(error["code"], code, str(outcome))
        self.assertIn(text, error["msg"])

    @staticmethod
    def status_of(node):
        """As the runtime asks it for the condition NetworkReady."""
        with node.inside():
            return cnitool("status", NETWORK, "--json")

    def replace(self, old, number):
        """A node is gone for good, and another one joins."""
        self.switch_off(old)
        self.flanneld.forget(old)
        self.start(number)

    def reboot(self, old):
        """A node comes back with the disk of before. The kubelet is there before flanneld."""
        disk = old.disk()
        self.flanneld.lose(old)
        self.switch_off(old)
        node = self.boot(old.number, disk)
        early, = node.new_pods(1, HOST_PORT)
        for _ in range(2):
            self.assert_refused(early.call("add", "--json"), 11, "subnet.env: no such file or directory")
        self.assert_refused(self.status_of(node), 50, "subnet.env")
        self.flanneld.start(node)
        self.assert_ok(self.status_of(node))
        return node

    def remove_late(self, pods, node):
        """DEL of pods of before the reboot, which have no namespace, and whose addresses others have by now."""
        for pod in pods:
            pod.node = node
        self.every("del", pods)


@suite.spread
class Clusters(Cluster):
    @suite.cases([("60 pods, vxlan", (Vxlan, 20)), ("12 pods, host-gw", (HostGateway, 4))])
    def pods_of_three_nodes_reach_all_also_after_a_replacement_and_a_reboot(self, row):
        kind, each = row
        self.flanneld = Flanneld(kind())
        self.start(1, 2, 3)
        self.run_pods(each, *self.nodes)
        self.assert_all_reach_all()
        self.assert_mtu(self.flanneld.backend)
        self.replace(self.nodes[2], 4)
        self.run_pods(each, self.nodes[2])
        self.assert_all_reach_all()
        before = self.nodes[1].pods
        rebooted = self.reboot(self.nodes[1])
        self.run_pods(each, rebooted)
        self.remove_late(before, rebooted)
        self.assert_all_reach_all()
        self.assertEqual(parallel(findings, self.nodes), [[], [], []])
        self.remove_all()

    def test_without_ip_masq_of_flanneld_the_bridge_masquerades_between_two_nodes(self):
        self.flanneld = Flanneld(Vxlan(), masquerade=False)
        self.start(1, 2)
        self.run_pods(2, *self.nodes)
        self.assert_seen_outside_as_their_nodes()
        questions = []
        for one, other in itertools.permutations(pods_of(self.nodes), 2):
            for family in (4, 6):
                with one.node.inside():
                    own = nodes.source_towards(other.addresses[family])
                peer = one.addresses[family] if one.node is other.node else own
                questions.append((Probe(one, "tcp", other.addresses[family], PORT), f"{other.name} {PORT} {peer}"))
        self.assert_answered(questions)
        self.remove_all()


if __name__ == "__main__":
    suite.main(needs=("bridge", "ping"))
