#!/usr/bin/env python3
"""host-device: which device it takes, that the pod can use it, and that DEL gives it back as it was."""

import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.devices import (MAC, PCI, STATIC, DeviceTest, add_auxiliary, configure, fake_sysfs, links,  # noqa: E402
                             make, states)
from support.plugin import OURS, REFERENCE, finish_all, has_reference, start  # noqa: E402
from support.snapshot import left_by_design, pod_snapshot, snapshot  # noqa: E402
from support.world import run  # noqa: E402

PATH = f"/sys/devices/pci0000:00/{PCI}"
AUXILIARY = "mlx5_core.sf.4"
RUNTIME = {"runtimeConfig": {"deviceID": PCI}}
SELECTORS = [
    ("device", {"device": "dev0"}, ""),
    ("hwaddr", {"hwaddr": MAC}, ""),
    ("hwaddr in another spelling", {"hwaddr": "0200.5E00.0001"}, ""),
    ("kernelpath", {"kernelpath": PATH}, ""),
    ("pciBusID", {"pciBusID": PCI}, ""),
    ("pciBusID of a virtio device", {"pciBusID": PCI}, "virtio3"),
    ("runtimeConfig.deviceID", RUNTIME, ""),
    ("runtimeConfig.deviceID before pciBusID", RUNTIME | {"pciBusID": "0000:09:00.0"}, ""),
    ("device before all others", {"device": "dev0", "hwaddr": "02:00:5e:00:00:99", "pciBusID": PCI}, ""),
    ("hwaddr before kernelpath", {"hwaddr": MAC, "kernelpath": "/sys/devices/absent"}, ""),
    ("kernelpath before pciBusID", {"kernelpath": PATH, "pciBusID": PCI}, ""),
]
REFUSED = [
    ("hwaddr of a group", {"hwaddr": "01:00:5e:00:00:01"}, 7, "hwaddr"),
    ("hwaddr of zeros", {"hwaddr": "00:00:00:00:00:00"}, 7, "hwaddr"),
    ("kernelpath elsewhere", {"kernelpath": "/etc"}, 7, "kernelpath"),
    ("kernelpath that leaves /sys/devices", {"kernelpath": "/sys/devices/../class/net/dev0"}, 7, "kernelpath"),
    ("kernelpath that ends with ..", {"kernelpath": "/sys/devices/pci0000:00/.."}, 7, "kernelpath"),
    ("kernelpath that is relative", {"kernelpath": "sys/devices/x"}, 7, "kernelpath"),
    ("kernelpath that does not exist", {"kernelpath": "/sys/devices/x"}, 999, "no such file or directory"),
    ("pciBusID with a slash", {"pciBusID": "../../class"}, 7, "pciBusID"),
    ("pciBusID that is ..", {"pciBusID": ".."}, 7, "pciBusID"),
    ("deviceID with a slash", {"runtimeConfig": {"deviceID": "a/b"}}, 7, "runtimeConfig.deviceID"),
    ("device with a slash", {"device": "a/b"}, 7, "device"),
    ("device of 128 bytes", {"device": "d" * 128}, 7, "device"),
    ("an alternative name of no device", {"device": "d" * 127}, 999, "Link not found"),
    ("device that is a template", {"device": "dev%d"}, 7, "device"),
    ("an info file with ..", {"device": "dev0", "runtimeConfig": {"CNIDeviceInfoFile": "/run/../x"}}, 7,
     "runtimeConfig.CNIDeviceInfoFile"),
    ("an info file of a relative path", {"device": "dev0", "runtimeConfig": {"CNIDeviceInfoFile": "x"}}, 7,
     "runtimeConfig.CNIDeviceInfoFile"),
    ("lo", {"device": "lo"}, 7, "loopback device"),
    ("a route that cannot be", {"device": "dev0", "ipam": STATIC | {
        "routes": [{"dst": "10.9.0.0/16", "gw": "10.8.8.8"}]}}, None, "{10.9.0.0 ffff0000}"),
]
#: A node on which the device is in use, and what the refusal says.
USES = [("carries a default route", ["ip addr add 192.0.2.1/24 dev dev0", "ip link set dev0 up",
                                     "ip route add default via 192.0.2.254"], "default route"),
        ("carries a default route of IPv6", ["ip addr add 2001:db8::1/64 dev dev0 nodad", "ip link set dev0 up",
                                             "ip -6 route add default dev dev0"], "default route"),
        ("carries one of two default routes", [
            "ip addr add 192.0.2.1/24 dev dev0", "ip link set dev0 up", "ip link set dev0-end up",
            "ip addr add 198.51.100.1/24 dev dev0-end", "ip route add default nexthop via 192.0.2.254 "
            "nexthop via 198.51.100.254"], "default route"),
        ("is a port of a bridge", ["ip link add br0 type bridge", "ip link set dev0 master br0"], "port of 'br0'"),
        ("is below a macvlan", ["ip link add link dev0 up0 type macvlan"], "'up0' stands on it")]


