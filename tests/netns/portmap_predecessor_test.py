#!/usr/bin/env python3
"""A pod died without DEL, as after k3s-killall.sh, and IPAM gives its address to the next one: no port of the node that
the dead pod had leads there. Whoever lives keeps its ports, even if two pods have one address."""

import glob
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import rows, suite  # noqa: E402
from support.hostport import Server, ask_one, config, mapping, result, tracked  # noqa: E402
from support.plugin import cni, have  # noqa: E402
from support.portmap import BACKENDS, STATE_FILES, PortmapTest, state_file_of  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run  # noqa: E402

WAYS = {"its namespace is gone": lambda one: one.remove(),
        "its interface is gone": lambda one: run("ip", "-n", one.name, "link", "del", "eth0")}
NEXT = {"with ports": [mapping(9000, 90)], "without ports": [], "without portMappings": None}


def links():
    """{address: how many attachments have it} of the index."""
    return {os.path.basename(path)[3:]: os.readlink(path).count("\n") + 1 for path in glob.glob(f"{STATE_FILES}/ip-*")}


@suite.spread
class Predecessor(PortmapTest):
    def two(self):
        """Two containers with the same addresses; a namespace that goes away leaves its number to nobody."""
        one, two = self.container("one"), self.container("two")
        two.v4, two.v6 = one.v4, one.v6
        held = os.open(one.path, os.O_RDONLY)
        self.addCleanup(os.close, held)
        return one, two

    @suite.cases([(f"{way}, {what}, {name}", (way, what, row)) for name, row in BACKENDS
                  for way, what in (("its namespace is gone", "with ports"), ("its namespace is gone", "without ports"),
                                    ("its interface is gone", "without portMappings"))])
    def of_a_pod_loses_its_ports_when(self, row):
        way, what, backend = row
        self.use(backend)
        one, two = self.two()
        empty = snapshot()
        self.add(one, mapping(8080, 80), mapping(8081, 81, "udp", "192.0.2.1"), mapping(8082, 82, "tcp", "2001:db8::1"))
        self.assertEqual(links(), {one.v4: 1, one.v6: 1})
        WAYS[way](one)
        self.assert_ok(self.call("ADD", two, NEXT[what]))
        wanted = {("tcp", None, 9000): {f"{two.v4}:90", f"[{two.v6}]:90"}} if what == "with ports" else {}
        self.assertEqual(self.targets(), wanted)
        self.assertFalse(os.path.exists(state_file_of(one)))
        self.assertEqual(set(links().values()), {1} if wanted else set())
        # Its DEL comes late, and twice.
        for _ in range(2):
            self.assert_ok(self.call("DEL", one, [mapping(8080, 80)]))
            self.assertEqual(self.targets(), wanted)
        self.assert_ok(self.call("CHECK", two, NEXT[what]))
        self.assert_ok(self.call("DEL", two, NEXT[what]))
        self.assert_same(empty, ignore=lambda place: left_by_design(place) or one.name in place)

    @suite.cases(BACKENDS)
    def that_lives_keeps_its_ports(self, backend):
        """Ranges of two networks overlap, and static addresses are given twice."""
        self.use(backend)
        one, two = self.two()
        three = self.container("three")
        three.v4, three.v6 = one.v4, one.v6
        self.add(one, mapping(8080, 80))
        before = self.targets()
        for network in ("net1", "net2"):
            self.add(two, name=network)
            self.assertEqual(self.targets(), before)
        self.add(two, mapping(9000, 90), name="net2")
        both = before | {("tcp", None, 9000): {f"{two.v4}:90", f"[{two.v6}]:90"}}
        self.assertEqual((self.targets(), links()), (both, {one.v4: 2, one.v6: 2}))
        one.remove()
        self.add(three, name="net3")
        self.assertEqual(self.targets(), {("tcp", None, 9000): both[("tcp", None, 9000)]})
        self.assertEqual(links(), {one.v4: 1, one.v6: 1})
        self.assert_ok(self.call("CHECK", two, [mapping(9000, 90)], name="net2"))

    def test_of_one_container_in_two_networks_lives(self):
        """Both attachments have one address, and each is asked for the port that the first one has."""
        one, _ = self.two()
        run("ip", "-n", one.name, "link", "add", "eth1", "type", "bridge")
        self.add(one, mapping(8080, 80))
        before = self.targets()
        second = {"netns": one.path, "container": one.name, "ifname": "eth1"}
        conf = config([mapping(8080, 81)], name="net2") | {"prevResult": result(one, one.v4, one.v6, "eth1")}
        self.assert_ok(cni("portmap", "ADD", conf, **second))
        self.assertEqual((self.targets(), links()), (before, {one.v4: 2, one.v6: 2}))
        self.assert_ok(cni("portmap", "DEL", conf, **second))
        self.assertEqual((self.targets(), links()), (before, {one.v4: 1, one.v6: 1}))

    def test_of_another_container_in_this_namespace_is_gone(self):
        """The namespace's name, number and interface are those of before, and an interface has one container."""
        one, two = self.two()
        self.add(one, mapping(8080, 80))
        two.remove()
        self.assert_ok(self.call("ADD", one, [], {"container": "two"}))
        self.assertEqual((self.targets(), links()), ({}, {}))

    def test_with_one_of_the_addresses_is_enough(self):
        one, two = self.two()
        self.add(one, mapping(8080, 80))
        one.remove()
        two.v4 = "10.1.2.99"
        self.add(two)
        self.assertEqual((self.targets(), links()), ({}, {}))

    def test_whose_state_is_of_a_newer_version_or_torn_may_live(self):
        one, two = self.two()
        self.add(one, mapping(8080, 80))
        before = self.targets()
        with open(state_file_of(one), encoding="utf-8") as file:
            written = file.read()
        one.remove()
        for text in (json.dumps([row | {"format": 2} for row in json.loads(written)]), written[:40]):
            with open(state_file_of(one), "w", encoding="utf-8") as file:
                file.write(text)
            self.add(two)
            self.assertEqual((self.targets(), links()), (before, {one.v4: 1, one.v6: 1}))
        self.assert_ok(self.call("DEL", one))
        self.assertEqual((self.targets(), links()), ({}, {}))

    def test_takes_its_packets_along(self):
        """A client that sends UDP without a pause goes on to reach the address by what the kernel remembers of it."""
        run("ip", "link", "del", "cni0")
        run("ip", "addr", "add", "192.0.2.1/32", "dev", "lo")
        conf = {"cniVersion": "1.0.0", "name": "net1", "type": "bridge", "bridge": "cni0", "isGateway": True,
                "ipam": {"type": "static", "addresses": [{"address": "10.1.2.2/24"}], "routes": [{"dst": "0.0.0.0/0"}]}}

        def attach(pod, mappings):
            added = self.assert_ok(cni("bridge", "ADD", conf, netns=pod.path, container=pod.name))
            chained = config(mappings) | {"prevResult": added}
            self.assert_ok(cni("portmap", "ADD", chained, netns=pod.path, container=pod.name))

        one = self.pod("one")
        attach(one, [mapping(5353, 53, "udp"), mapping(8080, 80)])
        server = Server(self, "one", (53, 80), one, protocols=("udp", "tcp"), addresses=("0.0.0.0",))
        for protocol, port in (("udp", 5353), ("tcp", 8080)):
            self.assertEqual(ask_one(None, protocol, "192.0.2.1", port, source_port=4444).split()[0], "one")
        self.assertTrue(tracked("udp", "dport=5353"))
        server.stop()
        one.remove()
        run("ip", "link", "del", "cni0")
        two = self.pod("two")
        attach(two, [])
        Server(self, "two", (53, 80), two, protocols=("udp", "tcp"), addresses=("0.0.0.0",))
        self.assertEqual(tracked("udp", "dport=5353"), [])
        # A second TCP connection from that port would wait for the end of the first one's TIME_WAIT.
        for protocol, port, source_port in (("udp", 5353, 4444), ("tcp", 8080, 0)):
            self.assertEqual(ask_one(None, protocol, "192.0.2.1", port, source_port=source_port), "refused")
        self.assertEqual(ask_one(None, "tcp", "10.1.2.2", 80).split()[0], "two")


