#!/usr/bin/env python3
"""devices: a pod gets the devices that the kubelet promised it, or does not start; DEL gives back what the ledger says."""

import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, ledger, power_loss, suite  # noqa: E402
from support.cnitool import cnitool, use  # noqa: E402
from support.doctor import write  # noqa: E402
from support.ledger import LEDGER, NIC, SLOT, TAP, LedgerTest, make_nic, make_parent, nic, pod_of, slot  # noqa: E402
from support.snapshot import left_by_design, pod_snapshot, snapshot  # noqa: E402
from support.world import mount, run  # noqa: E402

OF_NICS = "devices.vendor.example_nic"


def ignore(place):
    """What a node keeps: the ledger itself."""
    return left_by_design(place) or place.startswith(("file/var/lib/cni/devices", "file/run/cni/devices.sock"))


class Attach(LedgerTest):
    def test_a_pod_gets_a_NIC_a_macvlan_slot_and_a_tap_and_reaches_a_peer_through_each(self):
        make_nic("dev0")
        make_parent()
        ledger.put("dev0")
        ledger.put("eth1:macvlan:0", SLOT, slot())
        ledger.put("tap:0", TAP, [{"type": "tap", "ipam": ledger.pool("10.70.0.0/24")}])
        agent = self.play({"web-0": ["dev0", "eth1:macvlan:0", "tap:0"]})
        pod = self.pod()
        before = snapshot(), pod_snapshot(pod)
        result = self.add(pod)
        self.assertEqual([one["name"] for one in result["interfaces"]], ["eth0", "net1", "net2", "net3"])
        self.assertEqual([(one["address"], one["interface"]) for one in result["ips"]],
                         [("10.1.2.9/24", 0), ("10.60.0.2/24", 1), ("10.50.0.2/24", 2), ("10.70.0.2/24", 3)])
        self.ping(pod, "10.50.0.1")
        self.ping(pod, "10.60.0.1")
        self.assertIn("tun", pod.run("ip", "-d", "link", "show", "net3"))
        self.assertEqual(agent.asked[0]["pod"], pod_of("web-0"))
        self.assertEqual(set(ledger.holders().values()), {pod.name})
        self.assert_ok(self.call("CHECK", pod, prevResult=result))
        self.remove(pod)
        self.assertEqual((ledger.holders(), ledger.marks(), self.leases()), ({}, [], {}))
        self.assertEqual(ledger.entry("dev0")["pod"], pod_of("web-0"))
        self.assert_same(before[0], ignore=ignore)
        self.assert_same(before[1], pod_snapshot(pod))
        self.remove(pod)

    def test_tuning_after_the_device_changes_it_and_DEL_restores_it(self):
        make_nic("dev0")
        mac = run("ip", "-br", "link", "show", "dev0").split()[2]
        ledger.put("dev0", plugins=nic("dev0") + [{"type": "tuning", "mtu": 1400, "mac": "02:00:5e:10:20:30",
                                                   "mtuBothEnds": False}])
        self.play({"web-0": ["dev0"]})
        pod = self.pod()
        result = self.add(pod)
        self.assertEqual(result["interfaces"][1]["mac"], "02:00:5e:10:20:30")
        self.assertIn("mtu 1400", pod.run("ip", "link", "show", "net1"))
        self.remove(pod)
        shown = run("ip", "link", "show", "dev0")
        self.assertIn("mtu 1500", shown)
        self.assertIn(mac, shown)

    def test_the_pool_and_the_prefix_name_interfaces(self):
        for number in (0, 1, 2):
            make_nic(f"dev{number}", f"10.5{number}.0.1/24")
            ledger.put(f"dev{number}", plugins=nic(f"dev{number}"), interface="storage" if number else "")
        self.play({"web-0": ["dev0", "dev1", "dev2"]})
        pod = self.pod()
        pod.run("ip", "link", "add", "data1", "type", "veth", "peer", "name", "data2")
        result = self.add(pod, prefix="data")
        self.assertEqual([one["name"] for one in result["interfaces"]], ["eth0", "storage", "storage2", "data3"])

    def test_CNI_ARGS_of_the_first_interface_are_not_those_of_a_device(self):
        make_nic("dev0")
        ledger.put("dev0")
        self.play({"web-0": ["dev0"]})
        result = self.add(self.pod(), options={"args": ledger.args_of(pod_of("web-0")) + ";IP=10.1.2.77"})
        self.assertEqual(result["ips"][1]["address"], "10.50.0.2/24")

    def test_an_old_version_of_the_spec_gets_the_device(self):
        make_nic("dev0")
        ledger.put("dev0")
        self.play({"web-0": ["dev0"]})
        pod = self.pod()
        result = self.add(pod, cniVersion="0.2.0",
                          prevResult={"cniVersion": "0.2.0", "ip4": {"ip": "10.1.2.9/24"}})
        self.assertEqual(result["ip4"]["ip"], "10.1.2.9/24")
        self.ping(pod, "10.50.0.1")

    def test_a_pod_that_spoils_its_device_gives_it_back_as_it_was(self):
        make_nic("dev0")
        run("ip", "link", "set", "dev0", "mtu", "1450", "alias", "uplink")
        pod = self.pod()
        before = snapshot()
        ledger.put("dev0")
        self.play({"web-0": ["dev0"]})
        self.add(pod)
        for change in ("down", "alias dev9", "address 02:00:5e:66:66:66", "mtu 1300", "promisc on", "name other"):
            pod.run("ip", "link", "set", "net1", *change.split())
        pod.run("ip", "link", "property", "add", "dev", "other", "altname", "dev0-end")
        pod.run("ip", "link", "add", "net1", "type", "veth", "peer", "name", "net2")
        pod.run("ip", "link", "set", "net1", "alias", "dev0")
        self.remove(pod)
        self.assertEqual(ledger.holders(), {})
        self.assert_same(before, ignore=ignore)


