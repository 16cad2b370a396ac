#!/usr/bin/env python3
"""What the keys of the bridge plugin do to real frames, what CHECK notices, what GC collects."""

import itertools
import json
import os
import re
import select
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.plugin import cni, finish_all, have, start  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run  # noqa: E402

RANGES = [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]]


def config(version="1.0.0", name="net1", **more):
    return {"cniVersion": version, "name": name, "type": "bridge", "isDefaultGateway": True,
            "ipam": {"type": "host-local", "ranges": RANGES}} | more


def details(name, *namespace):
    return json.loads(run("ip", *namespace, "-j", "-d", "link", "show", name))[0]


def host_end(result):
    return result["interfaces"][1]["name"]


def addresses(result):
    return [ip["address"].split("/")[0] for ip in result["ips"]]


def answers(pod, address):
    return "1 received" in pod.run("ping", "-c1", "-W1", address, check=False)


def mac_bytes(text):
    return bytes.fromhex(text.replace(":", ""))


@suite.spread
class Keys(suite.NodeTest):
    """Each key by its effect."""

    def add(self, pod, conf, **options):
        return self.assert_ok(cni("bridge", "ADD", conf, netns=pod.path, container=pod.name,
                                  **options))

    def test_isolated_pods_reach_the_node_but_not_each_other(self):
        one, two = self.pod(), self.pod()
        conf = config(portIsolation=True)
        self.add(one, conf)
        there = addresses(self.add(two, conf))
        for address in there:
            self.assertFalse(answers(one, address), address)
        for gateway in ("10.1.0.1", "fd00:1::1"):
            self.assertTrue(answers(one, gateway), gateway)

    def test_isolated_pods_reach_each_other_through_the_node_if_it_forwards(self):
        """What portIsolation is not, as README and docs/security.md say: the way by the gateway."""
        one, two = self.pod(), self.pod()
        for pod in (one, two):
            self.add(pod, config(portIsolation=True, isGateway=True))
        addresses = [json.loads(pod.run("ip", "-j", "-4", "addr", "show", "eth0"))[0]["addr_info"][0]
                     ["local"] for pod in (one, two)]
        self.assertFalse(answers(one, addresses[1]))
        gateway = json.loads(run("ip", "-j", "-4", "addr", "show", "cni0"))[0]["addr_info"][0]["local"]
        one.run("ip", "route", "add", addresses[1], "via", gateway)
        two.run("ip", "route", "add", addresses[0], "via", gateway)
        self.assertTrue(answers(one, addresses[1]))

    def test_a_hairpin_port_sends_frames_back(self):
        for hairpin in (True, False):
            pod = self.pod()
            port = details(host_end(self.add(pod, config(hairpinMode=hairpin))))
            self.assertEqual(port["linkinfo"]["info_slave_data"]["hairpin"], hairpin)

    def test_the_MTU_is_that_of_both_ends_and_of_a_new_bridge(self):
        pod = self.pod()
        result = self.add(pod, config(mtu=1400))
        for link in (details(host_end(result)), details("eth0", "-n", pod.name), details("cni0")):
            self.assertEqual(link["mtu"], 1400, link["ifname"])

    def test_a_foreign_hardware_address_does_not_pass_the_check(self):
        sender, receiver = self.pod(), self.pod()
        conf = config(macspoofchk=True)
        own = self.add(sender, conf)["interfaces"][2]["mac"]
        other = self.add(receiver, conf)["interfaces"][2]["mac"]
        got = self.frames(sender, receiver, [own, "02:00:00:00:00:99"], other)
        self.assertEqual(got, [own])
        self.assertTrue(answers(sender, "10.1.0.1"))
        for pod in (sender, receiver):
            self.assert_ok(cni("bridge", "DEL", conf, netns=pod.path, container=pod.name))
        self.assertNotIn("macspoofchk", run("nft", "list", "ruleset"))

    def test_without_the_check_it_passes(self):
        sender, receiver = self.pod(), self.pod()
        self.add(sender, config())
        other = self.add(receiver, config())["interfaces"][2]["mac"]
        foreign = "02:00:00:00:00:99"
        self.assertEqual(self.frames(sender, receiver, [foreign], other), [foreign])

    def frames(self, sender, receiver, sources, destination):
        """Which of the source addresses arrive, in frames of an experimental protocol."""
        kind = 0x88b5  # IEEE 802, local experimental
        with receiver.inside():
            listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(kind))
            listener.bind(("eth0", kind))
        with sender.inside():
            raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            raw.bind(("eth0", 0))
        with listener, raw:
            for source in sources:
                raw.send(mac_bytes(destination) + mac_bytes(source) + struct.pack("!H", kind) +
                         bytes(50))
            listener.settimeout(0.5)
            got = []
            try:
                while len(got) < len(sources):
                    got.append(":".join(f"{byte:02x}" for byte in listener.recv(200)[6:12]))
            except TimeoutError:
                pass
        return got

    def test_duplicate_address_detection_finds_the_duplicate(self):
        first, second = self.pod(), self.pod()
        static = {"type": "static", "addresses": [{"address": "fd00:1::9/64"}]}
        self.add(first, config(ipam=static, isGateway=False, isDefaultGateway=False))
        conf = config(ipam=static, isGateway=False, isDefaultGateway=False, enabledad=True)
        before = snapshot()
        refused = cni("bridge", "ADD", conf, netns=second.path, container=second.name)
        self.assert_error(refused, 999, "DADFAILED")
        self.assert_same(before)

    def test_duplicate_address_detection_is_waited_for(self):
        pod = self.pod()
        began = time.monotonic()
        self.add(pod, config(enabledad=True))
        self.assertLess(time.monotonic() - began, 4.5, "not until the time is up, after 5 s")
        seen = json.loads(pod.run("ip", "-j", "-6", "addr", "show", "eth0"))[0]["addr_info"]
        mine = [one for one in seen if one["scope"] == "global"]
        self.assertEqual([one.get("tentative", False) for one in mine], [False])

    def test_an_address_that_stays_tentative_is_not_waited_for_without_end(self):
        pod = self.pod()
        pod.run("sysctl", "-qw", "net.ipv6.conf.default.dad_transmits=60")
        before = snapshot()
        began = time.monotonic()
        outcome = cni("bridge", "ADD", config(enabledad=True), netns=pod.path)
        self.assert_error(outcome, 11, "still has tentative addresses")
        self.assertLess(time.monotonic() - began, 30)
        self.assert_same(before, ignore=left_by_design)

    def test_a_bridge_that_has_all_its_ports_is_named(self):
        run("ip", "link", "add", "cni0", "type", "bridge")
        ports = "".join(f"link add p{n} master cni0 type ifb\n" for n in range(1023))
        run("ip", "-batch", "-", stdin=ports)
        error = self.assert_error(cni("bridge", "ADD", config(), netns=self.pod().path))
        self.assertIn("'cni0' has all the ports the kernel allows", error["details"])
        self.assertEqual(run("ip", "link", "show", "type", "veth"), "")

    def test_a_disabled_interface_stays_down(self):
        pod = self.pod()
        conf = {"cniVersion": "1.0.0", "name": "net1", "type": "bridge",
                "disableContainerInterface": True}
        self.add(pod, conf)
        self.assertNotIn("UP", details("eth0", "-n", pod.name)["flags"])

    def test_the_bridge_becomes_promiscuous(self):
        self.add(self.pod(), config(promiscMode=True))
        self.assertEqual(details("cni0")["promiscuity"], 1)

    def test_a_gateway_address_in_the_way_is_named_or_replaced(self):
        run("ip", "link", "add", "cni0", "type", "bridge")
        run("ip", "addr", "add", "10.9.9.9/16", "dev", "cni0")
        pod = self.pod()
        before = snapshot()
        refused = cni("bridge", "ADD", config(), netns=pod.path)
        self.assert_error(refused, 7, "10.9.9.9/16")
        self.assert_same(before, ignore=left_by_design)
        self.add(pod, config(forceAddress=True))
        now = [a["local"] for a in json.loads(run("ip", "-j", "-4", "addr", "show", "cni0"))[0]
               ["addr_info"]]
        self.assertEqual(now, ["10.1.0.1"])

    def test_forceAddress_keeps_all_gateways_of_its_own_ADD(self):
        run("ip", "link", "add", "cni0", "type", "bridge")
        run("ip", "addr", "add", "10.9.9.9/16", "dev", "cni0")
        ranges = [[{"subnet": f"10.1.{n}.0/24"}] for n in range(2)]
        conf = config(forceAddress=True, ipam={"type": "host-local", "ranges": ranges})
        for pod in (self.pod(), self.pod()):
            result = self.add(pod, conf)
            now = json.loads(run("ip", "-j", "-4", "addr", "show", "cni0"))[0]["addr_info"]
            self.assertEqual(sorted(a["local"] for a in now), ["10.1.0.1", "10.1.1.1"])
            for gateway in ("10.1.0.1", "10.1.1.1"):
                self.assertTrue(answers(pod, gateway), gateway)
            self.assert_ok(cni("bridge", "CHECK", conf | {"prevResult": result}, netns=pod.path,
                               container=pod.name))

    def test_a_gateway_address_that_exists_conflicts_with_no_other(self):
        self.add(self.pod(), config())
        run("ip", "addr", "add", "10.9.9.9/16", "dev", "cni0")
        self.add(self.pod(), config())
        self.assertIn("10.9.9.9/16", run("ip", "addr", "show", "cni0"))

    def seen_macs(self, name, act):
        """The MAC addresses that the kernel announced of the link while act() ran."""
        done = f"end-{name}"
        monitor = subprocess.Popen(["ip", "monitor", "link"], stdout=subprocess.PIPE, text=True)
        try:
            lines = iter(monitor.stdout.readline, "")
            for change in itertools.cycle(("up", "down")):  # until it listens
                run("ip", "link", "set", "lo", change)
                if select.select([monitor.stdout], [], [], 0.05)[0]:
                    break
            run("ip", "link", "set", "lo", "up")
            act()
            run("ip", "link", "add", done, "type", "bridge")
            text = ""
            for line in lines:
                text += line
                if done in line:
                    break
        finally:
            monitor.kill()
            monitor.communicate()
        return set(re.findall(rf"\d+: {name}: .*\n +link/ether (\S+)", text))

    def test_a_bridge_of_the_operator_keeps_its_MAC_address_at_every_moment(self):
        for n, uplink in enumerate((False, True)):
            name = f"br{n}"
            run("ip", "link", "add", name, "up", "type", "bridge")
            if uplink:  # higher than any address that a port gets
                run("ip", "link", "add", "up0", "address", "fe:ff:ff:ff:ff:fe", "master", name, "up",
                    "type", "veth", "peer", "up1")
            before = details(name)["address"]
            conf = config(name=f"net{n}", bridge=name,
                          ipam={"type": "host-local", "subnet": f"10.{n + 1}.0.0/24"})
            pods = [self.pod() for _ in range(3)]
            seen = self.seen_macs(name, lambda: [self.add(pod, conf) for pod in pods])
            self.assertEqual(seen, {before}, f"{name}, uplink {uplink}")
            self.assertEqual(details(name)["address"], before)
            for pod in pods:
                self.assertTrue(answers(pod, f"10.{n + 1}.0.1"))

    def without_ports(self, name="cni0"):
        """A bridge whose last port left."""
        run("ip", "-batch", "-", stdin=f"link add {name} up type bridge\n"
            f"link add port0 master {name} type veth peer name port1\nlink del port0\n")
        if details(name)["address"] != "00:00:00:00:00:00":
            self.skipTest("this kernel leaves the bridge an address")

    def test_a_bridge_without_ports_gets_a_MAC_address(self):
        self.without_ports()
        conf = config()
        pods = [self.pod() for _ in range(4)]
        calls = [start("bridge", "ADD", conf, netns=pod.path, container=pod.name) for pod in pods]
        results = [self.assert_ok(outcome) for outcome in finish_all(calls)]
        mac = details("cni0")["address"]
        self.assertRegex(mac, "^02:")
        for pod, result in zip(pods, results):
            self.assertEqual(result["interfaces"][0]["mac"], mac)
            self.assertTrue(answers(pod, "10.1.0.1"))
            self.assert_ok(cni("bridge", "CHECK", conf | {"prevResult": result}, netns=pod.path, container=pod.name))
        for pod in pods:
            self.assert_ok(cni("bridge", "DEL", conf, netns=pod.path, container=pod.name))
        self.assertEqual(details("cni0")["address"], mac)

    @suite.cases([("ADD", "ADD"), ("REPAIR", "REPAIR")])
    def a_bridge_whose_MAC_address_an_earlier_version_fixed_at_zero_gets_one_by(self, verb):
        self.without_ports()
        try:  # on 6.18 this is no change, and yet the address does not follow the ports any more
            run("ip", "link", "set", "cni0", "address", "00:00:00:00:00:00")
        except RuntimeError as error:
            self.skipTest(f"this kernel does not fix it: {error}")
        conf, pod = config(isDefaultGateway=False, isGateway=True), self.pod()
        options = {"netns": pod.path, "container": pod.name}
        result = self.add(pod, conf | {"isGateway": False})  # which leaves the bridge as it is
        self.assertEqual(details("cni0")["address"], "00:00:00:00:00:00")
        self.assert_error(cni("bridge", "CHECK", conf | {"prevResult": result}, **options), msg="has no MAC address")
        if verb == "ADD":
            self.add(self.pod(), conf)
        else:
            repaired = self.assert_ok(cni("bridge", "REPAIR", conf | {"prevResult": result}, **options))
            result = repaired["result"]
            self.assertEqual(result["interfaces"][0]["mac"], details("cni0")["address"])
            self.assert_ok(cni("bridge", "CHECK", conf | {"prevResult": result}, **options))
        self.assertRegex(details("cni0")["address"], "^02:")
        self.assertTrue(answers(pod, "10.1.0.1"))

    def test_routes_have_what_IPAM_says_of_them(self):
        pod = self.pod()
        ipam = {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24"}]],
                "routes": [{"dst": "192.0.2.0/24", "mtu": 1300, "advmss": 1200, "priority": 50},
                           {"dst": "198.51.100.0/24", "table": 100},
                           {"dst": "203.0.113.0/24", "scope": 253}]}
        conf = config(version="1.1.0", ipam=ipam)
        result = self.add(pod, conf)
        routes = {r["dst"]: r for r in json.loads(pod.run("ip", "-j", "route", "show", "table",
                                                          "all"))}
        first = routes["192.0.2.0/24"]
        self.assertEqual((first["metric"], first["gateway"]), (50, "10.1.0.1"))
        self.assertIn({"mtu": 1300, "advmss": 1200}, first["metrics"])
        self.assertEqual(routes["198.51.100.0/24"]["table"], "100")
        self.assertEqual(routes["203.0.113.0/24"]["scope"], "link")
        self.assertNotIn("gateway", routes["203.0.113.0/24"])
        checked = cni("bridge", "CHECK", conf | {"prevResult": result}, netns=pod.path,
                      container=pod.name)
        self.assert_ok(checked)

    def test_forwarding_does_not_cost_the_node_its_learned_default_route(self):
        run("ip", "link", "add", "up0", "type", "veth", "peer", "up1")
        for name in ("up0", "up1"):
            run("ip", "link", "set", name, "up")
        run("ip", "-6", "route", "add", "default", "via", "fe80::1", "dev", "up0", "proto", "ra")
        self.add(self.pod(), config())
        with open("/proc/sys/net/ipv6/conf/up0/accept_ra", encoding="ascii") as file:
            self.assertEqual(file.read().strip(), "2")

    def test_router_advertisements_are_refused_before_a_link_is_up(self):
        """CVE-2020-10749: not a moment in which the node would listen to the pod's."""
        if have("strace"):
            self.skipTest("needs strace")
        log = "/run/calls"
        result = self.add(self.pod(), config(), wrap=(
            "strace", "-y", "-s", "64", "-e", "trace=write,sendmsg", "-o", log))
        with open(log, encoding="ascii") as file:
            calls = file.read().splitlines()
        for name in ("cni0", host_end(result)):
            refused = [i for i, call in enumerate(calls) if f"/{name}/accept_ra>, \"0\"" in call]
            up = [i for i, call in enumerate(calls)
                  if f'if_nametoindex("{name}"), ifi_flags=IFF_UP' in call]
            self.assertTrue(refused and up and max(refused) < min(up), f"{name}: {refused} {up}")

    def test_a_read_only_proc_sys_is_no_obstacle_where_forwarding_is_on(self):
        """As in a container that plays a node."""
        for key in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
            run("sysctl", "-qw", f"{key}=1")
        run("mount", "--bind", "/proc/sys", "/proc/sys")
        self.addCleanup(run, "umount", "/proc/sys")
        run("mount", "-o", "remount,ro,bind", "/proc/sys")
        pod = self.pod()
        for address in addresses(self.add(pod, config(ipMasq=True))):
            self.assertIn("1 received", run("ping", "-c1", "-w5", address, check=False))

    def test_without_forwarding_a_read_only_proc_sys_is_named_and_nothing_stays(self):
        run("mount", "--bind", "/proc/sys", "/proc/sys")
        self.addCleanup(run, "umount", "/proc/sys")
        run("mount", "-o", "remount,ro,bind", "/proc/sys")
        pod = self.pod()
        before = snapshot()
        refused = cni("bridge", "ADD", config(), netns=pod.path)
        self.assert_error(refused, 999, "set sysctl net/ipv4/ip_forward=1: read-only file system")
        self.assert_same(before, ignore=left_by_design)

    def test_without_IPv6_on_the_node_an_IPv6_address_is_refused_with_the_reason(self):
        for scope in ("all", "default"):
            run("sysctl", "-qw", f"net.ipv6.conf.{scope}.disable_ipv6=1")
        pod = self.pod()
        before = snapshot()
        self.assert_error(cni("bridge", "ADD", config(), netns=pod.path), 999, "IPv6 is disabled")
        self.assert_same(before, ignore=left_by_design)
        self.add(pod, config(ipam={"type": "host-local", "subnet": "10.1.0.0/24"}))

    def test_the_alias_of_the_port_says_whose_it_is(self):
        pod = self.pod()
        alias = details(host_end(self.add(pod, config())))["ifalias"]
        self.assertIn(f"net: net1, if: eth0, id: {pod.name}", alias)


