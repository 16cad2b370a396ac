#!/usr/bin/env python3
"""cluster-pool over many nodes with a real etcd that is away, restored, compacted, or says that a block is another's."""

import ipaddress
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, suite  # noqa: E402
from support.etcd_nodes import EtcdTest  # noqa: E402
from support.world import wait_for  # noqa: E402


class Faults(EtcdTest):
    def test_pods_start_without_etcd_as_long_as_the_blocks_have_addresses(self):
        self.serve()
        node, = self.nodes(1)
        self.first_block(node)
        self.etcd.kill()
        for _ in range(9):
            self.assert_ok(node.call("ADD", self.pod(), self.ipam(0)))
        while (done := node.call("ADD", self.pod(), self.ipam(0))).ok:
            pass
        self.assert_error(done, 11)
        self.assertTrue(wait_for(lambda: "127.0.0.1:2379" in node.note(), 15), node.note())
        self.etcd.start()
        self.assertTrue(wait_for(lambda: len(node.blocks()) == 2, 20), node.log)
        self.assert_ok(node.call("ADD", self.pod(), self.ipam()))
        self.assertTrue(wait_for(lambda: not node.note(), 5), node.note())

    def test_etcd_that_is_away_at_the_start_and_comes_late(self):
        self.serve()
        self.etcd.kill()
        node, = self.nodes(1)
        pod = self.pod()
        begun = node.begin("ADD", pod, self.ipam())
        begun.stdin.write(begun.config)
        begun.stdin.close()
        begun.stdin = None
        self.assertTrue(wait_for(lambda: "was not reached yet" in node.note(), 10), node.log)
        self.etcd.start()
        out, _ = begun.communicate(timeout=30)
        self.assertEqual(begun.returncode, 0, out)

    def test_an_etcd_that_hangs_holds_nobody_up_who_needs_no_block(self):
        self.serve()
        node, = self.nodes(1)
        self.first_block(node)
        self.etcd.process.send_signal(signal.SIGSTOP)
        self.want_more(node, 1)
        begun = time.monotonic()
        self.assert_ok(node.call("ADD", self.pod(), self.ipam(0)))
        self.assertLess(time.monotonic() - begun, 3)
        self.etcd.process.send_signal(signal.SIGCONT)
        self.assertTrue(wait_for(lambda: len(node.blocks()) == 2, 15), node.log)
        self.assert_settled([node])

    def test_a_snapshot_from_before_the_last_claims_doubles_nothing_while_agents_live(self):
        self.serve()
        one, other = self.nodes(2, settle="3s")
        self.first_block(one)
        self.etcd.save("/run/etcd/saved")
        self.first_block(other)
        self.want_more(one, 1)
        self.assertTrue(wait_for(lambda: len(one.blocks()) == 2, 10), one.log)
        before = {key: value["claim"] for key, value in self.objects().items()}
        self.etcd.restore("/run/etcd/saved")
        self.assertTrue(wait_for(lambda: {key: value["claim"] for key, value in self.objects().items()} == before, 20), one.log + other.log)
        self.assertIn("restored from an older snapshot", one.log)
        self.assert_settled([one, other])

    def test_a_block_that_was_given_away_meanwhile_is_lost_and_its_pod_lives(self):
        self.serve()
        one, = self.nodes(1, idle="5s")  # it looks at leases each second
        pod = self.first_block(one)
        cidr, = one.blocks()
        one.kill()
        key = next(iter(self.objects()))
        stolen = self.objects()[key] | {"node": "n9", "machine": "other", "claim": "00000000-0000-4000-8000-000000000000"}
        self.etcd.control("put", f"/patchbay/blocks/{key}", json.dumps(stolen))
        one.start()
        self.assertTrue(wait_for(lambda: one.blocks("lost") == {cidr}, 10), one.log)
        self.assertIn("another node has a block of this node", one.log)
        self.assertTrue(wait_for(lambda: one.metric("patchbay_agent_blocks_lost") == 1, 5))
        self.assertEqual(len(one.leases()), 1)
        address = self.assert_ok(one.call("ADD", self.pod(), self.ipam()))["ips"][0]["address"]
        self.assertEqual(len(one.leases()), 2)
        self.assertNotIn(ipaddress.ip_address(address.split("/")[0]), ipaddress.ip_network(cidr))
        self.assert_ok(one.call("DEL", pod, self.ipam()))
        self.assertTrue(wait_for(lambda: not one.blocks("lost"), 10), one.file())

    def test_a_member_that_lost_the_others_is_not_listened_to(self):
        self.serve()
        node, = self.nodes(1)
        self.first_block(node)
        self.etcd.control("member", "add", "m2", "--peer-urls=http://127.0.0.1:2390")  # which is never started: no majority
        self.assertTrue(wait_for(lambda: "no leader" in node.log, 30, 0.1), node.log)
        self.assert_ok(node.call("ADD", self.pod(), self.ipam(0)))

    def test_compaction_and_a_lost_watch(self):
        self.serve()
        one, other = self.nodes(2)
        self.first_block(one)
        for number in range(4):
            self.etcd.control("put", "/patchbay/x", str(number))
        self.etcd.kill()
        self.etcd.start()
        self.etcd.control("compact", "6")
        self.first_block(other)
        self.assert_settled([one, other])


if __name__ == "__main__":
    suite.main(needs=("etcd", "etcdctl"), per_processor=3) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
