#!/usr/bin/env python3
"""A kernel without IPv6 (ipv6.disable=1): every plugin that makes or changes an interface adds, checks and deletes with
IPv4 alone, DEL twice. On other kernels there is nothing to see, and this runs in a virtual machine.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from interface_test import EACH, Stage  # noqa: E402
from support import guest, suite  # noqa: E402
from support.configs import lack  # noqa: E402
from support.plugin import cni  # noqa: E402

LIMITS = {f"{way}{what}": 8000000 for way in ("ingress", "egress") for what in ("Rate", "Burst")}
PORTS = {"runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": protocol}
                                            for protocol in ("tcp", "udp")]}}
CHAINED = {"sbr": {}, "sbr, source hints": {"addSourceHints": True}, "vrf": {"vrfname": "blue"},
           "portmap": PORTS | {"backend": "nftables"}, "portmap, iptables": PORTS | {"backend": "iptables"},
           "firewall": {"backend": "nftables", "ingressPolicy": "same-bridge"},
           "firewall, iptables": {"backend": "iptables", "ingressPolicy": "same-bridge"},
           "bandwidth": LIMITS, "bandwidth, pod": LIMITS | {"egressMode": "pod"},
           "tuning": {"sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"}}}


def has_ipv6():
    return os.path.exists("/proc/sys/net/ipv6")


@suite.spread
class NoIpv6(Stage):
    def setUp(self):
        if has_ipv6():
            self.skipTest("this kernel has IPv6")
        super().setUp()

    @suite.cases(EACH)
    def comes_and_goes_with_IPv4_alone(self, plugin):
        self.prepare(plugin)
        result = self.add()
        self.assert_ok(self.call("CHECK", more={"prevResult": result}))
        self.assert_ok(self.call("STATUS"))
        for _ in range(2):
            self.assert_ok(self.call("DEL"))
        self.assert_left_nothing()

    @suite.cases([(name, name) for name in CHAINED])
    def is_chained_with_IPv4_alone(self, name):
        plugin = name.split(",")[0]
        if reason := lack(plugin):
            self.skipTest(reason)
        self.prepare("bridge")
        result = self.add()
        conf = {"cniVersion": "1.1.0", "name": "net1", "type": plugin} | CHAINED[name]

        def call(verb, **more):
            return self.assert_ok(cni(plugin, verb, conf | more, netns=self.one.path, container=self.one.name))
        call("STATUS")
        call("ADD", prevResult=result)
        call("CHECK", prevResult=result)
        self.assert_ok(self.call("CHECK", more={"prevResult": result}))
        for _ in range(2):
            call("DEL", prevResult=result)
        self.assert_ok(self.call("DEL"))


if __name__ == "__main__":
    os.environ.setdefault("VM_ARGUMENTS", "ipv6.disable=1")
    guest.enter_unless(lambda: not has_ipv6(), "this kernel has IPv6")
    suite.main(needs=("nft", "iptables-restore"), sampled_in_guest=True)
