#!/usr/bin/env python3
"""Nodes with what an older version made, which masqueraded by the link that a packet came by: its
pods keep their ports, and nothing of theirs stays behind."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import hostport, suite  # noqa: E402
from support.hostport import BRIDGE, NODE, OUTSIDE, SECOND, Probe, Server, Site  # noqa: E402
from support.hostport import ask, mapping  # noqa: E402
from support.plugin import cni  # noqa: E402
from support.portmap import TABLE, state_file_of  # noqa: E402
from support.world import run  # noqa: E402

MAPPINGS = [mapping(8080, 80), mapping(8081, 81, "tcp", SECOND[4]),
            mapping(8081, 81, "tcp", SECOND[6])]
#: The owner of the elements: pod "web" in network "net1".
OWNER = ("8e48f37d5de60467-13eee0c8f4e8e6f8-cbead8fe640f4d4a, net: net1, if: eth0, id: web")
MARK = "meta mark set meta mark | 0x00002000"


def old_table(family, pod):
    """What the older version had for that pod, in one family."""
    ip, address = {4: ("ip", "ipv4_addr"), 6: ("ip6", "ipv6_addr")}[family]
    links = ["lo", "cni0"] if family == 4 else ["cni0"]
    port, hostip = "inet_proto . inet_service", f"{address} . inet_proto . inet_service"

    def elements(*keys):
        return "elements = { " + ", ".join(
            f'{key} comment "{OWNER}"{to}' for key, to in keys) + " }"

    def with_links(before, port):
        return elements(*((f'{before}"{link}" . tcp . {port}', "") for link in links))

    first = "ip6 daddr ::1 return" if family == 6 else ""
    prerouting, output, guard = "", "", ""
    if family == 4:
        prerouting = "ip daddr 127.0.0.0/8 return"
        output = "\n".join(f"ip saddr 127.0.0.0/8 {key}oifname . meta l4proto . th dport @{name} "
                           f"{MARK}" for key, name in (("", "hairpin"),
                                                       ("ip daddr . ", "hairpin_hostip")))
        guard = "chain guard { type filter hook input priority -150\n" + "\n".join(
            f'iifname != "lo" ip {side} 127.0.0.0/8 ct state ! established,related '
            "ct status ! dnat drop" for side in ("daddr", "saddr")) + "\n}"
    return f"""table {ip} {TABLE} {{
  comment "hostPorts of pods"
  map ports {{ type {port} : {address} . inet_service
    {elements(("tcp . 8080", f" : {pod} . 80"))} }}
  map ports_hostip {{ type {hostip} : {address} . inet_service
    {elements((f"{SECOND[family]} . tcp . 8081", f" : {pod} . 81"))} }}
  set hairpin {{ type ifname . {port}
    {with_links("", 8080)} }}
  set hairpin_hostip {{ type {address} . ifname . {port}
    {with_links(f"{SECOND[family]} . ", 8081)} }}
  set masq_all {{ type {port} ; }}
  set masq_all_hostip {{ type {hostip} ; }}
  chain hostports {{
    {first}
    {ip} daddr . iifname . meta l4proto . th dport @hairpin_hostip {MARK}
    {ip} daddr . meta l4proto . th dport @masq_all_hostip {MARK}
    dnat {ip} to {ip} daddr . meta l4proto . th dport map @ports_hostip
    iifname . meta l4proto . th dport @hairpin {MARK}
    meta l4proto . th dport @masq_all {MARK}
    dnat {ip} to meta l4proto . th dport map @ports
  }}
  chain prerouting {{ type nat hook prerouting priority -95
    {prerouting}
    fib daddr type local jump hostports
  }}
  chain output {{ type nat hook output priority -95
    {output}
    fib daddr type local jump hostports
  }}
  chain postrouting {{ type nat hook postrouting priority 95
    meta mark & 0x00002000 == 0x00002000 ct status & dnat == dnat masquerade
  }}
  {guard}
}}
"""


@suite.spread
class Older(suite.NodeTest):
    def setUp(self):
        super().setUp()
        self.site = Site()
        self.network = hostport.network()
        self.web, self.neighbour = self.pod("web"), self.pod("neighbour")
        self.result = self.add(self.web, MAPPINGS)
        self.add(self.neighbour)
        Server(self, "web", (80, 81), self.web, protocols=("tcp",))
        pod = {6 if ":" in ip["address"] else 4: ip["address"].split("/")[0]
               for ip in self.result["ips"]}
        run("nft", "-f", "-", stdin="".join(
            f"delete table {ip} {TABLE}\n" + old_table(family, pod[family])
            for ip, family in (("ip", 4), ("ip6", 6))))
        with open(state_file_of(self.web), encoding="utf-8") as file:
            state = json.load(file)
        for one in state["attachments"]:
            one.pop("bySubnet", None)
            one |= {"deviceV4": "cni0", "deviceV6": "cni0"}
        with open(state_file_of(self.web), "w", encoding="utf-8") as file:
            json.dump(state, file)

    def add(self, pod, mappings=None):
        result, failed = self.network.add({"portMappings": mappings} if mappings else None,
                                          netns=pod.path, container=pod.name)
        self.assertIsNone(failed, str(failed))
        return result

    def call(self, verb, mappings=None, **more):
        conf = hostport.config(mappings, prevResult=self.result, **more)
        return self.assert_ok(cni("portmap", verb, conf, netns=self.web.path, container="web"))

    def another(self):
        """An ADD of another pod."""
        pod = self.pod("another")
        self.add(pod, [mapping(9090, 80)])
        Server(self, "another", (80,), pod, protocols=("tcp",))
        return pod

    def assert_works(self):
        """The pod's ports, from everywhere and masqueraded where the answer needs it."""
        table = [(Probe(origin, "tcp", address, port), f"web {port - 8000} {seen[family]}")
                 for origin, seen in ((self.site.outside, OUTSIDE), (self.neighbour, BRIDGE),
                                      (self.web, BRIDGE))
                 for port in (8080, 8081) for family, address in SECOND.items()]
        table.append((Probe(None, "tcp", "127.0.0.1", 8080), f"web 80 {BRIDGE[4]}"))
        for (probe, right), answer in zip(table, ask([probe for probe, _ in table])):
            self.assertEqual(answer, right, str(probe))

    def elements(self):
        """{set: number of elements of pod "web"}, of sets and maps that have some."""
        found = {}
        for item in json.loads(run("nft", "-j", "list", "ruleset"))["nftables"]:
            one = item.get("map") or item.get("set") or {}
            if count := json.dumps(one.get("elem", [])).count(OWNER):
                found[one["name"]] = found.get(one["name"], 0) + count
        return found

    def test_the_pod_works_before_and_after_an_ADD_of_another(self):
        self.assert_works()
        self.another()
        self.assert_works()
        self.assertNotIn("established", run("nft", "list", "table", "ip", TABLE), "the guard")
        answers = ask([Probe(self.neighbour, "tcp", address, 9090) for address in NODE.values()])
        self.assertEqual(answers, [f"another 80 {address}" for address in BRIDGE.values()])
        # The table is content, and stays as it is.
        before = run("nft", "list", "ruleset")
        self.add(self.pod("third"), [mapping(9091, 80)])
        self.network.each("DEL", None, {"portMappings": [mapping(9091, 80)]},
                          netns="/run/netns/third", container="third")
        self.assertEqual(run("nft", "list", "ruleset"), before)

    def test_its_own_ADD_masquerades_by_subnet(self):
        self.another()
        self.call("ADD", MAPPINGS)
        self.assert_works()
        self.assertEqual(self.elements(), {"ports": 2, "ports_hostip": 2, "masq_from": 3,
                                           "masq_from_hostip": 3})
        self.call("CHECK", MAPPINGS)

    @suite.cases([(f"{how}{when}", (how, bool(when))) for when in ("", ", after an ADD of another")
                  for how in ("DEL", "GC", "GC without the state file", "another that takes the port")])
    def nothing_stays_after(self, row):
        how, upgraded = row
        if upgraded:
            self.another()
        self.assertEqual(self.elements(), {"ports": 2, "ports_hostip": 2, "hairpin": 3,
                                           "hairpin_hostip": 3})
        if how == "DEL":
            self.call("DEL")
        elif how == "another that takes the port":
            self.web.run("ip", "link", "del", "eth0")
            self.add(self.pod("heir"), MAPPINGS)
        else:
            if how != "GC":
                os.unlink(state_file_of(self.web))
            valid = [{"containerID": "another", "ifname": "eth0"}]
            self.call("GC", version="1.1.0", **{"cni.dev/valid-attachments": valid})
        self.assertEqual(self.elements(), {})


if __name__ == "__main__":
    suite.main()
