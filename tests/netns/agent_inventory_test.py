#!/usr/bin/env python3
"""patchbay-agent and the node: what it offers and keeps back, the files that it writes, and what it costs."""

import json
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, cdi, kubelet, suite  # noqa: E402
from support.agent import PROGRAM, RESOURCE, Agent, nics, slots  # noqa: E402
from support.kubelet import Kubelet  # noqa: E402
from support.ledger import args_of, pod_of  # noqa: E402
from support.plugin import OURS, cni  # noqa: E402
from support.sysfs import FAKE, fake_device  # noqa: E402
from support.world import Pod, run, set_up, wait_for  # noqa: E402

NIC = "vendor.example/nic"


def listed(*plugins, **slot):
    """A pool of these plugins: of slots, or of devices."""
    return {"resource": NIC, "plugins": list(plugins)} | ({"slots": slot} if slot else {"devices": [{"name": ["eth*"]}]})


HOST_DEVICE = {"type": "host-device"}
#: (a pool, what cnitool validate prints of it)
VALIDATED = [
    (nics("a"), ""),
    (listed(HOST_DEVICE, {"type": "tuning", "mtu": 9000}, {"type": "sbr"}), ""),
    (listed({"type": "vlan"}, parent="eth1", vlanIds=[10, 11]), ""),
    (listed({"type": "vlan", "master": "eth1", "vlanId": 10}, count=1), ""),
    (listed({"type": "bridge", "bridge": "br1"}, {"type": "tuning", "mac": "02:00:00:00:00:01"}, count=1), ""),
    (nics("a", cdii=True), "error: pools[1].cdii: unknown key (did you mean cdi?)"),
    (listed(count=1), "error: pools[1].plugins: expected one plugin at least: []"),
    (listed({"type": "macvlan"}, count=1), ""),  # its master is that of the default route
    (listed({"type": "vlan"}, parent="eth1", vlanIds=[10, 11, 10]),
     "error: pools[1].slots.vlanIds[2]: expected another VLAN ID, it is listed twice: 10"),
    (listed({"type": "macvlan"}, parent="eth9", count=1),
     'error: pools[1].slots: slot eth9:macvlan:1 belongs to v.example/other ("first" sets where the numbers begin): '
     '{"count":1,"parent":"eth9"}'),
    (listed({"type": "macvlan", "mode": "l3"}, parent="eth1", count=1),
     'error: pools[1].plugins[0].mode: expected "bridge", "private", "vepa", "passthru" or "source": "l3"'),
    (listed({"type": "macvlann"}, parent="eth1", count=1),
     f'error: pools[1].plugins[0].type: failed to find plugin "macvlann" in path [{OURS}] (did you mean macvlan?)'),
    (listed(HOST_DEVICE, {"type": "tuning", "mtu": "9000"}),
     "error: pools[1].plugins[1].mtu: expected 0 (the kernel's default) or 68 to 65535: \"9000\" (did you mean 9000?)"),
    (listed(HOST_DEVICE, {"type": "tuning", "mttu": 9000}), "error: pools[1].plugins[1].mttu: unknown key (did you mean mtu?)"),
    (listed(HOST_DEVICE, {"type": "macvlan", "master": "eth1"}),
     "error: pools[1].plugins[1].type: a second plugin that creates the container interface, after pools[1].plugins[0].type: "
     "ADD fails, because the interface exists"),
    (listed(HOST_DEVICE | {"ipam": {"type": "host-local", "subnet": "10.7.0/24"}}),
     "error: pools[1].plugins[0].ipam.subnet: expected an address with prefix length (CIDR notation, for example 10.1.2.0/24): "
     '"10.7.0/24"'),
    (listed(HOST_DEVICE | {"device": "eth1"}),
     'error: pools[1].plugins[0].device: expected no such key, patchbay-agent sets it: "eth1"'),
    (listed(HOST_DEVICE, {"type": "bandwidth", "capabilities": {"bandwidth": True}}),
     "error: pools[1].plugins[1].capabilities: expected no such key, no runtime calls the plugin: write runtimeConfig: "
     '{"bandwidth":true}'),
    (listed(HOST_DEVICE, {"type": "bandwidth", "bandwidth": {}}),
     "error: pools[1].plugins[1].bandwidth: unknown key (did you mean runtimeConfig.bandwidth?)"),
]


