"""Whose plugins are measured: each subject on a node of its own, called by a runner of its own."""

import json
import os
import subprocess

from installed import ALONE, FLOOR, installed
from support.plugin import OURS, REFERENCE, ROOT, has_reference
from support.world import CLONE_NEWNET, CLONE_NEWNS, MS_BIND, World, mount, run, setns, unshare

#: Where the bench's own programs are: they are built with the plugins.
PROGRAMS = OURS
RUNNER = f"{OURS}/bench_runner"
MBIT = 1_000_000
BRIDGES = 4  # a bridge takes 1023 ports
HOST_PORT = 10_000
FLOOR_TABLE = """table ip floor {
  set masq { type ipv4_addr; }
  map ports { type inet_proto . inet_service : ipv4_addr . inet_service; }
  chain nat { type nat hook prerouting priority -100; dnat ip to meta l4proto . th dport map @ports; }
  chain out { type nat hook postrouting priority 100; ip saddr @masq ip daddr != 10.200.0.0/16 masquerade; }
}
"""


def ranges(family):
    """host-local's."""
    return [[{"subnet": "10.200.0.0/16"}]] + ([[{"subnet": "fd00:200::/64"}]]
                                              if family == "dual" else [])


def chain(bridge, family, keys=None):
    """bridge with gateway and masquerading, a port, limits both ways."""
    routes = [{"dst": "0.0.0.0/0"}] + ([{"dst": "::/0"}] if family == "dual" else [])
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [
        {"type": "bridge", "bridge": bridge, "isGateway": True, "ipMasq": True,
         "ipam": {"type": "host-local", "ranges": ranges(family), "routes": routes}},
        {"type": "portmap", "capabilities": {"portMappings": True}},
        {"type": "bandwidth", "ingressRate": 100 * MBIT, "ingressBurst": 10 * MBIT,
         "egressRate": 100 * MBIT, "egressBurst": 10 * MBIT} | (keys or {})]}


#: Of those that are measured alone: see Subject.give_devices.
KEYS = {"ptp": {"ipMasq": True}, "macvlan": {"master": "uplink"}, "host-device": {"device": "device"}}


def alone(name, family):
    """An interface plugin, with the addresses of the chain."""
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [
        {"type": name, "ipam": chain("", family)["plugins"][0]["ipam"]} | KEYS[name]]}


#: Those that are chained, alone, behind what RESULT says.
CHAINED = {"tuning": {"sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1", "net.ipv4.ip_local_port_range": "2000 3000"},
                      "mtu": 1400, "txQLen": 500},
           "sbr": {},
           # The reference takes a backend that it does not know for "choose one", which is iptables.
           "firewall": {"backend": "nftables"}, "firewall-iptables": {"type": "firewall", "backend": "iptables"}}
RESULT = {"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "/run/netns/p0"}],
          "ips": [{"address": "10.200.0.2/16", "gateway": "10.200.0.1", "interface": 0}]}
INTERFACE = """link add eth0 type veth peer other
link set other up
addr add 10.200.0.2/16 dev eth0
link set eth0 up
route add 10.201.0.0/16 via 10.200.0.1 dev eth0
"""


def chained(name):
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": name, "prevResult": RESULT} | CHAINED[name]]}


def routed():
    """ptp with masquerading and a port: many of them, as no bridge limits their number."""
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [
        {"type": "ptp", "ipMasq": True, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.200.0.0/20"}]],
                                                 "routes": [{"dst": "0.0.0.0/0"}]}},
        {"type": "portmap", "capabilities": {"portMappings": True}}]}


def network_of(*types):
    """Programs without a config."""
    return {"cniVersion": "1.0.0", "name": "-".join(types),
            "plugins": [{"type": name} for name in types]}


