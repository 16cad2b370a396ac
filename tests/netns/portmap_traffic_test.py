#!/usr/bin/env python3
"""Where traffic to mapped ports goes, from everywhere, and as whose it arrives.

One ADD maps everything; then all questions are asked at once.
"""

import itertools
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import hostport, suite  # noqa: E402
from support.hostport import (BRIDGE, NODE, OUTSIDE, PROTOCOLS, SECOND, Probe, Server,  # noqa: E402
                              Site, ask, ask_one, mapping)
from support.plugin import cni  # noqa: E402
from support.snapshot import snapshot  # noqa: E402
from support.world import run, wait_for  # noqa: E402

BACKENDS = [("nftables", ("nftables", None)), ("iptables-nft", ("iptables", "nft")),
            ("iptables-legacy", ("iptables", "legacy"))]

# The kinds of mappings: host port, port of the pod, hostIPs.
ANY, SPECIFIC, ANY4, ANY6, LOOPBACK = range(5)
KINDS = {ANY: (8080, 80, (None,)), SPECIFIC: (8081, 81, tuple(SECOND.values())),
         ANY4: (8082, 82, ("0.0.0.0",)), ANY6: (8083, 83, ("::",)),
         LOOPBACK: (8084, 84, ("127.0.0.1",))}
MAPPINGS = [mapping(host, port, protocol, ip) for host, port, ips in KINDS.values()
            for ip in ips for protocol in PROTOCOLS]


def leads_to_the_pod(kind, address):
    family = 6 if ":" in address else 4
    if address == "::1":
        return False
    return {ANY: True, SPECIFIC: address == SECOND[family], ANY4: family == 4, ANY6: family == 6,
            LOOPBACK: address == "127.0.0.1"}[kind]


class Mapped(suite.NodeTest):
    """A node with a pod that has mapped ports, and its neighbour on the bridge."""

    def node_with_pod(self, backend, mappings=None, bridge_netfilter=0, **more):
        backend, variant = backend
        if variant and (reason := hostport.select_iptables(variant)):
            self.skipTest(reason)
        self.site = Site()
        self.network = hostport.network(backend, **more)
        self.web, self.neighbour = self.pod("web"), self.pod("neighbour")
        self.capabilities = {"portMappings": MAPPINGS if mappings is None else mappings}
        self.result = self.add(self.web, self.capabilities)
        self.add(self.neighbour)
        for family in ("ip", "ip6"):
            run("sysctl", "-qw", f"net.bridge.bridge-nf-call-{family}tables={bridge_netfilter}")
        Server(self, "web", (80, 81, 82, 83, 84), self.web)

    def add(self, pod, capabilities=None):
        result, failed = self.network.add(capabilities, netns=pod.path, container=pod.name)
        self.assertIsNone(failed, str(failed))
        return result

    def assert_answers(self, table, seconds=2.0):
        """table: (probe, a tuple of the answers that are right)."""
        answers = ask([probe for probe, _ in table], seconds)
        wrong = [f"{probe}: {answer}, expected {' or '.join(right)}"
                 for (probe, right), answer in zip(table, answers) if answer not in right]
        if wrong:
            self.fail("\n       ".join([f"{len(wrong)} of {len(table)} questions:", *wrong]))


