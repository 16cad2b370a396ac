#!/usr/bin/env python3
"""host-device: nothing that root in a pod does, no end of its namespace and no kill changes how DEL, GC,
REPAIR or the next ADD give the device back. What the device was is kept on the node alone."""

import contextlib
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import bpf, suite  # noqa: E402
from support.cnitool import RESULTS, cache_names, cnitool, use  # noqa: E402
from support.configs import GC  # noqa: E402
from support.devices import MAC, STATES, STATIC, DeviceTest, configure, links, make, states  # noqa: E402
from support.snapshot import left_by_design, pod_snapshot, snapshot  # noqa: E402
from support.world import run, wait_for  # noqa: E402

RENAMED = ["link set eth0 down", "link set eth0 name other"]
#: What a pod does to its links, one command of ip(8) each.
DEEDS = [
    ("renames it", RENAMED),
    ("renames it to the name on the node", ["link set eth0 down", "link set eth0 name dev0"]),
    ("changes its alias", ["link set eth0 alias dev9"]),
    ("removes its alias", ["link set eth0 alias ''"]),
    ("changes its MAC address", ["link set eth0 address 02:00:5e:99:99:99"]),
    ("changes its MTU", ["link set eth0 mtu 1300"]),
    ("sets it down", ["link set eth0 down"]),
    ("sets it promiscuous", ["link set eth0 promisc on"]),
    ("removes its addresses", ["address flush dev eth0"]),
    ("sets flags", [f"link set eth0 {flag}" for flag in ("arp off", "allmulticast on", "multicast off", "trailers off")]),
    ("sets it dormant", ["link set eth0 mode dormant"]),
    ("changes its group", ["link set eth0 group 7"]),
    ("changes its queue length", ["link set eth0 txqueuelen 0"]),
    ("changes its GSO and GRO limits", [
        "link set eth0 gso_max_size 5000 gso_max_segs 5", "link set eth0 gro_max_size 5000"]),
    ("gives it the name of a link of the node", ["link property add dev eth0 altname dev0-end"]),
    ("gives it the name that it has on the node", ["link property add dev eth0 altname dev0"]),
    ("gives it the name lo", ["link set lo down", "link set lo name other", "link property add dev eth0 altname lo"]),
    ("gives it another name", ["link property add dev eth0 altname cni0"]),
    ("gives it hundreds of names", [f"link property add dev eth0 altname {'n' * 120}{i}" for i in range(300)]),
    ("removes its alternative name", ["link property del dev eth0 altname an-altname-of-the-node"]),
    ("makes it a port of a bridge", ["link add br0 type bridge", "link set eth0 master br0"]),
    ("stacks a macvlan on it", ["link add link eth0 up0 type macvlan", "link set up0 up"]),
    ("makes a bridge under its name", [*RENAMED, "link add eth0 address " + MAC + " type bridge",
                                       "link set eth0 alias dev0"]),
    ("makes another veth under its name", [*RENAMED, "link add eth0 address " + MAC + " type veth peer name e",
                                           "link set eth0 alias dev0"]),
    ("makes another veth with its MAC address and gives it another one",
     ["link set eth0 address 02:00:5e:99:99:99", *RENAMED, "link add eth0 type veth peer name dev0",
      "link set eth0 address " + MAC, "link set eth0 alias dev0 mtu 1400"]),
    ("does all of it", ["link set eth0 address 02:00:5e:99:99:99 mtu 1300 promisc off alias lo", *RENAMED,
                        "link add eth0 address " + MAC + " type veth peer name dev0", "link set eth0 alias dev0"]),
]


#: What of a device the node itself set beside SETTINGS.
OF_THE_NODE = """link set dev0 group 3
link set dev0 txqueuelen 500
link set dev0 allmulticast on
link set dev0 gso_max_size 60000
link property add dev dev0 altname an-altname-of-the-node
"""


