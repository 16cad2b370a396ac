"""What is disturbed: plugins as a runtime calls them, and cnitool with all of them in a chain."""

import copy
import os
import re

from support import firewalld, ledger
from support.cnitool import cnitool, use
from support.configs import CONFIGS, SUBNET_ENV, give_device, own_of, provide
from support.plugin import OURS, cni
from support.snapshot import left_by_design, pod_snapshot, snapshot
from support.world import Pod, World, run, set_up, wait_for

VERSION = "1.1.0"
LOG = "/run/stage/log"
SCRIPTS = "/run/stage/bin"

IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}
STATIC = {"type": "static", "addresses": [{"address": "10.1.0.9/24", "gateway": "10.1.0.1"},
                                          {"address": "fd00:1::9/64"}],
          "routes": [{"dst": "0.0.0.0/0"}], "dns": {"nameservers": ["10.1.0.1"]}}
BRIDGE = {"type": "bridge", "isGateway": True, "ipMasq": True, "ipMasqBackend": "nftables",
          "ipam": IPAM}
FLANNEL = {"type": "flannel", "subnetFile": SUBNET_ENV,
           "delegate": {"isDefaultGateway": True, "ipMasq": True, "ipMasqBackend": "nftables"}}
PORTMAP = {"type": "portmap", "backend": "nftables"}
PORTS = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
         {"hostPort": 53, "containerPort": 53, "protocol": "udp", "hostIP": "127.0.0.1"}]
LIMITS = {"ingressRate": 8000000, "ingressBurst": 800000, "egressRate": 8000000,
          "egressBurst": 800000}
TUNING = {"type": "tuning", "mac": "02:00:5e:10:20:30", "mtu": 1400, "promisc": True, "allmulti": True, "txQLen": 77,
          "sysctl": {"net.ipv4.conf.IFNAME.rp_filter": "2", "net.ipv4.conf.IFNAME.proxy_arp": "1",
                     "net.ipv6.conf.IFNAME.accept_ra": "0"}}
TAP = {"type": "tap", "mtu": 1400, "mac": "02:00:5e:10:20:30", "owner": 107, "group": 107, "ipam": IPAM}
IPVLAN = {"type": "ipvlan", "master": "eth1", "ipam": IPAM}
MACVLAN = {"type": "macvlan", "master": "eth1", "ipam": IPAM}
FIREWALL = {"type": "firewall", "backend": "nftables", "ingressPolicy": "same-bridge"}
BANDWIDTH = {"type": "bandwidth", **LIMITS}
PTP = {"type": "ptp", "ipMasq": True, "ipMasqBackend": "nftables", "ipam": IPAM}
HOST_DEVICE = {"type": "host-device", "ipam": IPAM}
#: What a device is like, which DEL has to restore.
DEVICE = """link set DEVICE mtu 1400 alias uplink address 02:00:5e:00:00:0N
addr add 192.0.2.N/24 dev DEVICE
addr add 198.51.100.N/32 peer 198.51.100.9 dev DEVICE
addr add 2001:db8::N/64 dev DEVICE nodad
link set DEVICE up
"""
CHAIN = [{"type": "loopback"}, BRIDGE, PORTMAP | {"capabilities": {"portMappings": True}},
         BANDWIDTH]

