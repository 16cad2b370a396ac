#!/usr/bin/env python3
"""What patchbay-agent knows of the node is of its last look, which changes follow 0.2 s later, or 30 s where they have no
message: no pod gets a device by it that is another one by now, and none is refused that it can have."""

import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, cdi, kubelet, suite  # noqa: E402
from support.agent import Agent, nics, slots  # noqa: E402
from support.kubelet import Kubelet  # noqa: E402
from support.ledger import args_of, pod_of  # noqa: E402
from support.plugin import cni  # noqa: E402
from support.sysfs import FAKE, fake_device  # noqa: E402
from support.world import Pod, run, set_up, wait_for  # noqa: E402

NIC, PCI, VFIO = "vendor.example/nic", "0000:03:00.0", "0000:03:02.0"
#: Its name selects the link, of a device that has an identity of its own.
FORCED = {"resource": NIC, "devices": [{"driver": ["i40e"]}], "force": ["eth1", "eth9"]}
USER_SPACE = {"resource": NIC, "devices": [{"driver": ["vfio-pci", "uio_pci_generic"]}]}


def link(name, peer=None):
    run("ip", "link", "add", name, "type", "veth", "peer", "name", peer or f"out-{name}")
    set_up(peer or f"out-{name}")


def bind(address, driver):
    """Binds a device of the made-up sysfs to another driver, of which there is no message."""
    at = f"{FAKE}/bus/pci/devices/{address}"
    os.makedirs(f"{FAKE}/bus/pci/drivers/{driver}", exist_ok=True)
    os.unlink(f"{at}/driver")
    os.symlink(f"{FAKE}/bus/pci/drivers/{driver}", f"{at}/driver")
    os.unlink(f"{at}/iommu_group")
    os.makedirs(f"{at}/uio/uio0")


