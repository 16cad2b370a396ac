#!/usr/bin/env python3
"""CHECK notices what is broken, the next ADD restores what pods share, GC removes what has no attachment
and STATUS says what the node lacks. What nft lists can be loaded again."""

import contextlib
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.hostport import config, mapping  # noqa: E402
from support.plugin import cni  # noqa: E402
from support.portmap import BACKENDS, TABLE, PortmapTest, state_file_of  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import mount, run, umount  # noqa: E402

MAPPINGS = [mapping(8080, 80), mapping(53, 5353, "udp", "192.0.2.1"),
            mapping(53, 5353, "udp", "2001:db8::1")]


def nft(text):
    return "nft", (f"nft -f - <<'END'\n{text.replace('TABLE', TABLE)}\nEND\n",)


def iptables(*commands):
    return "iptables", commands


# Name, backend and commands, and what CHECK must say about it.
MUTATIONS = [
    ("the ruleset flushed", nft("flush ruleset"), TABLE),
    ("the table deleted", nft("delete table ip TABLE"), TABLE),
    ("the IPv6 table deleted", nft("delete table ip6 TABLE"), TABLE),
    ("the table's rules flushed", nft("flush table ip TABLE"), TABLE),
    ("an element deleted", nft("delete element ip TABLE ports { tcp . 8080 }"), "8080"),
    ("an IPv6 element deleted", nft("delete element ip6 TABLE ports { tcp . 8080 }"), "8080"),
    ("an element with an address deleted",
     nft("delete element ip TABLE ports_hostip { 192.0.2.1 . udp . 53 }"), "53"),
    ("a map flushed", nft("flush map ip6 TABLE ports_hostip"), "53"),
    ("an element that leads to another address",
     nft("delete element ip TABLE ports { tcp . 8080 }\n"
         "add element ip TABLE ports { tcp . 8080 : 10.1.2.77 . 80 }"), "8080"),
    ("an element that leads to another port",
     nft("delete element ip TABLE ports { tcp . 8080 }\n"
         "add element ip TABLE ports { tcp . 8080 : 10.1.2.2 . 81 }"), "8080"),
    ("the masquerading of a port", nft("flush set ip TABLE masq_from"), "masq_from"),
    ("the redirecting rules", nft("flush chain ip TABLE hostports"), "hostports"),
    ("the hook for packets from outside", nft("flush chain ip TABLE prerouting"), "prerouting"),
    ("the hook for the node's own packets", nft("flush chain ip6 TABLE output"), "output"),
    ("the masquerading rule", nft("flush chain ip TABLE postrouting"), "postrouting"),
    ("the guard of 127.0.0.1", nft("flush chain ip TABLE guard"), "guard"),
    ("the guard's chain", nft("flush chain ip TABLE guard\ndelete chain ip TABLE guard"), "guard"),
    ("a rule put in front", nft("insert rule ip TABLE hostports accept"), "hostports"),
    ("route_localnet", ("nftables", ("sysctl -qw net.ipv4.conf.cni0.route_localnet=0",)),
     "route_localnet"),
    ("route_localnet, iptables", iptables("sysctl -qw net.ipv4.conf.cni0.route_localnet=0"),
     "route_localnet"),
    ("the table of iptables flushed", iptables("iptables -t nat -F"), "CNI-"),
    ("the IPv6 table of iptables flushed", iptables("ip6tables -t nat -F"), "CNI-"),
    ("the hook for packets from outside, iptables",
     iptables("iptables -t nat -F PREROUTING"), "PREROUTING"),
    ("a hook that redirects to other hosts' addresses too, iptables",
     iptables("iptables -t nat -R PREROUTING 1 -j CNI-HOSTPORT-DNAT"), "PREROUTING"),
    ("the hook for the node's own packets, iptables",
     iptables("ip6tables -t nat -F OUTPUT"), "OUTPUT"),
    ("the hook for masquerading, iptables",
     iptables("iptables -t nat -F POSTROUTING"), "POSTROUTING"),
    ("the jump to the pod's chain", iptables("iptables -t nat -D CNI-HOSTPORT-DNAT {jump}"),
     "CNI-HOSTPORT-DNAT"),
    ("the pod's chain", iptables("iptables -t nat -F {chain}"), "CNI-DN-"),
    ("one rule of the pod's chain", iptables("ip6tables -t nat -D {chain} 1"), "CNI-DN-"),
    ("a rule of the pod's chain that leads elsewhere", iptables(
        "iptables -t nat -R {chain} 3 -p tcp --dport 8080 -j DNAT --to-destination 10.1.2.77:80"),
     "CNI-DN-"),
    ("the marking, iptables", iptables("iptables -t nat -F CNI-HOSTPORT-SETMARK"),
     "CNI-HOSTPORT-SETMARK"),
    ("the masquerading rule, iptables", iptables("iptables -t nat -F CNI-HOSTPORT-MASQ"),
     "CNI-HOSTPORT-MASQ"),
    ("the guard of 127.0.0.1, iptables", iptables("iptables -F CNI-HOSTPORT-GUARD"),
     "CNI-HOSTPORT-GUARD"),
    ("the guard's hook, iptables", iptables("iptables -D INPUT -j CNI-HOSTPORT-GUARD"), "INPUT"),
]


