#!/usr/bin/env python3
"""What a pod's life does to its node: it works at once, and nothing is left when it is gone."""

import contextlib
import itertools
import json
import os
import re
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.plugin import OURS, PLUGINS, cni, finish, have, is_sanitized, start  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run, umount, wait_for  # noqa: E402

RANGES = [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]]


def config(backend=None, ranges=RANGES, version="1.0.0", **more):
    conf = {"cniVersion": version, "name": "net1", "type": "bridge", "isDefaultGateway": True,
            "ipMasq": True, "ipam": {"type": "host-local", "ranges": ranges}} | more
    return conf | ({"ipMasqBackend": backend} if backend else {})


def plain(**more):
    return config(**more) | {"ipMasq": False}


def moves_on(place):
    """What host-local writes with every ADD: where it was, and when the index was looked at."""
    return "last_reserved_ip" in place or place.endswith("/.owners/seen")


def one_link(name):
    return json.loads(run("ip", "-j", "-d", "link", "show", name))[0]


def kill_namespace(test, pod):
    pod.remove()


def leave_mount_point(test, pod):
    umount(pod.path)


def hold_namespace(test, pod):
    """The file is gone, but a process keeps the namespace and with it the veth."""
    with pod.inside():
        process = subprocess.Popen(["sleep", "1000"])
    test.addCleanup(process.wait)
    test.addCleanup(process.kill)
    pod.remove()


def remove_bridge(test, pod):
    run("ip", "link", "del", "cni0")


def remove_interface(test, pod):
    run("ip", "-n", pod.name, "link", "del", "eth0")


def nothing(test, pod):
    pass


# What happened between ADD and DEL, and what DEL is told differently.
SITUATIONS = [
    ("as usual", nothing, {}, {}),
    ("with the namespace gone", kill_namespace, {}, {}),
    ("with an empty mount point in its place", leave_mount_point, {}, {}),
    ("with the namespace held by a process", hold_namespace, {}, {}),
    ("with CNI_NETNS empty", hold_namespace, {"netns": ""}, {}),
    ("with the bridge gone", remove_bridge, {}, {}),
    ("with the interface gone", remove_interface, {}, {}),
    ("with a broken range", nothing, {},
     {"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.0.7/24"}]]}}),
    ("with no range", nothing, {}, {"ipam": {"type": "host-local"}}),
]