def links(*names):
    for name in names:
        run("ip", "link", "add", name, "type", "veth", "peer", "name", f"out-{name}")
        set_up(f"out-{name}")


class Node(suite.NodeTest):
    def listed(self, *pools, sysfs="/sys", json_form=True):
        """`patchbay-agent list` by id."""
        with open("/run/devices.json", "w", encoding="utf-8") as file:
            json.dump({"pools": list(pools)}, file)
        command = [PROGRAM, "list", "--config", "/run/devices.json", "--ledger", agent.LEDGER, "--sysfs", sysfs]
        done = subprocess.run(command + ["--json"] * json_form, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {one["id"]: one for one in json.loads(done.stdout)} if json_form else done.stdout

    def kubelet(self, **options):
        made = Kubelet(**options)
        self.addCleanup(made.kill)
        return made

    def agent(self, *pools, **options):
        made = Agent(*pools, **options)
        self.addCleanup(made.process.wait)
        self.addCleanup(lambda: made.process.kill())
        return made

    def assert_offered(self, of, expected, resource=NIC, by=None):
        self.assertTrue(wait_for(lambda: of.devices(resource) == expected, 20),
                        f"{of.ask('state')}\n{by.log if by else ''}")


class Listing(Node):
    def test_each_link_is_offered_or_kept_back_with_its_reason(self):
        links("eth1", "eth2", "eth3", "eth4", "eth5")
        run("ip", "link", "add", "br0", "type", "bridge")
        run("ip", "link", "set", "eth2", "master", "br0")
        run("ip", "addr", "add", "192.0.2.1/24", "dev", "eth3")
        run("ip", "link", "add", "above", "link", "eth4", "type", "macvlan")
        set_up("eth5")
        run("ip", "addr", "add", "198.51.100.1/24", "dev", "eth5")
        run("ip", "route", "add", "default", "via", "198.51.100.2")
        found = self.listed(nics("*"))
        reasons = {name: found[f"netdev:{name}"].get("keptBack") for name in
                   ("lo", "eth1", "eth2", "eth3", "eth4", "eth5", "br0")}
        self.assertEqual(reasons, {
            "lo": "loopback", "eth1": None, "eth2": "port of 'br0'", "eth3": "has the address 192.0.2.1/24",
            "eth4": "'above' stands on it", "eth5": "default route of the node", "br0": "kind bridge"})
        self.assertEqual(found["netdev:eth1"]["resource"], NIC)
        self.assertTrue(found["netdev:eth1"]["healthy"])

    def test_a_pool_that_selects_nothing_is_named(self):
        links("eth1")
        with open("/run/devices.json", "w", encoding="utf-8") as file:
            json.dump({"pools": [nics("eth1"), {"resource": "vendor.example/other", "devices": [{"vendor": ["0x8086"]}]}]}, file)
        done = subprocess.run([PROGRAM, "list", "--config", "/run/devices.json", "--ledger", agent.LEDGER],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr),
                         (0, "patchbay-agent: pool 'vendor.example/other' selects no device to offer\n"))
        self.assertIn(f"{NIC}  ", done.stdout)

    def test_a_link_is_offered_all_the_same_if_its_name_is_forced(self):
        links("eth1")
        run("ip", "addr", "add", "192.0.2.1/24", "dev", "eth1")
        self.assertIn("keptBack", self.listed(nics("eth1"))["netdev:eth1"])
        found = self.listed(nics("eth1", force=["eth1"]))["netdev:eth1"]
        self.assertEqual((found["resource"], found["forced"]), (NIC, True))
        self.assertIn("keptBack", self.listed(nics("lo", force=["lo"]))["netdev:lo"])

    def test_hardware_of_a_sysfs_has_its_address_driver_and_functions(self):
        links("ens5f0")
        fake_device("0000:03:00.0", "i40e", "ens5f0", numa=1)
        fake_device("0000:03:02.0", "vfio-pci", group=17, parent="0000:03:00.0")
        found = self.listed({"resource": NIC, "devices": [{"driver": ["vfio-pci"], "parent": ["ens5f*"]}]}, sysfs=FAKE)
        self.assertEqual(found["0000:03:02.0"]["resource"], NIC)
        self.assertEqual(found["0000:03:02.0"]["parent"], "ens5f0")
        self.assertEqual(found["0000:03:00.0"]["numa"], 1)
        self.assertEqual(found["0000:03:00.0"]["link"], "ens5f0")
        self.assertEqual(found["0000:03:00.0"]["keptBack"], "no pool selects it")

    def test_for_persons_there_is_a_line_for_each(self):
        links("eth1")
        text = self.listed(nics("eth1"), json_form=False)
        self.assertRegex(text, r"(?m)^ID +LINK +DRIVER +NUMA +RESOURCE +STATE$")
        self.assertRegex(text, rf"(?m)^netdev:eth1 +eth1 +- +- +{NIC} +healthy$")
        self.assertRegex(text, r"(?m)^netdev:lo +lo .* kept back: loopback$")


