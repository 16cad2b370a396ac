#!/usr/bin/env python3
"""Pods come and go on thirty devices while containerd, its shims, the plugins and patchbay-agent are killed at any moment:
no pod that runs has a part of its devices, no device is in two places, and at the end the ledger is what the kernel has.

PATCHBAY_CHURN_PODS sets how many pods, PATCHBAY_CHURN_SEED which moments."""

import json
import os
import random
import shutil
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, devices_churn, ledger, suite  # noqa: E402
from support.agent import Agent, nics, slots  # noqa: E402
from support.cnitool import RESULTS, cnitool  # noqa: E402
from support.containerd import NEEDED, SOCKET, PodsTest  # noqa: E402
from support.devices_churn import Killer, Life, Manager  # noqa: E402
from support.kubelet import Kubelet  # noqa: E402
from support.ledger import NIC, SLOT  # noqa: E402
from support.reboot import boot  # noqa: E402
from support.snapshot import netns_names, snapshot  # noqa: E402
from support.world import Pod, run, umount, wait_for  # noqa: E402

PODS = int(os.environ.get("PATCHBAY_CHURN_PODS", "10"))
SEED = int(os.environ.get("PATCHBAY_CHURN_SEED", "1"))
NICS, SLOTS, AT_ONCE = 10, 20, 20
IS_WHOLE = PODS >= 100
#: {resource: how many} that a pod asks for, and how many of a hundred pods do.
WISHES = [({}, 40), ({NIC: 1}, 15), ({SLOT: 1}, 20), ({NIC: 1, SLOT: 1}, 15), ({SLOT: 2}, 5), ({NIC: 2}, 5)]
KILLS = {"containerd": 2, "shim": 1, "plugin": 5, "agent": 2}
NETWORK = {"cniVersion": "1.0.0", "name": "pods", "plugins": [
    {"type": "bridge", "bridge": "cni-c8d", "isDefaultGateway": True,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.87.1.0/24"}]]}},
    {"type": "devices"}]}
PEERS = {NIC: "10.50.0.1", SLOT: "10.60.0.1"}
#: The files in /run that are the test's own.
OF_TEST = ("file/run/agent/", "file/run/operator/", "file/run/boot_id", "file/run/stat", "file/run/machine-id")


#: The index of the first NIC. No other link gets one as high, in whatever namespace: a NIC keeps its own.
INDEX = 9000


def mac_of(index):
    return f"02:00:5e:00:{index >> 8:02x}:{index & 0xff:02x}"


def plug_in(link, index, *port):
    """A link of the node whose other end is in the segment. port: words of ip-link(8) for that end."""
    run("ip", "link", "add", link, "index", str(index), "address", mac_of(index), "type", "veth",
        "peer", "name", link, "index", str(index), "netns", "segment")
    run("ip", "-n", "segment", "link", "set", link, *port, "up")
    run("ip", "link", "set", link, "mtu", "1400", "alias", f"port {index}", "up")


def links(namespace=None):
    """Those of a namespace, or of the node: {name: link}."""
    shown = json.loads(run("ip", *(("-n", namespace) if namespace else ()), "-j", "-d", "link"))
    return {one["ifname"]: one for one in shown if "ifname" in one}


def sandboxes():
    """The namespaces of pods, by name."""
    return {name for name in netns_names() if name.startswith("cni-")}


def kind_of(link):
    return link.get("linkinfo", {}).get("info_kind")


class ChurnTest(PodsTest):
    """A node with ten NICs and twenty slots, and a kubelet."""

    def setUp(self):
        if reason := agent.why_impossible():
            self.skipTest(reason)
        super().setUp()
        boot(86400)
        self.chance = random.Random(SEED)
        Pod("segment")
        self.plug_in_all()
        os.makedirs("/run/operator")
        self.use(NETWORK)
        with open("/run/operator/10.conflist", "w", encoding="ascii") as file:
            json.dump(NETWORK | {"cniVersion": "1.1.0"}, file)
        self.of = Kubelet()
        self.addCleanup(lambda: self.of.kill())
        self.by = Agent(nics("dev*", ipam=ledger.pool("10.50.0.0/24")),
                        slots(SLOTS, SLOT, "eth1", ipam=ledger.pool("10.60.0.0/24")))
        self.addCleanup(lambda: self.by.is_alive() and self.by.kill())
        self.manager = Manager(self.of, self.cgroup, SOCKET)
        self.addCleanup(self.manager.close)
        self.killer = Killer(self.daemon, self.by, SEED, KILLS)
        self.seen = dict.fromkeys(("vanished", "forgotten", "blocked", "at once"), 0)
        self.alive, self.leaving, self.number = [], [], 0
        self.assert_offered()
        self.before = snapshot()

    def plug_in_all(self):
        run("ip", "-n", "segment", "-batch", "-", stdin="link add lan type bridge\naddr add 10.50.0.1/24 dev lan\nlink set lan up\n")
        plug_in("eth1", INDEX - 1)
        run("ip", "-n", "segment", "addr", "add", "10.60.0.1/24", "dev", "eth1")
        for number in range(NICS):
            plug_in(f"dev{number}", INDEX + number, "master", "lan")

    def assert_offered(self):
        def offered():
            return (len(self.of.devices(NIC)), len(self.of.devices(SLOT))) == (NICS, SLOTS)
        self.assertTrue(wait_for(offered, 40, 0.2), self.by.log[-3000:])

    # What happens.

    def start(self, life):
        self.manager.admit(life, self.chance)
        self.manager.sync(life)

    def end(self, life):
        self.manager.end(life, early=self.number % 2 == 0)

    def wish(self):
        """What the next pod asks for. The scheduler has as many devices as there are."""
        wish, = self.chance.choices([one for one, _ in WISHES], [weight for _, weight in WISHES])
        taken = {one: sum(life.wants.get(one, 0) for life in self.alive) for one in (NIC, SLOT)}
        fits = all(taken[one] + wish.get(one, 0) <= most for one, most in ((NIC, NICS), (SLOT, SLOTS)))
        return wish if fits else {}

    def begin(self, count, leaving):
        """Futures of a step in which so many pods start and others end."""
        self.leaving, self.alive = leaving, [life for life in self.alive if life not in leaving]
        new = []
        for _ in range(count):
            new.append(Life(f"web-{self.number}", self.wish()))
            self.alive.append(new[-1])
            self.number += 1
        tasks = [(self.start, life, 6) for life in new] + [(self.end, life, 6) for life in leaving]
        self.chance.shuffle(tasks)
        return self.manager.start_all(tasks)

    def replug_vanished(self):
        """NICs that ended with a namespace, as hardware does not."""
        there = links("segment")
        for number in range(NICS):
            if f"dev{number}" not in there:
                self.seen["vanished"] += 1
                plug_in(f"dev{number}", INDEX + number, "master", "lan")
        self.assert_offered()

    def known(self):
        """{sandbox: the name of its namespace} that containerd knows."""
        cri = self.manager.cri
        return {one["id"]: os.path.basename(cri.netns(one["id"])) for one in cri.list_pods()}

    def operate(self, *arguments):
        done = cnitool(*arguments, NETCONFPATH="/run/operator", CNI_PATH="/opt/cni/bin")
        self.assertEqual(done.status, 0, str(done))
        return done.stdout

    def clean_up(self):
        """What the operator of a node does after containerd was killed, which forgets a sandbox whose ADD had not ended: DEL
        of containers that have a device and are not known, removal of namespaces that are not, and GC."""
        known = self.known()
        for holder in [ledger.entry(device)["holder"] for device in ledger.holders()]:
            if holder["containerID"] not in known:
                self.operate("del", "pods", holder["netns"], "--container-id", holder["containerID"])
        for name in sandboxes() - set(known.values()):
            self.seen["forgotten"] += 1
            if os.path.ismount(f"/run/netns/{name}"):  # containerd makes the file first
                self.assertLessEqual(set(links(name)), {"lo", "eth0"}, "no device is left in a forgotten namespace")
            Pod.existing(name).remove()
        keep = json.dumps([{"containerID": one, "ifname": "eth0"} for one in known])
        self.operate("gc", "pods", "--yes", "--keep-json", keep)

    def settle(self):
        """Without kills every pod starts, or ends, at last."""
        def insist(tries):
            tasks = [(self.start, life, tries) for life in self.alive] + [(self.end, life, tries) for life in self.leaving]
            return dict(zip([life for _, life, _ in tasks], [one.result() for one in self.manager.start_all(tasks)]))
        self.seen["blocked"] += sum(not done for done in insist(3).values())
        self.clean_up()
        self.replug_vanished()
        failed = {life.name: life.failures[-1] for life, done in insist(10).items() if not done}
        self.assertEqual(failed, {})
        self.leaving = []

    # What has to hold.

    def found(self):
        """{namespace, or None for the node: links}."""
        out = {None: links()}
        for name in sandboxes():
            try:
                out[name] = links(name)
            except RuntimeError:  # a file that containerd made and did not mount on, or removes now
                self.assertFalse(os.path.ismount(f"/run/netns/{name}"))
        return out

    def assert_whole(self, life, namespace, there):
        """A pod that runs has all of its devices, by the names that the ledger has."""
        inside = {name for name in there if name.startswith("net")}
        self.assertEqual(inside, {f"net{n + 1}" for n in range(len(life.ids))}, life.name)
        for resource, ids in life.devices.items():
            for device in ids:
                holder = ledger.entry(device)["holder"]
                self.assertEqual((holder["containerID"], os.path.basename(holder["netns"])), (life.sandbox, namespace))
                link = there[holder["interface"]]
                if resource == NIC:
                    self.assertEqual(link["address"], mac_of(INDEX + int(device.removeprefix("netdev:dev"))))
                self.assertEqual(kind_of(link), "veth" if resource == NIC else "macvlan")
                # Two interfaces in one subnet answer for each other: arp_filter in ip-sysctl.rst.
                by = ("-I", holder["interface"]) if len(ids) == 1 else ()
                run("ip", "netns", "exec", namespace, "ping", "-c1", "-W5", *by, PEERS[resource])

    def assert_no_half(self):
        """Of pods whose sandbox is ready, and of all devices."""
        ready = {one["uid"]: one["id"] for one in self.manager.cri.list_pods() if one["is_ready"]}
        spaces, found = self.known(), self.found()
        for life in self.alive:
            if sandbox := ready.get(f"{life.name}-uid"):
                life.sandbox = sandbox
                self.assert_whole(life, spaces[sandbox], found[spaces[sandbox]])
        macs = [link["address"] for there in found.values() for link in there.values() if kind_of(link) == "veth"]
        for number in range(NICS):
            self.assertLessEqual(macs.count(mac_of(INDEX + number)), 1, f"dev{number}")
        return found

    def assert_truth(self):
        """The ledger has what the kernel has, and nothing is left of pods that ended."""
        found = self.assert_no_half()
        holders = {device: life.sandbox for life in self.alive for device in life.ids}
        self.assertEqual(ledger.holders(), holders)
        self.assertEqual(len(ledger.marks()), len(set(holders.values())))
        home = {name for name in found[None] if name.startswith("dev")}
        self.assertEqual(home, {f"dev{n}" for n in range(NICS) if f"netdev:dev{n}" not in holders})
        macvlans = [name for there in found.values() for name, link in there.items() if kind_of(link) == "macvlan"]
        self.assertEqual(len(macvlans), sum(":macvlan:" in one for one in holders))
        self.assertEqual(len([name for name in found[None] if name.startswith("veth")]), len(self.alive))
        self.assertEqual(len(found) - 1, len(self.alive))
        self.assertEqual({network: len(found) for network, found in self.leases().items()}, {
            network: count for network, count in (
                ("pods", len(self.alive)), ("devices.vendor.example_nic", sum("netdev" in one for one in holders)),
                ("devices.vendor.example_macvlan", len(macvlans))) if count})
        self.assertEqual({name.split("-")[1] for name in os.listdir(RESULTS) if name.startswith("pods-")},
                         {life.sandbox for life in self.alive})

    leases = ledger.LedgerTest.leases

    def assert_end(self):
        """All is as before the first pod."""
        self.assertEqual((self.alive, ledger.holders(), ledger.marks(), self.leases()), ([], {}, [], {}))
        self.assert_left_by_design(self.before, "cni-c8d", *OF_TEST)
        self.assertEqual(self.operate("gc", "pods", "--dry-run"), "")
        if IS_WHOLE:  # patchbay-agent looks twice before a device is free
            self.assertTrue(wait_for(lambda: not ledger.devices(), 120, 1), self.by.log[-3000:])
        self.assertEqual(sandboxes(), set())
        print(f"     seed {SEED}, {self.number} pods; killed: {self.killer.killed}; seen: {self.seen}", flush=True)


class Churn(ChurnTest):
    def test_at_the_end_of_a_bad_day_the_ledger_has_what_the_kernel_has(self):
        while self.number < PODS:
            stay = AT_ONCE if PODS - self.number > AT_ONCE else 0
            leaving = self.chance.sample(self.alive, max(0, len(self.alive) - stay))
            with self.killer:
                for one in self.begin(min(AT_ONCE, PODS - self.number), leaving):
                    self.seen["at once"] += one.result()
            self.assert_no_half()
            self.settle()
            self.assert_truth()
        with self.killer:
            for one in self.begin(0, self.alive):
                one.result()
        self.assert_no_half()
        self.settle()
        self.assert_truth()
        self.assert_end()
        self.assertGreater(self.killer.killed["containerd"], 0)


class Reboot(ChurnTest):
    """The disk stays, with what containerd, the kubelet, the plugins and patchbay-agent have on it."""

    def power_off(self):
        """All processes but the test's own end at once, and with them /run and what the kernel had."""
        self.daemon.process.kill()
        self.by.process.kill()
        for fits in (devices_churn.is_plugin, devices_churn.is_shim, devices_churn.is_pause):
            for pid in devices_churn.processes(fits):
                devices_churn.kill(pid)
        self.daemon.process.wait()
        self.by.process.wait()

    def lose_run(self):
        """What is in /run, and the links."""
        for name in sandboxes():
            Pod.existing(name).remove()
        with open("/proc/self/mounts", encoding="utf-8") as file:
            mounts = [line.split()[1] for line in file]
        for path in reversed(mounts):
            if path.startswith(("/run/c8d/state/", "/run/containerd/")):
                umount(path)
        for path in ("/run/c8d/state", "/run/containerd", "/run/runc", "/run/cni"):
            shutil.rmtree(path, ignore_errors=True)
        for name in [*(name for name in links() if name.startswith(("dev", "veth"))), "eth1", "cni-c8d"]:
            run("ip", "link", "del", name, check=False)
        run("ip", "-n", "segment", "link", "del", "lan")
        self.assertTrue(wait_for(lambda: set(links("segment")) == {"lo"}, 20), "NICs are left in namespaces that ended")

    def boot(self):
        self.of.kill()
        self.lose_run()
        boot(0)
        self.plug_in_all()
        self.of.start()
        for life in self.alive:
            self.manager.own(life)
        self.by.start()
        self.daemon.restart()
        self.assertTrue(wait_for(self.cri.is_ready, 20, 0.1))
        self.assert_offered()

    def test_in_the_middle_of_a_bad_day_every_pod_has_its_devices_again_afterwards(self):
        count = min(AT_ONCE, PODS)
        with self.killer:
            for one in self.begin(count, []):
                one.result()
        self.settle()
        with self.killer:
            steps = self.begin(count, self.chance.sample(self.alive, count // 2))
            time.sleep(self.chance.uniform(1, 3))
        self.power_off()
        for one in steps:
            one.result()
        self.assertTrue(ledger.holders(), "the power failed while pods had devices")
        self.boot()
        self.settle()
        self.assert_truth()
        for one in self.begin(0, self.alive):
            one.result()
        self.settle()
        self.assert_end()


if __name__ == "__main__":
    suite.main(needs=(*NEEDED, "ping"))
