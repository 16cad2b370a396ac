#!/usr/bin/env python3
"""The errors of interface plugins that people search for and runtimes compare: the code of the spec and the
words of the reference plugins, in every version of the spec. Nothing changes on the node and in the pod."""

import dataclasses
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.configs import config, give_device, number, provide  # noqa: E402
from support.plugin import VERSIONS, cni  # noqa: E402
from support.snapshot import left_by_design, pod_snapshot, snapshot  # noqa: E402
from support.world import run  # noqa: E402

INTERFACES = ("ptp", "macvlan", "ipvlan", "vlan", "host-device", "dummy", "tap")
WITH_MASTER = ("macvlan", "ipvlan", "vlan")
LINK = "ip link add eth0 type bridge"


@dataclasses.dataclass
class Row:
    """conf is laid over the least config, None removes a key. added: ADD went before, and the config gets its
    result. in_pod and on_node are commands that follow."""

    plugin: str
    name: str
    code: int
    says: str
    conf: dict = dataclasses.field(default_factory=dict)
    verb: str = "ADD"
    args: str = ""
    added: bool = False
    in_pod: tuple = ()
    on_node: tuple = ()
    netns: str = None
    oldest: str = "0.1.0"
    newest: str = "1.1.0"

    def versions(self):
        oldest = max(number(self.oldest), (0, 4, 0) if self.verb == "CHECK" else (0,))
        return [one for one in VERSIONS if oldest <= number(one) <= number(self.newest)]


def of_each(plugins, *row, **more):
    return [Row(plugin, *row, **more) for plugin in plugins]


ROWS = [
    *of_each(INTERFACES, "an IPAM plugin that is absent", 7, 'failed to find plugin "absent" in path',
             {"ipam": {"type": "absent"}}),
    *of_each(INTERFACES, "a path as the IPAM plugin", 7, "invalid plugin name: a/b", {"ipam": {"type": "a/b"}}),
    *of_each(INTERFACES, "IPAM without an address", 999, "IPAM plugin returned missing IP config",
             {"ipam": {"type": "static"}}, oldest="0.3.0"),
    *of_each(INTERFACES, "no namespace", 8, 'failed to open netns "/run/netns/absent": ',
             netns="/run/netns/absent"),
    *of_each(INTERFACES, "a file that is no namespace", 8, 'failed to open netns "/dev/null": ', netns="/dev/null"),
    *of_each(INTERFACES[1:], "an interface of that name", 999, "file exists", in_pod=(LINK,)),
    Row("ptp", "an interface of that name", 999, 'container veth name ("eth0") peer provided ("veth', in_pod=(LINK,)),
    *of_each(INTERFACES, "CHECK without prevResult", 7, "equired prevResult missing", {"prevResult": None},
             verb="CHECK", added=True),
    *of_each(INTERFACES, "CHECK of another sandbox", 999, "prevResult has no interface 'eth0' in sandbox",
             {"prevResult": {"interfaces": [{"name": "eth0", "sandbox": "/run/netns/other"}]}}, verb="CHECK",
             added=True),
    *of_each(INTERFACES, "CHECK of an interface that is gone", 999, "eth0", verb="CHECK", added=True,
             in_pod=("ip link set eth0 down", "ip link set eth0 name other")),
    *of_each(INTERFACES, "CHECK of an interface that is down", 999, "Interface eth0 is down", verb="CHECK",
             added=True, in_pod=("ip link set eth0 down",)),
    *of_each(WITH_MASTER, "a master that does not exist", 7, "Link not found", {"master": "gone0"}),
    *of_each(WITH_MASTER, "an MTU above the master's", 7, "invalid MTU 9000, must be [0, master MTU(1500)]",
             {"mtu": 9000}),
    *of_each(("macvlan", "ipvlan"), "no default route", 999, "no default route interface found", {"master": ""},
             on_node=("ip route flush table main",)),
    *of_each(("ptp", "ipvlan"), "no IPAM", 7, "no plugin name provided", {"ipam": None}),
    *of_each(("macvlan", "tap"), "CNI_ARGS of no pair", 4, "ARGS: ", args="MAC"),
    *of_each(("macvlan", "tap"), "CNI_ARGS that are unknown", 4, "FOO=bar", args="FOO=bar"),
    *of_each(("macvlan", "tap"), "a MAC address in CNI_ARGS that is none", 4, "MAC", args="MAC=zz"),
    *of_each(("macvlan", "tap"), "a result without addresses before 0.3.0", None,
             "cannot convert: no valid IP addresses", {"ipam": {}}, newest="0.2.0"),
    Row("ptp", "an unknown backend", 7, 'unknown ipmasq backend "foo"', {"ipMasqBackend": "foo"}),
    Row("macvlan", "an unknown mode", 7, 'unknown macvlan mode: "x"', {"mode": "x"}),
    Row("macvlan", "CHECK of another mode", 999, "container macvlan mode bridge does not match expected value: vepa",
        {"mode": "vepa"}, verb="CHECK", added=True),
    Row("ipvlan", "an unknown mode", 7, 'unknown ipvlan mode: "x"', {"mode": "x"}),
    Row("ipvlan", "two interfaces before it", 7, "chained master failure. PrevResult lacks a single named interface",
        {"master": None, "prevResult": {"interfaces": [{"name": "eth1"}, {"name": "eth2"}]}}, oldest="0.3.0"),
    Row("ipvlan", "CHECK of another mode", 999, "Container IPVlan mode l2 does not match expected value: l3",
        {"mode": "l3"}, verb="CHECK", added=True),
    Row("vlan", "no master", 7, '"master" field is required. It specifies the host interface name to create the '
        "VLAN for", {"master": None}),
    Row("vlan", "vlanId 4095", 7, "invalid VLAN ID 4095", {"vlanId": 4095}),
    Row("vlan", "vlanId -1", 7, "invalid VLAN ID -1", {"vlanId": -1}),
    Row("vlan", "a negative MTU", 7, "invalid MTU -100, must be [0, master MTU(1500)]", {"mtu": -100}),
    Row("vlan", "CHECK of another VLAN", 999, "VLAN ID 100", {"vlanId": 101}, verb="CHECK", added=True),
    Row("host-device", "no selector", 7, 'specify either "device", "hwaddr", "kernelpath" or "pciBusID"',
        {"device": None}),
    Row("host-device", "a device that does not exist", 999, "Link not found", {"device": "dev9"}),
    Row("host-device", "hwaddr that is none", 7, 'failed to parse MAC address "zz"', {"device": None, "hwaddr": "zz"}),
    Row("host-device", "hwaddr of no link", 999, "failed to find physical interface",
        {"device": None, "hwaddr": "02:00:5e:00:00:99"}),
    Row("host-device", "pciBusID of no device", 999, "error with host device: lstat",
        {"device": None, "pciBusID": "0000:ff:1f.7"}),
    Row("host-device", "deviceID of no device", 999, "runtime config DeviceID 0000:ff:1f.7 not found or unsupported",
        {"device": None, "runtimeConfig": {"deviceID": "0000:ff:1f.7"}}),
    Row("host-device", "DEL while the node has a link of that name", 999,
        'failed to move "device0" to hostNS: file exists', verb="DEL", added=True,
        on_node=("ip link add device0 type bridge",)),
    Row("dummy", "no IPAM, where there is no namespace", 7, "dummy interface requires an IPAM configuration",
        {"ipam": None}, netns="/run/netns/absent"),
    Row("tap", "a bridge that does not exist", 7, "failed to get bridge br9: Link not found", {"bridge": "br9"}),
    Row("tap", "a label without SELinux", 999, "failed set socket label",
        {"selinuxContext": "system_u:system_r:container_t:s0"}),
]


