#!/usr/bin/env python3
"""cnitool is killed in the middle of its work, and a collection of garbage afterwards leaves the
attachments that are valid, and nothing else. With PATCHBAY_SWEEP_STEP fewer."""

import os
import random
import shutil
import signal
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import rows, suite  # noqa: E402
from support.cnitool import (cache_names, cached, cnitool, container_of, finish,  # noqa: E402
                             start, use)
from support.held import Held  # noqa: E402
from support.parallel import parallel  # noqa: E402
from support.snapshot import diff, left_by_design, snapshot  # noqa: E402
from support.world import Pod, World, run, wait_for  # noqa: E402


NETWORK = {"name": "net", "plugins": [
    {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}],
                                               [{"subnet": "fd00:1:2::/64"}]]}},
    {"type": "portmap", "capabilities": {"portMappings": True}},
    {"type": "bandwidth", "capabilities": {"bandwidth": True}}]}
CAPABILITIES = {
    "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
                     {"hostPort": 8081, "containerPort": 81, "protocol": "udp"}],
    "bandwidth": {"ingressRate": 8000000, "ingressBurst": 800000,
                  "egressRate": 4000000, "egressBurst": 400000}}


class Stage:
    """A node with one pod that stays."""

    def __init__(self, version):
        World()
        use(NETWORK | {"cniVersion": version})
        self.stays = Pod("stays")
        self.used = 0
        self.ok(cnitool("add", "net", self.stays.path))
        self.usual = {"add": [], "del": [], "gc": []}
        for _ in range(5):  # the first of them makes what all share
            pod = self.pod()
            self.timed("add", "net", pod.path)
            self.timed("del", "net", pod.path)
            self.timed("gc", "net", "--yes", "--keep", container_of(self.stays.path))
            pod.remove()
        self.usual = {verb: statistics.median(times) for verb, times in self.usual.items()}
        self.before = snapshot()

    @staticmethod
    def ok(outcome):
        if not outcome.ok:
            raise AssertionError(str(outcome))

    def timed(self, *arguments):
        begin = time.monotonic()
        self.ok(cnitool(*arguments, CAP_ARGS=CAPABILITIES))
        self.usual[arguments[0]].append(time.monotonic() - begin)

    def pod(self):
        self.used += 1
        return Pod(f"pod{self.used}")

    def kill(self, chance):
        """Kills one operation on a new pod. [whether it was in time, the pod, what was done]"""
        pod, verb = self.pod(), chance.choice(("add", "add", "add", "del", "gc"))
        if verb != "add":
            self.ok(cnitool("add", "net", pod.path, CAP_ARGS=CAPABILITIES))
        last = ["--yes", "--keep", container_of(self.stays.path)] if verb == "gc" else [pod.path]
        process = start(verb, "net", *last, CAP_ARGS=CAPABILITIES)
        after = chance.uniform(0, 1.2 * self.usual[verb])
        time.sleep(after)
        process.kill()
        in_time = finish(process).status == -signal.SIGKILL
        if chance.random() < 0.3:
            pod.remove()
            pod = None
        return in_time, pod, f"{verb} killed after {1000 * after:.1f} ms"


def go_on(pod, what):
    """Somebody tries again by hand, and is done with it; what is wrong."""
    container, verbs = container_of(pod.path), ["del"]
    if what.startswith("add"):
        finished = (f"net-{container}-eth0" in cache_names()
                    and "result" in cached("net", container))
        verbs = ["check", "del"] if finished else ["add", "check", "del"]
    outcomes = [(verb, cnitool(verb, "net", pod.path, CAP_ARGS=CAPABILITIES)) for verb in verbs]
    return [f"then {verb}: {outcome}" for verb, outcome in outcomes if not outcome.ok]


def kills(arguments):
    """Kills so many on one node; returns [killed before their end, what is wrong]."""
    version, seed, count = arguments
    chance = random.Random(seed)
    stage, killed, wrong = Stage(version), 0, []
    for n in range(2 * count):
        if killed >= count or len(wrong) > 3:
            break
        in_time, pod, what = stage.kill(chance)
        killed += in_time
        if pod and chance.random() < 0.3:
            wrong += [f"seed {seed}, round {n}, {what}, {said}" for said in go_on(pod, what)]
        collected = cnitool("gc", "net", "--yes", "--keep", container_of(stage.stays.path))
        left = diff(stage.before, snapshot(), lambda place: left_by_design(place)
                    or place.startswith("file/run/netns/"))
        inside = pod.run("ip", "-br", "link") if pod else ""
        checked = cnitool("check", "net", stage.stays.path)
        if (not collected.ok or left or "eth0" in inside or not checked.ok
                or cache_names() != [f"net-{container_of(stage.stays.path)}-eth0"]):
            wrong.append(f"seed {seed}, round {n}, {what}: gc: {collected}, check: {checked}, "
                         f"cache: {cache_names()}, pod: {inside!r}, left:\n{left[:2000]}")
        if pod:
            pod.remove()
    return [killed, wrong]