@suite.spread
class Del(suite.NodeTest):
    """DEL succeeds and leaves nothing, whatever came before it."""

    @suite.cases([(f"{name}, {backend}, {'with' if prev else 'without'} prevResult",
                   (act, options, change, backend, prev))
                  for (name, act, options, change), backend, prev in
                  itertools.product(SITUATIONS, ("nftables", "iptables"), (True, False))
                  if backend == "nftables" or prev or name.startswith("with")])
    def leaves_nothing(self, row):
        act, options, change, backend, prev = row
        if backend == "iptables" and have("iptables-restore"):
            self.skipTest("iptables is not installed")
        before = snapshot()
        pod = self.pod()
        result = self.assert_ok(cni("bridge", "ADD", config(backend), netns=pod.path))
        act(self, pod)
        conf = config(backend) | change | ({"prevResult": result} if prev else {})
        for _ in range(2):
            removed = cni("bridge", "DEL", conf, **({"netns": pod.path} | options))
            self.assertEqual((removed.status, removed.stdout), (0, ""), str(removed))
        with contextlib.suppress(FileNotFoundError):
            pod.remove()
        self.assert_same(before, ignore=left_by_design)

    @suite.cases([(f"{verb}, {backend}", (verb, backend)) for verb in ("DEL", "GC")
                  for backend in ("nftables", "iptables")])
    def removes_what_was_switched_off_by_now(self, row):
        verb, backend = row
        if backend == "iptables" and have("iptables-restore"):
            self.skipTest("iptables is not installed")
        before = snapshot()
        pod = self.pod()
        conf = config(backend, version="1.1.0", macspoofchk=True)
        self.assert_ok(cni("bridge", "ADD", conf, netns=pod.path))
        conf |= {"ipMasq": False, "macspoofchk": False}
        if verb == "GC":
            pod.remove()
            wait_for(lambda: not json.loads(run("ip", "-j", "link", "show", "type", "veth")))
            conf["cni.dev/valid-attachments"] = []
        for _ in range(2):
            self.assert_ok(cni("bridge", verb, conf, netns=pod.path))
        if verb == "DEL":
            pod.remove()
        self.assert_same(before, ignore=left_by_design)

    def test_reads_as_much_beside_many_pods_as_alone(self):
        """Not the rules and links of the others."""
        if have("strace"):
            self.skipTest("needs strace")
        pod, log = self.pod(), "/run/strace"
        received = []
        for others in (2, 60):
            for i in range(others):
                self.assert_ok(cni("bridge", "ADD", config(), netns=self.pod().path,
                                   container=f"c{others}-{i}"))
            result = self.assert_ok(cni("bridge", "ADD", config(), netns=pod.path))
            again = config() | {"prevResult": result}
            self.assert_ok(cni("bridge", "DEL", again, netns=pod.path, wrap=(
                "strace", "-f", "-qq", "-o", log, "-e", "trace=recvmsg,recvfrom,getdents64")))
            with open(log, encoding="utf-8") as file:
                received.append(sum(int(size) for size in re.findall(r" = (\d+)$", file.read(), re.M)))
        os.unlink(log)
        self.assertLess(received[1], received[0] + 500, received)

    def test_a_read_only_run_is_no_obstacle(self):
        before = run("ip", "-br", "link")
        for first in (False, True):  # is the directory there, and a pod of before in it?
            early, late = self.pod(), self.pod()
            conf = config("nftables", macspoofchk=True)
            options = {pod: {"netns": pod.path, "container": pod.name} for pod in (early, late)}
            if first:
                self.assert_ok(cni("bridge", "ADD", conf, **options[early]))
            run("mount", "-o", "remount,ro", "/run")
            try:
                result = self.assert_ok(cni("bridge", "ADD", conf, **options[late]))
                late.run("ping", "-c1", "-W1", "10.1.0.1")
                checked = cni("bridge", "CHECK", conf | {"prevResult": result}, **options[late])
                self.assert_ok(checked)
                rules = run("nft", "list", "ruleset")
                self.assertEqual(rules.count(f"id: {late.name}\""), 2, rules)
                for pod in options:
                    self.assert_ok(cni("bridge", "DEL", conf, **options[pod]))
                gc = conf | {"cniVersion": "1.1.0", "cni.dev/valid-attachments": []}
                self.assert_ok(cni("bridge", "GC", gc))
                self.assertNotRegex(run("nft", "list", "ruleset"), "goto masq_|macspoofchk")
            finally:
                run("mount", "-o", "remount,rw", "/run")
            run("ip", "link", "del", "cni0")
            self.assertEqual(run("ip", "-br", "link"), before)

    def test_without_ADD_it_changes_nothing(self):
        pod = self.pod()
        before = snapshot()
        for plugin in PLUGINS:
            conf = config() | {"type": plugin}
            self.assert_ok(cni(plugin, "DEL", conf, netns=pod.path))
            self.assert_ok(cni(plugin, "DEL", conf, netns="/run/netns/never"))
            self.assert_ok(cni(plugin, "DEL", conf))
        self.assert_same(before, ignore=lambda place: place.startswith("file/var/lib/cni/")
                         and (place.endswith("/") or place.endswith("/lock")))

    def test_leaves_the_other_pods_alone(self):
        one, two = self.pod(), self.pod()
        self.assert_ok(cni("bridge", "ADD", config(), netns=one.path, container="one"))
        middle = snapshot()
        self.assert_ok(cni("bridge", "ADD", config(), netns=two.path, container="two"))
        self.assert_ok(cni("bridge", "DEL", config(), netns=two.path, container="two"))
        two.remove()
        self.assert_same(middle, ignore=lambda place: moves_on(place)
                         or place == "file/run/netns/pod2")
        run("ip", "netns", "exec", one.name, "ping", "-c1", "-W1", "10.1.0.1")

    def test_of_one_interface_leaves_the_other_of_the_same_pod(self):
        pod = self.pod()
        self.assert_ok(cni("bridge", "ADD", config(), netns=pod.path, ifname="eth0"))
        middle = snapshot()
        second = config(isDefaultGateway=False, isGateway=True)
        self.assert_ok(cni("bridge", "ADD", second, netns=pod.path, ifname="net1"))
        self.assert_ok(cni("bridge", "DEL", second, netns=pod.path, ifname="net1"))
        self.assert_same(middle, ignore=moves_on)


