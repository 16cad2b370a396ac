#!/usr/bin/env python3
"""UDP: a flow follows its port at once to whoever has it now, and flows of others stay as they are.

The kernel remembers for each flow where it goes, and asks no rule again while packets keep coming.
"""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import hostport, suite  # noqa: E402
from support.hostport import (BEYOND, NODE, OUTSIDE, SECOND, Probe, Server, Site, ask,  # noqa: E402
                              mapping, tracked)
from support.plugin import cni  # noqa: E402
from support.world import wait_for  # noqa: E402

BACKENDS = [("nftables", ("nftables", None)), ("iptables-nft", ("iptables", "nft")),
            ("iptables-legacy", ("iptables", "legacy"))]
MOST_GAP = 1.0


class Client:
    """A process that sends ten packets a second from one port, and notes who answers when."""

    def __init__(self, test, pod, address, ports):
        self.log = f"/run/client-{ports[0]}-{address.replace(':', '_')}"
        self.pid = os.fork()
        if self.pid == 0:
            try:
                ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
                with pod.inside(), open(self.log, "w", encoding="ascii", buffering=1) as log:
                    self._talk(address, ports, log)
            finally:
                os._exit(1)
        test.addCleanup(self.stop)

    @staticmethod
    def _talk(address, ports, log):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            one.bind(("::" if ":" in address else "0.0.0.0", ports[0]))
            one.connect((address, ports[1]))
            while True:
                end = time.monotonic() + 0.1
                with contextlib.suppress(OSError):  # refused, for now
                    one.send(b"who is there")
                while (left := end - time.monotonic()) > 0:
                    one.settimeout(left)
                    with contextlib.suppress(OSError):
                        log.write(f"{time.monotonic()} {one.recv(200).decode()}\n")

    def answers(self, name, since):
        """When the server of that name answered after the moment, and what it said."""
        with contextlib.suppress(FileNotFoundError), open(self.log, encoding="ascii") as log:
            lines = [line.split(" ", 1) for line in log if line.endswith("\n")]
            return [(float(when), what.strip()) for when, what in lines
                    if float(when) > since and what.startswith(name + " ")]
        return []

    def first_answer(self, name, since):
        """How long after the moment the server of that name answered first; None if never."""
        found = wait_for(lambda: self.answers(name, since), 3)
        return found[0][0] - since if found else None

    def stop(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0


class Node(suite.NodeTest):
    def start(self, backend, mappings):
        backend, variant = backend
        if variant and (reason := hostport.select_iptables(variant)):
            self.skipTest(reason)
        self.site = Site()
        self.network = hostport.network(backend)
        self.capabilities = {"portMappings": mappings}

    def add(self, name, ports=(80,)):
        """A pod with the mappings, served by a server of the same name."""
        pod = self.pod(name)
        pod.result, failed = self.network.add(self.capabilities, netns=pod.path, container=name)
        pod.added = time.monotonic()
        self.assertIsNone(failed, str(failed))
        pod.server = Server(self, name, ports, pod, protocols=("udp",))
        return pod

    def remove(self, pod):
        """As a runtime does: first the processes, then the network."""
        pod.server.stop()
        failed = self.network.each("DEL", pod.result, self.capabilities, netns=pod.path,
                                   container=pod.name)
        self.assertIsNone(failed, str(failed))
        pod.remove()
        return time.monotonic()


@suite.spread
class Continuity(Node):
    """A client that never stops asking gets an answer within a second of every change."""

    def start_clients(self):
        self.clients = [Client(self, self.site.outside, address, (port, 8080))
                        for port, address in enumerate((*NODE.values(), SECOND[4]), 40001)]

    def assert_answered(self, name, since):
        for client in self.clients:
            gap = client.first_answer(name, since)
            self.assertIsNotNone(gap, f"{client.log}: {name} was never asked")
            self.assertLess(gap, MOST_GAP, client.log)

    @suite.cases(BACKENDS)
    def from_pod_to_pod_and_to_the_node(self, backend):
        self.start(backend, [mapping(8080, 80, "udp")])
        one = self.add("one")
        self.start_clients()
        self.assert_answered("one", one.added)
        self.remove(one)
        two = self.add("two")
        self.assert_answered("two", two.added)
        for client in self.clients:
            family = 6 if "_" in client.log else 4
            self.assertEqual(client.answers("two", two.added)[-1][1], f"two 80 {OUTSIDE[family]}")
        removed = self.remove(two)
        Server(self, "node", (8080,), protocols=("udp",),
               addresses=(*NODE.values(), *SECOND.values()))
        self.assert_answered("node", removed)

    @suite.cases(BACKENDS)
    def to_the_first_pod_of_all(self, backend):
        """The client was there first: the kernel knows its flow as one to the node."""
        self.start(backend, [mapping(8080, 80, "udp")])
        blind = Server(self, "node", (8080,), protocols=("udp",),
                       addresses=(*NODE.values(), *SECOND.values()))
        begin = time.monotonic()
        self.start_clients()
        self.assert_answered("node", begin)
        blind.stop()
        one = self.add("one")
        self.assert_answered("one", one.added)

    @suite.cases(BACKENDS)
    def to_a_pod_that_takes_the_port_over(self, backend):
        """The old pod was never deleted, only its namespace is gone."""
        self.start(backend, [mapping(8080, 80, "udp")])
        one = self.add("one")
        self.start_clients()
        self.assert_answered("one", one.added)
        one.server.stop()
        one.remove()
        two = self.add("two")
        self.assert_answered("two", two.added)

    @suite.cases(BACKENDS)
    def to_another_port_of_the_same_pod(self, backend):
        """ADD again with other mappings takes the place of the first."""
        self.start(backend, [mapping(8080, 80, "udp")])
        one = self.add("one", (80, 81))
        self.start_clients()
        self.assert_answered("one 80", one.added)
        conf = hostport.config([mapping(8080, 81, "udp")], backend[0]) | {"prevResult": one.result}
        self.assert_ok(cni("portmap", "ADD", conf, netns=one.path, container="one"))
        self.assert_answered("one 81", time.monotonic())


@suite.spread
class Unrelated(Node):
    """What the kernel knows of other flows stays."""

    @suite.cases(BACKENDS)
    def flows_survive_ADD_and_DEL(self, backend):
        if not os.path.exists("/proc/net/nf_conntrack"):
            self.skipTest("needs /proc/net/nf_conntrack")
        self.start(backend, [mapping(53, 80, "udp"), mapping(8080, 80, "udp", SECOND[4]),
                             mapping(8080, 80, "udp", SECOND[6])])
        Server(self, "beyond", (53, 5353), self.site.beyond, protocols=("udp",))
        Server(self, "node", (8080, 9000), protocols=("udp",), addresses=NODE.values())
        # A pod with a mapping, so that the kernel tracks connections and forwards.
        wanted, self.capabilities = self.capabilities, {"portMappings": [mapping(7000, 70, "udp")]}
        self.add("other")
        self.capabilities = wanted
        flows = []
        for family in (4, 6):
            flows += [Probe(None, "udp", BEYOND[family], 53, 41001),  # the node's resolver
                      Probe(self.site.outside, "udp", BEYOND[family], 53, 41002),  # passing by
                      Probe(self.site.outside, "udp", BEYOND[family], 5353, 41003),
                      # The mapped port, of another address of the node
                      Probe(self.site.outside, "udp", NODE[family], 8080, 41004),
                      Probe(self.site.outside, "udp", NODE[family], 9000, 41005)]
        for flow, answer in zip(flows, ask(flows)):
            self.assertIn(answer.split()[0], ("node", "beyond"), f"{flow}: {answer}")
        self.assert_tracked(flows)
        pod = self.add("one")
        self.assert_tracked(flows)
        self.remove(pod)
        self.assert_tracked(flows)

    def assert_tracked(self, flows):
        for flow in flows:
            address = flow.address
            if ":" in address:  # as the kernel's %pI6 prints it
                raw = socket.inet_pton(socket.AF_INET6, address).hex()
                address = ":".join(raw[i:i + 4] for i in range(0, 32, 4))
            self.assertTrue(tracked("udp", f"dst={address}", f"sport={flow.source_port}",
                                    f"dport={flow.port}"), f"{flow} is not known any more")


if __name__ == "__main__":
    suite.main()
