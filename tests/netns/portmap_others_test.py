#!/usr/bin/env python3
"""portmap beside others: kube-proxy in IPVS mode, an nft that fails, elements of other programs in
its sets, pods of one family, and a GC without its lock."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import hostport, suite  # noqa: E402
from support.cnitool import cnitool, use  # noqa: E402
from support.hostport import (BRIDGE_CONF, NODE, OUTSIDE, Probe, Server, Site, ask,  # noqa: E402
                              ask_one, config, mapping)
from support.plugin import cni, have  # noqa: E402
from support.portmap import BACKENDS, STATE_FILES, TABLE, PortmapTest, state_file_of  # noqa: E402
from support.snapshot import snapshot  # noqa: E402
from support.world import run, wait_for  # noqa: E402

SERVICES = {4: "10.96.0.1", 6: "fd00:96::1"}
LATER = {4: "10.96.0.2", 6: "fd00:96::2"}


@suite.spread
class Services(suite.NodeTest):
    """kube-proxy in IPVS mode gives each Service address to a link, and accepts packets to Services
    in table nat, ahead of other rules. A server of the node stands for IPVS, which takes packets
    after NAT as that one does."""

    def start(self, variant):
        if reason := hostport.select_iptables(variant):
            self.skipTest(reason)
        self.site = Site()
        self.client = self.pod("client")
        self.set_network()
        self.add(self.client)

    @staticmethod
    def set_network(**more):
        portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
        use({"cniVersion": "1.0.0", "name": "net1", "plugins": [BRIDGE_CONF, portmap | more]})

    def add(self, pod, *mappings):
        ports = {"CAP_ARGS": {"portMappings": list(mappings)}} if mappings else {}
        return self.assert_ok(cnitool("add", "net1", pod.path, "--container-id", pod.name, **ports))

    def web(self):
        self.web = self.pod("web")
        self.result = self.add(self.web, mapping(443, 80))
        Server(self, "web", (80,), self.web, protocols=("tcp",))

    @staticmethod
    def start_proxy(link="kube-ipvs0"):
        run("ip", "link", "add", link, "type", "bridge")
        run("ip", "link", "set", link, "up")
        for tool in ("iptables", "ip6tables"):
            run(tool, "-w", "-t", "nat", "-N", "KUBE-SERVICES")
            for chain in ("PREROUTING", "OUTPUT"):
                run(tool, "-w", "-t", "nat", "-I", chain, "-j", "KUBE-SERVICES")

    @staticmethod
    def add_service(addresses, link="kube-ipvs0"):
        for tool, address in zip(("iptables", "ip6tables"), addresses.values()):
            run("ip", "addr", "add", address, "dev", link, "nodad")
            # The kernel makes an IPv6 address local in a work queue, also with nodad (addrconf_dad_work() in
            # net/ipv6/addrconf.c). A packet before that is forwarded, and its connection never redirected.
            assert wait_for(lambda address=address: run("ip", "route", "get", address).startswith("local")), address
            run(tool, "-w", "-t", "nat", "-A", "KUBE-SERVICES", "-d", address, "-p", "tcp",
                "--dport", "443", "-j", "ACCEPT")

    def serve(self, *services):
        return Server(self, "service", (443,), protocols=("tcp",), addresses=[
            address for one in services for address in one.values()])

    def assert_served(self, *services, by="service 443"):
        probes = [Probe(origin, "tcp", address, 443) for origin in (self.client, None)
                  for one in services for address in one.values()]
        for probe, answer in zip(probes, ask(probes)):
            self.assertTrue(answer.startswith(f"{by} "), f"{probe}: {answer}")
        for family, address in NODE.items():
            self.assertEqual(ask_one(self.site.outside, "tcp", address, 443),
                             f"web 80 {OUTSIDE[family]}")

    @suite.cases([("nft", ("nft", "kube-ipvs0")), ("legacy", ("legacy", "kube-ipvs0")),
                  ("of another link, nft", ("nft", "ipvs0"))])
    def are_reached_also_when_they_come_later(self, row):
        variant, link = row
        self.start(variant)
        self.start_proxy(link)
        self.add_service(SERVICES, link)
        self.web()
        self.add_service(LATER, link)
        self.serve(SERVICES, LATER)
        self.assert_served(SERVICES, LATER)

    @suite.cases([("nft", ("nft", False)), ("legacy", ("legacy", False)),
                  ("without a state file, nft", ("nft", True))])
    def of_a_proxy_that_comes_after_the_pod_are_reached_after_REPAIR(self, row):
        variant, is_lost = row
        self.start(variant)
        self.web()
        self.start_proxy()
        self.add_service(SERVICES)
        server = self.serve(SERVICES)
        self.assert_served(SERVICES, by="web 80")
        server.stop()  # unlike a socket of the node, IPVS does not listen on the port
        conf = config([mapping(443, 80)], version="1.1.0", prevResult=self.result)
        del conf["backend"]
        options = {"netns": self.web.path, "container": self.web.name}
        if is_lost:
            os.unlink(state_file_of(self.web))
        self.assert_error(cni("portmap", "CHECK", conf, **options), 999,
                          "not found in iptables table nat" if is_lost else "precede its Services")
        self.assert_ok(cni("portmap", "REPAIR", conf, **options))
        self.assert_ok(cni("portmap", "CHECK", conf, **options))
        self.serve(SERVICES)
        self.assert_served(SERVICES)
        self.assert_ok(cni("portmap", "DEL", conf, **options))
        self.assertEqual(ask_one(self.site.outside, "tcp", NODE[4], 443), "refused")

    @suite.cases([("without hostPorts, nft", ("nft", False)), ("without hostPorts, legacy", ("legacy", False)),
                  ("with a hostPort, nft", ("nft", True)), ("with a hostPort, legacy", ("legacy", True))])
    def of_a_proxy_that_comes_after_the_pod_are_reached_after_ADD_of_another_pod(self, row):
        variant, has_port = row
        self.start(variant)
        self.web()
        self.start_proxy()
        self.add_service(SERVICES)
        self.add(self.pod("next"), *([mapping(8443, 80)] if has_port else []))
        self.serve(SERVICES)
        self.assert_served(SERVICES)
        self.add_service(LATER)
        conf = config([mapping(443, 80)], version="1.1.0", prevResult=self.result)
        del conf["backend"]
        options = {"netns": self.web.path, "container": self.web.name}
        self.assert_ok(cni("portmap", "CHECK", conf, **options))
        self.assertNotIn("Services", self.warnings())
        self.assert_ok(cni("portmap", "DEL", conf, **options))
        self.assertEqual(ask_one(self.site.outside, "tcp", NODE[4], 443), "refused")

    def test_of_a_later_proxy_stay_behind_the_backend_that_the_config_names(self):
        self.start("nft")
        self.set_network(backend="nftables")
        self.web()
        self.start_proxy()
        self.add_service(SERVICES)
        self.add(self.pod("next"))
        self.serve(SERVICES)
        self.assert_served(SERVICES, by="web 80")
        self.assertIn("Services", self.warnings())

    def test_are_found_by_doctor_if_the_config_wants_nftables(self):
        self.start("nft")
        self.set_network(backend="nftables")
        self.web()
        self.assertNotIn("Services", self.warnings())
        self.start_proxy()
        warning = self.warnings()["Services"]
        self.assertIn("hostPort 443/tcp", warning["what"])
        self.assertIn("kube-ipvs0", warning["why"])

    def warnings(self):
        said = json.loads(cnitool("doctor", "--json").stdout)["findings"]
        return {one["check"]: one for one in said if one["level"] == "warning"}


FAILURES = {
    "that fails": "echo '/dev/stdin:1:1: Error: refused' >&2; exit 1",
    "that is killed": "kill -9 $$",
    "that kills the plugin before": "kill -9 $PPID; sleep 0.1",
    "that kills the plugin after": '"$NFT" "$@"; kill -9 $PPID; sleep 0.1',
}


@suite.spread
class Conditions(PortmapTest):
    """nft adds the rules with conditions."""

    CONDITIONS = {"conditionsV4": ["ip", "saddr", "!=", "192.0.2.0/24"],
                  "conditionsV6": ["ip6", "saddr", "!=", "2001:db8::/32"]}

    def setUp(self):
        super().setUp()
        if missing := have("nft"):
            self.skipTest(f"{missing} is not installed")
        self.nft = run("sh", "-c", "command -v nft").strip()

    def with_nft(self, script):
        """The environment in which nft is that script."""
        os.makedirs("/run/tools", exist_ok=True)
        with open("/run/tools/nft", "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nNFT={self.nft}\n{script}\n")
        os.chmod("/run/tools/nft", 0o755)
        return {"env": {"PATH": f"/run/tools:{os.environ['PATH']}"}}

    def another(self, prefix=26):
        """A container whose subnet needs other rules."""
        two = self.container("two")
        result = two.result
        result["ips"] = [{"address": f"{two.v4}/{prefix}", "interface": 0},
                         {"address": f"{two.v6}/80", "interface": 0}]
        return two, {"prevResult": result} | self.CONDITIONS

    @suite.cases(FAILURES.items())
    def an_nft(self, script):
        """... leaves the pods before their ports, and the next ADD works."""
        one = self.container("one")
        self.add(one, mapping(8081, 80), **self.CONDITIONS)
        two, conf = self.another()
        failed = self.call("ADD", two, [mapping(8082, 80)], self.with_nft(script), **conf)
        self.assertNotEqual(failed.status, 0, str(failed))
        self.assert_ok(self.call("CHECK", one, [mapping(8081, 80)], **self.CONDITIONS))
        self.assertEqual(run("nft", "list", "ruleset").count("jump hostports"), 2)
        self.add(two, mapping(8082, 80), **conf)
        self.assert_ok(self.call("CHECK", two, [mapping(8082, 80)], **conf))
        self.assert_ok(self.call("CHECK", one, [mapping(8081, 80)], **self.CONDITIONS))
        self.assertEqual(run("nft", "list", "ruleset").count("jump hostports"), 2)

    def test_stay_before_and_after_nft(self):
        """What the pods before have is whole at each moment."""
        one = self.container("one")
        self.add(one, mapping(8081, 80), **self.CONDITIONS)
        two, conf = self.another()
        count = '"$NFT" list ruleset | grep -c -e "jump hostports" -e "@masq_from" >>/run/seen'
        env = self.with_nft(f'{count}\n"$NFT" "$@"\nstatus=$?\n{count}\nexit $status')
        run("sh", "-c", count.replace("$NFT", "nft"))
        self.assert_ok(self.call("ADD", two, [mapping(8082, 80)], env, **conf))
        with open("/run/seen", encoding="utf-8") as file:
            before, *seen = (int(count) for count in file.read().split())
        self.assertGreater(before, 4)
        self.assertEqual(len(seen), 4)
        self.assertGreaterEqual(min(seen), before, "no rule is missing in between")

    def test_are_restored_by_an_ADD_that_restores_the_table(self):
        one = self.container("one")
        self.add(one, mapping(8081, 80), **self.CONDITIONS)
        tables = [line.split(" ", 1)[1] for line in run("nft", "list", "tables").splitlines()
                  if TABLE in line]
        before = run("nft", "list", "ruleset")
        for table in tables:
            run("nft", f"flush chain {table} prerouting; flush chain {table} hostports; "
                f"flush chain {table} conditions; "
                f"add chain {table} other; add rule {table} other jump hostports")
        two, conf = self.another(24)
        self.add(two, mapping(8082, 80), **conf)
        self.delete(two, mapping(8082, 80), **conf)
        after = run("nft", "list", "ruleset")
        self.assertEqual(after.count("jump hostports"), 4, "the rules of the others stay")
        for line in before.splitlines():
            self.assertIn(line, after)


SHAPES = {"ports": " : 10.9.9.9 . 9", "ports_hostip": " : 10.9.9.9 . 9", "masq_from": "",
          "masq_from_hostip": ""}


@suite.spread
class Elements(PortmapTest):
    """What a person puts into portmap's sets stays there, and no verb ends by a signal."""

    def round(self):
        """All verbs, in an order that reads all sets."""
        one, two = self.container("one"), self.container("two")
        result = two.result
        result["ips"] = [{"address": f"{two.v4}/26", "interface": 0},
                         {"address": f"{two.v6}/80", "interface": 0}]
        ports = [mapping(8081, 80), mapping(8081, 80, "udp", "192.0.2.1"),
                 mapping(8081, 80, "udp", "2001:db8::1")]
        self.add(one, *ports)
        self.add(two, mapping(8082, 80), prevResult=result)
        self.add(two, *ports, mapping(8082, 80), prevResult=result, hostPortConflict="replace")
        for verb in ("CHECK", "REPAIR", "STATUS"):
            self.assert_ok(self.call(verb, two, [*ports, mapping(8082, 80)], version="1.1.0",
                                     prevResult=result))
        os.unlink(state_file_of(two))
        self.delete(two, *ports, mapping(8082, 80))
        self.assert_ok(cni("portmap", "GC", config(None, version="1.1.0") |
                           {"cni.dev/valid-attachments": []}))
        self.assertEqual(self.targets_of_pods(), {})

    def targets_of_pods(self):
        listed = json.loads(run("nft", "-j", "list", "ruleset"))["nftables"]
        return {str(key): value for item in listed for key, value in (
            one for one in item.get("map", {}).get("elem", ())) if "10.1.2." in str(value)}

    def test_that_catch_all(self):
        self.use(BACKENDS[0][1])
        first = self.container("first")
        self.add(first, mapping(80, 80))
        for family, address in (("ip", "10.9.9.9"), ("ip6", "fd09::9")):
            for name, data in SHAPES.items():
                run("nft", "add", "element", family, TABLE, name,
                    f"{{ *{data.replace('10.9.9.9', address)} }}")
        self.round()
        listed = run("nft", "list", "ruleset")
        self.assertEqual(listed.count("elements = { *"), 2 * len(SHAPES), listed)

    def test_of_other_subnets_and_with_a_timeout(self):
        self.use(BACKENDS[0][1])
        first = self.container("first")
        self.add(first, mapping(80, 80))
        others = ("10.0.0.1 . 10.0.0.9 . tcp . 7", "10.0.0.9 . 10.0.0.1 . 0 . 0",
                  '0.0.0.0 . 255.255.255.255 . 255 . 65535 comment "-"')
        run("nft", "add", "element", "ip", TABLE, "masq_from", f"{{ {', '.join(others)} }}")
        self.round()
        self.assertIn("10.0.0.1 . 10.0.0.9 . tcp . 7", run("nft", "list", "ruleset"))

    def test_in_a_set_that_another_program_made(self):
        """A set of portmap's name with other keys: ADD says so."""
        self.use(BACKENDS[0][1])
        one = self.container()
        for family, kind, address in (("ip", "ipv4_addr", "10.0.0.1"),
                                      ("ip6", "ipv6_addr", "fd00::1")):
            run("nft", f"add table {family} {TABLE}; add set {family} {TABLE} masq_from "
                f"{{ type {kind}; }}; add element {family} {TABLE} masq_from {{ {address} }}")
        before = run("nft", "list", "ruleset")
        self.assert_error(self.call("ADD", one, [mapping(8081, 80)]), 999, "masq_from")
        for verb in ("DEL", "GC"):
            self.assert_ok(self.call(verb, one, [mapping(8081, 80)], version="1.1.0",
                                     **{"cni.dev/valid-attachments": []}))
        self.assertEqual(run("nft", "list", "ruleset"), before)


