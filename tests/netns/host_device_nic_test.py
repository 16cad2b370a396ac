#!/usr/bin/env python3
"""host-device with network hardware: QEMU's virtio NICs in a virtual machine, by PCI address, and what the
kernel does with them when a namespace ends. The node is the machine itself, to which the kernel returns
hardware, in a mount namespace of the test."""

import contextlib
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import guest, suite  # noqa: E402
from support.cnitool import cnitool, use  # noqa: E402
from support.configs import GC  # noqa: E402
from support.devices import SETTINGS, STATES, STATIC, DeviceTest, links, states  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run, wait_for  # noqa: E402

os.environ["VM_DEVICES"] = " ".join(
    f"-netdev hubport,id=n{n},hubid=0 -device virtio-net-pci,netdev=n{n},mac=52:54:00:00:00:0{n}" for n in (1, 2))
if os.environ.get("PATCHBAY_GUEST"):
    subprocess.run(["/run/modprobe", "virtio_net"], check=False)


def nics():
    """[(link, PCI address)] of the machine's virtio NICs."""
    found = glob.glob("/sys/bus/pci/devices/*/virtio*/net/*")
    return sorted((os.path.basename(path), path.split("/")[5]) for path in found)


@suite.spread
class Nic(DeviceTest):
    def setUp(self):
        super().setUp()
        if not os.environ.get("PATCHBAY_GUEST"):
            self.skipTest("takes the machine's NICs: for virtual machines alone")
        self.node.enter_machine()
        if len(nics()) < 2:
            self.skipTest("this machine has no two virtio NICs")
        (self.name, self.pci), (self.other, _) = nics()
        self.mac = links()[self.name]["address"]
        run("ip", "-batch", "-", stdin=SETTINGS.replace("dev0", self.name).replace(
            " address 02:00:5e:00:00:01", ""))
        run("ip", "link", "set", self.name, "up")
        self.one = self.pod("nic")
        self.before = snapshot()
        self.addCleanup(self.clean)

    def clean(self):
        """The NIC is the machine's: the next test has to find it as this one did."""
        with contextlib.suppress(FileNotFoundError):
            self.one.remove()
        wait_for(lambda: len(nics()) == 2, 10)
        name = next(name for name, pci in nics() if pci == self.pci)
        run("ip", "link", "set", name, "down", "mtu", "1500", "alias", "", "promisc", "off", "address", self.mac)
        run("ip", "link", "set", name, "name", self.name)
        run("ip", "addr", "flush", "dev", self.name)

    def assert_back(self):
        self.assert_same(self.before, ignore=lambda place: left_by_design(place) or "/netns/" in place)
        self.assertEqual(states(), [])

    @suite.cases([("its name", lambda t: {"device": t.name}), ("its PCI address", lambda t: {"pciBusID": t.pci}),
                  ("deviceID", lambda t: {"runtimeConfig": {"deviceID": t.pci}}),
                  ("kernelpath", lambda t: {"kernelpath": os.path.realpath(f"/sys/class/net/{t.name}/device")})])
    def is_moved_and_restored_by(self, conf_of):
        conf = conf_of(self) | {"ipam": STATIC}
        result = self.add(conf)
        self.assertNotIn(self.name, links())
        self.assert_ok(self.call("CHECK", conf | {"prevResult": result}))
        self.remove(conf)
        self.assert_back()

    @suite.cases([(f"{verb}, {name}", (verb, address)) for verb in ("DEL", "DEL without CNI_NETNS", "GC", "ADD", "cnitool repair")
                  for name, address in (("as it was", None), ("with another MAC address", "02:00:5e:99:99:99"))])
    def is_restored_when_its_namespace_ended_by(self, row):
        verb, address = row
        conf = {"pciBusID": self.pci}
        if verb == "cnitool repair":
            use({"cniVersion": "1.1.0", "name": "net1", "plugins": [{"type": "host-device"} | conf]})
            self.before = snapshot()
            self.assert_ok(cnitool("add", "net1", self.one.path))
        else:
            self.add(conf)
        if address:
            self.one.run("ip", "link", "set", "eth0", "address", address)
        self.one.run("ip", "link", "set", "eth0", "down")
        self.one.run("ip", "link", "set", "eth0", "name", "mine", "alias", self.other)
        self.one.remove()
        if verb.startswith("DEL"):  # at once: the kernel returns the NIC some time later
            self.remove(conf, **({"netns": ""} if "without" in verb else {}))
        else:
            self.assertTrue(wait_for(lambda: "mine" in links(), 10), str(links().keys()))
        if verb == "GC":
            self.assert_ok(self.call("GC", conf | GC))
        if verb == "cnitool repair":
            self.assertIn("repaired", self.assert_ok(cnitool("repair", "--json"))["attachments"][0]["outcome"])
            self.assert_ok(cnitool("del", "net1", self.one.path))
        if verb == "ADD":
            again = self.pod("again")
            self.add(conf, pod=again)
            self.remove(conf, pod=again)
            again.remove()
        self.assert_back()

    def test_it_is_awaited_for_a_later_call_while_a_process_keeps_the_namespace(self):
        conf = {"pciBusID": self.pci}
        self.add(conf)
        with self.one.inside():
            process = subprocess.Popen(["sleep", "1000"])
        self.one.remove()
        outcome = self.call("DEL", conf)
        self.assertEqual(outcome.status, 0, str(outcome))
        self.assertIn("without a path", outcome.stderr)
        self.assertEqual(len(states()), 1)
        process.kill()
        process.wait()
        self.assertTrue(wait_for(lambda: "eth0" in links() and len(nics()) == 2, 10))
        self.assert_ok(self.call("GC", conf | GC))
        self.assert_back()

    def test_a_link_with_its_MAC_address_and_name_is_no_NIC(self):
        conf = {"pciBusID": self.pci}
        mac = links()[self.name]["address"]
        self.add(conf)
        run("ip", "-n", "nic", "-batch", "-", stdin="link set eth0 down\nlink set eth0 name mine alias ''\n"
            "link set mine address 02:00:5e:99:99:99\nlink add eth0 type veth peer name e\n"
            f"link set eth0 address {mac} alias {self.name}\n")
        self.remove(conf)
        self.assert_back()
        self.assertLessEqual({"eth0", "e"}, links(self.one).keys())

    @suite.cases([("its name", lambda t: {"device": t.name}), ("its PCI address", lambda t: {"pciBusID": t.pci}),
                  ("its permanent MAC address", lambda t: {"hwaddr": links()[t.name]["address"]})])
    def without_state_file_it_goes_back_under_the_name_in_its_alias_by(self, conf_of):
        """As the reference plugin leaves it."""
        conf = conf_of(self)
        self.add(conf)
        name, = states()
        os.unlink(f"{STATES}/{name}")
        self.one.run("ip", "link", "set", "eth0", "address", "02:00:5e:99:99:99")
        self.remove({"hwaddr": "02:00:5e:99:99:99"})
        self.assertIn("eth0", links(self.one), "the MAC address is the pod's word")
        self.remove(conf)
        self.assertIn(self.name, links())
        self.assertNotIn("eth0", links(self.one))

    def test_without_state_file_it_stays_where_the_name_in_its_alias_is_taken(self):
        conf = {"pciBusID": self.pci}
        self.add(conf)
        name, = states()
        os.unlink(f"{STATES}/{name}")
        self.one.run("ip", "link", "set", "eth0", "alias", self.other)
        outcome = self.call("DEL", conf)
        self.assertEqual(outcome.status, 0, str(outcome))
        self.assertIn("stays in the pod", outcome.stderr)
        self.assertIn("eth0", links(self.one))

    def test_the_uplink_is_refused_unless_device_names_it(self):
        run("ip", "route", "add", "default", "via", "192.0.2.254")
        for conf in ({"pciBusID": self.pci}, {"hwaddr": links()[self.name]["address"]}):
            self.assert_error(self.call("ADD", conf), 999, "default route")
        self.add({"device": self.name})
        self.remove({"device": self.name})


if __name__ == "__main__":
    guest.enter_unless(lambda: False, "this needs NICs of its own")
    suite.main(sampled_in_guest=True)
