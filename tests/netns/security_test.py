#!/usr/bin/env python3
"""What an attacker tries: plugins with a path, names that are paths, links planted where state is
kept, a lying prevResult, a pod that plays the router or another pod, and what opens while another
firewall reloads. docs/security.md says what each of these was, and where."""

import base64
import ctypes
import errno
import json
import os
import random
import socket
import stat
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import cnitool as tool  # noqa: E402
from support import hostport, suite  # noqa: E402
from support.configs import config  # noqa: E402
from support.forked import Forked  # noqa: E402
from support.hostport import NODE, Site, ask_one, mapping  # noqa: E402
from support.plugin import OURS, PLUGINS, cni, have, is_sanitized  # noqa: E402
from support.snapshot import left_by_design, pod_snapshot, snapshot  # noqa: E402
from support.world import CLONE_NEWNET, run, setns, wait_for  # noqa: E402

RANGES = [[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1:2::/64"}]]
IPAM = {"type": "host-local", "ranges": RANGES}
LIMITS = {"ingressRate": 8_000_000, "ingressBurst": 80_000, "egressRate": 8_000_000,
          "egressBurst": 80_000}
#: Without a path in it where it is to be: beside CNI_PATH, above it, anywhere.
TYPES = ["../evil/run", "../../run/evil/run", "/run/evil/run", "./../evil/run", "bin/../../evil/run",
         "..", ".", "", "run\0", "\0../evil/run", "host-local/../../evil/run"]
NAMES = ["../x", "..", ".", "/etc/x", "a/b", "a/../../x", ".hidden", "-rf", "_x", "a\nb", "a b",
         "a:b", "a\\b", "a%2fb", "\u00e4", "$(touch x)", "a;b", "x" * 300 + "/", "*", "~"]


def conf(plugin, **more):
    return {"cniVersion": "1.1.0", "name": "net1", "type": plugin} | more


BRIDGE = conf("bridge", isDefaultGateway=True, ipMasq=True, ipam=IPAM)


@suite.spread
class Types(suite.NodeTest):
    """CVE-2021-20206: `type` is a file name; a path in it ran whatever it pointed to."""

    def setUp(self):
        super().setUp()
        os.makedirs("/run/evil")
        os.makedirs("/run/bin/bin")
        for name in os.listdir(OURS):
            os.symlink(os.path.join(OURS, name), f"/run/bin/{name}")
        with open("/run/evil/run", "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho $CNI_COMMAND >>/run/owned\n"
                       "echo '{\"cniVersion\": \"1.0.0\", \"supportedVersions\": [\"1.0.0\"]}'\n")
        os.chmod("/run/evil/run", 0o755)
        self.box = self.pod()

    def assert_nothing_ran(self):
        self.assertFalse(os.path.exists("/run/owned"), "the attacker's program ran")

    @suite.cases([(repr(bad), bad) for bad in TYPES])
    def the_runtime_does_not_run(self, bad):
        chain = {"cniVersion": "1.1.0", "name": "net1", "plugins": [{"type": "loopback"}, {"type": bad}]}
        tool.use(chain)
        # As an attachment of before, which is taken down by what is remembered of it.
        os.makedirs(tool.RESULTS, exist_ok=True)
        container = tool.container_of(self.box.path)
        with open(tool.cache_file("net1", container), "w", encoding="utf-8") as file:
            json.dump({"kind": "cniCacheV1", "containerId": container, "ifName": "eth0",
                       "networkName": "net1", "netns": self.box.path,
                       "config": base64.b64encode(json.dumps(chain).encode()).decode(),
                       "result": {"cniVersion": "1.1.0"}}, file)
        for words in (["add", "net1", self.box.path], ["check", "net1", self.box.path],
                      ["del", "net1", self.box.path], ["gc", "net1", self.box.path, "--yes"],
                      ["status", "net1"], ["repair"], ["validate"], ["doctor"]):
            done = tool.cnitool(*words, CNI_PATH="/run/bin")
            self.assertLessEqual(done.status, 2, f"{words}: {done}")
            self.assert_nothing_ran()

    @suite.cases([(repr(bad), bad) for bad in TYPES if bad])
    def a_plugin_does_not_run_as_IPAM(self, bad):
        before = snapshot()
        for verb in ("ADD", "CHECK", "DEL", "GC", "STATUS"):
            more = {"cni.dev/valid-attachments": []} if verb == "GC" else {}
            outcome = cni("bridge", verb, conf("bridge", ipam={"type": bad}, **more),
                          netns=self.box.path, path="/run/bin", documented=False)
            if verb in ("DEL", "GC"):  # no ADD can have called it, so there is nothing to release
                self.assert_ok(outcome)
                self.assertIn("ADD has called", outcome.stderr)
            else:
                self.assert_error(outcome)
            self.assert_nothing_ran()
        self.assert_same(before)


class Routers(suite.NodeTest):
    """CVE-2020-10749: a pod that says it is a router."""

    def test_neither_the_node_nor_another_pod_believes_it(self):
        evil, good = self.pod("evil"), self.pod("good")
        for pod in (evil, good):
            self.assert_ok(cni("bridge", "ADD", BRIDGE, netns=pod.path, container=pod.name))
        node, sibling = self.learned(), good.run("ip", "-6", "route")
        for _ in range(5):
            self.send(evil)
            time.sleep(0.1)
        self.assertEqual(self.learned(), node, "the node believes it")
        self.assertEqual(good.run("ip", "-6", "route"), sibling, "the other pod believes it")
        self.assertNotIn("2001:db8:bad", good.run("ip", "-6", "addr"))
        # It is a good one: who wants to believes it.
        good.run("sysctl", "-qw", "net.ipv6.conf.eth0.accept_ra=2")
        self.send(evil)
        self.assertTrue(wait_for(lambda: "2001:db8:bad" in good.run("ip", "-6", "addr"), 3))

    def test_where_another_router_may_be_meant_the_pod_listens(self):
        """On a bridge that is but a switch, the router is one beside the node."""
        pod = self.pod()
        self.assert_ok(cni("bridge", "ADD", conf("bridge", ipam=IPAM), netns=pod.path))
        self.assertEqual(pod.run("sysctl", "-n", "net.ipv6.conf.eth0.accept_ra"), "1\n")

    @staticmethod
    def learned():
        return run("ip", "-6", "route"), "2001:db8:bad" in run("ip", "-6", "addr")

    @staticmethod
    def send(pod):
        prefix = socket.inet_pton(socket.AF_INET6, "2001:db8:bad::")
        packet = (struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0)
                  + struct.pack("!BBBBIII", 3, 4, 64, 0xC0, 86400, 86400, 0) + prefix)
        with pod.inside():
            with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as out:
                out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
                out.sendto(packet, ("ff02::1", 0, 0, socket.if_nametoindex("eth0")))


def everywhere():
    """What is in all directories that a plugin writes to, and above them."""
    return snapshot(roots=("/run", "/var/lib", "/etc/cni"))


@suite.spread
class Names(suite.NodeTest):
    """Names become parts of file names, of rules and of comments."""

    def refuse(self, plugin, code, calls):
        """Every call, (the name, options of cni()), is refused by each verb, and leaves nothing."""
        pod = self.pod("pod1")
        before, wrong = (everywhere(), pod_snapshot(pod)), []
        for name, more, options in calls:
            for verb in ("ADD", "CHECK", "DEL"):
                outcome = cni(plugin, verb, config(plugin, "1.1.0") | more,
                              netns=pod.path, documented=False, **options)
                if outcome.status != 1 or outcome.json["code"] != code:
                    wrong.append((verb, name, str(outcome)))
        self.assertEqual(wrong[:3], [])
        self.assert_same(before[0], everywhere())
        self.assert_same(before[1], pod_snapshot(pod))

    @suite.cases([(plugin, plugin) for plugin in PLUGINS])
    def containers_cannot_be_called_by_a_path_for(self, plugin):
        self.refuse(plugin, 4, [(name, {}, {"container": name}) for name in NAMES])

    @suite.cases([(plugin, plugin) for plugin in PLUGINS])
    def networks_cannot_be_called_by_a_path_for(self, plugin):
        self.refuse(plugin, 7, [(name, {"name": name}, {}) for name in [*NAMES, "a\0b", "\0"]])

    @suite.cases([(plugin, plugin) for plugin in PLUGINS])
    def interfaces_cannot_be_called_by_a_path_for(self, plugin):
        self.refuse(plugin, 4, [(name, {}, {"ifname": name}) for name in (
            "../x", "..", ".", "a/b", "/etc/x", "a b", "a:b", "a\nb", "x" * 16)])

    def test_no_name_leads_out_of_the_directories_of_state(self):
        """Some hundred names from the characters that matter; those that are allowed too."""
        some = random.Random(20206)
        pod = self.pod("pod1")
        before = everywhere()
        places = ("file/var/lib/cni/networks/", "file/run/cni/portmap/", "file/run/xtables.lock",
                  "file/run/cni/")
        for _ in range(150):
            names = ["".join(some.choice("./-_a0:~% \n\\*") for _ in range(some.choice([1, 2, 5, 15, 200])))
                     for _ in range(3)]
            for plugin in ("host-local", "portmap"):
                cni(plugin, "ADD", config(plugin, "1.1.0") | {"name": names[0]},
                    netns=pod.path, container=names[1], ifname=names[2])
        new = [place for place in everywhere() if place not in before and place.startswith("file")]
        self.assertTrue(all(place.startswith(places) for place in new), str(new))
        self.assertFalse([place for place in new if "/../" in place])

    def test_cnitool_keeps_no_file_for_them(self):
        tool.use({"cniVersion": "1.1.0", "name": "net1", "plugins": [{"type": "loopback"}]})
        pod = self.pod("pod1")
        before = everywhere()
        for name in NAMES:
            for verb in ("add", "del"):
                done = tool.cnitool(verb, f"--container-id={name}", "net1", pod.path)
                self.assertNotEqual(done.status, 0, f"{verb} {name!r}: {done}")
        self.assert_same(before, everywhere(), ignore=lambda place: place.startswith(
            ("file/var/lib/cni/results/", "file/var/lib/cni/lock")) and place.count("/") < 6)
        self.assertEqual(tool.cache_names(), [])


OUTSIDE = "/run/outside"


@suite.spread
class Planted(suite.NodeTest):
    """Links, FIFOs and other files where state is kept. The directories themselves may be links, as
    an operator wishes; what is in them may not lead out."""

    def setUp(self):
        super().setUp()
        os.makedirs(f"{OUTSIDE}/folder")
        for name in ("victim", "folder/10.1.2.9"):
            with open(f"{OUTSIDE}/{name}", "w", encoding="ascii") as file:
                file.write("pod1\r\neth0" if "10.1" in name else "precious")
            os.chmod(f"{OUTSIDE}/{name}", 0o600)
        self.box = self.pod()
        self.outside = self.look()

    @staticmethod
    def look():
        """All of the outside: names, kinds, contents, times of the last change."""
        found = {}
        for folder, folders, names in os.walk(OUTSIDE):
            for name in [*folders, *names]:
                path = os.path.join(folder, name)
                about = os.lstat(path)
                content = open(path, "rb").read() if stat.S_ISREG(about.st_mode) else b""
                found[path] = (about.st_mode, about.st_ino, about.st_mtime_ns, content)
        return found

    def plant(self, place, target, owner=0):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if os.path.isdir(place) and not os.path.islink(place):
            run("rm", "-r", place)
        elif os.path.lexists(place):
            os.remove(place)
        os.symlink(target, place)
        os.lchown(place, owner, owner)

    BOOT = open("/proc/sys/kernel/random/boot_id", encoding="ascii").read().strip()
    NETWORK = "/var/lib/cni/networks/net1"
    LEASES = [("the network's directory", NETWORK, f"{OUTSIDE}/folder"),
              ("the lock", f"{NETWORK}/lock", f"{OUTSIDE}/victim"),
              ("the lock, to nothing yet", f"{NETWORK}/lock", f"{OUTSIDE}/new"),
              ("an address", f"{NETWORK}/10.1.2.2", f"{OUTSIDE}/victim"),
              ("an address, to nothing yet", f"{NETWORK}/10.1.2.2", f"{OUTSIDE}/new"),
              ("an address, to one's own record", f"{NETWORK}/10.1.2.3", f"{OUTSIDE}/folder/10.1.2.9"),
              ("the last address", f"{NETWORK}/last_reserved_ip.0", f"{OUTSIDE}/victim"),
              ("a half-written file", f"{NETWORK}/.new", f"{OUTSIDE}/victim"),
              ("a half-written last address", f"{NETWORK}/.last", f"{OUTSIDE}/new"),
              ("the owners", f"{NETWORK}/.owners", f"{OUTSIDE}/folder"),
              ("the owners of this boot", f"{NETWORK}/.owners/{BOOT}", f"{OUTSIDE}/folder")]

    @suite.cases([(f"{name}, {moment}", (place, target, moment)) for name, place, target in LEASES
                  for moment in ("before all", "after ADD")])
    def leases_are_not_led_out_by_a_link_for(self, row):
        place, target, moment = row
        lease = conf("host-local", ipam=IPAM)
        if moment == "after ADD":
            self.assert_ok(cni("host-local", "ADD", lease, netns=self.box.path))
        # The network's directory may be a link as an operator makes it: root's.
        self.plant(place, target, 65534 if place == self.NETWORK else 0)
        for verb, more in (("ADD", {}), ("CHECK", {}), ("STATUS", {}), ("DEL", {}), ("DEL", {}),
                           ("GC", {"cni.dev/valid-attachments": []})):
            cni("host-local", verb, lease | more, netns=self.box.path)
            self.assertEqual(self.look(), self.outside, verb)

    STATE_FILES = "/run/cni/portmap"

    @suite.cases([(name, (place, target)) for name, place, target in (
        ("the lock", f"{STATE_FILES}/lock", f"{OUTSIDE}/victim"),
        ("the lock, to nothing yet", f"{STATE_FILES}/lock", f"{OUTSIDE}/new"),
        ("the record", f"{STATE_FILES}/RECORD", f"{OUTSIDE}/victim"),
        ("the record, to nothing yet", f"{STATE_FILES}/RECORD", f"{OUTSIDE}/new"),
        ("a half-written record", f"{STATE_FILES}/.new", f"{OUTSIDE}/victim"),
        ("the claims", f"{STATE_FILES}/claims", f"{OUTSIDE}/folder"))])
    def records_of_ports_are_not_led_out_by_a_link_for(self, row):
        place, target = row
        add = conf("portmap", backend="nftables", prevResult=hostport.result(self.box),
                   runtimeConfig={"portMappings": [mapping(8080, 80)]})
        outcome = cni("portmap", "ADD", add, netns=self.box.path)
        self.assert_ok(outcome)
        record = next(name for name in os.listdir(self.STATE_FILES) if len(name) == 16)
        self.plant(place.replace("RECORD", record), target)
        for verb, more in (("ADD", {}), ("CHECK", {}), ("DEL", {}), ("ADD", {}),
                           ("GC", {"cni.dev/valid-attachments": []})):
            cni("portmap", verb, add | more, netns=self.box.path)
            self.assertEqual(self.look(), self.outside, verb)

    @suite.cases([(name, (place, target)) for name, place, target in (
        ("the lock", "/var/lib/cni/lock", f"{OUTSIDE}/victim"),
        ("the lock, to nothing yet", "/var/lib/cni/lock", f"{OUTSIDE}/new"),
        ("a result", "RESULT", f"{OUTSIDE}/victim"),
        ("a result, to nothing yet", "RESULT", f"{OUTSIDE}/new"),
        ("a half-written result", "ASIDE", f"{OUTSIDE}/victim"))])
    def the_cache_is_not_led_out_by_a_link_for(self, row):
        place, target = row
        tool.use({"cniVersion": "1.1.0", "name": "net1", "plugins": [{"type": "loopback"}]})
        result = tool.cache_file("net1", tool.container_of(self.box.path))
        folder, name = os.path.split(result)
        self.plant({"RESULT": result, "ASIDE": f"{folder}/.{name}.new"}.get(place, place), target)
        for words in (["add", "net1", self.box.path], ["list"], ["check", "net1", self.box.path],
                      ["show", "net1", self.box.path], ["del", "net1", self.box.path],
                      ["gc", "net1", self.box.path, "--yes"]):
            tool.cnitool(*words)
            self.assertEqual(self.look(), self.outside, words)

    def test_the_log_is_not_written_through_a_link(self):
        os.symlink(f"{OUTSIDE}/victim", "/run/log")
        self.assert_ok(cni("loopback", "ADD", conf("loopback"), netns=self.box.path,
                           env={"PATCHBAY_LOG": "/run/log"}))
        self.assertEqual(self.look(), self.outside)

    def test_a_networks_directory_may_be_a_link_of_roots(self):
        """To another disk, as the reference plugin follows it; what is below it still may not."""
        lease = conf("host-local", ipam=IPAM)
        os.makedirs("/run/disk")
        self.plant(self.NETWORK, "/run/disk")
        self.plant("/run/disk/10.1.2.2", f"{OUTSIDE}/victim")
        result = self.assert_ok(cni("host-local", "ADD", lease, netns=self.box.path))
        self.assertEqual(result["ips"][0]["address"], "10.1.2.3/24")
        self.assertIn("10.1.2.3", os.listdir("/run/disk"))
        self.assert_ok(cni("host-local", "CHECK", lease | {"prevResult": result}, netns=self.box.path))
        self.assert_ok(cni("host-local", "DEL", lease, netns=self.box.path))
        self.assertNotIn("10.1.2.3", os.listdir("/run/disk"))
        self.assertEqual(self.look(), self.outside)
        # Somebody else's is refused, with its name.
        self.plant(self.NETWORK, "/run/disk", 65534)
        for verb in ("ADD", "DEL"):
            self.assert_error(cni("host-local", verb, lease, netns=self.box.path), None, self.NETWORK)

    def test_a_file_system_without_links_has_leases_too(self):
        """As vfat: symlink(2) fails with EPERM, which strace makes it do here."""
        if have("strace") or is_sanitized():
            self.skipTest("needs strace and plugins without sanitizer")
        lease = conf("host-local", ipam=IPAM)
        wrap = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=symlinkat:error=EPERM")
        for name in ("pod1", "pod2"):
            outcome = cni("host-local", "ADD", lease, netns=self.box.path, container=name, wrap=wrap)
            self.assertEqual((self.assert_ok(outcome)["cniVersion"], outcome.stderr), ("1.1.0", ""))
        again = cni("host-local", "ADD", lease, netns=self.box.path, container="pod1", wrap=wrap)
        self.assert_error(again, None, "duplicate allocation is not allowed")
        for verb, more in (("CHECK", {}), ("DEL", {}), ("DEL", {}), ("GC", {
                "cni.dev/valid-attachments": [{"containerID": "pod2", "ifname": "eth0"}]})):
            done = cni("host-local", verb, lease | more, netns=self.box.path, container="pod1", wrap=wrap)
            self.assert_ok(done)
            self.assertEqual(done.stderr, "", verb)
        self.assertEqual(sorted(n for n in os.listdir(self.NETWORK) if n[0] == "1"), ["10.1.2.3"])

    @suite.cases([(name, (place, more)) for name, place, more in (
        ("the lock", f"{NETWORK}/lock", {}), ("a half-written lease", f"{NETWORK}/.new", {}),
        ("a half-written last address", f"{NETWORK}/.last", {}),
        ("resolvConf", "/run/fifo", {"resolvConf": "/run/fifo"}))])
    def host_local_is_not_held_up_by_a_FIFO_for(self, row):
        place, more = row
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.mkfifo(place)
        lease = conf("host-local", ipam=IPAM | more)
        for verb in ("ADD", "CHECK", "DEL"):
            done = cni("host-local", verb, lease, timeout=5, netns=self.box.path)
            self.assertIn(done.status, (0, 1), f"{verb}: {done}")
            if done.status == 1:
                self.assert_error(done, None, place if verb == "ADD" else None)
        if more:
            self.assert_error(cni("host-local", "ADD", lease, netns=self.box.path), None,
                              "'/run/fifo', which is not a regular file")

    @suite.cases([(f"{name} that is {kind}", (place, kind)) for name, place in (
        ("an address", f"{NETWORK}/10.1.2.2"), ("the last address", f"{NETWORK}/last_reserved_ip.0"),
        ("a result", "RESULT"), ("a network", "/run/net.d/10-test.conflist"))
        for kind in ("a FIFO", "a device", "a directory", "a gigabyte")])
    def nobody_is_held_up_by(self, row):
        place, kind = row
        tool.use({"cniVersion": "1.1.0", "name": "net1", "plugins": [
            {"type": "bridge", "ipam": IPAM}]})
        place = place.replace("RESULT", tool.cache_file("net1", tool.container_of(self.box.path)))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if os.path.exists(place):
            os.remove(place)
        {"a FIFO": lambda: os.mkfifo(place),
         "a device": lambda: os.mknod(place, stat.S_IFCHR | 0o600, os.makedev(1, 5)),  # zero
         "a directory": lambda: os.mkdir(place),
         "a gigabyte": lambda: open(place, "wb").truncate(1 << 30)}[kind]()
        # A sanitizer's shadow has 16 TB of addresses.
        wrap = () if is_sanitized() else ("prlimit", "--as=600000000")
        begin = time.monotonic()
        for words in (["add", "net1", self.box.path], ["list"], ["del", "net1", self.box.path]):
            done = tool.finish(tool.start(*words, wrap=wrap), 30)
            self.assertIn(done.status, (0, 1), f"{words}: {done}")
        self.assertLess(time.monotonic() - begin, 30)

    def test_directories_of_state_may_be_links(self):
        """An operator who moves /var/lib/cni to another disk, or /run/cni."""
        for place, target in (("/var/lib/cni", "/run/disk/cni"), ("/run/cni", "/run/disk/ports")):
            os.makedirs(target)
            if os.path.isdir(place):
                os.rmdir(place)
            os.symlink(target, place)
        os.mkdir("/run/disk/results")
        os.symlink("../results", "/var/lib/cni/results")
        tool.use({"cniVersion": "1.1.0", "name": "net1", "plugins": [
            BRIDGE, {"type": "portmap", "backend": "nftables",
                     "capabilities": {"portMappings": True}}]})
        ports = {"CAP_ARGS": {"portMappings": [mapping(8080, 80)]}}
        for words, there in ((["add", "net1", self.box.path], True),
                             (["check", "net1", self.box.path], True),
                             (["del", "net1", self.box.path], False)):
            self.assertEqual((done := tool.cnitool(*words, **ports)).status, 0, str(done))
            self.assertEqual(os.path.exists("/run/disk/cni/networks/net1/10.1.2.2"), there)
            self.assertEqual(any(len(name) == 16 for name in os.listdir("/run/disk/ports/portmap")),
                             there)

    def test_state_files_are_readable_by_root_alone(self):
        """Files that others on the node have no business with. What stays readable as the
        reference's is, directories and lock, holds no more than names."""
        tool.use({"cniVersion": "1.1.0", "name": "net1", "plugins": [
            BRIDGE, {"type": "portmap", "backend": "nftables",
                     "capabilities": {"portMappings": True}}]})
        done = tool.cnitool("add", "net1", self.box.path, PATCHBAY_LOG="/run/log",
                            CAP_ARGS={"portMappings": [mapping(8080, 80)]})
        self.assertEqual(done.status, 0, str(done))
        seen = []
        for root in ("/var/lib/cni", "/run/cni", "/run/log"):
            for folder, _, names in os.walk(root) if os.path.isdir(root) else [("/run", [], ["log"])]:
                for name in names:
                    about = os.lstat(os.path.join(folder, name))
                    if stat.S_ISREG(about.st_mode) and name != "lock":
                        seen.append(name)
                        self.assertEqual(stat.S_IMODE(about.st_mode), 0o600, f"{folder}/{name}")
                    if stat.S_ISREG(about.st_mode):
                        self.assertEqual(about.st_mode & 0o022, 0, f"{folder}/{name}")
        self.assertGreaterEqual(len(seen), 5, seen)


class Lies(suite.NodeTest):
    """DEL of one pod with what belongs to another in its prevResult, as a runtime's cache that was
    tampered with would have it."""

    def test_another_pods_prevResult_takes_nothing_from_it(self):
        limits = conf("bandwidth", **LIMITS)
        ports = conf("portmap", backend="nftables")
        good, evil = self.pod("good"), self.pod("evil")
        results = {}
        for number, pod in enumerate((good, evil)):
            call = {"netns": pod.path, "container": pod.name}
            own = ports | {"runtimeConfig": {"portMappings": [mapping(8080 + number, 80)]}}
            results[pod.name] = self.assert_ok(cni("bridge", "ADD", BRIDGE, **call))
            for one in (own, limits):
                self.assert_ok(cni(one["type"], "ADD",
                                   one | {"prevResult": results[pod.name]}, **call))
        before = {place: what for place, what in snapshot().items()
                  if "id: evil" not in place and ("10.1.2.2" in place or "8080" in place)
                  or "good" in place
                  or results["good"]["interfaces"][1]["name"] in place}
        self.assertGreater(len(before), 5)
        lie = {"prevResult": results["good"],
               "runtimeConfig": {"portMappings": [mapping(8080, 80)]}}
        for netns in ("/run/netns/none", evil.path, ""):
            for one in (limits, ports, BRIDGE):
                cni(one["type"], "DEL", one | lie, netns=netns, container="evil")
        after = snapshot()
        self.assert_same(before, {place: after.get(place) for place in before})
        self.assert_ok(cni("bridge", "CHECK", BRIDGE | {"prevResult": results["good"]},
                           netns=good.path, container="good"))
        self.assertIn(" 0% packet loss", good.run("ping", "-c1", "-W2", "10.1.2.1"))

    def test_a_prevResult_with_paths_for_names_writes_no_setting(self):
        pod = self.pod("pod1")
        self.assert_ok(cni("bridge", "ADD", BRIDGE, netns=pod.path))
        watched = ["/proc/sys/kernel/core_pattern", "/proc/sys/net/ipv4/ip_forward",
                   "/proc/sys/net/ipv4/conf/all/route_localnet",
                   "/proc/sys/net/ipv6/conf/all/disable_ipv6"]

        def settings():
            return [open(path, encoding="ascii").read() for path in watched]
        before, files = settings(), everywhere()
        for name in ("../all", "../../../../kernel/core_pattern", "all", "default", "eth0/../all"):
            lie = {"cniVersion": "1.1.0", "ips": [{"address": "10.1.2.2/24", "interface": 0}],
                   "interfaces": [{"name": name, "sandbox": pod.path}, {"name": name}]}
            for one in (conf("bandwidth", **LIMITS), BRIDGE,
                        conf("portmap", backend="nftables",
                             runtimeConfig={"portMappings": [mapping(8080, 80)]})):
                for verb in ("CHECK", "REPAIR", "DEL") if one is BRIDGE else ("ADD", "CHECK", "DEL"):
                    if one is not BRIDGE or verb != "DEL":
                        cni(one["type"], verb, one | {"prevResult": lie}, netns=pod.path)
                    self.assertEqual(settings(), before, f"{name}: {one['type']} {verb}")
        self.assert_same(files, everywhere(), ignore=left_by_design)


def flood(netns, mark):
    """From the first moment that the interface is there: sets it up, and sends frames under another
    pod's MAC address, and under its own."""
    setns(netns, CLONE_NEWNET)
    said = {"spoofed": 0, "own": 0}
    end = time.monotonic() + 20
    out = None
    while time.monotonic() < end and not os.path.exists("/run/over"):
        try:
            if out is None:
                out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
                out.bind(("eth0", 0))
                with socket.socket() as control:  # SIOCSIFFLAGS
                    ctypes.CDLL(None).ioctl(control.fileno(), 0x8914,
                                            struct.pack("16sh14x", b"eth0", 0x1043))
            own = out.getsockname()[4]
            for kind, source in (("spoofed", bytes.fromhex("020000000666")), ("own", own)):
                out.send(b"\xff" * 6 + source + b"\x88\xb5" + mark + kind.encode().ljust(50))
                said[kind] += 1
        except OSError:
            if said["own"] == 0 and out is not None:
                out.close()
                out = None
        time.sleep(0.001)
    return said


class Spoofing(suite.NodeTest):
    """macspoofchk: no frame under another address, not even one."""

    def test_the_port_opens_after_the_check_is_in_place(self):
        if have("strace"):
            self.skipTest("needs the program strace")
        ear_pod, evil = self.pod("ear"), self.pod("evil")
        one = conf("bridge", macspoofchk=True)
        self.assert_ok(cni("bridge", "ADD", one, netns=ear_pod.path, container="ear"))
        with ear_pod.inside():
            ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
        ear.bind(("eth0", 0x88B5))
        ear.settimeout(0.3)
        mark = b"patchbay" + os.urandom(8)
        attacker = Forked(flood, evil.path, mark)
        time.sleep(0.1)
        # Each message to the kernel is followed by 50 ms: time for the attacker.
        self.assert_ok(cni("bridge", "ADD", one, netns=evil.path, container="evil", wrap=(
            "strace", "-f", "-qq", "-o", "/run/strace", "-e", "trace=sendmsg",
            "-e", "inject=sendmsg:delay_exit=50000")))
        heard = {"spoofed": 0, "own": 0}
        end = time.monotonic() + 1
        while time.monotonic() < end:
            try:
                frame = ear.recv(2000)
            except TimeoutError:
                continue
            if mark in frame:
                heard[frame[14 + len(mark):].split()[0].decode()] += 1
        open("/run/over", "w", encoding="ascii").close()
        sent = attacker.result()
        self.assertGreater(sent["spoofed"], 50, "the attack")
        self.assertGreater(heard["own"], 50, "what is allowed is heard")
        self.assertEqual(heard["spoofed"], 0, f"{heard} of {sent}")

    def test_without_the_check_there_is_no_interface(self):
        """A kernel that refuses the rule: ADD fails, and the pod is not connected."""
        if have("strace"):
            self.skipTest("needs the program strace")
        pod = self.pod()
        before = snapshot()
        outcome = cni("bridge", "ADD", conf("bridge", macspoofchk=True), netns=pod.path, wrap=(
            "strace", "-f", "-qq", "-o", "/run/strace", "-e", "trace=sendmsg,socket",
            "-e", "inject=socket:error=EPROTONOSUPPORT:when=" + self.nfnetlink(pod)))
        self.assert_error(outcome)
        self.assert_same(before, ignore=lambda place: left_by_design(place) or place in (
            "file/run/calls", "file/run/strace"))
        self.assertNotIn("eth0", pod.run("ip", "link"))

    def test_the_check_lets_ARP_for_the_gateways_address_pass(self):
        """The addresses inside ARP are not compared: a pod can claim the gateway's with its own MAC
        address. docs/security.md says so; if this changes, so must that."""
        self.assertTrue(self.takes_the_gateways_place(BRIDGE | {"macspoofchk": True}, 20))

    def test_isolated_pods_do_not_hear_ARP_for_the_gateways_address(self):
        self.assertFalse(self.takes_the_gateways_place(BRIDGE | {"portIsolation": True}, 3))

    def takes_the_gateways_place(self, one, seconds):
        """Whether a pod believes another one's gratuitous ARP within so many seconds."""
        victim, evil = self.pod("victim"), self.pod("evil")
        for pod in (victim, evil):
            self.assert_ok(cni("bridge", "ADD", one, netns=pod.path, container=pod.name))
        self.assertIn(" 0% packet loss", victim.run("ping", "-c1", "-W2", "10.1.2.1"))
        own = json.loads(evil.run("ip", "-j", "link", "show", "eth0"))[0]["address"]
        # Sender and target are the gateway, as gratuitous ARP has it (RFC 5227, section 1.1).
        gateway, mac = bytes([10, 1, 2, 1]), bytes.fromhex(own.replace(":", ""))
        arp = b"\x00\x01\x08\x00\x06\x04\x00\x02" + mac + gateway + b"\xff" * 6 + gateway
        with evil.inside():
            out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        out.bind(("eth0", 0))
        self.addCleanup(out.close)

        def believes_it():
            out.send(b"\xff" * 6 + mac + b"\x08\x06" + arp)
            known, = json.loads(victim.run("ip", "-j", "neigh", "show", "10.1.2.1"))
            return known.get("lladdr") == own

        # An entry does not change within its first second (net.ipv4.neigh.eth0.locktime).
        return wait_for(believes_it, seconds, 0.2)

    def nfnetlink(self, pod):
        """Which of its sockets is the first to nf_tables, and the one after."""
        one = conf("bridge", macspoofchk=True)
        self.assert_ok(cni("bridge", "ADD", one, netns=pod.path, wrap=(
            "strace", "-f", "-qq", "-o", "/run/calls", "-e", "trace=socket")))
        self.assert_ok(cni("bridge", "DEL", one, netns=pod.path))
        with open("/run/calls", encoding="ascii") as file:
            calls = [line for line in file if "socket(" in line]
        return next(f"{i + 1}..{i + 2}" for i, line in enumerate(calls) if "NETLINK_NETFILTER" in line)


FOREIGN = """
table inet firewalld
delete table inet firewalld
table inet firewalld {
  chain input { type filter hook input priority 10; policy accept; ct state established accept; }
  chain forward { type filter hook forward priority 10; policy accept; }
  chain nat { type nat hook prerouting priority -90; policy accept; }
}
"""
FOREIGN_CHAINS = "*nat\n:FOREIGN -\n-A FOREIGN -j RETURN\nCOMMIT\n*filter\n:FOREIGN -\n" \
                 "-A FOREIGN -j RETURN\nCOMMIT\n"


def listen(netns, address, port):
    """Counts the datagrams that reach a socket until it is over."""
    setns(netns, CLONE_NEWNET)
    said = {"heard": 0}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind((address, port))
        ear.settimeout(0.1)
        while not os.path.exists("/run/over"):
            try:
                ear.recv(100)
                said["heard"] += 1
            except TimeoutError:
                pass
    return said


def probe(netns):
    """A thousand times a second: datagrams to what is for 127.0.0.1 alone."""
    setns(netns, CLONE_NEWNET)
    said = {"sent": 0}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        while not os.path.exists("/run/over"):
            for port in (8080, 9000):
                out.sendto(b"anybody there", ("127.0.0.1", port))
            said["sent"] += 1
            time.sleep(0.001)
    return said


def attack_by(pod, gateway):
    """Makes a host or pod send what is for 127.0.0.1 to the gateway: whoever is root there can."""
    pod.run("sh", "-ec", f"ip addr flush dev lo; ip route add 127.0.0.1/32 via {gateway}; "
            "sysctl -qw net.ipv4.conf.all.route_localnet=1 net.ipv4.conf.eth0.route_localnet=1")


#: By rtnetlink(7) and linux/if_link.h, in the namespace that the first argument numbers: removes a link called victim,
#: or with the index of a link there makes a macvlan on it.
BY_ID = """
import socket, struct, sys
def attribute(kind, data):
    return struct.pack("HH", 4 + len(data), kind) + data + b"\\0" * (-len(data) % 4)
numbers = [struct.pack("i", int(text)) for text in sys.argv[1:]]
body = struct.pack("BxHiII", 0, 0, 0, 0, 0)
if len(numbers) == 1:
    kind, flags = 17, 5
    body += attribute(46, numbers[0]) + attribute(3, b"victim\\0")
else:
    kind, flags = 16, 0x605
    body += attribute(37, numbers[0]) + attribute(5, numbers[1]) + attribute(18, attribute(1, b"macvlan\\0"))
with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as route:
    route.bind((0, 0))
    route.send(struct.pack("IHHII", 16 + len(body), kind, flags, 1, 0) + body)
    print(-struct.unpack_from("i", route.recv(4096), 16)[0])
"""


@suite.spread
class Kernel(suite.NodeTest):
    """What the kernel lets a pod do past every plugin, as the table of docs/security.md says."""

    def setUp(self):
        super().setUp()
        run("ip", "link", "add", "victim", "type", "bridge")
        run("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1")
        run("ip", "link", "set", "up0", "up")

    def start(self, own):
        """A namespace with a macvlan of mode source and a veth; own: of a user namespace of its own. What starts a
        program there."""
        flags = ["-U", "-r"] if own else []
        process = subprocess.Popen(["unshare", *flags, "-n", "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdout.read(1)
        os.symlink(f"/proc/{process.pid}/ns/net", path := "/run/netns-of-the-pod")
        for plugin in (config("macvlan", "1.0.0", master="up0", mode="source", allowedMACs=["02:00:00:00:00:01"], ipam={}),
                       config("bridge", "1.0.0", ipam={}, isGateway=False)):
            done = cni(plugin["type"], "ADD", plugin, netns=path, container="c",
                       ifname="mac0" if plugin["type"] == "macvlan" else "eth0")
            self.assert_ok(done)
        return ["nsenter", "-t", str(process.pid), *(["-U", "--preserve-credentials"] if own else []), "-n"]

    @suite.cases([("the user namespace of the node", (False, 0)), ("its own", (True, errno.EACCES))])
    def a_pod_with_CAP_NET_ADMIN_removes_links_of_the_node_from(self, row):
        own, expected = row
        pod = self.start(own)
        where = json.loads(run(*pod, "ip", "-j", "link", "show", "eth0"))[0]["link_netnsid"]
        self.assertEqual(int(run(*pod, sys.executable, "-c", BY_ID, str(where))), expected)
        self.assertEqual("victim" in run("ip", "link"), own)
        up0 = json.loads(run("ip", "-j", "link", "show", "up0"))[0]["ifindex"]
        refusal = int(run(*pod, sys.executable, "-c", BY_ID, str(where), str(up0)))
        self.assertEqual(refusal, errno.EPERM if own else 0)

    @suite.cases([("the user namespace of the node", False), ("its own", True)])
    def a_pod_with_CAP_NET_ADMIN_leaves_the_mode_of_its_macvlan_from(self, own):
        pod = self.start(own)
        self.assertIn("macvlan mode source", run(*pod, "ip", "-d", "link", "show", "mac0"))
        run(*pod, "ip", "link", "set", "mac0", "type", "macvlan", "mode", "bridge")
        self.assertIn("macvlan mode bridge", run(*pod, "ip", "-d", "link", "show", "mac0"))


@suite.spread
class Reloads(suite.NodeTest):
    """CVE-2025-54388: after a reload of the other firewall, ports of 127.0.0.1 were open to all."""

    @suite.cases([("nftables", ("nftables", None)), ("iptables-nft", ("iptables", "nft"))])
    def nothing_of_the_loopback_is_open_meanwhile(self, row):
        backend, variant = row
        if variant and (reason := hostport.select_iptables(variant)):
            self.skipTest(reason)
        site = Site()
        web, neighbour = self.pod("web"), self.pod("neighbour")
        mappings = {"portMappings": [mapping(8080, 80, "udp", "127.0.0.1")]}
        for pod, more in ((web, mappings), (neighbour, None)):
            _, failed = hostport.network(backend).add(more, netns=pod.path, container=pod.name)
            self.assertIsNone(failed, str(failed))
        attack_by(neighbour, "10.1.2.1")
        attack_by(site.outside, NODE[4])
        ears = [Forked(listen, "/proc/self/ns/net", "127.0.0.1", 9000),
                Forked(listen, web.path, "0.0.0.0", 80)]
        probes = [Forked(probe, pod.path) for pod in (neighbour, site.outside)]
        for _ in range(100):
            if backend == "nftables":
                run("nft", "-f", "-", stdin=FOREIGN)
            else:
                run("iptables-restore", "--noflush", stdin=FOREIGN_CHAINS)
            time.sleep(0.005)
        open("/run/over", "w", encoding="ascii").close()
        sent = [one.result()["sent"] for one in probes]
        heard = [one.result()["heard"] for one in ears]
        self.assertGreater(min(sent), 300, "the attack")
        self.assertEqual(heard, [0, 0], f"the node's own service, the pod's port; {sent} probes")
        self.assert_it_is_an_attack(backend, site)

    def assert_it_is_an_attack(self, backend, site):
        """Without the guard it succeeds."""
        server = hostport.Server(self, "node", (9000,), protocols=("udp",), addresses=("127.0.0.1",))
        self.assertEqual(ask_one(site.outside, "udp", "127.0.0.1", 9000, 1), "nothing")
        if backend == "nftables":
            run("nft", "flush", "chain", "ip", "patchbay_hostport", "guard")
        else:
            run("iptables", "-w", "-F", "CNI-HOSTPORT-GUARD")
        run("sysctl", "-qw", "net.ipv4.conf.up0.route_localnet=1")
        self.assertEqual(ask_one(site.outside, "udp", "127.0.0.1", 9000).split()[0], "node")
        server.stop()


if __name__ == "__main__":
    suite.main(needs=("prlimit",), per_processor=2)
