"""A node with slots of a link, a kubelet, and patchbay-agent that sees pods by NRI."""

from support import agent, suite
from support.agent import RESOURCE, Agent, slots
from support.kubelet import Kubelet
from support.nri_runtime import Runtime
from support.world import run, set_up, wait_for

SOCKET = "/run/nri/nri.sock"
IDS = [f"uplink:macvlan:{n}" for n in range(1, 5)]


class NriNode(suite.NodeTest):
    def setUp(self):
        if reason := agent.why_impossible():
            self.skipTest(reason)
        super().setUp()
        run("ip", "link", "add", "uplink", "type", "veth", "peer", "name", "uplink-out")
        set_up("uplink-out")
        set_up("uplink")
        self.of = Kubelet()
        self.addCleanup(lambda: self.of.kill())
        self.by = None

    def agent(self, *flags):
        self.by = Agent(slots(4), flags=["--nri-socket", SOCKET, *flags])
        self.addCleanup(lambda: self.by.kill())
        self.assertTrue(wait_for(lambda: len(self.of.devices(RESOURCE)) == 4, 20), self.by.log)
        return self.by

    def runtime(self, **options):
        out = Runtime(SOCKET, **options)
        self.addCleanup(lambda: out.stop(unlink=False))
        return out

    def admit(self, sandbox, *ids):
        """A pod with devices, attached."""
        self.of.allocate(RESOURCE, ids)
        self.of.own(sandbox.space, sandbox.name, {RESOURCE: list(ids)})
        self.assertEqual(self.by.claim(sandbox.space, sandbox.name, sandbox.uid), list(ids))

    def looks(self, seconds):
        """Whether the agent asks PodResources within the time."""
        return wait_for(lambda: self.of.ask("rules")["List"] > 0, seconds)

    def quiet(self):
        """Waits until the agent does not look any more because of an Allocate."""
        while self.looks(1.2):
            pass
