#!/usr/bin/env python3
"""What mapped ports leave alone, and whom they let in nowhere else: traffic that only passes the
node, Services with the same port, and what listens on the node's own 127.0.0.1."""

import contextlib
import json
import os
import socket
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import hostport, suite  # noqa: E402
from support.hostport import (BEYOND, NODE, OUTSIDE, PROTOCOLS, Probe, Server, Site,  # noqa: E402
                              ask, ask_one, mapping)
from support.world import Pod, run, wait_for  # noqa: E402

BACKENDS = [("nftables", ("nftables", None)), ("iptables-nft", ("iptables", "nft")),
            ("iptables-legacy", ("iptables", "legacy"))]


class Node(suite.NodeTest):
    def start(self, backend, before=lambda: None):
        self.backend, variant = backend
        if variant and (reason := hostport.select_iptables(variant)):
            self.skipTest(reason)
        self.site = Site()
        before()

    def add(self, pod, mappings=None):
        network = hostport.network(self.backend)
        result, failed = network.add({"portMappings": mappings} if mappings else None,
                                     netns=pod.path, container=pod.name)
        self.assertIsNone(failed, str(failed))
        return result

    def web(self, *mappings):
        """A pod with these mappings, which serves what they lead to."""
        web = self.pod("web")
        self.add(web, list(mappings))
        Server(self, "web", sorted({one["containerPort"] for one in mappings}), web)
        return web


@suite.spread
class Passing(Node):
    """Packets to other hosts are none of hostPort's business (CVE-2025-67499)."""

    @suite.cases(BACKENDS)
    def traffic_to_the_same_port_of_another_host(self, backend):
        self.start(backend)
        web = self.web(*(mapping(8080, 80, protocol) for protocol in PROTOCOLS))
        Server(self, "beyond", (8080,), self.site.beyond)
        # The node was asked too, so that the mappings are known to work.
        self.assertEqual(ask_one(self.site.outside, "tcp", NODE[4], 8080), f"web 80 {OUTSIDE[4]}")
        probes = [Probe(origin, protocol, address, 8080)
                  for origin in (self.site.outside, None, web)
                  for protocol in PROTOCOLS for address in BEYOND.values()]
        for probe, answer in zip(probes, ask(probes)):
            self.assertEqual(answer.split()[:2], ["beyond", "8080"], f"{probe}: {answer}")

    @suite.cases(BACKENDS)
    def a_mapping_of_an_address_that_the_node_has_not(self, backend):
        """Else a pod could catch what others send to any address of the world."""
        self.start(backend)
        web = self.web(*(mapping(8080, 80, protocol, address) for protocol in PROTOCOLS
                         for address in BEYOND.values()))
        Server(self, "beyond", (8080,), self.site.beyond)
        probes = [Probe(origin, protocol, address, 8080)
                  for origin in (self.site.outside, None, web)
                  for protocol in PROTOCOLS for address in BEYOND.values()]
        for probe, answer in zip(probes, ask(probes)):
            self.assertEqual(answer.split()[:2], ["beyond", "8080"], f"{probe}: {answer}")
        # It works from the moment that the address is the node's.
        for address, length in ((BEYOND[4], 32), (BEYOND[6], 128)):
            run("ip", "addr", "add", f"{address}/{length}", "dev", "up0",
                *(["nodad"] if ":" in address else []))
            # The kernel makes an IPv6 address its own a moment later.
            wait_for(lambda: run("ip", "route", "get", address).startswith("local"))
            answer = ask_one(self.site.outside, "tcp", address, 8080)
            self.assertEqual(answer.split()[:2], ["web", "80"], address)

    @suite.cases([("of nft, nftables", (BACKENDS[0][1], "nft")),
                  ("of iptables, nftables", (BACKENDS[0][1], "iptables")),
                  ("of iptables, iptables-nft", (BACKENDS[1][1], "iptables")),
                  ("of iptables, iptables-legacy", (BACKENDS[2][1], "iptables"))])
    def a_Service_with_the_same_port_wins(self, row):
        """As kube-proxy's rules do; the reference's fix is of CVE-2019-9946."""
        backend, kind = row

        def service():
            if kind == "nft":
                run("nft", "-f", "-", stdin="".join(
                    f"add table {family} service\n"
                    f"add chain {family} service {hook} {{ type nat hook {hook} priority -100; }}\n"
                    f"add rule {family} service {hook} {family} daddr {here} tcp dport 8080 "
                    f"dnat to {there}\n" for hook in ("prerouting", "output")
                    for family, here, there in (
                        ("ip", NODE[4], f"{BEYOND[4]}:9090"),
                        ("ip6", NODE[6], f"[{BEYOND[6]}]:9090"))))
                return
            for tool, here, there in (("iptables", NODE[4], f"{BEYOND[4]}:9090"),
                                      ("ip6tables", NODE[6], f"[{BEYOND[6]}]:9090")):
                for chain in ("PREROUTING", "OUTPUT"):
                    run(tool, "-w", "-t", "nat", "-A", chain, "-d", here, "-p", "tcp", "--dport",
                        "8080", "-j", "DNAT", "--to-destination", there)
        self.start(backend, service)
        self.web(mapping(8080, 80))
        Server(self, "beyond", (9090,), self.site.beyond, protocols=("tcp",))
        probes = [Probe(origin, "tcp", address, 8080) for origin in (self.site.outside, None)
                  for address in NODE.values()]
        for probe, answer in zip(probes, ask(probes)):
            self.assertEqual(answer.split()[:2], ["beyond", "9090"], f"{probe}: {answer}")
        # What the Service does not catch is the pod's.
        self.assertEqual(ask_one(self.site.outside, "tcp", "192.0.2.10", 8080),
                         f"web 80 {OUTSIDE[4]}")


