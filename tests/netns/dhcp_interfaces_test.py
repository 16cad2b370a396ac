#!/usr/bin/env python3
"""dhcp with each interface plugin that calls IPAM when its link exists, each with four DHCP servers, and
through a relay. Kinds of links that this kernel lacks are tested on another: scripts/vm.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import dhcp, rows, suite  # noqa: E402
from support.configs import lack  # noqa: E402
from support.plugin import have  # noqa: E402
from support.world import Pod, run, wait_for  # noqa: E402

LAN = "lan"  # the uplink that links stand on; its other end is a port of the segment's bridge
VLAN = 5
SERVERS = {"dnsmasq": (dhcp.dnsmasq, lambda: set(dhcp.dnsmasq_leases()), "dnsmasq"),
           "kea": (dhcp.kea, dhcp.kea_leases, "kea-dhcp4"), "isc": (dhcp.isc, dhcp.isc_leases, "dhcpd"),
           "udhcpd": (dhcp.udhcpd, None, "busybox")}
KINDS = {"bridge": {}, "macvlan": {"master": LAN, "mode": "bridge"}, "host-device": {},
         "ipvlan": {"master": LAN, "mode": "l2"}, "vlan": {"master": LAN, "vlanId": VLAN}}
#: A word of a test's name is enough to select it, so that "over_vlan" is not in that of ipvlan.
EACH = [(f"over_{kind} with {server}", (kind, server)) for kind in KINDS for server in SERVERS]


class Segment(suite.NodeTest):
    def setUp(self):
        super().setUp()
        dhcp.segment()

    def daemon(self):
        daemon = dhcp.Daemon("-timeout", "1s")
        self.addCleanup(daemon.process.wait)
        self.addCleanup(lambda: daemon.process.kill())
        return daemon

    def server(self, server):
        self.addCleanup(server.stop)
        return server


@suite.spread
class Interfaces(Segment):
    def provide(self, kind):
        """What the plugin needs on the node."""
        if kind == "host-device":
            return
        run("ip", "link", "add", LAN, "type", "veth", "peer", "name", f"{LAN}-out")
        run("ip", "link", "set", LAN, "up")
        run("ip", "link", "set", f"{LAN}-out", "master", dhcp.BRIDGE, "up")
        if kind == "vlan":
            tagged = f"{LAN}-out.{VLAN}"
            run("ip", "link", "add", "link", f"{LAN}-out", "name", tagged, "type", "vlan", "id", str(VLAN))
            run("ip", "link", "set", tagged, "master", dhcp.BRIDGE, "up")

    def conf(self, kind, number):
        if kind != "host-device":
            return dhcp.config(kind, **KINDS[kind])
        device = f"device{number}"
        run("ip", "link", "add", device, "type", "veth", "peer", "name", f"out{number}")
        run("ip", "link", "set", f"out{number}", "master", dhcp.BRIDGE, "up")
        return dhcp.config(kind, device=device)

    @suite.cases(rows.sampled(EACH))
    def a_lease_from_ADD_to_DEL(self, row):
        kind, name = row
        start, leased, program = SERVERS[name]
        if missing := have(program):
            self.skipTest(f"there is no {missing}")
        if reason := lack(kind):
            self.skipTest(reason)
        self.provide(kind)
        self.server(start())
        self.daemon()
        # ipvlans have the MAC address of their master, by which alone udhcpd tells clients apart; a VLAN of a link is
        # in one place.
        alone = kind == "vlan" or (kind, name) == ("ipvlan", "udhcpd")
        pods = [self.pod() for _ in range(1 if alone else 2)]
        with dhcp.capture("/run/interface.pcap") as path:
            confs = [self.conf(kind, number) for number, _ in enumerate(pods)]
            results = [self.assert_ok(dhcp.attach("ADD", pod, conf)) for pod, conf in zip(pods, confs)]
            given = [result["ips"][0]["address"] for result in results]
            self.assertEqual(len(set(given)), len(pods))
            if leased:
                self.assertTrue(wait_for(lambda: leased() == {address[:-3] for address in given}, 20), given)
            for pod, conf, result, address in zip(pods, confs, results, given):
                self.assertEqual(dhcp.addresses(pod), [address])
                self.assertEqual(dhcp.routes(pod), {("default", "10.77.0.1", None)})
                self.assertIn("1 received", pod.run("ping", "-c1", "-w5", "10.77.0.1"))
                self.assert_ok(dhcp.attach("CHECK", pod, conf | {"prevResult": result}))
            for pod, conf, result in zip(pods, confs, results):
                self.assert_ok(dhcp.attach("DEL", pod, conf | {"prevResult": result}))
            if leased:
                self.assertTrue(wait_for(lambda: leased() == set(), 20), leased())
        self.assertEqual(dhcp.malformed(path), "")
        sent = [dhcp.TYPES[int(one)] for one, in dhcp.packets(path, "dhcp.option.dhcp", where="dhcp.type == 1")]
        self.assertEqual((sent.count("RELEASE"), sent.count("DECLINE")), (len(pods), 0), sent)


class Relay(Segment):
    """The server is on another network, behind the node, which routes, and relays what is broadcast."""

    def setUp(self):
        super().setUp()
        self.upstream = Pod("upstream")
        run("ip", "link", "add", "core", "type", "veth", "peer", "name", "up0", "netns", "upstream")
        run("ip", "addr", "add", "192.0.2.1/24", "dev", "core")
        run("ip", "link", "set", "core", "up")
        self.upstream.run("ip", "-batch", "-", stdin="addr add 192.0.2.2/24 dev up0\nlink set up0 up\nlink set lo up\n"
                          "route add 10.77.0.0/24 via 192.0.2.1\n")
        with open("/proc/sys/net/ipv4/ip_forward", "w") as setting:
            setting.write("1")

    def relay(self):
        return self.server(dhcp.Server(
            ["dhcrelay", "-4", "-d", "--no-pid", "-id", dhcp.BRIDGE, "-iu", "core", "192.0.2.2"],
            "/run/relay.log", "Sending on   Socket"))

    def test_a_lease_through_a_relay_is_renewed_past_its_end_and_released(self):
        with self.upstream.inside():
            self.server(dhcp.isc(lease=10, interface="up0", more="subnet 192.0.2.0 netmask 255.255.255.0 { }\n"))
        self.relay()
        daemon = self.daemon()
        pod = self.pod()
        with dhcp.capture("/run/relay.pcap") as path:
            result = self.assert_ok(dhcp.attach("ADD", pod, dhcp.config()))
            address = result["ips"][0]["address"]
            self.assertEqual(daemon.leases()["pod1"]["server"], "192.0.2.2")

            def renewals():
                return dhcp.packets(path, "ip.src", "eth.dst", where="dhcp.option.dhcp == 3 && ip.dst == 192.0.2.2")
            self.assertTrue(wait_for(lambda: len(renewals()) >= 3, 40, 0.5), daemon.log)
            self.assertEqual(set(renewals()), {(address[:-3], dhcp.MAC)})
            self.assertEqual(dhcp.addresses(pod), [address])
            self.assertNotIn("expired", daemon.log)
            self.assertEqual(dhcp.isc_leases(), {address[:-3]})
            self.assert_ok(dhcp.attach("DEL", pod, dhcp.config(prevResult=result)))
            self.assertTrue(wait_for(lambda: dhcp.isc_leases() == set(), 20))
        self.assertEqual(dhcp.malformed(path), "")

    def test_without_its_relay_no_pod_gets_a_lease_and_each_is_released(self):
        with self.upstream.inside():
            self.server(dhcp.dnsmasq(pool="10.77.0.10,10.77.0.99,255.255.255.0", interface="up0"))
        relay = self.relay()
        daemon = self.daemon()
        one, other = self.pod(), self.pod()
        first = self.assert_ok(dhcp.attach("ADD", one, dhcp.config()))
        # The address of the relay, of which dnsmasq makes the router.
        self.assertEqual(first["ips"][0]["gateway"], "10.77.0.1")
        relay.stop()
        self.assert_error(dhcp.attach("ADD", other, dhcp.config(ipam={"timeout": 2})), 11, "no DHCP server answered")
        relay.start()
        second = self.assert_ok(dhcp.attach("ADD", other, dhcp.config()))
        self.assertNotEqual(first["ips"], second["ips"])
        for pod, result in ((one, first), (other, second)):
            self.assert_ok(dhcp.attach("DEL", pod, dhcp.config(prevResult=result)))
        self.assertTrue(dhcp.released(), daemon.log)


if __name__ == "__main__":
    suite.main(needs=("tcpdump", "tshark", "ping", "dnsmasq", "dhcrelay"), per_processor=2)