@suite.spread
class Stale(suite.NodeTest):
    def start(self, pool, *offered):
        if reason := agent.why_impossible() or kubelet.why_impossible():
            self.skipTest(reason)
        os.makedirs(f"{FAKE}/bus/pci/devices", exist_ok=True)
        self.of = Kubelet()
        self.addCleanup(lambda: self.of.kill())
        self.by = Agent(pool, flags=("--sysfs", FAKE))
        self.addCleanup(self.by.process.wait)
        self.addCleanup(lambda: self.by.process.kill())
        self.assert_listed(pool["resource"], dict.fromkeys(offered, "Healthy"))

    def assert_listed(self, resource, expected):
        self.assertTrue(wait_for(lambda: self.of.devices(resource) == expected, 20), f"{self.of.ask('state')}\n{self.by.log}")

    def promise(self, device):
        self.of.own("shop", "web-0", {NIC: [device]})
        self.of.allocate(NIC, [device])

    def claim(self):
        return self.by.claim("shop", "web-0", "uid-web-0")

    def selected(self, device):
        """The name by which the entry selects the link."""
        return json.loads(agent.ledger()[device]["plugins"])[0]["device"]

    def add(self, pod, verb="ADD"):
        conf = {"cniVersion": "1.1.0", "name": "pods", "type": "devices",
                "prevResult": {"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": pod.path}]}}
        return cni("devices", verb, conf, netns=pod.path, container=pod.name, ifname="eth0", args=args_of(pod_of("web-0")))

    def rename(self, device=PCI):
        """As udev does it: the link is eth9 now, and eth1 is another one."""
        os.rename(f"{FAKE}/bus/pci/devices/{device}/net/eth1", f"{FAKE}/bus/pci/devices/{device}/net/eth9")
        run("ip", "link", "set", "eth1", "down", "name", "eth9")
        link("eth1", "other")

    def test_a_link_that_was_renamed_a_moment_ago_is_moved_and_not_the_one_that_has_its_name(self):
        fake_device(PCI, "i40e", link="eth1")
        link("eth1")
        self.start(FORCED, PCI)
        self.promise(PCI)
        self.rename()
        self.assert_ok(self.add(Pod("pod1")))
        self.assertEqual({one["ifname"] for one in json.loads(run("ip", "-j", "link"))} & {"eth1", "eth9"}, {"eth1"})

    def test_Allocate_names_the_link_as_it_is_called_now(self):
        fake_device(PCI, "i40e", link="eth1")
        link("eth1")
        self.start(FORCED, PCI)
        self.rename()
        self.promise(PCI)
        self.assertEqual(self.selected(PCI), "eth9")

    def test_a_link_that_vanished_a_moment_ago_is_waited_for_and_the_one_that_has_its_name_stays(self):
        fake_device(PCI, "i40e", link="eth1")
        link("eth1")
        self.start(FORCED, PCI)
        self.promise(PCI)
        os.rmdir(f"{FAKE}/bus/pci/devices/{PCI}/net/eth1")
        run("ip", "link", "del", "eth1")
        link("eth1")
        pod = Pod("pod1")
        self.assert_error(self.add(pod), 11, "its link does not exist")
        os.mkdir(f"{FAKE}/bus/pci/devices/{PCI}/net/eth1")
        self.assert_ok(self.add(pod))

    def test_after_the_namespace_of_its_pod_vanished_the_link_is_looked_for_by_its_identity(self):
        fake_device(PCI, "i40e", link="eth1")
        link("eth1")
        self.start(FORCED, PCI)
        self.promise(PCI)
        pod = Pod("pod1")
        self.assert_ok(self.add(pod))
        pod.remove()  # as by a power loss: there was no DEL
        wait_for(lambda: not os.path.exists("/sys/class/net/out-eth1"))
        link("eth9")
        link("eth1", "other")
        os.rename(f"{FAKE}/bus/pci/devices/{PCI}/net/eth1", f"{FAKE}/bus/pci/devices/{PCI}/net/eth9")
        self.assert_ok(self.add(Pod("pod2")))
        self.assertEqual({one["ifname"] for one in json.loads(run("ip", "-j", "link"))} & {"eth1", "eth9"}, {"eth1"})

    def test_a_link_that_got_the_default_route_is_neither_allocated_nor_moved(self):
        link("eth1")
        link("eth2")
        set_up("eth1")
        set_up("eth2")
        self.start(nics("eth*"), "netdev:eth1", "netdev:eth2")
        self.promise("netdev:eth1")
        run("ip", "route", "add", "default", "dev", "eth1")  # the kernel says nothing of links
        run("ip", "route", "add", "default", "dev", "eth2", "metric", "9")
        self.assert_error(self.add(Pod("pod1")), 7, "the node uses it: default route of the node")
        with self.assertRaisesRegex(kubelet.Refused, "not a device of|does not exist"):
            self.of.allocate(NIC, ["netdev:eth2"])
        run("ip", "route", "del", "default", "dev", "eth1")
        self.assertEqual(self.claim(), ["netdev:eth1"])

    def test_a_device_that_another_driver_has_by_now_has_the_nodes_of_that(self):
        fake_device(VFIO, "vfio-pci", group=17)
        self.start(USER_SPACE, VFIO)
        bind(VFIO, "uio_pci_generic")
        [answer] = self.of.allocate(NIC, [VFIO])
        self.assertEqual([one["host_path"] for one in answer["devices"]], ["/dev/uio0"])

    def test_the_name_of_such_nodes_is_in_the_CDI_spec_when_Allocate_answers(self):
        fake_device(VFIO, "vfio-pci", group=17)
        self.start(USER_SPACE | {"cdi": True}, VFIO)
        bind(VFIO, "uio_pci_generic")
        [answer] = self.of.allocate(NIC, [VFIO])
        [name] = [one["name"] for one in answer["cdi_devices"]]
        nodes = {f"{spec['kind']}={one['name']}": [node["path"] for node in one["containerEdits"].get("deviceNodes", [])]
                 for spec in cdi.load("/run/agent/cdi").values() for one in spec["devices"]}
        self.assertEqual(nodes[name], ["/dev/uio0"])

    def test_a_function_that_has_just_appeared_is_allocated(self):
        """Another instance of the agent has seen it before."""
        fake_device(VFIO, "vfio-pci", group=17)
        self.start(USER_SPACE, VFIO)
        fake_device("0000:03:02.1", "vfio-pci", group=18)
        [answer] = self.of.allocate(NIC, ["0000:03:02.1"])
        self.assertIn("/dev/vfio/18", [one["host_path"] for one in answer["devices"]])

    def test_a_function_that_was_removed_a_moment_ago_is_not(self):
        fake_device(VFIO, "vfio-pci", group=17)
        self.start(USER_SPACE, VFIO)
        shutil.rmtree(f"{FAKE}/bus/pci/devices/{VFIO}")
        with self.assertRaisesRegex(kubelet.Refused, "not a device of|does not exist"):
            self.of.allocate(NIC, [VFIO])

    def test_slots_whose_parent_is_back_are_allocated(self):
        link("eth1")
        set_up("eth1")
        pool = slots(2, parent="eth1")
        ids = ["eth1:macvlan:1", "eth1:macvlan:2"]
        self.start(pool, *ids)
        run("ip", "link", "del", "eth1")
        self.assert_listed(pool["resource"], dict.fromkeys(ids, "Unhealthy"))
        with self.assertRaisesRegex(kubelet.Refused, "it vanished"):
            self.of.allocate(pool["resource"], ids)
        link("eth1")
        self.of.allocate(pool["resource"], ids)


if __name__ == "__main__":
    suite.main(per_processor=3)
