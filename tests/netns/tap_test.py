#!/usr/bin/env python3
"""What the plugin tap promises beyond other interface plugins: the device flags that QEMU needs, who may attach,
queues, a bridge of the pod. A program attaches as QEMU does and answers behind it."""

import errno
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.configs import MAC, POOL, config, lack  # noqa: E402
from support.plugin import VERSIONS, cni, finish, start  # noqa: E402
from support.snapshot import left_by_design, pod_snapshot, snapshot  # noqa: E402
from support.tap import IFF_MULTI_QUEUE, IFF_NO_PI, IFF_TAP, OF_QEMU, Guest, attach, set_owner  # noqa: E402
from support.world import mount, run  # noqa: E402

BOTH = {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1::/64"}]]}
CONTEXT = "system_u:system_r:container_t:s0:c1,c2"
OTHER_MAC, THIRD_MAC = "02:00:5e:10:20:31", "02:00:5e:10:20:32"
QEMU_UID, QEMU_GID = 107, 36


class Stage(suite.NodeTest):
    """A node with a pod that may get a tap."""

    def setUp(self):
        super().setUp()
        if reason := lack("tap"):
            self.skipTest(reason)
        self.one = self.pod()

    def call(self, verb, more=None, pod=None, **options):
        """The config has no more keys than these and "ipam": {}, which makes it layer 2."""
        pod = pod or self.one
        conf = {"cniVersion": "1.1.0", "name": "net1", "type": "tap", "ipam": {}} | (more or {})
        return cni("tap", verb, conf, **({"netns": pod.path, "container": pod.name} | options))

    def add(self, more=None, **options):
        return self.assert_ok(self.call("ADD", more, **options))

    def link(self, name="eth0"):
        return json.loads(self.one.run("ip", "-j", "-d", "link", "show", "dev", name))[0]

    def assert_nothing_left(self, before):
        self.assert_same(before[0], ignore=left_by_design)
        self.assert_same(before[1], pod_snapshot(self.one))

    def state(self):
        return snapshot(), pod_snapshot(self.one)


#: Keys, and what of the device follows from them.
DEVICES = [
    ("no key", {}, {}),
    ("owner", {"owner": QEMU_UID}, {"user": QEMU_UID}),
    ("group", {"group": QEMU_GID}, {"group": QEMU_GID}),
    ("owner and group", {"owner": QEMU_UID, "group": QEMU_GID},
     {"user": QEMU_UID, "group": QEMU_GID}),
    ("owner 0 and group 0", {"owner": 0, "group": 0}, {"user": 0, "group": 0}),
    ("the highest uid", {"owner": 4294967294}, {"user": 4294967294}),
    ("multiQueue", {"multiQueue": True}, {"multi_queue": True}),
    ("multiQueue, owner and group", {"multiQueue": True, "owner": QEMU_UID, "group": QEMU_GID},
     {"multi_queue": True, "user": QEMU_UID, "group": QEMU_GID}),
]


@suite.spread
class Device(Stage):
    @suite.cases([(name, row) for name, *row in DEVICES])
    def has_the_same_flags_whatever_keys_are_given(self, row):
        keys, follows = row
        self.add(keys)
        info = self.link()["linkinfo"]
        shown = {key: value for key, value in info["info_data"].items() if not key.startswith("num")}
        for key in ("user", "group"):  # a number, or the name that the node has for it
            if key in shown and not isinstance(shown[key], int) and not shown[key].isdigit():
                table = "passwd" if key == "user" else "group"
                shown[key] = int(run("getent", table, shown[key]).split(":")[2])
        expected = {"type": "tap", "pi": False, "vnet_hdr": True, "multi_queue": False, "persist": True}
        self.assertEqual((info["info_kind"], shown), ("tun", expected | follows))

    def test_mtu_and_mac_hold_and_the_link_is_up(self):
        result = self.add({"mtu": 1400, "mac": MAC})
        link = self.link()
        self.assertEqual((link["mtu"], link["address"], "UP" in link["flags"]), (1400, MAC, True))
        self.assertEqual(result["interfaces"], [{"name": "eth0", "mac": MAC, "sandbox": self.one.path}])
        self.assertNotIn("ips", result)

    def test_CHECK_leaves_the_MTU_to_the_reference_plugin_which_ignores_the_key(self):
        conf = {"mtu": 1400, "owner": QEMU_UID, "group": QEMU_GID}
        result = self.add(conf)
        self.one.run("ip", "link", "set", "eth0", "mtu", "1500")
        self.assert_error(self.call("CHECK", conf | {"prevResult": result}), 999, "MTU 1500, the config has 1400")
        self.one.run("ip", "link", "set", "eth0", "alias", "")  # that plugin's has none
        self.assert_ok(self.call("CHECK", conf | {"prevResult": result}))

    @suite.cases([(str(mtu), mtu) for mtu in (68, 9000, 65521)])
    def has_an_MTU_of(self, mtu):
        self.add({"mtu": mtu})
        self.assertEqual(self.link()["mtu"], mtu)

    @suite.cases([
        ("mac", (MAC, {"mac": MAC}, "")),
        ("CNI_ARGS over mac", (OTHER_MAC, {"mac": MAC}, f"IgnoreUnknown=1;K8S_POD_NAME=a;MAC={OTHER_MAC}")),
        ("args over CNI_ARGS", (THIRD_MAC, {"mac": MAC, "args": {"cni": {"mac": THIRD_MAC}}}, f"MAC={OTHER_MAC}")),
        ("runtimeConfig over all", (THIRD_MAC, {"mac": MAC, "args": {"cni": {"mac": MAC}},
                                                "RuntimeConfig": {"mac": THIRD_MAC}}, f"MAC={OTHER_MAC}"))])
    def has_the_MAC_address_of(self, case):
        mac, keys, args = case
        self.assertEqual(self.add(keys, args=args)["interfaces"][0]["mac"], mac)
        self.assertEqual(self.link()["address"], mac)

    def test_dns_is_that_of_the_config_alone(self):
        ipam = {"type": "static", "addresses": [{"address": "10.1.2.3/24"}], "dns": {"nameservers": ["10.1.2.53"]}}
        self.assertNotIn("dns", self.add({"ipam": ipam}))
        self.assert_ok(self.call("DEL", {"ipam": ipam}))
        self.assertEqual(self.add({"ipam": ipam, "dns": {"domain": "a.test"}})["dns"], {"domain": "a.test"})

    @suite.cases([(version, version) for version in VERSIONS[:2]])
    def layer_2_has_no_result_before_0_3_0_and_leaves_nothing(self, version):
        before = self.state()
        outcome = self.call("ADD", {"cniVersion": version})
        self.assert_error(outcome, msg="cannot convert: no valid IP addresses")
        self.assert_nothing_left(before)


class Traffic(Stage):
    """As QEMU: by the owner's uid, which has no capability."""

    def assert_reachable(self, guest, mac):
        for address in ("10.1.2.9", "fd00:1::9"):
            self.one.run("ping", "-c1", "-w5", address)
        for address in ("10.1.2.2", "fd00:1::2"):
            self.assertTrue(guest.ping(address, mac), address)

    def test_the_owner_attaches_and_both_directions_work_over_IPv4_and_IPv6(self):
        result = self.add({"ipam": BOTH, "owner": QEMU_UID, "group": QEMU_GID})
        queue = attach(self.one, uid=QEMU_UID, gid=QEMU_GID)
        with Guest([queue]) as guest:
            self.assert_reachable(guest, result["interfaces"][0]["mac"])
            self.assertIn("LOWER_UP", self.link()["flags"])
            self.assert_ok(self.call("CHECK", {"ipam": BOTH, "owner": QEMU_UID, "group": QEMU_GID,
                                               "prevResult": result}))

    def test_a_tap_of_the_group_alone(self):
        result = self.add({"ipam": BOTH, "group": QEMU_GID})
        with Guest([attach(self.one, uid=4711, gid=QEMU_GID)]) as guest:
            self.assert_reachable(guest, result["interfaces"][0]["mac"])

    def test_frames_of_two_queues(self):
        keys = {"ipam": BOTH, "multiQueue": True, "owner": QEMU_UID}
        result = self.add(keys)
        queues = [attach(self.one, uid=QEMU_UID, gid=1, flags=OF_QEMU | IFF_MULTI_QUEUE) for _ in range(2)]
        self.assertEqual(self.link()["linkinfo"]["info_data"]["numqueues"], 2)
        with Guest(queues) as guest:
            self.assert_reachable(guest, result["interfaces"][0]["mac"])
            for last in range(32):  # flows that the kernel spreads by their hash
                self.one.run("ip", "address", "add", f"10.1.2.{100 + last}/24", "dev", "eth0")
                self.one.run("ping", "-c1", "-w5", "-I", f"10.1.2.{100 + last}", "10.1.2.9")
            self.assertTrue(all(guest.heard), f"requests by queue: {guest.heard}")

    def test_a_bridge_of_the_pod_reaches_the_guest(self):
        self.one.run("ip", "link", "add", "br1", "type", "bridge")
        self.one.run("ip", "link", "set", "br1", "up")
        self.one.run("ip", "address", "add", "10.1.2.1/24", "dev", "br1")
        self.one.run("ip", "address", "add", "fd00:1::1/64", "dev", "br1", "nodad")
        self.add({"bridge": "br1", "owner": QEMU_UID})
        mac = self.link("br1")["address"]
        self.assertEqual(self.link()["master"], "br1")
        with Guest([attach(self.one, uid=QEMU_UID)]) as guest:
            for address in ("10.1.2.9", "fd00:1::9"):
                self.one.run("ping", "-c1", "-w5", address)
            self.assertTrue(guest.ping("10.1.2.1", mac) and guest.ping("fd00:1::1", mac))

    def test_DEL_removes_it_from_under_the_program(self):
        self.add({"ipam": BOTH})
        with Guest([attach(self.one)]):
            self.assert_ok(self.call("DEL", {"ipam": BOTH}))
            self.assertNotIn("eth0", self.one.run("ip", "link"))


@suite.spread
class Attaching(Stage):
    @suite.cases([
        ("another uid", ({"owner": QEMU_UID}, {"uid": 4711, "gid": QEMU_GID}, errno.EPERM)),
        ("another gid", ({"group": QEMU_GID}, {"uid": QEMU_UID, "gid": 4711}, errno.EPERM)),
        ("the uid without the gid", ({"owner": QEMU_UID, "group": QEMU_GID}, {"uid": QEMU_UID, "gid": 4711},
                                     errno.EPERM)),
        ("the gid without the uid", ({"owner": QEMU_UID, "group": QEMU_GID}, {"uid": 4711, "gid": QEMU_GID},
                                     errno.EPERM)),
        ("one queue to many", ({"multiQueue": True}, {"flags": OF_QEMU}, errno.EINVAL)),
        ("many queues to one", ({}, {"flags": OF_QEMU | IFF_MULTI_QUEUE}, errno.EINVAL))])
    def is_refused_to(self, case):
        keys, who, number = case
        self.add(keys)
        with self.assertRaises(OSError) as refused:
            attach(self.one, **who)
        self.assertEqual(refused.exception.errno, number)

    def test_without_owner_and_group_everybody_may(self):
        self.add()
        os.close(attach(self.one, uid=4711, gid=4711))

    def test_one_queue_takes_one_program_at_a_time(self):
        self.add()
        first = attach(self.one)
        with self.assertRaises(OSError) as refused:
            attach(self.one)
        self.assertEqual(refused.exception.errno, errno.EBUSY)
        os.close(first)
        os.close(attach(self.one))

    def test_many_queues_take_two_programs(self):
        self.add({"multiQueue": True})
        flags = OF_QEMU | IFF_MULTI_QUEUE
        for fd in [attach(self.one, flags=flags), attach(self.one, flags=flags)]:
            os.close(fd)
        self.assertEqual(self.link()["ifname"], "eth0")  # persistent

    def test_a_program_without_virtio_net_header_is_no_damage(self):
        result = self.add()
        os.close(attach(self.one, flags=IFF_TAP | IFF_NO_PI))
        self.assertFalse(self.link()["linkinfo"]["info_data"]["vnet_hdr"])  # its own, from now on
        self.assert_ok(self.call("CHECK", {"prevResult": result}))


class Names(Stage):
    def test_a_tap_of_that_name_is_refused_and_stays(self):
        self.one.run("ip", "tuntap", "add", "eth0", "mode", "tap", "user", "4711")
        before = self.state()
        self.assert_error(self.call("ADD"), msg="failed to create tap: file exists")
        self.assert_nothing_left(before)

    def test_a_tap_that_a_program_holds_is_refused_and_stays(self):
        fd = attach(self.one)
        before = self.state()
        self.assert_error(self.call("ADD"), msg="eth0")
        self.assert_nothing_left(before)
        os.close(fd)

    def test_other_taps_of_the_pod_stay(self):
        for name in ("tap0", "tun0"):
            self.one.run("ip", "tuntap", "add", name, "mode", name[:3])
        before = self.state()
        self.add()
        self.assert_ok(self.call("DEL"))
        self.assert_nothing_left(before)

    def test_an_interface_of_the_node_with_that_name_does_not_matter(self):
        run("ip", "link", "add", "eth0", "type", "bridge")
        before = snapshot()
        self.add()
        self.assert_ok(self.call("DEL"))
        self.assert_same(before)


class Bridge(Stage):
    def test_one_that_is_missing_is_named(self):
        before = self.state()
        self.assert_error(self.call("ADD", {"bridge": "br9", "ipam": POOL}), 7,
                          "failed to get bridge br9: Link not found")
        self.assert_nothing_left(before)

    def test_one_of_the_node_is_none_of_the_pod(self):
        run("ip", "link", "add", "br9", "type", "bridge")
        self.assert_error(self.call("ADD", {"bridge": "br9"}), 7, "failed to get bridge br9: Link not found")

    def test_a_link_that_is_none_is_refused(self):
        self.one.run("ip", "tuntap", "add", "br9", "mode", "tap")
        before = self.state()
        self.assert_error(self.call("ADD", {"bridge": "br9"}), 7, "the pod's link of this name is no bridge")
        self.assert_nothing_left(before)


def recreate(*words):
    def damage(test):
        mac = test.link()["address"]
        test.one.run("ip", "link", "del", "eth0")
        test.one.run("ip", "tuntap", "add", "eth0", "mode", *words)
        test.one.run("ip", "link", "set", "eth0", "up", *(["address", mac] if words[0] == "tap" else []))
    return damage


def in_pod(*command):
    return lambda test: test.one.run("ip", *command)


def change_owner(test):
    fd = attach(test.one)
    set_owner(fd, 4711)
    os.close(fd)


@suite.spread
class Check(Stage):
    KEYS = {"owner": 0, "group": 0, "mtu": 1400, "bridge": "br1"}

    @suite.cases([
        ("another owner", (change_owner, "owner 4711")),
        ("no owner", (recreate("tap", "group", "0"), "owner none")),
        ("no group", (recreate("tap", "user", "0"), "group none")),
        ("several queues", (recreate("tap", "multi_queue", "user", "0", "group", "0"), "multiQueue")),
        ("a tun in its place", (recreate("tun"), "eth0")),
        ("another MTU", (in_pod("link", "set", "eth0", "mtu", "1300"), "1300")),
        ("that it left the bridge", (in_pod("link", "set", "eth0", "nomaster"), "br1")),
        ("that the bridge is gone", (in_pod("link", "del", "br1"), "br1")),
        ("another MAC address", (in_pod("link", "set", "eth0", "address", MAC), MAC))])
    def notices(self, case):
        damage, named = case
        self.one.run("ip", "link", "add", "br1", "type", "bridge")
        more = self.KEYS | {"prevResult": self.add(self.KEYS)}
        self.assert_ok(self.call("CHECK", more))
        damage(self)
        self.assert_error(self.call("CHECK", more), msg=named)

    def test_needs_the_result_also_on_layer_2(self):
        result = self.add()
        self.assert_error(self.call("CHECK"), msg="prevResult")
        self.one.run("ip", "link", "del", "eth0")
        self.assert_error(self.call("CHECK", {"prevResult": result}), msg="eth0")


class Driver(Stage):
    """What the node may lack."""

    def test_without_device_node_the_error_says_how_to_get_it(self):
        before = self.state()
        mount("tmpfs", "/dev/net", "tmpfs")
        for word in ("/dev/net/tun", "modprobe tun", "mknod /dev/net/tun c 10 200"):
            self.assert_error(self.call("STATUS"), 50, word)
            self.assert_error(self.call("ADD", {"ipam": POOL}), 999, word)
        self.assert_ok(self.call("DEL", {"ipam": POOL}))
        self.assert_nothing_left(before)

    def test_a_file_in_its_place_is_no_driver(self):
        mount("tmpfs", "/dev/net", "tmpfs")
        with open("/dev/net/tun", "w", encoding="ascii"):
            pass
        self.assert_error(self.call("STATUS"), 50, "modprobe tun")
        self.assert_error(self.call("ADD"), 999, "/dev/net/tun")

    def test_a_context_needs_SELinux(self):
        if "selinuxfs" in open("/proc/filesystems", encoding="ascii").read():
            self.skipTest("this kernel runs with SELinux")
        before = self.state()
        keys = {"selinuxContext": CONTEXT}
        self.assert_error(self.call("ADD", keys), 999, "failed set socket label: this kernel runs without SELinux")
        self.assert_error(self.call("STATUS", keys), 50, "failed set socket label")
        self.assert_ok(self.call("DEL", keys))
        self.assert_nothing_left(before)

    def test_a_context_that_the_kernel_refuses_leaves_nothing(self):
        with open("/run/filesystems", "w", encoding="ascii") as file:
            file.write("nodev\tselinuxfs\n")
        mount("/run/filesystems", "/proc/filesystems", flags=4096)
        before = self.state()
        self.assert_error(self.call("ADD", {"selinuxContext": CONTEXT}), 999,
                          f"failed set socket label: write '{CONTEXT}'")
        self.assert_nothing_left(before)


class BadInput(Stage):
    def test_a_wrong_value_does_not_prevent_DEL(self):
        before = self.state()
        self.add()
        self.assert_ok(self.call("DEL", {"owner": -1, "mac": "zz", "bridge": "a/b"}, args="MAC=zz"))
        self.assert_nothing_left(before)


class Crowd(Stage):
    COUNT = 64

    def all_at_once(self, verb, pods):
        calls = [start("tap", verb, config("tap", "1.1.0"), netns=pod.path, container=pod.name) for pod in pods]
        for call in calls:  # each waits for its stdin: now they run at once
            call.stdin.write(call.config)
            call.stdin.close()
            call.stdin = None
        return [self.assert_ok(finish(call)) for call in calls]

    def test_64_pods_at_once(self):
        pods = [self.pod() for _ in range(self.COUNT)]
        before = snapshot(), [pod_snapshot(pod) for pod in pods]
        results = self.all_at_once("ADD", pods)
        self.assertEqual(len({result["ips"][0]["address"] for result in results}), self.COUNT)
        for pod in pods:
            self.assertIn('"info_kind":"tun"', pod.run("ip", "-j", "-d", "link", "show", "dev", "eth0"))
        self.all_at_once("DEL", pods)
        self.assert_same(before[0], ignore=left_by_design)
        for pod, empty in zip(pods, before[1]):
            self.assert_same(empty, pod_snapshot(pod))


if __name__ == "__main__":
    suite.main(needs=("ping",))
