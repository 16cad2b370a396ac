#!/usr/bin/env python3
"""A node is upgraded while pods have VRFs: what the Go plugin made, ours checks and removes, and the reverse; both
beside each other.

Where the kernel has no VRFs, this runs under another kernel: scripts/vm.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import guest, rows, suite  # noqa: E402
from support.configs import lack  # noqa: E402
from support.plugin import OURS, REFERENCE, has_reference  # noqa: E402
from support.vrf import VrfTest, config  # noqa: E402

WAYS = {"ours removes what the reference added": (REFERENCE, OURS),
        "the reference removes what ours added": (OURS, REFERENCE)}
CONFIGS = {"a VRF": {}, "a table": {"table": 77}}

CASES = [(f"{way}: {name}, {version}, {'with' if prev else 'without'} prevResult",
          (first, second, keys, version, prev))
         for way, (first, second) in WAYS.items() for name, keys in CONFIGS.items()
         for version, prev in (("1.0.0", True), ("1.0.0", False), ("0.4.0", True))
         # Without it nothing proves that the interface is not that of another container by now.
         if prev or first == OURS]


@suite.spread
class Mixed(VrfTest):
    def setUp(self):
        super().setUp()
        if not has_reference("vrf"):
            self.skipTest(f"the Go plugins are not in {REFERENCE}")

    def attached(self, pod, version="1.0.0"):
        """What the plugin before vrf said of two interfaces."""
        return {ifname: self.attach(pod, ifname, net) | {"cniVersion": version}
                for ifname, net in (("net1", 51), ("net2", 52))}

    @suite.cases(rows.sampled(CASES))
    def nothing_is_left_when(self, case):
        first, second, keys, version, prev = case
        pod = self.pod()
        conf = config(version=version, **keys)
        results = self.attached(pod, version)
        if version == "0.4.0":
            for result in results.values():
                for ip in result["ips"]:
                    ip["version"] = "6" if ":" in ip["address"] else "4"
        for ifname, result in results.items():
            self.assert_ok(self.call("ADD", conf, pod, result, directory=first, ifname=ifname))
            # Older releases of the reference plugin lose routes, which CHECK of ours would name.
            self.assert_ok(self.call("CHECK", conf, pod, result | {"routes": []}, directory=second, ifname=ifname))
        self.assertEqual(self.vrfs(pod), {"blue": keys.get("table", 1)})
        for ifname, result in results.items():
            self.assert_ok(self.call("DEL", conf, pod, result if prev else None, directory=second, ifname=ifname))
        self.assertEqual(self.vrfs(pod), {})
        for ifname in results:
            self.assertNotIn("master", self.links(pod)[ifname])
        self.assertEqual(self.routes(pod, keys.get("table", 1)), set())
        # The late DEL of whoever added it finds nothing to change, and clears what it noted.
        for ifname, result in results.items():
            self.assert_ok(self.call("DEL", conf, pod, result, ifname=ifname))
        self.assertEqual(self.states(), [])

    @suite.cases([("the reference first", (REFERENCE, OURS)), ("ours first", (OURS, REFERENCE))])
    def one_VRF_of_both_plugins_goes_with_the_last_interface(self, directories):
        conf = config(version="1.0.0")
        for order in (("net1", "net2"), ("net2", "net1")):
            pod = self.pod()
            results = self.attached(pod)
            added_by = dict(zip(results, directories))
            for ifname, result in results.items():
                self.assert_ok(self.call("ADD", conf, pod, result, directory=added_by[ifname], ifname=ifname))
            self.assertEqual(self.vrfs(pod), {"blue": 1})
            for ifname in order:
                self.assert_ok(self.call("DEL", conf, pod, results[ifname], directory=added_by[ifname], ifname=ifname))
            self.assertEqual(self.vrfs(pod), {})

    def test_both_plugins_make_the_same(self):
        seen, routes = [], []
        for directory in (OURS, REFERENCE):
            pod = self.pod()
            self.attach(pod, "eth0", 50)
            result = self.attach(pod, "net1", 51) | {"cniVersion": "1.0.0"}
            added = self.call("ADD", config(version="1.0.0"), pod, result, directory=directory)
            self.assert_ok(added)
            seen.append(({k: v for k, v in added.json.items() if k in ("ips", "routes")}, self.vrfs(pod),
                         self.routes(pod), self.addresses(pod, "net1"), self.links(pod)["net1"]["master"]))
            routes.append(self.routes(pod, 1))
        self.assertEqual(seen[0], seen[1])
        # Older releases lose all but the kernel's own ones.
        self.assertIn(routes[1], (routes[0], {route for route in routes[0] if route[1] is None}))


if __name__ == "__main__":
    if os.path.isdir(OURS):
        guest.enter_unless(lambda: not lack("vrf"), "this kernel has no VRFs")
    suite.main(needs=("ping", "nft", "strace"))
