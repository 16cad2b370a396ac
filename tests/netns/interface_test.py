#!/usr/bin/env python3
"""The life of a pod's interface, the same for every plugin that makes one: what ADD reports is what ip(8)
shows, CHECK notices what changed, DEL and GC leave nothing, and nobody else's interface is touched. The
plugins and their configs are those of support/configs.py."""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.announced import Listener  # noqa: E402
from support.configs import CONFIGS, GC, config, give_device, lack, own_of, provide, remove_devices  # noqa: E402
from support.plugin import OURS, PLUGINS, REFERENCE, cni, finish, has_reference, start  # noqa: E402
from support.snapshot import left_by_design, left_by_failed_add, pod_snapshot, snapshot  # noqa: E402
from support.world import Pod, run, umount, wait_for  # noqa: E402

EACH = [(plugin, plugin) for plugin in PLUGINS if CONFIGS[plugin].kind]
#: Those whose interface is on a segment with others, and keys that change when they announce it there.
ON_SEGMENT = [(f"{plugin}{''.join(f', {key}' for key in more)}", (plugin, more)) for plugin, more in (
    ("bridge", {}), ("bridge", {"enabledad": True}), ("host-device", {}), ("host-device", {"enabledad": True}),
    ("ipvlan", {}), ("macvlan", {}), ("macvlan", {"enabledad": True}), ("ptp", {}), ("vlan", {}))]