class Crowd(suite.NodeTest):
    """64 pods come at once to an empty node, and go at once."""

    COUNT = 64

    def all_at_once(self, verb, conf, pods):
        calls = [start("bridge", verb, conf, netns=pod.path, container=pod.name) for pod in pods]
        for call in calls:  # each waits for its stdin: now they run at once
            call.stdin.write(call.config)
            call.stdin.close()
            call.stdin = None
        outcomes = [finish(call) for call in calls]
        for outcome in outcomes:
            self.assertEqual(outcome.status, 0, str(outcome))
        return outcomes

    def test_64_pods_at_once(self):
        conf = config()
        pods = [self.pod() for _ in range(self.COUNT)]
        before = snapshot()
        results = [outcome.json for outcome in self.all_at_once("ADD", conf, pods)]
        addresses = [ip["address"] for result in results for ip in result["ips"]]
        self.assertEqual(len(set(addresses)), 2 * self.COUNT, "every address once")
        mac = one_link("cni0")["address"]
        self.assertEqual({result["interfaces"][0]["mac"] for result in results}, {mac},
                         "one bridge, and its MAC never changed")
        rules = run("nft", "-a", "list", "ruleset")
        for text in ("hook postrouting", "vmap @pods4", "vmap @pods6", "chain masq_10.1.0.0/24",
                     "ip daddr != 10.1.0.0/24"):
            self.assertEqual(rules.count(text), 1, f"{text} once:\n{rules[:2000]}")
        self.assertEqual(rules.count(" : goto masq_"), 2 * self.COUNT, rules[:2000])
        links = json.loads(run("ip", "-j", "link", "show", "master", "cni0"))
        self.assertEqual(len(links), self.COUNT)
        gateways = json.loads(run("ip", "-j", "addr", "show", "cni0"))[0]["addr_info"]
        self.assertEqual(sorted(a["local"] for a in gateways if a["scope"] == "global"),
                         ["10.1.0.1", "fd00:1::1"])
        for pod in (pods[0], pods[-1]):
            pod.run("ping", "-c1", "-W1", "10.1.0.1")
            pod.run("ping", "-c1", "-W1", "fd00:1::1")
        self.all_at_once("DEL", conf, pods)
        self.assertEqual(one_link("cni0")["address"], mac)
        self.assert_same(before, ignore=left_by_design)

    def test_ADD_and_DEL_of_different_pods_at_once(self):
        conf = config()
        pods = [self.pod() for _ in range(32)]
        before = snapshot()
        self.all_at_once("ADD", conf, pods[:16])
        calls = [start("bridge", verb, conf, netns=pod.path, container=pod.name)
                 for pair in zip(pods[:16], pods[16:]) for verb, pod in zip(("DEL", "ADD"), pair)]
        for call in calls:
            call.stdin.write(call.config)
            call.stdin.close()
            call.stdin = None
        for call in calls:
            outcome = finish(call)
            self.assertEqual(outcome.status, 0, str(outcome))
        self.all_at_once("DEL", conf, pods[16:])
        self.assert_same(before, ignore=left_by_design)


