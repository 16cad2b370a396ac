#!/usr/bin/env python3
"""The same input to our plugins and to the Go reference: same result, same state of the kernel.

Every difference must be in the table INTENDED, with its reason.
"""

import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from compare_cases import CASES, MAC  # noqa: E402
from support import rows, suite  # noqa: E402
from support.configs import lack  # noqa: E402
from support.plugin import OURS, REFERENCE, cni, has_reference  # noqa: E402
from support.snapshot import pod_snapshot, snapshot  # noqa: E402
from support.world import Pod, World, run, wait_for  # noqa: E402

#: What differs on purpose: a pattern for "phase: place key: reference's value -> ours", and why.
INTENDED = [
    (r"link/HOSTVETH txqlen: 0|link/HOSTVETH txqlen: null -> 1000",
     "the reference sets a queue length of 0 by accident; ours keeps the kernel's default"),
    (r"pod after ADD link/eth0 txqlen: null -> 1000",
     "the reference of 1.1.1 does the same at the pod's end, the one of 1.9 no longer"),
    (r"node after DEL link/[^ ]* address: \"00:00:00:00:00:00\" -> ",
     "ours gives the bridge a MAC of its own; the reference's follows its ports without a gateway"),
    (r"address/[0-9a-f:]+/64 dev \w+ nodad: null -> true",
     "nobody else has the address: IPv6 works when ADD returns, not when DAD is done"),
    (r"sysctl/ipv6/conf/(cni0|br.one)/accept_dad: \"1\" -> \"0\"",
     "a new bridge asks for IPv6 neighbours at once; with DAD it is mute in its first second"),
    (r"^CHECK said: .*(no plugin name provided|Failed to find Gateway).* -> \"\"|^CHECK status: 1 -> 0",
     "the CHECK of the reference fails for every bridge without IPAM, and every IPv4 /32"),
    (r"^ADD result dns (domain|nameservers|options|search): null -> ",
     "the reference of 1.1.1 loses what IPAM said of DNS, the one of 1.9 keeps it"),
    (r"(link/(HOSTVETH|bwp\w+)|sysctl/ipv6/conf/(HOSTVETH|bwp\w+)/)[^:]*addr_gen_mode: ",
     "a link-local address at a port of a bridge is of no use, and the kernel looks through all of "
     "them and their routes whenever a link comes or goes"),
    (r"file/[^ ]*: \"644: (.*)\" -> \"600: \1\"",
     "leases are nobody's business but root's"),
    (r"link/HOSTVETH ifalias: null -> ",
     "the host end says whose it is"),
    (r"file/[^ ]*/net1/\.owners/",
     "host-local finds an owner's leases without reading every file"),
    (r"^ADD result dns: \{\} -> null",
     "an empty dns is left out from 1.0.0 on, as the reference of 1.9 does"),
    (r"^DEL: \[1, .*\] -> \[1, ",
     "what an error says is ours; the tables of the protocol's errors are in another test"),
    (r"^DEL: \[1, .*\] -> \[0, \"\"\]",
     "DEL succeeds with a config that ADD refuses, so that nothing stays for ever"),
    (r"sysctl/ipv6/conf/eth0/accept_ra",
     "where the node is the gateway a pod does not believe another one that says it is a router"),
    (r"sysctl/ipv6/conf/(eth0|HOSTVETH|CONTVETH)/ndisc_notify",
     "a reused IPv6 address is announced, as arp_notify does for IPv4"),
    (r"sysctl/ipv6/conf/(eth0|lo)/keep_addr_on_down",
     "the reference of 1.9 sets it, the one of 1.1.1 does not yet"),
    (r"-A CNI-DN-\w+ -[ds] 127.0.0.0/8 ! -o lo -j RETURN: null -> true",
     "only the node itself asks at 127.0.0.1: route_localnet would let in its neighbours"),
    (r"-A CNI-DN-\w+ -d ::1/128 -j RETURN: null -> true",
     "[::1] is refused at once; translated it would get no answer, ever"),
    (r"(iptables-nft|nft/(table|chain)/ip)/filter\b[^ ]*( .*)?: null -> ",
     "CNI-HOSTPORT-GUARD keeps out what route_localnet would let in"),
    (r"nft/rule/ip6?/nat/CNI-DN-", "they are compared as iptables tells them, see below"),
    (r"node after DEL (ip6?tables-nft/nat/:[A-Z]+ ACCEPT|nft/(table|chain)/ip6?/nat)\b.* -> null",
     "the DEL of the reference makes the table nat of a family that the pod has no port in"),
    (r"^CHECK said: .*could not check ipv[46] dnat: .* -> \"\"",
     "the CHECK of the reference looks in both families for rules of either"),
    (r"limits after ADD .* linklayer unspec\b.* linklayer ethernet\b",
     "the kernel is not asked for a table of an unknown link layer, which it would not find"),
    (r"limits after ADD host1 filter \d+: \"(action order 2: mirred .* pass|index 2 ref 1 bind 1|)\" -> null",
     "the reference's second action comes after one that takes the packet, and does nothing"),
    (r"link/bwp\w+ ifalias: null -> ",
     "the device says whose it is"),
    (r"node after DEL qdisc/host1 (root tbf|ffff:fff1 ingress)\b: true -> null"
     r"|node after DEL qdisc/host1 root noqueue: null -> true",
     "a link that outlives the limits is without them, and not mute"),
    (r"node after DEL .*host1.* qdisc: \"tbf\" -> \"noqueue\"",
     "the same as ip(8) tells it"),
    (r"^CHECK (status: 2 -> 0|said: .*panic)",
     "the CHECK of the reference crashes without limits"),
    (r"pod after ADD link/(eth0|lo) ifalias: null -> ",
     "an interface without an end on the node says whose it is, and lo for which attachment it is up"),
    (r"nft/(table|chain|set|elem|rule)/inet/patchbay_firewall",
     "policies are in a table that no reload of iptables touches, too"),
    (r"nft/rule/ip6?/filter/", "they are compared as iptables tells them"),
    (r"file/run/cni/", "records: a DEL needs no portMappings and no previous result, and reads no "
     "rules of other pods"),
]

