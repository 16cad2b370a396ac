#!/usr/bin/env python3
"""Many short leases at once, renewed again and again, while namespaces are removed behind the daemon's back: memory and
descriptors of the daemon stay as they were, and the server has the leases of the living. Those of the others end.

PATCHBAY_SOAK_LEASES=500 PATCHBAY_SOAK_SECONDS=1800 for as many, and as long.
"""

import os
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import dhcp, suite  # noqa: E402
from support.plugin import finish_all, start  # noqa: E402
from support.world import Pod, run, wait_for  # noqa: E402

LEASES = int(os.environ.get("PATCHBAY_SOAK_LEASES", "40"))
SECONDS = int(os.environ.get("PATCHBAY_SOAK_SECONDS", "15"))
LEASE = 10 if LEASES < 100 else 60
CHURNS = max(2, min(30, SECONDS // 20))
#: KiB: what malloc keeps of one crowd more than of another.
GROWTH = 512


class Soak(suite.NodeTest):
    def setUp(self):
        super().setUp()
        dhcp.segment("10.77.0.2/20")
        # A machine of its own: dhcpd does not hear what its own sends it.
        machine = Pod("server")
        dhcp.veth(machine, "server")
        machine.run("ip", "-batch", "-", stdin="addr add 10.77.0.1/20 dev eth0\nlink set eth0 up\nlink set lo up\n")
        with machine.inside():
            self.server = dhcp.isc(lease=LEASE, pool="10.77.1.0 10.77.8.250", interface="eth0",
                                   subnet="10.77.0.0 netmask 255.255.240.0")
        self.addCleanup(self.server.stop)
        self.daemon = dhcp.Daemon()
        self.addCleanup(self.daemon.process.wait)
        self.addCleanup(lambda: self.daemon.process.kill())
        self.idle = self.daemon.descriptors()
        self.living, self.made, self.vanished = {}, 0, 0

    def call(self, verb, names):
        calls = [start("dhcp", verb, dhcp.config(ipam={"timeout": 300}), netns=f"/run/netns/{name}", container=name,
                       documented=False) for name in names]
        return [self.assert_ok(outcome) for outcome in finish_all(calls)]

    def more(self, number):
        """So many more pods with an interface each, for which all ask at the same time; the test does what an
        interface plugin would."""
        names = [f"p{self.made + n}" for n in range(number)]
        self.made += number
        for name in names:
            pod = Pod(name)
            dhcp.veth(pod, f"host-{name}")
            run("ip", "-n", name, "link", "set", "eth0", "up")
        begun = time.monotonic()
        results = self.call("ADD", names)
        self.took = time.monotonic() - begun
        for name, result in zip(names, results):
            self.living[name] = result["ips"][0]["address"]
            run("ip", "-n", name, "addr", "add", self.living[name], "dev", "eth0")

    def vanish(self, number):
        """So many namespaces are removed without DEL."""
        gone = list(self.living)[:number]
        for name in gone:
            Pod.existing(name).remove()
            del self.living[name]
        self.vanished += len(gone)

    def assert_leased(self, alone=False):
        """The daemon and the server have what the living have; the server alone that, once the others' leases ended."""
        mine = {address[:-3] for address in self.living.values()}
        self.assertTrue(wait_for(lambda: set(self.daemon.leases()) == set(self.living), 180), self.daemon.log[-2000:])
        self.assertTrue(wait_for(lambda: dhcp.isc_leases() == mine if alone else dhcp.isc_leases() >= mine, 180, 0.5),
                        dhcp.isc_leases() ^ mine)
        # A renewal writes a second file aside, and renames it.
        self.assertTrue(wait_for(lambda: len(os.listdir(dhcp.STATES)) == len(self.living)), os.listdir(dhcp.STATES))

    def assert_idle(self):
        """Between two renewals nothing is open beside what was, and the namespace of the node."""
        node = os.readlink("/proc/self/ns/net")

        def is_idle():
            files = self.daemon.open_files()
            return len(files) <= self.idle + 1 and not [one for one in files if one.startswith("net:") and one != node]
        self.assertTrue(wait_for(is_idle, 180, 0.005), self.daemon.open_files())

    def test_a_crowd_of_leases_costs_after_half_an_hour_what_it_did_in_the_beginning(self):
        self.more(LEASES)
        took = self.took
        self.assert_leased()
        memory = []
        begun = time.monotonic()
        for turn in range(CHURNS):
            self.vanish(max(1, LEASES // 50))
            self.assert_leased()
            self.more(LEASES - len(self.living))
            self.assert_leased()
            end = begun + SECONDS * (turn + 1) / CHURNS
            while time.monotonic() < end:
                time.sleep(min(5, max(0, end - time.monotonic())))
                memory.append((self.daemon.memory(), self.daemon.descriptors()))
            self.assert_idle()
        seconds = time.monotonic() - begun
        for name, address in self.living.items():
            self.assertEqual(dhcp.addresses(Pod.existing(name)), [address])
        self.assertNotIn("expired", self.daemon.log)
        renewed = len(re.findall("^DHCPACK on", self.server.log, re.MULTILINE))
        self.assertGreater(renewed, LEASES * (seconds / (LEASE / 2) - 1) * 0.9)
        half = len(memory) // 2
        most = [max(one[0] for one in part) for part in (memory[:half], memory[half:])]
        print(f"     {LEASES} leases in {took:.1f} s; {renewed} DHCPACKs in {seconds:.0f} s; the daemon's memory at "
              f"most {most[0]} KiB in the first half and {most[1]} KiB in the second, descriptors at most "
              f"{max(one[1] for one in memory)}, idle {self.idle}", flush=True)
        self.assertLess(most[1], most[0] + GROWTH)
        self.assertLess(most[1], 20 * 1024)
        self.call("DEL", list(self.living))
        self.living = {}
        self.assert_leased(alone=True)
        self.assert_idle()
        # Each that was deleted; for one whose interface is gone nothing is sent.
        self.assertEqual(len(re.findall("^DHCPRELEASE of", self.server.log, re.MULTILINE)), self.made - self.vanished)


if __name__ == "__main__":
    suite.main(needs=("dhcpd",))