BOTH = {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1:2::/64"}]]}
LEASE = "/var/lib/cni/networks/net1/10.1.2.2"


class Stage(suite.NodeTest):
    """A node with a pod for the plugin."""

    def prepare(self, plugin):
        if reason := provide(plugin):
            self.skipTest(reason)
        self.plugin, self.conf = plugin, config(plugin, "1.1.0")
        self.empty = self.node_state()
        self.one = self.pod()

    def call(self, verb, pod=None, more=None, **options):
        pod = pod or self.one
        own = own_of(self.plugin, int(pod.name.removeprefix("pod")))
        if CONFIGS[self.plugin].device:
            own = {"device": f"dev-{pod.name}"}
        return cni(self.plugin, verb, self.conf | own | (more or {}),
                   **({"netns": pod.path, "container": pod.name} | options))

    def add(self, pod=None, more=None):
        give_device(self.plugin, f"dev-{(pod or self.one).name}")
        return self.assert_ok(self.call("ADD", pod, more))

    def node_state(self):
        """Without the count of links that stand on the master: it also has those in a namespace which a
        process holds, or which the kernel has not removed yet."""
        state = snapshot()
        state.get(f"link/{CONFIGS[self.plugin].master}", {}).pop("promiscuity", None)
        return state

    def links(self):
        """The pod's links as ip(8) shows them, by name."""
        return {one["ifname"]: one for one in json.loads(self.one.run("ip", "-j", "-d", "address", "show"))}

    def assert_left_nothing(self):
        with contextlib.suppress(FileNotFoundError):
            self.one.remove()
        remove_devices()
        self.assert_same(self.empty, self.node_state(), ignore=left_by_design)


def keep(test):
    pass


def remove_namespace(test):
    test.one.remove()


def leave_mount_point(test):
    umount(test.one.path)


def hold_namespace(test):
    """The file is gone, and a process keeps the namespace."""
    with test.one.inside():
        process = subprocess.Popen(["sleep", "1000"])
    test.addCleanup(process.wait)
    test.addCleanup(process.kill)
    test.one.remove()


def remove_interface(test):
    test.one.run("ip", "link", "del", "eth0")


def rename_interface(test):
    test.one.run("ip", "link", "set", "eth0", "down")
    test.one.run("ip", "link", "set", "eth0", "name", "other")


#: What happened between ADD and DEL, and how DEL is called.
SITUATIONS = [("as usual", keep, {}), ("with the namespace gone", remove_namespace, {}),
              ("with an empty mount point in its place", leave_mount_point, {}),
              ("with the namespace held by a process", hold_namespace, {}),
              ("with CNI_NETNS empty", hold_namespace, {"netns": ""}),
              ("with the interface gone", remove_interface, {}),
              ("with the interface renamed by the pod", rename_interface, {})]
#: What CHECK notices: a command in the pod, and what the error names.
DAMAGE = [("that it is down", ("link", "set", "eth0", "down"), "down"),
          ("that it is gone", ("link", "del", "eth0"), "eth0"),
          ("another MAC address", ("link", "set", "eth0", "address", "02:00:5e:99:99:99"), "02:00:5e:99:99:99"),
          ("a missing address", ("address", "flush", "dev", "eth0"), "10.1.2.2/24"),
          ("a missing route", ("route", "del", "default"), "0.0.0.0/0"),
          ("a default route by another gateway",
           ("route", "replace", "default", "via", "10.1.2.9", "dev", "eth0", "onlink"), "0.0.0.0/0")]


#: Of a container whose namespace's path is another's by now, or that has no such interface: whether ADD and DEL
#: of it came before.
CALLS = [("a late DEL", True, False), ("a second DEL", True, True), ("DEL of what no ADD made", False, False)]
#: The interface of the living container at that path: who made it, and its name.
LIVING = [("an interface", OURS, "eth0"), ("an interface with another name", OURS, "net1"),
          ("an interface of the reference plugin", REFERENCE, "eth0"),
          ("an interface of the reference plugin with another name", REFERENCE, "net1")]


def late_calls():
    """(name, (plugin, added, removed, with prevResult, made by, ifname)). Without prevResult nothing tells the
    reference plugin's interface with CNI_IFNAME from the container's own: DEL removes it, as that plugin's does."""
    for (plugin, _), (call, *before), (living, maker, ifname), prev in itertools.product(
            EACH, CALLS, LIVING, (True, False)):
        if (prev and not before[0]) or (maker == REFERENCE and ifname == "eth0" and not prev):
            continue
        word = "with" if prev else "without"
        yield f"{plugin}, {call}, {living}, {word} prevResult", (plugin, *before, prev, maker, ifname)


def with_each(table):
    """(name, (plugin, row)) of a table whose rows begin with their name."""
    return [(f"{plugin}, {row[0]}", (plugin, row[1:])) for (plugin, _), row in itertools.product(EACH, table)]


@suite.spread
class Interface(Stage):
    @suite.cases(EACH)
    def the_result_is_what_ip_shows_of(self, plugin):
        self.prepare(plugin)
        result = self.add()
        link, address = self.links()["eth0"], result["ips"][0]
        entry = result["interfaces"][address["interface"]]
        self.assertEqual((entry["name"], entry["mac"], entry["sandbox"]),
                         ("eth0", link["address"], self.one.path))
        self.assertEqual(link["linkinfo"]["info_kind"], CONFIGS[plugin].kind)
        self.assertIn("UP", link["flags"])
        self.assertEqual([f"{one['local']}/{one['prefixlen']}" for one in link["addr_info"]
                          if one["family"] == "inet"], [address["address"]])
        default, = json.loads(self.one.run("ip", "-j", "route", "show", "default"))
        self.assertEqual((default["gateway"], default["dev"]), ("10.1.2.1", "eth0"))

    @suite.cases(ON_SEGMENT)
    def neighbours_hear_a_frame_that_announces_each_address_of(self, case):
        plugin, more = case
        self.prepare(plugin)
        give_device(plugin, "dev-pod1")
        if CONFIGS[plugin].device:
            run("ip", "link", "set", "dev-pod1-end", "up")
        with Listener() as listener:
            result = self.add(more=more | {"ipam": BOTH})
            addresses = [one["address"].split("/")[0] for one in result["ips"]]
            self.assertEqual(len(addresses), 2)
            self.assertEqual(listener.lacks(self.links()["eth0"]["address"], addresses), [])

    @suite.cases(EACH)
    def CHECK_and_STATUS_accept_it_and_change_nothing_of(self, plugin):
        self.prepare(plugin)
        result = self.add()
        before = snapshot(), pod_snapshot(self.one)
        self.assert_ok(self.call("CHECK", more={"prevResult": result}))
        self.assert_ok(self.call("STATUS"))
        self.assert_same(before[0])
        self.assert_same(before[1], pod_snapshot(self.one))

    @suite.cases(with_each(DAMAGE))
    def CHECK_notices(self, case):
        plugin, (command, named) = case
        self.prepare(plugin)
        result = self.add()
        try:
            self.one.run("ip", *command)
        except RuntimeError as error:
            if "Operation not supported" not in str(error):
                raise
            self.skipTest(f"the kernel allows nobody to change it: {error}")
        self.assert_error(self.call("CHECK", more={"prevResult": result}), msg=named)

    @suite.cases([("macvlan", ("macvlan", "macvlan (CONFIG_MACVLAN)")), ("ipvlan", ("ipvlan", "ipvlan (CONFIG_IPVLAN)")),
                  ("vlan", ("vlan", "8021q (CONFIG_VLAN_8021Q)")), ("dummy", ("dummy", "dummy (CONFIG_DUMMY)")),
                  ("vrf", ("vrf", "vrf (CONFIG_NET_VRF)"))])
    def STATUS_and_ADD_name_the_module_that_the_kernel_lacks(self, row):
        plugin, module = row
        if not lack(plugin):
            self.skipTest(f"this kernel has links of kind {plugin}")
        if master := CONFIGS[plugin].master:
            run("ip", "link", "add", master, "type", "veth", "peer", "name", "other0")
            run("ip", "link", "set", master, "up")
        conf = config(plugin, "1.1.0")
        error = self.assert_error(cni(plugin, "STATUS", conf), 50, f"the kernel cannot make links of kind {plugin}")
        self.assertIn(f"modprobe {module}", error["details"])
        if plugin == "vrf":
            return  # ADD needs an interface of another plugin
        error = self.assert_error(cni(plugin, "ADD", conf, netns=self.pod().path), 999)
        self.assertEqual(error["msg"], f"failed to create {plugin}: operation not supported")
        self.assertIn(f"modprobe {module}", error["details"])

    @suite.cases(EACH)
    def CHECK_and_STATUS_ask_IPAM_for(self, plugin):
        self.prepare(plugin)
        result = self.add()
        os.unlink(LEASE)
        self.assert_error(self.call("CHECK", more={"prevResult": result}))
        self.assert_error(self.call("STATUS", more={"ipam": {"type": "absent"}}), msg="absent")

    @suite.cases([(f"{name}, {'with' if prev else 'without'} prevResult", (*case, prev))
                  for (name, case), prev in itertools.product(with_each(SITUATIONS), (True, False))])
    def DEL_leaves_nothing(self, case):
        plugin, (act, options), prev = case
        self.prepare(plugin)
        result = self.add()
        act(self)
        for _ in range(2):
            removed = self.call("DEL", more={"prevResult": result} if prev else {}, **options)
            self.assertEqual((removed.status, removed.stdout), (0, ""), str(removed))
        if act in (keep, rename_interface):
            self.assertEqual(self.links().keys(), {"lo"})
        self.assert_left_nothing()

    @suite.cases(EACH)
    def DEL_before_any_ADD_changes_nothing_for(self, plugin):
        self.prepare(plugin)
        give_device(plugin, "dev-pod1")
        before = snapshot(), pod_snapshot(self.one)
        for netns in (self.one.path, self.one.path, "", "/run/netns/absent"):
            removed = self.call("DEL", netns=netns)
            self.assertEqual((removed.status, removed.stdout), (0, ""), str(removed))
        self.assert_same(before[0], ignore=left_by_design)
        self.assert_same(before[1], pod_snapshot(self.one))
        self.add()

    @suite.cases(EACH)
    def a_failed_ADD_leaves_nothing_and_can_be_repeated_for(self, plugin):
        self.prepare(plugin)
        give_device(plugin, "dev-pod1")
        before = snapshot(), pod_snapshot(self.one)
        unreachable = self.conf["ipam"] | {"routes": [{"dst": "10.9.0.0/16", "gw": "10.8.8.8"}]}
        for ipam in (unreachable, {"type": "absent"}, {"type": "static", "addresses": []}):
            self.assert_error(self.call("ADD", more={"ipam": ipam}))
            self.assert_same(before[0], ignore=left_by_failed_add)
            self.assert_same(before[1], pod_snapshot(self.one))
        self.add()

    @suite.cases(EACH)
    def an_interface_of_that_name_is_refused_and_stays_for(self, plugin):
        self.prepare(plugin)
        self.one.run("ip", "link", "add", "eth0", "type", "bridge")
        before = snapshot(), pod_snapshot(self.one)
        self.assert_error(self.call("ADD"), msg="eth0")
        self.assert_ok(self.call("DEL"))  # as the runtime calls it then
        self.assert_same(before[0], ignore=left_by_design)
        self.assert_same(before[1], pod_snapshot(self.one))

    @suite.cases(EACH)
    def a_link_of_the_node_with_that_name_is_not_in_the_way_of(self, plugin):
        """Kernels before 6.15 create a link beside its parent first, and move it then."""
        self.prepare(plugin)
        give_device(plugin, "dev-pod1")
        run("ip", "link", "add", "eth0", "type", "bridge")
        before = snapshot(), pod_snapshot(self.one)
        self.assert_error(self.call("ADD", more={"ipam": {"type": "static", "addresses": []}}))
        self.assert_same(before[1], pod_snapshot(self.one))
        result = self.add()
        self.assert_ok(self.call("CHECK", more={"prevResult": result}))
        self.assertEqual(self.links()["eth0"]["linkinfo"]["info_kind"], CONFIGS[plugin].kind)
        self.assert_ok(self.call("DEL"))
        self.assertEqual(self.links().keys(), {"lo"})
        self.assert_same(before[0], ignore=left_by_design)

    @suite.cases(EACH)
    def another_network_of_the_pod_does_not_remove_it_for(self, plugin):
        self.prepare(plugin)
        self.add()
        before = snapshot(), pod_snapshot(self.one)
        other = {"name": "net2", "ipam": self.conf["ipam"] | {"dataDir": "/var/lib/cni/other"}}
        self.assert_error(self.call("ADD", more=other))
        self.assert_ok(self.call("DEL", more=other))
        self.assert_same(before[0], ignore=lambda place: left_by_design(place) and "cni0" not in place)
        self.assert_same(before[1], pod_snapshot(self.one))

    @suite.cases(list(late_calls()))
    def a_living_container_keeps(self, case):
        plugin, added, removed, prev, maker, ifname = case
        if not os.access(os.path.join(maker, plugin), os.X_OK):
            self.skipTest("the Go plugin is not installed")
        self.prepare(plugin)
        result = self.add() if added else None
        more = {"prevResult": result} if prev else {}
        if removed:
            self.assert_ok(self.call("DEL", more=more))
        self.one.remove()
        self.one = Pod(self.one.name)
        name = "pod2"  # a device, a VLAN, a container of its own
        give_device(plugin, f"dev-{name}")
        own = {"device": f"dev-{name}"} if CONFIGS[plugin].device else own_of(plugin, 2)
        living = {"netns": self.one.path, "container": name, "ifname": ifname}
        conf = self.conf | own | {"cniVersion": "1.0.0"}
        kept = self.assert_ok(cni(plugin, "ADD", conf, directory=maker, **living))
        before = pod_snapshot(self.one)
        for _ in range(2):
            self.assert_ok(self.call("DEL", more=more))
            self.assert_same(before, pod_snapshot(self.one))
        self.assertIn("UP", self.links()[ifname]["flags"])
        if CONFIGS[plugin].device and maker == REFERENCE:
            return  # nothing on the node says that the device is the node's
        self.assert_ok(cni(plugin, "DEL", conf | {"prevResult": kept}, **living))
        self.assertNotIn(ifname, self.links())

    @suite.cases([(plugin, plugin) for plugin, _ in EACH if not CONFIGS[plugin].device])
    def a_failed_attach_leaves_the_reference_plugins_interface_of(self, plugin):
        """The runtime calls DEL for an interface that never was, in a pod from before the upgrade."""
        if not has_reference(plugin):
            self.skipTest("the Go plugin is not installed")
        self.prepare(plugin)
        living = {"netns": self.one.path, "container": "pod1"}
        self.assert_ok(cni(plugin, "ADD", self.conf | {"cniVersion": "1.0.0"}, directory=REFERENCE, **living))
        before = pod_snapshot(self.one)
        other = self.conf | own_of(plugin, 2) | {"name": "net2", "ipam": {"type": "static", "addresses": []}}
        self.assert_error(cni(plugin, "ADD", other, ifname="net1", **living))
        self.assert_ok(cni(plugin, "DEL", other, ifname="net1", **living))
        self.assert_same(before, pod_snapshot(self.one))

    @suite.cases([(plugin, plugin) for plugin, _ in EACH if not CONFIGS[plugin].device])
    def a_refused_ADD_leaves_the_interface_of_a_parallel_one(self, plugin):
        """Held up at each of its first messages to the kernel, meanwhile the other one succeeds."""
        if not shutil.which("strace"):
            self.skipTest("there is no strace")
        self.prepare(plugin)
        log = "/run/strace"
        for number in range(2, 9):
            wrap = ("strace", "-qqo", log, "-e", "trace=sendmsg,sendto", "-e",
                    f"inject=sendmsg,sendto:delay_enter=200000:when={number}")
            more = {"ipam": {"type": "static", "addresses": [{"address": "10.1.2.9/24"}]}}
            slow = start(plugin, "ADD", self.conf | own_of(plugin, 1) | more, netns=self.one.path, wrap=wrap)
            slow.stdin.write(slow.config)
            slow.stdin.close()
            slow.stdin = None
            wait_for(lambda: slow.poll() is not None or run("cat", log, check=False).count("send") >= number - 1)
            fast = self.call("ADD", more=more)
            slow = finish(slow)
            self.assertEqual([slow.status, fast.status].count(0), 1, f"{slow}\n{fast}")
            result = (slow if slow.ok else fast).json
            self.assert_ok(self.call("CHECK", more=more | {"prevResult": result}))
            self.assert_ok(self.call("DEL", more=more))
            os.unlink(log)

    @suite.cases(EACH)
    def GC_leaves_exactly_the_listed_of(self, plugin):
        self.prepare(plugin)
        kept = self.pod()
        self.add()
        self.add(kept)
        with_one = pod_snapshot(kept)
        self.one.remove()
        listed = {"cni.dev/valid-attachments": [{"containerID": kept.name, "ifname": "eth0"}]}
        self.assert_ok(self.call("GC", more=listed))
        self.assertFalse(os.path.exists(LEASE))
        self.assert_same(with_one, pod_snapshot(kept))
        kept.remove()
        self.assert_ok(self.call("GC", more=GC))
        self.assert_left_nothing()


class Loopback(suite.NodeTest):
    conf = {"cniVersion": "1.0.0", "name": "lo", "type": "loopback"}

    def call(self, verb, pod, container):
        return self.assert_ok(cni("loopback", verb, self.conf, netns=pod.path, container=container, ifname="lo"))

    @staticmethod
    def is_up(pod):
        return "UP" in json.loads(pod.run("ip", "-j", "link", "show", "lo"))[0]["flags"]

    def test_DEL_sets_it_down_and_leaves_no_alias(self):
        pod = self.pod()
        self.call("ADD", pod, "one")
        self.assertTrue(self.is_up(pod))
        for _ in range(2):
            self.call("DEL", pod, "one")
            self.assertFalse(self.is_up(pod))
            self.assertNotIn("alias", pod.run("ip", "link", "show", "lo"))

    def test_a_late_DEL_leaves_that_of_a_living_container(self):
        for maker in (OURS, REFERENCE) if has_reference("loopback") else (OURS,):
            pod = self.pod()
            self.call("ADD", pod, "old")
            pod.remove()
            pod = Pod(pod.name)
            self.assert_ok(cni("loopback", "ADD", self.conf, netns=pod.path, container="new", ifname="lo",
                               directory=maker))
            for _ in range(2):
                self.call("DEL", pod, "old")
                self.assertTrue(self.is_up(pod), maker)

    def test_DEL_leaves_what_was_up_before_ADD(self):
        pod = self.pod()
        pod.run("ip", "link", "set", "lo", "up")
        before = pod_snapshot(pod)
        self.call("ADD", pod, "one")
        self.call("DEL", pod, "one")
        self.assert_same(before, pod_snapshot(pod))


if __name__ == "__main__":
    suite.main(per_processor=2)
