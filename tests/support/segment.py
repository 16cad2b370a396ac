"""A node with a link to a network of others: what macvlan, ipvlan and vlan stand on."""

import json

from support import suite
from support.configs import lack
from support.plugin import OURS, cni, finish_all, start
from support.snapshot import snapshot
from support.world import run

MASTER = "eth1"
#: What the neighbour outside has; the pods get the addresses after 10.1.2.1 and fd00:1:2::1.
V4, V6 = "10.1.2.1", "fd00:1:2::1"
NEIGHBOUR_MAC = "02:00:5e:00:00:01"
IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1:2::/64"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}


def static(*addresses, **more):
    """An IPAM plugin's config with these addresses."""
    return {"type": "static", "addresses": [{"address": one} for one in addresses], **more}


def links(pod=None):
    """{name: link} of the node or of a pod, as ip(8) shows it."""
    text = (pod.run if pod else run)("ip", "-j", "-d", "address", "show")
    return {one["ifname"]: one for one in json.loads(text)}


def data_of(pod, ifname="eth0"):
    """What only links of its kind have."""
    return links(pod)[ifname]["linkinfo"]["info_data"]


def addresses(result):
    """The addresses of a result without their prefix lengths."""
    return [ip["address"].split("/")[0] for ip in result["ips"]]


class SegmentTest(suite.NodeTest):
    """The master of the node is one end of a veth; the other is in the namespace `outside`."""

    plugin = None  # of the test
    version = "1.1.0"

    def setUp(self):
        super().setUp()
        if reason := lack(self.plugin):
            self.skipTest(reason)
        self.outside = self.pod("outside")
        run("ip", "link", "add", MASTER, "type", "veth", "peer", "name", "up0", "address", NEIGHBOUR_MAC,
            "netns", self.outside.name)
        self.neighbour("up0", V4, V6)
        # Without a link-local address that is no longer tentative, the node asks for no neighbour for 2 s.
        with open(f"/proc/sys/net/ipv6/conf/{MASTER}/accept_dad", "w") as file:
            file.write("0")
        run("ip", "link", "set", MASTER, "up")
        self.empty = snapshot()

    def neighbour(self, link, *own, pod=None):
        """Sets a link of the namespace outside, or of another, up with addresses."""
        pod = pod or self.outside
        for one in own:
            prefix, flag = ("64", ["nodad"]) if ":" in one else ("24", [])
            pod.run("ip", "addr", "add", f"{one}/{prefix}", "dev", link, *flag)
        pod.run("ip", "link", "set", link, "up")

    def conf(self, **more):
        base = {"cniVersion": self.version, "name": "net1", "type": self.plugin, "master": MASTER,
                "ipam": IPAM}
        return {key: value for key, value in (base | more).items() if value is not None}

    def call(self, verb, pod, conf, directory=OURS, **options):
        return cni(self.plugin, verb, conf,
                   **({"netns": pod.path, "container": pod.name, "directory": directory} | options))

    def add(self, pod, **more):
        return self.assert_ok(self.call("ADD", pod, self.conf(**more)))

    def check(self, pod, result, **more):
        return self.call("CHECK", pod, self.conf(prevResult=result, **more))

    def delete(self, pod, **more):
        removed = self.call("DEL", pod, self.conf(**more))
        self.assertEqual((removed.status, removed.stdout), (0, ""), str(removed))

    def together(self, verb, pods, conf):
        """The outcomes of a verb for all pods at once."""
        processes = [start(self.plugin, verb, conf, netns=pod.path, container=pod.name) for pod in pods]
        return finish_all(processes)

    def assert_reaches(self, origin, *targets):
        for target in targets:
            # A neighbour outside may still be about to learn the address; and the kernel makes the local route of an
            # IPv6 address some time after RTM_NEWADDR, without DAD, too (addrconf_dad_work() of net/ipv6/addrconf.c).
            self.assertRegex(origin.run("ping", "-c1", "-i0.2", "-w5", target, check=False), " [1-9][0-9]* received",
                             f"{origin.name} does not reach {target}")

    def assert_does_not_reach(self, origin, *targets):
        for target in targets:
            self.assertIn(" 100% packet loss", origin.run("ping", "-c1", "-W1", target, check=False),
                          f"{origin.name} reaches {target}")

    def assert_refused(self, outcome, code, msg, pod):
        """It failed so, and left nothing on the node and in the pod."""
        self.assert_error(outcome, code, msg)
        self.assert_same(self.empty, ignore=self.not_of_this_test)
        self.assertEqual(links(pod).keys(), {"lo"})

    @staticmethod
    def not_of_this_test(place):
        """Pods, and what IPAM plugins keep."""
        return place.startswith(("file/run/netns/", "file/var/lib/cni/"))