@suite.spread
class HostDevice(DeviceTest):
    @suite.cases([(name, (conf, below)) for name, conf, below in SELECTORS])
    def is_found_by(self, row):
        conf, below = row
        make()
        configure()
        fake_sysfs(below=below)
        before = snapshot()
        result = self.add(conf)
        self.assertEqual(result, {"cniVersion": "1.1.0", "interfaces": [
            {"name": "eth0", "mac": MAC, "sandbox": self.one.path}]})
        self.assertNotIn("dev0", links())
        self.assertIn("UP", links(self.one)["eth0"]["flags"])
        self.assert_ok(self.call("CHECK", conf | {"prevResult": result}))
        self.assert_ok(self.call("STATUS", conf))
        self.remove(conf)
        self.assert_same(before, ignore=left_by_design)

    def test_an_auxiliary_device_is_found_by_deviceID_and_not_by_pciBusID(self):
        """Multus writes the name to both keys."""
        make()
        fake_sysfs(link=None)
        add_auxiliary("dev0", AUXILIARY)
        conf = {"pciBusID": AUXILIARY, "runtimeConfig": {"deviceID": AUXILIARY}}
        self.add(conf)
        self.assertIn("eth0", links(self.one))
        self.remove(conf)
        self.assertIn("dev0", links())

    @suite.cases([(row[0], row[1:]) for row in REFUSED])
    def refuses_and_changes_nothing_for(self, row):
        conf, code, says = row
        make()
        configure()
        fake_sysfs()
        before = snapshot(), pod_snapshot(self.one)
        self.assert_error(self.call("ADD", conf), code, says)
        self.assert_same(before[0], ignore=left_by_design)
        self.assert_same(before[1], pod_snapshot(self.one))
        outcome = self.call("DEL", {"device": "dev0"})
        self.assertEqual((outcome.status, outcome.stdout), (0, ""), str(outcome))
        self.assert_same(before[0], ignore=left_by_design)

    @suite.cases([(f"{name}, unless device names it", row) for name, *row in USES])
    def refuses_a_device_that(self, row):
        commands, says = row
        make()
        run("ip", "link", "set", "dev0", "address", MAC)
        for command in commands:
            run(*command.split())
        fake_sysfs()
        before = snapshot()
        for conf in ({"hwaddr": MAC}, {"kernelpath": PATH}, {"pciBusID": PCI}, RUNTIME):
            self.assert_error(self.call("ADD", conf), 999, says)
            self.assert_same(before, ignore=left_by_design)
        self.add({"device": "dev0"})

    @suite.cases([(f"{kind} that is {'up' if up else 'down'}", (kind, up))
                  for kind in ("veth", "macvlan", "macvtap", "ipvlan", "dummy") for up in (True, False)])
    def restores_a(self, row):
        kind, up = row
        try:
            make(kind)
        except RuntimeError as error:
            self.skipTest(f"this kernel has no {kind}: {error}")
        if kind == "ipvlan":  # has the MAC address of its parent, and cannot be promiscuous
            run("ip", "addr", "add", "192.0.2.1/24", "dev", "dev0")
            run("ip", "link", "set", "dev0", "up" if up else "down", "alias", "uplink")
        else:
            configure(up=up)
        before = snapshot()
        for conf in ({"device": "dev0"}, {"device": "dev0", "ipam": STATIC}):
            result = self.add(conf)
            self.assertEqual(links(self.one)["eth0"]["linkinfo"]["info_kind"], kind)
            self.assert_ok(self.call("CHECK", conf | {"prevResult": result}))
            self.remove(conf)
            self.assert_same(before, ignore=left_by_design)
        self.assertEqual(states(), [])

    def test_the_pod_sends_and_receives_with_it(self):
        make()
        run("ip", "-batch", "-", stdin="addr add 10.1.2.1/24 dev dev0-end\n"
            "addr add fd00:1::1/64 dev dev0-end nodad\nlink set dev0-end up\n")
        self.add({"device": "dev0", "ipam": STATIC})
        for address in ("10.1.2.1", "fd00:1::1"):
            self.one.run("ping", "-c1", "-w5", address)
        for address in ("10.1.2.9", "fd00:1::9"):
            run("ping", "-c1", "-w5", address)

    def test_a_link_of_the_pod_with_the_name_of_the_device_stays_as_it_is(self):
        make()
        self.one.run("ip", "link", "add", "dev0", "type", "bridge")
        foreign = links(self.one)["dev0"]
        self.add(ifname="net1")
        self.assertEqual(links(self.one).keys(), {"lo", "dev0", "net1"})
        self.remove(ifname="net1")
        self.assertIn("dev0", links())
        self.assertEqual(links(self.one)["dev0"], foreign)

    def test_an_index_that_the_pod_uses_already_is_no_obstacle(self):
        make()
        configure()
        index = str(links()["dev0"]["ifindex"])
        self.one.run("ip", "link", "add", "other", "index", index, "type", "bridge")
        before = snapshot()
        self.add()
        self.assertNotEqual(str(links(self.one)["eth0"]["ifindex"]), index)
        self.one.run("ip", "link", "set", "eth0", "down", "name", "renamed", "address", "02:00:5e:99:99:99")
        self.remove()
        self.assert_same(before, ignore=left_by_design)

    def test_a_link_of_the_pod_with_the_index_that_the_device_has_on_the_node_is_not_taken_for_it(self):
        make("macvlan")
        index = "50"
        run("ip", "link", "del", "dev0")
        run("ip", "link", "add", "link", "dev0-end", "own", "index", index, "type", "macvlan")
        run("ip", "link", "set", "own", "netns", self.one.name)
        own = links(self.one)["own"]
        self.assertEqual(str(own["ifindex"]), index)
        run("ip", "link", "add", "link", "dev0-end", "dev0", "index", index, "type", "macvlan")
        before = snapshot()
        result = self.add()
        self.assert_ok(self.call("CHECK", {"device": "dev0", "prevResult": result}))
        for again in (False, True):
            self.remove()
            self.assert_same(before, ignore=left_by_design)
            self.assertEqual(links(self.one), {"lo": links(self.one)["lo"], "own": own}, f"again: {again}")

    def test_DEL_fails_while_the_node_has_another_link_of_the_name(self):
        make()
        configure()
        before = snapshot()
        self.add({"device": "dev0", "ipam": STATIC})
        run("ip", "link", "add", "dev0", "type", "bridge")
        taken = snapshot(), pod_snapshot(self.one)
        self.assert_error(self.call("DEL"), 999, 'failed to move "dev0" to hostNS: file exists')
        self.assert_same(taken[0])
        self.assert_same(taken[1], pod_snapshot(self.one), what="the pod keeps the device as it is:")
        run("ip", "link", "del", "dev0")
        self.remove()
        self.assert_same(before, ignore=left_by_design)
        self.remove()  # once more

    def test_64_pods_get_and_return_their_devices_at_once(self):
        pods = [self.pod() for _ in range(64)]
        for pod in pods:
            make(name=f"d-{pod.name}")
        before = snapshot()
        for verb in ("ADD", "CHECK", "DEL"):
            for pod, outcome in zip(pods, finish_all([self.start(verb, pod) for pod in pods])):
                self.assertEqual(outcome.status, 0, str(outcome))
                if verb == "ADD":
                    self.results[pod.name] = outcome.json
        self.assert_same(before, ignore=left_by_design)
        self.assertEqual(states(), [])

    results = {}

    def start(self, verb, pod):
        conf = {"cniVersion": "1.1.0", "name": "net1", "type": "host-device", "device": f"d-{pod.name}"}
        if verb == "CHECK":
            conf["prevResult"] = self.results[pod.name]
        return start("host-device", verb, conf, netns=pod.path, container=pod.name)

    @suite.cases([(name, name) for name in ("alt0", "enp193s0f0np0d1v17")])
    def takes_an_alternative_name(self, name):
        make()
        run("ip", "link", "property", "add", "dev", "dev0", "altname", name)
        conf, before = {"device": name}, snapshot()
        result = self.add(conf)
        self.assert_ok(self.call("CHECK", conf | {"prevResult": result}))
        self.assert_ok(self.call("STATUS", conf))
        self.assertIn("container 'pod1'", self.assert_error(self.call("ADD", conf, pod=self.pod()), 999)["details"])
        self.remove(conf)
        self.assert_same(before, ignore=lambda place: left_by_design(place) or "/netns/" in place)
        self.assert_ok(self.call("STATUS", conf))

    def test_two_pods_do_not_get_one_device(self):
        make()
        other = self.pod()
        self.add()
        error = self.assert_error(self.call("ADD", pod=other), 999, "Link not found")
        self.assertIn("container 'pod1'", error["details"])
        self.remove(pod=other)
        self.assertIn("eth0", links(self.one))

    def test_a_selector_that_the_runtime_gives_is_no_concern_of_STATUS(self):
        self.assert_ok(self.call("STATUS", {"capabilities": {"deviceID": True}}))
        self.assert_error(self.call("STATUS", {"device": "dev9"}), 50, "Link not found")
        self.assert_error(self.call("STATUS", {"pciBusID": "0000:ff:1f.7"}), 50, "error with host device")