def expanded(mutations):
    """Each mutation of iptables for both variants of it."""
    for name, (backend, commands), said in mutations:
        for label, row in BACKENDS:
            if row[0] == backend or backend == "nft" and row[0] == "nftables":
                yield f"{name} ({label})", (row, commands, said)


@suite.spread
class Check(PortmapTest):
    @suite.cases(list(expanded(MUTATIONS)))
    def notices(self, row):
        backend, commands, said = row
        self.use(backend)
        one, two = self.container("one"), self.container("two")
        self.add(one, *MAPPINGS)
        self.add(two, mapping(9090, 90))
        self.assert_ok(self.call("CHECK", one, MAPPINGS))
        rules = self.rules() if self.backend == "iptables" else []
        chain = next((chain for chain, rule in rules if chain.startswith("CNI-DN-")
                      and " 8080 " in rule), "")
        jump = next((rule for _, rule in rules if rule.endswith(f"-j {chain}")), "")
        for command in commands:
            run("sh", "-ec", command.replace("{chain}", chain).replace("{jump}", jump))
        self.assert_error(self.call("CHECK", one, MAPPINGS), None, said)
        # Another ADD puts it right.
        self.add(one, *MAPPINGS)
        self.assert_ok(self.call("CHECK", one, MAPPINGS))
        self.assert_ok(self.call("DEL", one, MAPPINGS))

    @suite.cases([(f"{what}, {name}", (what, row)) for name, row in BACKENDS for what in (
        "before ADD", "after DEL", "with another port", "with one port more",
        "with another address", "with masqAll now", "of another container")])
    def is_not_content(self, row):
        what, backend = row
        self.use(backend)
        one, two = self.container("one"), self.container("two")
        mappings, more = MAPPINGS, {}
        if what != "before ADD":
            self.add(one, *MAPPINGS)
        if what == "after DEL":
            self.delete(one, *MAPPINGS)
        elif what == "with another port":
            mappings = [mapping(8081, 80)]
        elif what == "with one port more":
            mappings = [*MAPPINGS, mapping(8081, 80)]
        elif what == "with another address":
            one.v4 = "10.1.2.99"
        elif what == "with masqAll now":
            more = {"masqAll": True}
        elif what == "of another container":
            one = two
        self.assert_error(self.call("CHECK", one, mappings, **more))

    @suite.cases(BACKENDS)
    def changes_nothing(self, backend):
        self.use(backend)
        one = self.container()
        before = snapshot()
        self.assert_error(self.call("CHECK", one, MAPPINGS))
        self.assert_same(before)
        self.add(one, *MAPPINGS)
        before = snapshot()
        self.assert_ok(self.call("CHECK", one, MAPPINGS))
        self.assert_same(before)


