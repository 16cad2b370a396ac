#!/usr/bin/env python3
"""What every chained plugin owes: it takes what plugins before it may say, and a node as it is."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.configs import CONFIGS, config, lack, previous  # noqa: E402
from support.plugin import PLUGINS, cni  # noqa: E402
from support.snapshot import left_by_design, pod_snapshot, snapshot  # noqa: E402
from support.world import run  # noqa: E402

CHAINED = [plugin for plugin in PLUGINS if CONFIGS[plugin].chained]
INDEXES = (1, 7, -1, 1 << 40)
#: Plugins whose state serves DEL alone, and a config that has one.
STATEFUL = [("sbr", {}), ("tuning", {"sysctl": {"net.ipv4.conf.IFNAME.proxy_arp": "1"}}),
            ("firewall", {"backend": "iptables"})]
INTERFACE = """link add eth0 type veth peer name other
link set other up
link set eth0 address 02:11:22:33:44:55
link set eth0 up
addr add 10.1.2.9/24 dev eth0
route add default via 10.1.2.1
"""


@suite.spread
class Chained(suite.NodeTest):
    def prepare(self, plugin):
        if reason := lack(plugin):
            self.skipTest(reason)
        pod = self.pod()
        pod.run("ip", "-batch", "-", stdin=INTERFACE)
        result = previous("1.1.0")
        result["interfaces"][0]["sandbox"] = pod.path
        return pod, result

    @suite.cases([(f"{plugin}, {index}", (plugin, index)) for plugin in CHAINED for index in INDEXES])
    def an_interface_index_that_is_out_of_range_is_passed_on_by(self, case):
        plugin, index = case
        pod, result = self.prepare(plugin)
        result["ips"][0]["interface"] = index
        conf = config(plugin, "1.1.0") | {"prevResult": result}
        added = self.assert_ok(cni(plugin, "ADD", conf, netns=pod.path))
        self.assertEqual([one["interface"] for one in added["ips"]], [index])
        self.assert_ok(cni(plugin, "CHECK", conf | {"prevResult": added}, netns=pod.path))
        self.assert_ok(cni(plugin, "DEL", conf | {"prevResult": added}, netns=pod.path))

    @suite.cases(STATEFUL)
    def a_read_only_run_cni_does_not_hold_up(self, more):
        plugin = next(name for name, conf in STATEFUL if conf is more)
        pod, result = self.prepare(plugin)
        os.makedirs("/run/cni", exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", "ro", "none", "/run/cni")
        conf = config(plugin, "1.1.0") | more | {"prevResult": result}
        conf.pop("table", None)
        before = snapshot(), pod_snapshot(pod)
        added = cni(plugin, "ADD", conf, netns=pod.path)
        self.assert_ok(added)
        self.assertIn("read-only file system", added.stderr)
        self.assertNotEqual(before, (snapshot(), pod_snapshot(pod)))
        self.assert_ok(cni(plugin, "CHECK", conf, netns=pod.path))
        for _ in range(2):
            self.assert_ok(cni(plugin, "DEL", conf, netns=pod.path))
        self.assert_same(before[0], ignore=lambda place: left_by_design(place) or "xt" in place)
        self.assertEqual([rule for rule in json.loads(pod.run("ip", "-j", "rule")) if rule["src"] != "all"], [])
        pod.remove()
        for netns in (pod.path, ""):
            self.assert_ok(cni(plugin, "DEL", conf, netns=netns))

    @suite.cases(STATEFUL)
    def an_ADD_that_fails_on_a_read_only_run_cni_leaves_nothing_of(self, more):
        plugin = next(name for name, conf in STATEFUL if conf is more)
        pod, result = self.prepare(plugin)
        os.makedirs("/run/cni", exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", "ro", "none", "/run/cni")
        conf = config(plugin, "1.1.0") | more | {"prevResult": result}
        conf.pop("table", None)
        before = snapshot(), pod_snapshot(pod)
        failed = cni(plugin, "ADD", conf, netns=pod.path, wrap=("sh", "-c", 'exec "$0" >/dev/full'))
        self.assertNotEqual(failed.status, 0)
        self.assert_same(before[0], ignore=left_by_design)
        self.assert_same(before[1], pod_snapshot(pod))


if __name__ == "__main__":
    suite.main(needs=("iptables-restore",))
