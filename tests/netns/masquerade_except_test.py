#!/usr/bin/env python3
"""ipMasqExcept of bridge and ptp: the source addresses that servers see, the sets in nftables, and that they go with
their last pod."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import hostport, suite  # noqa: E402
from support.hostport import BEYOND, NODE, OUTSIDE, SECOND, Server, Site  # noqa: E402
from support.plugin import cni  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run  # noqa: E402

TABLE = "patchbay_masquerade"
#: Beyond is excepted in both families, outside is not. Neighbours are one interval.
EXCEPT = ["198.51.100.0/25", "198.51.100.128/25", "203.0.113.0/24", "2001:db8:2::/64"]
POD = {4: "10.1.2.2", 6: "fd00:1:2::2"}


def config(plugin="bridge", **more):
    conf = {"cniVersion": "1.1.0", "name": "net1", "type": plugin, "ipMasq": True, "ipMasqExcept": EXCEPT,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1:2::/64"}]],
                     "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}}
    return conf | ({"isGateway": True} if plugin == "bridge" else {}) | more


def listed(kind):
    """name: object, of the table."""
    objects = json.loads(run("nft", "-j", "list", "table", "inet", TABLE))["nftables"]
    return {one[kind]["name"]: one[kind] for one in objects if kind in one}


def excepted():
    """Set: its networks as nft lists them."""
    def text(elem):
        if isinstance(elem, str):
            return elem
        if "prefix" in elem:
            return f"{elem['prefix']['addr']}/{elem['prefix']['len']}"
        return "-".join(elem["range"])
    return {name: sorted(map(text, one["elem"])) for name, one in listed("set").items()
            if name.startswith("except_")}


def chains():
    return sorted(name for name in listed("chain") if name.startswith("masq_"))


class ExceptTest(suite.NodeTest):
    def add(self, pod, conf=None, **more):
        conf = conf or config()
        return self.assert_ok(cni(conf["type"], "ADD", conf, **({"netns": pod.path, "container": pod.name} | more)))

    def delete(self, pod, conf=None):
        conf = conf or config()
        self.assert_ok(cni(conf["type"], "DEL", conf, netns=pod.path, container=pod.name))

    def call(self, verb, pod, conf, result):
        return cni(conf["type"], verb, conf | {"prevResult": result}, netns=pod.path, container=pod.name)


@suite.spread
class Traffic(ExceptTest):
    def setUp(self):
        super().setUp()
        self.site = Site()
        for name, pod in (("outside", self.site.outside), ("beyond", self.site.beyond)):
            Server(self, name, (7000,), pod, protocols=("tcp",))

    def seen(self, pod, where):
        probes = [hostport.Probe(pod, "tcp", where[family], 7000) for family in (4, 6)]
        return {family: answer.split()[-1] for family, answer in zip((4, 6), hostport.ask(probes))}

    @suite.cases([("bridge", "bridge"), ("ptp", "ptp")])
    def a_server_in_an_excepted_network_sees_the_pod_and_another_the_node(self, plugin):
        pod = self.pod()
        self.add(pod, config(plugin))
        self.assertEqual(self.seen(pod, BEYOND), POD)
        for family, source in self.seen(pod, OUTSIDE).items():
            self.assertIn(source, (NODE[family], SECOND[family]))

    def test_each_network_has_its_own_exceptions(self):
        first, second, third = self.pod(), self.pod(), self.pod()
        self.add(first)
        other = config(name="net2", bridge="cni1", ipMasqExcept=["192.0.2.0/24"], ipam={
            "type": "static", "addresses": [{"address": "10.1.3.2/24"}, {"address": "fd00:1:3::2/64"}],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]})
        self.add(second, other)
        self.add(third, config(name="net1", ipMasqExcept=[]))  # of the same subnet
        self.assertEqual(self.seen(first, BEYOND), POD)
        self.assertEqual(self.seen(second, OUTSIDE)[4], "10.1.3.2")
        self.assertIn(self.seen(second, OUTSIDE)[6], (NODE[6], SECOND[6]))
        self.assertEqual(self.seen(second, BEYOND)[4], "198.51.100.1")
        self.assertEqual(self.seen(third, BEYOND), {4: "198.51.100.1", 6: "2001:db8:2::1"})

    def test_a_whole_family_can_be_excepted(self):
        pod = self.pod()
        self.add(pod, config(ipMasqExcept=["0.0.0.0/0"]))
        self.assertEqual(self.seen(pod, OUTSIDE)[4], POD[4])
        self.assertIn(self.seen(pod, OUTSIDE)[6], (NODE[6], SECOND[6]))


@suite.spread
class Objects(ExceptTest):
    def test_a_chain_asks_one_set_however_many_networks_and_pods_there_are(self):
        many = [f"10.{64 + i // 128}.{i % 128 * 2}.0/24" for i in range(500)]
        for _ in range(3):
            self.add(self.pod(), config(ipMasqExcept=many))
        sets = excepted()
        self.assertEqual([len(one) for one in sets.values()], [500])
        rules = [one["rule"] for one in json.loads(run("nft", "-j", "list", "table", "inet", TABLE))["nftables"]
                 if "rule" in one]
        asking = [rule for rule in rules if f"@{next(iter(sets))}" in json.dumps(rule)]
        self.assertEqual(len(asking), 1)
        self.assertEqual(len(rules), 4)  # two of the base chain, and one for each subnet
        self.assertEqual(len(listed("map")["pods4"]["elem"]), 3)

    def test_nft_lists_the_sets_and_takes_its_listing_back(self):
        self.add(self.pod())
        self.assertEqual(sorted(excepted().values()), [["198.51.100.0/24", "203.0.113.0/24"], ["2001:db8:2::/64"]])
        before = run("nft", "list", "ruleset")
        run("nft", "-f", "-", stdin="flush ruleset\n" + before)
        self.assertEqual(run("nft", "list", "ruleset"), before)

    def test_sets_and_chains_go_with_the_last_pod_and_DEL_may_come_twice_with_another_list(self):
        first, second = self.pod(), self.pod()
        self.add(first)
        self.add(second)
        self.assertEqual((len(excepted()), len(chains())), (2, 2))
        for _ in range(2):
            self.delete(first, config(ipMasqExcept=["10.0.0.0/8"]))
            self.assertEqual((len(excepted()), len(chains())), (2, 2))
        self.delete(second, config(ipMasqExcept=["no network"]))
        self.assertEqual((excepted(), chains()), ({}, []))
        self.delete(second)

    def test_GC_removes_those_of_pods_that_are_not_valid_and_what_a_killed_DEL_left(self):
        keep, drop = self.pod(), self.pod()
        self.add(keep, config(ipMasqExcept=["10.0.0.0/8"]))
        self.add(drop)
        run("nft", "flush", "map", "inet", TABLE, "pods6")  # as if DEL was killed in between
        valid = [{"containerID": keep.name, "ifname": "eth0"}]
        self.assert_ok(cni("bridge", "GC", config() | {"cni.dev/valid-attachments": valid}))
        self.assertEqual(list(excepted().values()), [["10.0.0.0/8"]])
        self.assert_ok(cni("bridge", "GC", config() | {"cni.dev/valid-attachments": []}))
        self.assertEqual((excepted(), chains()), ({}, ["masq_fd00_1_2__/64"]))

    def test_an_ADD_that_fails_leaves_no_set(self):
        before, pod = snapshot(), self.pod()
        outcome = cni("bridge", "ADD", config(), netns=pod.path, wrap=("sh", "-c", 'exec "$0" >/dev/full'))
        self.assertEqual(outcome.status, 1)
        self.assert_same(before, ignore=lambda place: left_by_design(place) or pod.name in place)
        self.assertEqual((excepted(), chains()), ({}, []))

    DAMAGES = (("a network of a set", "delete element inet {table} {set4} {{ 203.0.113.0/24 }}"),
               ("a set", "flush set inet {table} {set4}"),
               ("a network too much", "add element inet {table} {set4} {{ 192.0.2.0/24 }}"),
               ("a rule", "flush chain inet {table} {chain4}"),
               ("the table", "delete table inet {table}"))

    @suite.cases([(name, damage) for name, damage in DAMAGES])
    def CHECK_notices_and_REPAIR_and_another_ADD_restore(self, damage):
        pod = self.pod()
        result = self.add(pod)
        self.assert_ok(self.call("CHECK", pod, config(), result))
        whole = run("nft", "list", "ruleset")
        names = {"table": TABLE, "set4": next(name for name in excepted() if "10.1.2" in name),
                 "chain4": next(name for name in chains() if "10.1.2" in name)}
        for restore in ("REPAIR", "ADD"):
            run("nft", damage.format(**names))
            self.assert_error(self.call("CHECK", pod, config(), result), None, "masq")
            if restore == "REPAIR":
                self.assert_ok(self.call("REPAIR", pod, config(), result))
                self.assert_ok(self.call("CHECK", pod, config(), result))
                self.assertEqual(sorted(run("nft", "list", "ruleset").split("\n")), sorted(whole.split("\n")))
            else:
                self.add(self.pod())
                self.assertEqual(sorted(excepted().values()),
                                 [["198.51.100.0/24", "203.0.113.0/24"], ["2001:db8:2::/64"]])

    def test_a_changed_list_is_another_set_until_no_pod_has_the_old_one(self):
        old, new = self.pod(), self.pod()
        self.add(old, config(ipMasqExcept=["10.0.0.0/8"]))
        self.add(new, config(ipMasqExcept=["10.0.0.0/8", "172.16.0.0/12"]))
        self.assertEqual(sorted(excepted().values()), [["10.0.0.0/8"], ["10.0.0.0/8", "172.16.0.0/12"]])
        self.delete(old)
        self.assertEqual(list(excepted().values()), [["10.0.0.0/8", "172.16.0.0/12"]])

    def test_the_order_of_the_list_does_not_matter(self):
        for networks in (EXCEPT, EXCEPT[::-1]):
            self.add(self.pod(), config(ipMasqExcept=networks))
        self.assertEqual(len(excepted()), 2)


@suite.spread
class Refused(ExceptTest):
    @suite.cases([
        ("an overlap", (["10.0.0.0/8", "10.1.0.0/16"], {}, "ipMasqExcept[1]: overlaps with 10.0.0.0/8")),
        ("a duplicate", (["fd00::/8", "fd00::/8"], {}, "ipMasqExcept[1]: is there twice")),
        ("host bits", (["10.1.2.3/8"], {}, "ipMasqExcept[0]: has host bits, expected a network such as 10.0.0.0/8")),
        ("the iptables backend", (EXCEPT, {"ipMasqBackend": "iptables"}, 'ipMasqBackend "nftables", not "iptables"')),
        ("no ipMasq", (EXCEPT, {"ipMasq": False}, 'ipMasqExcept: requires "ipMasq": true')),
    ])
    def a_list_that_cannot_be_honoured_is_refused(self, row):
        networks, more, words = row
        pod = self.pod()
        for plugin in ("bridge", "ptp"):
            before = snapshot()
            conf = config(plugin, ipMasqExcept=networks, **more)
            outcome = cni(plugin, "ADD", conf, netns=pod.path, documented=False)
            error = self.assert_error(outcome, 7)
            self.assertIn(words, error["msg"] + error.get("details", ""))
            self.assertEqual(snapshot(), before)

    def test_the_reference_plugins_have_no_form_for_it(self):
        pod = self.pod()
        result = self.add(pod)
        before = run("nft", "list", "ruleset")
        outcome = self.call("MIGRATE", pod, config() | {"patchbay/form": "reference"}, result)
        self.assertIn("ipMasqExcept", self.assert_error(outcome, 7)["msg"])
        self.assertEqual(run("nft", "list", "ruleset"), before)


if __name__ == "__main__":
    suite.main(needs=("nft",))
