#!/usr/bin/env python3
"""CHECK of bandwidth names what is not as ADD left it, whatever was damaged."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.bandwidth import BOTH, EGRESS, INGRESS, MODES, POD, BandwidthTest, ifb_name  # noqa: E402
from support.snapshot import pod_snapshot, snapshot  # noqa: E402
from support.world import run  # noqa: E402

SUBNETS = {"unshapedSubnets": ["10.0.0.0/8", "fd00:1::/64"]}
BUCKET = "tc qdisc {verb} dev {dev} root handle 1: tbf rate {rate} burst {burst} limit {limit}"
# As the config has it, to the pod and from it.
TO = {"rate": "8mbit", "burst": "100000", "limit": "125000"}
FROM = {"rate": "4mbit", "burst": "50000", "limit": "62500"}


def bucket(dev, right, **wrong):
    return BUCKET.format(verb="change", dev=dev, **right | wrong)


# What is damaged, with which keys, by which commands; IN in front is for one in the pod. At the end
# what CHECK says of it.
DAMAGE = [
    ("the rate to the pod", BOTH, [bucket("{dev}", TO, rate="9mbit")],
     "Rate doesn't match 1125000, and not 1000000 of '{dev}'"),
    ("the burst to the pod", BOTH, [bucket("{dev}", TO, burst="90000")], "Buffer doesn't match"),
    ("the limit to the pod", BOTH, [bucket("{dev}", TO, limit="124999")],
     "Limit doesn't match 124999, and not 125000 of '{dev}'"),
    ("the rate on the node", BOTH, [bucket("{ifb}", FROM, rate="1mbit")],
     "Rate doesn't match 125000, and not 500000 of '{ifb}'"),
    ("the burst on the node", BOTH, [bucket("{ifb}", FROM, burst="50100")], "Buffer doesn't match"),
    ("the limit on the node", BOTH, [bucket("{ifb}", FROM, limit="50000")], "of '{ifb}'"),
    ("the rate in the pod", BOTH | POD, ["IN " + bucket("eth0", FROM, rate="1gbit")],
     "Rate doesn't match 125000000, and not 500000 of 'eth0'"),
    ("the burst in the pod", EGRESS | POD, ["IN " + bucket("eth0", FROM, burst="9999999")],
     "Buffer doesn't match"),
    ("no limit to the pod", BOTH, ["tc qdisc del dev {dev} root"], "'{dev}' has no limit"),
    ("no limit on the node", BOTH, ["tc qdisc del dev {ifb} root"], "'{ifb}' has no limit"),
    ("no limit in the pod", BOTH | POD, ["IN tc qdisc del dev eth0 root"], "'eth0' has no limit"),
    ("another queue to the pod", INGRESS, ["tc qdisc replace dev {dev} root handle 7: htb"],
     "the root qdisc of '{dev}' is htb 7: instead of tbf 1:"),
    ("another queue on the node", EGRESS, ["tc qdisc replace dev {ifb} root handle 7: pfifo"],
     "the root qdisc of '{ifb}' is pfifo 7: instead of tbf 1:"),
    ("another queue of the same handle", EGRESS | POD,
     ["IN tc qdisc del dev eth0 root", "IN tc qdisc add dev eth0 root handle 1: htb"],
     "the root qdisc of 'eth0' is htb 1: instead of tbf 1:"),
    ("a bucket of another handle", EGRESS | POD,
     ["IN tc qdisc replace dev eth0 root handle 2: tbf rate 4mbit burst 50000 limit 62500"],
     "is tbf 2: instead of tbf 1:"),
    ("another queue below the bucket", EGRESS | POD,
     ["IN tc qdisc add dev eth0 parent 1:1 handle 5: pfifo limit 9"],
     "the qdisc below the limit of 'eth0' is pfifo"),
    ("no device", BOTH, ["ip link del {ifb}"], "get ifb device"),
    ("the device is down", BOTH, ["ip link set {ifb} down"], "'{ifb}' is down"),
    ("a device of another kind", BOTH, ["ip link del {ifb}", "ip link add {ifb} type bridge"],
     "get ifb device"),
    ("the device is another's", BOTH, ["ip link set {ifb} alias 0123456789abcdef-0123"],
     "get ifb device"),
    ("no filter", BOTH, ["tc filter del dev {dev} parent ffff:"],
     "egress traffic of '{dev}' is not redirected to an ifb device"),
    ("no ingress qdisc", EGRESS, ["tc qdisc del dev {dev} ingress"],
     "egress traffic of '{dev}' is not redirected to an ifb device"),
    ("a filter before it", EGRESS,
     ["tc filter del dev {dev} parent ffff:",
      "tc filter add dev {dev} parent ffff: pref 1 u32 match u32 0 0 flowid 1:1",
      "tc filter add dev {dev} parent ffff: pref 2 u32 match u32 0 0 action mirred egress "
      "redirect dev {ifb}"], "egress traffic of '{dev}' is not redirected to '{ifb}'"),
    ("a filter for less", EGRESS,
     ["tc filter del dev {dev} parent ffff:",
      "tc filter add dev {dev} parent ffff: protocol ip pref 1 u32 match ip dst 10.0.0.0/8 "
      "action mirred egress redirect dev {ifb}"], "is not redirected to '{ifb}'"),
    ("a filter that copies", EGRESS,
     ["tc filter del dev {dev} parent ffff:",
      "tc filter add dev {dev} parent ffff: pref 1 u32 match u32 0 0 "
      "action mirred egress mirror dev {ifb}"], "is not redirected to '{ifb}'"),
    ("a filter to another device", EGRESS,
     ["ip link add other type ifb", "tc filter del dev {dev} parent ffff:",
      "tc filter add dev {dev} parent ffff: pref 1 u32 match u32 0 0 "
      "action mirred egress redirect dev other"], "is not redirected to '{ifb}'"),
    ("a filter to a device that was made anew", EGRESS,
     ["ip link del {ifb}", "ip link add {ifb} type ifb", "ip link set {ifb} up",
      BUCKET.format(verb="add", dev="{ifb}", **FROM)], "is not redirected to '{ifb}'"),
    ("a class's rate", INGRESS | SUBNETS,
     ["tc class change dev {dev} classid 1:30 htb rate 9mbit ceil 16mbit"],
     "Rate doesn't match class 1:30 of '{dev}'"),
    ("the other class's rate", BOTH | SUBNETS,
     ["tc class change dev {ifb} classid 1:1 htb rate 9mbit"], "Rate doesn't match class 1:1"),
    ("a subnet", INGRESS | SUBNETS, ["tc filter del dev {dev} parent 1: pref 16"],
     "no filter for the subnet 10.0.0.0/8 of '{dev}'"),
    ("the other subnet, in the pod", EGRESS | POD | SUBNETS,
     ["IN tc filter del dev eth0 parent 1: pref 15"], "no filter for the subnet fd00:1::/64"),
    ("a subnet's class", EGRESS | SUBNETS,
     ["tc filter del dev {ifb} parent 1: pref 16",
      "tc filter add dev {ifb} parent 1: pref 16 protocol ip u32 match ip dst 10.0.0.0/8 "
      "flowid 1:30"], "no filter for the subnet 10.0.0.0/8"),
    ("the direction of a subnet", INGRESS | SUBNETS,
     ["tc filter del dev {dev} parent 1: pref 16",
      "tc filter add dev {dev} parent 1: pref 16 protocol ip u32 match ip dst 10.0.0.0/8 "
      "flowid 1:1"], "no filter for the subnet 10.0.0.0/8"),
    ("the default of a tree", EGRESS | POD | SUBNETS,
     ["IN tc qdisc del dev eth0 root", "IN tc qdisc add dev eth0 root handle 1: htb default 1"],
     "htb of 'eth0'"),
    ("a bucket instead of a tree", INGRESS | SUBNETS,
     ["tc qdisc del dev {dev} root", BUCKET.format(verb="add", dev="{dev}", **TO)],
     "is tbf 1: instead of htb 1:"),
    ("the veth", INGRESS, ["ip link del {dev}"], "eth0"),
]


@suite.spread
class Check(BandwidthTest):
    @suite.cases([(f"{name}, before {verb}", (keys, commands, says, verb))
                  for name, keys, commands, says in DAMAGE for verb in ("ADD", "REPAIR")])
    def notices(self, row):
        keys, commands, says, verb = row
        one = self.container()
        names = {"dev": one.outside, "ifb": ifb_name("pod1")}
        self.add(one, **keys)
        self.check(one, **keys)
        for command in commands:
            words = command.format(**names).split()
            (one.run if words[0] == "IN" else run)(*words[words[0] == "IN":])
        self.assert_error(self.call("CHECK", one, **keys), 999, says.format(**names))
        if "ip link del {dev}" not in commands:
            self.repairs(one, keys, verb)

    def repairs(self, one, keys, verb):
        """The verb makes it right again, or says whose it is; a DEL cleans up."""
        outcome = self.call(verb, one, **keys)
        if outcome.ok:
            self.check(one, **keys)
            again = self.assert_ok(self.call("REPAIR", one, **keys))
            self.assertEqual(again["found"], [])
        else:
            self.assert_error(outcome, 999)
        self.delete(one, **keys)

    @suite.cases(MODES)
    def changes_nothing(self, keys):
        one = self.container()
        self.add(one, **BOTH | keys)
        before, inside = snapshot(), pod_snapshot(one)
        self.check(one, **BOTH | keys)
        self.assert_same(before)
        self.assert_same(inside, pod_snapshot(one))

    @suite.cases(MODES)
    def fails_without_ADD(self, keys):
        one = self.container()
        for limits in (BOTH, INGRESS, EGRESS):
            self.assert_error(self.call("CHECK", one, **limits | keys), 999)

    @suite.cases([(name, (old, new)) for name, old, new in (
        ("other rates", BOTH, BOTH | {"egressRate": 4_000_008}), ("more limits", INGRESS, BOTH),
        ("another mode", EGRESS, EGRESS | POD), ("subnets", BOTH, BOTH | SUBNETS),
        ("other subnets", BOTH | SUBNETS, BOTH | {"unshapedSubnets": ["10.0.0.0/9"]}),
        ("a latency", BOTH, BOTH | {"latency": 100}))])
    def fails_for_a_config_with(self, row):
        old, new = row
        one = self.container()
        self.add(one, **old)
        self.assert_error(self.call("CHECK", one, **new), 999)

    def test_without_limits_asks_nothing(self):
        one = self.container()
        self.check(one, {"netns": "/run/netns/never"})

    def test_of_a_namespace_that_is_gone(self):
        one = self.container()
        self.add(one, **BOTH)
        one.remove()
        self.assert_error(self.call("CHECK", one, **BOTH), 8)


if __name__ == "__main__":
    suite.main()