#: Name of the row: (config, or the plugins of a list; the plugin of it that is disturbed).
SUBJECTS = {
    "loopback": ({"type": "loopback"}, None),
    "static": ({"type": "static", "ipam": STATIC}, None),
    "host-local": ({"type": "host-local", "ipam": IPAM}, None),
    "cluster-pool": ({"type": "cluster-pool", "ipam": {"type": "cluster-pool", "subnet": "10.1.2.0/24", "waitForBlock": 0}},
                     None),
    "dhcp": ({"type": "dhcp", "ipam": {"type": "dhcp", "timeout": 20}}, None),
    "bridge": (BRIDGE, None),
    "bridge, iptables": (BRIDGE | {"ipMasqBackend": "iptables"}, None),
    # Two pods with one address share its masquerading element: see plugins/bridge/README.md.
    "bridge, macspoofchk and static": (BRIDGE | {"macspoofchk": True, "ipMasq": False, "ipam": STATIC}, None),
    "bridge, in its host-local": (BRIDGE, "host-local"),
    "dummy": ({"type": "dummy", "ipam": IPAM}, None),
    "vlan": ({"type": "vlan", "master": "eth1", "vlanId": 100, "ipam": IPAM}, None),
    "ptp": (PTP, None),
    "ptp, exceptions": (PTP | {"ipMasqExcept": ["10.0.0.0/8", "fd00::/8"]}, None),
    "ptp, iptables": (PTP | {"ipMasqBackend": "iptables"}, None),
    "flannel": (FLANNEL, None),
    "ipvlan": (IPVLAN, None),
    "macvlan": (MACVLAN, None),
    "macvlan, passthru": (MACVLAN | {"mode": "passthru", "mac": "02:00:5e:10:20:30"}, None),
    "macvlan, enabledad": (MACVLAN | {"enabledad": True}, None),
    "portmap": (PORTMAP, None),
    "portmap, iptables": (PORTMAP | {"backend": "iptables"}, None),
    "firewall": (FIREWALL, None),
    "firewall, isolated": (FIREWALL | {"ingressPolicy": "isolated"}, None),
    "firewall, iptables": (FIREWALL | {"backend": "iptables"}, None),
    "firewall, firewalld": ({"type": "firewall", "backend": "firewalld"}, None),
    "bandwidth": (BANDWIDTH, None),
    "bandwidth, unshapedSubnets": (BANDWIDTH | {"unshapedSubnets": ["10.0.0.0/8", "fd00::/8"]}, None),
    "bandwidth, pod": (BANDWIDTH | {"egressMode": "pod"}, None),
    "bandwidth, edt": (BANDWIDTH | {"egressMode": "edt"}, None),
    "tap": (TAP, None),
    "tap, multiQueue": (TAP | {"multiQueue": True, "ipam": {}}, None),
    "host-device": (HOST_DEVICE, None),
    "devices": ({"type": "devices"}, None),
    "tuning": (TUNING, None),
    "sbr": ({"type": "sbr"}, None),
    "sbr, table": ({"type": "sbr", "table": 5000}, None),
    "vrf": ({"type": "vrf", "vrfname": "blue"}, None),
    "cnitool, all in a chain": (CHAIN, None),
    **{f"chain, in its {name}": (CHAIN, name)
       for name in ("loopback", "bridge", "host-local", "portmap", "bandwidth")},
}
#: Chained plugins, of which another one's work comes first.
STANDING_IN = ("portmap", "bandwidth", "sbr", "tuning", "vrf", "firewall")
#: A pod beside the one that is worked on; its ports and address are others.
OTHER = "pod2"


def _has_route(destination, link):
    """Whether /proc/net/ipv6_route has it."""
    with open("/proc/net/ipv6_route", encoding="ascii") as file:
        return any(line.startswith(destination) and line.split()[-1] == link for line in file)


def _standing_in(pod, number):
    """What a plugin before a chained one would have left for a pod; its result."""
    link = "cni0" if number == 1 else f"cni{number}"
    run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", pod.name)
    run("ip", "-batch", "-", stdin=f"link set {link} up addrgenmode none\n"
        f"addr add 10.1.{number}.1/24 dev {link}\naddr add fd00:1:{number}::1/64 dev {link} nodad\n")
    # The kernel makes the routes of IPv6 addresses when it has time to.
    wait_for(lambda: _has_route(f"fd00000100{number:02x}00000000000000000001 80", link)
             and _has_route("ff000000000000000000000000000000 08", link), 20)
    return {"cniVersion": VERSION,
            "interfaces": [{"name": link}, {"name": "eth0", "sandbox": pod.path}],
            "ips": [{"address": f"10.1.{number}.5/24", "interface": 1},
                    {"address": f"fd00:1:{number}::5/64", "interface": 1}]}