class Dpdk(DeviceTest):
    """A device of a user-space driver has no link: only the addresses are reported."""

    def test_addresses_are_reported_and_nothing_is_moved(self):
        fake_sysfs(link=None, driver="vfio-pci")
        conf = {"pciBusID": PCI, "ipam": STATIC}
        before = snapshot(), pod_snapshot(self.one)
        result = self.add(conf, ifname="net1")
        self.assertEqual(result["interfaces"], [{"name": "net1", "sandbox": self.one.path}])
        self.assertEqual([ip["interface"] for ip in result["ips"]], [0, 0])
        self.assert_same(before[0])
        self.assert_same(before[1], pod_snapshot(self.one))
        prev = conf | {"prevResult": result}
        self.assert_ok(self.call("CHECK", prev, ifname="net1"))
        self.assert_ok(self.call("STATUS", conf))
        shutil.rmtree(f"/sys/devices/pci0000:00/{PCI}")  # DEL needs neither driver nor device
        self.remove(prev, ifname="net1")
        self.assert_same(before[0])

    def test_every_driver_of_user_space_counts_and_DPDKMode_where_there_is_no_PCI_device(self):
        for driver in ("vfio-pci", "uio_pci_generic", "igb_uio"):
            fake_sysfs(link=None, driver=driver)
            self.assertNotIn("mac", self.add(RUNTIME)["interfaces"][0])
        make()
        self.assertNotIn("mac", self.add({"device": "dev0", "DPDKMode": True})["interfaces"][0])
        self.assertIn("dev0", links())


