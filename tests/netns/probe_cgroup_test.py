#!/usr/bin/env python3
"""`cnitool probe` names eBPF programs of control groups that drop packets, as systemd's IPAddressDeny= attaches them, and
whose they are: those of a pod's servers, and those of cnitool itself, which are no trouble of the pods."""

import contextlib
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import bpf, suite  # noqa: E402
from support.cnitool import cnitool, container_of, finish, start  # noqa: E402
from support.doctor import BIN  # noqa: E402
from support.probe import FAST  # noqa: E402
from support.troubles import Node, shown  # noqa: E402
from support.world import RUN, Pod, run, wait_for  # noqa: E402

# In the control group of argv[1]: takes connections to port 80, and datagrams to port 53, of which it says nothing.
SERVER = r"""
import os, socket, sys, time
with open(sys.argv[1] + "/cgroup.procs", "w") as group:
    group.write("0")
web, names = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
web.bind(("", 80))
web.listen()
names.bind(("", 53))
print("ready", flush=True)
time.sleep(1000)
"""
_node = None


def groups():
    """Where cgroup v2 is mounted; empty: nowhere."""
    with open("/proc/self/mountinfo", encoding="ascii") as file:
        return next((line.split()[4] for line in file if " - cgroup2 " in line), "")


@contextlib.contextmanager
def group(name):
    """The path of a control group, which is removed."""
    path = f"{groups()}/patchbay-{RUN}-{name}"
    os.mkdir(path)
    try:
        yield path
    finally:
        wait_for(lambda: not open(f"{path}/cgroup.procs", encoding="ascii").read())
        os.rmdir(path)


@contextlib.contextmanager
def attached(kind, path, verdict=bpf.CGROUP_DROP):
    """A program, which drops all."""
    program = bpf.load(kind, verdict)
    try:
        bpf.attach_to_cgroup(kind, program, path)
        yield
    finally:
        bpf.detach_from_cgroup(kind, program, path)
        os.close(program)


class Programs(suite.NodeTest):
    def setUp(self):
        global _node
        if not groups():
            self.skipTest("needs cgroup v2")
        if _node is None:
            _node = Node()
            third = Pod("c")
            done = cnitool("add", "net", third.path, CNI_PATH=BIN, CAP_ARGS={
                "portMappings": [{"hostPort": 5353, "containerPort": 53, "protocol": "udp"}]})
            self.assertEqual(done.status, 0, str(done))
            wait_for(lambda: '"tentative":true' not in run("ip", "-n", "c", "-j", "addr"))
        self.assertEqual(_node.probe()[:2], (0, []))

    def probed(self, *words, inside=""):
        wrap = ("sh", "-c", f'echo $$ >{inside}/cgroup.procs; exec "$@"', "sh") if inside else ()
        done = finish(start("probe", "--json", *FAST, *words, wrap=wrap, CNI_PATH=BIN))
        answer = json.loads(done.stdout)
        unseen = [one for one in answer["limits"] if "own reasons for drops" in one]
        if unseen:
            self.skipTest(unseen[0])
        self.assertEqual(done.status, 0 if answer["ok"] else 1)
        return answer

    def assert_one(self, answer, words, path):
        """One finding, which has the words and names the group and its program."""
        self.assertEqual(len(answer["findings"]), 1, shown(answer["findings"]))
        found = answer["findings"][0]
        self.assertRegex(found["what"], rf"{words}: 'test' \(id \d+\) of the control group \S*/{os.path.basename(path)} ")
        self.assertEqual(found["remedy"], f"bpftool cgroup show {path}")

    @contextlib.contextmanager
    def server(self, path, pod):
        process = subprocess.Popen(["nsenter", f"--net=/run/netns/{pod}", sys.executable, "-c", SERVER, path],
                                   stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(process.stdout.readline(), "ready\n")
            yield
        finally:
            process.kill()
            process.communicate()

    def test_of_a_pod_that_keep_connections_from_its_server(self):
        web = f"{container_of('/run/netns/b')}:80"
        with group("pod") as path, self.server(path, "b"):
            self.assertEqual({one["answer"] for one in self.probed("--to", web)["questions"] if "10.1.2" in one["question"]}, {"open"})
            with attached("cgroup ingress", path):
                self.assert_one(self.probed("--to", web), "drop packets to servers of the pod .*", path)
            with attached("cgroup egress", path):
                self.assert_one(self.probed("--to", web), "drop packets sent by servers of the pod .*", path)

    def test_of_a_pod_that_keep_datagrams_from_its_server(self):
        with group("pod") as path, self.server(path, "c"):
            self.assertEqual(self.probed()["findings"], [])
            with attached("cgroup ingress", path):
                self.assert_one(self.probed(), "drop packets to servers of the pod .*", path)

    def test_of_cnitool_itself(self):
        with group("tool") as path:
            with attached("cgroup egress", path):
                self.assert_one(self.probed(inside=path), "(drop packets sent by|refuse packets of) cnitool itself", path)
            with attached("cgroup ingress", path):
                self.assert_one(self.probed(inside=path), "drop packets to cnitool itself", path)

    def test_that_only_a_pod_passes_are_a_note(self):
        with group("pod") as path, self.server(path, "b"), attached("cgroup egress", path, bpf.CGROUP_PASS):
            answer = self.probed()
            self.assertEqual(answer["findings"], [])
            mine = [one for one in answer["limits"] if "pass eBPF programs that probes do not: 'test' (id " in one]
            self.assertEqual(len(mine), 1, answer["limits"])

    def test_that_pass_all_are_no_finding(self):
        with group("tool") as path, attached("cgroup egress", path, bpf.CGROUP_PASS):
            self.assertEqual(self.probed(inside=path)["findings"], [])
            run("nft", "add table inet x; add chain inet x o { type filter hook output priority 0; }; "
                "add rule inet x o icmp type echo-request drop")
            self.addCleanup(run, "nft", "delete table inet x")
            self.assertIn("chain 'o' of table inet x drops packets", shown(self.probed(inside=path)["findings"]))


if __name__ == "__main__":
    suite.main(needs=("nsenter",))
