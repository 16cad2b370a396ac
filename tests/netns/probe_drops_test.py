#!/usr/bin/env python3
"""`cnitool probe` names by the kernel's own reasons what takes packets where no rule of nf_tables does: kernel settings,
filters and queues of tc, XDP, bridge ports, the routing policy, rules of iptables-legacy and in pods."""

import json
import os
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import bpf, suite  # noqa: E402
from support.cnitool import cnitool, environment  # noqa: E402
from support.doctor import BIN, shell  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.probe import FAST, ProbeTest  # noqa: E402
from support.world import mount, run, wait_for  # noqa: E402

BIND = 4096


class DropsTest(ProbeTest):
    def host_veth(self, pod):
        index = json.loads(pod.run("ip", "-j", "link", "show", "eth0"))[0]["link_index"]
        return next(one["ifname"] for one in json.loads(run("ip", "-j", "link")) if one["ifindex"] == index)

    def assert_finds(self, *causes):
        """A finding for each of these, in one run: the remedies."""
        answer = self.probe()
        self.limits = answer["limits"]
        unseen = [one for one in self.limits if "own reasons for drops" in one]
        if unseen:
            self.skipTest(unseen[0])
        remedies = []
        for cause in causes:
            mine = [one for one in answer["findings"] if cause in one["what"]]
            self.assertEqual(len(mine), 1, f"{cause}: {json.dumps(answer['findings'], indent=1)}")
            remedies.append(mine[0]["remedy"])
        return remedies

    def assert_healed_by(self, remedies):
        for remedy in remedies:
            shell(remedy)
        self.assert_silent()


class Settings(DropsTest):
    def test_reverse_path_filtering_and_IPv6_that_is_disabled_in_a_pod(self):
        run("ip", "link", "add", "up1", "type", "veth", "peer", "name", "eth1", "netns", "outside")
        run("ip", "addr", "add", "203.0.113.1/24", "dev", "up1")
        run("ip", "link", "set", "up1", "up")
        mac = json.loads(run("ip", "-j", "link", "show", "up1"))[0]["address"]
        for words in ("link set eth1 up", "addr add 203.0.113.2/24 dev eth1",
                      f"neigh add 203.0.113.1 dev eth1 lladdr {mac}", "route add 192.0.2.1/32 via 203.0.113.1 dev eth1"):
            run("ip", "-n", "outside", *words.split())
        run("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1")
        self.pods[0].run("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=1")
        remedies = self.assert_finds("reverse path filtering drops packets from 192.0.2.2 at link 'up1'",
                                     "net/ipv6/conf/eth0/disable_ipv6 is 1")
        shell(remedies[0])
        self.pods[1].run("ping", "-c1", "-W2", "192.0.2.2")
        self.assertTrue(remedies[1].startswith("restart the pod "))  # its addresses are lost

    def test_an_ARP_that_is_ignored_while_pods_know_the_answer(self):
        for pod in self.pods:
            pod.run("ping", "-c1", "-W2", "10.1.2.1")
        run("sysctl", "-qw", "net.ipv4.conf.cni0.arp_ignore=8")
        answer = self.probe()
        found = [one["what"] for one in answer["findings"]]
        self.assertEqual(len(found), 1, found)
        self.assertIn("does not answer ARP for its address 10.1.2.1 at 'cni0': net/ipv4/conf/cni0/arp_ignore is 8", found[0])
        self.assert_healed_by([answer["findings"][0]["remedy"]])