class Fail(LedgerTest):
    def test_a_failure_of_the_second_device_gives_the_first_back(self):
        make_nic("dev0")
        ledger.put("dev0")
        ledger.put("dev1")  # which does not exist
        self.play({"web-0": ["dev0", "dev1"]})
        pod = self.pod()
        before = snapshot(), pod_snapshot(pod)
        self.assert_error(self.call("ADD", pod), 999, "attach device 'dev1' as 'net2'")
        self.assertEqual((ledger.holders(), ledger.marks(), self.leases()), ({}, [], {}))
        self.assertTrue(ledger.entry("dev0")["pod"])
        self.assert_same(before[0], ignore=ignore)
        self.assert_same(before[1], pod_snapshot(pod))
        self.remove(pod)

    def test_a_device_of_a_pod_that_runs_is_not_taken_from_it(self):
        make_nic("dev0")
        ledger.put("dev0")
        agent = self.play({"web-0": ["dev0"]})
        one, two = self.pod(), self.pod()
        self.add(one)
        agent.owned = {"web-1": ["dev0"]}
        ledger.put("dev0")
        self.assert_error(self.call("ADD", two, of="web-1"), 11, "device 'dev0' is still in container 'pod1'")
        self.ping(one, "10.50.0.1")
        self.remove(two, of="web-1")
        self.ping(one, "10.50.0.1")
        self.remove(one)
        self.add(two, of="web-1")
        self.ping(two, "10.50.0.1")

    def test_a_second_ADD_takes_nothing_from_the_first(self):
        make_nic("dev0")
        ledger.put("dev0")
        self.play({"web-0": ["dev0"]})
        pod = self.pod()
        self.add(pod)
        self.assert_error(self.call("ADD", pod), 999, "of an earlier ADD of this attachment has not been detached")
        self.ping(pod, "10.50.0.1")
        self.remove(pod)

    def test_on_a_full_disk_DEL_gives_the_device_back_and_ADD_leaves_nothing(self):
        os.makedirs(LEDGER)
        mount("tmpfs", LEDGER, kind="tmpfs", options="size=64k")
        make_nic("dev0")
        ledger.put("dev0")
        self.play({"web-0": ["dev0"]})
        pod = self.pod()
        self.add(pod)
        other = os.open(f"{LEDGER}/.other", os.O_CREAT | os.O_WRONLY)
        self.addCleanup(os.close, other)

        def fill():
            with self.assertRaises(OSError):
                while True:
                    os.write(other, b"x" * 4096)

        fill()
        self.remove(pod)
        self.assertIn("dev0", self.names())
        self.assertEqual((ledger.holders(), ledger.marks(), self.leases()), ({}, [], {}))
        fill()  # what DEL has freed
        self.assert_error(self.call("ADD", pod), 999, "no space left on device")
        self.assertEqual((ledger.holders(), ledger.marks(), self.leases(), self.names(pod)), ({}, [], {}, {"lo"}))
        os.ftruncate(other, 0)
        self.add(pod)
        self.ping(pod, "10.50.0.1")

    def test_a_late_DEL_takes_nothing_from_the_next_container(self):
        make_parent()
        ledger.put("slot0", SLOT, slot())
        self.play({"web-0": ["slot0"]})
        one, two = self.pod(), self.pod()
        self.add(one)
        one.remove()
        self.add(two)
        self.assertEqual(ledger.holders(), {"slot0": "pod2"})
        for netns in (one.path, two.path, ""):
            self.remove(None, container="pod1", options={"netns": netns})
        self.ping(two, "10.60.0.1")
        self.assertEqual(ledger.holders(), {"slot0": "pod2"})
        self.remove(two)
        self.assertEqual((ledger.holders(), self.leases()), ({}, {}))

    def test_a_new_sandbox_of_the_pod_gets_the_device_without_Allocate(self):
        make_nic("dev0")
        ledger.put("dev0")
        self.play({"web-0": ["dev0"]})
        for _ in range(3):
            pod = self.pod()
            self.add(pod)
            self.ping(pod, "10.50.0.1")
            self.remove(pod)

    def test_after_a_reboot_the_pod_gets_its_device_again(self):
        make_nic("dev0")
        make_parent()
        ledger.put("dev0")
        ledger.put("eth1:macvlan:0", SLOT, slot())
        self.play({"web-0": ["dev0", "eth1:macvlan:0"]})
        self.add(self.pod())
        kept = power_loss.read(LEDGER)
        self.agent.stop()
        self.setUp()  # another world: the links and /run of the machine are new
        make_nic("dev0")
        make_parent()
        os.makedirs(LEDGER)
        there = b'"netns":"/run/netns/'
        power_loss.write(LEDGER, {name: data.replace(there, there + b"earlier-") for name, data in kept.items()})
        self.assertEqual(os.path.basename(ledger.holder("dev0")["netns"]), "earlier-pod1")
        self.play({"web-0": ["dev0", "eth1:macvlan:0"]})
        pod = self.pod("again")
        self.add(pod)
        self.ping(pod, "10.50.0.1")
        self.ping(pod, "10.60.0.1")
        self.assertEqual(set(ledger.holders().values()), {"again"})
        self.remove(None, container="pod1", options={"netns": ""})
        self.ping(pod, "10.50.0.1")


