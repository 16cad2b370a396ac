"""Many pods at once over ten nodes, for cluster-pool with either engine, while whatever there is gets killed."""

import contextlib
import fcntl
import os
import random
import socket
import struct
import threading
import time

from support.block_nodes import Killer, uplink
from support.world import CLONE_NEWNET, setns, wait_for

PODS = int(os.environ.get("PATCHBAY_PODS", "30"))
FOLDER, SIOCGIFADDR = "/run/netns", 0x8915


class Doubles:
    """Looks at the links eth0 of all namespaces while a with statement lasts: `found` has the addresses that two had at one time."""

    def __enter__(self):
        self.found, self.sweeps, self._sockets, self._end = set(), 0, {}, threading.Event()
        self._thread = threading.Thread(target=self._run)  # which enters the namespaces
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()
        for one in self._sockets.values():
            one.close()
        print(f"# looked at {len(self._sockets)} links {self.sweeps} times", flush=True)

    def _run(self):
        while not self._end.wait(0.01):
            for name in set(os.listdir(FOLDER)) - self._sockets.keys():
                with contextlib.suppress(OSError):
                    setns(f"{FOLDER}/{name}", CLONE_NEWNET)
                    self._sockets[name] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            seen = {}
            for name in self._sockets:
                if (address := self._address(name)) and (other := seen.setdefault(address, name)) != name:
                    if self._address(other) == self._address(name) == self._address(other) == address:
                        self.found.add(address)
            self.sweeps += 1

    def _address(self, name):
        with contextlib.suppress(OSError):
            return socket.inet_ntoa(fcntl.ioctl(self._sockets[name], SIOCGIFADDR, struct.pack("40s", b"eth0"))[20:24])
        return None


class Crowd:
    size, subnet = (28, "10.9.0.0/22") if PODS > 100 else (29, "10.9.0.0/24")

    def test_ten_nodes_start_pods_at_once_while_agents_plugins_and_the_engine_are_killed(self):
        self.serve()
        uplink()
        nodes = self.nodes(10, idle="1s")
        if os.environ.get("PATCHBAY_FIRST") == "host-local":
            self.start_with_host_local(nodes)
        begun = time.monotonic()
        pairs = self.start_pods(nodes, PODS)
        print(f"# {PODS} pods on ten nodes: {time.monotonic() - begun:.1f} s", flush=True)
        if PODS > 100 and "PATCHBAY_FIRST" not in os.environ:
            self.start_with_host_local(nodes)
        self.assert_unique([pod for _, pod in pairs])

        def restart():
            self.away()
            self.back()

        stay, leave = pairs[::2], pairs[1::2]
        with Doubles() as doubles, Killer(nodes, restart) as killer:
            self.stop_pods(leave)
            self.kill_plugins(leave[::3])
            self.stop_pods(leave)
            more = self.start_pods(nodes, max(10, PODS // 5), "q")
        print(f"# killed {killer.kills} agents, {(killer.kills + 3) // 4} times the engine, {len(leave[::3])} plugins", flush=True)
        self.assertEqual(doubles.found, set())
        found = self.assert_unique([pod for _, pod in stay + more])
        self.assertEqual(found, set().union(*(node.leases() for node in nodes)))
        self.assert_settled(nodes)
        self.stop_pods(stay + more)
        self.assertTrue(wait_for(lambda: all(len(node.blocks()) <= 1 for node in nodes), 30, 0.2), self.by_node())
        self.assert_settled(nodes)
        self.assertEqual(set().union(*(node.leases() for node in nodes)), set())

    def kill_plugins(self, pairs):
        """ADD that is killed anywhere."""
        for node, pod in pairs:
            begun = node.begin("ADD", pod, self.config())
            begun.stdin.write(begun.config)
            begun.stdin.close()
            time.sleep(random.random() / 50)
            begun.kill()
            begun.wait()

    def start_with_host_local(self, nodes):
        """The same with ranges by hand."""
        def by_hand(node):
            ipam = {"type": "host-local", "subnet": f"10.10.{node.name[1:]}.0/24"}
            return self.config() | {"name": "by-hand", "ipam": ipam}

        begun = time.monotonic()
        self.start_pods(nodes, PODS, "h", by_hand)
        print(f"# the same with host-local: {time.monotonic() - begun:.1f} s", flush=True)