# What somebody breaks, and what CHECK must say about it.
MUTATIONS = [
    ("the pod's address", "ip -n {pod} addr del {v4}/24 dev eth0", "10.1.0.2"),
    ("the pod's IPv6 address", "ip -n {pod} addr del {v6}/64 dev eth0", "fd00:1::2"),
    ("the default route", "ip -n {pod} route del default", "0.0.0.0/0"),
    ("the pod's MAC address", "ip -n {pod} link set eth0 address 02:00:00:00:00:77",
     "doesn't match container Mac: 02:00:00:00:00:77"),
    ("the pod's interface down", "ip -n {pod} link set eth0 down", "eth0 is down"),
    ("the pod's interface", "ip -n {pod} link del eth0", "eth0 not found"),
    ("the port out of the bridge", "ip link set {port} nomaster", "is not a port of bridge"),
    ("the port down", "ip link set {port} down", "is down"),
    ("the port's hairpin mode", "bridge link set dev {port} hairpin off", "hairpin mode"),
    ("the port's isolation", "bridge link set dev {port} isolated on", "isolation of bridge port"),
    ("something else in the interface's place",
     "ip -n {pod} link del eth0; ip -n {pod} link add eth0 type bridge", "not of type veth"),
    ("another pair in the interface's place",
     "mac=$(ip netns exec {pod} cat /sys/class/net/eth0/address); ip -n {pod} link del eth0;"
     " ip -n {pod} link add eth0 up address $mac type veth peer name other", "veth created"),
    ("the bridge", "ip link del cni0", "cni0 not found"),
    ("the bridge down", "ip link set cni0 down", "'cni0' is down"),
    ("the bridge's MAC address", "ip link set cni0 address 02:00:00:00:00:78",
     "Mac doesn't match"),
    ("the gateway's address", "ip addr del 10.1.0.1/24 dev cni0", "gateway address 10.1.0.1/24"),
    ("the route to the pods", "ip route del 10.1.0.0/24 dev cni0", "no route to 10.1.0.2 on 'cni0'"),
    ("the IPv6 route to the pods", "ip -6 route del fd00:1::/64 dev cni0", "no route to fd00:1::2 on 'cni0'"),
    ("the pod's address on the node", "ip addr add 10.1.0.2/32 dev lo", "the node itself has the address"),
    ("forwarding", "sysctl -qw net.ipv4.ip_forward=0", "ip_forward"),
    ("the masquerading", "nft flush map inet patchbay_masquerade pods4", "no element"),
    ("the masquerading of a subnet",
     "nft flush chain inet patchbay_masquerade masq_10.1.0.0/24", "masq_10.1.0.0/24' is not"),
    ("the masquerading's hook", "nft flush chain inet patchbay_masquerade postrouting",
     "asquerad"),
    ("the MAC address check", "nft flush chain bridge nat PREROUTING", "macspoofchk"),
    ("the reservation", "rm /var/lib/cni/networks/net1/10.1.0.2 "
     "/var/lib/cni/networks/net1/fd00:1::2", "host-local"),
]