@suite.spread
class WithoutAgent(LedgerTest):
    def test_a_node_where_the_agent_never_ran_passes_every_pod(self):
        pod = self.pod()
        result = self.add(pod)
        self.assertEqual(len(result["interfaces"]), 1)
        self.remove(pod)
        self.assertFalse(os.path.exists(LEDGER))

    @suite.cases([("is promised to a pod that is not known yet", None), ("is the pod's", "web-0"), ("is another pod's", "web-1")])
    def no_pod_passes_while_a_device_that_no_container_has(self, of):
        make_nic("dev0")
        ledger.put("dev0", pod=of and pod_of(of))
        before = snapshot()
        self.assert_error(self.call("ADD", self.pod()), 11, "device 'dev0' may be this pod's: no container of another pod has it")
        self.assert_same(before, ignore=lambda place: ignore(place) or "netns" in place)

    def test_a_pod_passes_while_other_pods_containers_have_all_devices(self):
        make_nic("dev0")
        ledger.put("dev0", pod=pod_of("web-0"), promised=1)
        self.play()
        one, other = self.pod(), self.pod()
        self.add(one)
        self.agent.stop()
        self.agent = None
        self.assertEqual(len(self.add(other, of="web-1")["interfaces"]), 1)
        self.assert_error(self.call("ADD", self.pod()), 11, "device 'dev0'")  # the next sandbox of its pod
        ledger.put("dev0", pod=None)  # the next Allocate, before DEL
        self.assert_error(self.call("ADD", other, of="web-1"), 11, "device 'dev0'")
        ledger.put("dev0", pod=pod_of("web-0"), promised=1)
        self.add(other, of="web-1")
        os.unlink(f"{LEDGER}/dev0")  # the promise is lost
        self.add(other, of="web-1")
        self.assert_error(self.call("ADD", self.pod()), 11, "device 'dev0'")
        ledger.put("dev0", pod=pod_of("web-0"), promised=1)
        run("ip", "-n", one.name, "link", "set", "net1", "netns", str(os.getpid()), "name", "dev0")
        one.remove()  # without DEL
        self.assert_error(self.call("ADD", other, of="web-1"), 11, "device 'dev0'")
        error = self.assert_error(self.call("ADD", other, of="web-1"), 11)
        remedy = f"if it was removed from the node, remove '{LEDGER}/dev0'"
        self.assertIn(remedy, error["details"])
        os.unlink(f"{LEDGER}/dev0")
        self.add(other, of="web-1")
        self.remove(None, container=one.name)
        self.assertEqual((ledger.holders(), ledger.devices()), ({}, []))

    def test_a_link_that_has_the_name_of_the_device_by_now_does_not_get_into_the_pod(self):
        make_nic("dev0")
        mac = json.loads(run("ip", "-j", "link", "show", "dev0"))[0]["address"]
        device = f"netdev:{mac.replace(':', '-')}"
        boot = open("/proc/sys/kernel/random/boot_id", encoding="utf-8").read().strip()
        claim = {"uid": "c1", "namespace": "shop", "name": "c", "request": "nic", "device": "d", "share": "",
                 "cdi": [], "parts": 1, "boot": boot}
        ledger.put(device, plugins=nic("dev0"), pod=pod_of("web-0"), promised=1, claim=claim, format=2)
        run("ip", "link", "set", "dev0", "name", "dev1")
        run("ip", "link", "add", "dev0", "address", "02:00:5e:00:00:99", "type", "veth", "peer", "name", "other0")
        pod = self.pod()
        before = snapshot(), pod_snapshot(pod)
        self.assert_error(self.call("ADD", pod), 11, f"attach device '{device}' as 'net1': link 'dev0' is another one: "
                          "its permanent MAC address is 02:00:5e:00:00:99")
        self.assert_same(before[0], ignore=ignore)
        self.assert_same(before[1], pod_snapshot(pod))
        run("ip", "link", "del", "dev0")
        self.assert_error(self.call("ADD", pod), None, "dev0")
        run("ip", "link", "set", "dev1", "name", "dev0")
        self.add(pod)
        self.ping(pod, "10.50.0.1")
        self.remove(pod)

    @suite.cases([("is silent", None), ("answers garbage", b"nonsense\n"), ("answers half a line", b'{"devices":'),
                  ("answers with an ID that is a path", b'{"devices":["../../etc/passwd"]}\n'),
                  ("answers 300 kB", b"[" * 300_000 + b"\n"), ("nests deeply", b'{"devices":' + b"[" * 500 + b"\n")])
    def has_no_answer_if_the_agent(self, answer):
        os.makedirs(LEDGER)
        self.play(answer=answer).silent = answer is None
        begin = time.monotonic()
        pod = self.pod()
        self.assertEqual(len(self.add(pod, of="web-1", timeout=1)["interfaces"]), 1)
        self.assertLess(time.monotonic() - begin, 5)
        ledger.put("dev0", pod=pod_of("web-0"))
        self.assert_error(self.call("ADD", pod, timeout=1), 11, "device 'dev0'")

    def test_an_error_of_the_agent_is_that_of_ADD(self):
        ledger.put("dev0", pod=pod_of("web-0"))
        error = {"error": {"code": 11, "msg": "ask the kubelet: not reachable", "details": "kubelet.sock"}}
        self.play(answer=json.dumps(error).encode() + b"\n")
        for of in ("web-0", "web-1"):
            self.assert_error(self.call("ADD", self.pod(), of=of), 11, "ask the kubelet: not reachable kubelet.sock")

    def test_a_device_that_the_agent_names_and_the_ledger_does_not_have_is_not_attached(self):
        os.makedirs(LEDGER)
        self.play(answer=b'{"devices":["dev0"]}\n')
        self.assert_error(self.call("ADD", self.pod()), 11, "is not the pod's in the ledger")

    def test_where_the_folder_of_the_ledger_was_removed_ADD_is_tried_again(self):
        os.makedirs(os.path.dirname(ledger.SOCKET))
        with open(ledger.SOCKET, "w", encoding="ascii"):  # as of an agent that was killed
            pass
        error = self.assert_error(self.call("ADD", self.pod()), 11, "the folder of the ledger was removed")
        self.assertIn(f"if it was removed from the node, remove '{ledger.SOCKET}'", error["details"])
        os.unlink(ledger.SOCKET)
        self.add(self.pod())

    @suite.cases([("empty", ""), ("half", '{"id": "dev0", "reso'), ("a list", "[]"), ("of another device", '{"id":"x"}'),
                  ("of a later format", '{"format":9}')])
    def does_not_pass_a_pod_if_an_entry_is(self, text):
        os.makedirs(LEDGER)
        with open(f"{LEDGER}/dev0", "w", encoding="ascii") as file:
            file.write(text)
        self.assert_error(self.call("ADD", self.pod()), 11, "device 'dev0' may be this pod's: its entry cannot be read")
        self.play(answer=b'{"devices":[]}\n')
        pod = self.pod()
        self.assertEqual(len(self.add(pod, of="web-1")["interfaces"]), 1)
        self.remove(pod)


