#!/usr/bin/env python3
"""portmap is killed in the middle of its work, and its pod never deleted: the next pod that wants
the port gets it, and GC finds what is left. With PATCHBAY_SWEEP_STEP fewer."""

import os
import random
import signal
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import hostport, rows, suite  # noqa: E402
from support.hostport import Server, ask_one, config, mapping  # noqa: E402
from support.parallel import parallel  # noqa: E402
from support.plugin import cni, finish, start  # noqa: E402
from support.portmap import BACKENDS  # noqa: E402
from support.snapshot import diff, left_by_design, snapshot  # noqa: E402
from support.world import Pod, World, run  # noqa: E402



class Stage:
    """A node with two pods that serve, whichever container is said to have their addresses."""

    def __init__(self, row, add_cleanup):
        self.addCleanup = add_cleanup
        World()
        self.backend, variant = row
        if variant:
            hostport.select_iptables(variant)  # at_random_points() saw that it can be
        run("ip", "-batch", "-", stdin="link add cni0 type bridge\naddr add 10.1.2.1/24 dev cni0\n"
            "addr add fd00:1:2::1/64 dev cni0 nodad\nlink set cni0 up\n"
            "addr add 192.0.2.1/32 dev lo\n")
        for number in (2, 3):
            pod = Pod(f"server{number}")
            run("ip", "link", "add", f"port{number}", "type", "veth", "peer", "eth0", "netns",
                pod.name)
            run("ip", "link", "set", f"port{number}", "master", "cni0", "up")
            run("ip", "-n", pod.name, "-batch", "-", stdin=f"addr add 10.1.2.{number}/24 dev eth0\n"
                "link set eth0 up\nroute add default via 10.1.2.1\n")
            Server(self, f"server{number}", (80,), pod, protocols=("tcp",), addresses=("0.0.0.0",))
        self.used = 0

    def container(self):
        self.used += 1
        pod = Pod(f"container-{self.used}-{os.urandom(8).hex()}")
        run("ip", "-n", pod.name, "link", "add", "eth0", "type", "bridge")
        return pod

    def conf(self, pod, number):
        conf = config([mapping(8080, 80), mapping(8081, 81, "udp", "192.0.2.1")], self.backend)
        return conf | {"prevResult": hostport.result(pod, f"10.1.2.{number}", "")}

    def call(self, verb, pod, number, kill_after=None):
        conf = self.conf(pod, number)
        if kill_after is None:
            return cni("portmap", verb, conf, netns=pod.path, container=pod.name)
        process = start("portmap", verb, conf, netns=pod.path, container=pod.name)
        process.stdin.write(process.config)
        process.stdin.close()
        process.stdin = None
        time.sleep(kill_after)
        process.kill()
        return finish(process)


def kills(arguments):
    """Kills plugins on one node until so many did not reach their end; returns [how many, what is wrong]."""
    row, seed, count = arguments
    chance = random.Random(seed)
    cleanups = []
    try:
        stage = Stage(row, cleanups.append)
        usual = []
        for _ in range(5):
            one = stage.container()
            begin = time.monotonic()
            stage.call("ADD", one, 2)
            usual.append(time.monotonic() - begin)
            stage.call("DEL", one, 2)
            one.remove()
        before, killed, n, wrong = snapshot(), 0, 0, []
        longest = 1.2 * statistics.median(usual)
        while killed < count:
            said = one_kill(stage, chance, longest)
            killed, n = killed + said[0], n + 1
            # A verb takes longer or less with what else runs: seven kills of ten come in time.
            longest *= 1.1 if said[0] else 0.8
            if said[1]:
                wrong.append(f"seed {seed}, round {n}: {said[1]}")
                if len(wrong) > 3:
                    break
        # All owners are gone; one more pod comes and goes, and GC takes the rest.
        last = stage.container()
        stage.call("ADD", last, 2)
        stage.call("DEL", last, 2)
        gone = cni("portmap", "GC", config(None, stage.backend, "1.1.0") |
                   {"cni.dev/valid-attachments": []})
        left = diff(before, snapshot(), lambda place: left_by_design(place)
                    or place.startswith("file/run/netns/container-"))
        if not gone.ok or left:
            wrong.append(f"seed {seed}, GC: {gone}, left:\n{left[:2000]}")
        return [killed, wrong]
    finally:
        for cleanup in cleanups:
            cleanup()


def one_kill(stage, chance, longest):
    """Kills an ADD or a DEL somewhere; the next ADD of the same port must work, at once."""
    number = chance.choice((2, 3))
    victim = stage.container()
    verb = chance.choice(("ADD", "ADD", "DEL"))
    if verb == "DEL" and not (added := stage.call("ADD", victim, number)).ok:
        return False, f"ADD before DEL: {added}"
    outcome = stage.call(verb, victim, number, kill_after=chance.uniform(0, longest))
    killed = outcome.status == -signal.SIGKILL
    victim.remove()
    newest = stage.container()
    added = stage.call("ADD", newest, 5 - number)
    wrong = None
    if not added.ok:
        wrong = f"{verb} was killed, then ADD: {added}"
    else:
        answer = ask_one(None, "tcp", "192.0.2.1", 8080)
        if not answer.startswith(f"server{5 - number} "):
            wrong = f"{verb} was killed, then ADD, and the port leads to: {answer}"
        elif not (checked := stage.call("CHECK", newest, 5 - number)).ok:
            wrong = f"{verb} was killed, then ADD, then CHECK: {checked}"
    newest.remove()  # without a DEL: the next one finds it stale
    return killed, wrong


@suite.spread
class Killed(suite.NodeTest):
    @suite.cases([(f"{count} {name}", (row, count)) for (name, row), count
                  in zip(BACKENDS, (600, 200, 200))])
    def at_random_points(self, row):
        """The seed is fixed; where the plugin is by then is not."""
        row, count = row
        if row[1] and (reason := hostport.select_iptables(row[1])):
            self.skipTest(reason)
        count = max(count // rows.SWEEP, 4)
        parts = 2 * (os.cpu_count() or 1)
        results = parallel(kills, [(row, 1000 + n, -(-count // parts)) for n in range(parts)], is_node=True)
        killed = sum(number for number, _ in results)
        wrong = [text for _, texts in results for text in texts]
        print(f"     {killed} were killed before their end", flush=True)
        if wrong:
            self.fail("\n     ".join([f"{len(wrong)} wrong:", *(w[:1500] for w in wrong[:8])]))


if __name__ == "__main__":
    suite.main()
