#!/usr/bin/env python3
"""What mapped ports leave on a node when their pod is gone: nothing, whatever happened before."""

import contextlib
import itertools
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import rows, suite  # noqa: E402
from support.hostport import Server, ask_one, config, mapping, result  # noqa: E402
from support.plugin import OURS, REFERENCE, cni, has_reference, have  # noqa: E402
from support.portmap import BACKENDS, STATE_FILES, PortmapTest, state_file_of  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run, small_disk, umount  # noqa: E402

MAPPINGS = [mapping(8080, 80), mapping(8080, 80, "udp"), mapping(8080, 80, "sctp"),
            mapping(8081, 81, "tcp", "192.0.2.1"), mapping(8081, 81, "tcp", "2001:db8::1"),
            mapping(8082, 82, "udp", "0.0.0.0"), mapping(8083, 83, "tcp", "::"),
            mapping(8084, 84, "tcp", "127.0.0.1"), *(mapping(p, p) for p in range(9000, 9020))]


def nothing(one):
    pass


def kill_namespace(one):
    one.remove()


def leave_mount_point(one):
    umount(one.path)


def remove_device(one):
    run("ip", "link", "del", "cni0")


def remove_state_file(one):
    os.unlink(state_file_of(one))


def damage_state_file(one):
    with open(state_file_of(one), "wb") as file:
        file.write(b"\xff\0{nonsense" * 10)


def flush_ruleset(one):
    run("nft", "flush", "ruleset")


# What happened between ADD and DEL, and what DEL is told.
SITUATIONS = [
    ("as usual", nothing, {}),
    ("with the namespace gone", kill_namespace, {}),
    ("with an empty mount point in its place", leave_mount_point, {}),
    ("with CNI_NETNS empty", kill_namespace, {"options": {"netns": ""}}),
    ("without prevResult", nothing, {"prevResult": None}),
    ("without portMappings", nothing, {"mappings": None}),
    ("with an empty portMappings", nothing, {"mappings": []}),
    ("with other portMappings", nothing, {"mappings": [mapping(1, 1)]}),
    ("with broken portMappings", nothing, {"mappings": [{"hostPort": "x"}, 7]}),
    ("with portMappings of another type", nothing, {"mappings": "8080:80"}),
    ("with an unknown backend", nothing, {"backend": "pf"}),
    ("with a bad mark", nothing, {"markMasqBit": 77}),
    ("with a bad deniedHostPorts", nothing, {"deniedHostPorts": ["x"]}),
    ("with masqAll now", nothing, {"masqAll": True}),
    ("with the link to the pod gone", remove_device, {}),
    ("with the state file removed", remove_state_file, {}),
    ("with the state file damaged", damage_state_file, {}),
    ("with the state file damaged and without portMappings", damage_state_file, {"mappings": None}),
    ("after flush ruleset", flush_ruleset, {}),
    ("after flush ruleset, without portMappings", flush_ruleset, {"mappings": None}),
]


