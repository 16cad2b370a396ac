#!/usr/bin/env python3
"""Pods come and go at random, many at a time, while one process in twenty is killed and garbage is
collected: no address is given twice, and in the end nothing is left.

PATCHBAY_SOAK_PODS=2000 for as many pods; --table=FILE writes the figures into a document.
"""

import collections
import contextlib
import fcntl
import os
import random
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import cache_names, cnitool, finish, start, use  # noqa: E402
from support.faults import figures  # noqa: E402
from support.forked import Forked  # noqa: E402
from support.kernel_memory import KernelMemory  # noqa: E402
from support.snapshot import left_by_design, netns_names, snapshot  # noqa: E402
from support.world import CLONE_NEWNET, Pod, run, setns  # noqa: E402

PODS = int(os.environ.get("PATCHBAY_SOAK_PODS", "160"))
TABLE = next((a.split("=", 1)[1] for a in sys.argv if a.startswith("--table=")), None)
WORKERS = 16
KILLED = 0.05
#: Bytes of the kernel's memory that a pod may leave: less than its smallest object would be.
KEPT = 64

NETWORK = {"cniVersion": "1.1.0", "name": "net", "plugins": [
    {"type": "bridge", "bridge": "cni0", "isDefaultGateway": True, "ipMasq": True,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}],
                                               [{"subnet": "fd00:1:2::/64"}]]}},
    {"type": "portmap", "capabilities": {"portMappings": True}},
    {"type": "bandwidth", "capabilities": {"bandwidth": True}}]}


def capabilities(port):
    return {"portMappings": [{"hostPort": port, "containerPort": 80, "protocol": "tcp"},
                             {"hostPort": port, "containerPort": 53, "protocol": "udp"}],
            "bandwidth": {"ingressRate": 8000000, "ingressBurst": 800000,
                          "egressRate": 4000000, "egressBurst": 400000}}


