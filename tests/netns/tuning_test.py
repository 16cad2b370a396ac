#!/usr/bin/env python3
"""Sysctls and settings of a pod's interface: set in order, all or none, restored by DEL where the pod lives on;
keys that lead elsewhere; the node's allowlist; beside the reference plugin.
"""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.configs import MAC, lack  # noqa: E402
from support.plugin import OURS, REFERENCE, cni, finish_all, have, start  # noqa: E402
from support.snapshot import pod_snapshot  # noqa: E402
from support.world import run  # noqa: E402

DATA = "/run/cni/tuning"
ALLOWLIST = "/etc/cni/tuning/allowlist.conf"
ARP = "net/ipv4/conf/eth0/arp_filter"
EVERYTHING = {"sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1", "net.ipv4.ip_local_port_range": "2000 3000"},
              "mac": MAC, "promisc": True, "mtu": 1300, "allmulti": True, "txQLen": 77}
SETTINGS = ("mac", "promisc", "mtu", "allmulti", "txQLen")

HOSTILE_KEYS = [
    "kernel.core_pattern", "kernel/core_pattern", "/net/ipv4/ip_forward", "/proc/sys/net/ipv4/ip_forward",
    "net", "net.", "net/", "net..ipv4.ip_forward", "net//ipv4/ip_forward", ".net.ipv4.ip_forward",
    "net/../kernel/core_pattern", "net/ipv4/../../kernel/core_pattern", "net/ipv4/conf/../../../vm/swappiness",
    "net/ipv4/./ip_forward", "net/ipv4/..", "net/..", "..", "", ".", "/", "//",
    "net.ipv4.conf.IFNAME/../../all.forwarding", "net.ipv4.conf.//.forwarding",
    "net.ipv4.ip_forward\n", "net.ipv4.ip_forward\nkernel.core_pattern", "net.ipv4.ip_forward kernel.x",
    "net.ipv4.ip_forward+kernel.core_pattern", "net.ipv4.ip_forward\t", "net.ipv4.ip_for\u0000ward",
    "net/ipv4/ip_forward\u2028", "fs.file-max", "netfoo.ipv4.ip_forward", "net\\ipv4\\ip_forward",
    "net/ipv4/conf/\u007f/forwarding", "$(id)", "net.ipv4.ip_forward/",
]
HOSTILE_NAMES = ["..", ".", "../all", "eth0/../all", "/proc/sys", "a/b", "eth0:1", "eth 0", "eth0\n", "eth0\t",
                 "../../../kernel", "x" * 16, "eth0/forwarding", "%2e%2e", "conf/all", "eth0\u2028", "absent0"]


def config(version="1.1.0", **more):
    return {"cniVersion": version, "name": "net1", "type": "tuning"} | more


def rows(table):
    return [(name, tuple(columns)) for name, *columns in table]