class Links(DropsTest):
    def test_a_filter_of_tc_and_an_XDP_program(self):
        first, second = (self.host_veth(pod) for pod in self.pods)
        run("tc", "qdisc", "add", "dev", first, "clsact")
        run("tc", "filter", "add", "dev", first, "ingress", "pref", "7", "bpf", "da", "bytecode", "1,6 0 0 2")  # TC_ACT_SHOT
        bpf.attach_xdp(bpf.load("xdp", bpf.XDP_DROP), second, "xdpgeneric")
        remedies = self.assert_finds(f"a filter of tc drops packets received at link '{first}': bpf of priority 7",
                                     f"an XDP program drops packets at link '{second}'")
        self.assertIn("bpf", subprocess.run(remedies[0], shell=True, check=True, capture_output=True, text=True).stdout)
        run("tc", "qdisc", "del", "dev", first, "clsact")
        self.assert_healed_by(remedies[1:])

    def test_a_queue_and_isolated_ports(self):
        first, second = (self.host_veth(pod) for pod in self.pods)
        run("tc", "qdisc", "add", "dev", first, "root", "tbf", "rate", "1mbit", "burst", "200", "limit", "3000")
        for port in (first, second):
            run("bridge", "link", "set", "dev", port, "isolated", "on")
        remedies = self.assert_finds(f"the queue drops packets at link '{first}': qdisc tbf, packets of 1500 bytes",
                                     "ports of bridge 'cni0' are isolated from each other")
        run("tc", "qdisc", "del", "dev", first, "root")
        self.assert_healed_by(remedies[1:])


class Rules(DropsTest):
    def test_a_mark_that_the_routing_policy_refuses_and_a_rule_in_a_pod(self):
        run("nft", "add table ip m; add chain ip m p { type filter hook prerouting priority -150; }; "
            "add rule ip m p iifname cni0 ip daddr 192.0.2.2 meta mark set 7")
        run("ip", "rule", "add", "fwmark", "7", "lookup", "99", "pref", "50")
        run("ip", "route", "add", "blackhole", "default", "table", "99")
        self.pods[0].run("nft", "add table ip6 x; add chain ip6 x i { type filter hook input priority 0; policy drop; }; "
                         "add rule ip6 x i icmpv6 type nd-neighbor-solicit accept; add rule ip6 x i icmpv6 type nd-neighbor-advert accept")
        self.assert_finds("rule of priority 50 (from all fwmark 0x7 lookup 99) leads packets to 'blackhole default'",
                          "chain 'i' of table ip6 x drops packets: policy drop")

    def test_a_rule_of_iptables_legacy(self):
        if shutil.which("iptables-legacy") is None:
            self.skipTest("needs iptables-legacy")
        try:
            run("iptables-legacy", "-L")
        except RuntimeError as reason:
            self.skipTest(str(reason))
        run("iptables-legacy", "-I", "FORWARD", "-s", "10.1.2.0/28", "-j", "DROP")
        remedies = self.assert_finds("a rule of iptables-legacy, which cannot be followed, has dropped packets: -A FORWARD -s 10.1.2.0/28 -j DROP")
        self.assertTrue(any("iptables-legacy (filter) are not traced" in one for one in self.limits), self.limits)
        self.assert_healed_by(remedies)


class Without(DropsTest):
    def test_a_kernel_without_its_types(self):
        os.mkdir("/run/none")
        mount("/run/none", "/sys/kernel/btf", flags=BIND)
        run("nft", "add table inet x; add chain inet x i { type filter hook input priority 0; policy drop; }")
        text = cnitool("probe", *FAST, CNI_PATH=BIN).stdout
        self.assertEqual(text.count("note: the kernel's own reasons for drops are not seen"), 1, text)
        self.assertIn("error chain 'i' of table inet x drops packets", text)

    def test_nothing_is_left_in_the_kernel_after_SIGKILL(self):
        self.pods[0].run("nft", "add table ip x; add chain ip x i { type filter hook input priority 0; policy drop; }")
        process = subprocess.Popen([os.path.join(OURS, "cnitool"), "probe", *FAST], env=environment(CNI_PATH=BIN),
                                   stdout=subprocess.DEVNULL)
        found = set(), set()
        def is_loaded():
            nonlocal found
            found = bpf.programs_and_maps_of(process.pid)
            return all(found) or process.poll() is not None
        wait_for(is_loaded, seconds=20, step=0.002)
        if process.poll() is not None:
            self.skipTest("this kernel takes no program of cnitool")
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_for(lambda: not any(bpf.exists(one) for one in found[0]) and not any(bpf.exists(one, True) for one in found[1]))


if __name__ == "__main__":
    suite.main()