class Config(Node):
    def ask(self, config, *command):
        return subprocess.run([*command], input=config, capture_output=True, text=True, check=False)

    def test_a_wrong_config_is_refused_with_path_and_suggestion(self):
        config = json.dumps({"pools": [nics("a", plugin=[])]})
        done = self.ask(config, PROGRAM, "--validate")
        self.assertEqual(done.returncode, 1)
        said = json.loads(done.stdout)
        self.assertEqual(said["findings"], [{"path": "pools[0].plugin", "message": "unknown key", "suggestion": "plugins"}])
        with open("/run/wrong.json", "w", encoding="utf-8") as file:
            file.write(config)
        done = self.ask("", PROGRAM, "--config", "/run/wrong.json")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("pools[0].plugin: unknown key (did you mean plugins?)", done.stderr)
        done = self.ask("", PROGRAM, "--config", "/nonexistent")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent", done.stderr)

    def test_cnitool_validates_it_and_the_plugins_of_its_pools(self):
        found = []
        for pool, _ in VALIDATED:
            with open("/run/devices.json", "w", encoding="utf-8") as file:
                json.dump({"pools": [slots(1, "v.example/other", "eth9"), pool]}, file, indent=2)
            done = subprocess.run([f"{OURS}/cnitool", "validate", "/run/devices.json"], capture_output=True, text=True,
                                  check=False, env=os.environ | {"CNI_PATH": OURS})
            says = re.findall(r"(?m)^/run/devices.json:(\d+):\d+: (.*)$", done.stdout)
            found.append((pool, "\n".join(what for _, what in says)))
            self.assertEqual(done.returncode, 1 if "error: " in found[-1][1] else 0, done.stdout + done.stderr)
            self.assertTrue(all(int(line) > 17 for line, _ in says), f"in the second pool: {done.stdout}")
        self.assertEqual(found, VALIDATED)

    def test_the_schema_is_one(self):
        schema = json.loads(self.ask("", PROGRAM, "--schema").stdout)
        self.assertEqual(schema["title"], "patchbay-agent")
        self.assertFalse(schema["additionalProperties"])