class Cost(PortmapTest):
    def calls(self, container, *mappings):
        """The number of system calls of ADD."""
        done = self.call("ADD", container, list(mappings), {"wrap": ("strace", "-f", "-c", "-o", "/run/strace")})
        self.assert_ok(done)
        with open("/run/strace", encoding="utf-8") as file:
            total = re.search(r"^100\.00 .*?(\d+) +\d* *total$", file.read(), re.MULTILINE)
        return int(total[1])

    def test_of_ADD_does_not_grow_with_the_pods(self):
        if have("strace"):
            self.skipTest("needs the program strace")
        self.add(self.container("first"), mapping(8000, 80))
        plain = self.calls(self.container("a"), mapping(8001, 80)), self.calls(self.container("b"))
        for number in range(40):
            one = self.container(f"c{number}")
            self.add(one, mapping(9000 + number, 80))
            if number % 2:
                one.remove()
        again = self.calls(self.container("y"), mapping(8002, 80)), self.calls(self.container("z"))
        self.assertEqual(again, plain)


@suite.spread
class Rest(PortmapTest):
    @suite.cases(BACKENDS[:2])
    def of_killed_calls_is_removed_by_the_next_ADD_with_the_address(self, backend):
        """The ADD that removes a dead pod's ports is killed at a system call; the next one completes it."""
        if have("strace"):
            self.skipTest("needs the program strace")
        self.use(backend)
        step = (1 if self.backend == "nftables" else 4) * rows.STEP
        number, kills = 1 + rows.OFFSET % step, 0
        while True:
            one, two, three = (self.container(f"{name}{number}") for name in ("one", "two", "three"))
            two.v4, two.v6 = three.v4, three.v6 = one.v4, one.v6
            self.add(one, mapping(8080, 80))
            one.remove()
            killed = self.call("ADD", two, [mapping(9000, 90)], {"wrap": (
                "strace", "-o", "/dev/null", "-e", f"inject=%file,%network,%desc:signal=KILL:when={number}")})
            two.remove()
            self.add(three, mapping(7000, 70))
            wanted = {("tcp", None, 7000): {f"{three.v4}:70", f"[{three.v6}]:70"}}
            self.assertEqual((self.targets(), links()), (wanted, {one.v4: 1, one.v6: 1}), f"killed at {number}")
            self.delete(three, mapping(7000, 70))
            three.remove()
            self.assertEqual((self.targets(), links()), ({}, {}), f"killed at {number}")
            if killed.ok:
                break
            kills += 1
            number += step
        self.assertGreater(kills, 2)

    @suite.cases(BACKENDS[:2])
    def is_collected(self, backend):
        """What no address brings back: GC removes links to nothing, and those of its dead pods."""
        self.use(backend)
        one, two = self.container("one"), self.container("two")
        self.add(one, mapping(8080, 80))
        self.add(two, mapping(9000, 90))
        os.symlink("0-0-0123456789abcdef", f"{STATE_FILES}/ip-10.1.2.77")
        one.remove()
        valid = [{"containerID": two.name, "ifname": "eth0"}]
        self.assert_ok(cni("portmap", "GC", config(None, self.backend, "1.1.0") | {"cni.dev/valid-attachments": valid}))
        self.assertEqual(links(), {two.v4: 1, two.v6: 1})
        self.assertEqual(self.targets(), {("tcp", None, 9000): {f"{two.v4}:90", f"[{two.v6}]:90"}})


if __name__ == "__main__":
    suite.main()