class Required(LedgerTest):
    def test_without_a_pod_in_CNI_ARGS_ADD_fails_with_code_4_only_if_a_device_is_required(self):
        pod = self.pod()
        options = {"args": "K8S_POD_NAME=web-0"}
        self.assertEqual(len(self.add(pod, options=options)["interfaces"]), 1)
        error = self.assert_error(self.call("ADD", pod, required=True, options=options), 4)
        self.assertIn("K8S_POD_NAMESPACE, K8S_POD_UID missing", error["msg"])

    def test_without_the_UID_a_pod_passes_only_if_no_device_may_be_its(self):
        pod = self.pod()
        args = {"args": "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0"}
        self.assertEqual(len(self.add(pod, options=args)["interfaces"]), 1)
        ledger.put("dev0")
        error = self.assert_error(self.call("ADD", pod, options=args), 4)
        self.assertEqual(error["msg"], "CNI_ARGS: K8S_POD_UID missing")
        self.assertIn("'dev0' may be this pod's", error["details"])
        self.assertEqual(len(self.add(pod, options={"args": ""})["interfaces"]), 1)  # no pod of Kubernetes

    def test_a_pod_without_device_fails_with_code_11_if_one_is_required(self):
        pod = self.pod()
        self.assert_error(self.call("ADD", pod, required=True), 11, "patchbay-agent has not run on this node")
        os.makedirs(LEDGER)
        self.play({})
        self.assert_error(self.call("ADD", pod, required=True), 11, "pod 'shop/web-0' has no device")

    def test_STATUS_needs_the_agent_only_if_a_device_is_required(self):
        self.assert_ok(self.call("STATUS", None))
        self.assert_error(self.call("STATUS", None, required=True), 50, "ask patchbay-agent")
        self.play({})
        self.assert_ok(self.call("STATUS", None, required=True))

    def test_without_prevResult_ADD_fails_with_code_7(self):
        pod = self.pod()
        self.assert_error(self.call("ADD", pod, prevResult=None), 7, "This plugin must be called as chained plugin")