class Subject:
    """One way to connect pods, on a node of its own. keys are those of bandwidth."""

    def __init__(self, name, directory, family="ipv4", keys=None):
        self.name, self.path = name, directory
        World()
        networks = {f"chain{i}": chain(f"cni{i}", family, keys) for i in range(BRIDGES)}
        networks |= {name: alone(name, family) for name in ALONE}
        networks |= {name: chained(name) for name in CHAINED}
        networks |= {"loopback": network_of("loopback"), "empty": network_of("bench_empty"), "routed": routed()}
        self._start(networks, {})

    def _start(self, networks, environment):
        os.makedirs("/run/bench/state")
        for name, network in networks.items():
            with open(f"/run/bench/{name}.conflist", "w", encoding="ascii") as file:
                json.dump(network, file)
        self.node = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.mounts = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        self.pods = 0
        self.runner = subprocess.Popen(
            [RUNNER, "/run/bench/state"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=os.environ | environment)
        self.own = 0  # KiB that the runner used

    def enter(self):
        """This process is on the subject's node."""
        setns(self.mounts, CLONE_NEWNS)
        setns(self.node, CLONE_NEWNET)

    def give_devices(self):
        """What macvlan and host-device need: links with the numbers that floor.cc knows."""
        self.enter()
        for number, name in ((500, "uplink"), (502, "device")):
            run("ip", "link", "add", name, "up", "index", str(number), "type", "veth",
                "peer", "name", f"{name}-peer", "index", str(number + 1))
            run("ip", "link", "set", f"{name}-peer", "up")

    def grow(self, count):
        """As many pods' namespaces as count."""
        if self.pods >= count:
            return
        self.enter()
        for number in range(self.pods, count):
            path = f"/run/netns/p{number}"
            open(path, "w", encoding="ascii").close()
            unshare(CLONE_NEWNET)
            mount("/proc/self/ns/net", path, flags=MS_BIND)
            setns(self.node, CLONE_NEWNET)
        self.pods = count

    def renew_interface(self, number):
        """A pod's eth0 is as RESULT says: the reference's DEL does not restore all that its ADD changed."""
        self.enter()
        run("ip", "-n", f"p{number}", "link", "del", "eth0", check=False)
        run("ip", "-n", f"p{number}", "rule", "flush", "table", "100", check=False)
        run("ip", "-n", f"p{number}", "-batch", "-", stdin=INTERFACE)

    def pod(self, number, ports=1):
        """What the runner is told of a pod: its number is its name, its port and its namespace."""
        first = HOST_PORT + number * ports
        mappings = [{"hostPort": first + i, "containerPort": 80 + i, "protocol": "tcp"}
                    for i in range(ports)]
        return {"id": f"p{number}", "netns": f"/run/netns/p{number}",
                "capabilities": {"portMappings": mappings}}

    def job(self, verb, pods, network="chain0", **options):
        """Runs a verb for pods and returns the runner's lines."""
        self.runner.stdin.write(json.dumps(
            {"verb": verb, "conflist": f"/run/bench/{network}.conflist",
             "path": f"{installed(self.path)}:{installed(PROGRAMS)}", "pods": pods} | options) + "\n")
        self.runner.stdin.flush()
        lines = []
        for line in self.runner.stdout:
            found = json.loads(line)
            if "failure" in found:
                raise RuntimeError(f"{self.name}: {found['failure']}")
            if "done" in found:
                self.own = max(self.own, found["own"])
                return lines
            lines.append(found)
        raise RuntimeError(f"{self.name}: the runner ended")

    def close(self):
        """The runner ends, and the node and its pods with it."""
        self.runner.stdin.close()
        self.runner.wait()
        self.runner.stdout.close()
        os.close(self.node)
        os.close(self.mounts)


class Floor(Subject):
    """The kernel's part of it alone: see floor.cc. mode is ifb or pod; ports for the network "routed"."""

    FIRST = 1000  # the first bridge's number

    def __init__(self, mode):
        self.name, self.path = f"floor, {mode}", PROGRAMS
        World()
        for number in range(BRIDGES):
            bridge = f"cni{number}"
            run("ip", "link", "add", bridge, "index", str(self.FIRST + number), "type", "bridge")
            run("ip", "addr", "add", "10.200.0.1/16", "dev", bridge)
            run("ip", "link", "set", bridge, "up")
        run("nft", "-f", "-", stdin=FLOOR_TABLE)
        reservations = "/var/lib/cni/networks/floor"
        os.makedirs(reservations)
        for name in ("lock", "last_reserved_ip.0"):
            with open(f"{reservations}/{name}", "w", encoding="ascii") as file:
                file.write("0")
        networks = {name: network_of(f"floor_{name}") for name in ALONE}
        self._start(networks | {"chain": network_of(*FLOOR), "empty": network_of("bench_empty"),
                                "routed": network_of("floor_ptp", "floor_portmap")},
                    {"FLOOR_MODE": mode})

    def job(self, verb, pods, network="chain0", **options):
        if network.startswith("chain"):
            bridge = {"args": f"BRIDGE={self.FIRST + int(network[5:])}"}
            network, pods = "chain", [pod | bridge for pod in pods]
        return super().job(verb, pods, network, **options)


def subjects(options):
    """All that can be measured here, by name."""
    family = options.family
    found = [Subject("ours, ifb", options.plugins, family),
             Subject("ours, pod", options.plugins, family, {"egressMode": "pod"})]
    if has_reference():
        found.append(Subject("reference", REFERENCE, family))
    if family == "ipv4" and options.ports == 1:
        found += [Floor("ifb"), Floor("pod")]
    return {one.name: one for one in found}