def _with_routes(pod, number, result):
    """The same with addresses and routes in the pod."""
    pod.run("ip", "-batch", "-", stdin=f"link set lo up\nlink set eth0 up addrgenmode none\naddr add 10.1.{number}.5/24 dev eth0\n"
            f"addr add fd00:1:{number}::5/64 dev eth0 nodad\nroute add 10.9.0.0/16 via 10.1.{number}.1 mtu 1400\n")
    wait_for(lambda: f"fd00:1:{number}::/64" in pod.run("ip", "-6", "route", "show") and "ff00::/8" in pod.run(
        "ip", "-6", "route", "show", "table", "local"), 20)
    for one, gateway in zip(result["ips"], (f"10.1.{number}.1", f"fd00:1:{number}::1")):
        one["gateway"] = gateway
    return result


def _on_a_bridge(number, result):
    """The same with the other end on a bridge, as after the plugin bridge."""
    run("ip", "-batch", "-", stdin=f"link add br{number} type bridge\nlink set br{number} up addrgenmode none\n"
        f"link set {result['interfaces'][0]['name']} master br{number}\n")
    result["interfaces"].insert(0, {"name": f"br{number}"})
    for one in result["ips"]:
        one["interface"] += 1
    return result


class Stage:
    """A node with a pod for one subject, and another pod for a verb that looks at others: GC."""

    def __init__(self, name, verb):
        World()
        self.name = name
        self.plugins, self.inner = copy.deepcopy(SUBJECTS[name])
        self.pods = {1: Pod("pod1")} | ({2: Pod(OTHER)} if verb == "GC" else {})
        for pod in self.pods.values():  # once up, "lo" keeps 127.0.0.1
            with pod.inside():
                set_up("lo")
                set_up("lo", up=False)
            if name == "vrf":  # with the first VRF of a namespace come rules that stay
                run("ip", "-n", pod.name, "-batch", "-", stdin="link add first type vrf table 9\nlink del first\n")
        self.results = {}
        os.makedirs(SCRIPTS)
        if self.is_chain:
            use({"cniVersion": VERSION, "name": "net1", "plugins": self.plugins})
            return
        if reason := provide(self.plugins["type"]):
            raise AssertionError(reason)
        if self.plugins.get("backend") == "firewalld":
            firewalld.play()
        if self.plugins["type"] == "dhcp":
            give_device("dhcp")
        if self.plugins["type"] == "host-device":
            for n in self.pods:
                give_device("host-device", f"device{n}")
                run("ip", "-batch", "-", stdin=DEVICE.replace("DEVICE", f"device{n}").replace("N", str(n)))
        elif self.plugins["type"] == "devices":
            self.before = {n: self._promise(n, pod) for n, pod in self.pods.items()}
            ledger.Agent()
        elif self.plugins["type"] in STANDING_IN:
            self.before = {n: _standing_in(pod, n) for n, pod in self.pods.items()}
        if self.plugins.get("ingressPolicy") == "isolated":
            self.before = {n: _on_a_bridge(n, self.before[n]) for n in self.pods}
        if self.plugins["type"] in ("sbr", "vrf"):
            self.before = {n: _with_routes(pod, n, self.before[n]) for n, pod in self.pods.items()}

    @staticmethod
    def _promise(number, pod):
        """A device for a pod that patchbay-agent has claimed for it; what the chain returned."""
        device = f"device{number}"
        give_device("host-device", device)
        run("ip", "-batch", "-", stdin=DEVICE.replace("DEVICE", device).replace("N", str(number)))
        ledger.put(device, plugins=[HOST_DEVICE | {"device": device}], pod=ledger.pod_of(f"pod{number}"))
        return {"cniVersion": VERSION, "interfaces": [{"name": "eth0", "sandbox": pod.path}]}

    @property
    def is_chain(self):
        return isinstance(self.plugins, list)

    @property
    def collects_in_part(self):
        """Whether GC leaves what is on links that another plugin's GC removes."""
        return not self.is_chain and self.plugins["type"] in ("bandwidth", "loopback")

    def run(self, verb, number=1, wrap=(), strace=None):
        """Runs the verb for a pod. wrap goes in front of the program that is disturbed, and strace
        with these options in front of that."""
        wrap = [*(["strace", "-qq", "-o", LOG, *strace] if strace is not None else ()), *wrap]
        path = OURS
        if self.inner and wrap:
            path, wrap = self._script(verb, wrap), ()
        if self.is_chain:
            return self._cnitool(verb, number, wrap, path)
        outcome = cni(self.plugins["type"], verb, self._conf(verb, number), netns=self.pods[number].path,
                      container=f"pod{number}", wrap=wrap, path=path, timeout=40,
                      args=ledger.args_of(ledger.pod_of(f"pod{number}")) if self.plugins["type"] == "devices" else "")
        if verb == "ADD" and outcome.ok and outcome.stdout:
            self.results[number] = outcome.json
        return outcome

    def _script(self, verb, wrap):
        """A directory in which the inner plugin is run with wrap, the first time."""
        program = f"{SCRIPTS}/{self.inner}"
        with open(program, "w", encoding="ascii") as script:
            script.write(f'#!/bin/sh\n[ "$CNI_COMMAND" = {verb} ] && [ ! -e {LOG} ] || '
                         f'exec {OURS}/{self.inner}\nexec {" ".join(wrap)} {OURS}/{self.inner}\n')
        os.chmod(program, 0o755)
        return f"{SCRIPTS}:{OURS}"

    def _conf(self, verb, number):
        conf = self.plugins | {"cniVersion": VERSION, "name": "net1"}
        kind = conf["type"]
        conf |= own_of(kind, number)
        if kind in (*STANDING_IN, "devices"):
            conf["prevResult"] = self.before[number]
        if number in self.results and verb in ("CHECK", "DEL"):
            conf["prevResult"] = self.results[number]
        if kind == "host-device":
            conf["device"] = f"device{number}"
        if kind == "portmap":
            conf["runtimeConfig"] = {"portMappings": self.ports(number)}
        if verb == "GC":
            conf["cni.dev/valid-attachments"] = [{"containerID": OTHER, "ifname": "eth0"}]
        return conf

    @staticmethod
    def ports(number):
        return [port | {"hostPort": port["hostPort"] + number - 1} for port in PORTS]

    def _cnitool(self, verb, number, wrap, path):
        words = {"GC": ["--yes", "--keep", OTHER], "STATUS": []}.get(
            verb, [self.pods[number].path, "--container-id", f"pod{number}"])
        return cnitool(verb.lower(), "net1", "--json", *words, wrap=wrap, CNI_PATH=path,
                       CAP_ARGS={"portMappings": self.ports(number)})

    @property
    def works_in_pod(self):
        """Whether there is more in the pod than goes with what is on the node."""
        if self.is_chain or self.plugins["type"] in ("bandwidth", "loopback", "sbr", "tuning", "vrf"):
            return True
        return CONFIGS[self.plugins["type"]].kind not in (None, "veth")

    def state(self):
        """Of the node, and where the plugins work in it, of the pod."""
        if not self.works_in_pod:
            return snapshot(connections=True)
        inside = pod_snapshot(self.pods[1], connections=True)
        return snapshot(connections=True) | {f"pod {place}": what for place, what in inside.items()}


