#!/usr/bin/env python3
"""Another program flushes and reloads its own rules, a hundred times, while hostPorts and masquerading
are used: no new connection is lost. After a flush of everything `cnitool repair` brings them back.

--table=FILE writes the figures into a document.
"""

import json
import os
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import damage, hostport, rows, suite  # noqa: E402
from support.cnitool import cnitool, use  # noqa: E402
from support.faults import figures  # noqa: E402
from support.firewall import BACKENDS as FIREWALLS, FirewallTest, knock, listen  # noqa: E402
from support.forked import Forked  # noqa: E402
from support.hostport import NODE, OUTSIDE, Server, Site  # noqa: E402
from support.portmap import BACKENDS  # noqa: E402
from support.world import CLONE_NEWNET, run, setns, wait_for  # noqa: E402

TABLE = next((a.split("=", 1)[1] for a in sys.argv if a.startswith("--table=")), None)
RELOADS = max(100 // rows.STEP, 20)
OVER = "/run/over"

FIREWALL = """
table inet firewall
delete table inet firewall
table inet firewall {
  set blocked { type ipv4_addr; elements = { 203.0.113.1, 203.0.113.2 }; }
  chain input { type filter hook input priority 0; policy accept; ip saddr @blocked drop; }
  chain forward { type filter hook forward priority 0; policy accept; ct state established accept; }
  chain nat { type nat hook postrouting priority 110; policy accept; oifname "none" masquerade; }
}
"""
# All tables of iptables-nft that it uses are its own, and replaced.
TABLES = """*nat
:PREROUTING ACCEPT
:POSTROUTING ACCEPT
:OURS -
-A POSTROUTING -o none -j OURS
-A OURS -j MASQUERADE
COMMIT
*filter
:FORWARD ACCEPT
:OURS -
-A FORWARD -j OURS
-A OURS -s 203.0.113.1 -j DROP
COMMIT
"""
# Beside others in the same tables: its own chains alone.
CHAINS = """*nat
:OURS -
-A OURS -o none -j MASQUERADE
COMMIT
*filter
:OURS -
-A OURS -s 203.0.113.1 -j DROP
COMMIT
"""


def of_nftables():
    run("nft", "-f", "-", stdin=FIREWALL)


def of_iptables():
    for tool in ("iptables-nft-restore", "ip6tables-nft-restore"):
        run(tool, stdin=TABLES if tool.startswith("iptables") else TABLES.replace("203.0.113.1", "::7"))


def in_shared_tables():
    for tool in ("iptables-nft-restore", "ip6tables-nft-restore"):
        run(tool, "--noflush",
            stdin=CHAINS if tool.startswith("iptables") else CHAINS.replace("203.0.113.1", "::7"))


# What leaves a namespace and what arrives, of packets that open a connection: sent twice may also be what was late.
COUNTERS = """table inet count {
  counter sent {}
  counter heard {}
  counter unmasqueraded {}
  chain prerouting {
    type filter hook prerouting priority -400;
    tcp flags syn iifname "eth0" ip saddr 10.1.2.0/24 counter name unmasqueraded
    tcp flags syn iifname "eth0" ip6 saddr fd00:1:2::/64 counter name unmasqueraded
  }
  chain input { type filter hook input priority 0; tcp flags syn counter name heard; }
  chain output { type filter hook output priority 0; tcp flags syn counter name sent; }
}
"""


def counted(pod):
    """{name: packets} of the counters in the pod."""
    listed = json.loads(pod.run("nft", "-j", "list", "counters"))["nftables"]
    return {one["counter"]["name"]: one["counter"]["packets"] for one in listed if "counter" in one}


def lost_between(one, other):
    """Packets that left either and did not arrive at the other."""
    here, there = counted(one), counted(other)
    return here["sent"] - there["heard"] + there["sent"] - here["heard"]


def connect(pod, address, port):
    """Connects to a server again and again, each time anew, as soon as it has answered."""
    setns(pod, CLONE_NEWNET)
    said = {"made": 0, "again": 0, "failed": 0, "wrong": []}
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    while not os.path.exists(OVER):
        try:
            with socket.socket(family) as one:
                one.settimeout(30)
                one.connect((address, port))
                info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
                one.recv(100)
            said["made"] += 1
            said["again"] += int.from_bytes(info[100:104], sys.byteorder)  # tcpi_total_retrans
        except OSError:
            said["failed"] += 1
    return said


@suite.spread
class Reloaded(suite.NodeTest):
    ROWS = []

    def prepare(self, row):
        backend, variant = row
        if variant and (reason := hostport.select_iptables(variant)):
            self.skipTest(reason)
        self.site = Site()
        for family in ("-4", "-6"):  # what is not masqueraded is lost outside
            self.site.outside.run("ip", family, "route", "del", "default")
        use({"cniVersion": "1.1.0", "name": "net", "plugins": [
            {"type": "bridge", "bridge": "cni0", "isDefaultGateway": True, "ipMasq": True,
             "ipMasqBackend": backend,
             "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}],
                                                       [{"subnet": "fd00:1:2::/64"}]]}},
            {"type": "portmap", "capabilities": {"portMappings": True}, "backend": backend}]})
        self.one = self.pod()
        self.assert_ok(cnitool("add", "net", self.one.path, CAP_ARGS={
            "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}))
        Server(self, "outside", (7000,), self.site.outside, protocols=("tcp",))
        Server(self, "pod", (80,), self.one, protocols=("tcp",))
        self.ways = [(f"{what}, IPv{family}", pod.path, address[family], port) for family in (4, 6)
                     for what, pod, address, port in (
                         ("hostPort", self.site.outside, NODE, 8080),
                         ("masquerading", self.one, OUTSIDE, 7000))]
        self.assertTrue(wait_for(self.works, 40))

    def works(self):
        asked = [(self.site.outside, NODE, 8080), (self.one, OUTSIDE, 7000)]
        return all(hostport.ask_one(pod, "tcp", address[family], port, 1).startswith(("pod", "outs"))
                   for pod, address, port in asked for family in (4, 6))

    @suite.cases([(f"{name}, beside {other.__name__.replace('_', ' ')}", (name, row, other))
                  for name, row in BACKENDS
                  for other in (of_nftables, of_iptables, in_shared_tables)
                  if row[0] == "nftables" or other is not of_iptables or row[1] == "legacy"])
    def no_connection_is_lost(self, case):
        name, row, other = case
        self.prepare(row)
        other()
        for pod in (self.one, self.site.outside):
            pod.run("nft", "-f", "-", stdin=COUNTERS)
        asking = [Forked(connect, *way[1:]) for way in self.ways]
        begin = time.monotonic()
        for _ in range(RELOADS):
            other()
            time.sleep(0.01)
        took = time.monotonic() - begin
        open(OVER, "w", encoding="ascii").close()
        told = [one.result() for one in asking]
        for (what, *_), said in zip(self.ways, told):
            self.assertEqual(said["wrong"], [])
            self.assertEqual(said["failed"], 0, f"{what}: {said}")
            self.assertGreater(said["made"], RELOADS, what)
        wait_for(lambda: lost_between(self.one, self.site.outside) == 0, 2)  # the last may be on its way
        lost = lost_between(self.one, self.site.outside)
        self.assertEqual((lost, counted(self.site.outside)["unmasqueraded"]), (0, 0), str(told))
        self.ROWS.append((name, other.__name__.replace("_", " "), RELOADS, f"{took:.1f}",
                          sum(said["made"] for said in told), lost, sum(said["failed"] for said in told)))
        print(f"     {self.ROWS[-1]}, {sum(said['again'] for said in told)} packets were late", flush=True)

    @suite.cases(BACKENDS)
    def repaired_after_everything_was_flushed(self, row):
        self.prepare(row)
        damage.flush_rules()
        self.assertFalse(self.works())
        repaired = cnitool("repair")
        self.assertEqual(repaired.status, 0, str(repaired))
        self.assertTrue(wait_for(self.works, 40))


@suite.spread
class Policies(FirewallTest):
    """Two pods of an isolated network, and one of another network with a policy."""

    @suite.cases([(f"{name}, beside {other.__name__.replace('_', ' ')}", (row, other))
                  for name, row in FIREWALLS for other in (of_nftables, of_iptables, in_shared_tables)])
    def no_policy_is_open_meanwhile(self, case):
        row, other = case
        self.use(row)
        self.set_bridge_netfilter(False)
        one, near, far = self.attach(1, "isolated"), self.attach(1, "isolated"), self.attach(2, "same-bridge")
        targets = [(pod.address[family], 5000) for pod in (near, far) for family in (4, 6)]
        knocking = Forked(knock, one.pod.path, targets)
        hearing = [Forked(listen, pod.pod.path, 5000) for pod in (near, far)]
        for _ in range(RELOADS):
            other()
            time.sleep(0.01)
        open(OVER, "w", encoding="ascii").close()
        self.assertGreater(knocking.result()["sent"], 10 * RELOADS)
        self.assertEqual([pod.result() for pod in hearing], [{"heard": 0, "wrong": []}] * 2)


def tell_all():
    head = ("patchbay's rules", "the other's rules, reloaded", "times", "in seconds",
            "connections meanwhile", "packets lost", "connections failed")
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (head, *Reloaded.ROWS)]
    text = "\n".join([lines[0], "|---|---" + "|--:" * 5 + "|", *lines[1:]])
    print(text, flush=True)
    if TABLE:
        figures.publish(TABLE, "reloads", text)


if __name__ == "__main__":
    suite.main(needs=("iptables-nft-restore",), summary=tell_all, per_processor=2)