@suite.spread
class Errors(suite.NodeTest):
    @suite.cases([(f"{row.plugin}: {row.name}", row) for row in ROWS])
    def known(self, row):
        if reason := provide(row.plugin):
            self.skipTest(reason)
        if row.code == 999 and "label" in row.says and "selinuxfs" in open("/proc/filesystems", encoding="ascii").read():
            self.skipTest("this kernel runs with SELinux")
        give_device(row.plugin)
        pod = self.pod()
        for command in row.in_pod if not row.added else ():
            pod.run(*command.split())
        for command in row.on_node if not row.added else ():
            run(*command.split())
        before = snapshot(), pod_snapshot(pod)
        for version in row.versions():
            error = self.assert_error(self.fails(row, version, pod), row.code, row.says)
            self.assertEqual(error["cniVersion"], version)
        self.assert_same(before[0], ignore=left_by_design)
        self.assert_same(before[1], pod_snapshot(pod))

    def fails(self, row, version, pod):
        """The outcome. What was added is removed again."""
        conf = config(row.plugin, version)
        call = {"netns": pod.path, "container": pod.name}
        result = self.assert_ok(cni(row.plugin, "ADD", conf, **call)) if row.added else None
        changed = conf | ({"prevResult": result} if result else {}) | row.conf
        changed = {key: value for key, value in changed.items() if value is not None}
        for command in row.in_pod if row.added else ():
            pod.run(*command.split())
        for command in row.on_node if row.added else ():
            run(*command.split())
        outcome = cni(row.plugin, row.verb, changed, args=row.args, documented=False,
                      **(call | ({"netns": row.netns} if row.netns else {})))
        if row.added:
            for command in row.on_node:
                run("ip", "link", "del", command.split()[3])
            self.assert_ok(cni(row.plugin, "DEL", conf, **call))
        return outcome


if __name__ == "__main__":
    suite.main()