@suite.spread
class Reach(Mapped):
    """Every origin, destination, protocol and kind of mapping."""

    def table(self):
        origins = [(self.site.outside, (*NODE.values(), *SECOND.values())),
                   (None, (*NODE.values(), *SECOND.values(), "127.0.0.1", "127.0.0.5", "::1")),
                   (self.web, (*NODE.values(), *SECOND.values())),
                   (self.neighbour, (*NODE.values(), *SECOND.values()))]
        for origin, addresses in origins:
            for address, protocol, kind in itertools.product(addresses, PROTOCOLS, KINDS):
                family = 6 if ":" in address else 4
                if origin is self.site.outside:
                    seen = (OUTSIDE[family],)  # the client's true address
                elif origin is None and not address.startswith("127."):
                    seen = (NODE[family], SECOND[family], BRIDGE[family])  # the node's, any of them
                else:
                    # Unmasqueraded, the answer would go past the node, or to 127.0.0.1 in the pod.
                    seen = (BRIDGE[family],)
                right = ("nothing" if protocol == "sctp" else "refused",)
                if leads_to_the_pod(kind, address):
                    right = tuple(f"web {KINDS[kind][1]} {peer}" for peer in seen)
                yield Probe(origin, protocol, address, KINDS[kind][0]), right

    @suite.cases([(f"{name}, {how} bridge netfilter", (backend, bridged)) for (name, backend),
                  (bridged, how) in itertools.product(BACKENDS, ((0, "without"), (1, "with")))])
    def from_everywhere(self, row):
        backend, bridged = row
        self.node_with_pod(backend, bridge_netfilter=bridged)
        self.assert_answers(list(self.table()))

    @suite.cases(BACKENDS)
    def IPv6_loopback_is_refused_at_once(self, backend):
        """The kernel does not route [::1]; better a refusal than a client that waits."""
        self.node_with_pod(backend)
        for protocol, kind in itertools.product(("tcp", "udp"), (ANY, ANY6)):
            begin = time.monotonic()
            answer = ask_one(None, protocol, "::1", KINDS[kind][0], seconds=3)
            self.assertEqual(answer, "refused", protocol)
            self.assertLess(time.monotonic() - begin, 1)

    @suite.cases(BACKENDS)
    def a_server_of_the_node_on_the_IPv6_loopback_keeps_its_port(self, backend):
        self.node_with_pod(backend)
        Server(self, "node", (8080,), protocols=("tcp", "udp"), addresses=("::1",))
        for protocol in ("tcp", "udp"):
            self.assertEqual(ask_one(None, protocol, "::1", 8080), "node 8080 ::1")

    @suite.cases(BACKENDS)
    def nothing_after_DEL(self, backend):
        self.node_with_pod(backend)
        web = dict(netns=self.web.path, container=self.web.name)
        self.assertIsNone(self.network.each("DEL", None, self.capabilities, **web))
        origins = [(self.site.outside, address) for address in (*NODE.values(), *SECOND.values())]
        origins += [(None, address) for address in (*NODE.values(), "127.0.0.1")]
        self.assert_answers([(Probe(origin, protocol, address, host), ("refused",))
                             for origin, address in origins for protocol in ("tcp", "udp")
                             for host, _, _ in KINDS.values()])

    @suite.cases(BACKENDS)
    def the_mapping_of_one_address_wins_over_that_of_all(self, backend):
        """With nftables in whichever order they are written; iptables has the first one win."""
        pair = [mapping(8080, 81, host_ip=SECOND[4]), mapping(8080, 82, host_ip=SECOND[6]),
                mapping(8080, 80)]
        self.node_with_pod(backend, pair)
        for mappings in (pair, pair[::-1]) if backend[0] == "nftables" else (pair,):
            conf = hostport.config(mappings, backend[0]) | {"prevResult": self.result}
            self.assert_ok(cni("portmap", "ADD", conf, netns=self.web.path, container="web"))
            asked = [(address, port, origin) for origin in (self.site.outside, None)
                     for address, port in ((NODE[4], 80), (SECOND[4], 81), (NODE[6], 80),
                                           (SECOND[6], 82))]
            answers = ask([Probe(origin, "tcp", address, 8080) for address, _, origin in asked])
            self.assertEqual([answer.split()[:2] for answer in answers],
                             [["web", str(port)] for _, port, _ in asked], str(mappings))


@suite.spread
class Masquerading(Mapped):
    """What masqAll and snat change."""

    @suite.cases(BACKENDS)
    def masqAll_hides_every_client(self, backend):
        self.node_with_pod(backend, masqAll=True)
        self.assert_answers([
            (Probe(origin, protocol, address, KINDS[kind][0]),
             (f"web {KINDS[kind][1]} {BRIDGE[6 if ':' in address else 4]}",))
            for origin in (self.site.outside, self.neighbour, self.web) for protocol in PROTOCOLS
            for kind, address in itertools.product(KINDS, (*NODE.values(), *SECOND.values()))
            if leads_to_the_pod(kind, address)])

    @suite.cases([(f"{name}{how}", (row, more)) for name, row in BACKENDS
                  for how, more in (("", {}), (", whatever masqAll says", {"masqAll": True}))])
    def without_snat_nothing_is_masqueraded(self, row):
        backend, more = row
        self.node_with_pod(backend, snat=False, **more)
        self.assert_answers([
            (Probe(self.site.outside, protocol, address, KINDS[kind][0]),
             (f"web {KINDS[kind][1]} {OUTSIDE[6 if ':' in address else 4]}",))
            for protocol in PROTOCOLS
            for kind, address in itertools.product(KINDS, (*NODE.values(), *SECOND.values()))
            if leads_to_the_pod(kind, address)])
        state = snapshot()
        self.assertEqual(state["sysctl/ipv4/conf/cni0/route_localnet"], "0")
        masquerading = [place for place in state if place.startswith("nft/elem/")
                        and "/masq_from" in place
                        or place.startswith("ip") and ("SETMARK" in place and "CNI-DN-" in place)]
        self.assertEqual(masquerading, [])
        # They are looked for by the right names.
        self.assertTrue([place for place in state if place.startswith("nft/elem/")
                         or "CNI-DN-" in place])

    @suite.cases(BACKENDS)
    def with_snat_loopback_is_routed_to_the_pod_only_from_the_bridge(self, backend):
        self.node_with_pod(backend)
        state = snapshot()
        routed = [place for place, value in state.items()
                  if place.endswith("/route_localnet") and value == "1"]
        self.assertEqual(routed, ["sysctl/ipv4/conf/cni0/route_localnet"])