class Collect(LedgerTest):
    def collect(self, *valid, network="net", **more):
        return self.assert_ok(self.call("GC", None, network=network, **more, **{
            "cni.dev/valid-attachments": [{"containerID": one.name, "ifname": "eth0"} for one in valid]}))

    def attach(self, *pods, network="net"):
        for number, pod in enumerate(pods):
            make_nic(f"dev{number}", f"10.5{number}.0.1/24")
            ledger.put(f"dev{number}", plugins=nic(f"dev{number}", f"10.5{number}.0.0/24"))
            self.agent.owned[f"web-{number}"] = [f"dev{number}"]
            self.add(pod, of=f"web-{number}", network=network)

    def test_GC_gives_back_the_devices_of_attachments_that_are_not_in_the_list(self):
        self.play()
        one, two = self.pod(), self.pod()
        self.attach(one, two)
        self.collect(two)
        self.assertIn("dev0", self.names())
        self.assertEqual(ledger.holders(), {"dev1": "pod2"})
        self.assertEqual(self.leases(), {OF_NICS: ["10.51.0.2"]})
        self.ping(two, "10.51.0.1")

    def test_GC_of_another_network_takes_nothing(self):
        self.play()
        pod = self.pod()
        self.attach(pod)
        before = snapshot()
        self.collect(network="other")
        self.assert_same(before)
        self.ping(pod, "10.50.0.1")

    def test_GC_of_the_chain_s_bridge_and_its_host_local_takes_nothing_of_a_device(self):
        self.play()
        pod = self.pod()
        self.attach(pod)
        before = snapshot()
        for plugin in ("bridge", "host-device", "macvlan"):
            more = {"device": "x"} if plugin == "host-device" else {"master": "eth1"} if plugin == "macvlan" else {}
            self.assert_ok(ledger.cni(plugin, "GC", {
                "cniVersion": "1.1.0", "name": "net", "type": plugin, "ipam": ledger.pool("10.50.0.0/24"),
                "cni.dev/valid-attachments": []} | more))
        self.assert_same(before, ignore=ignore)
        self.ping(pod, "10.50.0.1")

    def later(self, name):
        """The file is of a later format from now on."""
        with open(f"{LEDGER}/{name}", "r+", encoding="utf-8") as file:
            text = file.read()
            file.seek(0)
            file.write('{"format":9,' + text[1:])

    def test_GC_takes_nothing_of_a_pod_whose_files_are_of_a_later_format(self):
        self.play()
        one, two = self.pod(), self.pod()
        self.attach(one, two)
        self.later("dev0")
        self.collect(one, two)
        self.ping(one, "10.50.0.1")
        self.later(f"{ledger.HELD}dev1")
        self.assert_error(self.call("GC", None, options={"netns": ""}, **{"cni.dev/valid-attachments": [
            {"containerID": pod.name, "ifname": "eth0"} for pod in (one, two)]}), None, "a newer version of patchbay wrote it")
        self.ping(one, "10.50.0.1")
        self.ping(two, "10.51.0.1")
        self.assertIn("10.51.0.2", self.leases()[OF_NICS])
        self.assert_error(self.call("DEL", two), None, "a newer version of patchbay wrote it")
        self.remove(one)  # its holder is readable
        self.assertIn("dev0", self.names())
        self.assertIn("dev0", ledger.devices())

    def test_delegates_collect_what_the_ledger_lost(self):
        self.play()
        one, two = self.pod(), self.pod()
        self.attach(one, two)
        os.unlink(f"{LEDGER}/{ledger.HELD}dev0")
        self.collect(one, two)
        self.assertIn("dev0", self.names())
        self.ping(two, "10.51.0.1")
        self.assertEqual(self.leases(), {OF_NICS: ["10.51.0.2"]})

    def test_GC_that_only_looks_changes_nothing_and_names_the_device(self):
        self.play()
        one, two = self.pod(), self.pod()
        self.attach(one, two)
        before = snapshot()
        found = self.collect(two, **{"patchbay/onlyLook": True})
        self.assertEqual([(item["what"], item["container"], item["alive"]) for item in found if "what" in item],
                         [("device 'dev0'", "pod1", True)])
        self.assert_same(before)

    def test_CHECK_finds_what_is_missing_and_REPAIR_changes_nothing_of_a_whole_pod(self):
        self.play()
        pod = self.pod()
        self.attach(pod)
        before = snapshot(), pod_snapshot(pod)
        self.assert_ok(self.call("REPAIR", pod))
        self.assert_same(before[0])
        self.assert_same(before[1], pod_snapshot(pod))
        pod.run("ip", "addr", "del", "10.50.0.2/24", "dev", "net1")
        self.assert_error(self.call("CHECK", pod), None, "device 'dev0'")

    def test_CHECK_finds_that_GC_with_a_wrong_list_has_detached_a_device(self):
        self.play()
        pod = self.pod()
        self.attach(pod)
        self.collect()
        self.assertEqual(self.names(pod), {"lo"})
        self.assert_error(self.call("CHECK", pod, of="web-0"), 999, "device 'dev0' of the pod is not attached to it")

    def test_RECLAIM_gives_back_the_devices_of_removed_pods(self):
        self.play()
        one, two = self.pod(), self.pod()
        self.attach(one, two)
        one.remove()
        look = self.assert_ok(self.call("RECLAIM", None, container="pod1", options={"netns": one.path},
                                        **{"patchbay/onlyLook": True}))
        self.assertIn("device 'dev0' is still attached to container 'pod1'", json.dumps(look))
        self.assertIn("dev0", ledger.holders())
        self.assert_ok(self.call("RECLAIM", None, container="pod1", options={"netns": one.path}))
        self.assertEqual(ledger.holders(), {"dev1": "pod2"})
        self.ping(two, "10.51.0.1")