@suite.spread
class Del(PortmapTest):
    @suite.cases([(f"{name}, {backend}", (act, change, row))
                  for (name, act, change), (backend, row) in itertools.product(SITUATIONS, BACKENDS)
                  if not (backend == "iptables-legacy" and act is flush_ruleset)])
    def leaves_nothing(self, row):
        act, change, backend = row
        self.use(backend)
        before = snapshot()
        one = self.container()
        self.add(one, *MAPPINGS)
        self.assertEqual(len(self.targets()), len(MAPPINGS))
        act(one)
        change = {"mappings": MAPPINGS} | change
        for _ in range(2):
            self.assert_ok(self.call("DEL", one, **change))
        with contextlib.suppress(FileNotFoundError):
            one.remove()
        self.assert_same(before, ignore=lambda place: left_by_design(place) or
                         act is remove_device and "cni0" in place + str(before.get(place)))

    @suite.cases(BACKENDS)
    def leaves_nothing_with_the_state_file_truncated_anywhere(self, backend):
        self.use(backend)
        one = self.container()
        mappings = [mapping(8080, 80), mapping(53, 53, "udp", "192.0.2.1")]
        before = snapshot()
        self.add(one, *mappings)
        size = os.path.getsize(state_file_of(one))
        for length in rows.sampled(range(0, size, 1 if self.backend == "nftables" else 7)):
            self.add(one, *mappings)
            os.truncate(state_file_of(one), length)
            known = mappings if length % 2 else None
            self.assert_ok(self.call("DEL", one, known))
            self.assertEqual(self.targets(), {}, f"cut off at {length} of {size}")
            self.assertEqual(set(os.listdir(STATE_FILES)) - {"lock", "claims"}, set())
        self.assert_same(before, ignore=left_by_design)

    @suite.cases(BACKENDS)
    def of_one_of_two_networks_needs_no_room_on_a_full_disk(self, backend):
        self.use(backend)
        fill = small_disk(STATE_FILES)
        one = self.container()
        for number, network in enumerate(("net1", "net2")):
            self.add(one, mapping(8080 + number, 80), name=network)
        fill()
        for number, network in enumerate(("net1", "net2")):
            self.assertEqual(len(self.targets()), 2 - number)
            self.delete(one, mapping(8080 + number, 80), name=network)
        self.assertEqual((self.targets(), os.path.exists(state_file_of(one))), ({}, False))

    @suite.cases(BACKENDS)
    def without_ADD_changes_nothing(self, backend):
        self.use(backend)
        one = self.container()
        before = snapshot()
        for netns in (one.path, "/run/netns/never", ""):
            self.assert_ok(self.call("DEL", one, MAPPINGS, {"netns": netns}))
        self.assert_same(before, ignore=lambda place: place.startswith("file/run/cni/")
                         and left_by_design(place))

    @suite.cases(BACKENDS)
    def leaves_the_other_pods_alone(self, backend):
        """Not even the same port of another protocol or address is touched."""
        self.use(backend)
        one, two = self.container("one"), self.container("two")
        self.add(one, mapping(8080, 80), mapping(8081, 81, "tcp", "192.0.2.1"))
        middle = snapshot()
        others = [mapping(8080, 80, "udp"), mapping(8081, 81, "tcp", "192.0.2.2"),
                  mapping(8081, 81, "udp", "192.0.2.1")]
        self.add(two, *others)
        # Told of the first pod's ports, it still takes its own only.
        self.delete(two, *others, mapping(8080, 80), mapping(8081, 81, "tcp", "192.0.2.1"))
        self.assert_same(middle, ignore=lambda place: place == "file/run/cni/portmap/claims/")

    def test_of_a_failed_ADD_leaves_nothing(self):
        one = self.container()
        before = snapshot()
        self.backend = "iptables"
        failed = self.call("ADD", one, MAPPINGS, externalSetMarkChain="NOT-THERE")
        self.assert_error(failed)
        self.assert_same(before, ignore=left_by_design)
        self.assert_ok(self.call("DEL", one, MAPPINGS, externalSetMarkChain="NOT-THERE"))
        self.assert_same(before, ignore=left_by_design)


