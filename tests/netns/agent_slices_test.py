#!/usr/bin/env python3
"""ResourceSlices of patchbay-agent: what it publishes of the node, and what it does when that changes."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, ledger, suite  # noqa: E402
from support.agent import nics, slots  # noqa: E402
from support.plugin import ROOT, cni  # noqa: E402
from support.slices import API, NODE, PLURAL, SlicesTest, command, links  # noqa: E402
from support.world import Pod, run, set_up  # noqa: E402

NIC = "vendor.example/nic"


def taints(device):
    return [(one["key"], one["effect"]) for one in device.get("taints", [])]


class Published(SlicesTest):
    def test_links_of_a_pool_are_devices_with_attributes_owned_by_the_node(self):
        links("eth1", "eth2")
        run("ip", "link", "set", "eth1", "mtu", "1400", "address", "02:00:00:00:00:07")
        by = self.agent(nics("eth*"), nics("old*", resource="vendor.example/old", devicePlugin=True))
        self.assert_published(["netdev-eth1", "netdev-eth2"], by)
        one, = self.slices()
        self.assertEqual(one["spec"]["pool"], {"name": NODE, "generation": 1, "resourceSliceCount": 1})
        self.assertEqual(one["spec"]["nodeName"], NODE)
        uid = self.api.get("v1", "nodes", NODE)["metadata"]["uid"]
        self.assertEqual(one["metadata"]["ownerReferences"], [{"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": uid}])
        expected = {"resource": NIC, "ifName": "eth1", "mac": "02:00:00:00:00:07", "mtu": 1400, "state": "up", "type": "veth",
                    "virtual": True, "rdma": False, "sriov": False, "isSriovVf": False}
        self.assertEqual({name: self.attribute("netdev-eth1", name) for name in expected}, expected)
        self.assertEqual(taints(self.devices()["netdev-eth1"]), [])

    def test_a_change_of_links_is_one_new_generation(self):
        links("eth1", "eth2")
        by = self.agent(nics("eth*"))
        self.assert_published(["netdev-eth1", "netdev-eth2"], by)
        links("eth3", "eth4")
        run("ip", "link", "del", "eth2")
        run("ip", "link", "set", "eth1", "mtu", "1300")
        self.assert_published(["netdev-eth1", "netdev-eth3", "netdev-eth4"], by)
        self.assertEqual((self.generations(), self.attribute("netdev-eth1", "mtu")), ({2}, 1300))
        self.assert_quiet()

    def test_a_link_without_carrier_is_tainted_until_it_has_one(self):
        links("eth1", "eth2")
        by = self.agent(nics("eth*"))
        self.assert_published(["netdev-eth1", "netdev-eth2"], by)
        set_up("out-eth1", False)
        self.assert_soon(lambda: taints(self.devices().get("netdev-eth1", {})) == [("devices.patchbay/no-carrier", "NoSchedule")], by)
        self.assert_soon(self.is_whole, by)
        self.assertEqual(taints(self.devices()["netdev-eth2"]), [])
        self.assertEqual(self.generations(), {2})
        set_up("out-eth1")
        self.assert_soon(lambda: taints(self.devices().get("netdev-eth1", {"taints": [{"key": 1, "effect": 1}]})) == [], by)
        self.assert_soon(self.is_whole, by)
        self.assertEqual(self.generations(), {3})

    def test_a_link_that_a_pod_holds_stays_as_it_was_also_after_a_restart(self):
        links("eth1")
        by = self.agent(nics("eth*"), socket="/run/cni/own.sock")
        self.assert_published(["netdev-eth1"], by)
        before = self.devices()
        pod, of = Pod("pod1"), ledger.pod_of("web-0")
        ledger.put("netdev:eth1", NIC, [{"type": "host-device", "device": "eth1"}], pod=of)
        previous = {"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": pod.path}]}
        with ledger.Agent():
            self.assert_ok(cni("devices", "ADD", {"cniVersion": "1.1.0", "name": "net", "type": "devices", "prevResult": previous},
                               netns=pod.path, args=ledger.args_of(of)))
        self.assertEqual(agent.ledger()["netdev:eth1"]["holder"]["interface"], "net1")
        self.assert_quiet()
        by.kill()
        by.start()
        self.assert_quiet()
        self.assertEqual(self.devices(), before)

    def test_slots_with_a_bandwidth_are_one_device_with_capacities(self):
        links("uplink")
        pool = slots(20)
        pool["slots"]["bandwidth"] = "10G"
        by = self.agent(pool)
        self.assert_published(["uplink-macvlan"], by)
        device = self.devices()["uplink-macvlan"]
        self.assertIs(device["allowMultipleAllocations"], True)
        self.assertEqual(device["capacity"]["slots"]["value"], "20")
        self.assertEqual(device["capacity"]["bandwidth"]["value"], "10G")
        self.assertEqual(device["capacity"]["bandwidth"]["requestPolicy"]["default"], "500M")

    def test_500_devices_are_four_slices_and_take_no_time_when_idle(self):
        links("uplink")
        by = self.agent(slots(500))
        self.assert_soon(lambda: len(self.devices()) == 500 and self.is_whole(), by)
        self.assertEqual([len(one["spec"]["devices"]) for one in self.slices()], [128, 128, 128, 116])
        self.assertEqual(len(self.slices()), 4)
        time.sleep(1.5)
        asked, begun = len(self.api.seen()), by.processor_seconds()
        time.sleep(8)
        used, memory = by.processor_seconds() - begun, by.memory()
        print(f"     {memory} KiB resident, {used / 8 * 100:.1f} % of a processor, {by.threads()} threads")
        self.assertEqual(self.api.seen()[asked:], [])
        self.assertLess(used, 0.1)
        self.assertLess(memory, 25 * 1024)


class Told(SlicesTest):
    def test_status_and_metrics_say_what_is_published(self):
        links("eth1")
        by = self.agent(nics("eth*"))
        self.assert_published(["netdev-eth1"], by)
        self.assert_soon(lambda: self.metric("slices_right") == 1, by)
        self.assertEqual((self.metric("slices"), self.metric("slice_devices"), self.metric("slice_generation")), (1, 1, 1))
        _, out, _ = command("status", socket=by.socket)
        self.assertIn("ResourceSlices: 1 device, generation 1\n", out)
        self.api.away()
        links("eth2")
        self.assert_soon(lambda: self.metric("slices_right") == 0, by)
        _, out, err = command("status", socket=by.socket)
        self.assertIn("the ResourceSlices are not up to date: ", err)

    def test_without_dra_nothing_asks_an_api_server(self):
        links("eth1")
        by = agent.Agent(nics("eth*"), kubelet="/run/kubelet")
        self.addCleanup(by.kill)
        time.sleep(1.5)
        self.assertEqual(self.api.seen(), [])
        self.assertNotIn("slices", by.ask("status"))


class Withdrawn(SlicesTest):
    def test_withdraw_removes_the_slices_of_this_node_alone(self):
        links("eth1")
        other = {"metadata": {"name": "n2-x"}, "spec": {"driver": "devices.patchbay", "nodeName": "n2", "devices": [],
                 "pool": {"name": "n2", "generation": 1, "resourceSliceCount": 1}}}
        self.api.create(API, PLURAL, other)
        by = self.agent(nics("eth*"))
        self.assert_soon(lambda: "netdev-eth1" in self.devices(), by)
        by.stop()
        self.assertEqual(command("withdraw", config=by.config), (0, "removed 1 ResourceSlice\n", ""))
        self.assertEqual([one["metadata"]["name"] for one in self.slices()], ["n2-x"])
        self.assertEqual(command("withdraw", config=by.config)[:2], (0, "removed 0 ResourceSlices\n"))

    def test_the_package_withdraws_them_when_it_is_removed_and_not_for_an_upgrade(self):
        links("eth1")
        by = self.agent(nics("eth*"))
        self.assert_published(["netdev-eth1"], by)
        by.stop()
        with open(f"{ROOT}/debian/patchbay-agent.prerm", encoding="utf-8") as file:
            script = file.read()
        for path, here in (("/usr/sbin/patchbay-agent", f"{agent.PROGRAM} --config {by.config}"), ("/etc/patchbay/devices.json", by.config),
                           ("/run/systemd/system", "/nonexistent")):
            self.assertIn(path, script)
            script = script.replace(path, here)
        run("sh", "-c", script, "prerm", "upgrade", "1.0")
        self.assertEqual(list(self.devices()), ["netdev-eth1"])
        run("sh", "-c", script, "prerm", "remove")
        self.assertEqual(self.slices(), [])
        self.api.away()
        run("sh", "-c", script, "prerm", "remove")  # the package can be removed all the same

    def test_withdraw_fails_without_the_api_server_and_is_nothing_without_dra(self):
        by = self.agent(nics("eth*"))
        by.stop()
        self.api.away()
        status, _, err = command("withdraw", config=by.config)
        self.assertEqual(status, 1)
        self.assertIn("resourceslices", err)
        by.write({"pools": [nics("eth*")]})
        self.assertEqual(command("withdraw", config=by.config), (0, "", ""))


if __name__ == "__main__":
    suite.main(per_processor=3) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