class Health(Node):
    def test_it_follows_link_carrier_and_hardware(self):
        links("eth1", "eth2")
        of = self.kubelet()
        by = self.agent(nics("eth*"))
        both = {"netdev:eth1": "Healthy", "netdev:eth2": "Healthy"}
        self.assert_offered(of, both, by=by)
        set_up("eth1")
        set_up("out-eth1", False)
        self.assert_offered(of, both | {"netdev:eth1": "Unhealthy"}, by=by)
        set_up("out-eth1")
        self.assert_offered(of, both, by=by)
        run("ip", "link", "del", "eth2")
        self.assert_offered(of, {"netdev:eth1": "Healthy"}, by=by)
        begun = time.monotonic()
        links("eth3")
        self.assertTrue(wait_for(lambda: "netdev:eth3" in of.devices(NIC), 5), by.log)
        self.assertLess(time.monotonic() - begun, 1, "a new link is seen within a second")

    def test_a_device_that_vanished_is_not_handed_out(self):
        links("eth1")
        of = self.kubelet()
        by = self.agent(nics("eth*"))
        self.assert_offered(of, {"netdev:eth1": "Healthy"}, by=by)
        of.allocate(NIC, ["netdev:eth1"])
        run("ip", "link", "del", "eth1")
        self.assert_offered(of, {"netdev:eth1": "Unhealthy"}, by=by)
        with self.assertRaises(kubelet.Refused):
            of.allocate(NIC, ["netdev:eth1"])


