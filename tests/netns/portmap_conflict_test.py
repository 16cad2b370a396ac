#!/usr/bin/env python3
"""Who gets a port that two want: two pods, a pod and a program of the node, a pod and the admin."""

import itertools
import os
import socket
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.hostport import Server, ask_one, mapping  # noqa: E402
from support.portmap import BACKENDS, PortmapTest, state_file_of  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run  # noqa: E402

# Two mappings, and whether no node can serve both.
PAIRS = [
    ("the same of all addresses", mapping(80, 8080), mapping(80, 9090), True),
    ("the same of one address", mapping(80, 8080, "tcp", "192.0.2.1"),
     mapping(80, 8080, "tcp", "192.0.2.1"), True),
    ("the same of one IPv6 address", mapping(80, 8080, "udp", "2001:db8::1"),
     mapping(80, 8080, "udp", "2001:0db8:0:0::1"), True),
    ("all addresses and all of IPv4", mapping(80, 8080), mapping(80, 8080, "tcp", "0.0.0.0"), True),
    ("all of IPv6 and all addresses", mapping(80, 8080, "tcp", "::"), mapping(80, 8080), True),
    ("the same in capital letters", mapping(80, 8080, "tcp"), mapping(80, 8080, "TCP"), True),
    ("the same with sctp", mapping(80, 8080, "sctp"), mapping(80, 8080, "sctp"), True),
    ("tcp and udp", mapping(80, 8080, "tcp"), mapping(80, 8080, "udp"), False),
    ("all of IPv4 and all of IPv6", mapping(80, 8080, "tcp", "0.0.0.0"),
     mapping(80, 8080, "tcp", "::"), False),
    ("two addresses", mapping(80, 8080, "tcp", "192.0.2.1"),
     mapping(80, 8080, "tcp", "192.0.2.2"), False),
    ("one address and all", mapping(80, 8080, "tcp", "192.0.2.1"), mapping(80, 8080), False),
    ("two ports", mapping(80, 8080), mapping(81, 8080), False),
]


