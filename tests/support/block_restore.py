"""What is repaired after an engine of cluster-pool was restored from a snapshot of before the last claims, with either engine."""

import os
import signal

from support.block_nodes import NETWORK
from support.world import wait_for

BLOCK = "10.9.0.64/28"


class Restore:
    def claims(self):
        return {name: (one["node"], one["claim"]) for name, one in self.objects().items()}

    def test_a_block_that_changed_hands_after_the_snapshot_is_the_later_nodes_again(self):
        self.serve()
        one, other = self.nodes(2, idle="1s", settle="2s")
        self.pod_with(one, "10.9.0.10")
        leaves = self.pod_with(one, "10.9.0.65")
        self.pod_with(other, "10.9.0.130")
        self.wait_for_blocks(one, "10.9.0.0/28", BLOCK)
        self.save()
        self.assert_ok(one.call("DEL", leaves, self.ipam()))
        self.assertTrue(wait_for(lambda: BLOCK not in one.blocks(), 15), one.log)
        self.wait_until_seen(other, BLOCK, set())
        self.pod_with(other, "10.9.0.65")
        self.wait_for_blocks(other, "10.9.0.128/28", BLOCK)
        self.wait_for_blocks(one, "10.9.0.0/28")
        self.assert_settled([one, other])
        before = self.claims()
        self.restore()
        self.assertTrue(wait_for(lambda: self.claims() == before, 30, 0.1), (self.claims(), before, one.log, other.log))
        self.assert_settled([one, other])
        self.assertEqual((other.leases(), one.leases()), ({"10.9.0.130", "10.9.0.65"}, {"10.9.0.10"}))
        # The API server refuses for a moment: its storage is being initialized.
        self.assertTrue(wait_for(lambda: not self.findings(other), 15), self.findings(other))

    def test_a_restore_that_no_revision_tells_gives_a_block_to_nobody_else_before_its_node_is_back(self):
        self.serve()
        one, other = self.nodes(2, settle="60s")
        self.pod_with(other, "10.9.0.130")
        self.save()
        self.pod_with(one, "10.9.0.65")
        self.wait_until_seen(other, BLOCK, {"n1"})
        one.kill()
        other.process.send_signal(signal.SIGSTOP)  # meanwhile revisions pass those that it saw, as by `etcdutl snapshot restore --bump-revision`
        self.restore()
        self.write_much()
        before = self.written(other)
        other.process.send_signal(signal.SIGCONT)
        self.assertTrue(wait_for(lambda: self.written(other) != before, 20), other.log)  # after a list
        done = other.call("ADD", self.pod(), self.ipam(3), args="IP=10.9.0.66")
        self.assert_error(done, 11, "node 'n1' has its block")
        self.assertNotIn("was restored", other.log)
        one.start()
        self.assertTrue(wait_for(lambda: BLOCK in self.by_node().get("n1", ()), 15), one.log)
        self.assertEqual(one.blocks("lost") | other.blocks("lost"), set())
        self.assertEqual(one.leases() | other.leases(), {"10.9.0.65", "10.9.0.130"})

    def written(self, node):
        return os.stat(f"{node.root}/lib/blocks/{NETWORK}.nodes").st_ino

    def claimed_after(self, settle):
        """Two nodes and an engine that was restored to before the first one's claim of BLOCK, in which it has a pod. Its agent is off."""
        self.serve()
        one, other = self.nodes(2, settle=settle)
        self.pod_with(other, "10.9.0.130")
        self.save()
        self.pod_with(one, "10.9.0.65")
        self.wait_until_seen(other, BLOCK, {"n1"})
        one.kill()
        self.restore()
        self.assertTrue(wait_for(lambda: "was restored" in other.log or "another cluster" in other.log, 20), other.log)
        self.assertEqual(set(self.by_node()), {"n2"})
        return one, other

    def test_a_node_that_is_back_before_the_end_of_settle_has_its_block_again(self):
        one, other = self.claimed_after("30s")
        done = other.call("ADD", self.pod(), self.ipam(1), args="IP=10.9.0.66")
        self.assert_error(done, 11, "node 'n1' has its block")  # as it was seen before
        done = other.call("ADD", self.pod(), self.ipam(1), args="IP=10.9.0.200")
        self.assert_error(done, 11, "was restored: all nodes claim again what they have")
        one.start()
        self.assertTrue(wait_for(lambda: BLOCK in self.by_node().get("n1", ()), 15), one.log)
        self.wait_until_seen(other, BLOCK, {"n1"})
        self.assert_error(other.call("ADD", self.pod(), self.ipam(1), args="IP=10.9.0.66"), 11, "node 'n1' has its block")
        self.assertEqual(one.leases() | other.leases(), {"10.9.0.65", "10.9.0.130"})

    def test_a_node_that_was_off_for_longer_than_settle_loses_the_block_and_says_so(self):
        one, other = self.claimed_after("1s")
        self.wait_until_seen(other, BLOCK, set())
        self.pod_with(other, "10.9.0.66")
        one.start()
        self.assertTrue(wait_for(lambda: BLOCK in one.blocks("lost"), 15), one.log)
        self.assertIn("another node has a block of this node: its addresses may be doubled", one.log)
        self.assertTrue(wait_for(lambda: one.metric("patchbay_agent_blocks_lost") == len(one.blocks("lost")), 5))
        self.assertTrue(any("in which pods live: 10.9.0.65" in found for found in self.findings(one)), self.findings(one))
        self.assert_ok(one.call("ADD", self.pod(), self.ipam()))
        self.assertEqual(len([lease for lease in one.leases() if lease in ("10.9.0.65", "10.9.0.66", "10.9.0.67")]), 1)
        self.assertIn("10.9.0.65", one.leases())  # its pod keeps what it has
