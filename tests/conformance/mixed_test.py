#!/usr/bin/env python3
"""A node is upgraded while pods run: what the Go plugins added, ours remove, and the reverse."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.plugin import OURS, REFERENCE, cni, has_reference  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run, wait_for  # noqa: E402

V4 = [{"subnet": "10.1.2.0/24"}]
V6 = [{"subnet": "fd00:1:2::/64"}]


def bridge(*ranges, **more):
    return {"type": "bridge", "isDefaultGateway": True,
            "ipam": {"type": "host-local", "ranges": list(ranges)}, **more}


MASQ = {"ipMasq": True, "ipMasqBackend": "iptables"}
CONFIGS = {
    "host-local alone": {"type": "host-local", "ipam": {"type": "host-local", "ranges": [V4, V6]}},
    "bridge L2": {"type": "bridge"},
    "bridge IPv4": bridge(V4),
    "bridge dual-stack": bridge(V4, V6),
    "bridge IPv4, ipMasq": bridge(V4, **MASQ),
    "bridge dual-stack, ipMasq": bridge(V4, V6, **MASQ),
    "bridge static, ipMasq": {"type": "bridge", "isGateway": True, **MASQ,
                              "ipam": {"type": "static", "addresses": [
                                  {"address": "10.1.2.9/24"}, {"address": "fd00:1:2::9/64"}]}},
}
WAYS = {"ours removes what the reference added": (REFERENCE, OURS),
        "the reference removes what ours added": (OURS, REFERENCE)}
CASES = [(f"{way}: {name}, {version}, {'with' if prev else 'without'} prevResult",
          (first, second, conf, version, prev))
         for way, (first, second) in WAYS.items() for name, conf in CONFIGS.items()
         for version, prev in (("1.0.0", True), ("1.0.0", False), ("0.4.0", True))]


@suite.spread
class Mixed(suite.NodeTest):
    def setUp(self):
        super().setUp()
        if not has_reference():
            self.skipTest(f"the Go plugins are not in {REFERENCE}")

    def add(self, directory, conf, pod, **options):
        outcome = cni(conf["type"], "ADD", conf, netns=pod.path, container=pod.name,
                      directory=directory, **options)
        self.assertEqual(outcome.status, 0, str(outcome))
        return outcome.json

    def remove(self, directory, conf, pod, **options):
        outcome = cni(conf["type"], "DEL", conf, netns=pod.path, container=pod.name,
                      directory=directory, **options)
        self.assertEqual((outcome.status, outcome.stdout), (0, ""), str(outcome))

    @suite.cases(CASES)
    def nothing_is_left_when(self, case):
        first, second, conf, version, prev = case
        conf = {"cniVersion": version, "name": "net1", **conf}
        pod = self.pod()
        before = snapshot()
        result = self.add(first, conf, pod)
        if prev and conf["type"] == "bridge" and "ipam" in conf:
            checked = cni("bridge", "CHECK", conf | {"prevResult": result}, netns=pod.path,
                          container=pod.name, directory=second)
            self.assertEqual(checked.status, 0, f"CHECK by the other: {checked}")
        self.remove(second, conf | ({"prevResult": result} if prev else {}), pod)
        self.assert_same(before, ignore=left_by_design)

    @suite.cases([(name, conf) for name, conf in CONFIGS.items() if "ipam" in conf
                  and conf["ipam"]["type"] == "host-local"])
    def both_share_one_node(self, conf):
        """Pods of the two, side by side: no address twice, and each leaves the other's alone."""
        conf = {"cniVersion": "1.0.0", "name": "net1", **conf}
        empty = snapshot()
        pods = [self.pod() for _ in range(4)]
        results = [self.add(directory, conf, pod)
                   for pod, directory in zip(pods, (REFERENCE, OURS, REFERENCE, OURS))]
        given = [ip["address"] for result in results for ip in result["ips"]]
        self.assertEqual(len(given), len(set(given)), str(given))
        if conf["type"] == "bridge":
            for pod in pods:
                pod.run("ping", "-c1", "-W1", "10.1.2.1")
        for pod, directory in zip(pods, (OURS, REFERENCE, REFERENCE, OURS)):
            self.remove(directory, conf, pod)
        self.assert_same(empty, ignore=lambda place: left_by_design(place)
                         or place.startswith("file/run/netns/"))

    def test_an_attachment_of_the_reference_is_not_added_again(self):
        conf = {"cniVersion": "1.0.0", "name": "net1", **CONFIGS["host-local alone"]}
        pod = self.pod()
        self.add(REFERENCE, conf, pod)
        before = snapshot()
        self.assert_error(cni("host-local", "ADD", conf, netns=pod.path, container=pod.name))
        self.assert_same(before)

    def test_gc_removes_what_the_reference_added_and_nobody_lists(self):
        conf = {"cniVersion": "1.0.0", "name": "net1", **CONFIGS["bridge dual-stack, ipMasq"]}
        one, two = self.pod(), self.pod()
        self.add(REFERENCE, conf, one)
        kept = snapshot()
        self.add(REFERENCE, conf, two)
        two.remove()
        wait_for(lambda: run("ip", "-br", "link", "show", "type", "veth").count("\n") == 1)
        outcome = cni("bridge", "GC", conf | {"cniVersion": "1.1.0", "cni.dev/valid-attachments": [
            {"containerID": "pod1", "ifname": "eth0"}]})
        self.assertEqual((outcome.status, outcome.stdout), (0, ""), str(outcome))
        self.assert_same(kept, ignore=lambda place: "last_reserved_ip" in place
                         or place == "file/run/netns/pod2" or "/.owners" in place)


if __name__ == "__main__":
    suite.main(needs=("iptables", "ip6tables"))
