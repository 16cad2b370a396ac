#!/usr/bin/env python3
"""cluster-pool while etcd or the API server is away for long, or answers late: pods start from the blocks at hand, and what was missed
is done when it is back."""

import ipaddress
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, suite  # noqa: E402
from support.etcd_nodes import EtcdTest  # noqa: E402
from support.kubernetes_nodes import KubernetesTest  # noqa: E402
from support.world import wait_for  # noqa: E402

#: Seconds. The longest time of the agent is 15 minutes (kCallLasts); pauses between tries are 36 s at most.
AWAY = float(os.environ.get("PATCHBAY_AWAY", "1.5"))


class Away:
    """With either engine."""

    size = 29

    def hold(self, node, *addresses):
        """A pod with each address. The node has no other blocks."""
        pods = [self.pod_with(node, address) for address in addresses]
        self.wait_for_blocks(node, *(str(ipaddress.ip_network(f"{address}/29", strict=False)) for address in addresses))
        return pods

    def fill(self, node):
        """Pods until there is no address. Returns them."""
        out = []
        while True:
            pod = self.pod()
            done = node.call("ADD", pod, self.ipam(0))
            if not done.ok:
                self.assert_error(done, 11)
                return out
            out.append(pod)

    def come_and_go(self, node):
        """Pods that start and are removed while the engine is away."""
        begun, turns, pause = time.monotonic(), 0, min(AWAY / 15, 5)
        while time.monotonic() - begun < AWAY:
            pod = self.pod()
            self.assert_ok(node.call("ADD", pod, self.ipam(0)))
            self.assert_ok(node.call("DEL", pod, self.ipam()))
            pod.remove()
            time.sleep(pause)
            turns += 1
        print(f"# away for {time.monotonic() - begun:.0f} s, {turns} pods", flush=True)

    def remove(self, node, pods):
        for pod in pods:
            self.assert_ok(node.call("DEL", pod, self.ipam()))
            pod.remove()

    def test_pods_come_and_go_while_it_is_away_for_long_and_blocks_that_became_idle_are_returned_then(self):
        self.serve()
        one, other = self.nodes(2, idle="1s")
        first, *later = self.hold(one, "10.9.0.10", "10.9.0.18", "10.9.0.26")
        self.hold(other, "10.9.0.34")
        self.assert_settled([one, other])
        before = self.by_node()
        self.away()
        self.remove(one, later)
        self.come_and_go(one)
        started = self.fill(one)
        self.assertEqual((len(started), one.blocks()), (23, before["n1"]), one.file())
        self.remove(one, started)
        self.back()
        self.assertTrue(wait_for(lambda: len(one.blocks()) == 1, 60, 0.1), one.log)
        self.assert_settled([one, other])
        self.assert_ok(one.call("DEL", first, self.ipam()))


class Etcd(Away, EtcdTest):
    pass


class Kubernetes(Away, KubernetesTest):
    pass


if __name__ == "__main__":
    suite.main(needs=("etcd", "etcdctl"), per_processor=2) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