class Stage(DeviceTest):
    def prepare(self, conf=None, up=True):
        make()
        configure(up=up)
        run("ip", "-batch", "-", stdin=OF_THE_NODE)
        self.before = snapshot()
        self.conf = {"device": "dev0", "ipam": STATIC} if conf is None else conf
        return self.add(self.conf)

    def assert_back(self, ignore=left_by_design):
        self.assert_same(self.before, ignore=ignore)
        self.assertEqual(states(), [])


@suite.spread
class Hostile(Stage):
    @suite.cases([(f"{name}, {verb}", (deed, verb)) for name, deed in DEEDS for verb in ("DEL", "GC")])
    def a_pod_that(self, row):
        deed, verb = row
        self.prepare()
        run("ip", "-n", self.one.name, "-batch", "-", stdin="\n".join(deed) + "\n")
        self.assert_ok(self.call(verb, self.conf | (GC if verb == "GC" else {})))
        self.assert_back()
        self.assertNotIn(MAC, [one["address"] for one in links(self.one).values()
                               if one.get("linkinfo", {}).get("info_kind") == "macvlan"])

    def test_a_name_that_the_pod_adds_all_the_time_does_not_keep_the_device_from_the_node(self):
        for name in ("dev0-end", "dev0"):
            self.prepare()
            with self.busy_pod(*3 * [f"yes link property add dev eth0 altname {name} | head -n 1000"]):
                self.remove(self.conf)
            self.assert_back()
            run("ip", "link", "del", "dev0")

    @contextlib.contextmanager
    def busy_pod(self, *scripts):
        """For each script a process of the pod that gives its output to ip(8) again and again."""
        with self.one.inside():
            busy = [subprocess.Popen(["sh", "-c", f"while :; do {{ {script}; }} | ip -force -batch - 2>/dev/null; done"],
                                     start_new_session=True) for script in scripts]
        try:
            yield
        finally:
            for one in busy:
                os.killpg(one.pid, signal.SIGKILL)
                one.wait()

    def test_links_that_come_and_go_without_end_do_not_hold_up_DEL(self):
        self.prepare()
        self.one.run("ip", "-batch", "-", stdin="\n".join(
            f"link add a{i} type veth peer name b{i}" for i in range(500)) + "\n")
        with self.busy_pod(*(f"for i in 1 2 3 4 5 6 7 8 9; do echo link add c{n}$i type bridge; done; "
                             f"for i in 1 2 3 4 5 6 7 8 9; do echo link del c{n}$i; done" for n in range(3))):
            self.remove(self.conf)
        self.assert_back()

    def test_links_of_pods_that_the_pod_stacked_on_the_device_are_removed_wherever_they_are(self):
        other = self.pod()
        self.prepare()
        for name in ("here", "there"):
            self.one.run("ip", "link", "add", "link", "eth0", name, "type", "macvlan")
        self.one.run("ip", "link", "set", "there", "netns", other.name)
        other.run("ip", "link", "set", "there", "up")
        self.remove(self.conf)
        self.assert_back()
        self.assertEqual((links(self.one).keys(), links(other).keys()), ({"lo"}, {"lo"}))

    def test_links_that_stood_on_the_device_before_it_was_moved_stay(self):
        make()
        other = self.pod()
        run("ip", "link", "add", "link", "dev0", "before", "netns", other.name, "type", "macvlan")
        run("ip", "link", "add", "link", "dev0", "node", "type", "macvlan")
        self.add()
        self.one.run("ip", "link", "add", "link", "eth0", "spy", "type", "macvlan")
        self.one.run("ip", "link", "set", "spy", "netns", other.name)
        self.remove()
        self.assertEqual(links(other).keys(), {"lo", "before"})
        self.assertEqual(links().keys(), {"lo", "dev0-end", "dev0", "node"})

    @suite.cases([(name, name) for name in ("xdp", "xdpgeneric", "xdp by BPF link", "tcx", "tcx by BPF link")])
    def no_program_of_the_pod_is_left_that_it_attached_as(self, how):
        make()
        far = self.pod("far")
        run("ip", "link", "set", "dev0-end", "netns", far.name)
        far.run("ip", "-batch", "-", stdin="addr add 10.5.0.2/24 dev dev0-end\nlink set dev0-end up\n")
        run("ip", "-batch", "-", stdin="addr add 10.5.0.1/24 dev dev0\nlink set dev0 up\n")
        kind = how[:3]
        own, foreign = self.program(kind, True), self.program(kind, False)
        before = snapshot()
        self.add()
        held = None
        with self.one.inside():
            try:
                if "link" in how:
                    held = bpf.attach_by_link(kind, foreign, "eth0")
                elif kind == "tcx":
                    bpf.attach_tcx(foreign, "eth0")
                else:
                    bpf.attach_xdp(foreign, "eth0", how)
            except OSError as error:
                self.skipTest(f"this kernel cannot attach it: {error}")
        os.close(foreign)
        self.remove()
        self.assert_same(before, ignore=left_by_design)
        run("ping", "-c1", "-w5", "10.5.0.2")
        if held is not None:
            os.close(held)
        if kind == "tcx":
            bpf.attach_tcx(own, "dev0")
            attached = bpf.tcx_programs("dev0")
        else:
            bpf.attach_xdp(own, "dev0")
            attached = links()["dev0"]["xdp"]
        self.add()
        self.remove()
        self.assertEqual(attached, bpf.tcx_programs("dev0") if kind == "tcx" else links()["dev0"]["xdp"])
        os.close(own)

    def program(self, kind, passes):
        verdict = {("xdp", True): bpf.XDP_PASS, ("xdp", False): bpf.XDP_DROP, ("tcx", True): bpf.TCX_PASS,
                   ("tcx", False): bpf.TCX_DROP}[kind, passes]
        try:
            return bpf.load(kind, verdict)
        except OSError as error:
            self.skipTest(f"no program can be loaded: {error}")

    def test_CHECK_tells_an_impostor_from_the_device(self):
        result = self.prepare()
        run("ip", "-n", self.one.name, "-batch", "-", stdin="link set eth0 down\nlink set eth0 name other\n"
            f"link add eth0 address {MAC} type veth peer name e\nlink set eth0 up\n"
            "addr add 10.1.2.9/24 dev eth0\naddr add fd00:1::9/64 dev eth0\n")
        self.assert_error(self.call("CHECK", self.conf | {"prevResult": result}), 999, "'other'")

    def test_the_last_veth_of_a_pod_that_deleted_the_device_does_not_get_onto_the_node(self):
        self.prepare()
        index = links(self.one)["eth0"]["ifindex"]
        self.one.run("ip", "link", "del", "eth0")
        self.one.run("ip", "link", "add", "eth0", "index", str(index), "address", MAC, "type", "veth",
                     "peer", "name", "e")
        self.one.run("ip", "link", "set", "eth0", "alias", "other")
        self.remove(self.conf)
        self.assertEqual(links().keys(), {"lo"})

    @suite.cases([("device", ({"device": "dev0"}, "dev0")), ("hwaddr", ({"hwaddr": MAC}, "cni0"))])
    def a_second_DEL_leaves_a_link_with_a_forged_alias_in_the_pod(self, row):
        conf, alias = row
        self.prepare(conf)
        self.one.run("ip", "-batch", "-", stdin="\n".join([
            *RENAMED, f"link add eth0 address {MAC} type veth peer name e", f"link set eth0 alias {alias}"]))
        self.remove(conf)
        other = self.pod()
        self.add(conf, pod=other)
        inside = pod_snapshot(self.one)
        for _ in range(2):
            self.remove(conf)
            self.assertEqual(links().keys(), {"lo", "dev0-end"})
            self.assert_same(inside, pod_snapshot(self.one))
        self.remove(conf, pod=other)
        self.assertIn("dev0", links())

    def test_another_attachment_does_not_get_the_device_by_its_name_in_the_pod(self):
        self.prepare()
        self.one.run("ip", "link", "set", "eth0", "alias", "dev0")
        self.remove({"device": "dev0", "name": "net2"})
        self.assertIn("eth0", links(self.one))
        self.remove(self.conf, ifname="net1")
        self.assertIn("eth0", links(self.one))

    def test_a_link_of_a_pod_whose_path_has_a_new_namespace_is_not_taken(self):
        self.prepare()
        index = links(self.one)["eth0"]["ifindex"]
        self.one.remove()
        again = self.pod(self.one.name)
        again.run("ip", "link", "add", "eth0", "index", str(index), "type", "veth", "peer", "name", "e")
        inside = pod_snapshot(again)
        self.remove(self.conf)
        self.assert_same(inside, pod_snapshot(again))
        self.assertEqual(states(), [])


