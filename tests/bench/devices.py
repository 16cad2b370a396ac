#!/usr/bin/env python3
"""What the plugin devices and patchbay-agent cost.

    scripts/bench devices [--rounds N]

On one node, in turns: ADD of host-device alone, and of devices for a pod with such a device, which asks patchbay-agent, which
asks a PodResources that is a compiled program, as a kubelet is; ADD of devices for a pod without one, where patchbay-agent runs
and where it never ran, beside an empty program and beside tuning without a key: a further plugin of a chain is a further
process, and one of this executable. The state is on the disk of /var/tmp, where fsync(2) takes its time. Then the same where
499 pods have devices, and memory and processor time of patchbay-agent. Milliseconds, medians, spawn to end. Exit status 1: a
goal is missed.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, kubelet, ledger  # noqa: E402
from support.agent import Agent, nics, slots  # noqa: E402
from support.kubelet import Kubelet  # noqa: E402
from support.ledger import NIC, SLOT, args_of, make_nic, make_parent, pod_of, pool  # noqa: E402
from support.plugin import OURS, cni  # noqa: E402
from support.world import MS_BIND, Pod, World, mount, wait_for, why_impossible  # noqa: E402

#: Goals: beyond host-device alone, and beyond an empty program, in ms; MiB; processor time in % of one.
WITH_DEVICE, WITHOUT_DEVICE, MEMORY, IDLE = 3.0, 0.5, 20.0, 0.5
#: Beyond the same on a node whose other devices are free: the noise of the two.
WITH_OTHERS = 1.0
OTHERS = 499
LOG = "/run/plugins.log"
IPAM = pool("10.50.0.0/24")
DEVICES = {"cniVersion": "1.1.0", "name": "pods", "type": "devices"}
HOST_DEVICE = {"cniVersion": "1.1.0", "name": "alone", "type": "host-device", "device": "dev1", "ipam": IPAM}


class Call:
    """A verb's calls, and how long they took."""

    def __init__(self, plugin, conf, directory=OURS):
        self.plugin, self.conf, self.directory, self.took = plugin, conf, directory, []

    def __call__(self, pod, name, ifname="eth0", timed=True):
        """ADD, and DEL after it."""
        options = {"netns": pod.path, "container": name, "ifname": ifname, "args": args_of(pod_of(name)),
                   "directory": self.directory, "env": {"PATCHBAY_LOG": LOG}}
        begun = time.perf_counter()
        done = cni(self.plugin, "ADD", self.conf, **options)
        if timed:
            self.took.append((time.perf_counter() - begun) * 1000)
        assert done.ok, f"{self.plugin}: {done}"
        done = cni(self.plugin, "DEL", self.conf, **options)
        assert done.ok, f"{self.plugin}: {done}"

    @property
    def median(self):
        return statistics.median(self.took)


def chained(conf, pod):
    return conf | {"prevResult": {"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": pod.path}]}}


def measure_calls(of, device, rounds, pod):
    """The calls by what they are for."""
    calls = {"host-device": Call("host-device", HOST_DEVICE), "devices, one device": Call("devices", chained(DEVICES, pod)),
             "devices, none": Call("devices", chained(DEVICES, pod)),
             "devices, without patchbay-agent": Call("devices", chained(DEVICES | {"ledgerDir": "/run/none", "agentSocket": "/run/none.sock"}, pod)),
             "tuning without a key": Call("tuning", chained(DEVICES | {"type": "tuning"}, pod)),
             "empty program": Call("bench_empty", DEVICES)}
    order = list(calls)
    for number in range(rounds + 2):
        random.shuffle(order)  # 0.2 s after a change of a link patchbay-agent looks at all: not always beside the same call
        for label in order:
            if label == "devices, one device":
                of.allocate(NIC, [device])
            calls[label](pod, "web" if label == "devices, one device" else "other", "net1" if label == "host-device" else "eth0",
                         timed=number > 1)
    return calls


