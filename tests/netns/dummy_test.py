#!/usr/bin/env python3
"""The dummy interface of a pod: its addresses work in the pod and nowhere else, with the MAC address and the
MTU of the config.

Where the kernel has no dummy links, this runs under another kernel: scripts/vm.
"""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import guest, suite  # noqa: E402
from support.configs import MAC, lack  # noqa: E402
from support.plugin import OURS, VERSIONS, cni, finish_all, start  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run  # noqa: E402

ADDRESSES = {"type": "static", "addresses": [{"address": "192.0.2.53/32"}, {"address": "2001:db8::53/128"}],
             "dns": {"nameservers": ["192.0.2.1"]}}
OTHER = "02:00:5e:99:99:99"


def config(version="1.1.0", **more):
    return {"cniVersion": version, "name": "net1", "type": "dummy", "ipam": ADDRESSES} | more


@suite.spread
class Dummy(suite.NodeTest):
    def call(self, verb, conf, pod, **options):
        return cni("dummy", verb, conf, **({"netns": pod.path, "container": pod.name} | options))

    def link(self, pod):
        link, = json.loads(pod.run("ip", "-j", "-d", "address", "show", "eth0"))
        return link

    @suite.cases([("the config", {"mac": MAC}), ("runtimeConfig", {"mac": OTHER, "runtimeConfig": {"mac": MAC}})])
    def MAC_address_and_MTU_are_those_of(self, keys):
        pod = self.pod()
        conf = config(mtu=1400, **keys)
        result = self.assert_ok(self.call("ADD", conf, pod))
        self.assertEqual((self.link(pod)["address"], self.link(pod)["mtu"]), (MAC, 1400))
        self.assertEqual(result["interfaces"], [{"name": "eth0", "mac": MAC, "sandbox": pod.path}])
        self.assertEqual(result["dns"], ADDRESSES["dns"])
        self.assert_ok(self.call("CHECK", conf | {"prevResult": result}, pod))
        pod.run("ip", "link", "set", "eth0", "mtu", "1300")
        self.assert_error(self.call("CHECK", conf | {"prevResult": result}, pod), msg="1300")

    def test_its_addresses_answer_in_the_pod_and_not_on_the_node(self):
        pod = self.pod()
        self.assert_ok(self.call("ADD", config(), pod))
        pod.run("ip", "link", "set", "lo", "up")
        for address in ("192.0.2.53", "2001:db8::53"):
            self.assertIn(" 0% packet loss", pod.run("ping", "-c1", "-w5", address))
            self.assertNotIn(" 0% packet loss", run("ping", "-c1", "-W1", address, check=False))

    @suite.cases([(version, version) for version in VERSIONS])
    def ADD_and_DEL_work_in_version(self, version):
        pod = self.pod()
        before = snapshot()
        result = self.assert_ok(self.call("ADD", config(version), pod))
        self.assertEqual(result["cniVersion"], version)
        self.assertEqual(self.link(pod)["linkinfo"]["info_kind"], "dummy")
        for _ in range(2):
            self.assert_ok(self.call("DEL", config(version), pod))
        self.assert_same(before, ignore=left_by_design)

    def test_without_ipam_it_fails_before_the_namespace_is_opened_and_DEL_succeeds(self):
        pod = self.pod()
        conf = config(ipam=None)
        self.assert_error(self.call("ADD", conf, pod, netns="/run/netns/absent"), 7,
                          "dummy interface requires an IPAM configuration")
        self.assert_ok(self.call("ADD", config(), pod))
        self.assert_ok(self.call("DEL", conf, pod))
        self.assertNotIn("eth0", pod.run("ip", "link"))

    def test_64_come_and_go_at_once(self):
        lack("dummy")  # loads the module: of its loaders the kernel has no more than 50 at once
        before = snapshot()
        conf = config(ipam={"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}]]})
        pods = [self.pod() for _ in range(64)]
        for verb in ("ADD", "DEL"):
            outcomes = finish_all([start("dummy", verb, conf, netns=pod.path, container=pod.name) for pod in pods])
            self.assertEqual([str(one) for one in outcomes if not one.ok], [])
            if verb == "ADD":
                given = {one.json["ips"][0]["address"] for one in outcomes}
                self.assertEqual(len(given), len(pods))
        for pod in pods:
            pod.remove()
        self.assert_same(before, ignore=left_by_design)


if __name__ == "__main__":
    if os.path.isdir(OURS):
        guest.enter_unless(lambda: not lack("dummy"), "this kernel has no dummy links")
    suite.main(needs=("ping",), sampled_in_guest=True)