@suite.spread
class Add(PortmapTest):
    @suite.cases(BACKENDS)
    def twice_is_once(self, backend):
        self.use(backend)
        one = self.container()
        first = self.add(one, *MAPPINGS)
        before = snapshot()
        self.assertEqual(self.add(one, *MAPPINGS), first)
        self.assert_same(before)
        self.assert_ok(self.call("CHECK", one, MAPPINGS))

    @suite.cases([(f"{what}, {name}", (what, row)) for (name, row), what in itertools.product(
        BACKENDS, ("other ports", "another address", "other options", "fewer ports", "no ports"))])
    def again_replaces(self, row):
        what, backend = row
        self.use(backend)
        old, new = self.container(), [mapping(8080, 80), mapping(8090, 90, "udp")]
        # The state to come to: that of a single ADD.
        options = {"masqAll": True} if what == "other options" else {}
        mappings = {"other ports": [mapping(8080, 81), mapping(7000, 70)], "fewer ports": new[:1],
                    "no ports": []}.get(what, new)
        self.add(old, *new)
        self.delete(old, *new)
        address = old.v4, old.v6
        if what == "another address":
            old.v4, old.v6 = "10.1.2.99", "fd00:1:2::99"
        self.add(old, *mappings, **options)
        wanted = snapshot()
        self.delete(old, *mappings, **options)
        here = old.v4, old.v6
        old.v4, old.v6 = address
        self.add(old, *new)
        old.v4, old.v6 = here
        self.add(old, *mappings, **options)
        self.assert_same(wanted)

    @suite.cases(BACKENDS)
    def of_a_second_network_with_the_same_port(self, backend):
        """As podman does it: the port works through the second when the first is gone."""
        self.use(backend)
        run("ip", "link", "del", "cni0")
        run("ip", "addr", "add", "192.0.2.1/32", "dev", "lo")
        pod = self.pod()
        results = []
        for number in (1, 2):
            conf = {"cniVersion": "1.0.0", "name": f"net{number}", "type": "bridge",
                    "bridge": f"cni{number}", "isGateway": True,
                    "ipam": {"type": "host-local", "subnet": f"10.1.{number}.0/24"}}
            results.append(self.assert_ok(cni("bridge", "ADD", conf, netns=pod.path,
                                              ifname=f"eth{number}")))
        run("ip", "-n", pod.name, "route", "add", "192.0.2.1", "via", "10.1.1.1")
        for number, name in ((1, "first"), (2, "second")):
            Server(self, name, (80,), pod, protocols=("tcp",), addresses=(f"10.1.{number}.2",))
        before = snapshot()

        def call(verb, number):
            conf = config([mapping(8080, 80)], self.backend, name=f"net{number}")
            return self.assert_ok(cni("portmap", verb, conf | {"prevResult": results[number - 1]},
                                      netns=pod.path, ifname=f"eth{number}"))

        for first in (1, 2):
            call("ADD", 1)
            call("ADD", 2)
            self.assertEqual(ask_one(None, "tcp", "192.0.2.1", 8080).split()[0], "first")
            call("DEL", first)
            self.assertEqual(ask_one(None, "tcp", "192.0.2.1", 8080).split()[0],
                             "second" if first == 1 else "first")
            call("DEL", 3 - first)
            self.assertEqual(ask_one(None, "tcp", "192.0.2.1", 8080), "refused")
            self.assert_same(before, ignore=lambda place: left_by_design(place)
                             or "route_localnet" in place)

    def test_passes_the_result_on(self):
        """In the form of the config's version."""
        one = self.container()
        for version in ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"):
            for mappings in ([mapping(8080, 80)], [], None):
                conf = config(mappings, self.backend, version)
                conf["prevResult"] = self.previous(one, version)
                said = self.assert_ok(cni("portmap", "ADD", conf, netns=one.path))
                self.assertEqual(said, conf["prevResult"])

    @staticmethod
    def previous(one, version):
        """The result of a plugin before, in the form of that version."""
        dns = {"nameservers": ["192.0.2.53"]}
        if version in ("0.1.0", "0.2.0"):
            return {"cniVersion": version, "dns": dns, "ip4": {"ip": f"{one.v4}/24"},
                    "ip6": {"ip": f"{one.v6}/64"}}
        previous = one.result | {"cniVersion": version, "dns": dns}
        if version.startswith("0."):
            for number, ip in zip("46", previous["ips"]):
                ip["version"] = number
        return previous

    def test_maps_the_addresses_of_its_own_interface(self):
        one = self.container()
        previous = result(one, "10.1.2.2", "fd00:1:2::2")
        previous["interfaces"].insert(0, {"name": "cni0"})
        previous["ips"] = [{"address": "10.9.9.9/24", "interface": 0},
                           {"address": "10.1.2.2/24", "interface": 1},
                           {"address": "10.1.2.3/24", "interface": 1}]
        self.assert_ok(self.call("ADD", one, [mapping(8080, 80)], prevResult=previous))
        self.assertEqual(self.targets(), {("tcp", None, 8080): {"10.1.2.2:80"}})


