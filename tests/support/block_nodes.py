"""Nodes of one cluster, an agent each, for cluster-pool: a node is a mount namespace with folders of its own below /var/lib/cni and
/run/cni. All are on one segment, the link `uplink` of this world, so that an address which two pods have is seen."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from support import suite
from support.agent import PROGRAM
from support.cnitool import CONF_DIR, finish
from support.cnitool import start as start_cnitool
from support.plugin import cni, start
from support.world import Pod, run, wait_for

SUBNET = "10.9.0.0/24"
NETWORK = "lab"


def uplink():
    run("ip", "-batch", "-", stdin="link add uplink type veth peer name segment\nlink set uplink up\nlink set segment up\n")


class Node:
    """start() and kill() are those of its agent."""

    def __init__(self, name, engine, *, machine=None, env=None, **conf):
        """env: variables of the agent; conf: keys of its config."""
        self.env = os.environ | (env or {})
        self.name, self.root, self.process = name, f"/run/nodes/{name}", None
        for path in (f"{self.root}/lib", f"{self.root}/run", "/run/cni", "/var/lib/cni"):
            os.makedirs(path, exist_ok=True)
        with open(f"{self.root}/machine-id", "w", encoding="ascii") as file:
            file.write((machine or f"{random.Random(name).getrandbits(128):032x}") + "\n")
        script = (f"mount --bind {self.root}/lib /var/lib/cni && mount --bind {self.root}/run /run/cni && "
                  f"mount --bind {self.root}/machine-id /etc/machine-id && echo && exec sleep infinity")
        self.holder = subprocess.Popen(["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", script], stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.wrap = ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", "--"]
        self.conf = {"node": name, "engine": engine} | conf
        self.start()

    @property
    def log(self):
        with open(f"{self.root}/log", encoding="utf-8") as file:
            return file.read()

    def start(self, wrap=()):
        with open(f"{self.root}/blocks.json", "w", encoding="utf-8") as file:
            json.dump(self.conf, file)
        with open(f"{self.root}/log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [*self.wrap, *wrap, PROGRAM, "--config", "/run/none.json", "--blocks-config", f"{self.root}/blocks.json",
                 "--blocks-metrics-file", f"{self.root}/metrics"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """Its agent, as by SIGTERM, and the namespace. Returns the agent's exit status."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(10)
        self.holder.kill()
        self.holder.wait()
        return code

    def call(self, verb, pod, config, **more):
        return cni(config["type"], verb, config, netns=pod.path if pod else "", container=pod.name if pod else "x", wrap=self.wrap, **more)

    def begin(self, verb, pod, config):
        """A process that the test may kill."""
        return start(config["type"], verb, config, netns=pod.path, container=pod.name, wrap=self.wrap)

    # What lies on the node.

    def file(self, end="json", network=NETWORK):
        with contextlib.suppress(FileNotFoundError), open(f"{self.root}/lib/blocks/{network}.{end}", encoding="utf-8") as file:
            return json.load(file)
        return None

    def blocks(self, state="held"):
        return {one["cidr"] for one in (self.file() or {"blocks": []})["blocks"] if one["state"] == state}

    def note(self):
        return (self.file() or {}).get("note", "")

    def leases(self):
        folder = f"{self.root}/lib/networks/{NETWORK}"
        return {name for name in os.listdir(folder) if name[0].isdigit()} if os.path.isdir(folder) else set()

    def release(self, node, **more):
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(30)
            asked.connect(f"{self.root}/run/patchbay-blocks.sock")
            asked.sendall(json.dumps({"verb": "release", "node": node, **more}).encode() + b"\n")
            return json.loads(asked.makefile().readline())

    def metric(self, name):
        with contextlib.suppress(FileNotFoundError), open(f"{self.root}/metrics", encoding="utf-8") as file:
            return next((float(line.rsplit(" ", 1)[1]) for line in file if line.startswith(name)), None)
        return None

    def processor_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Other:
    """A second node for a page of the documentation. program: `ssh NODE COMMAND...`, which runs there."""

    def __init__(self, name, program):
        for path in ("lib", "run"):
            os.makedirs(f"/mnt/{name}/{path}")
        os.makedirs("/run/cni", exist_ok=True)
        script = (f"mount --bind /mnt/{name}/lib /var/lib/cni && mount --bind /mnt/{name}/run /run/cni && "
                  f"hostname {name} && echo && exec sleep infinity")
        self.holder = subprocess.Popen(["unshare", "--mount", "--uts", "--propagation", "unchanged", "sh", "-c", script], stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        with open(program, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nshift\nexec nsenter --mount=/proc/{self.holder.pid}/ns/mnt --uts=/proc/{self.holder.pid}/ns/uts sh -c "$*"\n')
        os.chmod(program, 0o755)

    def stop(self):
        self.holder.kill()
        self.holder.wait()


def address_of(pod):
    """What is on the link, by another program; None: nothing."""
    with contextlib.suppress(RuntimeError, IndexError):
        shown = json.loads(run("nsenter", f"--net={pod.path}", "ip", "-j", "-4", "address", "show", "dev", "eth0"))
        return shown[0]["addr_info"][0]["local"]
    return None


class Pinging:
    """Asks from a pod for an address while a with statement lasts; then lost is how many answers there were not."""

    def __init__(self, pod, address):
        self.command, self.lost = ["nsenter", f"--net={pod.path}", "ping", "-n", "-i0.05", address], None

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        sent, heard = re.search(r"(\d+) packets transmitted, (\d+) received", self.process.communicate(timeout=10)[0]).groups()
        self.lost = int(sent) - int(heard)


class BlocksTest(suite.NodeTest):
    """engine() and objects() are those of an engine: {name: {network, cidr, node, claim}}."""

    subnet, size, plugin = SUBNET, 28, "macvlan"

    def config(self, wait=20, **more):
        ipam = {"type": "cluster-pool", "subnet": self.subnet, "blockSize": self.size, "waitForBlock": wait}
        return {"cniVersion": "1.1.0", "name": NETWORK, "type": self.plugin, "ipam": ipam} | ({"master": "uplink"} if self.plugin == "macvlan" else {}) | more

    def ipam(self, wait=20):
        """Of the IPAM plugin alone."""
        return self.config(wait) | {"type": "cluster-pool"}

    def make_node(self, name, **conf):
        node = Node(name, self.engine(), **conf)
        self.addCleanup(node.end)
        return node

    def nodes(self, count, **conf):
        return [self.make_node(f"n{number}", **conf) for number in range(1, count + 1)]

    def want_more(self, node, held):
        """As the plugin does where its blocks are 3/4 full."""
        file = node.file()
        path = f"{node.root}/lib/blocks/{NETWORK}.want"
        with open(path + ".new", "w", encoding="utf-8") as want:
            json.dump({"network": NETWORK, "pool": file["pool"], "fixed": [], "full": [{"set": 0, "blocks": held}], "since": int(time.time())}, want)
        os.rename(path + ".new", path)

    def first_block(self, node):
        pod = self.pod()
        self.assert_ok(node.call("ADD", pod, self.ipam()))
        return pod

    def pod_with(self, node, address, config=None):
        """A pod with that address, for which its block is claimed."""
        pod = self.pod()
        self.assert_ok(node.call("ADD", pod, config or self.ipam(), args=f"IgnoreUnknown=1;IP={address}"))
        return pod

    def wait_for_blocks(self, node, *blocks):
        """Until those that it claimed for later are returned."""
        self.assertTrue(wait_for(lambda: node.blocks() == set(blocks), 20), f"{node.file()} {node.log}")

    def wait_until_seen(self, node, block, holders):
        """ADD refuses an address by what the agent saw last, which it writes once in a second."""
        def seen():
            return {one["node"] for one in (node.file("nodes") or {"nodes": []})["nodes"] if block in one["blocks"]}

        self.assertTrue(wait_for(lambda: seen() == holders, 10), f"{node.file('nodes')} {node.log}")

    def findings(self, node):
        """What `cnitool doctor` finds wrong with blocks on the node."""
        os.makedirs(CONF_DIR, exist_ok=True)
        config = self.config()
        with open(f"{CONF_DIR}/{NETWORK}.conflist", "w", encoding="utf-8") as file:
            json.dump({"cniVersion": config.pop("cniVersion"), "name": config.pop("name"), "plugins": [config]}, file)
        found = finish(start_cnitool("doctor", "--json", wrap=node.wrap)).json["findings"]
        return [one["what"] for one in found if one["check"] == "blocks" and one["level"] != "ok"]

    def by_node(self):
        out = {}
        for one in self.objects().values():
            out.setdefault(one["node"], set()).add(one["cidr"])
        return out

    def assert_settled(self, nodes, seconds=30):
        """Each node's blocks are the engine's objects."""
        def agree():
            return {node.name: node.blocks() for node in nodes if node.blocks()} == self.by_node() and not any(node.file("want") for node in nodes)

        self.assertTrue(wait_for(agree, seconds, 0.1), f"{[(node.name, node.blocks(), node.note(), node.file('want')) for node in nodes]} "
                        f"is not {self.by_node()}:\n{nodes[0].log[-3000:]}")

    def assert_unique(self, pods):
        """No address is on two links, and each pod has one."""
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(address_of, pods))
        self.assertNotIn(None, found)
        self.assertEqual(len(set(found)), len(found), sorted(found))
        return set(found)

    def start_pods(self, nodes, count, prefix="p", config_of=None):
        """[(node, pod)] by ADD, all at once, each with its retries as the runtime makes them."""
        pairs = [(nodes[number % len(nodes)], Pod(f"{prefix}{number}")) for number in range(count)]
        config_of = config_of or (lambda _: self.config())

        def add(pair):
            node, pod = pair
            config = config_of(node)
            for _ in range(5):
                done = node.call("ADD", pod, config)
                if done.ok:
                    return None
                node.call("DEL", pod, config)
            return f"{node.name} {pod.name}: {done}\n{node.note()}\n{node.log[-1500:]}"

        with ThreadPoolExecutor(16) as pool:
            wrong = [one for one in pool.map(add, pairs) if one]
        self.assertEqual(wrong, [])
        return pairs

    def stop_pods(self, pairs):
        config = self.config()
        with ThreadPoolExecutor(8) as pool:
            for done in pool.map(lambda pair: pair[0].call("DEL", pair[1], config), pairs):
                self.assert_ok(done)


class Killer:
    """Kills agents, in a thread, while a with statement lasts."""

    def __init__(self, nodes, also=lambda: None, pause=0.15):
        self.nodes, self.also, self.pause, self.end, self.kills, self.error = nodes, also, pause, threading.Event(), 0, None

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.thread.join()
        if self.error:
            raise self.error

    def run(self):
        try:
            self.kill_all()
        except Exception as error:  # noqa: BLE001: whatever it is, it ends the test
            self.error = error

    def kill_all(self):
        chance = random.Random(7)
        while not self.end.wait(self.pause):
            node = chance.choice(self.nodes)
            node.kill()
            self.kills += 1
            if self.kills % 4 == 1:
                self.also()
            node.start()
