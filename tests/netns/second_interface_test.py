#!/usr/bin/env python3
"""A second interface of a pod whose network has a way out of its own: with ignoreDefaultRoute the first interface keeps
the default routes of both families. And the DNS of IPAM, where the config asks for it."""

import itertools
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import CONF_DIR, cnitool  # noqa: E402
from support.configs import CONFIGS, give_device, lack, provide  # noqa: E402
from support.doctor import BIN, DoctorTest, shell, write  # noqa: E402
from support.plugin import OURS, PLUGINS, cni  # noqa: E402
from support.world import run  # noqa: E402

EACH = [(plugin, plugin) for plugin in PLUGINS if CONFIGS[plugin].kind and plugin != "flannel"]  # which has a delegate
PASSES_DNS_OVER = [plugin for plugin, _ in EACH if plugin not in ("bridge", "ptp", "dummy")]
BEYOND = ("203.0.113.1", "2001:db8:9::1")
DEFAULTS = [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]
OTHER = {"dst": "198.51.100.0/24"}
IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1:2::/64"}]],
        "routes": [*DEFAULTS, OTHER, {"dst": "0.0.0.0/0", "table": 77}]}
FIRST = {"cniVersion": "1.1.0", "name": "first", "type": "ptp",
         "ipam": {"type": "host-local", "routes": DEFAULTS,
                  "ranges": [[{"subnet": "10.8.0.0/24"}], [{"subnet": "fd00:8::/64"}]]}}


class TwoInterfaces(suite.NodeTest):
    def prepare(self, plugin, **more):
        if reason := provide(plugin):
            self.skipTest(reason)
        self.plugin, self.one = plugin, self.pod()
        give_device(plugin)
        known = {key: value for key, value in CONFIGS[plugin].least.items() if key not in ("isGateway", "dns")}
        self.conf = {"cniVersion": "1.1.0", "name": "net1", "type": plugin, **known, "ipam": IPAM} | more

    def call(self, verb, conf=None, **more):
        return cni(self.plugin, verb, (conf or self.conf) | more, netns=self.one.path, container="pod1",
                   ifname="net1")

    def defaults(self, family):
        """(device, gateway) of each next hop of the main table."""
        found = json.loads(self.one.run("ip", "-j", f"-{family}", "route", "show", "default"))
        return {(hop.get("dev", one.get("dev")), hop.get("gateway")) for one in found
                for hop in one.get("nexthops", [one])}


@suite.spread
class DefaultRoute(TwoInterfaces):
    def both(self, plugin, **more):
        self.prepare(plugin, **more)
        run("ip", "-batch", "-", stdin="".join(f"addr add {one} dev lo\n" for one in BEYOND) + "link set lo up\n")
        self.assert_ok(cni("ptp", "ADD", FIRST, netns=self.one.path, container="pod1"))
        return self.assert_ok(self.call("ADD"))

    @suite.cases(EACH)
    def the_first_interface_keeps_it_beside(self, plugin):
        result = self.both(plugin, ignoreDefaultRoute=True)
        self.assertEqual([route["dst"] for route in result["routes"]], [OTHER["dst"], "0.0.0.0/0"])
        self.assertEqual(result["routes"][1]["table"], 77)
        self.assertEqual((self.defaults(4), self.defaults(6)), ({("eth0", "10.8.0.1")}, {("eth0", "fd00:8::1")}))
        self.assertIn("net1", self.one.run("ip", "route", "show", OTHER["dst"]))
        for address in BEYOND:
            self.assertIn("1 received", self.one.run("ping", "-c1", "-w5", address, check=False))
        self.assertEqual(self.one.run("cat", "/proc/sys/net/ipv6/conf/net1/accept_ra_defrtr").strip(),
                         "1" if plugin == "ptp" else "0")
        self.assert_ok(self.call("CHECK", prevResult=result))
        self.assert_ok(self.call("DEL", prevResult=result))
        self.assertEqual(self.defaults(4), {("eth0", "10.8.0.1")})

    @suite.cases([(plugin, plugin) for plugin in ("macvlan", "bridge") if plugin in PLUGINS])
    def without_the_key_the_second_takes_part_in_it(self, plugin):
        self.both(plugin)
        self.assertIn("net1", {device for device, _ in self.defaults(4)})
        self.assertEqual({device for device, _ in self.defaults(6)}, {"eth0", "net1"})

    @suite.cases(EACH)
    def a_metric_of_the_route_is_another_way(self, plugin):
        low = [route | {"priority": 4096} for route in DEFAULTS]
        result = self.both(plugin, ipam=IPAM | {"routes": low})
        for family, gateway, address in ((4, "10.8.0.1", BEYOND[0]), (6, "fd00:8::1", BEYOND[1])):
            way = json.loads(self.one.run("ip", "-j", "route", "get", address))[0]
            self.assertEqual((way["dev"], way["gateway"]), ("eth0", gateway))
        self.assertEqual([route["priority"] for route in result["routes"]], [4096, 4096])
        self.assert_ok(self.call("CHECK", prevResult=result))

    # Without ipam the others are refused anyway, or take the addresses of prevResult.
    @suite.cases([row for row in EACH if row[0] not in ("ptp", "dummy", "ipvlan")])
    def the_key_is_refused_without_ipam_by(self, plugin):
        self.prepare(plugin, ignoreDefaultRoute=True, ipam={})
        self.assert_error(self.call("ADD"), 7, "ignoreDefaultRoute: has no effect without ipam")

    def test_the_key_is_refused_with_isDefaultGateway(self):
        self.prepare("bridge", ignoreDefaultRoute=True, isDefaultGateway=True)
        self.assert_error(self.call("ADD"), 7, "ignoreDefaultRoute: contradicts isDefaultGateway")

    def test_ipvlan_leaves_it_out_of_addresses_that_the_plugin_before_gave(self):
        self.prepare("ipvlan", ignoreDefaultRoute=True)
        del self.conf["ipam"]
        prev = {"cniVersion": "1.1.0", "interfaces": [], "ips": [{"address": "10.1.2.9/24", "gateway": "10.1.2.1"}],
                "routes": [*DEFAULTS[:1], OTHER], "dns": {}}
        result = self.assert_ok(self.call("ADD", prevResult=prev))
        self.assertEqual(result["routes"], [OTHER])
        self.assertEqual(self.defaults(4), set())


