#!/usr/bin/env python3
"""The power fails during ADD or DEL: whatever of the state is on the disk then, the node that comes back gives the next pod
an address, and DEL or GC removes what the old pod had. A torn file is never fatal and never stays."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import power_loss, rows, suite  # noqa: E402
from support.cnitool import CONF_DIR, cnitool, finish, start, use  # noqa: E402
from support.plugin import PLUGINS  # noqa: E402
from support.reboot import boot  # noqa: E402
from support.world import World  # noqa: E402

STATE = "/var/lib/cni"
CHAINED = [{"type": "portmap", "capabilities": {"portMappings": True}},
           {"type": "bandwidth", "ingressRate": 100000000, "ingressBurst": 1000000}]
HOST_LOCAL = {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/28"}], [{"subnet": "fd00:1::/64"}]]}
NETWORKS = {
    "bridge": [{"type": "bridge", "bridge": "cni0", "isGateway": True, "ipam": HOST_LOCAL}, *CHAINED],
    "flannel": [{"type": "flannel", "delegate": {"isDefaultGateway": True, "forceAddress": True}}, *CHAINED],
}
#: What host-local remembers of no pod.
SHARED = ("last_reserved_ip", "lock", "seen")


SUBNET_ENV = "FLANNEL_NETWORK=10.1.0.0/16\nFLANNEL_SUBNET=10.1.2.1/28\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"


def left():
    """The files of pods, with the first bytes of each."""
    return {path: data[:60] for path, data in power_loss.read(STATE).items()
            if data is not None and not os.path.basename(path).startswith(SHARED)}


@suite.spread
class PowerLoss(suite.NodeTest):
    def losses(self, verb, plugins):
        """All folders that the disk may hold if the power fails during a verb."""
        network = {"cniVersion": "1.0.0", "name": "net", "plugins": plugins}
        boot(86400)
        use(network)
        os.makedirs("/run/flannel")
        with open("/run/flannel/subnet.env", "w", encoding="ascii") as file:
            file.write(SUBNET_ENV)
        pod = self.pod()
        arguments = ("net", pod.path, "--container-id", "old")
        ports = {"CAP_ARGS": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}}
        if verb == "del":
            self.assert_ok(cnitool("add", *arguments, **ports))
        disk = power_loss.Disk(STATE, power_loss.read(STATE))
        self.assert_ok(finish(start(verb, *arguments, wrap=power_loss.strace("/run/calls"), **ports)))
        found = power_loss.replay("/run/calls", disk)
        _, everything = next(disk.after_a_loss())
        self.assertEqual(everything, power_loss.read(STATE), "the model has another result than the run")
        self.assertGreater(len(found), 5)
        cnitool("del", *arguments)  # the links, which a reboot removes; the disk is written anew
        return rows.sampled(found)

    @suite.cases([(f"{verb} of {name}", (verb, name)) for verb in ("add", "del") for name in NETWORKS if name in PLUGINS])
    def during(self, row):
        verb, name = row
        for after, what, files in self.losses(verb, NETWORKS[name]):
            with self.subTest(f"{what}, after {after}"):
                for clean in (("del", "net", "/run/netns/gone", "--container-id", "old"), ("gc", "net", "--yes")):
                    power_loss.write(STATE, files)
                    boot(60)
                    new = ("net", self.pod().path, "--container-id", "new")
                    self.assert_ok(cnitool("add", *new))
                    self.assert_ok(cnitool("del", *new))
                    cleaned = cnitool(*clean)
                    self.assertTrue(cleaned.ok, str(cleaned))
                    self.assertEqual(left(), {}, clean[0])


if __name__ == "__main__":
    suite.main(needs=("strace",))