@suite.spread
class Killed(suite.NodeTest):
    @suite.cases([(f"300 times with a network of {version}", version)
                  for version in ("1.1.0", "1.0.0")])
    def at_random_points(self, version):
        """The seed is fixed; where the plugins are by then is not. Before 1.1.0 plugins have no GC:
        there it is DEL alone, from what the cache knows."""
        count = max(300 // rows.SWEEP // 10, 1)
        results = parallel(kills, [(version, seed, count) for seed in range(10)], is_node=True)
        wrong = [text for _, texts in results for text in texts]
        self.assertEqual(wrong, [], "\n".join(wrong[:5]))
        killed = sum(number for number, _ in results)
        self.assertGreaterEqual(killed, 10 * count * 0.8, "kills that came before the end")


@suite.spread
class Lost(suite.NodeTest):
    """Of 20 attachments 8 are valid; the other 12 were lost with whoever made or removed them."""

    BROKEN = ("", "{", "[5]", '[{"containerID": "c"}]', '[{"containerID": "../c", "ifname": "eth0"}]')

    @staticmethod
    def arguments(number):
        return CAPABILITIES | {"portMappings": [
            port | {"hostPort": port["hostPort"] + 10 * number}
            for port in CAPABILITIES["portMappings"]]}

    def lose(self, pods, chance):
        """All at once, as when a runtime dies: four in the middle of ADD, the others anywhere."""
        held = Held("portmap", '$CNI_COMMAND = ADD && -z $(touch /run/held-plugins/at-$CNI_CONTAINERID)')
        running = []
        for number, pod in enumerate(pods):
            verb = chance.choice(("add", "add", "del")) if number >= 4 else "add"
            if verb == "del":
                self.assertTrue(cnitool("add", "net", pod.path, CAP_ARGS=self.arguments(20 + number)).ok)
            running.append((start(verb, "net", pod.path, CAP_ARGS=self.arguments(20 + number),
                                  **({"CNI_PATH": held.path} if number < 4 else {})), chance.uniform(0, 0.15)))
        for pod in pods[:4]:
            self.assertTrue(wait_for(lambda pod=pod: os.path.exists(f"{held.path}/at-{container_of(pod.path)}"), 20))
        begin = time.monotonic()
        for process, after in sorted(running, key=lambda one: one[1]):
            time.sleep(max(0.0, begin + after - time.monotonic()))
            process.kill()
        ends = [finish(process).status for process, _ in running]
        self.assertEqual(ends[:4], 4 * [-signal.SIGKILL])
        held.release()
        shutil.rmtree(held.path)

    @suite.cases(rows.sampled([(f"{backend}, {version}", (backend, version))
                               for backend in ("nftables", "iptables") for version in ("1.1.0", "1.0.0")], most=4))
    def twelve_go_and_eight_stay(self, row):
        backend, version = row
        chance = random.Random(f"{backend} {version}")
        bridge, portmap, bandwidth = NETWORK["plugins"]
        use(NETWORK | {"cniVersion": version,
                       "plugins": [bridge, portmap | {"backend": backend}, bandwidth]})
        pods = [Pod(f"pod{n}") for n in range(20)]
        valid, lost = pods[:8], pods[8:]
        for number, pod in enumerate(valid):
            self.assertTrue(cnitool("add", "net", pod.path, CAP_ARGS=self.arguments(number)).ok)
        wanted = snapshot()
        self.lose(lost, chance)
        gone = {container_of(pod.path) for pod in lost[::3]}
        for pod in lost[::3]:
            pod.remove()
        # The kernel removes their links later.
        self.assertTrue(wait_for(lambda: not any(one in run("ip", "link", "show", "type", "veth") for one in gone), 20))
        everything = snapshot()
        for text in self.BROKEN:
            self.assertFalse(cnitool("gc", "net", "--yes", "--keep-json", text).ok, text)
            self.assertEqual(diff(everything, snapshot()), "", f"gc with {text!r}")
        keep = [word for pod in valid for word in ("--keep", container_of(pod.path))]
        collected = cnitool("gc", "net", "--yes", *keep)
        self.assertTrue(collected.ok, str(collected))
        self.assertEqual(diff(wanted, snapshot(), lambda place: left_by_design(place)
                              or place.startswith("file/run/netns/")), "")
        self.assertEqual(cache_names(), sorted(f"net-{container_of(pod.path)}-eth0" for pod in valid))
        for pod in valid:
            checked = cnitool("check", "net", pod.path)
            self.assertTrue(checked.ok, str(checked))


if __name__ == "__main__":
    suite.main()