class Told(DoctorTest):
    def attach(self, **route):
        pod = self.pods[0]
        write(f"{CONF_DIR}/20-second.conflist", json.dumps({"cniVersion": "1.1.0", "name": "second", "plugins": [
            {"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.6.0.0/28", "routes": [DEFAULTS[0] | route]}}]}))
        self.again(pod)

    def again(self, pod, verbs=("add",)):
        for verb in verbs:
            self.assert_ok(cnitool(verb, "second", pod.path, CNI_PATH=BIN, CNI_IFNAME="net1"))

    def test_doctor_names_a_pod_with_two_default_routes_and_its_remedy_ends_that(self):
        shutil.copy(os.path.join(OURS, "ptp"), BIN)
        self.assert_healthy()
        self.attach()
        remedy = self.assert_finds("warning", "default routes", "networks 'net' and 'second' both give a default route "
                                  "for IPv4", "(net1)")
        remedy, then = remedy.split(", then ")
        self.assertEqual(then, "restart the pods")
        shell(remedy)
        self.again(self.pods[0], ("del", "add"))
        self.assert_healthy()
        self.again(self.pods[0], ("del",))
        self.attach(priority=300)  # somebody chose which comes first
        self.assert_healthy()


OF_IPAM = {"nameservers": ["10.1.2.53"], "domain": "ipam.test", "search": ["ipam.test"], "options": ["ndots:2"]}
#: The key, the config's `dns`, and the result's.
MERGED = [
    ("nothing without the key", False, None, {}),
    ("what the config has without the key", False, {"search": ["a.test"]}, {"search": ["a.test"]}),
    ("that of IPAM", True, None, OF_IPAM),
    ("that of IPAM, but what the config has", True, {"search": ["a.test"]}, OF_IPAM | {"search": ["a.test"]}),
    ("that of IPAM, but what the config has empty", True, {"search": [], "options": ["rotate"]},
     {"nameservers": ["10.1.2.53"], "domain": "ipam.test", "options": ["rotate"]}),
]


@suite.spread
class Dns(TwoInterfaces):
    @suite.cases([(f"{plugin}, {name}", (plugin, key, own, wanted)) for plugin, (name, key, own, wanted) in
                  itertools.product(PASSES_DNS_OVER, MERGED)])
    def of_the_result_of(self, row):
        plugin, key, own, wanted = row
        ipam = {"type": "static", "addresses": [{"address": "10.1.2.9/24"}], "dns": OF_IPAM}
        self.prepare(plugin, ipam=ipam, dnsFromIPAM=key, **({"dns": own} if own else {}))
        result = self.assert_ok(self.call("ADD"))
        self.assertEqual(result.get("dns", {}), wanted)
        self.assert_ok(self.call("CHECK", prevResult=result))

    @suite.cases([(plugin, plugin) for plugin in PASSES_DNS_OVER])
    def is_refused_without_ipam_by(self, plugin):
        if reason := lack(plugin):
            self.skipTest(reason)
        self.prepare(plugin, ipam={}, dnsFromIPAM=True)
        self.assert_error(self.call("ADD"), 7, "dnsFromIPAM: has no effect without ipam")
        self.assert_ok(self.call("DEL"))


if __name__ == "__main__":
    suite.main(needs=("ping",))