def attack_from(pod, gateway, address="127.0.0.1"):
    """Makes the pod send to 127.0.0.1 by way of the gateway, as whoever is root in it can."""
    pod.run("sh", "-ec", f"ip addr flush dev lo; ip route add {address}/32 via {gateway}; "
            "sysctl -qw net.ipv4.conf.all.route_localnet=1 net.ipv4.conf.eth0.route_localnet=1")


def _checksum(data):
    """RFC 1071."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return struct.pack("!H", ~total & 0xffff)


def ip_packet(protocol, source, target, payload):
    """An IPv4 packet; its payload has an even length."""
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol, 0,
                       socket.inet_aton(source), socket.inet_aton(target))
    return head[:10] + _checksum(head) + head[12:] + payload


def udp_packet(source, target, data):
    """A datagram from (address, port) to (address, port), without the checksum of UDP."""
    ports = struct.pack("!HHHH", source[1], target[1], 8 + len(data), 0)
    return ip_packet(socket.IPPROTO_UDP, source[0], target[0], ports + data)


def port_unreachable(source, target, quoted):
    """The ICMP error that says so of a packet."""
    error = struct.pack("!BBHL", 3, 3, 0, 0) + quoted[:28]
    error = error[:2] + _checksum(error) + error[4:]
    return ip_packet(socket.IPPROTO_ICMP, source, target, error)


def send_raw(pod, packet):
    """Sends a packet to the node as a pod with CAP_NET_RAW can: past its own routes and filters."""
    mac = json.loads(run("ip", "-j", "link", "show", "cni0"))[0]["address"]
    with pod.inside(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind(("eth0", 0))
        head = bytes.fromhex(mac.replace(":", "")) + raw.getsockname()[4] + b"\x08\x00"
        raw.send(head + packet)


@suite.spread
class Loopback(Node):
    """127.0.0.1 of the node is the node's alone, although route_localnet is on (CVE-2020-8558)."""

    def remove_guard(self):
        if self.backend == "nftables":
            run("nft", "flush", "chain", "ip", "patchbay_hostport", "guard")
        else:
            run("iptables", "-w", "-F", "CNI-HOSTPORT-GUARD")

    def redirect_loopback(self):
        """Removes what spares packets from outside to 127.0.0.1 from being redirected."""
        if self.backend == "nftables":
            run("nft", "-f", "-", stdin="flush chain ip patchbay_hostport prerouting\n"
                "add rule ip patchbay_hostport prerouting fib daddr type local jump hostports\n")
            return
        spared = [line for line in run("iptables-save", "-t", "nat").splitlines()
                  if line.startswith("-A CNI-") and line.endswith("-j RETURN")]
        self.assertTrue(spared)
        for line in spared:
            run("iptables", "-w", "-t", "nat", "-D", *line.split()[1:])

    def start_attack(self, backend, *mappings):
        self.start(backend)
        self.web(*mappings)
        self.neighbour = self.pod("neighbour")
        self.add(self.neighbour)
        attack_from(self.neighbour, "10.1.2.1")
        attack_from(self.site.outside, NODE[4])

    @suite.cases(BACKENDS)
    def neighbours_do_not_reach_a_service_of_the_node(self, backend):
        self.start_attack(backend, mapping(8080, 80))
        Server(self, "node", (9000,), protocols=("tcp", "udp"), addresses=("127.0.0.1",))
        with open("/proc/sys/net/ipv4/conf/cni0/route_localnet", encoding="ascii") as file:
            self.assertEqual(file.read().strip(), "1")
        probes = [Probe(origin, protocol, "127.0.0.1", 9000)
                  for origin in (self.neighbour, self.site.outside) for protocol in ("tcp", "udp")]
        self.assertEqual(set(ask(probes, 1)), {"nothing"})
        # The node itself is served all the while.
        self.assertEqual(ask_one(None, "tcp", "127.0.0.1", 9000), "node 9000 127.0.0.1")
        self.assertEqual(ask_one(None, "tcp", "127.0.0.1", 8080), "web 80 10.1.2.1")
        # The attack is a real one: without the guard it succeeds.
        self.remove_guard()
        for protocol in ("tcp", "udp"):
            answer = ask_one(self.neighbour, protocol, "127.0.0.1", 9000)
            self.assertEqual(answer.split()[0], "node")

    @suite.cases(BACKENDS)
    def answers_to_forged_sources_do_not_arise(self, backend):
        """Packets that claim to come from 127.0.0.2: services that trust 127.0.0.0/8 must not see
        them. (Those from 127.0.0.1 itself the kernel drops.)"""
        self.start_attack(backend, mapping(8080, 80))
        Server(self, "node", (9000,), protocols=("udp",), addresses=("0.0.0.0",))
        before = self.datagrams()
        self.send_as_loopback()
        # The kernel counts a datagram when it is read: those of a question behind it are.
        self.assertEqual(ask_one(None, "udp", "127.0.0.1", 9000), "node 9000 127.0.0.1")
        self.assertEqual(self.datagrams(), before + 2, "the question and its answer")
        self.remove_guard()
        self.send_as_loopback()
        self.assertTrue(wait_for(lambda: self.datagrams() > before + 2))

    def send_as_loopback(self):
        """A datagram from 127.0.0.2: no kernel of ours would let it out."""
        send_raw(self.neighbour, udp_packet(("127.0.0.2", 5555), ("10.1.2.1", 9000), b"ping"))

    @staticmethod
    def datagrams():
        """How many datagrams sockets of the node got so far."""
        with open("/proc/net/snmp", encoding="ascii") as file:
            names, numbers = (line.split() for line in file if line.startswith("Udp:"))
        return int(numbers[names.index("InDatagrams")])

    @suite.cases(BACKENDS)
    def neighbours_do_not_reach_a_hostPort_of_127_0_0_1(self, backend):
        self.start_attack(backend, mapping(8080, 80, "tcp", "127.0.0.1"),
                          mapping(8080, 80, "udp", "127.0.0.1"))
        self.assertEqual(ask_one(None, "tcp", "127.0.0.1", 8080), "web 80 10.1.2.1")
        probes = [Probe(origin, protocol, "127.0.0.1", 8080)
                  for origin in (self.neighbour, self.site.outside) for protocol in ("tcp", "udp")]
        answers = dict(zip(map(str, probes), ask(probes, 1)))
        self.assertEqual(set(answers.values()), {"nothing"}, str(answers))
        self.redirect_loopback()
        self.assertEqual(ask_one(self.neighbour, "tcp", "127.0.0.1", 8080).split()[0], "web")
        self.assertEqual(ask_one(self.site.outside, "tcp", "127.0.0.1", 8080).split()[0], "web")

    @contextlib.contextmanager
    def flow(self):
        """A socket of the node that asked a resolver on 127.0.0.53, which has not answered yet."""
        with (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver,
              socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client):
            resolver.bind(("127.0.0.53", 5300))
            client.bind(("127.0.0.1", 0))
            client.connect(("127.0.0.53", 5300))
            client.send(b"who is there")
            resolver.recvfrom(100)
            client.settimeout(0.5)
            yield client

    @staticmethod
    def heard(client):
        """What the client got: data, the name of an error or "nothing"."""
        try:
            return client.recv(100).decode()
        except socket.timeout:
            return "nothing"
        except ConnectionRefusedError:
            return "refused"

    def forge_error(self, client):
        """A port unreachable that quotes what the client sent."""
        quoted = udp_packet(client.getsockname(), ("127.0.0.53", 5300), b"who is there")
        send_raw(self.neighbour, port_unreachable("10.1.2.3", "127.0.0.1", quoted))

    @staticmethod
    def open_node():
        """The settings of a node that routes forged sources, and between pods of one bridge too
        (the CIS benchmark has the second one)."""
        for key in ("rp_filter", "send_redirects"):
            for link in ("all", "cni0"):
                run("sysctl", "-qw", f"net.ipv4.conf.{link}.{key}=0")

    def forge_answer(self, client):
        """An answer of the resolver."""
        self.open_node()
        send_raw(self.neighbour,
                 udp_packet(("127.0.0.53", 5300), client.getsockname(), b"forged"))

    @suite.cases([(f"{what}, {name}", (row, forge, effect)) for what, forge, effect in (
        ("an ICMP error", forge_error, "refused"), ("an answer", forge_answer, "forged"))
                  for name, row in BACKENDS])
    def neighbours_cannot_forge_for_a_flow_of_the_node(self, row):
        backend, forge, effect = row
        self.start_attack(backend, mapping(8080, 80))
        with self.flow() as client:
            forge(self, client)
            self.assertEqual(self.heard(client), "nothing")
            # The attack is a real one: without the guard it succeeds.
            self.remove_guard()
            forge(self, client)
            self.assertEqual(self.heard(client), effect)

    @suite.cases(BACKENDS)
    def a_hostPort_of_a_pod_cannot_be_used_to_forge(self, backend):
        """Two pods: one sends to the port of the other as 127.0.0.53. The answer would be one of a
        redirected flow, which the guard lets in."""
        self.start_attack(backend, mapping(8080, 80, "udp"))
        self.open_node()
        attack_from(Pod.existing("web"), "10.1.2.1", "127.0.0.53")
        self.assertEqual(self.redirected(5300), "nothing")
        # The attack is a real one: where the port is redirected for them it succeeds.
        self.redirect_loopback()
        self.assertEqual(self.redirected(5301).split()[:2], ["web", "80"])

    def redirected(self, port):
        """What a service of the node on 127.0.0.53 gets when the neighbour asks in its name."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as service:
            service.bind(("127.0.0.53", port))
            service.settimeout(0.5)
            send_raw(self.neighbour, udp_packet(("127.0.0.53", port), (NODE[4], 8080), b"ping"))
            return self.heard(service)

    @suite.cases(BACKENDS)
    def a_hostPort_at_127_0_0_1_is_answered(self, backend):
        """By the pod's data, and by its ICMP error where nothing listens."""
        self.start(backend)
        web = self.pod("web")
        self.add(web, [mapping(port, port, protocol) for port in (8080, 8081)
                       for protocol in ("tcp", "udp")])
        Server(self, "web", (8080,), web)
        for protocol in ("tcp", "udp"):
            self.assertEqual(ask_one(None, protocol, "127.0.0.1", 8080), "web 8080 10.1.2.1")
            self.assertEqual(ask_one(None, protocol, "127.0.0.1", 8081), "refused")


if __name__ == "__main__":
    suite.main(per_processor=2)