@suite.spread
class Tuning(suite.NodeTest):
    def pair(self):
        """A pod with a veth eth0, whose other end is on the node, and the result of its plugin."""
        pod = self.pod()
        host = f"v{pod.name}"[:15]
        run("ip", "link", "add", host, "type", "veth", "peer", "name", "eth0", "netns", pod.name)
        self.addCleanup(run, "ip", "link", "del", host, check=False)
        run("ip", "link", "set", host, "up")
        pod.run("ip", "link", "set", "eth0", "up")
        pod.run("ip", "address", "add", "10.7.0.2/24", "dev", "eth0")
        link, = json.loads(pod.run("ip", "-j", "link", "show", "eth0"))
        return pod, host, {"cniVersion": "1.1.0", "interfaces": [
            {"name": host}, {"name": "eth0", "mac": link["address"], "sandbox": pod.path}], "ips": [
            {"address": "10.7.0.2/24", "interface": 1}]}

    def call(self, verb, conf, pod, result=None, **options):
        conf = dict(conf)
        if result is not None:
            conf["prevResult"] = result
        return cni("tuning", verb, conf, **({"netns": pod.path, "container": pod.name} | options))

    def seen(self, pod, name="eth0"):
        """As an independent reader sees it."""
        link, = json.loads(pod.run("ip", "-j", "-d", "link", "show", name))
        return {"mac": link["address"], "promisc": "PROMISC" in link["flags"], "mtu": link["mtu"],
                "allmulti": "ALLMULTI" in link["flags"], "txQLen": link["txqlen"],
                "arp_filter": self.sysctl(pod, ARP), "ports": self.sysctl(pod, "net/ipv4/ip_local_port_range")}

    def sysctl(self, pod, key, value=None):
        if value is not None:
            return pod.run("sh", "-c", f"printf %s '{value}' > /proc/sys/{key}")
        return pod.run("cat", f"/proc/sys/{key}").strip()

    def host_mtu(self, host):
        link, = json.loads(run("ip", "-j", "link", "show", host))
        return link["mtu"]

    def files(self):
        return sorted(os.listdir(DATA)) if os.path.isdir(DATA) else []

    def test_ADD_sets_all_of_it_CHECK_agrees_and_DEL_restores_all_of_it(self):
        pod, host, result = self.pair()
        before = self.seen(pod)
        added = self.call("ADD", config(**EVERYTHING), pod, result)
        self.assertTrue(added.ok, added)
        self.assertEqual(added.json["interfaces"][1]["mac"], MAC)
        self.assertEqual(added.json["ips"], result["ips"])
        self.assertEqual(self.seen(pod), {"mac": MAC, "promisc": True, "mtu": 1300, "allmulti": True, "txQLen": 77,
                                          "arp_filter": "1", "ports": "2000\t3000"})
        self.assertEqual(self.host_mtu(host), 1300)
        checked = self.call("CHECK", config(**EVERYTHING), pod, added.json)
        self.assertTrue(checked.ok, checked)
        for _ in range(2):
            self.assertTrue(self.call("DEL", config(**EVERYTHING), pod, added.json).ok)
            self.assertEqual(self.seen(pod), before)
        self.assertEqual(self.host_mtu(host), 1500)
        self.assertEqual(self.files(), [])

    @suite.cases([("dots and slashes", ("net.core.somaxconn", "net/core/somaxconn")),
                  ("a name and IFNAME", ("net.ipv4.conf.IFNAME.arp_filter", "net.ipv4.conf.eth0.arp_filter")),
                  ("a dot in a name", ("net/ipv4/conf/eth0.1/arp_filter", "net.ipv4.conf.eth0/1.arp_filter"))])
    def two_values_of_a_sysctl_in_two_notations_are_refused(self, keys):
        pod, _, result = self.pair()
        before = pod_snapshot(pod)
        for conf in ({"sysctl": dict(zip(keys, "01"))}, {"args": {"cni": {"sysctl": dict(zip(keys, "01"))}}}):
            error = self.assert_error(self.call("ADD", config(**conf), pod, result), 7, "two values")
            for key in keys:
                self.assertIn(f'"{key}"', error["msg"])
        self.assert_same(before, pod_snapshot(pod))

    def test_args_override_a_sysctl_in_another_notation(self):
        pod, _, result = self.pair()
        conf = config(sysctl={"net.core.somaxconn": "5", "net/core/somaxconn": "0x5"},
                      args={"cni": {"sysctl": {"net/core/somaxconn": "7"}}})
        self.assert_ok(self.call("ADD", conf, pod, result))
        self.assertEqual(self.sysctl(pod, "net/core/somaxconn"), "7")
        self.assert_ok(self.call("CHECK", conf, pod, result))

    @suite.cases([(key, key) for key in SETTINGS])
    def one_setting_alone_and_from_args(self, key):
        for conf in (config(**{key: EVERYTHING[key]}), config(args={"cni": {key: EVERYTHING[key]}})):
            pod, _, result = self.pair()
            before = self.seen(pod)
            added = self.call("ADD", conf, pod, result)
            self.assertTrue(added.ok, added)
            self.assertEqual(self.seen(pod), before | {key: EVERYTHING[key]})
            kept, = self.files()
            with open(f"{DATA}/{kept}", encoding="utf-8") as file:
                self.assertEqual(json.load(file)[key], before[key])
            self.assertTrue(self.call("CHECK", conf, pod, added.json).ok)
            self.assertTrue(self.call("DEL", conf, pod).ok)
            self.assertEqual(self.seen(pod), before)

    def below(self, kind, host, *more):
        """Makes the host veth a port of a new link of that kind, with another port."""
        run("ip", "link", "add", "upper0", "type", kind, *more)
        run("ip", "-batch", "-", stdin="link add other0 type veth peer other1\nlink set upper0 up\n"
            f"link set other0 master upper0\nlink set {host} master upper0\n")

    def test_the_MTU_of_a_pod_is_not_that_of_the_bridge_that_others_share(self):
        pod, host, result = self.pair()
        self.below("bridge", host)
        before = [self.host_mtu(name) for name in (host, "upper0", "other0")]
        conf = config(mtu=1300)
        for verb in ("ADD", "CHECK", "ADD"):
            self.assert_ok(self.call(verb, conf, pod, result))
            self.assertEqual(self.seen(pod)["mtu"], 1300)
            self.assertEqual([self.host_mtu(name) for name in (host, "upper0", "other0")], before)
        pod.run("ip", "link", "set", "eth0", "mtu", "1200")
        self.assert_error(self.call("CHECK", conf, pod, result), 999, "MTU of eth0 is 1300, current value is 1200")
        self.assert_ok(self.call("REPAIR", conf, pod, result))
        self.assertEqual([self.host_mtu(name) for name in (host, "upper0", "other0")], before)
        self.assert_ok(self.call("DEL", conf, pod))
        self.assertEqual(self.seen(pod)["mtu"], 1500)

    def test_a_host_veth_in_a_VRF_follows(self):
        if reason := lack("vrf"):
            self.skipTest(reason)
        pod, host, result = self.pair()
        self.below("vrf", host, "table", "9")
        self.assert_ok(self.call("ADD", config(mtu=1300), pod, result))
        self.assertEqual((self.host_mtu(host), self.host_mtu("other0")), (1300, 1500))
        self.assert_ok(self.call("DEL", config(), pod))
        self.assertEqual(self.host_mtu(host), 1500)

    @suite.cases([("bridge", "bridge"), ("none", None)])
    def a_pod_of_the_reference_plugin_has_no_fault_and_REPAIR_changes_nothing_if_the_master_of_its_host_veth_is(self, kind):
        pod, host, result = self.pair()
        if kind:
            self.below(kind, host)
        os.makedirs(DATA)
        with open(f"{DATA}/{pod.name}_eth0.json", "w", encoding="utf-8") as file:
            file.write('{\n "sysctl": null,\n "mtu": 1500\n}')
        pod.run("ip", "link", "set", "eth0", "mtu", "1400")
        for verb in ("CHECK", "REPAIR", "CHECK"):
            self.assert_ok(self.call(verb, config(mtu=1400), pod, result))
            self.assertEqual((self.seen(pod)["mtu"], self.host_mtu(host)), (1400, 1500))
        self.assert_ok(self.call("DEL", config(mtu=1400), pod))
        self.assertEqual((self.seen(pod)["mtu"], self.host_mtu(host)), (1500, 1500))

    def test_second_ADD_does_not_forget_what_was_first(self):
        pod, _, result = self.pair()
        before = self.seen(pod)
        for mtu in (1300, 1250):
            self.assertTrue(self.call("ADD", config(**EVERYTHING | {"mtu": mtu}), pod, result).ok)
        self.assertEqual(self.seen(pod)["mtu"], 1250)
        self.assertTrue(self.call("DEL", config(**EVERYTHING), pod).ok)
        self.assertEqual(self.seen(pod), before)

    @suite.cases(rows([("a sysctl that is refused", {"sysctl": {
        "net.ipv4.conf.IFNAME.arp_filter": "1", "net.ipv4.ip_local_port_range": "ports"}}, "net/ipv4/ip_local_port_range"),
        ("a sysctl that does not exist", {"sysctl": {
            "net.ipv4.conf.IFNAME.arp_filter": "1", "net.ipv4.absent": "1"}}, "no such file or directory"),
        ("an interface that is missing", {"sysctl": {"net.ipv4.ip_local_port_range": "2000 3000"}, "mtu": 1300},
         "Link not found")]))
    def failed_ADD_leaves_everything_as_it_was(self, row):
        keys, text = row
        pod, _, result = self.pair()
        before = self.seen(pod)
        failed = self.call("ADD", config(**keys), pod, result, ifname="eth9" if "Link" in text else "eth0")
        self.assertFalse(failed.ok)
        self.assertIn(text, failed.stdout)
        self.assertEqual(self.seen(pod), before)
        self.assertEqual(self.files(), [])

    def test_link_settings_of_which_the_kernel_refuses_one_are_all_taken_back(self):
        pod, _, result = self.pair()
        pod.run("ip", "link", "add", "link", "eth0", "name", "mv0", "type", "macvlan")
        before = self.seen(pod, "mv0")
        keys = EVERYTHING | {"mtu": 9000, "sysctl": {"net.ipv4.ip_local_port_range": "2000 3000"}}
        failed = self.call("ADD", config(**keys), pod, result, ifname="mv0")
        self.assertIn("configure 'mv0'", failed.stdout)  # a macvlan's MTU is at most its parent's
        self.assertEqual(self.seen(pod, "mv0"), before)
        self.assertEqual(self.files(), [])

    def test_a_MAC_address_that_is_in_use_is_named_and_who_has_it(self):
        pod, host, result = self.pair()
        pod.run("ip", "link", "add", "link", "eth0", "name", "mv0", "type", "macvlan")
        pod.run("ip", "link", "add", "link", "eth0", "name", "mv1", "type", "macvlan")
        another = self.pod()
        for name, where in (("mv2", pod), ("mv3", another), ("mv4", pod)):
            run("ip", "link", "add", "link", host, "name", name, "netns", where.name, "type", "macvlan")
            where.run("ip", "link", "set", name, "up")
        pod.run("ip", "link", "set", "mv1", "up")
        host_mac = json.loads(run("ip", "-j", "link", "show", host))[0]["address"]
        other_mac = json.loads(another.run("ip", "-j", "link", "show", "mv3"))[0]["address"]
        for name, taken, who in (("mv0", self.seen(pod)["mac"], "link 'eth0'"),
                                 ("mv0", self.seen(pod, "mv1")["mac"], "link 'mv1'"),
                                 ("mv2", host_mac, f"link '{host}'"),
                                 ("mv2", other_mac, f"the interface of another pod on '{host}'"),
                                 ("mv2", self.seen(pod, "mv4")["mac"], "link 'mv4' of the same namespace")):
            before = self.seen(pod, name)
            failed = self.assert_error(self.call("ADD", config(mac=taken), pod, result, ifname=name), 999)
            self.assertTrue(failed["msg"].endswith(": address already in use"), failed)
            self.assertIn(f"the MAC address {taken} is in use: {who} has it", failed["details"])
            self.assertEqual(self.seen(pod, name), before)

    def test_modes_are_taken_back_where_a_later_change_fails(self):
        pod, host, result = self.pair()
        before = self.seen(pod)
        os.makedirs(DATA, exist_ok=True)
        keys = {key: EVERYTHING[key] for key in SETTINGS}
        # No answer arrives from the fifth on: what was asked is done, and nobody knows.
        failed = self.call("ADD", config(**keys), pod, result,
                           wrap=["strace", "-qq", "-o", "/dev/null", "-e", "inject=recvmsg:error=EAGAIN:when=5+"])
        self.assertFalse(failed.ok)
        self.assertEqual(self.seen(pod), before)

    def test_failed_second_ADD_leaves_what_the_first_made(self):
        pod, _, result = self.pair()
        first = config(sysctl={"net.ipv4.conf.IFNAME.arp_filter": "1"}, mtu=1300)
        before = self.seen(pod)
        self.assertTrue(self.call("ADD", first, pod, result).ok)
        made, files = self.seen(pod), self.files()
        bad = config(sysctl={"net.ipv4.conf.IFNAME.arp_filter": "0", "net.ipv4.ip_local_port_range": "x"}, mtu=1200)
        self.assertFalse(self.call("ADD", bad, pod, result).ok)
        self.assertEqual((self.seen(pod), self.files()), (made, files))
        self.assertTrue(self.call("DEL", first, pod).ok)
        self.assertEqual(self.seen(pod), before)

    def test_sysctls_are_set_in_the_order_of_the_config(self):
        pod, _, result = self.pair()
        # Forwarding of "all" is copied to each interface, so that the last one counts.
        one, every = '"net.ipv4.conf.eth0.forwarding": "1"', '"net.ipv4.conf.all.forwarding": "0"'
        for first, second, value in ((one, every, "0"), (every, one, "1")):
            self.sysctl(pod, "net/ipv4/conf/all/forwarding", "1")
            text = json.dumps(config(prevResult=result))[:-1] + f', "sysctl": {{{first}, {second}}}}}'
            added = cni("tuning", "ADD", text, netns=pod.path, container=pod.name)
            self.assertTrue(added.ok, added)
            self.assertEqual(self.sysctl(pod, "net/ipv4/conf/eth0/forwarding"), value)
            self.assertTrue(self.call("DEL", config(), pod).ok)
            self.assertEqual(self.sysctl(pod, "net/ipv4/conf/eth0/forwarding"), "1")

    def test_dots_of_a_link_name_are_told_from_separators(self):
        pod, _, result = self.pair()
        pod.run("ip", "link", "set", "eth0", "down")
        pod.run("ip", "link", "set", "eth0", "name", "eth0.100")
        result["interfaces"][1]["name"] = "eth0.100"
        for key in ("net.ipv4.conf.IFNAME.arp_filter", "net/ipv4/conf/IFNAME/arp_filter",
                    "net/ipv4/conf/eth0.100/arp_filter", "net.ipv4.conf.eth0/100.arp_filter",
                    "net/ipv4/conf.IFNAME.arp_filter"):
            conf = config(sysctl={key: "1"})
            added = self.call("ADD", conf, pod, result, ifname="eth0.100")
            self.assertTrue(added.ok, f"{key}: {added}")
            self.assertEqual(self.sysctl(pod, "net/ipv4/conf/eth0.100/arp_filter"), "1", key)
            self.assertTrue(self.call("DEL", conf, pod, ifname="eth0.100").ok)
            self.assertEqual(self.sysctl(pod, "net/ipv4/conf/eth0.100/arp_filter"), "0", key)

    def traced(self, pod, verb, conf, result, **options):
        """What the plugin said, and the calls by which it opened something below /proc/sys, as strace saw it."""
        trace = f"/run/trace-{pod.name}"
        outcome = self.call(verb, conf, pod, result, **options, wrap=[
            "strace", "-f", "-o", trace, "-e", "trace=open,openat,openat2,setns,mount,chdir,fchdir,chroot"])
        with open(trace, encoding="utf-8", errors="replace") as file:
            calls = file.read().splitlines()
        os.unlink(trace)
        self.assertTrue(calls, "strace saw nothing")
        return outcome, [line for line in calls if "/proc" in line or "openat2" in line or "setns" in line]

    @suite.cases([(repr(key), key) for key in HOSTILE_KEYS])
    def no_key_leads_out_of_the_pods_settings(self, key):
        if have("strace"):  # the one that is missing
            self.skipTest("strace is not installed")
        pod, _, result = self.pair()
        before = self.seen(pod)
        conf = config(sysctl={"net.ipv4.conf.IFNAME.arp_filter": "1", key: "1"})
        failed, opened = self.traced(pod, "ADD", conf, result)
        self.assertEqual(failed.json["code"], 7, failed)
        self.assertIn("invalid net sysctl key", failed.json["msg"])
        self.assertEqual(opened, [], "neither a setting nor the pod's namespace is opened")
        self.assertEqual(self.seen(pod), before)

    @suite.cases([(repr(name), name) for name in HOSTILE_NAMES])
    def no_interface_name_leads_out_of_the_pods_settings(self, name):
        if have("strace"):  # the one that is missing
            self.skipTest("strace is not installed")
        pod, _, result = self.pair()
        before = self.seen(pod)
        conf = config(sysctl={"net.ipv4.conf.IFNAME.arp_filter": "1", "net/ipv4/conf/IFNAME/forwarding": "1"})
        failed, opened = self.traced(pod, "ADD", conf, result, ifname=name)
        self.assertFalse(failed.ok, failed)
        self.assertEqual(self.beyond_net(opened), [])
        self.assertEqual(self.seen(pod), before)
        self.assertEqual(self.files(), [])

    def beyond_net(self, opened):
        """What of /proc/sys was opened but the directory net, in the pod's namespace, and what is beneath it."""
        inside, out = 0, []
        for line in opened:
            if "setns(" in line:
                inside = 1 - inside
            elif "/proc/sys" in line and '"/proc/sys/net"' not in line:
                out.append(line)
            elif "openat2(" in line and ("RESOLVE_BENEATH" not in line or not inside):
                out.append(line)
        return out

    def test_nothing_of_proc_sys_but_the_pods_net_is_opened(self):
        if have("strace"):  # the one that is missing
            self.skipTest("strace is not installed")
        pod, _, result = self.pair()
        conf = config(sysctl={"net.ipv4.conf.IFNAME.arp_filter": "1", "net/ipv4/conf/eth0/log_martians": "1"})
        for verb in ("ADD", "CHECK", "REPAIR", "DEL"):
            done, opened = self.traced(pod, verb, conf, result)
            self.assertTrue(done.ok, done)
            self.assertTrue([line for line in opened if "openat2(" in line], opened)
            self.assertEqual(self.beyond_net(opened), [])

    def test_64_pods_at_once_have_their_settings_and_get_them_back(self):
        pods = [self.pair() for _ in range(64)]
        before = [self.seen(pod) for pod, _, _ in pods]
        for verb in ("ADD", "DEL"):
            outcomes = finish_all([
                start("tuning", verb, config(prevResult=result, **EVERYTHING | {"mac": f"02:00:5e:00:00:{n:02x}"}),
                      netns=pod.path, container=pod.name) for n, (pod, _, result) in enumerate(pods)])
            self.assertEqual([str(outcome) for outcome in outcomes if not outcome.ok], [])
            if verb == "ADD":
                self.assertEqual([self.seen(pod)["mac"] for pod, _, _ in pods],
                                 [f"02:00:5e:00:00:{n:02x}" for n in range(64)])
        self.assertEqual([self.seen(pod) for pod, _, _ in pods], before)
        self.assertEqual(self.files(), [])

    def test_CHECK_names_what_was_changed_and_REPAIR_sets_it_again(self):
        pod, _, result = self.pair()
        added = self.call("ADD", config(**EVERYTHING), pod, result)
        changes = [(("sh", "-c", f"echo 0 > /proc/sys/{ARP}"), "arp_filter is 1, current value is 0"),
                   (("ip", "link", "set", "eth0", "mtu", "1400"), "MTU of eth0 is 1300, current value is 1400"),
                   (("ip", "link", "set", "eth0", "promisc", "off"), "promisc"),
                   (("ip", "link", "set", "eth0", "allmulticast", "off"), "all-multicast mode"),
                   (("ip", "link", "set", "eth0", "txqueuelen", "5"), "Transmit Queue Length"),
                   (("ip", "link", "set", "eth0", "address", "02:00:5e:99:99:99"), "Ethernet")]
        wanted = self.seen(pod)
        for command, text in changes:
            pod.run(*command)
            checked = self.call("CHECK", config(**EVERYTHING), pod, added.json)
            self.assertFalse(checked.ok, command)
            self.assertIn(text, checked.json["msg"])
            self.assertIn("Error: Tuning ", checked.json["msg"])
            repaired = self.call("REPAIR", config(**EVERYTHING), pod, added.json)
            self.assertTrue(repaired.ok, repaired)
            self.assertEqual(self.seen(pod), wanted)

    @suite.cases(rows([
        ("tabs", "net.ipv4.ip_local_port_range", "2000 3000"), ("tabs in the config", "net.ipv4.ip_local_port_range", "2000\t3000"),
        ("hexadecimal", "net.ipv4.conf.IFNAME.arp_filter", "0x1"), 
        ("joined ranges", "net.ipv4.ip_local_reserved_ports", "8081,8080,8082,9000-9001"),
        ("an empty list", "net.ipv4.ip_local_reserved_ports", ""), ("a newline", "net.ipv4.conf.IFNAME.arp_filter", "1\n")]))
    def CHECK_compares_values_and_not_texts(self, row):
        key, value = row
        pod, _, result = self.pair()
        self.sysctl(pod, "net/ipv4/ip_local_reserved_ports", "7000")
        conf = config(sysctl={key: value})
        added = self.call("ADD", conf, pod, result)
        self.assertTrue(added.ok, added)
        checked = self.call("CHECK", conf, pod, added.json)
        self.assertTrue(checked.ok, checked)
        self.assertTrue(self.call("DEL", conf, pod).ok)
        self.assertEqual(self.sysctl(pod, "net/ipv4/ip_local_reserved_ports"), "7000")

    def test_DEL_without_namespace_or_config_removes_the_files_and_touches_no_other_pod(self):
        pod, _, result = self.pair()
        self.assertTrue(self.call("ADD", config(**EVERYTHING), pod, result).ok)
        self.assertEqual(len(self.files()), 1)
        other, _, _ = self.pair()
        other.run("ip", "link", "set", "eth0", "mtu", "1234")
        before = self.seen(other)
        # A late DEL: the path is another pod's by now.
        late = self.call("DEL", config(args={"cni": {"mtu": "bad"}}), pod, netns=other.path, args="FOO=bar")
        self.assertTrue(late.ok, late)
        self.assertEqual(self.seen(other), before)
        self.assertEqual(self.files(), [])
        self.assertTrue(self.call("ADD", config(**EVERYTHING), pod, result).ok)
        self.assertTrue(self.call("DEL", config(), pod, netns="").ok)
        self.assertEqual(self.files(), [])

    def test_GC_restores_what_is_not_listed_and_leaves_other_networks(self):
        pods = [self.pair() for _ in range(3)]
        before = self.seen(pods[0][0])
        for (pod, _, result), network in zip(pods, ("net1", "net1", "net2")):
            self.assertTrue(self.call("ADD", config(sysctl=EVERYTHING["sysctl"]) | {"name": network}, pod, result).ok)
        valid = [{"containerID": pods[1][0].name, "ifname": "eth0"}]
        self.assertTrue(cni("tuning", "GC", config()).ok)
        self.assertEqual(len(self.files()), 3)
        self.assertTrue(cni("tuning", "GC", config() | {"cni.dev/valid-attachments": valid}).ok)
        self.assertEqual(self.seen(pods[0][0])["arp_filter"], before["arp_filter"])
        self.assertEqual([self.seen(pod)["arp_filter"] for pod, _, _ in pods[1:]], ["1", "1"])
        self.assertEqual(len(self.files()), 2)

    def test_a_torn_file_holds_up_nothing(self):
        pod, _, result = self.pair()
        os.makedirs(DATA, exist_ok=True)
        for content in ("", "{"):
            with open(f"{DATA}/{pod.name}_eth0.json", "w", encoding="utf-8") as file:
                file.write(content)
            self.assertTrue(self.call("ADD", config(**EVERYTHING), pod, result).ok)
            self.assertTrue(self.call("DEL", config(**EVERYTHING), pod).ok)
            self.assertEqual(self.files(), [])

    def allow(self, text):
        os.makedirs(os.path.dirname(ALLOWLIST), exist_ok=True)
        with open(ALLOWLIST, "w", encoding="utf-8") as file:
            file.write(text)
        self.addCleanup(lambda: os.path.lexists(ALLOWLIST) and os.unlink(ALLOWLIST))

    @suite.cases(rows([
        ("the key", "^net\\.ipv4\\.conf\\.IFNAME\\.arp_filter$\n", True), ("a part of it", "\n  arp_f  \n", True),
        ("a second line", "nothing\nconf\\.IFNAME\\.[a-z_]*$", True), ("another", "^net.ipv4.conf.eth0.arp_filter$", False),
        ("nothing", "", False), ("blank lines", "\n \n", False), ("no regular expression", "arp_filter\n(", False),
        ("a class of RE2", "net\\.ipv4\\.conf\\.\\w+\\.arp_filter", True), ("digits of RE2", "arp\\d|arp_filter", False),
        ("a group of RE2", "(?:arp_filter)", False), ("a lazy repetition", ".*?arp_filter", False)]))
    def allowlist_with(self, row):
        text, is_allowed = row
        pod, _, result = self.pair()
        self.allow(text)
        conf = config(sysctl={"net.ipv4.conf.IFNAME.arp_filter": "1"})
        added = self.call("ADD", conf, pod, result)
        self.assertEqual(added.ok, is_allowed, added)
        self.assertEqual(self.sysctl(pod, ARP), "1" if is_allowed else "0")
        self.assertEqual(cni("tuning", "STATUS", conf).ok, is_allowed)
        self.assertTrue(self.call("ADD", config(mtu=1300), pod, result).ok)  # no sysctl
        self.assertTrue(self.call("DEL", conf, pod).ok)

    def test_allowlist_that_cannot_be_read_allows_nothing(self):
        pod, _, result = self.pair()
        conf = config(sysctl={"net.ipv4.conf.IFNAME.arp_filter": "1"})
        os.makedirs(os.path.dirname(ALLOWLIST), exist_ok=True)
        for make in (lambda: os.mkdir(ALLOWLIST), lambda: os.symlink("/absent", ALLOWLIST), lambda: os.mkfifo(ALLOWLIST)):
            make()
            failed = self.call("ADD", conf, pod, result)
            os.rmdir(ALLOWLIST) if os.path.isdir(ALLOWLIST) else os.unlink(ALLOWLIST)
            self.assertIn("the allowlist of sysctls cannot be read", failed.json["msg"])
        self.assertEqual(self.sysctl(pod, ARP), "0")

    @suite.cases(rows([
        ("a number as value", {"sysctl": {"net.ipv4.ip_forward": 1}}, 7, 'sysctl["net.ipv4.ip_forward"]'),
        ("a relative dataDir", {"dataDir": "tmp"}, 7, "dataDir"),
        ("no prevResult", {"prevResult": None}, 7, "Required prevResult missing")]))
    def bad_input_with(self, row):
        keys, code, text = row
        pod, _, result = self.pair()
        before = self.seen(pod)
        failed = cni("tuning", "ADD", config(prevResult=result) | keys, netns=pod.path, container=pod.name)
        self.assertEqual(failed.json["code"], code, failed)
        self.assertIn(text, failed.json["msg"])
        self.assertEqual(self.seen(pod), before)

    def test_keys_that_are_there_twice_are_refused(self):
        pod, _, result = self.pair()
        text = json.dumps(config(sysctl={"net.ipv4.ip_forward": "1", "X": "0"}, prevResult=result))
        failed = cni("tuning", "ADD", text.replace('"X"', '"net.ipv4.ip_forward"'), netns=pod.path, container=pod.name)
        self.assertEqual(failed.json["code"], 7)
        self.assertIn("duplicated sysctl keys are not allowed", failed.json["msg"])

    @suite.cases(rows([("the config", {"mac": MAC}, ""), ("CNI_ARGS", {"mac": "02:00:5e:99:99:99"}, f"IgnoreUnknown=true;MAC={MAC}"),
                  ("runtimeConfig", {"RuntimeConfig": {"mac": MAC}}, "MAC=02:00:5e:99:99:99"),
                  ("args", {"args": {"cni": {"mac": MAC}}, "runtimeConfig": {"mac": "02:00:5e:99:99:99"}}, "")]))
    def MAC_address_is_that_of(self, row):
        keys, args = row
        pod, _, result = self.pair()
        added = self.call("ADD", config(**keys), pod, result, args=args)
        self.assertTrue(added.ok, added)
        self.assertEqual((self.seen(pod)["mac"], added.json["interfaces"][1]["mac"]), (MAC, MAC))

    def test_neighbours_learn_the_new_MAC_address(self):
        pod, host, result = self.pair()
        run("ip", "address", "add", "10.7.0.1/24", "dev", host)
        run("ping", "-c1", "-W2", "10.7.0.2")
        self.assertTrue(self.call("ADD", config(mac=MAC), pod, result).ok)
        neighbour, = json.loads(run("ip", "-j", "neigh", "show", "10.7.0.2", "dev", host))
        self.assertEqual(neighbour["lladdr"], MAC)

    @suite.cases(rows([("both follow", {}, 1400), ("unless told not to", {"mtuBothEnds": False}, 1500)]))
    def MTU_of_the_host_veth(self, row):
        keys, mtu = row
        pod, host, result = self.pair()
        self.assertTrue(self.call("ADD", config(mtu=1400, **keys), pod, result).ok)
        self.assertEqual(self.host_mtu(host), mtu)

    def test_host_veth_that_is_another_attachments_keeps_its_MTU(self):
        pod, host, result = self.pair()
        run("ip", "link", "set", host, "alias", "0123456789abcdef-0123456789abcdef, net: net9, if: eth0, id: other")
        self.assertTrue(self.call("ADD", config(mtu=1400), pod, result).ok)
        self.assertEqual(self.host_mtu(host), 1500)

    @suite.cases(rows([("ours to the reference's", OURS, REFERENCE), ("the reference's to ours", REFERENCE, OURS)]))
    def what_one_changed_the_other_restores(self, row):
        first, second = row
        if not os.path.exists(f"{REFERENCE}/tuning"):
            self.skipTest("the reference plugins are not installed")
        pod, _, result = self.pair()
        conf = config("1.0.0", mac=MAC, promisc=True, mtu=1300, allmulti=True, sysctl=EVERYTHING["sysctl"])
        result["cniVersion"] = "1.0.0"
        before = self.seen(pod)
        added = self.call("ADD", conf, pod, result, directory=first)
        self.assertTrue(added.ok, added)
        self.assertTrue(self.call("DEL", conf, pod, directory=second).ok)
        after = self.seen(pod)
        self.assertEqual({key: after[key] for key in SETTINGS}, {key: before[key] for key in SETTINGS})


if __name__ == "__main__":
    suite.main(needs=("ping",))