def give_others_devices(of, device, rounds, pod):
    """The calls with and without a device where other pods have all the others."""
    for number in range(OTHERS):
        ledger.put(f"eth1:macvlan:{number + 1}", SLOT, ledger.slot(), pod=pod_of(f"other-{number}"))
    calls = measure_calls(of, device, rounds, pod)
    return {label: calls[label] for label in ("devices, one device", "devices, none")}


def serve_pod_resources(device):
    """In place of the kubelet's own: the pod has the device."""
    path = f"{kubelet.DIR}/pod-resources/kubelet.sock"
    os.unlink(path)
    process = subprocess.Popen([f"{OURS}/bench_pod_resources", path, "shop", "web", NIC, device], stdout=subprocess.PIPE)
    assert process.stdout.readline(), "bench_pod_resources does not listen"
    return process


def own_time():
    """What ADD of devices takes for a pod with a device, without the delegate that moves it: the kernel takes 20 ms for that, and
    seldom the same."""
    with open(LOG, encoding="utf-8") as file:
        calls = [json.loads(line) for line in file]
    return statistics.median(one["microseconds"] - one["phases"]["device"] for one in calls
                             if (one["plugin"], one["verb"]) == ("devices", "ADD") and "device" in one["phases"]) / 1000


def verdict(what, value, most, unit):
    print(f"{what}: {value:.2f} {unit}, at most {most:g}: {'ok' if value <= most else 'MISSED'}")
    return value <= most


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=40, help="how often each is called (40)")
    rounds = parser.parse_args().rounds
    if reason := why_impossible() or agent.why_impossible() or kubelet.why_impossible():
        sys.exit(reason)
    disk = tempfile.TemporaryDirectory(prefix="patchbay-bench-", dir="/var/tmp")
    World()
    mount(disk.name, "/var/lib/cni", flags=MS_BIND)
    make_nic("dev0")
    make_nic("dev1", "10.51.0.1/24")
    make_parent()
    of = Kubelet()
    lister = serve_pod_resources("netdev:dev0")
    by = Agent(nics("dev0", force=["dev0"], ipam=IPAM),
               slots(OTHERS, SLOT, "eth1"))
    try:
        assert wait_for(lambda: of.devices(NIC) and of.devices(SLOT), 20), by.log
        device = next(iter(of.devices(NIC)))
        pod = Pod("pod")
        calls = measure_calls(of, device, rounds, pod)
        beside = give_others_devices(of, device, rounds, pod)
        begun, used = time.monotonic(), by.processor_seconds()
        time.sleep(20)
        idle = (by.processor_seconds() - used) / (time.monotonic() - begun) * 100
        memory = by.memory() / 1024
    finally:
        for process in (by, of, lister):
            process.kill()
        lister.communicate()
        disk.cleanup()
    for label, call in calls.items():
        print(f"{label:34}{call.median:8.2f} ms"
              + (f", {beside[label].median:.2f} where {OTHERS} pods have devices" if label in beside else ""))
    print(f"{'devices, one device, without the delegate':34}{own_time():8.2f} ms")
    beyond_empty = calls["empty program"].median
    met = [verdict("one device beyond host-device", calls["devices, one device"].median - calls["host-device"].median,
                   WITH_DEVICE, "ms"),
           verdict("no device beyond an empty program", calls["devices, none"].median - beyond_empty, WITHOUT_DEVICE, "ms"),
           verdict("the same without patchbay-agent", calls["devices, without patchbay-agent"].median - beyond_empty,
                   WITHOUT_DEVICE, "ms"),
           verdict("no device, beyond tuning without a key", calls["devices, none"].median
                   - calls["tuning without a key"].median, WITHOUT_DEVICE, "ms"),
           verdict(f"no device, where {OTHERS} pods have devices, beyond the same without them",
                   beside["devices, none"].median - calls["devices, none"].median, WITH_OTHERS, "ms"),
           verdict("memory with 500 devices", memory, MEMORY, "MiB"), verdict("processor while idle", idle, IDLE, "%")]
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