@suite.spread
class OtherFamily(PortmapTest):
    @suite.cases(BACKENDS)
    def of_a_hostIP_is_skipped(self, backend):
        """As in the reference plugin since its #379: else a pod of a node with two families would
        not start in a network with one."""
        self.use(backend)
        one, two = self.container("one"), self.container("two")
        one.v6 = ""
        ports = [mapping(80, 80, "tcp", "192.0.2.1"), mapping(80, 80, "tcp", "2001:db8::1")]
        added = self.call("ADD", one, ports)
        self.assert_ok(added)
        self.assertIn("runtimeConfig.portMappings[1]", added.stderr)
        self.assertEqual(self.targets(), {("tcp", "192.0.2.1", 80): {f"{one.v4}:80"}})
        for verb in ("CHECK", "REPAIR"):
            self.assert_ok(self.call(verb, one, ports, version="1.1.0"))
        # The port of the other family has no owner.
        two.v4 = ""
        self.add(two, mapping(80, 80, "tcp", "2001:db8::1"))
        self.assert_ok(self.call("CHECK", one, ports))
        self.delete(one, *ports)
        self.assertEqual(self.targets(), {("tcp", "2001:db8::1", 80): {f"[{two.v6}]:80"}})
        self.delete(two, mapping(80, 80, "tcp", "2001:db8::1"))
        self.assertEqual(self.targets(), {})

    @suite.cases(BACKENDS)
    def of_all_hostIPs_maps_nothing(self, backend):
        self.use(backend)
        one = self.container()
        one.v6 = ""
        before = snapshot()
        self.add(one, mapping(80, 80, "tcp", "2001:db8::1"), mapping(81, 80, "tcp", "::"))
        self.assert_same(before)
        self.assert_ok(self.call("CHECK", one, [mapping(80, 80, "tcp", "2001:db8::1")]))
        self.delete(one, mapping(80, 80, "tcp", "2001:db8::1"))


@suite.spread
class Gc(PortmapTest):
    @suite.cases(BACKENDS)
    def without_its_lock_removes_nothing(self, backend):
        self.use(backend)
        self.add(self.container(), mapping(8081, 80))
        os.unlink(f"{STATE_FILES}/lock")
        os.mkdir(f"{STATE_FILES}/lock")
        before = snapshot()
        conf = config(None, self.backend, "1.1.0") | {"cni.dev/valid-attachments": []}
        self.assert_error(cni("portmap", "GC", conf), None, "lock")
        self.assert_same(before)


if __name__ == "__main__":
    suite.main()