@suite.spread
class Pods(PortmapTest):
    def count(self):
        return sum(len(places) for places in self.targets().values())

    @suite.cases([(f"{name}, {backend}", (first, second, conflict, row))
                  for (name, first, second, conflict), (backend, row)
                  in itertools.product(PAIRS, BACKENDS) if backend != "iptables-legacy"])
    def of_two_pods(self, row):
        first, second, conflict, backend = row
        self.use(backend)
        one, two = self.container("one"), self.container("two")
        self.add(one, first)
        before, targets, count = snapshot(), self.targets(), self.count()
        outcome = self.call("ADD", two, [second])
        if not conflict:
            self.assert_ok(outcome)
            self.assertGreater(self.count(), count)
            self.delete(two, second)
            self.assertEqual(self.targets(), targets)
            return
        error = self.assert_error(outcome)
        self.assertGreaterEqual(error["code"], 100)
        said = error["msg"] + error.get("details", "")
        where = second.get("hostIP", "")
        for word in (second["protocol"].lower(), "80", one.name, "net1",
                     "2001:db8::1" if where.startswith("2001") else where.strip("0.:")):
            self.assertIn(word, said)
        self.assert_same(before, ignore=lambda place: place == "file/run/cni/portmap/claims/")
        # Not even DEL of the one that failed takes the port from its owner.
        self.delete(two, second)
        self.assert_same(before, ignore=lambda place: place == "file/run/cni/portmap/claims/")
        self.assert_ok(self.call("CHECK", one, [first]))

    @suite.cases(BACKENDS)
    def one_taken_port_of_many_refuses_all(self, backend):
        self.use(backend)
        one, two = self.container("one"), self.container("two")
        self.add(one, mapping(80, 8080))
        before = snapshot()
        self.assert_error(self.call("ADD", two, [mapping(81, 81), mapping(80, 80),
                                                 mapping(82, 82)]), None, one.name)
        self.assert_same(before, ignore=left_by_design)

    @suite.cases([(f"{gone}, {name}", (gone, row)) for (name, row), gone in itertools.product(
        BACKENDS, ("namespace", "interface", "namespace, and the path used again"))])
    def whose_owner_is_gone_goes_to_the_next(self, row):
        """A runtime that lost power never sent DEL; nor may a late DEL harm the new owner."""
        gone, backend = row
        self.use(backend)
        one, two = self.container("one"), self.container("two")
        empty = snapshot()
        self.add(one, mapping(80, 8080))
        if gone == "interface":
            run("ip", "-n", one.name, "link", "del", "eth0")
        else:
            # The kernel would give the number of a namespace that is really gone to the next one.
            held = os.open(one.path, os.O_RDONLY)
            self.addCleanup(os.close, held)
            one.remove()
        if gone.endswith("again"):
            run("ip", "netns", "add", one.name)
            run("ip", "-n", one.name, "link", "add", "eth0", "type", "bridge")
        self.add(two, mapping(80, 8080))
        wanted = {("tcp", None, 80): {f"{two.v4}:8080", f"[{two.v6}]:8080"}}
        self.assertEqual(self.targets(), wanted)
        self.delete(one, mapping(80, 8080))
        self.assertEqual(self.targets(), wanted)
        self.assert_ok(self.call("CHECK", two, [mapping(80, 8080)]))
        self.delete(two, mapping(80, 8080))
        self.assert_same(empty, ignore=lambda place: left_by_design(place) or one.name in place)

    @suite.cases(BACKENDS)
    def whose_owner_has_a_torn_state_file_stays_with_it(self, backend):
        """Nothing tells whether its pod lives."""
        self.use(backend)
        one, two = self.container("one"), self.container("two")
        empty = snapshot()
        self.add(one, mapping(80, 8080))
        path = state_file_of(one)
        with open(path, "rb") as file:
            written = file.read()
        for text in (b"", written[:40], bytes(len(written))):
            with open(path, "wb") as file:
                file.write(text)
            before = self.targets()
            self.assert_error(self.call("ADD", two, [mapping(80, 9090)]), 100, f"whose state file '{path}' is torn")
            self.delete(two, mapping(80, 9090))
            self.assertEqual(self.targets(), before)
        self.delete(one, mapping(80, 8080))
        self.add(two, mapping(80, 9090))
        self.delete(two, mapping(80, 9090))
        self.assert_same(empty, ignore=left_by_design)

    @suite.cases([(f"{backend[0]}, a {what}", (backend[1], what))
                  for backend in BACKENDS for what in ("link", "directory", "FIFO")])
    def whose_owner_has_something_else_in_the_place_of_its_state_file(self, row):
        """It is no file, as if it had been removed: a pod without a veth is not seen to live."""
        backend, what = row
        self.use(backend)
        one, two = self.container("one"), self.container("two")
        self.add(one, mapping(80, 8080))
        path = state_file_of(one)
        os.remove(path)
        {"link": lambda: os.symlink("/nonexistent", path), "directory": lambda: os.mkdir(path),
         "FIFO": lambda: os.mkfifo(path)}[what]()
        self.addCleanup(lambda: os.rmdir(path) if os.path.isdir(path) else None)
        self.add(two, mapping(80, 9090))
        self.assertEqual(self.targets(), {("tcp", None, 80): {f"{two.v4}:9090", f"[{two.v6}]:9090"}})
        self.delete(two, mapping(80, 9090))

    @suite.cases(BACKENDS)
    def whose_owner_of_two_networks_is_gone_goes_to_the_next(self, backend):
        """The rules of its second network are not to have the port then."""
        self.use(backend)
        one, two = self.container("one"), self.container("two")
        empty = snapshot()
        for network in ("net1", "net2"):
            self.add(one, mapping(80, 8080), name=network)
        one.remove()
        self.add(two, mapping(80, 8080))
        wanted = {("tcp", None, 80): {f"{two.v4}:8080", f"[{two.v6}]:8080"}}
        self.assertEqual(self.targets(), wanted)
        for network in ("net1", "net2"):
            self.delete(one, mapping(80, 8080), name=network)
            self.assertEqual(self.targets(), wanted)
            three = self.container("three" + network)
            self.assert_error(self.call("ADD", three, [mapping(80, 1)]), 100, two.name)
        self.delete(two, mapping(80, 8080))
        self.assert_same(empty, ignore=lambda place: left_by_design(place)
                         or place.startswith("file/run/netns/"))

    @suite.cases([(f"{name}, {policy}", (row, policy)) for name, row in BACKENDS
                  for policy in ("refuse", "refuse-claimed")])
    def of_two_pods_with_the_same_address(self, row):
        """Two networks may have the same subnet, and static addresses may be given twice: the first
        pod keeps its port as long as it lives."""
        backend, policy = row
        self.use(backend)
        one, two = self.container("one"), self.container("two")
        two.v4, two.v6 = one.v4, one.v6
        self.add(one, mapping(80, 8080))
        before = snapshot()
        outcome = self.call("ADD", two, [mapping(80, 9090)], name="net2", hostPortConflict=policy)
        self.assert_error(outcome, 100, one.name)
        self.assert_same(before)
        run("ip", "-n", one.name, "link", "del", "eth0")
        self.add(two, mapping(80, 9090), name="net2", hostPortConflict=policy)
        self.delete(one, mapping(80, 8080))
        self.assertEqual(self.targets(), {("tcp", None, 80): {f"{two.v4}:9090",
                                                              f"[{two.v6}]:9090"}})

    @suite.cases(BACKENDS)
    def with_replace_the_newest_wins(self, backend):
        self.use(backend)
        one, two = self.container("one"), self.container("two")
        empty = snapshot()
        self.add(one, mapping(80, 8080), mapping(81, 8081))
        self.add(two, mapping(80, 8080), hostPortConflict="replace")
        theirs = {f"{two.v4}:8080", f"[{two.v6}]:8080"}
        others = {f"{one.v4}:8081", f"[{one.v6}]:8081"}
        self.assertEqual(self.targets(), {("tcp", None, 80): theirs, ("tcp", None, 81): others})
        self.delete(one, mapping(80, 8080), mapping(81, 8081))
        self.assertEqual(self.targets(), {("tcp", None, 80): theirs})
        self.assert_ok(self.call("CHECK", two, [mapping(80, 8080)]))
        self.delete(two, mapping(80, 8080))
        self.assert_same(empty, ignore=left_by_design)

    @suite.cases(BACKENDS)
    def with_replace_the_port_of_a_lost_state_file_goes_to_the_newest(self, backend):
        """Rules of iptables precede those that are added later. Its other ports stay."""
        self.use(backend)
        one, two = self.container("one"), self.container("two")
        empty = snapshot()
        self.add(one, mapping(80, 8080), mapping(81, 8081))
        os.remove(state_file_of(one))
        self.add(two, mapping(80, 8080), hostPortConflict="replace")
        theirs = {f"{two.v4}:8080", f"[{two.v6}]:8080"}
        others = {f"{one.v4}:8081", f"[{one.v6}]:8081"}
        self.assertEqual(self.targets(), {("tcp", None, 80): theirs, ("tcp", None, 81): others})
        self.assert_ok(self.call("CHECK", two, [mapping(80, 8080)]))
        self.delete(one, mapping(80, 8080), mapping(81, 8081))
        self.assertEqual(self.targets(), {("tcp", None, 80): theirs})
        self.delete(two, mapping(80, 8080))
        self.assert_same(empty, ignore=left_by_design)

    def test_between_the_backends(self):
        """A network with each: the port is one and the same."""
        one, two = self.container("one"), self.container("two")
        for first, second in (("nftables", "iptables"), ("iptables", "nftables")):
            self.backend = first
            self.add(one, mapping(80, 8080))
            self.backend = second
            self.assert_error(self.call("ADD", two, [mapping(80, 8080)]), None, one.name)
            self.delete(two, mapping(80, 8080))
            # The state file names the backend, whatever the config says now.
            self.delete(one, mapping(80, 8080))
            for self.backend in ("nftables", "iptables"):
                self.assertEqual(self.targets(), {})