# The rules of ours alone, where what counts is the order of the others.
OURS_ALONE = re.compile(r"(127\.0\.0\.0/8 ! -o lo|-d ::1/128) -j RETURN$")

# Keys of a link that are numbers of the kernel, or contain a random MAC in a form of their own.
NOISE = {"ifindex", "link_index", "link_netnsid", "bridge_id", "root_id", "designated_root",
         "designated_bridge", "port_no", "port_id", "designated_cost", "netns_id", "numifindex"}


# MACs that the cases ask for; every other one is random.
CHOSEN = {MAC, "02:00:00:00:00:01", "02:00:00:00:00:02", "0a:00:00:00:00:01", "00:00:00:00:00:00",
          "ff:ff:ff:ff:ff:ff"}


def plain_text(text):
    """What is random replaced by what it stands for."""
    text = re.sub(r"\bveth[0-9a-f]{8}\b", "HOSTVETH", text)
    text = re.sub(r"\bfe80::[0-9a-f:]+", "LINK-LOCAL", text)
    return re.sub(r"(?<![0-9a-f:])([0-9a-f]{2}:){5}[0-9a-f]{2}(?![0-9a-f:])",
                  lambda found: found[0] if found[0] in CHOSEN else "MAC", text)


def plain(value, noise=NOISE):
    """The same of a whole JSON document, without the keys of noise."""
    if isinstance(value, dict):
        return {plain_text(k): plain(v, noise) for k, v in value.items() if k not in noise}
    if isinstance(value, list):
        return [plain(v, noise) for v in value]
    return plain_text(value) if isinstance(value, str) else value


def leaves(reference, ours, place=""):
    """Every value that differs, as "place key: reference -> ours"."""
    if isinstance(reference, dict) and isinstance(ours, dict):
        for key in sorted(reference.keys() | ours.keys()):
            yield from leaves(reference.get(key), ours.get(key), f"{place} {key}".strip())
    elif reference != ours:
        yield f"{place}: {json.dumps(reference)} -> {json.dumps(ours)}"


def settle(pod):
    """Gives the kernel's link watch, which works on its own time, the time to say what is up."""
    def is_settled():
        return "NO-CARRIER" not in run("ip", "link") + pod.run("ip", "link")
    wait_for(is_settled, seconds=0.5)  # some links are to stay without a carrier


