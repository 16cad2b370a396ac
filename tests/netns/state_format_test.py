#!/usr/bin/env python3
"""A state file of a later format, as after a downgrade: calls refuse it and name it, and change nothing; other pods go on."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.plugin import cni  # noqa: E402
from support.snapshot import pod_snapshot, snapshot  # noqa: E402
from support.world import run  # noqa: E402

PLUGINS = [
    ("tuning", "/run/cni/tuning", {"mtu": 1400}),
    ("sbr", "/run/cni/sbr", {}),
    ("vrf", "/run/cni/vrf", {"vrfname": "red"}),
    ("portmap", "/run/cni/portmap", {"backend": "nftables", "runtimeConfig": {
        "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}}),
    ("host-device", "/run/cni/host-device", {}),
]


@suite.spread
class StateFormat(suite.NodeTest):
    def attach(self, kind, conf, number):
        """A pod, the arguments of its calls, and the outcome of ADD."""
        pod, host = self.pod(), f"h{number}"
        conf = {"cniVersion": "1.1.0", "name": "net1", "type": kind} | json.loads(json.dumps(conf))
        if kind == "host-device":
            conf["device"] = f"spare{number}"
        run("ip", "link", "add", host, "type", "veth", "peer", "name", conf.get("device", "net1"))
        if kind != "host-device":
            run("ip", "link", "set", "net1", "netns", pod.name)
            pod.run("ip", "-batch", "-", stdin=f"link set lo up\nlink set net1 up\naddr add 10.52.0.{number}/24 dev net1\n")
            link, = json.loads(pod.run("ip", "-j", "link", "show", "dev", "net1"))
            conf["prevResult"] = {
                "cniVersion": "1.1.0", "interfaces": [{"name": "net1", "mac": link["address"], "sandbox": pod.path}],
                "ips": [{"address": f"10.52.0.{number}/24", "gateway": "10.52.0.1", "interface": 0}]}
        if kind == "portmap":
            conf["runtimeConfig"]["portMappings"][0]["hostPort"] += number
        options = {"netns": pod.path, "container": pod.name, "ifname": "net1"}
        return pod, (conf, options), cni(kind, "ADD", conf, **options)

    @suite.cases([(row[0], row) for row in PLUGINS])
    def a_later_format_is_refused_by(self, row):
        kind, folder, given = row
        pod, (conf, options), added = self.attach(kind, given, 1)
        if "CONFIG_NET_VRF" in added.stdout:
            self.skipTest("the kernel has no vrf")
        self.assert_ok(added)
        path, = [f"{folder}/{name}" for name in os.listdir(folder) if os.path.isfile(f"{folder}/{name}")
                 and name != "lock"]
        with open(path, encoding="utf-8") as file:
            written = json.load(file)
        later = [one | {"format": 2} for one in written] if isinstance(written, list) else written | {"format": 2}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(later, file)
        before = [snapshot(), pod_snapshot(pod)]
        error = self.assert_error(cni(kind, "DEL", conf, **options), 999, path)
        self.assertIn("a newer version of patchbay wrote it (format 2, this version reads 1)", error["msg"])
        cni(kind, "GC", {key: value for key, value in conf.items() if key != "prevResult"} | {"cni.dev/valid-attachments": [
            {"containerID": options["container"], "ifname": "net1"}]}, netns=None, container=None, ifname=None)
        for was, now in zip(before, [snapshot(), pod_snapshot(pod)]):
            self.assert_same(was, now)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(json.load(file), later)
        _, (other, elsewhere), added = self.attach(kind, given, 2)
        self.assert_ok(added)
        self.assert_ok(cni(kind, "DEL", other, **elsewhere))
        with open(path, "w", encoding="utf-8") as file:
            json.dump(written, file)
        self.assert_ok(cni(kind, "DEL", conf, **options))
        self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    suite.main()
