#!/usr/bin/env python3
"""`cnitool probe` of UDP hostPorts: an empty datagram, which has to reach the pod; whether a server there says anything to it
does not matter. A rule that takes it is named, and nothing is left of it."""

import contextlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import cnitool  # noqa: E402
from support.doctor import BIN  # noqa: E402
from support.probe import ProbeTest, connections  # noqa: E402
from support.world import Pod, run  # noqa: E402

# Prints the sizes of what it receives. With "talks" it answers.
SERVER = r"""
import socket, sys
server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
server.bind(("::", 53))
print("ready", flush=True)
while True:
    data, whence = server.recvfrom(2000)
    print(len(data), flush=True)
    if sys.argv[1] == "talks":
        server.sendto(b"what?", whence)
"""


class Datagrams(ProbeTest):
    def setUp(self):
        super().setUp()
        self.third = Pod("c")
        self.assert_ok(cnitool("add", "net", self.third.path, CNI_PATH=BIN, CAP_ARGS={
            "portMappings": [{"hostPort": 5353, "containerPort": 53, "protocol": "udp"}]}))
        self.pods.append(self.third)
        self.settle()

    @contextlib.contextmanager
    def server(self, what):
        process = subprocess.Popen(["ip", "netns", "exec", "c", "python3", "-c", SERVER, what], stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.received = []
        try:
            yield
        finally:
            process.kill()
            self.received = process.communicate()[0].split()

    def said(self):
        """{question: answer} about the hostPort, of a probe that finds nothing."""
        answer = self.probe()
        self.assertEqual(answer["findings"], [])
        out = {one["question"]: one["answer"] for one in answer["questions"] if "UDP hostPort 5353" in one["question"]}
        # From the node by the address of the uplink and by 127.0.0.1, and from a pod.
        self.assertEqual([one.split(" to ")[0] == "the node" for one in out], [True, False, True], out)
        return out

    def test_a_port_without_a_server(self):
        before = connections()
        self.assertEqual(set(self.said().values()), {"closed"})
        self.assertEqual(connections() - before, set())

    def test_a_server_that_says_nothing(self):
        before = connections()
        with self.server("listens"):
            self.assertEqual(set(self.said().values()), {"arrived"})
        self.assertGreaterEqual(len(self.received), 3)
        self.assertEqual(set(self.received), {"0"})
        self.assertEqual(connections() - before, set())

    def test_a_server_that_answers(self):
        with self.server("talks"):
            self.assertEqual(set(self.said().values()), {"answered"})

    def test_what_takes_it(self):
        drop = "udp dport 53 drop"
        for where, table in (((), "inet"), (("ip", "netns", "exec", "c"), "inet"), ((), "bridge")):
            hook = "input" if where else "output" if table == "bridge" else "postrouting"
            run(*where, "nft", f"add table {table} x; add chain {table} x c {{ type filter hook {hook} priority 0; }}; "
                f"add rule {table} x c {drop}")
            with self.server("listens"):
                self.found(f"chain 'c' of table {table} x drops packets: {drop}")
            run(*where, "nft", f"delete table {table} x")
        self.assert_silent()

    def test_a_lost_table_of_hostPorts(self):
        run("nft", "delete table ip patchbay_hostport")
        with self.server("listens"):
            self.assert_heals("hostPorts stay on the node")


if __name__ == "__main__":
    suite.main()