class AtOnce(suite.NodeTest):
    """What ADD promises is true when it returns, not a second later."""

    def test_the_addresses_can_be_bound(self):
        pod = self.pod()
        result = self.assert_ok(cni("bridge", "ADD", plain(), netns=pod.path))
        with pod.inside():
            for ip in result["ips"]:
                address = ip["address"].split("/")[0]
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                with socket.socket(family, socket.SOCK_STREAM) as one:
                    one.bind((address, 0))

    def test_the_gateways_answer(self):
        pod = self.pod()
        self.assert_ok(cni("bridge", "ADD", plain(), netns=pod.path))
        for gateway in ("10.1.0.1", "fd00:1::1"):
            pod.run("ping", "-c1", "-w5", gateway)

    def test_the_node_reaches_the_pod(self):
        pod = self.pod()
        self.assert_ok(cni("bridge", "ADD", plain(), netns=pod.path))
        for address in ("10.1.0.2", "fd00:1::2"):
            run("ping", "-c1", "-w5", address)

    def test_the_pod_reaches_beyond_the_node(self):
        """Masquerading: a machine that knows no route to the pod answers it."""
        pod, beyond = self.pod(), self.pod("beyond")
        run("ip", "link", "add", "up0", "type", "veth", "peer", "eth0", "netns", "beyond")
        for where, name, last in ((None, "up0", 1), ("beyond", "eth0", 2)):
            at = ["ip", *(["-n", where] if where else [])]
            run(*at, "addr", "add", f"192.0.2.{last}/24", "dev", name)
            run(*at, "addr", "add", f"2001:db8::{last}/64", "dev", name, "nodad")
            run(*at, "link", "set", name, "up")
        # The other machine's kernel is ready some time after its link is up.
        self.assertTrue(wait_for(lambda: run("ping", "-c1", "-W1", "2001:db8::2", check=False)
                                 .count(" 0% packet loss")))
        for backend in ("nftables", "iptables"):
            conf = config(backend)
            self.assert_ok(cni("bridge", "ADD", conf, netns=pod.path))
            for address in ("192.0.2.2", "2001:db8::2"):
                pod.run("ping", "-c1", "-W1", address)
            self.assert_ok(cni("bridge", "DEL", conf, netns=pod.path))
        self.assertEqual(beyond.run("ip", "route", "show", "10.1.0.0/24"), "")

    def test_the_first_packet_from_beyond_reaches_the_first_pod(self):
        """IPv6: a new bridge can ask for the pod's MAC address from its first moment."""
        pod, beyond = self.pod(), self.pod("beyond")
        run("ip", "link", "add", "up0", "type", "veth", "peer", "eth0", "netns", "beyond")
        for where, name, last in ((None, "up0", 1), ("beyond", "eth0", 2)):
            at = ["ip", *(["-n", where] if where else [])]
            run(*at, "addr", "add", f"2001:db8::{last}/64", "dev", name, "nodad")
            run(*at, "link", "set", name, "up")
        run("ip", "-n", "beyond", "route", "add", "default", "via", "2001:db8::1")
        wait_for(lambda: beyond.run("ping", "-c1", "-W1", "2001:db8::1", check=False).count(" 0%"))
        self.assert_ok(cni("bridge", "ADD", plain(), netns=pod.path))
        said = beyond.run("ping", "-c1", "-W1", "fd00:1::2", check=False)
        self.assertIn("1 received", said)

    def test_a_reused_address_answers_within_100_ms(self):
        sibling, old, new = self.pod(), self.pod(), self.pod()
        conf = plain()
        conf["runtimeConfig"] = {"ips": ["10.1.0.9", "fd00:1::9"]}
        self.assert_ok(cni("bridge", "ADD", plain(), netns=sibling.path, container="sibling"))
        self.assert_ok(cni("bridge", "ADD", conf, netns=old.path, container="old"))
        for address in ("10.1.0.9", "fd00:1::9"):
            for ask in (run, sibling.run):
                ask("ping", "-c2", "-i0.1", "-W2", address)
        for ask in (run, sibling.run):
            states = {n["dst"]: n["state"][0] for n in json.loads(ask("ip", "-j", "neigh"))}
            self.assertEqual(states.get("10.1.0.9"), "REACHABLE", str(states))
            self.assertIn(states.get("fd00:1::9"), ("REACHABLE", "DELAY"), str(states))
        self.assert_ok(cni("bridge", "DEL", conf, netns=old.path, container="old"))
        self.assert_ok(cni("bridge", "ADD", conf, netns=new.path, container="new"))
        for address in ("10.1.0.9", "fd00:1::9"):
            for who, ask in (("node", run), ("sibling", sibling.run)):
                said = ask("ping", "-c1", "-W1", address, check=False)
                took = re.search(r"time=([\d.]+) ms", said)
                self.assertTrue(took and float(took[1]) < 100, f"{who} asks {address}: {said}")

    def test_a_pod_cannot_announce_itself_as_router(self):
        pod = self.pod()
        self.assert_ok(cni("bridge", "ADD", plain(), netns=pod.path))
        veth, = (link["ifname"] for link in json.loads(run("ip", "-j", "link", "show", "master",
                                                           "cni0")))
        for name in ("cni0", veth):
            with open(f"/proc/sys/net/ipv6/conf/{name}/accept_ra", encoding="ascii") as file:
                self.assertEqual(file.read().strip(), "0", name)

        def learned():
            state = snapshot(roots=())
            return [place for place in state if "2001:db8:bad" in place
                    or place.startswith("route-6/unicast default")]

        for _ in range(3):
            self.send_router_advertisement(pod)
        self.assertFalse(wait_for(learned, 0.3), "the node believed a pod")
        # The same packet is believed by a node that asks for it: it is a good one.
        with open("/proc/sys/net/ipv6/conf/cni0/accept_ra", "w", encoding="ascii") as file:
            file.write("2")
        self.send_router_advertisement(pod)
        self.assertTrue(wait_for(learned, 2), "the test's packet is no router advertisement")

    @staticmethod
    def send_router_advertisement(pod):
        prefix = socket.inet_pton(socket.AF_INET6, "2001:db8:bad::")
        packet = (struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0) +
                  struct.pack("!BBBBIII", 3, 4, 64, 0xC0, 86400, 86400, 0) + prefix)
        with pod.inside():
            with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as out:
                out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
                index = socket.if_nametoindex("eth0")
                out.sendto(packet, ("ff02::1", 0, 0, index))