# What the node listens on, and the mapping that comes; whether they clash.
LISTENERS = [
    ("tcp on all addresses", ("tcp", "0.0.0.0"), mapping(80, 8080), True),
    ("tcp on all IPv6 addresses", ("tcp", "::"), mapping(80, 8080), True),
    ("tcp on one address", ("tcp", "192.0.2.1"), mapping(80, 8080), True),
    ("tcp on one address, mapped", ("tcp", "192.0.2.1"), mapping(80, 80, "tcp", "192.0.2.1"), True),
    ("tcp on 127.0.0.1", ("tcp", "127.0.0.1"), mapping(80, 8080), True),
    ("udp on all addresses", ("udp", "0.0.0.0"), mapping(80, 8080, "udp"), True),
    ("udp on an IPv6 address", ("udp", "2001:db8::1"), mapping(80, 8080, "udp"), True),
    ("tcp on another address", ("tcp", "192.0.2.2"), mapping(80, 80, "tcp", "192.0.2.1"), False),
    ("tcp and udp", ("udp", "0.0.0.0"), mapping(80, 8080), False),
    ("IPv4 only and IPv6", ("tcp", "192.0.2.1"), mapping(80, 8080, "tcp", "::"), False),
]


@suite.spread
class Programs(PortmapTest):
    def setUp(self):
        super().setUp()
        run("ip", "-batch", "-", stdin="addr add 192.0.2.1/24 dev lo\n"
            "addr add 192.0.2.2/24 dev lo\naddr add 2001:db8::1/128 dev lo nodad\n")

    def listen(self, protocol, address, port=80):
        return Server(self, "node", (port,), protocols=(protocol,), addresses=(address,))

    @suite.cases([(name, (listener, wanted, clash)) for name, listener, wanted, clash in LISTENERS])
    def of_a_program(self, row):
        listener, wanted, clash = row
        one = self.container()
        server = self.listen(*listener)
        before = snapshot()
        outcome = self.call("ADD", one, [wanted])
        if not clash:
            self.assert_ok(outcome)
            return
        error = self.assert_error(outcome)
        self.assertGreaterEqual(error["code"], 100)
        with open(f"/proc/{server.pid}/comm", encoding="utf-8") as file:
            name = file.read().strip()
        for word in (listener[0], "80", name, str(server.pid)):
            self.assertIn(word, error["msg"])
        self.assert_same(before, ignore=left_by_design)
        # With the listener gone, the port is free.
        server.stop()
        self.add(one, wanted)

    @suite.cases([(word, word) for word in ("refuse-claimed", "replace")])
    def with_another_policy_it_is_shadowed(self, word):
        one, two = self.container("one"), self.container("two")
        self.listen("tcp", "0.0.0.0")
        self.assertEqual(ask_one(None, "tcp", "192.0.2.1", 80).split()[0], "node")
        self.add(one, mapping(80, 8080), hostPortConflict=word)
        self.assertNotIn("node", ask_one(None, "tcp", "192.0.2.1", 80, seconds=0.5))
        again = self.call("ADD", two, [mapping(80, 8080)], hostPortConflict=word)
        if word == "replace":
            self.assert_ok(again)
        else:
            self.assert_error(again, None, one.name)

    def test_of_the_container_itself_is_no_conflict(self):
        """podman's conmon holds the ports of its container, and has its ID among its arguments."""
        one, two = self.container("one"), self.container("two")
        source = ("import socket, sys, time; s = socket.socket(); s.bind(('0.0.0.0', 80)); "
                  "s.listen(); print(flush=True); time.sleep(1000)")
        process = subprocess.Popen([sys.executable, "-c", source, "-c", one.name],
                                   stdout=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdout.readline()
        process.stdout.close()
        self.assert_error(self.call("ADD", two, [mapping(80, 8080)]), None, str(process.pid))
        self.add(one, mapping(80, 8080))

    def test_in_a_pod_is_no_conflict(self):
        one = self.container()
        pod = self.pod()
        run("ip", "-n", pod.name, "link", "set", "lo", "up")
        Server(self, "pod", (80,), pod, protocols=("tcp", "udp"))
        self.add(one, mapping(80, 8080), mapping(80, 8080, "udp"))

    def test_a_connection_from_the_port_is_no_conflict(self):
        """Nobody listens there; the kernel gave the number to a client."""
        one = self.container()
        self.listen("tcp", "192.0.2.1", 443)
        with socket.socket() as client:
            client.bind(("192.0.2.1", 40000))
            client.connect(("192.0.2.1", 443))
            self.add(one, mapping(40000, 8080))

    def test_DEL_and_CHECK_do_not_ask_who_listens(self):
        one = self.container()
        self.add(one, mapping(80, 8080))
        self.listen("tcp", "0.0.0.0")
        self.assert_ok(self.call("CHECK", one, [mapping(80, 8080)]))
        self.delete(one, mapping(80, 8080))


DENIED = ["22", 23, "10250-10259", "53/udp", "6000-6100/TCP"]


@suite.spread
class Denied(PortmapTest):
    @suite.cases([(f"{port} {protocol}, {name}", (port, protocol, denied, row)) for (
        port, protocol, denied), (name, row) in itertools.product((
            (22, "tcp", True), (22, "udp", True), (22, "sctp", True), (23, "tcp", True),
            (10250, "tcp", True), (10255, "udp", True), (10259, "tcp", True), (53, "udp", True),
            (6050, "tcp", True), (10249, "tcp", False), (10260, "tcp", False), (53, "tcp", False),
            (6050, "udp", False), (24, "tcp", False)), BACKENDS[:2])])
    def ports(self, row):
        port, protocol, denied, backend = row
        self.use(backend)
        one = self.container()
        before = snapshot()
        for address in (None, "192.0.2.1"):
            wanted = [mapping(1000, 1), mapping(port, 80, protocol, address)]
            outcome = self.call("ADD", one, wanted, deniedHostPorts=DENIED)
            if denied:
                error = self.assert_error(outcome, None, str(port))
                self.assertGreaterEqual(error["code"], 100)
                self.assertIn(protocol, error["msg"])
                self.assertIn("deniedHostPorts", error["msg"])
                self.assert_same(before)
            else:
                self.assert_ok(outcome)
        # A list that has changed does not keep DEL from its work.
        self.assert_ok(self.call("DEL", one, wanted, deniedHostPorts=DENIED + ["1-65535"]))
        self.assertEqual(self.targets(), {})


if __name__ == "__main__":
    suite.main(per_processor=2)