class Ledger(Node):
    def setUp(self):
        super().setUp()
        links("eth1", "eth2")
        self.of = self.kubelet()
        self.by = self.agent(nics("eth*", ifname="storage", plugins=[{"type": "host-device"}, {"type": "tuning", "mtu": 1400}]))
        self.assert_offered(self.of, {"netdev:eth1": "Healthy", "netdev:eth2": "Healthy"}, by=self.by)

    def entry(self, name="netdev:eth1"):
        return agent.ledger().get(name)

    def test_an_entry_has_the_plugins_that_attach_the_device(self):
        self.of.allocate(NIC, ["netdev:eth1"])
        entry = self.entry()
        self.assertEqual(json.loads(entry["plugins"]),
                         [{"type": "host-device", "device": "eth1"}, {"type": "tuning", "mtu": 1400}])
        self.assertEqual((entry["resource"], entry["interface"]), (NIC, "storage"))
        self.assertNotIn("pod", entry)

    def test_the_pod_is_written_soon_after_allocate_and_its_uid_by_a_claim(self):
        self.of.own("shop", "web-0", {NIC: ["netdev:eth1"]})
        self.of.allocate(NIC, ["netdev:eth1"])
        self.assertTrue(wait_for(lambda: (self.entry() or {}).get("pod"), 10), self.by.log)
        self.assertEqual(self.entry()["pod"]["name"], "web-0")
        self.assertEqual(self.by.claim("shop", "web-0", "u1"), ["netdev:eth1"])
        self.assertEqual(self.entry()["pod"]["uid"], "u1")
        self.assertEqual(self.by.claim("shop", "web-0", "u2")["code"], 11)
        self.assertEqual(self.by.claim("shop", "other", "u3"), [])
        # Allocated again: to the next pod of that name.
        self.of.allocate(NIC, ["netdev:eth1"])
        self.assertEqual(self.by.claim("shop", "web-0", "u2"), ["netdev:eth1"])

    def test_a_lost_ledger_is_written_again_from_what_the_kubelet_says(self):
        self.of.own("shop", "web-0", {NIC: ["netdev:eth1"]})
        self.of.allocate(NIC, ["netdev:eth1"])
        self.by.kill()
        for name in os.listdir(agent.LEDGER):
            os.unlink(f"{agent.LEDGER}/{name}")
        self.by.start()
        self.assertEqual(self.by.claim("shop", "web-0", "u1"), ["netdev:eth1"])

    def add(self, pod):
        """ADD of the plugin for the pod shop/web-0."""
        conf = {"cniVersion": "1.1.0", "name": "pods", "type": "devices",
                "prevResult": {"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": pod.path}]}}
        return cni("devices", "ADD", conf, netns=pod.path, container="c1", ifname="eth0", args=args_of(pod_of("web-0")))

    def test_without_the_folder_of_the_ledger_the_agent_ends_no_pod_passes_and_the_next_agent_makes_it_again(self):
        self.of.own("shop", "web-0", {NIC: ["netdev:eth1"]})
        self.of.allocate(NIC, ["netdev:eth1"])
        shutil.rmtree(agent.LEDGER)
        pod = Pod("pod1")
        self.assert_error(self.add(pod), 11, "the folder of the ledger was removed")
        self.assertTrue(wait_for(lambda: not self.by.is_alive(), 5), "the agent still runs")
        self.assertEqual(self.by.process.returncode, 1)
        self.assertEqual([line["what"] for line in self.by.lines() if line["level"] == "error"],
                         ["end, because the folder of the ledger was removed"])
        self.assert_error(self.add(pod), 11, "the folder of the ledger was removed")
        self.by.start()
        self.assertEqual(self.by.claim("shop", "web-0", "uid-web-0"), ["netdev:eth1"])
        result = self.assert_ok(self.add(pod))
        self.assertEqual([one["name"] for one in result["interfaces"]], ["eth0", "storage"])

    def test_a_torn_entry_stays_until_the_kubelet_has_said_whose_the_device_is(self):
        self.of.allocate(NIC, ["netdev:eth1"], ["netdev:eth2"])
        self.by.kill()
        with open(f"{agent.LEDGER}/netdev:eth1", "w", encoding="ascii") as file:
            file.write('{"id": "netdev:eth1", "resou')
        self.by.start()
        self.assertEqual(list(agent.ledger()), ["netdev:eth2"])
        said = [(line["level"], line["what"]) for line in self.by.lines() if "netdev:eth1" in json.dumps(line)]
        self.assertIn(("warning", f"read '{agent.LEDGER}/netdev:eth1': it is no entry of the ledger, ignored"), said)
        # The kubelet has just started, and has listed nothing yet.
        time.sleep(0.5)
        self.assertTrue(os.path.exists(f"{agent.LEDGER}/netdev:eth1"))
        self.of.own("shop", "web-0", {NIC: ["netdev:eth1"]})
        self.assertEqual(self.by.claim("shop", "web-0", "u1"), ["netdev:eth1"])
        self.assertEqual(self.entry()["pod"]["uid"], "u1")
        self.assertTrue(wait_for(lambda: self.of.resource(NIC)["registrations"] > 1 and self.of.resource(NIC)["open"], 30))
        self.assertEqual(len(self.of.allocate(NIC, ["netdev:eth1"])), 1)


class Renamed(Node):
    """Since Allocate, as by a boot."""

    def test_the_device_is_moved_and_not_the_link_that_has_its_name_now(self):
        fake_device("0000:03:00.0", "i40e", link="eth1")
        links("eth1")
        of = self.kubelet()
        by = self.agent({"resource": NIC, "devices": [{"driver": ["i40e"]}], "force": ["eth1", "eth9"]}, flags=("--sysfs", FAKE))
        self.assert_offered(of, {"0000:03:00.0": "Healthy"}, by=by)
        of.own("shop", "web-0", {NIC: ["0000:03:00.0"]})
        of.allocate(NIC, ["0000:03:00.0"])
        os.rename(f"{FAKE}/bus/pci/devices/0000:03:00.0/net/eth1", f"{FAKE}/bus/pci/devices/0000:03:00.0/net/eth9")
        run("ip", "link", "set", "eth1", "down", "name", "eth9")
        run("ip", "link", "add", "eth1", "type", "veth", "peer", "name", "other")

        def selected():
            self.assertEqual(by.claim("shop", "web-0", "uid-web-0"), ["0000:03:00.0"])
            return json.loads(agent.ledger()["0000:03:00.0"]["plugins"])[0]["device"]
        self.assertTrue(wait_for(lambda: selected() == "eth9"), by.log)
        pod = Pod("pod1")
        conf = {"cniVersion": "1.1.0", "name": "pods", "type": "devices",
                "prevResult": {"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": pod.path}]}}
        self.assert_ok(cni("devices", "ADD", conf, netns=pod.path, container="c1", ifname="eth0", args=args_of(pod_of("web-0"))))
        left = {one["ifname"] for one in json.loads(run("ip", "-j", "link"))}
        self.assertEqual(left & {"eth1", "eth9"}, {"eth1"})


