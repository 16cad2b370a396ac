#!/usr/bin/env python3
"""Leases of 10 s while the daemon is killed at any moment. With a server none is lost, released or asked for
anew. Without one each client asks its server alone at T1, asks everybody at T2, and loses the address at the
end: each within 200 ms, beside the time that the daemon was dead, and that in which the machine let nothing
run.

With PATCHBAY_SWEEP_STEP fewer than 50 times.
"""

import datetime
import json
import math
import os
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import dhcp, rows, suite  # noqa: E402
from support.world import wait_for  # noqa: E402

KILLS = max(50 // rows.SWEEP, 8)
SEED = rows.OFFSET
LEASE, T1 = 10, 5
LATE = 0.2
EARLY = 0.02  # of timers and packets the clocks are not one
PODS = 5
ROUND = 17  # kills, of which UP with a server
UP = 7


class Pulse(threading.Thread):
    """When the machine did not let a thread run that only wakes up."""

    def __init__(self):
        super().__init__(daemon=True)
        self.gaps, self.done = [], False
        self.start()

    def run(self):
        last = time.time()
        while not self.done:
            time.sleep(0.005)
            now = time.time()
            if now - last > 0.015:
                self.gaps.append((last, now))
            last = now

    def away(self, begin, end):
        return sum(min(end, to) - max(begin, since) for since, to in self.gaps if since < end and to > begin)


class Lives(threading.Thread):
    """The daemons, one after the other: each says by sd_notify(3) when it is ready."""

    def __init__(self):
        super().__init__(daemon=True)
        self.ready, self.killed, self.order = {}, {}, []
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.notified.bind("/run/notify")
        self.daemon = dhcp.Daemon("-timeout", "1s", "-resendmax", "2s")
        self.daemon.kill()
        self.start()
        self.spawn()

    def run(self):
        while True:
            text, [(_, _, credentials), *_], _, _ = self.notified.recvmsg(100, 100)
            if text == b"READY=1":
                self.ready[struct.unpack("3i", credentials)[0]] = time.time()

    def spawn(self):
        self.daemon.spawn(env=os.environ | {"NOTIFY_SOCKET": "/run/notify"})
        self.order.append(self.daemon.process.pid)

    def kill(self):
        self.killed[self.daemon.process.pid] = time.time()
        self.daemon.kill()
        self.spawn()

    def settle(self):
        assert wait_for(lambda: self.daemon.process.pid in self.ready, 30), self.daemon.log

    def latest(self, due):
        """Until when a daemon was there long enough to do what was due at that time."""
        for pid in self.order:
            begin = max(due, self.ready.get(pid, math.inf))
            if begin + LATE < self.killed.get(pid, math.inf):
                return begin + LATE
        return math.inf

    def kills_between(self, begin, end):
        return any(begin <= at <= end for at in self.killed.values())


def leases():
    """By container: T1, T2 and end, as the state files have them, in the time of day."""
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    found = {}
    for name in os.listdir(dhcp.STATES):
        try:
            with open(f"{dhcp.STATES}/{name}") as file:
                state = json.load(file)
        except (FileNotFoundError, ValueError):
            continue
        if "lease" in state:
            found[state["containerID"]] = {key: state["lease"][key] / 1000 + boot
                                           for key in ("renew", "rebind", "expire")}
    return found


def changes(file):
    """What `ip -ts monitor address` saw: (second, whether removed)."""
    with open(file) as lines:
        found = re.findall(r"^\[(\S+)\] (Deleted )?.* inet 10\.", lines.read(), re.MULTILINE)
    return [(datetime.datetime.fromisoformat(at).timestamp(), bool(gone)) for at, gone in found]


class Kill(suite.NodeTest):
    def setUp(self):
        super().setUp()
        dhcp.segment()
        self.server = dhcp.isc(lease=LEASE)
        self.addCleanup(self.server.stop)
        self.lives = Lives()
        self.addCleanup(lambda: self.lives.daemon.kill())
        self.lives.settle()
        self.worst = {"T1": 0, "T2": 0, "end": 0}

    def attach(self):
        """Pods, each with its address, MAC address and monitor's file."""
        self.pods_of = {}
        for _ in range(PODS):
            pod = self.pod()
            result = self.assert_ok(dhcp.attach("ADD", pod, dhcp.config()))
            log = f"/run/{pod.name}.log"
            with open(log, "w") as out:
                monitor = subprocess.Popen(["ip", "-n", pod.name, "-ts", "monitor", "address"], stdout=out)
            self.addCleanup(monitor.wait)
            self.addCleanup(monitor.kill)
            self.pods_of[pod.name] = (pod, result["ips"][0]["address"], result["interfaces"][2]["mac"], log)

    def have_addresses(self):
        return all(dhcp.addresses(pod) == [address] for pod, address, _, _ in self.pods_of.values())

    def kill_at(self, moments):
        for moment in sorted(moments):
            time.sleep(max(0, moment - time.time()))
            self.lives.kill()

    def assert_in_time(self, what, pod, due, at):
        late = at - due
        latest = self.lives.latest(due)
        allowed = latest + self.pulse.away(due, at)
        self.assertGreaterEqual(late, -EARLY, f"{pod}: {what} too early, seed {SEED}")
        self.assertLessEqual(at, allowed, f"{pod}: {what} {late:.3f} s late, seed {SEED}")
        if latest == due + LATE:
            self.worst[what] = max(self.worst[what], late)

    def test_a_lease_neither_ends_early_nor_late_however_often_the_daemon_is_killed(self):
        self.attach()
        self.pulse = Pulse()
        chance = random.Random(SEED)
        print(f"     {KILLS} kills, seed {SEED}", flush=True)
        while (left := KILLS - len(self.lives.killed)) > 0:
            share = min(1, left / ROUND)
            with dhcp.capture("/run/kill.pcap") as path:
                begun = time.time()
                self.with_server(chance, max(1, round(UP * share)))
                stopped = time.time()
                self.without_server(chance, max(1, round((ROUND - UP) * share)))
                ended = time.time()
            sent = [(float(at), mac, dhcp.TYPES[int(kind)], to) for at, mac, kind, to in
                    dhcp.packets(path, "frame.time_epoch", "dhcp.hw.mac_addr", "dhcp.option.dhcp", "ip.dst")]
            self.assertEqual(dhcp.malformed(path), "")
            for name in self.pods_of:
                own = [one for one in sent if one[1] == self.pods_of[name][2]]
                self.judge_with_server(name, own, begun, stopped)
                self.judge_without_server(name, own, stopped, ended)
            self.server.start()
            self.assertTrue(wait_for(self.have_addresses, 60), self.lives.daemon.log[-3000:])
        self.pulse.done = True
        print("     at the latest, where the daemon was there: "
              + ", ".join(f"{key} {late * 1000:.0f} ms" for key, late in self.worst.items()), flush=True)

    def with_server(self, chance, kills):
        """Long enough that each lease is renewed."""
        begin = time.time()
        renewals = [one["renew"] for one in leases().values()]
        self.kill_at([chance.choice(renewals) + chance.uniform(-0.2, 0.3) if chance.random() < 0.5 else
                      begin + chance.uniform(0, T1 + 1) for _ in range(kills)])
        self.lives.settle()
        time.sleep(max(0, max(renewals) + 1 - time.time()))
        # None is in the middle of a renewal.
        self.assertTrue(wait_for(lambda: len(leases()) == PODS and min(one["renew"] for one in leases().values())
                                 > time.time() + 0.5, 60), self.lives.daemon.log[-3000:])
        self.server.stop()

    def without_server(self, chance, kills):
        self.times = leases()
        self.assertEqual(set(self.times), set(self.pods_of))
        self.assertGreater(min(one["renew"] for one in self.times.values()), time.time())
        end = max(one["expire"] for one in self.times.values())
        due = [at for one in self.times.values() for at in one.values()]
        self.kill_at([chance.choice(due) + chance.uniform(-0.2, 0.3) if chance.random() < 0.5 else
                      chance.uniform(time.time(), end + 0.5) for _ in range(kills)])
        self.lives.settle()
        self.assertTrue(wait_for(lambda: not any(dhcp.addresses(one[0]) for one in self.pods_of.values()),
                                 LEASE + 5), self.lives.daemon.log[-3000:])

    def judge_with_server(self, name, sent, begun, stopped):
        during = [one for one in sent if begun <= one[0] < stopped]
        self.assertEqual({one[2] for one in during} - {"REQUEST", "ACK"}, set(), f"{name}: {during}, seed {SEED}")
        self.assertEqual([at for at, gone in changes(self.pods_of[name][3]) if gone and begun <= at < stopped], [])
        asked = [one[0] for one in during if one[2] == "REQUEST"]
        answered = [one[0] for one in during if one[2] == "ACK"]
        self.assertTrue(answered, f"{name}: {during}, seed {SEED}")
        for at, following in zip(asked, asked[1:]):
            self.assertLessEqual(following, self.lives.latest(at + T1) + self.pulse.away(at + T1, following),
                                 f"{name}: {during}, seed {SEED}")
            ack = next((one for one in answered if at < one < following), None)
            if ack and not self.lives.kills_between(at, ack + 0.1):
                self.assertGreaterEqual(following, at + T1 - EARLY, f"{name}: {during}, seed {SEED}")

    def judge_without_server(self, name, sent, stopped, ended):
        times, (_, _, _, log) = self.times[name], self.pods_of[name]
        asked = [one for one in sent if one[2] == "REQUEST" and stopped < one[0] < times["expire"]]
        alone = [one[0] for one in asked if one[3] == "10.77.0.1"]
        everybody = [one[0] for one in asked if one[3] == "255.255.255.255"]
        # It is the lease that the last answered request gave.
        last = max(one[0] for one in sent if one[2] == "REQUEST" and one[0] < times["renew"] - EARLY)
        self.assertAlmostEqual(times["expire"], last + LEASE, delta=0.2)
        for what, due, came, end in (("T1", times["renew"], alone, times["rebind"]),
                                     ("T2", times["rebind"], everybody, times["expire"])):
            if self.lives.latest(due) < end:
                self.assertTrue(came, f"{name}: {what}: {asked}, seed {SEED}")
            if came:
                self.assert_in_time(what, name, due, came[0])
        if alone and everybody:
            self.assertLess(alone[-1], everybody[0])
        removed = [at for at, gone in changes(log) if gone and stopped < at < ended + 1]
        self.assertEqual(len(removed), 1, f"{name}: {removed}, seed {SEED}")
        self.assert_in_time("end", name, times["expire"], removed[0])


if __name__ == "__main__":
    suite.main(needs=("tcpdump", "tshark", "dhcpd"))