def ignore(place):
    """What may differ: what pods share, and the stage itself."""
    if place.startswith("qdisc/") and not place.endswith(" noqueue"):
        return False  # left_by_design() passes over all that the link cni0 has, which here is a pod's
    return (left_by_design(place) or place.startswith("file/run/stage/")
            or place in ("file/var/lib/cni/lock", "file/var/lib/cni/results/"))


def comes_and_goes(test, stage, is_stateless=False):
    """STATUS, ADD, CHECK and DEL twice succeed; CHECK changes nothing, and DEL leaves nothing."""
    before = stage.state()
    test.assert_ok(stage.run("STATUS"))
    test.assert_ok(stage.run("ADD"))
    added = stage.state()
    if not is_stateless:
        test.assertNotEqual(before, added)
    test.assert_ok(stage.run("CHECK"))
    test.assert_same(added, stage.state())
    for _ in range(2):
        test.assert_ok(stage.run("DEL"))
        test.assert_same(before, stage.state(), ignore=ignore)


def log():
    """What strace has written, without the PIDs that it begins lines with."""
    try:
        with open(LOG, encoding="utf-8", errors="replace") as file:
            return re.sub(r"^\d+ +", "", file.read(), flags=re.MULTILINE)
    except FileNotFoundError:
        return ""