class Files(Node):
    def test_devices_of_user_space_have_nodes_environment_and_device_information(self):
        os.makedirs(f"{FAKE}/bus/pci/devices")
        fake_device("0000:03:00.0", "i40e")
        fake_device("0000:03:02.0", "vfio-pci", group=17, parent="0000:03:00.0", numa=1)
        of = self.kubelet()
        by = self.agent({"resource": NIC, "devices": [{"driver": ["vfio-pci"]}]}, flags=("--sysfs", FAKE))
        self.assert_offered(of, {"0000:03:02.0": "Healthy"}, by=by)
        [answer] = of.allocate(NIC, ["0000:03:02.0"])
        self.assertEqual(answer["envs"], {"PCIDEVICE_VENDOR_EXAMPLE_NIC": "0000:03:02.0"})
        paths = sorted((one["host_path"], one["permissions"]) for one in answer["devices"])
        self.assertEqual(paths, [("/dev/vfio/17", "rw"), ("/dev/vfio/vfio", "rw")])
        with open(f"/run/agent/devinfo/{NIC.replace('/', '-')}-0000:03:02.0-device.json", encoding="utf-8") as file:
            self.assertEqual(json.load(file), {"type": "pci", "version": "1.1.0", "pci": {
                "pci-address": "0000:03:02.0", "pf-pci-address": "0000:03:00.0"}})

    def test_cdi_specs_are_strictly_right_and_follow_the_config(self):
        fake_device("0000:03:02.0", "vfio-pci", group=17)
        links("eth1")
        of = self.kubelet()
        pools = [{"resource": NIC, "devices": [{"driver": ["vfio-pci"]}], "cdi": True},
                 slots(2, parent="eth1") | {"cdi": True, "nodes": ["/dev/vhost-net"]}]
        by = self.agent(*pools, flags=("--sysfs", FAKE))
        self.assert_offered(of, {"0000:03:02.0": "Healthy"}, by=by)
        [answer] = of.allocate(NIC, ["0000:03:02.0"])
        self.assertEqual(answer.get("devices", []), [])
        [device] = answer["cdi_devices"]
        specs = cdi.load("/run/agent/cdi")
        versions = {spec["kind"]: spec["cdiVersion"] for spec in specs.values()}
        self.assertEqual(versions, {NIC: "0.5.0", RESOURCE: "0.3.0"}, "the lowest that has the content")
        names = {f"{spec['kind']}={one['name']}" for spec in specs.values() for one in spec["devices"]}
        self.assertIn(device["name"], names)
        self.assertEqual(len(names), 3)
        # Another group: another name. What a pod has stays.
        by.kill()
        os.unlink(f"{FAKE}/bus/pci/devices/0000:03:02.0/iommu_group")
        os.makedirs(f"{FAKE}/kernel/iommu_groups/18")
        os.symlink(f"{FAKE}/kernel/iommu_groups/18", f"{FAKE}/bus/pci/devices/0000:03:02.0/iommu_group")
        by.write({"pools": pools[:1]})
        by.start()
        [spec] = cdi.load("/run/agent/cdi").values()
        names = [f"{NIC}={one['name']}" for one in spec["devices"]]
        self.assertEqual(len(names), 2)
        self.assertIn(device["name"], names)

    def test_a_spec_that_the_config_has_no_more_stays_as_long_as_a_pod_has_a_device_of_it(self):
        links("eth1")
        of = self.kubelet()
        by = self.agent(slots(2, parent="eth1") | {"cdi": True, "nodes": ["/dev/vhost-net"]})
        self.assertTrue(wait_for(lambda: len(of.devices(RESOURCE)) == 2, 20), by.log)
        [answer] = of.allocate(RESOURCE, ["eth1:macvlan:1"])
        [device] = answer["cdi_devices"]
        by.kill()
        by.write({"pools": [nics("eth9")]})
        by.start()
        names = {f"{spec['kind']}={one['name']}" for spec in cdi.load("/run/agent/cdi").values() for one in spec["devices"]}
        self.assertIn(device["name"], names)
        by.kill()
        os.unlink(f"{agent.LEDGER}/eth1:macvlan:1")
        by.start()
        self.assertEqual(os.listdir("/run/agent/cdi"), [])

    def test_metrics_count(self):
        links("eth1", "eth2")
        os.makedirs("/run/metrics")
        of = self.kubelet()
        by = self.agent(nics("eth*"), flags=("--metrics-file", "/run/metrics/devices.prom"))
        self.assert_offered(of, {"netdev:eth1": "Healthy", "netdev:eth2": "Healthy"}, by=by)
        of.allocate(NIC, ["netdev:eth1"])
        set_up("out-eth2", False)
        set_up("eth2")

        def values():
            with open("/run/metrics/devices.prom", encoding="ascii") as file:
                return dict(re.findall(rf'^patchbay_agent_(\w+){{resource="{NIC}"}} (\d+)$', file.read(), re.MULTILINE))
        expected = {"devices": "2", "devices_healthy": "1", "list_read": "1", "devices_allocated": "1", "allocations_total": "1",
                    "failures_total": "0"}
        self.assertTrue(wait_for(lambda: values() == expected, 10), values())
        self.assertEqual(os.stat("/run/metrics/devices.prom").st_mode & 0o777, 0o644)