@suite.spread
class Restored(PortmapTest):
    """What all pods share is made whole by the next ADD of any."""

    def base(self):
        return {f"{place}: {value}" for place, value in snapshot().items()
                if left_by_design(place) and (TABLE in place or "CNI-HOSTPORT-" in place)}

    @suite.cases([(f"{name} ({label})", (row, command)) for label, row, name, command in (
        ("nftables", BACKENDS[0][1], "flush ruleset", "nft flush ruleset"),
        ("nftables", BACKENDS[0][1], "a chain flushed", f"nft flush chain ip {TABLE} prerouting"),
        ("nftables", BACKENDS[0][1], "a table deleted", f"nft delete table ip6 {TABLE}"),
        ("nftables", BACKENDS[0][1], "the rules flushed", f"nft flush table ip {TABLE}"),
        ("nftables", BACKENDS[0][1], "the masquerading flushed",
         f"nft flush chain ip {TABLE} postrouting"),
        ("nftables", BACKENDS[0][1], "a rule deleted",
         f"nft delete rule ip {TABLE} guard handle $(nft -a list chain ip {TABLE} guard | "
         "sed -n '/drop/s/.*handle //p' | head -n 1)"),
        ("nftables", BACKENDS[0][1], "a rule in front",
         f"nft insert rule ip {TABLE} hostports accept"),
        ("iptables-nft", BACKENDS[1][1], "flush ruleset", "nft flush ruleset"),
        ("iptables-nft", BACKENDS[1][1], "nat flushed", "iptables -t nat -F; ip6tables -t nat -F"),
        ("iptables-legacy", BACKENDS[2][1], "nat flushed",
         "iptables -t nat -F; ip6tables -t nat -F"),
        ("iptables-legacy", BACKENDS[2][1], "a guard flushed", "iptables -F CNI-HOSTPORT-GUARD"))])
    def by_the_next_ADD(self, row):
        backend, command = row
        self.use(backend)
        one, two, three = (self.container(name) for name in ("one", "two", "three"))
        self.add(one, mapping(8080, 80))
        base = self.base()
        run("sh", "-ec", command)
        self.assertNotEqual(self.base(), base)
        self.add(two, mapping(9090, 90))
        self.assertLessEqual(base, self.base())
        self.assertIn(f"{two.v4}:90", self.targets()[("tcp", None, 9090)])
        self.assert_ok(self.call("CHECK", two, [mapping(9090, 90)]))
        for container, ports in ((one, mapping(8080, 80)), (two, mapping(9090, 90))):
            self.delete(container, ports)
        # There is one of everything.
        self.add(three, mapping(8080, 80))
        self.delete(three, mapping(8080, 80))
        shared = [place for place in self.base() if "/rule/" in place or "/-A " in place]
        self.assertEqual(len(shared), len([place for place in base if "/rule/" in place
                                           or "/-A " in place]), "\n".join(sorted(shared)))

    @suite.cases([(verb, verb) for verb in ("ADD", "REPAIR", "ADD of another")])
    def a_rule_that_another_one_replaced(self, verb):
        self.use(BACKENDS[0][1])
        one, two = self.container("one"), self.container("two")
        self.add(one, *MAPPINGS)
        base = self.base()
        run("sh", "-ec", f"nft flush chain ip {TABLE} guard; nft add rule ip {TABLE} guard accept; "
            f"nft add rule ip {TABLE} guard counter")
        self.assertNotEqual(self.base(), base)
        self.assert_error(self.call("CHECK", one, MAPPINGS), None, "guard")
        if verb == "ADD of another":
            self.add(two, mapping(9090, 90))
        else:
            self.assert_ok(self.call(verb, one, MAPPINGS))
        self.assertEqual(self.base(), base)
        self.assert_ok(self.call("CHECK", one, MAPPINGS))

    def test_stays_where_a_chain_of_another_leads_to_it(self):
        self.use(BACKENDS[0][1])
        one, two = self.container("one"), self.container("two")
        self.add(one, mapping(8080, 80))
        run("nft", f"add chain ip {TABLE} other; add rule ip {TABLE} other jump hostports")
        before = run("nft", "-a", "list", "chain", "ip", TABLE, "hostports")
        self.assertIn("# handle", before)
        self.add(two, mapping(9090, 90))
        self.assertEqual(run("nft", "-a", "list", "chain", "ip", TABLE, "hostports"), before)


