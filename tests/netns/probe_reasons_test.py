#!/usr/bin/env python3
"""The kernel's own reasons for drops, by which `cnitool probe` names what is no rule of nf_tables. Their numbers differ from
kernel to kernel: each kernel of tests/other_kernels.cmake makes these rows on one node, because a node takes longer there than
a row, and those of the other tables that this machine's kernel may lack."""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import probe_filters_test  # noqa: E402
import probe_links_test  # noqa: E402
import probe_routes_test  # noqa: E402
import probe_settings_test  # noqa: E402
from support import bpf, guest, suite  # noqa: E402
from support.troubles import TroubleTest, current_node, words  # noqa: E402

MODULES = ("nf_tables", "nft_reject_inet", "sch_ingress", "cls_bpf", "cls_matchall", "cls_u32", "act_gact", "act_police", "act_mirred", "sch_tbf",
           "sch_netem", "sch_prio", "vrf", "dummy", "ip_tables", "iptable_raw", "iptable_filter")
ROWS = [
    ("TC_INGRESS", words("tc qdisc add dev {va} clsact; tc filter add dev {va} ingress pref 7 bpf da bytecode '1,6 0 0 2'",
                         "a filter of tc drops packets received at link '{va}': bpf of priority 7", undo="tc qdisc del dev {va} clsact", heals=False)),
    ("QDISC_DROP", words("tc qdisc add dev {va} root tbf rate 1mbit burst 200 limit 3000", "the queue drops packets at link '{va}': qdisc tbf, packets of 1500 bytes",
                         undo="tc qdisc del dev {va} root", heals=False)),
    ("NETFILTER_DROP", words("iptables-legacy -t raw -I PREROUTING -s {a} -j DROP", "has dropped packets: -t raw -A PREROUTING -s {a}/32 -j DROP",
                             undo="iptables-legacy -t raw -F")),
]


def rows_of(test, *parts):
    """Those of another table."""
    return [(label, row) for label, row in test.ROWS if any(part in label for part in parts)]


LACKED = [*rows_of(probe_filters_test, "tc ", "netem", "tbf", "qdisc"), *rows_of(probe_links_test, "VLAN", "VRF"),
          *rows_of(probe_routes_test, "nexthop")]


@suite.spread
class Reasons(TroubleTest):
    def setUp(self):
        guest.load(*MODULES)
        super().setUp()

    @suite.cases(ROWS + rows_of(probe_settings_test, "rp_filter of another link") + (LACKED if os.environ.get("PATCHBAY_GUEST") else []))
    def is_put_into_words(self, row):
        if "iptables-legacy" in row["make"] and (shutil.which("iptables-legacy") is None or
                                                 subprocess.run(["iptables-legacy", "-S"], capture_output=True, check=False).returncode):
            self.skipTest("needs iptables-legacy")
        self.assert_named(row)

    def test_XDP_is_put_into_words(self):
        bpf.attach_xdp(bpf.load("xdp", bpf.XDP_DROP), current_node().names["va"], "xdpgeneric")
        self.assert_named(words("true", "an XDP program drops packets at link '{va}': 'test' (id ", undo="ip link set dev {va} xdpgeneric off"))

    def test_XDP_of_the_uplink_that_sends_answers_back_is_named(self):
        bpf.attach_xdp(bpf.load("xdp", bpf.XDP_TX), "up0", "xdpgeneric")
        self.assert_named(words("ip neigh flush dev up0", "has no MAC address on 'up0'", "or the XDP program 'test' (id ", heals=False,
                                undo="ip link set dev up0 xdpgeneric off; ip neigh flush dev up0"))

    def test_a_gateway_that_answers_no_echo_is_no_finding_whatever_the_uplink_has(self):
        node = current_node()
        node.shell("ip netns exec outside sysctl -qw net.ipv4.icmp_echo_ignore_all=1")
        bpf.attach_xdp(bpf.load("xdp", bpf.XDP_PASS), "up0", "xdpgeneric")
        for make, undo in (("true", "ip link set dev up0 xdpgeneric off"), ("tc qdisc add dev up0 root tbf rate 100mbit burst 20000 limit 300000", "tc qdisc del dev up0 root"),
                           ("tc qdisc add dev up0 clsact; tc filter add dev up0 ingress pref 7 bpf da bytecode '1,6 0 0 0'", "tc qdisc del dev up0 clsact")):
            node.shell(make)
            self.assert_silent(node, make)
            node.shell(undo)
        node.shell("ip netns exec outside sysctl -qw net.ipv4.icmp_echo_ignore_all=0")


if __name__ == "__main__":
    suite.main()