def rules_in_order(table):
    """{tool and chain: its rules}; a snapshot has every rule once and in no order."""
    found = {}
    for tool in ("iptables", "ip6tables"):
        for line in run(f"{tool}-save", "-t", table).splitlines():
            if line.startswith("-A ") and not OURS_ALONE.search(line):
                found.setdefault(f"{tool} {line.split()[1]}", []).append(line)
    return found


def limits_in_words():
    """{link and what: tc's words}."""
    found = {}
    for link in json.loads(run("ip", "-j", "link")):
        for what in ("qdisc", "class", "filter"):
            place = ["parent", "ffff:"] if what == "filter" else []
            listed = run("tc", "-d", what, "show", "dev", link["ifname"], *place)
            for number, line in enumerate(listed.splitlines()):
                found[f"{link['ifname']} {what} {number}"] = line.strip()
    return found


def node():
    """The node's state; of queues only that they are there, as limits_in_words() has the rest."""
    return {place: True if place.startswith("qdisc/") else what
            for place, what in snapshot().items() if not place.startswith("filter/")}


def observe(case, version, directory, deep):
    """Runs ADD, CHECK, DEL on a new node and returns what was seen of each, in plain words."""
    World()
    for command in case.setup:
        run("sh", "-c", command)
    pod = Pod("pod1")
    for command in case.with_pod:
        run(*command.split())
    if case.with_pod:
        settle(pod)
    more = case.conf(version) if callable(case.conf) else case.conf
    conf = {"cniVersion": version, "name": "net1", "type": case.plugin, **more}
    options = {"netns": pod.path, "ifname": case.ifname, "args": case.args,
               "directory": directory}
    seen = {}
    added = cni(case.plugin, "ADD", conf, **options)
    result = json.loads(added.stdout) if added.stdout else None
    seen["ADD status"] = added.status
    if case.says:
        seen["ADD says"] = case.says in added.stdout or added.stdout
    if added.status == 0:
        seen["ADD result"] = plain(result)
        if deep:
            settle(pod)
            seen["node after ADD"] = plain(node())
            seen["pod after ADD"] = plain(pod_snapshot(pod))
            table = {"portmap": "nat", "firewall": "filter"}.get(case.plugin)
            seen["rules after ADD"] = rules_in_order(table) if table else {}
            seen["limits after ADD"] = limits_in_words() if case.plugin == "bandwidth" else {}
        if version not in ("0.1.0", "0.2.0", "0.3.0", "0.3.1"):
            prev = {k: v for k, v in conf.items() if k != "prevResult"} | {"prevResult": result}
            checked = cni(case.plugin, "CHECK", prev, **options)
            seen["CHECK status"] = checked.status
            seen["CHECK said"] = checked.stdout
            conf = prev
    removed = cni(case.plugin, "DEL", conf, **options)
    seen["DEL"] = [removed.status, removed.stdout]
    if deep and added.status == 0:
        # The kernel notices some time later that the last port of the bridge is gone.
        seen["node after DEL"] = plain(node(), NOISE | {"operstate", "flags"})
        seen["pod after DEL"] = plain(pod_snapshot(pod))
    return seen


@suite.spread
class Compare(suite.NodeTest):
    def setUp(self):
        super().setUp()
        if not has_reference():
            self.skipTest(f"the Go plugins are not in {REFERENCE}")

    @suite.cases(rows.sampled([(f"{case.name} {version}", (case, version, number == 0))
                                for case in CASES for number, version in enumerate(case.versions)]))
    def same(self, row):
        case, version, deep = row
        if reason := lack(case.plugin):
            self.skipTest(reason)
        reference = observe(case, version, REFERENCE, deep)
        ours = observe(case, version, OURS, deep)
        self.assertEqual(reference["ADD status"], 1 if case.fails else 0, str(reference))
        self.assertIn(reference.get("ADD says", True), (True,))
        different = [line for line in leaves(reference, ours)
                     if not any(re.search(pattern, line) for pattern, _ in (*INTENDED, *case.intended))]
        if different:
            self.fail("\n       ".join(["differs from the reference:",
                                        *(line[:300] for line in different[:30])]))


if __name__ == "__main__":
    suite.main(needs=("iptables", "ip6tables"), per_processor=2)
