"""A bad day of a node: what kills its processes, and a kubelet that does not give up."""

import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from support.cri import Client
from support.kubelet import Refused
from support.plugin import OURS
from support.world import wait_for


WORKERS = 6


class Life:
    """A pod of the kubelet: how many devices of each resource it asks for, and the ones that it got."""

    def __init__(self, name, wants):
        self.name, self.wants = name, wants
        self.devices = {}
        self.sandbox = None
        self.failures = []

    @property
    def ids(self):
        return sorted(device for ids in self.devices.values() for device in ids)


class Busy(Exception):
    """No device is free now."""


class Manager:
    """A kubelet: what it does for its pods. It counts devices, and syncs a pod until it has one sandbox that is ready."""

    def __init__(self, kubelet, cgroup, socket):
        self.kubelet, self.cgroup, self.socket = kubelet, cgroup, socket
        self.lock = threading.Lock()
        self.allocated = set()
        self.pool = ThreadPoolExecutor(WORKERS)
        self.clients = threading.local()
        self.opened = []

    def close(self):
        self.pool.shutdown(cancel_futures=True)
        for one in self.opened:
            one.close()

    @property
    def cri(self):
        """The client of this thread."""
        if not hasattr(self.clients, "one"):
            self.clients.one = Client(self.socket)
            self.opened.append(self.clients.one)
        return self.clients.one

    def start_all(self, tasks):
        """Futures of [(step, life, tries)]: some run at a time."""
        return [self.pool.submit(self.insist, *task) for task in tasks]

    def admit(self, life, chance):
        """Allocates the devices of a pod, all or none. \\throws Busy."""
        with self.lock:
            if life.devices:
                return
            found = {}
            for resource, count in life.wants.items():
                healthy = [one for one, health in self.kubelet.devices(resource).items() if health == "Healthy"]
                free = sorted(set(healthy) - self.allocated)
                if len(free) < count:
                    raise Busy(f"{resource}: {free}")
                found[resource] = chance.sample(free, count)
            try:
                for resource, ids in found.items():
                    self.kubelet.allocate(resource, ids)
            except Refused as error:
                raise Busy(str(error)) from error
            life.devices = found
            self.allocated.update(life.ids)
        self.own(life)

    def own(self, life):
        """PodResources lists the pod from now on, also one without devices."""
        self.kubelet.own("default", life.name, life.devices)

    def disown(self, life):
        """The pod has ended for the kubelet, whose devices are free."""
        with self.lock:
            self.kubelet.disown("default", life.name)
            self.allocated.difference_update(life.ids)
            life.devices = {}

    def sandboxes(self, life):
        """The newest first."""
        mine = [one for one in self.cri.list_pods() if one["uid"] == f"{life.name}-uid"]
        return sorted(mine, key=lambda one: -one["attempt"])

    def remove_all(self, sandboxes):
        for one in sandboxes:
            self.cri.stop_pod(one["id"])
            self.cri.remove_pod(one["id"])

    def sync(self, life):
        """One pass of a kubelet's loop: a ready sandbox stays, otherwise all go and another one starts. \\throws RuntimeError."""
        life.sandbox = None
        known = self.sandboxes(life)
        if known and known[0]["is_ready"]:
            self.remove_all(known[1:])
            life.sandbox = known[0]["id"]
            return
        self.remove_all(known)
        attempt = max((one["attempt"] + 1 for one in known), default=len(life.failures))
        life.sandbox = self.cri.run_pod(life.name, cgroup_parent=f"/{self.cgroup}", attempt=attempt)

    def end(self, life, early):
        """Removes a pod. early: the kubelet gives its devices away before the sandbox has ended. \\throws RuntimeError."""
        if early:
            self.disown(life)
        self.remove_all(self.sandboxes(life))
        life.sandbox = None
        self.disown(life)

    def insist(self, step, life, tries):
        """Whether the step succeeded at last."""
        for number in range(tries):
            try:
                step(life)
                return True
            except (RuntimeError, OSError, Busy) as error:
                life.failures.append(str(error))
            time.sleep(0.1 + 0.2 * number)
        return False


def processes(fits):
    """The PIDs of processes whose executable is the one looked for."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if fits(f"/proc/{pid}/exe"):
                found.append(int(pid))
        except OSError:
            pass  # it ended, or is a zombie
    return found


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def is_plugin(path):
    return os.path.samefile(path, os.path.join(OURS, "patchbay"))


def is_pause(path):
    """The process of a sandbox or a container, which is of the image of tests."""
    return os.path.basename(os.readlink(path)) == "busybox"


def is_shim(path):
    return os.path.basename(os.readlink(path)).startswith("containerd-shim")


class Killer:
    """Kills one process after another, by SIGKILL, for the length of a with statement; then all daemons run again."""

    def __init__(self, containerd, agent, seed, weights):
        self.containerd, self.agent, self.chance = containerd, agent, random.Random(seed)
        self.weights, self.killed = weights, dict.fromkeys(weights, 0)
        self.ending = threading.Event()

    def __enter__(self):
        self.ending.clear()
        self.thread = ThreadPoolExecutor(1)
        self.done = self.thread.submit(self._run)
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.thread.shutdown()
        self.done.result()

    def _run(self):
        what = "containerd"
        while not self.ending.wait(self.chance.uniform(0.1, 1.2)):
            if getattr(self, f"_kill_{what}")():
                self.killed[what] += 1
            what, = self.chance.choices(list(self.weights), list(self.weights.values()))

    def _kill_containerd(self):
        self.containerd.process.kill()
        self.containerd.process.wait()
        time.sleep(self.chance.uniform(0, 0.5))
        self.containerd.restart()
        return True

    def _kill_agent(self):
        self.agent.kill()
        time.sleep(self.chance.uniform(0, 1))
        self.agent.start()
        return True

    def _kill_plugin(self):
        found = wait_for(lambda: processes(is_plugin), 1, 0.002)
        time.sleep(self.chance.uniform(0, 0.02))
        for pid in found[:1]:
            kill(pid)
        return bool(found)

    def _kill_shim(self):
        found = processes(is_shim)
        if found:
            kill(self.chance.choice(sorted(found)))
        return bool(found)