#: Of the router on the bridge, on the bridge and behind it, and of a client behind it.
ROUTER = {4: "10.1.2.250", 6: "fd00:1:2::fa"}
BEHIND = {4: "10.77.0.1", 6: "fd00:77::1"}
FAR = {4: "10.77.0.2", 6: "fd00:77::2"}
#: What another pod's config calls its subnet: it holds FAR too.
WIDE = {4: "8", 6: "16"}


@suite.spread
class Farther(Mapped):
    """Clients that come by the pods' bridge from farther away: the bridge has an uplink."""

    def far_client(self):
        """A client behind a router on the bridge."""
        router, far = self.pod("router"), self.pod("far")
        run("ip", "-batch", "-", stdin="link add up2 type veth peer eth0 netns router\n"
            "link add far0 netns router type veth peer eth0 netns far\n"
            "link set up2 master cni0 up\n")
        for family, length, nodad, net in ((4, 24, "", "10.77.0.0/24"),
                                           (6, 64, "nodad", "fd00:77::/64")):
            for pod, link, address, gateway in (
                    (router, "eth0", ROUTER, BRIDGE), (router, "far0", BEHIND, None),
                    (far, "eth0", FAR, BEHIND)):
                run("ip", "-n", pod.name, "-batch", "-", stdin=f"link set {link} up\n"
                    f"addr add {address[family]}/{length} dev {link} {nodad}\n" +
                    (f"route add default via {gateway[family]}\n" if gateway else ""))
            run("ip", "route", "add", net, "via", ROUTER[family])
        router.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        # Else the pod learns of the shorter way, past the node.
        for pod in (self.web, router):
            pod.run("sysctl", "-qw", "net.ipv4.conf.all.accept_redirects=0",
                    "net.ipv4.conf.eth0.accept_redirects=0", "net.ipv6.conf.eth0.accept_redirects=0")
        run("sysctl", "-qw", "net.ipv4.conf.all.send_redirects=0",
            "net.ipv4.conf.cni0.send_redirects=0")
        for address in NODE.values():
            assert wait_for(lambda address=address: " 0% packet loss" in far.run(
                "ping", "-c1", "-W1", address, check=False), 10)
        return far

    @suite.cases(BACKENDS)
    def a_client_behind_a_router_keeps_its_address(self, backend):
        self.node_with_pod(backend)
        far = self.far_client()
        self.assert_answers([
            (Probe(origin, protocol, address, KINDS[kind][0]),
             (f"web {KINDS[kind][1]} {seen[6 if ':' in address else 4]}",))
            for origin, seen in ((far, FAR), (self.neighbour, BRIDGE), (self.web, BRIDGE))
            for protocol in PROTOCOLS
            for kind, address in itertools.product(KINDS, (*NODE.values(), *SECOND.values()))
            if leads_to_the_pod(kind, address)])

    @suite.cases(BACKENDS)
    def each_pod_has_its_own_subnet(self, backend):
        """Of one bridge too, and whatever the sizes of the subnets."""
        self.node_with_pod(backend, [mapping(8080, 80), mapping(8081, 81, "tcp", NODE[4])])
        other = self.pod("other")
        result = self.add(other)
        for ip in result["ips"]:
            address = ip["address"].split("/")[0]
            ip["address"] = f"{address}/{WIDE[6 if ':' in address else 4]}"
        conf = hostport.config([mapping(9090, 80), mapping(9091, 81, "tcp", NODE[4])], backend[0],
                               name="net2", prevResult=result)
        options = {"netns": other.path, "container": other.name}
        self.assert_ok(cni("portmap", "ADD", conf, **options))
        Server(self, "other", (80, 81), other)
        far = self.far_client()
        table = [(Probe(origin, "tcp", address, port),
                  (f"{name} {80 + port % 2} {seen[6 if ':' in address else 4]}",))
                 for origin, name, ports, seen in (
                     (far, "web", (8080, 8081), FAR), (far, "other", (9090, 9091), BRIDGE),
                     (self.neighbour, "web", (8080, 8081), BRIDGE),
                     (self.neighbour, "other", (9090, 9091), BRIDGE))
                 for port in ports for address in NODE.values() if port % 2 == 0 or "." in address]
        self.assert_answers(table)
        if backend[0] == "nftables":  # rules that are lost are made anew for all
            run("nft", "flush", "chain", "ip", "patchbay_hostport", "hostports")
            run("nft", "flush", "chain", "ip6", "patchbay_hostport", "hostports")
            self.add(self.pod("third"), {"portMappings": [mapping(7070, 80)]})
            self.assert_answers(table)
        # The other's DEL takes nothing of the pod's, and leaves nothing of its own.
        self.assert_ok(cni("portmap", "DEL", conf, **options))
        self.assert_answers([row for row in table if row[1][0].startswith("web")])
        self.assertEqual([place for place in snapshot() if place.startswith("nft/elem/")
                          and " 909" in place], [])


