#!/usr/bin/env python3
"""Short leases of four DHCP servers: renewed at T1, rebound at T2, lost at their end, with the server down meanwhile and
the daemon killed in each interval. The order of what the wire shows decides, and windows of seconds.
"""

import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import dhcp, suite  # noqa: E402
from support.cnitool import cnitool  # noqa: E402
from support.plugin import have  # noqa: E402
from support.world import run, wait_for  # noqa: E402

LEASE = 16  # seconds: T1 8, T2 14
SERVERS = {"kea": (lambda: dhcp.kea(lease=LEASE), dhcp.kea_leases, "kea-dhcp4"),
           "isc": (lambda: dhcp.isc(lease=LEASE), dhcp.isc_leases, "dhcpd"),
           "udhcpd": (lambda: dhcp.udhcpd(lease=LEASE), None, "busybox")}
PAST_END = LEASE + 3


def messages(path):
    """The client's messages as (second, kind, destination)."""
    return [(float(at), dhcp.TYPES[int(kind)], to) for at, kind, to in
            dhcp.packets(path, "frame.time_epoch", "dhcp.option.dhcp", "ip.dst", where="dhcp.type == 1")]


@suite.spread
class Time(suite.NodeTest):
    def setUp(self):
        super().setUp()
        dhcp.segment()

    def prepare(self, name):
        start, self.leased, program = SERVERS[name]
        if missing := have(program):
            self.skipTest(f"there is no {missing}")
        self.server = start()
        self.addCleanup(self.server.stop)
        self.daemon = dhcp.Daemon("-timeout", "1s")
        self.addCleanup(self.daemon.process.wait)
        self.addCleanup(lambda: self.daemon.process.kill())
        self.the_pod = self.pod()

    def add(self):
        result = self.assert_ok(dhcp.attach("ADD", self.the_pod, dhcp.config(ipam={"timeout": 30})))
        self.begun = time.time()
        return result["ips"][0]["address"]

    def until(self, seconds):
        """Waits until so many seconds have passed since the lease began."""
        time.sleep(max(0, self.begun + seconds - time.time()))

    def has(self, address):
        return dhcp.addresses(self.the_pod) == ([address] if address else [])

    def expire(self):
        return self.daemon.leases()["pod1"]["expire"]

    @suite.cases([(name, name) for name in SERVERS])
    def a_lease_is_renewed_alone_and_released_with(self, name):
        self.prepare(name)
        with dhcp.capture("/run/renew.pcap") as path:
            address = self.add()
            self.until(LEASE + 2)  # past its end
            self.assertTrue(self.has(address), self.daemon.log)
            sent = messages(path)
            renewals = [one for one in sent if one[1] == "REQUEST" and one[2] == "10.77.0.1"]
            self.assertGreaterEqual(len(renewals), 2, sent)
            self.assertEqual([one for one in sent if one[1] == "DISCOVER" and one[0] > renewals[0][0]], [])
            self.assertGreater(renewals[0][0] - self.begun, LEASE / 2 - 2)
            if self.leased:
                self.assertEqual(self.leased(), {address[:-3]})
            self.assert_ok(dhcp.attach("DEL", self.the_pod, dhcp.config()))
            self.assertTrue(wait_for(lambda: messages(path)[-1][1:] == ("RELEASE", "10.77.0.1")), messages(path))
        if self.leased:
            self.assertTrue(wait_for(lambda: self.leased() == set()), self.server.log[-2000:])
        self.assertEqual(dhcp.malformed(path), "")

    @suite.cases([(name, name) for name in SERVERS])
    def a_lease_ends_in_time_and_comes_back_with(self, name):
        self.prepare(name)
        with dhcp.capture("/run/end.pcap") as path:
            address = self.add()
            self.server.stop()
            self.until(LEASE - 1.5)
            self.assertTrue(self.has(address), self.daemon.log)
            self.assertTrue(wait_for(lambda: self.has(None), 6), self.daemon.log)
            lost = time.time()
            self.assertGreater(lost - self.begun, LEASE - 2)
            self.assertIn("UP", self.the_pod.run("ip", "link", "show", "eth0"))
            self.assert_error(dhcp.attach("CHECK", self.the_pod, dhcp.config(prevResult={"cniVersion": "1.1.0", "ips": []})),
                              999, "the lease was lost")
            self.server.start()
            self.assertTrue(wait_for(lambda: self.has(address), 30), self.daemon.log)
            self.assertEqual(dhcp.routes(self.the_pod), {("default", "10.77.0.1", None)})
        sent = messages(path)
        first_ack = min(one[0] for one in sent if one[1] == "REQUEST")
        alone = [one[0] - first_ack for one in sent if one[1] == "REQUEST" and one[2] == "10.77.0.1"]
        everybody = [one[0] - first_ack for one in sent if one[1] == "REQUEST" and one[2] == "255.255.255.255"
                     and LEASE / 2 < one[0] - first_ack < LEASE]
        self.assertTrue(alone and everybody, sent)
        self.assertLess(max(alone), min(everybody))
        self.assertGreater(min(alone), LEASE / 2 - 1)
        self.assertGreater(min(everybody), LEASE * 7 / 8 - 1)

    @suite.cases([("T1", (LEASE / 2 + 1, "REQUEST", "10.77.0.1")), ("T2", (LEASE * 7 / 8 + 0.6, "REQUEST", "255.255.255.255"))])
    def a_daemon_that_was_dead_goes_on_after(self, row):
        when, kind, to = row
        self.prepare("isc")
        address = self.add()
        self.daemon.kill()
        self.until(when)
        with dhcp.capture("/run/dead.pcap") as path:
            self.daemon.start()
            self.assertTrue(wait_for(lambda: messages(path)), self.daemon.log)
        self.assertEqual(messages(path)[0][1:], (kind, to))
        self.assertTrue(wait_for(lambda: self.daemon.leases()["pod1"]["state"] == "bound"), self.daemon.log)
        self.until(PAST_END)
        self.assertTrue(self.has(address))

    def test_a_lease_that_ended_while_the_daemon_was_dead_is_removed_and_asked_for_again(self):
        self.prepare("isc")
        address = self.add()
        self.daemon.kill()
        self.until(PAST_END)
        self.server.stop()
        self.daemon.start()
        self.assertTrue(wait_for(lambda: self.has(None)), self.daemon.log)
        self.server.start()
        self.assertTrue(wait_for(lambda: self.has(address), 30), self.daemon.log)

    def test_the_kernel_removes_the_address_of_a_lease_that_ends_without_a_daemon(self):
        self.prepare("isc")
        address = self.add()
        self.assertTrue(wait_for(lambda: dhcp.lifetime(self.the_pod) is not None, 5))
        self.assertLessEqual(dhcp.lifetime(self.the_pod), LEASE + 1)
        self.until(LEASE / 2 + 2)  # renewed
        self.assertGreater(dhcp.lifetime(self.the_pod), LEASE / 2 + 1)
        end = time.time() + self.expire()
        self.daemon.kill()
        self.assertIn("the daemon of dhcp does not run", self.doctor())
        time.sleep(max(0, end - 1.5 - time.time()))
        self.assertTrue(self.has(address))
        # `expire` and the kernel's timer count whole seconds.
        self.assertTrue(wait_for(lambda: self.has(None), 8))
        self.assertGreater(time.time(), end - 0.1)
        self.assertEqual(dhcp.routes(self.the_pod), set())
        self.assertTrue(wait_for(lambda: " ended " in self.doctor()))
        self.assertRegex(self.doctor(), f"the DHCP lease of {address} for 'eth0' of container 'pod1' in network 'net1' "
                                        r"ended \d+ s ago")
        self.daemon.start()
        self.assertTrue(wait_for(lambda: self.has(address), 30), self.daemon.log)
        self.assertTrue(wait_for(lambda: dhcp.lifetime(self.the_pod) is not None, 5))
        self.assertNotIn("the daemon of dhcp", self.doctor())

    def doctor(self):
        return "\n".join(one["what"] for one in json.loads(cnitool("doctor", "--json").stdout)["findings"])

    def test_a_renewal_changes_nothing_but_the_lifetime_of_the_address(self):
        self.prepare("isc")
        address = self.add()

        def shown():
            [link] = json.loads(self.the_pod.run("ip", "-j", "-4", "addr", "show", "dev", "eth0"))
            return [{key: value for key, value in one.items() if "life_time" not in key and key != "dynamic"}
                    for one in link["addr_info"]]
        # The server reaches the pod without the address too, so that the lease does not end.
        [link] = json.loads(self.the_pod.run("ip", "-j", "link", "show", "eth0"))
        run("ip", "neigh", "replace", address[:-3], "lladdr", link["address"], "dev", dhcp.BRIDGE, "nud", "permanent")
        self.the_pod.run("ip", "addr", "del", address, "dev", "eth0")
        self.the_pod.run("ip", "addr", "add", address, "dev", "eth0", "metric", "77", "noprefixroute", "label", "eth0:x")
        before = shown()
        self.assertTrue(wait_for(lambda: dhcp.lifetime(self.the_pod) is not None, LEASE))
        self.assertEqual(shown(), before)
        self.the_pod.run("ip", "addr", "del", address, "dev", "eth0")
        self.until(LEASE + 1)  # renewed once more
        self.assertGreater(self.expire(), LEASE / 2 - 4)
        self.assertNotIn("expired", self.daemon.log)
        self.assertTrue(self.has(None), "what the pod removed stays removed")

    def test_a_killed_daemon_neither_renews_nor_ends_a_lease_twice(self):
        self.prepare("isc")
        address = self.add()
        for second in range(2, LEASE + 6, 2):
            self.until(second)
            self.daemon.restart()
            self.assertTrue(self.has(address), self.daemon.log)
        self.assertEqual(self.leased(), {address[:-3]})

    def test_after_renumbering_a_NAK_changes_the_address_at_once(self):
        self.prepare("kea")
        address = self.add()
        self.the_pod.run("ip", "route", "add", "203.0.113.0/24", "via", "10.77.0.1")  # a person's
        self.server.stop()
        os.remove("/var/lib/kea/leases.csv")
        run("ip", "addr", "add", "10.78.0.1/24", "dev", dhcp.BRIDGE)
        run("ip", "addr", "del", "10.77.0.1/24", "dev", dhcp.BRIDGE)
        text = open("/run/kea/kea.conf").read().replace("10.77.", "10.78.")
        open("/run/kea/kea.conf", "w").write(text)
        self.server.start()
        self.assertTrue(wait_for(lambda: self.has("10.78.0.10/24"), LEASE + 10), (address, self.daemon.log))
        self.assertEqual({route for route in dhcp.routes(self.the_pod) if route[0] == "default"},
                         {("default", "10.78.0.1", None)})
        self.assertIn("1 received", self.the_pod.run("ping", "-c1", "-W2", "10.78.0.1"))

    def test_a_server_that_answers_with_other_routes_changes_them(self):
        self.prepare("isc")
        address = self.add()
        self.the_pod.run("ip", "route", "add", "203.0.113.0/24", "via", "10.77.0.1")
        self.server.stop()
        with open("/run/isc/dhcpd.conf") as file:
            text = file.read()
        with open("/run/isc/dhcpd.conf", "w") as file:
            file.write(text.replace("option routers 10.77.0.1", "option routers 10.77.0.2"))
        self.server.start()
        self.assertTrue(wait_for(lambda: dhcp.routes(self.the_pod) == {("default", "10.77.0.2", None),
                                                                      ("203.0.113.0/24", "10.77.0.2", None)}, LEASE),
                        (dhcp.routes(self.the_pod), self.daemon.log))
        self.assertTrue(self.has(address))


if __name__ == "__main__":
    suite.main(needs=("tcpdump", "tshark", "ping"), per_processor=3)