class Cost(Node):
    def test_memory_with_500_devices_and_no_processor_time_when_idle(self):
        links("eth1")
        of = self.kubelet()
        by = self.agent(slots(500, parent="eth1"))
        self.assertTrue(wait_for(lambda: len(of.devices(RESOURCE) or {}) == 500, 20), by.log)
        ids = [f"eth1:macvlan:{n}" for n in range(1, 501)]
        of.own("shop", "web-0", {RESOURCE: ids})
        of.allocate(RESOURCE, ids)
        self.assertTrue(wait_for(lambda: all("pod" in entry for entry in agent.ledger().values()), 20), by.log)
        time.sleep(2)
        begun = by.processor_seconds()
        time.sleep(10)
        used, memory = by.processor_seconds() - begun, by.memory()
        print(f"     {memory} KiB resident, {used * 10:.1f} % of a processor, {by.threads()} threads, {by.descriptors()} descriptors")
        self.assertLess(memory, 20 * 1024)
        self.assertLess(used, 0.1)

    def test_it_runs_without_any_capability(self):
        by = self.agent(slots(2))
        with open(f"/proc/{by.process.pid}/status", encoding="ascii") as file:
            found = dict(re.findall(r"^Cap(\w+):\s+([0-9a-f]+)$", file.read(), re.MULTILINE))
        self.assertEqual(set(found.values()), {"0" * 16}, found)
        with open(f"/proc/{by.process.pid}/status", encoding="ascii") as file:
            self.assertIn("NoNewPrivs:\t1", file.read())


if __name__ == "__main__":
    reason = kubelet.why_impossible() or agent.why_impossible()
    if reason:
        print(f"skip everything: {reason}\n0 passed, 0 failed, 1 skipped", flush=True)
        sys.exit(suite.SKIPPED)
    suite.main(per_processor=2)