@suite.spread
class Options(Mapped):
    """The other keys that change where packets go."""

    @suite.cases([(name, (row, condition)) for (name, row), condition in zip(BACKENDS, (
        ["ip saddr != 192.0.2.2"], ["!", "-s", "192.0.2.2"], ["!", "-s", "192.0.2.2"]))])
    def conditions_hold_for_their_network_alone(self, row):
        """Whoever comes later, with or without conditions, changes nothing for the others."""
        backend, condition = row
        self.node_with_pod(backend, [mapping(8080, 80)], conditionsV4=condition)
        self.assert_conditions()
        others = []
        for number, more in ((1, {}), (2, {"conditionsV4": condition[:-1] + [
                condition[-1].replace("192.0.2.2", "203.0.113.1")]})):
            pod = self.pod()
            bridge = self.add(pod)
            conf = hostport.config([mapping(8080 + number, 80)], backend[0],
                                   name=f"net{number + 1}", prevResult=bridge, **more)
            options = {"netns": pod.path, "container": pod.name}
            self.assert_ok(cni("portmap", "ADD", conf, **options))
            Server(self, pod.name, (80,), pod, protocols=("tcp",))
            others.append((conf, options))
            self.assert_conditions()
            answer = ask_one(self.site.outside, "tcp", NODE[4], 8080 + number)
            self.assertEqual(answer, f"{pod.name} 80 {OUTSIDE[4]}")
        for conf, options in others:
            self.assert_ok(cni("portmap", "DEL", conf, **options))
            self.assert_conditions()

    def assert_conditions(self):
        """From outside only the other family is redirected; from the node both are."""
        self.assertEqual(ask_one(self.site.outside, "tcp", NODE[4], 8080), "refused")
        self.assertEqual(ask_one(self.site.outside, "tcp", NODE[6], 8080), f"web 80 {OUTSIDE[6]}")
        self.assertEqual(ask_one(None, "tcp", "127.0.0.1", 8080), f"web 80 {BRIDGE[4]}")

    @suite.cases(BACKENDS)
    def another_mark_masquerades_as_well(self, backend):
        self.node_with_pod(backend, markMasqBit=5)
        self.assert_answers([
            (Probe(origin, "tcp", address, 8080), (f"web 80 {BRIDGE[6 if ':' in address else 4]}",))
            for origin in (self.web, self.neighbour) for address in NODE.values()])
        self.assertEqual(ask_one(self.site.outside, "tcp", NODE[4], 8080), f"web 80 {OUTSIDE[4]}")

    @suite.cases(BACKENDS[1:])
    def an_external_chain_marks(self, backend):
        if reason := hostport.select_iptables(backend[1]):
            self.skipTest(reason)
        for tool in ("iptables", "ip6tables"):
            for rule in ("-N KUBE-MARK-MASQ", "-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000",
                         "-A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE"):
                run(tool, "-w", "-t", "nat", *rule.split())
        self.node_with_pod(backend, externalSetMarkChain="KUBE-MARK-MASQ")
        self.assert_answers([
            (Probe(origin, "tcp", address, 8080), (f"web 80 {BRIDGE[6 if ':' in address else 4]}",))
            for origin in (self.web, self.neighbour) for address in NODE.values()])
        self.assertNotIn("CNI-HOSTPORT-SETMARK", run("iptables-save"))


if __name__ == "__main__":
    suite.main(per_processor=2)