def children(pid):
    """The processes that a process has started."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children",
                                            encoding="ascii") as file:
        return [int(word) for word in file.read().split()]
    return []


class Worker:
    """Adds and deletes pods, one after the other."""

    def __init__(self, number, seed):
        self.number, self.chance = number, random.Random(seed + number)
        self.took = collections.defaultdict(lambda: [0.1])
        self.seen = collections.Counter()
        self.wrong = []

    def call(self, verb, pod, killable=True):
        """Runs the verb; now and then it, or a plugin that it runs, is killed. Whether it was, and
        whether it went well."""
        env = {"CAP_ARGS": capabilities(10000 + self.number)}
        begin = time.monotonic()
        process = start(verb, "net", pod.path, "--container-id", pod.name, **env)
        killed = killable and self.chance.random() < KILLED and self.kill(process, verb)
        outcome = finish(process, 300)
        self.seen[verb] += 1
        if killed:
            self.seen["killed"] += 1
        elif outcome.ok:
            self.took[verb] = [*self.took[verb][-20:], time.monotonic() - begin]
        else:
            self.wrong.append(f"{verb} of {pod.name}: {outcome}")
        return killed, outcome.ok

    def kill(self, process, verb):
        usual = sum(self.took[verb]) / len(self.took[verb])
        time.sleep(self.chance.uniform(0, 1.1 * usual))
        plugins = [one for pid in children(process.pid) for one in (pid, *children(pid))]
        victim = self.chance.choice([process.pid, *plugins])
        if process.poll() is not None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
            return True
        return False

    def pod(self, name):
        """The life of one pod."""
        pod = Pod(name)
        killed, ok = self.call("add", pod)
        if ok and self.chance.random() < 0.3:
            self.call("check", pod, killable=False)
        time.sleep(self.chance.uniform(0, 0.1))
        if killed and self.chance.random() < 0.5:
            self.seen["left for the garbage"] += 1
        else:
            if self.call("del", pod)[0] and self.chance.random() < 0.7:
                self.call("del", pod, killable=False)
        pod.remove()

    def pods(self, count):
        for n in range(count):
            if len(self.wrong) < 3:
                self.pod(f"w{self.number}p{n}")
        return {"seen": self.seen, "wrong": self.wrong}


class Reader:
    """Reads the addresses of all pods again and again, with system calls of its own."""

    def __init__(self):
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.rounds, self.most, self.readings, self.wrong = 0, 0, 0, []

    @staticmethod
    def addresses():
        """Of eth0 in the namespace that this process is in."""
        out = []
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            out.append(socket.inet_ntoa(fcntl.ioctl(one, 0x8915, struct.pack("256s", b"eth0"))[20:24]))
        with contextlib.suppress(OSError), open("/proc/self/net/if_inet6", encoding="ascii") as file:
            out += [line[:32] for line in file if line.startswith("fd00") and "eth0" in line]
        return out

    def read(self, names):
        """{address: names of the pods that have it}."""
        found = collections.defaultdict(set)
        for name in names:
            with contextlib.suppress(OSError):  # gone meanwhile
                setns(f"/run/netns/{name}", CLONE_NEWNET)
                for address in self.addresses():
                    found[address].add(name)
        setns(self.home, CLONE_NEWNET)
        return found

    def round(self):
        found = self.read(netns_names())
        self.rounds += 1
        self.readings += len(found)
        self.most = max(self.most, len({name for names in found.values() for name in names}))
        for address, names in found.items():
            if len(names) > 1 and len(self.read(sorted(names))[address]) > 1:
                self.wrong.append(f"{address} is at {sorted(names)}")

    def until(self, is_over):
        while not is_over():
            self.round()
            time.sleep(0.01)
        return {"rounds": self.rounds, "most": self.most, "readings": self.readings,
                "wrong": self.wrong[:5]}


def collect_until(is_over):
    """Garbage is collected again and again. cnitool waits for the operations that go on."""
    count, wrong = 0, []
    while not is_over():
        outcome = cnitool("gc", "net", "--keep-alive")
        count += 1
        if not outcome.ok:
            wrong.append(f"gc: {outcome}")
        time.sleep(0.5)
    return {"count": count, "wrong": wrong[:5]}


def sizes():
    """How much of everything there is on the node."""
    found = snapshot(connections=True)
    out = collections.Counter(place.split("/")[0] for place in found)
    # Numbers are not always of one length: of the address given last, of the moment in `seen`.
    for root in ("/var/lib/cni", "/run/cni"):
        for folder, _, names in os.walk(root):
            out["bytes of state"] += sum(os.lstat(os.path.join(folder, n)).st_size for n in names
                                         if not n.startswith("last_reserved_ip.") and n != "seen")
    return dict(out)


class Soak(suite.NodeTest):
    def warm_up(self):
        """Makes what all pods share; the state of a node without pods."""
        use(NETWORK)
        run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        pod = Pod("first")
        for verb in ("add", "del"):
            self.assert_ok(cnitool(verb, "net", pod.path, "--container-id", "first",
                                   CAP_ARGS=capabilities(9999)))
        pod.remove()
        return snapshot(), sizes()

    def test_many_pods(self):
        with KernelMemory() as kernel:
            self.come_and_go(kernel)

    def come_and_go(self, kernel):
        before, size = self.warm_up()
        used = kernel.used() if kernel.is_counted else None
        begin, over = time.monotonic(), "/run/over"
        around = [Forked(one, lambda: os.path.exists(over)) for one in (Reader().until, collect_until)]
        workers = [Forked(Worker(n, 1000).pods, PODS // WORKERS) for n in range(WORKERS)]
        done = [worker.result() for worker in workers]
        open(over, "w", encoding="ascii").close()
        reader, garbage = (one.result() for one in around)
        os.unlink(over)
        took = time.monotonic() - begin
        wrong = [text for one in (*done, reader, garbage) for text in one["wrong"]]
        self.assertEqual(wrong, [], "\n".join(wrong[:6]))
        self.assert_ok(cnitool("--json", "gc", "net", "--yes"))

        self.assertEqual((netns_names(), cache_names()), ([], []))
        self.assert_same(before, ignore=lambda place: left_by_design(place)
                         or place.startswith("file/run/netns/"))
        self.assertEqual(sizes(), size)
        kept = self.kept(kernel, used)
        self.publish(sum((collections.Counter(one["seen"]) for one in done), collections.Counter()),
                     reader, garbage["count"], {"kernel memory before and after, KiB": kept,
                                                "seconds": round(took)})

    def kept(self, kernel, before):
        """What the kernel's objects took before the pods and take after them, for the table."""
        if not kernel.is_counted:
            return "not counted: no control group of memory"
        after = kernel.used()
        self.assertLess(after - before, KEPT * PODS + 65536, "kernel memory of pods that are gone")
        return f"{before / 1024:.0f}, {after / 1024:.0f}"

    def publish(self, seen, reader, collections_of_garbage, sums):
        rows = {"pods": PODS, "at a time": WORKERS, "ADD": seen["add"], "DEL": seen["del"],
                "CHECK": seen["check"], "of these killed, or a plugin of theirs": seen["killed"],
                "never deleted, left for GC": seen["left for the garbage"],
                "GC while all that went on": collections_of_garbage,
                "rounds of the reader of addresses": reader["rounds"],
                "most pods with addresses at once": reader["most"],
                "addresses read": reader["readings"], "addresses that two had": 0,
                "failures of what was not killed": 0,
                "leftovers (links, addresses, routes, rules, queues, files)": 0, **sums}
        self.assertGreater(seen["killed"], PODS // 40, "kills")
        text = "\n".join(["| what | |", "|---|--:|", *(f"| {k} | {v} |" for k, v in rows.items())])
        print(text, flush=True)
        if TABLE:
            figures.publish(TABLE, "soak", text)


if __name__ == "__main__":
    suite.main()