@suite.spread
class DeviceInfo(DeviceTest):
    """CNIDeviceInfoFile."""

    FILE = "/run/k8s.cni.cncf.io/devinfo/cni/one-device.json"

    def with_file(self, content=None, driver="mlx5_core"):
        make()
        fake_sysfs(driver=driver)
        if content is not None:
            os.makedirs(os.path.dirname(self.FILE))
            with open(self.FILE, "w", encoding="ascii") as file:
                file.write(content if isinstance(content, str) else json.dumps(content))
        return {"runtimeConfig": {"deviceID": PCI, "CNIDeviceInfoFile": self.FILE}}

    def info(self):
        with open(self.FILE, encoding="ascii") as file:
            return json.load(file)

    @suite.cases([(driver, driver) for driver in ("mlx5_core", "vfio-pci")])
    def is_written_for_the_driver(self, driver):
        conf = self.with_file(driver=driver)
        self.add(conf)
        self.assertEqual(self.info(), {"type": "pci", "version": "1.1.0", "pci": {"pci-address": PCI}})
        self.assertEqual(os.stat(self.FILE).st_mode & 0o777, 0o444)
        self.remove(conf)
        self.assertTrue(os.path.exists(self.FILE), "the meta plugin removes it")

    @suite.cases([
        ("one that says the same and more", {"type": "pci", "version": "1.0.0", "pci": {
            "pci-address": PCI, "rdma-device": "mlx5_3"}}),
        ("one without the address", {"type": "pci", "version": "1.0.0", "pci": {"rdma-device": "mlx5_3"}}),
        ("one of another type", {"type": "vdpa", "version": "1.1.0", "vdpa": {"path": "/dev/vhost-vdpa0"}})])
    def keeps_what_the_device_plugin_wrote_in(self, before):
        self.add(self.with_file(before))
        if before["type"] == "pci":
            before = before | {"pci": before["pci"] | {"pci-address": PCI}}
        self.assertEqual(self.info(), before)

    @suite.cases([("of another device", {"type": "pci", "pci": {"pci-address": "0000:09:00.0"}}),
                  ("that is no JSON", "{"), ("that is a list", "[]")])
    def refuses_a_file(self, content):
        conf = self.with_file(content)
        before = snapshot()
        self.assert_error(self.call("ADD", conf), 7, "runtimeConfig.CNIDeviceInfoFile")
        self.assert_same(before, ignore=left_by_design)

    def test_a_failed_ADD_leaves_no_file(self):
        conf = self.with_file()
        self.assert_error(self.call("ADD", conf | {"ipam": {"type": "static", "addresses": []}}))
        self.assertFalse(os.path.exists(self.FILE))


