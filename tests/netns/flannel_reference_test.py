#!/usr/bin/env python3
"""A node changes between flannel's own plugin, in Go, and ours while pods run: what one added the other removes, with the
delegates of the reference plugins and with ours below both. The Go plugin is PATCHBAY_FLANNEL:
scripts/reference --flannel python3 tests/netns/flannel_reference_test.py"""

import itertools
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.configs import provide  # noqa: E402
from support.k3s import LINKS  # noqa: E402
from support.plugin import OURS, REFERENCE, cni, has_reference  # noqa: E402
from support.snapshot import left_by_design, pod_snapshot, snapshot  # noqa: E402
from support.world import mount  # noqa: E402

GO = os.environ.get("PATCHBAY_FLANNEL", "")
STATES, LEASES = "/var/lib/cni/flannel", "/var/lib/cni/networks/cbr0"
ENV = "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"
#: flannel's manifest, as flanneld writes it.
MANIFEST = {"name": "cbr0", "cniVersion": "0.3.1", "type": "flannel", "delegate": {"hairpinMode": True, "isDefaultGateway": True}}
IPVLAN = {"name": "cbr0", "cniVersion": "0.3.1", "type": "flannel", "delegate": {"type": "ipvlan", "master": "eth1"}}
#: Who adds and who removes: the Go plugin, ours, ours as k3s has its executable.
WAYS = [("the Go plugin", "ours"), ("ours", "the Go plugin"), ("the Go plugin", "ours in k3s's form"),
        ("ours in k3s's form", "the Go plugin")]


@suite.spread
class FlannelReference(suite.NodeTest):
    def setUp(self):
        super().setUp()
        if not GO:
            self.skipTest("there is no Go flannel: PATCHBAY_FLANNEL, see scripts/reference --help")
        mount("tmpfs", "/mnt", "tmpfs")
        for folder in ("go", "ours", "k3s"):
            os.mkdir(f"/mnt/{folder}")
        shutil.copy(GO, "/mnt/go/flannel")
        shutil.copy(f"{OURS}/flannel", "/mnt/ours/flannel")
        shutil.copy(f"{OURS}/patchbay", "/mnt/k3s/cni")
        for name in LINKS:
            os.symlink("cni", f"/mnt/k3s/{name}")
        os.mkdir("/run/flannel")
        with open("/run/flannel/subnet.env", "w", encoding="ascii") as file:
            file.write(ENV)

    def call(self, who, verb, conf, pod, delegates, ifname="eth0"):
        """One run; below it are the delegates of that folder, or in k3s's form those beside it."""
        folder = {"the Go plugin": "/mnt/go", "ours": "/mnt/ours", "ours in k3s's form": "/mnt/k3s"}[who]
        return self.assert_ok(cni("flannel", verb, conf, netns=pod.path, container=pod.name, ifname=ifname, directory=folder,
                                  path=f"{folder}:{delegates}"))

    def delegates(self, whose, name="bridge"):
        if whose == "ours":
            return OURS
        if not has_reference(name):
            self.skipTest(f"the reference's {name} is not in {REFERENCE}")
        return REFERENCE

    @suite.cases([(f"{maker}, {remover} removes, delegates: {whose}", (maker, remover, whose))
                  for (maker, remover), whose in itertools.product(WAYS, ("the reference's", "ours"))])
    def a_pod_added_by(self, row):
        maker, remover, whose = row
        delegates = self.delegates(whose)
        pod = self.pod()
        before, inside = snapshot(), pod_snapshot(pod)
        result = self.call(maker, "ADD", MANIFEST, pod, delegates)
        address = (result.get("ips") or [result.get("ip4")])[0]["address"]
        self.assertEqual(address, "10.244.1.2/24")
        self.assertIn("1 received", pod.run("ping", "-c1", "-W2", "10.244.1.1"))
        self.assertEqual(os.listdir(STATES), [pod.name])
        self.assertIn("10.244.1.2", os.listdir(LEASES))
        if maker == "the Go plugin" and whose == "ours":  # its own CHECK asks no delegate
            self.call(remover, "CHECK", MANIFEST | {"cniVersion": "0.4.0", "prevResult": result | {"cniVersion": "0.4.0"}},
                      pod, delegates)
        for who in (remover, remover, maker):
            self.call(who, "DEL", MANIFEST, pod, delegates)
            self.assertEqual(os.listdir(STATES), [])
            self.assertNotIn("10.244.1.2", os.listdir(LEASES))
        self.assertEqual(json.loads(pod.run("ip", "-j", "link", "show", "type", "veth")), [])
        self.assert_same(before, ignore=left_by_design)
        self.assert_same(inside, pod_snapshot(pod), ignore=lambda place: "lo" in place.split("/")[1])

    @suite.cases([(f"{maker}, {remover} removes, delegates: {whose}", (maker, remover, whose))
                  for (maker, remover), whose in itertools.product(WAYS[:2], ("the reference's", "ours"))])
    def a_pod_on_ipvlan_added_by(self, row):
        maker, remover, whose = row
        delegates = self.delegates(whose, "ipvlan")
        if reason := provide("ipvlan"):
            self.skipTest(reason)
        pod = self.pod()
        before = snapshot()
        self.call(maker, "ADD", IPVLAN, pod, delegates)
        link, = json.loads(pod.run("ip", "-j", "-d", "link", "show", "dev", "eth0"))
        self.assertEqual((link["linkinfo"]["info_kind"], link["mtu"]), ("ipvlan", 1450))
        for who in (remover, maker):
            self.call(who, "DEL", IPVLAN, pod, delegates)
        self.assertEqual(pod.run("ip", "link", "show", "eth0", check=False), "")
        self.assert_same(before, ignore=left_by_design)

    @suite.cases([(f"the {order} first", order) for order in ("Go plugin's", "other")])
    def a_second_interface_goes(self, order):
        """The Go plugin has one state file of a container, which names no interface."""
        pod, before = self.pod(), snapshot()
        self.call("the Go plugin", "ADD", MANIFEST, pod, OURS)
        self.call("ours", "ADD", MANIFEST | {"delegate": {"hairpinMode": True}}, pod, OURS, "eth1")
        ifnames = ("eth0", "eth1") if order == "Go plugin's" else ("eth1", "eth0")
        for ifname in ifnames:
            self.call("ours", "DEL", MANIFEST, pod, OURS, ifname)
        self.assertEqual(os.listdir(STATES), [])
        self.assertEqual(json.loads(pod.run("ip", "-j", "link", "show", "type", "veth")), [])
        self.assert_same(before, ignore=left_by_design)

    def test_pods_of_both_reach_each_other(self):
        """As on a node that changes while pods run."""
        pods = [self.pod(), self.pod(), self.pod()]
        for who, pod in zip(("the Go plugin", "ours", "ours in k3s's form"), pods):
            self.call(who, "ADD", MANIFEST, pod, OURS)
        for one, other in itertools.permutations(range(3), 2):
            self.assertIn("1 received", pods[one].run("ping", "-c1", "-W2", f"10.244.1.{2 + other}"))
        for pod in pods:
            self.call("ours", "DEL", MANIFEST, pod, OURS)
        self.assertEqual(os.listdir(STATES), [])


if __name__ == "__main__":
    suite.main(needs=("ping",))