@suite.spread
class Check(suite.NodeTest):
    """CHECK is content after ADD, and names the one thing that is broken."""

    @suite.cases([(name, (command, said)) for name, command, said in MUTATIONS])
    def notices(self, row):
        command, said = row
        pod = self.pod()
        conf = config(hairpinMode=True, ipMasq=True, macspoofchk=True)
        result = self.assert_ok(cni("bridge", "ADD", conf, netns=pod.path))
        again = conf | {"prevResult": result}
        self.assert_ok(cni("bridge", "CHECK", again, netns=pod.path))
        v4, v6 = addresses(result)
        broken = command.format(pod=pod.name, port=host_end(result), v4=v4, v6=v6)
        run("sh", "-c", broken)
        self.assert_error(cni("bridge", "CHECK", again, netns=pod.path), None, said)
        self.assert_ok(cni("bridge", "DEL", again, netns=pod.path))

    def test_notices_that_the_bridge_is_not_promiscuous_any_more(self):
        pod = self.pod()
        conf = config(promiscMode=True)
        again = conf | {"prevResult": self.assert_ok(cni("bridge", "ADD", conf, netns=pod.path))}
        self.assert_ok(cni("bridge", "CHECK", again, netns=pod.path))
        run("ip", "link", "set", "cni0", "promisc", "off")
        self.assert_error(cni("bridge", "CHECK", again, netns=pod.path), None, "Promisc Mode true")