class Silent(PortmapTest):
    """Without port mappings nobody asks the kernel about its firewall."""

    def traced(self, verb, one, mappings, **more):
        if have("strace"):
            self.skipTest("needs the program strace")
        log = "/run/strace"
        outcome = self.call(verb, one, mappings, {
            "wrap": ("strace", "-f", "-qq", "-s", "64", "-o", log)}, **more)
        self.assert_ok(outcome)
        with open(log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def test_without_mappings_nothing_is_asked_and_nothing_made(self):
        one = self.container()
        for more in ({}, {"backend": None}, {"backend": "iptables"}):
            for verb in ("ADD", "CHECK", "DEL"):
                for mappings in (None, []):
                    log = self.traced(verb, one, mappings, **more)
                    for word in ("NETLINK_NETFILTER", "SOL_IP", "SOL_IPV6", "ip_tables_names"):
                        self.assertNotIn(word, log, verb)
                    self.assertEqual(len(re.findall(r"\bexecve\(", log)), 1, verb)
                    self.assertFalse(re.search(r"\b(v?fork|clone3?)\(", log), verb)
        self.assertFalse(os.path.exists("/run/cni"))

    def test_200_mappings_are_one_transaction(self):
        one = self.container()
        mappings = [mapping(10000 + n, 80 + n, protocol) for n in range(100)
                    for protocol in ("tcp", "udp")]
        self.add(self.container("before"), mapping(1, 1))  # the table is there
        log = self.traced("ADD", one, mappings)
        self.assertEqual(len(re.findall(r"\bexecve\(", log)), 1)
        batches = [line for line in log.splitlines() if "NFNL_MSG_BATCH_BEGIN" in line]
        self.assertEqual(len(batches), 1, "\n".join(line[:300] for line in batches))
        self.assertEqual(len(self.targets()), 201)
        log = self.traced("DEL", one, mappings)
        batches = [line for line in log.splitlines() if "NFNL_MSG_BATCH_BEGIN" in line]
        self.assertEqual(len(batches), 1, "\n".join(line[:300] for line in batches))
        self.assertEqual(len(self.targets()), 1)


@suite.spread
class Reference(PortmapTest):
    """What the reference made is taken down by ours, and the other way round."""

    @suite.cases(BACKENDS[1:])
    def takes_down_what_ours_made(self, backend):
        self.exchange(backend, OURS, REFERENCE)

    @suite.cases(BACKENDS[1:])
    def is_taken_down_by_ours(self, backend):
        self.exchange(backend, REFERENCE, OURS)

    def exchange(self, backend, maker, remover):
        if not has_reference("portmap"):
            self.skipTest("the reference's portmap is not installed")
        self.use(backend)
        one = self.container()
        mappings = [mapping(8080, 80), mapping(53, 5353, "udp", "192.0.2.1")]
        before = snapshot()
        self.assert_ok(self.call("ADD", one, mappings, {"directory": maker}))
        self.assertEqual(len(self.targets()), 2)
        self.assert_ok(self.call("DEL", one, mappings, {"directory": remover}))
        self.assertEqual(self.targets(), {})
        self.assert_same(before, ignore=lambda place: left_by_design(place)
                         or remover is REFERENCE and place.startswith("file/run/cni/portmap/"))


if __name__ == "__main__":
    suite.main()
