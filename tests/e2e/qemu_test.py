#!/usr/bin/env python3
"""A virtual machine on the plugin's tap, as KubeVirt runs one: QEMU without any capability, in the pod's network
namespace. The guest has the address that IPAM gave the pod, and answers."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import qemu, suite  # noqa: E402
from support.configs import lack  # noqa: E402
from support.plugin import cni  # noqa: E402
from support.snapshot import left_by_design, pod_snapshot, snapshot  # noqa: E402

IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1::/64"}]]}
GUEST_MAC = "02:00:5e:00:00:07"


class Qemu(suite.NodeTest):
    def setUp(self):
        super().setUp()
        if reason := lack("tap") or qemu.kernel()[1]:
            self.skipTest(reason)
        qemu.everybody_may_open_tun()
        self.one = self.pod()
        self.conf = {"cniVersion": "1.1.0", "name": "net1", "type": "tap", "owner": qemu.UID, "group": qemu.GID,
                     "ipam": IPAM}

    def call(self, verb, more=None):
        return self.assert_ok(cni("tap", verb, self.conf | (more or {}), netns=self.one.path))

    def queues(self):
        link, = json.loads(self.one.run("ip", "-j", "-d", "link", "show", "dev", "eth0"))
        return link["linkinfo"]["info_data"].get("numqueues")

    def make_bridge(self):
        """In the pod, with the gateways of IPAM's subnets."""
        self.one.run("ip", "-batch", "-", stdin="link add br1 type bridge\nlink set br1 up\n"
                     "address add 10.1.2.1/24 dev br1\naddress add fd00:1::1/64 dev br1 nodad\n")

    def check_machine(self, addresses, reaches, queues):
        """Boots the machine, and pings it from the pod while CHECK finds nothing."""
        with qemu.Machine(self.one, GUEST_MAC, addresses, reaches, queues) as machine:
            self.assertTrue(machine.is_ready(), machine.said()[-2000:])
            for line in (f"queues: {queues}", *(f"reaches {one}" for one in reaches)):
                self.assertIn(line, machine.said())
            for address in addresses:
                self.one.run("ping", "-c2", "-W5", address.split("/")[0])
            self.assertEqual(self.queues(), queues if queues > 1 else None)

    def test_a_guest_with_the_pods_addresses_behind_a_bridge_of_the_pod(self):
        self.make_bridge()
        before = snapshot(), pod_snapshot(self.one)
        self.conf["bridge"] = "br1"
        result = self.call("ADD")
        addresses = [ip["address"] for ip in result["ips"]]
        self.assertEqual(addresses, ["10.1.2.2/24", "fd00:1::2/64"])
        self.one.run("ip", "address", "flush", "dev", "eth0", "scope", "global")  # they are the guest's from now on
        self.check_machine(addresses, ["10.1.2.1", "fd00:1::1"], 1)
        self.call("DEL", {"prevResult": result})
        self.assert_same(before[0], ignore=left_by_design)
        # The kernel gives the bridge limits of its ports, and takes its address away with the last one.
        self.assert_same(before[1], pod_snapshot(self.one), ignore=lambda place: place == "link/br1")

    def test_a_guest_with_two_queues_beside_the_pods_addresses(self):
        before = snapshot(), pod_snapshot(self.one)
        self.conf["multiQueue"] = True
        result = self.call("ADD")
        self.check_machine(["10.1.2.9/24", "fd00:1::9/64"], ["10.1.2.2", "fd00:1::2"], 2)
        self.call("CHECK", {"prevResult": result})  # the guest is gone, the tap is not
        self.call("DEL", {"prevResult": result})
        self.assert_same(before[0], ignore=left_by_design)
        self.assert_same(before[1], pod_snapshot(self.one))

    def test_QEMU_of_another_user_is_refused(self):
        self.conf |= {"owner": 4711, "group": 4711}
        self.call("ADD")
        with qemu.Machine(self.one, GUEST_MAC, ["10.1.2.9/24"], []) as machine:
            self.assertFalse(machine.is_ready())
            self.assertIn("could not configure /dev/net/tun (eth0): Operation not permitted", machine.said())


if __name__ == "__main__":
    suite.main(needs=("qemu-system-x86_64", "busybox", "setpriv", "modprobe", "ping"))
