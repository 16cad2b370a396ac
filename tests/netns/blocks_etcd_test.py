#!/usr/bin/env python3
"""cluster-pool over many nodes with a real etcd: no address is given twice, and nothing is lost, whatever dies."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, block_crowd, suite  # noqa: E402
from support.etcd_nodes import EtcdTest  # noqa: E402
from support.world import run, wait_for  # noqa: E402


class Crowd(block_crowd.Crowd, EtcdTest):
    pass


class Nodes(EtcdTest):
    def test_blocks_of_a_dead_node_are_released_by_hand_alone(self):
        self.serve()
        one, other = self.nodes(2)
        self.first_block(one)
        self.first_block(other)
        one.kill()
        self.assertEqual(set(self.by_node()), {"n1", "n2"})
        self.assertEqual(other.release("n2")["error"]["code"], 7)
        self.assertEqual(other.release("n1"), {"released": 1})
        self.assertEqual(set(self.by_node()), {"n2"})
        one.start()  # back from the dead, and nobody has its block
        self.assert_settled([one, other])

    def test_a_shortage_makes_other_nodes_return_empty_blocks(self):
        self.subnet = "10.9.0.0/27"
        self.serve()
        one, other = self.nodes(2)
        pod = self.first_block(one)
        self.want_more(one, 1)
        self.assertTrue(wait_for(lambda: len(one.blocks()) == 2, 10), one.log)
        self.assert_ok(one.call("DEL", pod, self.ipam()))
        self.first_block(other)
        self.assertEqual(len(other.blocks()), 1)
        self.assertTrue(wait_for(lambda: not self.etcd.objects("shortages"), 5))

    def test_of_two_agents_on_one_node_the_later_one_waits_for_the_end_of_the_first(self):
        self.serve()
        node, = self.nodes(1)
        self.first_block(node)
        first, before = node.process, node.log
        node.start()
        self.assertTrue(wait_for(lambda: "wait for the end of the agent" in node.log[len(before):], 10), node.log)
        self.want_more(node, 1)
        self.assertTrue(wait_for(lambda: len(node.blocks()) == 2, 10), node.log)
        self.assert_settled([node])
        self.assertNotIn("serve blocks", node.log[len(before):])
        first.kill()
        first.wait()
        self.assertTrue(wait_for(lambda: '"serve blocks"' in node.log[len(before):], 10), node.log)
        self.want_more(node, 2)
        self.assertTrue(wait_for(lambda: len(node.blocks()) == 3, 10), node.log)
        self.assert_settled([node])

    def test_two_machines_of_one_name_and_two_sizes_of_blocks_are_refused(self):
        self.serve()
        one = self.make_node("n1")
        self.first_block(one)
        twin = self.make_node("twin", node="n1")
        self.assert_error(twin.call("ADD", self.pod(), self.ipam(1)), 11, "another machine has blocks as node 'n1'")
        self.size = 29
        other = self.make_node("n2")
        self.assert_error(other.call("ADD", self.pod(), self.ipam(1)), 11, "has blocks of /28 in 10.9.0.0/24, set by node 'n1'")
        self.assertEqual(set(self.by_node()), {"n1"})

    def test_a_fixed_address_claims_its_block_or_names_who_has_it(self):
        self.serve()
        one, other = self.nodes(2)
        self.first_block(other)
        done = self.assert_ok(one.call("ADD", self.pod(), self.ipam(), args="IP=10.9.0.77"))
        self.assertEqual(done["ips"][0]["address"], "10.9.0.77/24")
        self.assert_error(other.call("ADD", self.pod(), self.ipam(), args="IP=10.9.0.78"), 11, "n1")

    def test_the_blocks_of_all_leases_of_host_local_are_claimed_first(self):
        self.serve()
        node, = self.nodes(1)
        pods = [self.pod() for _ in range(12)]
        before = self.ipam() | {"type": "host-local", "ipam": {"type": "host-local", "subnet": self.subnet, "rangeStart": "10.9.0.40"}}
        for pod in pods:
            self.assert_ok(node.call("ADD", pod, before))
        self.first_block(node)
        self.assertLessEqual({"10.9.0.32/28", "10.9.0.48/28"}, node.blocks())
        self.assertEqual(len(node.leases()), 13)
        self.assert_settled([node])

    def test_values_of_others_that_are_larger_than_an_answer_hold_nobody_up(self):
        self.serve()
        put = f"etcdctl --endpoints={self.etcd.url} put /patchbay/pools/other/10.0.$n.0_24 </run/large"
        run("sh", "-c", f"head -c 1400000 /dev/zero | tr '\\0' x >/run/large; for n in $(seq 13); do {put} & done; wait")  # more than 16 MiB
        node, = self.nodes(1)
        self.first_block(node)
        self.assert_settled([node])

    def test_an_agent_that_has_nothing_to_do_uses_no_processor(self):
        self.serve()
        node, = self.nodes(1)
        self.first_block(node)
        self.assert_settled([node])
        before = node.processor_seconds()
        time.sleep(2)
        self.assertLessEqual(node.processor_seconds() - before, 0.02)
        self.assertIsNone(node.process.poll())


if __name__ == "__main__":
    suite.main(needs=("etcd", "etcdctl"), per_processor=3) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
