#!/usr/bin/env python3
"""host-local gives out no address that a living pod of another network has on the same bridge, master, or with ptp on the
node, as after a network got another name. Pods elsewhere, and pods that are gone, keep no address from it."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import cnitool, use  # noqa: E402
from support.configs import lack  # noqa: E402
from support.segment import links  # noqa: E402
from support.world import Pod, run, wait_for  # noqa: E402

IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/28"}], [{"subnet": "fd00:1:2::/120"}]]}
MACVLAN = {"type": "macvlan", "master": "up0"}
#: What an interface is on: the networks of a segment, and one that is elsewhere.
EACH = [("of macvlan", (MACVLAN, {"master": "up1"})),
        ("of macvlan on the default route", ({"type": "macvlan"}, {"master": "up1"})),
        ("of ipvlan", ({"type": "ipvlan", "master": "up0"}, {"master": "up1"})),
        ("of bridge", ({"type": "bridge", "bridge": "br0"}, {"bridge": "br1"})),
        ("of ptp", ({"type": "ptp"}, {"type": "bridge", "bridge": "br1"}))]


@suite.spread
class OtherNetworks(suite.NodeTest):
    def setUp(self):
        super().setUp()
        run("ip", "-batch", "-", stdin="link add up0 type veth peer name up1\nlink set up0 up\n"
            "link set up1 up\naddr add 192.0.2.2/24 dev up0\nroute add default via 192.0.2.1\n")

    def add(self, network, name, **env):
        pod = Pod(name)
        done = cnitool("add", network, pod.path, "--container-id", name, **env)
        if done.status:
            return done.stdout + done.stderr
        return [ip["address"].split("/")[0] for ip in done.json["ips"]]

    @staticmethod
    def network(name, plugin):
        use({"cniVersion": "1.1.0", "name": name, "plugins": [plugin | {"ipam": IPAM}]}, f"{name}.conflist")

    @staticmethod
    def made_by_the_reference():
        """Takes from host veths what the reference plugins do not give them."""
        for veth in [name for name in links() if name.startswith("veth")]:
            run("ip", "link", "set", veth, "alias", "")
            run("ip", "link", "set", veth, "down")
            run("ip", "link", "set", veth, "name", veth.replace("veth", "vet"))

    @suite.cases(EACH)
    def pods(self, row):
        plugin, elsewhere = row
        if reason := lack(plugin["type"]):
            self.skipTest(reason)
        self.network("web", plugin)
        taken = [self.add("web", name) for name in ("a", "b")]
        has_veths = plugin["type"] in ("bridge", "ptp")
        if has_veths:
            self.made_by_the_reference()
        self.network("front", plugin)
        self.assertEqual(self.add("front", "c"), ["10.1.2.4", "fd00:1:2::4"])
        self.assertIn("a pod of network 'web' on the same link has it",
                      self.add("front", "d", CNI_ARGS="IgnoreUnknown=1;IP=10.1.2.3"))
        self.network("apart", plugin | elsewhere)
        self.assertEqual(self.add("apart", "e"), taken[0])
        before = len(links())
        run("ip", "netns", "del", "b")
        wait_for(lambda: not has_veths or len(links()) < before)  # with the routes to it
        self.assertEqual(self.add("front", "f", CNI_ARGS="IgnoreUnknown=1;IP=10.1.2.3"), ["10.1.2.3", "fd00:1:2::5"])

    def test_a_namespace_without_such_an_address_is_another_pods_by_now(self):
        self.network("web", MACVLAN)
        self.add("web", "a")
        run("ip", "netns", "del", "a")
        self.network("front", MACVLAN)
        self.assertEqual(self.add("front", "a"), ["10.1.2.2", "fd00:1:2::2"])


if __name__ == "__main__":
    suite.main()