@suite.spread
class Gc(suite.NodeTest):
    """GC takes down what is not listed, completely, and nothing else."""

    @suite.cases([(backend, backend) for backend in ("nftables", "iptables")])
    def leaves_exactly_the_listed(self, backend):
        conf = config(version="1.1.0", ipMasq=True, ipMasqBackend=backend, macspoofchk=True)
        other = config(version="1.1.0", name="net2", bridge="cni1", ipMasq=True,
                       ipMasqBackend=backend, ipam={"type": "host-local", "subnet": "10.2.0.0/24"})
        keep, lost, elsewhere = self.pod(), self.pod(), self.pod()
        for pod, which in ((keep, conf), (elsewhere, other)):
            self.assert_ok(cni("bridge", "ADD", which, netns=pod.path, container=pod.name))
        # A reference for what is left: the other pod came and went in order.
        self.assert_ok(cni("bridge", "ADD", conf, netns=lost.path, container=lost.name))
        self.assert_ok(cni("bridge", "DEL", conf, netns=lost.path, container=lost.name))
        before = snapshot()
        self.assert_ok(cni("bridge", "ADD", conf, netns=lost.path, container=lost.name))
        valid = [{"containerID": keep.name, "ifname": "eth0"}]
        self.assert_ok(cni("bridge", "GC", conf | {"cni.dev/valid-attachments": valid}))
        self.assert_same(before, ignore=lambda place: "last_reserved" in place or
                         ".owners/seen" in place)
        self.assertTrue(answers(keep, "10.1.0.1"))
        self.assertTrue(answers(elsewhere, "10.2.0.1"))

    @suite.cases([(name, broken) for name, broken in (
        ("a word for the list", "all"), ("an entry without name", [{"containerID": "x"}]),
        ("an entry of null", [None]), ("a number for a name", [{"containerID": 1, "ifname": 2}]))])
    def deletes_nothing_for(self, broken):
        pod = self.pod()
        conf = config(version="1.1.0", ipMasq=True)
        self.assert_ok(cni("bridge", "ADD", conf, netns=pod.path))
        before = snapshot()
        self.assert_error(cni("bridge", "GC", conf | {"cni.dev/valid-attachments": broken}), 7)
        self.assert_same(before)


class Status(suite.NodeTest):
    """STATUS names what is missing."""

    def status(self, **more):
        return cni("bridge", "STATUS", config(version="1.1.0", **more))

    def test_of_a_ready_node_is_content_and_changes_nothing(self):
        before = snapshot()
        self.assert_ok(self.status(ipMasq=True))
        self.assert_same(before)

    def test_names_a_link_that_is_no_bridge(self):
        run("ip", "link", "add", "cni0", "type", "veth", "peer", "x")
        self.assert_error(self.status(), 50, "not a bridge")

    def test_names_a_bridge_without_VLAN_filtering(self):
        run("ip", "link", "add", "cni0", "type", "bridge")
        self.assert_error(self.status(vlan=5), 50, "VLAN filtering")


if __name__ == "__main__":
    suite.main(per_processor=2)