def hold(test):
    """The device is on the node under the name that it had in the pod, down and bare: as the kernel leaves
    hardware when a namespace ends."""
    run("ip", "-n", test.one.name, "link", "set", "eth0", "netns", str(os.getpid()))
    test.one.remove()


def killed(test):
    """DEL was killed between the device's return and its restoration."""
    run("ip", "-n", test.one.name, "link", "set", "eth0", "netns", str(os.getpid()), "name", "dev0")


def undone(test):
    """ADD was killed when it had written the state file."""
    killed(test)
    configure()


RETURNS = [("a namespace that ended", hold), ("a DEL that was killed", killed), ("an ADD that was killed", undone)]


@suite.spread
class Returned(Stage):
    @suite.cases([(f"{what}: {verb}", (act, verb)) for what, act in RETURNS
                  for verb in ("DEL", "DEL without CNI_NETNS", "GC", "ADD", "REPAIR")])
    def device_is_restored_after(self, row):
        act, verb = row
        beside = self.pod("beside")
        make(name="dev1")
        other = {"device": "dev1"}
        result = self.add(other, pod=beside)
        self.prepare()
        act(self)
        if verb.startswith("DEL"):
            for _ in range(2):
                self.remove(self.conf, **({"netns": ""} if "without" in verb else {}))
        elif verb == "GC":
            listed = {"cni.dev/valid-attachments": [{"containerID": "beside", "ifname": "eth0"}]}
            self.assert_ok(self.call("GC", self.conf | listed))
        elif verb == "ADD":
            new = self.pod("new")
            self.add(self.conf, pod=new)
            self.remove(self.conf, pod=new)
            new.remove()
        else:
            answer = self.assert_ok(self.call("REPAIR", other | {"prevResult": result}, pod=beside))
            self.assertIn("device 'dev0' of container 'pod1'", str(answer))
        self.assertEqual(len(states()), 1)
        self.assert_same(self.before, ignore=lambda place: left_by_design(place) or "/netns/pod1" in place)

    def add_by_cnitool(self, *flags, version="1.1.0"):
        make()
        configure()
        self.before = self.device()
        use({"cniVersion": version, "name": "net1", "plugins": [
            {"type": "host-device", "device": "dev0", "ipam": STATIC}]})
        return cnitool("add", "net1", self.one.path, *flags)

    def device(self):
        return {place: what for place, what in snapshot().items() if "dev0" in place}

    def repair(self, status=0, *flags):
        done = cnitool("repair", "--json", *flags)
        self.assertEqual(done.status, status, str(done))
        return done.json["attachments"][0]

    @suite.cases([(f"{what}, {version}", (act, outcome, version)) for what, act, outcome in (
        ("a namespace that ended", hold, "repaired"), ("a DEL that was killed", killed, "failed"),
        ("a namespace that ended after a DEL that was killed", lambda test: (killed(test), test.one.remove()),
         "repaired")) for version in ("0.3.1", "1.1.0") if (what, version) != ("a DEL that was killed", "0.3.1")])
    def cnitool_repair_restores_the_device_after(self, row):
        """A pod that lives has to be restarted all the same."""
        act, outcome, version = row
        self.assert_ok(self.add_by_cnitool(version=version))
        act(self)
        self.assertEqual(self.repair(1, "--dry-run")["outcome"], "failed" if outcome == "failed" else "broken")
        self.assertNotEqual(self.before, self.device())
        one = self.repair(1 if outcome == "failed" else 0)
        self.assertEqual(one["outcome"], outcome)
        self.assertIn("device 'dev0' of container", one["found"][0]["what"])
        self.assertEqual((self.before, states()), (self.device(), []))
        self.assertEqual(self.repair(1 if outcome == "failed" else 0)["outcome"],
                         "failed" if outcome == "failed" else "skipped")
        self.assert_ok(cnitool("del", "net1", self.one.path))
        self.assertEqual(self.before, self.device())

    def test_cnitool_repair_restores_the_device_of_an_ADD_that_was_killed(self):
        self.assert_ok(self.add_by_cnitool())
        name, = cache_names()
        with open(f"{RESULTS}/{name}", encoding="utf-8") as file:
            entry = json.load(file)
        del entry["result"]
        with open(f"{RESULTS}/{name}", "w", encoding="utf-8") as file:
            json.dump(entry, file)
        undone(self)
        self.assertEqual(self.repair()["outcome"], "repaired")
        self.assertEqual((self.before, states()), (self.device(), []))

    def test_cnitool_repair_names_what_is_in_the_way_of_the_device(self):
        self.assert_ok(self.add_by_cnitool())
        hold(self)
        run("ip", "link", "add", "dev0", "type", "bridge")
        self.assertIn('failed to move "dev0" to hostNS: file exists', str(self.repair(1)["error"]))
        self.assertEqual(len(states()), 1)
        other = self.pod()
        make(name="dev1")
        self.add({"device": "dev1"}, pod=other)  # which only notes it
        run("ip", "link", "del", "dev0")
        self.assertEqual(self.repair()["outcome"], "repaired")
        self.assertEqual(self.before, self.device())

    def test_DEL_of_a_device_that_went_with_its_namespace_succeeds(self):
        self.prepare()
        self.one.remove()
        for netns in (self.one.path, ""):
            self.remove(self.conf, netns=netns)
        self.assertEqual(states(), [])
        self.assertTrue(wait_for(lambda: links().keys() == {"lo"}), "the kernel removes it late")

    def test_DEL_with_an_empty_CNI_NETNS_releases_the_address(self):
        ipam = {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}]]}
        self.prepare({"device": "dev0", "ipam": ipam})
        self.remove(self.conf, netns="")
        self.assertFalse(os.path.exists("/var/lib/cni/networks/net1/10.1.2.2"))
        self.assert_back()

    @suite.cases([("torn", 40), ("empty", 0)])
    def a_state_file_is_no_obstacle_that_is(self, length):
        self.prepare()
        name, = states()
        os.truncate(f"{STATES}/{name}", length)
        other = self.pod()
        make(name="dev1")
        self.add({"device": "dev1"}, pod=other)
        self.remove({"device": "dev1"}, pod=other)
        self.assert_ok(self.call("GC", self.conf | {"cni.dev/valid-attachments": [
            {"containerID": "pod1", "ifname": "eth0"}]}))
        self.remove(self.conf)
        self.assertNotIn("dev0", links(), "nothing tells a veth without state file from the pod's own")
        self.assertIn("eth0", links(self.one))
        self.assertEqual(states(), [])

    def test_GC_keeps_what_is_listed_and_what_is_another_networks(self):
        self.prepare()
        inside = pod_snapshot(self.one)
        listed = {"cni.dev/valid-attachments": [{"containerID": "pod1", "ifname": "eth0"}]}
        for more in (listed, {}, GC | {"name": "net2"}):
            self.assert_ok(self.call("GC", self.conf | more))
            self.assert_same(inside, pod_snapshot(self.one))
        self.assert_ok(self.call("GC", self.conf | GC))
        self.assert_back()


if __name__ == "__main__":
    suite.main(per_processor=2)
