"""Interfaces of pods with routes, for the plugin vrf, and what is in a pod's VRFs."""

import json
import os

from support import suite
from support.plugin import cni
from support.snapshot import pod_snapshot
from support.world import run, wait_for

STATES = "/run/cni/vrf"


def config(vrf="blue", version="1.1.0", **more):
    return {"cniVersion": version, "name": "net1", "type": "vrf", "vrfname": vrf} | more


def l3mdev(place):
    """The kernel makes these rules with the first VRF of a namespace and keeps them. Of IPv6 a snapshot has its message:
    attribute 19 is FRA_L3MDEV, a byte (linux/fib_rules.h)."""
    return place.startswith("rule") and ("l3mdev" in place or "0500130001000000" in place)


class VrfTest(suite.NodeTest):
    """A node with pods."""

    def attach(self, pod, ifname, net=51, dad=False, prefix="10"):
        """An interface of the pod in 10.NET.0.0/24 and fd00:NET::/64, whose gateway is the node or, with a prefix,
        another; its plugin's result, which has a route to 10.99.0.0/16 and the default routes."""
        host = f"{pod.name[-6:]}-{ifname}"
        nodad = "" if dad else "nodad"
        run("ip", "link", "add", host, "type", "veth", "peer", "name", ifname, "netns", pod.name)
        run("ip", "-batch", "-", stdin=f"link set {host} up\naddr add {prefix}.{net}.0.1/24 dev {host}\n"
                                       f"addr add fd00:{net}::1/64 dev {host} nodad\n")
        pod.run("ip", "-batch", "-", stdin=f"link set lo up\naddr add {prefix}.{net}.0.2/24 dev {ifname}\n"
                f"addr add fd00:{net}::2/64 dev {ifname} {nodad}\nlink set {ifname} up\n")
        self.settle(pod, ifname, net)
        pod.run("ip", "-batch", "-", stdin=f"route add 10.99.0.0/16 via {prefix}.{net}.0.1 dev {ifname} metric {net} "
                f"mtu 1400\nroute add default via {prefix}.{net}.0.1 dev {ifname} src {prefix}.{net}.0.2 metric {net}\n")
        pod.run("ip", "-6", "route", "add", "default", "via", f"fd00:{net}::1", "dev", ifname, "src", f"fd00:{net}::2",
                "metric", str(net))
        link, = json.loads(pod.run("ip", "-j", "link", "show", "dev", ifname))
        return {"cniVersion": "1.1.0",
                "interfaces": [{"name": host}, {"name": ifname, "mac": link["address"], "sandbox": pod.path}],
                "ips": [{"address": f"{prefix}.{net}.0.2/24", "gateway": f"{prefix}.{net}.0.1", "interface": 1},
                        {"address": f"fd00:{net}::2/64", "gateway": f"fd00:{net}::1", "interface": 1}],
                "routes": [{"dst": "10.99.0.0/16", "gw": f"{prefix}.{net}.0.1"}, {"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}

    def settle(self, pod, ifname, net):
        """The kernel makes the routes of IPv6 addresses when it has time to."""
        self.assertTrue(wait_for(lambda: f"fd00:{net}::/64" in pod.run("ip", "-6", "route", "show", "dev", ifname)
                                 and "tentative" not in pod.run("ip", "-6", "addr", "show", "dev", ifname), 20))

    def call(self, verb, conf, pod, result=None, **options):
        conf = dict(conf)
        if result is not None:
            conf["prevResult"] = result
        return cni("vrf", verb, conf, **({"netns": pod.path, "container": pod.name, "ifname": "net1"} | options))

    def links(self, pod):
        return {link["ifname"]: link for link in json.loads(pod.run("ip", "-j", "-d", "link"))}

    def vrfs(self, pod):
        """Name to table."""
        return {name: link["linkinfo"]["info_data"]["table"] for name, link in self.links(pod).items()
                if link.get("linkinfo", {}).get("info_kind") == "vrf"}

    def addresses(self, pod, ifname):
        shown, = json.loads(pod.run("ip", "-j", "addr", "show", "dev", ifname))
        return {(one["local"], one["prefixlen"], one.get("nodad", False)) for one in shown["addr_info"]
                if one["scope"] == "global"}

    def routes(self, pod, table="main"):
        """(destination, gateway, interface, source, metric of IPv4, metrics) of both families."""
        found = set()
        for family in ("-4", "-6"):
            # One table alone is an error where the kernel has none of that number.
            for route in json.loads(pod.run("ip", "-j", family, "route", "show", "table", "all") or "[]"):
                if str(route.get("table", "main")) != str(table) or route["dst"].startswith("fe80"):
                    continue
                if route.get("type") in ("multicast", "local", "anycast", "broadcast"):
                    continue
                found.add((route["dst"], route.get("gateway"), route["dev"], route.get("prefsrc"),
                           route.get("metric"), str(route.get("metrics"))))
        return found

    def assert_untouched(self, pod, before):
        self.assert_same(before, pod_snapshot(pod), ignore=l3mdev, what="the pod is not as it was:")

    def states(self):
        return sorted(os.listdir(STATES)) if os.path.isdir(STATES) else []