@suite.spread
class Gc(PortmapTest):
    def gc(self, *valid, **more):
        attachments = [{"containerID": one.name, "ifname": "eth0"} for one in valid]
        conf = config(None, self.backend, "1.1.0",
                      **{"cni.dev/valid-attachments": attachments} | more)
        return cni("portmap", "GC", conf)

    @suite.cases([(f"{name}, {how}", (row, how)) for name, row in BACKENDS for how in (
        "as it was", "with the state file removed", "with the state file damaged", "with all namespaces gone")
        if how != "with the state file removed" or row[0] == "nftables"])
    def leaves_exactly_the_listed(self, row):
        backend, how = row
        self.use(backend)
        keep, lost, other = (self.container(name) for name in ("keep", "lost", "other"))
        self.add(keep, mapping(8080, 80))
        self.add(other, mapping(8081, 80), name="net2")
        self.add(lost, mapping(1, 1))
        self.delete(lost, mapping(1, 1))
        before = snapshot()
        self.add(lost, mapping(8082, 80), mapping(53, 53, "udp", "192.0.2.1"))
        if how == "with the state file removed":
            os.unlink(state_file_of(lost))
        elif how == "with the state file damaged":
            os.truncate(state_file_of(lost), 20)
        elif how == "with all namespaces gone":
            for one in (keep, lost, other):
                one.remove()
        self.assert_ok(self.gc(keep))
        # An unreadable state file can be that of a container in another network: it stays.
        file = "file" + state_file_of(lost) if how == "with the state file damaged" else None
        self.assert_same(before, ignore=lambda place: place.startswith("file/run/netns/")
                         or place == file)

    @suite.cases(BACKENDS)
    def of_nothing_valid_leaves_nothing(self, backend):
        self.use(backend)
        before = snapshot()
        ones = [self.container(f"c{n}") for n in range(5)]
        for n, one in enumerate(ones):
            self.add(one, mapping(8000 + n, 80), mapping(53, 53, "udp", f"192.0.2.{n + 1}"))
        self.assert_ok(self.gc())
        self.assert_same(before, ignore=lambda place: left_by_design(place)
                         or place.startswith("file/run/netns/"))
        self.assert_ok(self.gc())

    def test_on_a_fresh_node_changes_nothing(self):
        before = snapshot()
        self.assert_ok(self.gc())
        self.assert_same(before, ignore=lambda place: place.startswith("file/run/cni/")
                         and left_by_design(place))

    @suite.cases([(name, broken) for name, broken in (
        ("a word for the list", "all"), ("an entry without name", [{"containerID": "x"}]),
        ("an entry of null", [None]), ("a number for a name", [{"containerID": 1, "ifname": 2}]))])
    def deletes_nothing_for(self, broken):
        one = self.container()
        self.add(one, *MAPPINGS)
        before = snapshot()
        self.assert_error(self.gc(**{"cni.dev/valid-attachments": broken}), 7)
        self.assert_same(before)