class Stable(suite.NodeTest):
    """What stays as it is."""

    def test_the_MAC_of_the_bridge(self):
        conf = {"cniVersion": "1.0.0", "name": "net1", "type": "bridge"}  # without a gateway
        pods = [self.pod() for _ in range(6)]
        macs = set()
        for pod in pods:
            self.assert_ok(cni("bridge", "ADD", conf, netns=pod.path, container=pod.name))
            macs.add(one_link("cni0")["address"])
        for pod in pods:
            self.assert_ok(cni("bridge", "DEL", conf, netns=pod.path, container=pod.name))
            macs.add(one_link("cni0")["address"])
        self.assertEqual(len(macs), 1, str(macs))

    def test_a_failed_ADD_leaves_nothing_and_can_be_repeated(self):
        pod = self.pod()
        before = snapshot()
        broken = config(ipam={"type": "host-local", "ranges": RANGES,
                              "routes": [{"dst": "10.9.0.0/16", "gw": "10.8.8.8"}]})
        self.assert_error(cni("bridge", "ADD", broken, netns=pod.path))
        self.assert_same(before, ignore=left_by_design)
        self.assertEqual(pod.run("ip", "-br", "link", "show", "type", "veth"), "")
        self.assert_ok(cni("bridge", "ADD", config(), netns=pod.path))

    def test_an_ADD_of_what_is_there_is_refused_and_leaves_it_as_it_is(self):
        pod = self.pod()
        self.assert_ok(cni("bridge", "ADD", config(), netns=pod.path))
        before = snapshot()
        self.assert_error(cni("bridge", "ADD", config(), netns=pod.path))
        self.assert_same(before, ignore=moves_on)
        pod.run("ping", "-c1", "-W1", "10.1.0.1")


class Executed(suite.NodeTest):
    """Which programs run, and which doors of the kernel are opened."""

    def traced(self, verb, conf, pod, calls):
        """Runs a verb; returns its result and the calls that strace saw."""
        if have("strace"):
            self.skipTest("needs the program strace")
        log = "/run/strace"
        result = self.assert_ok(cni("bridge", verb, conf, netns=pod.path,
                                    wrap=("strace", "-f", "-qq", "-o", log,
                                          "-e", f"trace={calls}")))
        with open(log, encoding="utf-8") as file:
            return result, file.read()

    def test_bridge_runs_nothing(self):
        """Not even the IPAM plugin, which is the same file; see suite_test.py for another file."""
        pod = self.pod()
        conf = config()
        for verb in ("ADD", "CHECK", "DEL"):
            result, text = self.traced(verb, conf, pod, "execve")
            ran = [os.path.basename(path) for path in
                   re.findall(r'execve\("([^"]+)".*= 0$', text, re.MULTILINE)]
            self.assertEqual(ran, ["bridge"], f"{verb}: {text}")
            conf |= {"prevResult": result} if verb == "ADD" else {}

    def test_without_ipMasq_the_firewall_is_not_touched(self):
        pod = self.pod()
        before = run("nft", "list", "ruleset")
        _, text = self.traced("ADD", plain(), pod, "socket")
        self.assertIn("NETLINK_ROUTE", text)
        self.assertNotIn("NETLINK_NETFILTER", text)
        self.assert_ok(cni("bridge", "DEL", plain(), netns=pod.path))  # it asks, and finds none
        self.assertEqual(run("nft", "list", "ruleset"), before)

    def test_the_plugins_need_no_library(self):
        for plugin in PLUGINS:
            if is_sanitized(plugin):
                self.skipTest("built with sanitizers, which need shared libraries")
            done = subprocess.run(["ldd", os.path.join(OURS, plugin)], capture_output=True, text=True)
            self.assertRegex(done.stdout + done.stderr,
                             "statically linked|not a dynamic executable", plugin)


if __name__ == "__main__":
    suite.main(needs=("ping",))
