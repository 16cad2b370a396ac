#!/usr/bin/env python3
"""`patchbay-agent status` with blocks of cluster-pool: true of the agent, whatever its etcd does, as probes of a DaemonSet need it;
and many ADDs at once on one node."""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, suite  # noqa: E402
from support.etcd_nodes import EtcdTest  # noqa: E402
from support.world import Pod, wait_for  # noqa: E402


PODS = int(os.environ.get("PATCHBAY_PODS", "40"))


class Status(EtcdTest):
    def status(self, node):
        return subprocess.run([*node.wrap, agent.PROGRAM, "--config", "/run/none.json", "--blocks-config", f"{node.root}/blocks.json", "status"],
                              capture_output=True, text=True, check=False, timeout=30)

    def test_status_says_engine_and_blocks_and_fails_without_the_agent_alone(self):
        self.serve()
        node, = self.nodes(1)
        self.first_block(node)
        done = self.status(node)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"blocks of node n1: etcd is there, last heard \d+ s ago\nlab: 1 block, 1 of 1[46] addresses used, 0 lost\n")
        self.etcd.kill()
        self.assertTrue(wait_for(lambda: "etcd is away" in self.status(node).stdout, 15), node.log)
        done = self.status(node)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("pods start from the blocks that this node has", done.stderr)
        self.etcd.start()
        self.assertTrue(wait_for(lambda: "etcd is there" in self.status(node).stdout, 20), node.log)
        node.kill()
        done = self.status(node)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"(?s)no agent runs: connect to .*journalctl -u patchbay-agent")
        node.start()

    def test_an_agent_that_is_asked_before_it_has_begun_says_that_it_starts(self):
        if not shutil.which("strace"):
            self.skipTest("there is no strace")
        self.serve()
        node, = self.nodes(1)
        self.first_block(node)
        node.kill()
        asked = f"{node.root}/run/patchbay-blocks.sock"
        os.remove(asked)
        node.start(("strace", "-D", "-f", "-qqo", "/dev/null", "-e", "trace=epoll_wait", "-e", "inject=epoll_wait:delay_enter=1000000:when=1"))
        self.assertTrue(wait_for(lambda: os.path.exists(asked), 20), node.log)
        self.assertIn("blocks of node n1: nobody serves them, so no block is claimed: this agent is just starting\n", self.status(node).stdout)
        self.assertTrue(wait_for(lambda: "etcd is there" in self.status(node).stdout, 20), node.log)

    def test_status_names_the_endpoint_of_an_etcd_that_is_silent_from_the_start(self):
        silent = socket.create_server(("127.0.0.1", 2399))  # accepts, and answers nothing, as behind a firewall that drops
        self.addCleanup(silent.close)
        self.serve()
        self.engine = lambda: {"etcd": {"endpoints": ["http://127.0.0.1:2399"]}}
        node, = self.nodes(1)
        says = "no answer yet from 'http://127.0.0.1:2399'; no block of this node has a free address"
        self.assertTrue(wait_for(lambda: says in self.status(node).stderr, 20), node.log)  # it begins meanwhile
        refused = self.assert_error(node.call("ADD", self.pod(), self.ipam(1)), 11)
        self.assertIn("no answer yet from 'http://127.0.0.1:2399'", refused["details"])

    def test_an_ADD_that_is_stopped_with_the_lock_of_the_wants_holds_up_no_end_of_the_agent(self):
        self.serve()
        node, = self.nodes(1)
        self.first_block(node)
        with open(f"{node.root}/lib/blocks/.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.want_more(node, 1)
            self.assertTrue(wait_for(lambda: len(node.blocks()) == 2, 10), node.log)
            self.assertTrue(wait_for(lambda: ".lock': not free after" in node.note(), 10), node.note())
            begun = time.monotonic()
            node.process.send_signal(signal.SIGTERM)
            self.assertEqual(node.process.wait(10), 0)
            self.assertLess(time.monotonic() - begun, 5)
        node.start()
        self.assert_settled([node])

    def test_pods_that_start_at_once_get_their_blocks_together(self):
        self.serve()
        node, = self.nodes(1)
        begun = time.monotonic()
        with ThreadPoolExecutor(PODS) as pool:
            done = list(pool.map(lambda number: node.call("ADD", Pod(f"p{number}"), self.ipam()), range(PODS)))
        took = time.monotonic() - begun
        found = {self.assert_ok(one)["ips"][0]["address"] for one in done}
        self.assertEqual(len(found), PODS)
        print(f"# {PODS} pods at once: {took:.1f} s, {len(node.blocks())} blocks", flush=True)
        self.assertLessEqual(len(node.blocks()), PODS // 12 + 2)  # a quarter of the addresses is free after the last claim
        self.assert_settled([node])


if __name__ == "__main__":
    suite.main(needs=("etcd", "etcdctl")) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