@suite.spread
class Status(PortmapTest):
    def status(self, **more):
        conf = {"backend": self.backend} | more
        conf = {key: value for key, value in conf.items() if value is not None}
        return cni("portmap", "STATUS", config(None, version="1.1.0", **conf))

    @suite.cases([*BACKENDS, ("whatever there is", (None, None))])
    def of_a_ready_node_is_content_and_changes_nothing(self, backend):
        self.use(backend)
        before = snapshot()
        self.assert_ok(self.status())
        self.assert_same(before)

    def test_names_what_the_node_lacks(self):
        """No iptables and no nft in PATH, nor where they are otherwise looked for."""
        os.makedirs("/run/empty")
        before = snapshot()
        with contextlib.ExitStack() as undo:
            for folder in {os.path.realpath(path) for path in ("/usr/sbin", "/sbin")}:
                mount("/run/empty", folder, flags=4096)  # MS_BIND
                undo.callback(umount, folder)
            for verb in ("STATUS", "ADD"):
                conf = config([mapping(80, 80)], "iptables", "1.1.0")
                conf["prevResult"] = {"ips": [{"address": "10.1.2.9/24"}]}
                outcome = cni("portmap", verb, conf, netns="/run/netns/none",
                              env={"PATH": "/run/empty"})
                self.assert_error(outcome, 50, "iptables")
            # Nor is there nft, which conditions in its language need. Nothing is changed.
            conditions = {"conditionsV4": ["ip saddr != 198.51.100.0/24"]}
            for verb in ("STATUS", "ADD"):
                conf = config([mapping(80, 80)], "nftables", "1.1.0", **conditions)
                conf["prevResult"] = {"ips": [{"address": "10.1.2.9/24"}]}
                error = self.assert_error(cni("portmap", verb, conf, netns="/run/netns/none",
                                              env={"PATH": "/run/empty"}), 50, "run 'nft'")
                self.assertIn("package nftables", error["details"])
            # nftables needs none of it.
            self.assert_ok(cni("portmap", "STATUS", config([mapping(80, 80)], "nftables", "1.1.0"),
                               env={"PATH": "/run/empty"}))
            # Nor does a pod without hostPorts: STATUS knows of none.
            for verb in ("STATUS", "ADD"):
                conf = config(None, "iptables", "1.1.0")
                conf["prevResult"] = {"ips": [{"address": "10.1.2.9/24"}]}
                self.assert_ok(cni("portmap", verb, conf, netns="/run/netns/none",
                                   env={"PATH": "/run/empty"}))
        self.assert_same(before)

    def test_refuses_a_broken_config(self):
        error = self.assert_error(self.status(backend="x"), 7)
        self.assertEqual(error["msg"], 'failed to parse config: unrecognized backend "x"')  # as ADD


class Listing(PortmapTest):
    """Other programs of the node list the whole ruleset, save and restore it."""

    def test_is_loaded_again_as_it_was(self):
        ones = [self.container(f"c{n}") for n in range(3)]
        self.add(ones[0], *MAPPINGS)
        self.add(ones[1], mapping(9090, 90, "sctp"), masqAll=True)
        self.add(ones[2], mapping(9091, 91), markMasqBit=5,
                 conditionsV4=["ip saddr != 198.51.100.0/24"])
        for port, (v4, v6) in ((9092, ("32", "128")), (9093, ("20", "61"))):
            one = self.container(f"of-{v4}")
            result = one.result
            result["ips"][0]["address"], result["ips"][1]["address"] = (f"{one.v4}/{v4}",
                                                                       f"{one.v6}/{v6}")
            self.add(one, mapping(port, 80), prevResult=result)
        before = {k: v for k, v in snapshot().items() if k.startswith("nft/")}
        self.assertTrue(any(place.startswith("nft/elem/") for place in before))
        self.assertIn(ones[0].name[:20], run("nft", "list", "ruleset"), "whose an element is")
        json.loads(run("nft", "-j", "list", "ruleset"))
        text = run("nft", "list", "ruleset")
        run("nft", "flush", "ruleset")
        run("nft", "-f", "-", stdin=text)
        after = {k: v for k, v in snapshot().items() if k.startswith("nft/")}
        self.assert_same(before, after)
        # And it is ours again.
        self.assert_ok(self.call("CHECK", ones[0], MAPPINGS))
        self.assert_ok(self.call("DEL", ones[0], MAPPINGS))
        self.assertEqual({key[2] for key in self.targets()}, {9090, 9091, 9092, 9093})

    def test_beside_iptables(self):
        for name, backend in BACKENDS[:2]:
            self.use(backend)
            self.add(self.container(name), mapping(8000 + self.containers, 80))
        run("nft", "list", "ruleset")
        json.loads(run("nft", "-j", "list", "ruleset"))


if __name__ == "__main__":
    suite.main(per_processor=2)
