"""Devices of the node for host-device: links with settings worth restoring, and what /sys says of hardware."""

import contextlib
import json
import os

from support.plugin import cni
from support.suite import NodeTest
from support.world import mount, run

MAC = "02:00:5e:00:00:01"
PCI = "0000:03:00.1"
STATES = "/run/cni/host-device"
STATIC = {"type": "static", "addresses": [{"address": "10.1.2.9/24"}, {"address": "fd00:1::9/64"}]}
#: What is set of a device, that DEL has to restore.
SETTINGS = """link set dev0 mtu 1400 alias uplink address 02:00:5e:00:00:01 promisc on
addr add 192.0.2.1/24 brd + dev dev0
addr add 192.0.2.7/24 dev dev0 label dev0:7
addr add 198.51.100.1/32 peer 198.51.100.9 dev dev0
addr add 2001:db8::1/64 dev dev0 nodad
"""


def links(pod=None):
    """{name: link} of the node, or of a pod, with addresses."""
    shown = json.loads(run("ip", *(("-n", pod.name) if pod else ()), "-j", "-d", "addr"))
    return {one["ifname"]: one for one in shown}


def make(kind="veth", name="dev0"):
    """A link of that kind on the node; another one, NAME-end, is its peer or parent."""
    if kind == "veth":
        run("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}-end")
    elif kind == "dummy":
        run("ip", "link", "add", name, "type", "dummy")
    else:
        run("ip", "link", "add", f"{name}-end", "type", "veth", "peer", "name", "far")
        # In the default mode of an ipvlan, l3, the kernel changes its flags the first time that it goes up.
        mode = ("mode", "l2") if kind == "ipvlan" else ()
        run("ip", "link", "add", "link", f"{name}-end", name, "type", kind, *mode)
        run("ip", "link", "set", f"{name}-end", "up")


def configure(name="dev0", up=True):
    """Gives it SETTINGS."""
    run("ip", "-batch", "-", stdin=SETTINGS.replace("dev0", name))
    run("ip", "link", "set", name, "up" if up else "down")


def fake_sysfs(link="dev0", pci=PCI, driver="mlx5_core", below=""):
    """A /sys with one PCI device, and its link; below: a device between them, as virtio3."""
    mount("tmpfs", "/sys", "tmpfs", options="mode=755")
    device = f"/sys/devices/pci0000:00/{pci}"
    os.makedirs(f"/sys/bus/pci/drivers/{driver}")
    os.makedirs("/sys/bus/pci/devices")
    os.makedirs(device)
    os.symlink(f"../../../devices/pci0000:00/{pci}", f"/sys/bus/pci/devices/{pci}")
    os.symlink(f"../../../bus/pci/drivers/{driver}", f"{device}/driver")
    if link:
        add_net(link, os.path.join(device, below) if below else device)


def add_net(link, device):
    """The link of a device directory."""
    os.makedirs(f"{device}/net/{link}")
    os.symlink(device, f"{device}/net/{link}/device")
    os.makedirs("/sys/class/net", exist_ok=True)
    os.symlink(f"{device}/net/{link}", f"/sys/class/net/{link}")


def add_auxiliary(link, name):
    """An auxiliary device with a link."""
    device = f"/sys/devices/pci0000:00/{PCI}/{name}"
    add_net(link, device)
    os.makedirs("/sys/bus/auxiliary/devices", exist_ok=True)
    os.symlink(device, f"/sys/bus/auxiliary/devices/{name}")


def states():
    """The state files, by name."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(name for name in os.listdir(STATES) if name != "lock")
    return []


class DeviceTest(NodeTest):
    """A node with a pod; `device` is dev0 unless the config says otherwise."""

    def setUp(self):
        super().setUp()
        self.one = self.pod()
        run("ip", "-n", self.one.name, "link", "set", "lo", "up")

    def call(self, verb, conf=None, pod=None, **options):
        conf = {"cniVersion": "1.1.0", "name": "net1", "type": "host-device"} | (
            {"device": "dev0"} if conf is None else conf)
        pod = pod or self.one
        return cni("host-device", verb, conf, **({"netns": pod.path, "container": pod.name} | options))

    def add(self, conf=None, **options):
        return self.assert_ok(self.call("ADD", conf, **options))

    def remove(self, conf=None, **options):
        outcome = self.call("DEL", conf, **options)
        self.assertEqual((outcome.status, outcome.stdout), (0, ""), str(outcome))
