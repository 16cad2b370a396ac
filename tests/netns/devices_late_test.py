#!/usr/bin/env python3
"""devices: DEL that comes late, after ADD or DEL was killed between two devices, or again after a device went to another pod,
changes nothing of what others have."""

import fcntl
import json
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import ledger, suite  # noqa: E402
from support.ledger import NIC, TAP, LedgerTest, make_nic, nic, pod_of, slot  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.snapshot import left_by_design, pod_snapshot, snapshot  # noqa: E402
from support.world import World, run, wait_for  # noqa: E402

#: An IPAM plugin that kills devices, whose delegate calls it, while /run/killer has a file called as the verb, after its work.
#: Before, it waits as long as there is a file "wait".
KILLER = """\
#!/bin/sh
while [ -e /run/killer/wait ]; do sleep 0.05; done
"$HOST_LOCAL"; status=$?
read -r _ _ _ devices _ </proc/$PPID/stat
[ ! -e "/run/killer/$CNI_COMMAND" ] || kill -9 $devices
exit $status
"""
PLUGINS = "/opt/killer/bin"


@suite.spread
class Late(LedgerTest):
    """A pod with a NIC, and a second device whose IPAM plugin kills. The kernel's own truth is in snapshots."""

    def setUp(self):
        super().setUp()
        World.private(PLUGINS)
        os.mkdir("/run/killer")
        with open(f"{PLUGINS}/killer", "w", encoding="ascii") as file:
            file.write(KILLER)
        os.chmod(f"{PLUGINS}/killer", 0o755)
        self.env = {"HOST_LOCAL": f"{OURS}/host-local"}
        make_nic("dev0")
        make_nic("eth1", "10.60.0.1/24")
        run("ip", "link", "set", "eth1", "up")
        self.play()
        self.before = snapshot()

    def call(self, verb, pod, **more):
        options = more.pop("options", {}) | {"path": f"{PLUGINS}:{OURS}", "env": self.env}
        return super().call(verb, pod, options=options, **more)

    def own(self, name="web-0"):
        """The kubelet has given both devices to the pod."""
        second = slot()
        second[0]["ipam"]["type"] = "killer"
        for device, resource, plugins in (("dev0", NIC, nic("dev0")), ("slot0", TAP, second)):
            ledger.put(device, resource, plugins, pod=pod_of(name))

    def killed(self, verb, pod):
        """The verb, which is killed while it has to do with the second device: after it in ADD, before the first in DEL."""
        os.close(os.open(f"/run/killer/{verb}", os.O_CREAT))
        self.assertEqual(self.call(verb, pod).status, -9)
        os.unlink(f"/run/killer/{verb}")

    def assert_all_back(self):
        self.assertEqual((ledger.holders(), ledger.marks(), self.leases()), ({}, [], {}))
        self.assert_same(self.before, ignore=lambda place: left_by_design(place) or "netns" in place)

    def late(self, container, *namespaces):
        """DEL of a container, as often as there are paths of a namespace."""
        for netns in namespaces:
            self.remove(None, container=container, options={"netns": netns})

    @suite.cases([("ADD", "ADD"), ("DEL", "DEL")])
    def after_a_kill_between_two_devices_DEL_gives_both_back_also_twice(self, verb):
        self.own()
        pod = self.pod()
        inside = pod_snapshot(pod)
        if verb == "DEL":
            self.add(pod)
        self.killed(verb, pod)
        self.assertEqual(ledger.holders(), {"dev0": pod.name, "slot0": pod.name})
        self.assertIn("net1", self.names(pod))
        self.late(pod.name, pod.path, pod.path, "")
        self.assert_all_back()
        self.assert_same(inside, pod_snapshot(pod))

    @suite.cases([("ADD", "ADD"), ("DEL", "DEL")])
    def after_a_kill_between_two_devices_and_the_end_of_the_sandbox_its_late_DEL_takes_nothing_from_the_next(self, verb):
        self.own()
        one, two = self.pod(), self.pod()
        if verb == "DEL":
            self.add(one)
        self.killed(verb, one)
        run("ip", "-n", one.name, "link", "set", "net1", "netns", str(os.getpid()), "name", "dev0")  # as hardware survives it
        one.remove()
        self.own("web-1")
        self.add(two, of="web-1")
        self.assert_untouched(two, lambda: self.late(one.name, one.path, two.path, "", one.path))
        self.remove(two, of="web-1")
        self.assert_all_back()

    def assert_untouched(self, pod, late):
        """What comes late changes nothing of a pod that has both devices."""
        self.assertEqual(ledger.holders(), {"dev0": pod.name, "slot0": pod.name})
        node, inside = snapshot(), pod_snapshot(pod)
        late()
        self.assert_same(node)
        self.assert_same(inside, pod_snapshot(pod))
        self.ping(pod, "10.50.0.1")
        self.ping(pod, "10.60.0.1")

    def test_DEL_again_after_both_devices_went_to_another_pod_takes_nothing_from_it(self):
        self.own()
        one, two = self.pod(), self.pod()
        self.add(one)
        self.remove(one)
        self.own("web-1")
        self.add(two, of="web-1")
        self.assert_untouched(two, lambda: self.late(one.name, one.path, two.path, "", one.path))
        self.remove(two, of="web-1")
        self.assert_all_back()

    def test_a_late_DEL_gives_back_the_device_that_is_left_and_not_the_one_that_another_pod_has(self):
        self.own()
        one, two = self.pod(), self.pod()
        self.add(one)
        self.killed("DEL", one)
        known = ledger.entry("slot0")
        self.late(one.name, one.path)
        ledger.put("slot0", TAP, json.loads(known["plugins"]), pod=pod_of("web-0"))
        ledger.put("dev0", pod=pod_of("web-1"))
        self.add(two, of="web-1")
        self.add(one)
        self.assertEqual(ledger.holders(), {"dev0": two.name, "slot0": one.name})
        self.late(one.name, one.path, two.path, "")
        self.assertEqual(ledger.holders(), {"dev0": two.name})
        self.ping(two, "10.50.0.1")
        self.remove(two, of="web-1")
        self.assert_all_back()

    def test_a_second_ADD_beside_the_first_takes_nothing_from_it(self):
        self.own()
        pod = self.pod()
        os.close(os.open("/run/killer/wait", os.O_CREAT))
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(self.add, pod)
            self.assertTrue(wait_for(lambda: len(ledger.holders()) == 2))
            self.assert_error(self.call("ADD", pod), 11, "another ADD attaches devices to the pod")
            os.unlink("/run/killer/wait")
            self.assertEqual([one["name"] for one in first.result()["interfaces"]], ["eth0", "net1", "net2"])
        self.assert_untouched(pod, lambda: None)
        self.late(pod.name, pod.path)
        self.assert_all_back()

    def test_whoever_locks_the_namespace_which_every_user_can_open_does_not_hold_up_ADD(self):
        self.own()
        pod = self.pod()
        with open(pod.path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.add(pod)
        for name in (".lock", ".pods.lock"):
            mode = os.stat(f"{ledger.LEDGER}/{name}").st_mode
            self.assertEqual(mode & (stat.S_IRWXO | stat.S_IWGRP), 0, f"{name}: {mode:o}")
        self.late(pod.name, pod.path)
        self.assert_all_back()

    def test_the_next_sandbox_of_a_pod_has_the_devices_of_one_that_a_killed_runtime_has_forgotten(self):
        self.own()
        one, two, other = self.pod(), self.pod(), self.pod()
        self.killed("ADD", one)
        self.own("web-1")
        self.assert_error(self.call("ADD", other, of="web-1"), 11, "is still in container 'pod1'")
        self.own()
        self.add(two)
        self.assertEqual(self.names(one), {"lo"})
        self.assert_untouched(two, lambda: self.late(one.name, one.path, two.path, "", one.path))
        self.own("web-1")
        self.assert_error(self.call("ADD", other, of="web-1"), 11, "is still in container 'pod2'")
        self.own()
        self.add(one)
        self.assertEqual(self.names(two), {"lo"})
        self.late(one.name, one.path)
        self.assert_all_back()


if __name__ == "__main__":
    suite.main(needs=("ping",))