@suite.spread
class Mixed(DeviceTest):
    @suite.cases([(f"{'with' if prev else 'without'} prevResult", prev) for prev in (True, False)])
    def the_reference_returns_what_ours_moved(self, prev):
        if not has_reference("host-device"):
            self.skipTest(f"the Go plugins are not in {REFERENCE}")
        make()
        run("ip", "link", "set", "dev0", "address", MAC)
        before = snapshot()
        for conf in ({"device": "dev0"}, {"hwaddr": MAC}):
            conf |= {"cniVersion": "1.0.0", "ipam": STATIC}
            result = self.add(conf, directory=OURS)
            checked = self.call("CHECK", conf | {"prevResult": result}, directory=REFERENCE)
            self.assertEqual(checked.status, 0, str(checked))
            self.remove(conf | ({"prevResult": result} if prev else {}), directory=REFERENCE)
            # The state file of ours stays until the next ADD or GC, which finds the device on the node.
            # The reference of 1.1.1 leaves its alias.
            self.assert_same(before, ignore=lambda place: left_by_design(place) or "/host-device/" in place
                             or place == "link/dev0")
        self.add()
        self.remove()
        self.assert_same(before, ignore=left_by_design)

    @suite.cases([("device", {"device": "dev0"}), ("hwaddr", {"hwaddr": MAC})])
    def ours_leaves_a_virtual_link_that_the_reference_moved_in_the_pod(self, conf):
        """Its alias alone says that it was on the node. The kernel removes it with the namespace."""
        if not has_reference("host-device"):
            self.skipTest(f"the Go plugins are not in {REFERENCE}")
        make()
        run("ip", "link", "set", "dev0", "address", MAC)
        ipam = {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}]]}
        conf = conf | {"cniVersion": "1.0.0", "ipam": ipam}
        result = self.add(conf, directory=REFERENCE)
        self.assert_ok(self.call("CHECK", conf | {"prevResult": result}))
        for _ in range(2):
            self.remove(conf)
            self.assertIn("eth0", links(self.one))
            self.assertEqual(links().keys(), {"lo", "dev0-end"})
        self.assertFalse(os.path.exists("/var/lib/cni/networks/net1/10.1.2.2"))

    def test_ours_does_not_take_a_link_of_the_pod_for_what_the_reference_moved(self):
        make()
        configure()
        self.one.run("ip", "link", "add", "eth0", "alias", "dev9", "type", "bridge")
        before = snapshot(), pod_snapshot(self.one)
        for conf in ({"device": "dev0"}, {"hwaddr": MAC}, RUNTIME, {"kernelpath": PATH}, {}):
            self.remove(conf)
            self.assert_same(before[0], ignore=left_by_design)
            self.assert_same(before[1], pod_snapshot(self.one))


if __name__ == "__main__":
    suite.main(needs=("ping",), per_processor=2)
