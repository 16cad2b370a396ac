#!/usr/bin/env python3
"""Our plugin with the daemon of the reference plugins, and theirs with ours: ADD, CHECK, DEL, and what each says when it
fails.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import dhcp, suite  # noqa: E402
from support.plugin import OURS, REFERENCE, cni, has_reference  # noqa: E402
from support.world import wait_for  # noqa: E402

WAYS = {"our plugin, their daemon": (OURS, REFERENCE), "their plugin, our daemon": (REFERENCE, OURS),
        "both ours": (OURS, OURS), "both theirs": (REFERENCE, REFERENCE)}
EACH = list(WAYS.items())
#: Of dnsmasq: the reference's plugin has another route order and prints no scope.
OPTIONS = ("--dhcp-option=121,198.51.100.0/24,10.77.0.2,0.0.0.0/0,10.77.0.1",)


@suite.spread
class Mixed(suite.NodeTest):
    def setUp(self):
        super().setUp()
        if not has_reference("dhcp"):
            self.skipTest("the reference plugins are not installed")
        dhcp.segment()
        self.the_pod = self.pod()
        dhcp.veth(self.the_pod, "peer")
        self.the_pod.run("ip", "link", "set", "eth0", "up")

    def daemon(self, directory, *flags):
        daemon = dhcp.Daemon(*flags, directory=directory)
        self.addCleanup(daemon.process.wait)
        self.addCleanup(lambda: daemon.process.kill())
        return daemon

    def server(self, **options):
        server = dhcp.dnsmasq(**options)
        self.addCleanup(server.stop)

    def call(self, verb, directory, conf=None, **options):
        return cni("dhcp", verb, conf or dhcp.config(version="1.0.0"), directory=directory,
                   netns=self.the_pod.path, container="pod1", **options)

    @suite.cases(EACH)
    def a_lease_from_ADD_to_DEL_with(self, way):
        plugin, daemon = way
        self.server(options=OPTIONS)
        self.daemon(daemon)
        conf = dhcp.config(version="1.0.0", ipam={"request": [{"option": "121"}],
                                                  "provide": [{"option": "12", "fromArg": "K8S_POD_NAME"}]})
        result = self.assert_ok(self.call("ADD", plugin, conf, args="IgnoreUnknown=1;K8S_POD_NAME=web-0"))
        [ip] = result["ips"]
        self.assertEqual(ip["gateway"], "10.77.0.1")
        self.assertEqual(result["routes"], [{"dst": "198.51.100.0/24", "gw": "10.77.0.2"},
                                            {"dst": "0.0.0.0/0", "gw": "10.77.0.1"}])
        self.assertEqual(dhcp.dnsmasq_leases(), {ip["address"][:-3]: ":".join(f"{b:02x}" for b in b"\0pod1/net1/eth0")})
        self.assert_ok(self.call("CHECK", plugin, conf | {"prevResult": result}))
        for _ in range(2):
            self.assert_ok(self.call("DEL", plugin, conf | {"prevResult": result}))
        if daemon == OURS:  # the reference's releases come from 0.0.0.0, and servers may pass them over
            self.assertTrue(dhcp.released())

    @suite.cases(EACH)
    def without_a_server_ADD_fails_by(self, way):
        plugin, daemon = way
        # 1.1.1 has no -resendtimeout: it gives up when the pause would be longer than -resendmax.
        self.daemon(daemon, "-timeout", "1s", "-resendmax", "1s", *(["--resendtimeout", "2s"] if daemon == OURS else []))
        failed = self.call("ADD", plugin)
        self.assertEqual(failed.status, 1, failed)
        self.assertIn("error calling DHCP.Allocate: no more tries", failed.json["msg"])
        self.assert_ok(self.call("DEL", plugin))

    @suite.cases([(name, way) for name, way in EACH if way[0] != way[1]])
    def an_upgrade_keeps_the_address_whose_order_ends_at(self, way):
        """The daemon is replaced between two ADDs of a container: the server sees the same client."""
        plugin, daemon = way
        self.server()
        old = self.daemon(REFERENCE if daemon == OURS else OURS)
        first = self.assert_ok(self.call("ADD", plugin))
        old.kill()
        if os.path.exists(dhcp.SOCKET) and daemon == REFERENCE:
            os.unlink(dhcp.SOCKET)  # it does not replace one itself
        self.daemon(daemon)
        self.assertEqual(self.assert_ok(self.call("ADD", plugin))["ips"], first["ips"])

    def test_CHECK_takes_over_a_lease_of_their_daemon(self):
        self.server()
        theirs = self.daemon(REFERENCE)
        pod = self.pod()
        conf = dhcp.config(version="1.0.0")
        result = self.assert_ok(dhcp.attach("ADD", pod, conf, directory=REFERENCE))
        theirs.kill()
        ours = self.daemon(OURS)
        self.assertEqual(ours.leases(), {})
        with dhcp.capture("/run/adopt.pcap") as path:
            self.assert_ok(dhcp.attach("CHECK", pod, conf | {"prevResult": result}))
            self.assertTrue(wait_for(lambda: ours.leases()["pod2"]["state"] == "bound"), ours.log)
            self.assertEqual(ours.leases()["pod2"]["server"], "10.77.0.1")
        self.assertEqual(dhcp.packets(path, "dhcp.option.dhcp", "dhcp.ip.client", where="dhcp.type == 1"),
                         [("3", result["ips"][0]["address"][:-3])])
        self.assertEqual(dhcp.addresses(pod), [result["ips"][0]["address"]])
        self.assert_ok(dhcp.attach("DEL", pod, conf | {"prevResult": result}))
        self.assertTrue(dhcp.released())

    def test_CHECK_of_a_pod_without_the_address_takes_nothing_over(self):
        ours = self.daemon(OURS)
        result = {"cniVersion": "1.0.0", "ips": [{"address": "10.77.0.9/24"}]}
        self.assert_error(self.call("CHECK", OURS, dhcp.config(version="1.0.0", prevResult=result)), 999,
                          "the daemon has no lease of this attachment")
        self.assertEqual(ours.leases(), {})

    def test_STATUS_and_GC_with_their_daemon(self):
        self.daemon(REFERENCE)
        conf = dhcp.config()
        self.assert_ok(cni("dhcp", "STATUS", conf))
        collected = cni("dhcp", "GC", conf | {"cni.dev/valid-attachments": []})
        self.assert_ok(collected)
        self.assertIn("has no GC", collected.stderr)

    def test_the_same_bridge_chain_works_with_both_plugins_of_the_reference(self):
        """Their bridge runs our dhcp, and ours theirs, by CNI_PATH."""
        self.server()
        self.daemon(OURS)
        for number, (interface, ipam) in enumerate(((REFERENCE, OURS), (OURS, REFERENCE))):
            pod = self.pod()
            os.makedirs(f"/run/mixed{number}")
            os.symlink(f"{interface}/bridge", f"/run/mixed{number}/bridge")
            os.symlink(f"{ipam}/dhcp", f"/run/mixed{number}/dhcp")
            options = {"directory": interface, "path": f"/run/mixed{number}"}
            conf = dhcp.config(version="1.0.0")
            result = self.assert_ok(dhcp.attach("ADD", pod, conf, **options))
            self.assertEqual(dhcp.addresses(pod), [result["ips"][0]["address"]])
            self.assert_ok(dhcp.attach("CHECK", pod, conf | {"prevResult": result}, **options))
            self.assert_ok(dhcp.attach("DEL", pod, conf | {"prevResult": result}, **options))


if __name__ == "__main__":
    suite.main(needs=("dnsmasq",), per_processor=2)