class Tool(LedgerTest):
    def test_cnitool_networks_has_those_of_pools_and_where_they_come_from(self):
        try:
            agent.cover_etc()
        except OSError as e:
            self.skipTest(str(e))
        plugins = [{"type": "host-device", "ipam": ledger.pool("10.50.0.0/24")}]
        write(agent.CONFIG, json.dumps({"resourcePrefix": "vendor.example", "pools": [
            {"resource": "nic", "devices": [{"name": ["dev*"]}], "plugins": plugins},
            {"resource": "vendor.example/plain", "devices": [{"name": ["eth9"]}]}]}))
        make_nic("dev0")
        make_parent()
        ledger.put("dev0")
        ledger.put("eth1:macvlan:0", SLOT, slot())  # of a pool that the config has no longer
        self.play({"web-0": ["dev0", "eth1:macvlan:0"]})
        self.add(self.pod())
        of_config = {f"{OF_NICS} host-device(host-local) 10.50.0.0/24 1/253 1 {agent.CONFIG}",
                     f"devices.vendor.example_plain host-device - - 0 {agent.CONFIG}"}
        of_ledger = f"devices.vendor.example_macvlan macvlan(host-local) 10.60.0.0/24 1/253 1 {LEDGER}"
        got = cnitool("networks")
        self.assertEqual((got.status, got.stderr), (0, ""))
        self.assertEqual({" ".join(line.split()) for line in got.stdout.splitlines()[1:]}, of_config | {of_ledger})
        listed = cnitool("networks", "--json").json["networks"]
        self.assertEqual([one["resource"] for one in listed], [NIC, "vendor.example/plain", SLOT])
        write(f"{LEDGER}/dev7", json.dumps({"format": 2, "resource": NIC, "promised": 1}))
        got = cnitool("networks")
        self.assertEqual((got.status, len(got.stdout.splitlines())), (0, 4), got.stdout)
        self.assertIn(f"device 'dev7' is not counted: its entry in '{LEDGER}' cannot be read", got.stderr)
        os.remove(f"{LEDGER}/dev7")
        write(agent.CONFIG, "[]")
        got = cnitool("networks")
        self.assertEqual((got.status, len(got.stdout.splitlines())), (0, 3), got.stdout)
        self.assertEqual(got.stderr, f"read '{agent.CONFIG}': pools: expected a list (`cnitool validate {agent.CONFIG}` shows where)\n")

    def test_cnitool_finds_a_pod_with_devices_whole_and_repairs_nothing(self):
        make_parent()
        ledger.put("slot0", SLOT, slot(), pod=pod_of("web-0"))
        self.play()
        use({"cniVersion": "1.1.0", "name": "net", "plugins": [
            {"type": "bridge", "isGateway": True, "ipMasq": True, "ipam": ledger.pool("10.1.2.0/24")}, {"type": "devices"}]})
        pod = self.pod()
        known = {"CNI_ARGS": ledger.args_of(pod_of("web-0"))}
        self.assert_ok(cnitool("add", "net", pod.path, **known))
        before = snapshot(), pod_snapshot(pod)
        self.assert_ok(cnitool("check", "net", pod.path, **known))
        repaired = cnitool("repair")
        self.assertIn(" ok", repaired.stdout, str(repaired))
        self.assertNotIn("pods:", cnitool("doctor").stdout)
        self.assertIn("10.60.0.2/24", cnitool("list").stdout)
        drawn = [line.strip(" │") for line in cnitool("graph").stdout.splitlines()]
        self.assertEqual(drawn[drawn.index("10.1.2.2/24") + 2:][:2], ["macvlan on eth1", "10.60.0.2/24"])
        self.assertEqual(cnitool("gc", "--dry-run", "--keep-alive").stdout, "")
        self.assert_same(before[0])
        self.assert_same(before[1], pod_snapshot(pod))
        self.assertEqual(cnitool("del", "net", pod.path, **known).status, 0)
        self.assertEqual((ledger.holders(), self.leases()), ({}, {}))


if __name__ == "__main__":
    suite.main(needs=("ping",))
