"""What the tests of all plugins know of each: a plugin has one entry in CONFIGS."""

import copy
import dataclasses
import functools
import json
import os
import shutil
import socket

from support.world import run

MAC = "02:00:5e:10:20:30"
DNS = {"nameservers": ["192.0.2.53"], "domain": "a.test", "search": ["a.test"],
       "options": ["ndots:5"]}
#: What flanneld would write for the addresses of POOL.
SUBNET_ENV = os.path.join(os.path.dirname(os.path.abspath(__file__)), "subnet.env")
#: An IPAM plugin's config whose first address is 10.1.2.2/24, with a gateway and a default route.
POOL = {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}
_ROUTE = {"dst": "0.0.0.0/0", "gw": "10.1.2.1"}
_EVERY_ROUTE = _ROUTE | {"mtu": 1400, "advmss": 1360, "priority": 1, "table": 254, "scope": 0}
_RANGE = {"subnet": "10.1.2.0/24", "rangeStart": "10.1.2.9", "rangeEnd": "10.1.2.20",
          "gateway": "10.1.2.1"}
_MAPPING = {"containerPort": 80, "hostPort": 8080, "protocol": "tcp", "hostIP": "192.0.2.1"}
_OF_IPAM = {"dnsFromIPAM": True, "ignoreDefaultRoute": True}
_LIMITS = {"ingressRate": 8000, "ingressBurst": 8000, "egressRate": 16000, "egressBurst": 8000}


@dataclasses.dataclass(frozen=True)
class Configs:
    """The keys of a plugin's config, without those of the spec."""

    least: dict           # what ADD needs; it gets CNI_IFNAME ifname and, if chained, a prevResult
    full: list            # configs that together have every key of the table; STATUS accepts them
    ifname: str = "eth0"
    chained: bool = False
    kind: str = None      # of an interface plugin: the kind of the container interface
    master: str = None    # the link of the node that the container interface is to stand on
    own: str = None       # a number that no two pods may share, as a VLAN of one master
    device: bool = False  # each attachment has a device of the node to itself, which `device` names
    link: str = None      # the kind of another link in the pod that a chained plugin creates


CONFIGS = {
    "loopback": Configs({}, [{}], ifname="lo"),
    "bridge": Configs(
        {"isGateway": True, "ipam": POOL, "dns": {"nameservers": ["10.1.2.53"]}},
        [{"bridge": "br0", "isGateway": True, "isDefaultGateway": True, "forceAddress": True,
          "ipMasq": True, "ipMasqBackend": "iptables", "mtu": 1400, "hairpinMode": True,
          "promiscMode": False, "vlan": 0, "vlanTrunk": [{"id": 5}, {"minID": 7, "maxID": 9}],
          "preserveDefaultVlan": True, "macspoofchk": True, "enabledad": True,
          "disableContainerInterface": False, "portIsolation": True,
          "ipam": {"type": "static"}, "dns": DNS, "args": {"cni": {"mac": MAC}},
          "runtimeConfig": {"mac": MAC}},
         {"ipMasq": True, "ipMasqExcept": ["10.0.0.0/8", "fd00::/8"],
          "ignoreDefaultRoute": True, "ipam": {"type": "static"}}],
        kind="veth"),
    "dummy": Configs(
        {"ipam": POOL},
        [{"mtu": 1400, "mac": MAC, "ignoreDefaultRoute": True, "ipam": {"type": "static"},
          "runtimeConfig": {"mac": MAC}}], kind="dummy"),
    "flannel": Configs(
        {"subnetFile": SUBNET_ENV, "ipam": {"type": "host-local", "routes": [{"dst": "0.0.0.0/0"}]}},
        [{"subnetFile": SUBNET_ENV, "dataDir": "/run/none", "delegate": {"type": "bridge", "mtu": 1400},
          "ipam": {"type": "static"}, "runtimeConfig": {"mac": MAC}}], kind="veth"),
    "host-local": Configs(
        {"ipam": POOL | {"routes": [_ROUTE]}},
        [{"ipam": {"type": "host-local", "podCidrFile": "/run/none", **_RANGE, "subnet": "10.9.0.0/24",
                   "rangeStart": "10.9.0.9",
                   "rangeEnd": "10.9.0.20", "gateway": "10.9.0.1", "ranges": [[_RANGE]],
                   "routes": [_EVERY_ROUTE], "dataDir": "/run/none", "resolvConf": "/etc/resolv.conf"},
          "args": {"cni": {"ips": ["10.1.2.9", "10.9.0.10/24"]}},
          "runtimeConfig": {"ips": ["10.1.2.10"],
                            "ipRanges": [[_RANGE | {"subnet": "fd00::/64", "rangeStart": "fd00::1",
                                                    "rangeEnd": "fd00::9", "gateway": "fd00::1"}]]}}]),
    # ADD needs a block: provide() writes what patchbay-agent would.
    "cluster-pool": Configs(
        {"ipam": {"type": "cluster-pool", "subnet": "10.1.2.0/24", "routes": [_ROUTE], "waitForBlock": 0}},
        [{"ipam": {"type": "cluster-pool", **_RANGE, "subnet": "10.9.0.0/24", "rangeStart": "10.9.0.9",
                   "rangeEnd": "10.9.0.20", "gateway": "10.9.0.1", "blockSize": 30, "exclude": ["10.9.0.12/31"],
                   "ranges": [[_RANGE | {"blockSize": 29, "exclude": ["10.1.2.17", "10.1.2.18/31"]}]],
                   "routes": [_EVERY_ROUTE], "dataDir": "/run/none", "resolvConf": "/etc/resolv.conf", "waitForBlock": 5},
          "args": {"cni": {"ips": ["10.1.2.9", "10.9.0.10/24"]}},
          "runtimeConfig": {"ips": ["10.1.2.10"]}}]),
    "static": Configs(
        {"ipam": {"type": "static", "addresses": [{"address": "10.1.2.9/24", "gateway": "10.1.2.1"}],
                  "routes": [_ROUTE], "dns": {"nameservers": ["10.1.2.53"]}}},
        [{"ipam": {"type": "static", "addresses": [{"address": "10.1.2.3/24", "gateway": "10.1.2.1"}],
                   "routes": [_EVERY_ROUTE], "dns": DNS}},
         {"ipam": {"type": "static"}, "args": {"cni": {"ips": ["10.1.2.3/24"]}},
          "runtimeConfig": {"ips": ["fd00::1/64"]}}]),
    # ADD needs the daemon and a server: see tests/netns/dhcp_test.py.
    "dhcp": Configs(
        {"ipam": {"type": "dhcp"}},
        [{"ipam": {"type": "dhcp", "daemonSocketPath": "/run/cni/dhcp.sock",
                   "provide": [{"option": "host-name", "value": "a", "fromArg": "K8S_POD_NAME"}],
                   "request": [{"option": "121", "skipDefault": True}], "priority": 5, "timeout": 5, "probe": True,
                   "dns": True}},
         {"ipam": {"type": "dhcp", "dns": {"nameservers": ["192.0.2.53"], "domain": "lan.example"}}}]),
    "portmap": Configs(
        {"runtimeConfig": {"portMappings": [
            {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}},
        [{"backend": "nftables", "snat": True, "masqAll": True, "markMasqBit": 5,
          "externalSetMarkChain": "", "conditionsV4": ["ip saddr 192.0.2.1"],
          "conditionsV6": ["ip6 saddr ::1"], "hostPortConflict": "replace",
          "deniedHostPorts": [22, "443", "6000-6100/tcp", "53/UDP"],
          "runtimeConfig": {"portMappings": [_MAPPING]}}], chained=True),
    "firewall": Configs(
        {"backend": "nftables"},
        [{"backend": "nftables", "ingressPolicy": "open", "iptablesAdminChainName": "SITE-ADMIN",
          "firewalldZone": "internal"}, {"backend": "iptables", "ingressPolicy": ""}], chained=True),
    "ptp": Configs(
        {"ipMasq": True, "ipam": POOL, "dns": {"nameservers": ["10.1.2.53"]}},
        [{"ipMasq": True, "ipMasqBackend": "iptables", "mtu": 1400, "ipam": {"type": "static"},
          "dns": DNS, "ignoreDefaultRoute": True},
         {"ipMasq": True, "ipMasqBackend": "nftables", "ipMasqExcept": ["10.0.0.0/8", "fd00::/8"],
          "ipam": {"type": "static"}}], kind="veth"),
    # Needs no other end on the node, which old results do not name.
    "bandwidth": Configs(
        {"egressMode": "pod", "egressRate": 8000000, "egressBurst": 800000},
        [{"egressMode": "pod", "queue": "fifo", "latency": 30, "burstTime": 20, **_LIMITS},
         {"unshapedSubnets": ["192.0.2.0/24"], **_LIMITS},
         {"shapedSubnets": ["fd00::/8"], "runtimeConfig": {"bandwidth": _LIMITS}},
         {"runtimeConfig": {"bandwidth": _LIMITS | {"shapedSubnets": ["fd00::/8"]}}},
         {"runtimeConfig": {"bandwidth": _LIMITS | {"unshapedSubnets": ["fd00::/8"]}}}],
        ifname="lo", chained=True),
    "devices": Configs({}, [{"prefix": "data", "required": False, "timeout": 5, "agentSocket": "/run/none.sock",
                             "ledgerDir": "/run/none"}], ifname="lo", chained=True),
    "sbr": Configs({"table": 5000}, [{"table": 5000}, {"gateways": ["10.1.2.1", "fd00::1"], "addSourceHints": True}],
                   chained=True),
    "tuning": Configs(
        {"sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"}},
        [{"sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1", "net/ipv4/conf/all/log_martians": "1"},
          "mac": MAC, "promisc": True, "mtu": 1400, "mtuBothEnds": False, "allmulti": True, "txQLen": 500,
          "dataDir": "/run/none", "runtimeConfig": {"mac": MAC},
          "args": {"cni": {"sysctl": {"net.ipv4.ip_forward": "0"}, "mac": MAC, "promisc": False, "mtu": 1300,
                           "allmulti": False, "txQLen": 100}}}],
        ifname="lo", chained=True),
    "vrf": Configs({"vrfname": "blue"}, [{"vrfname": "blue", "table": 77}], chained=True, link="vrf"),
    "vlan": Configs(
        {"master": "eth1", "vlanId": 100, "ipam": POOL},
        [{"master": "eth1", "linkInContainer": False, "vlanId": 100, "protocol": "802.1ad", "mtu": 1400,
          "egressQosMap": ["0:1", "6:7"], "ingressQosMap": ["5:3"], "ipam": {"type": "static"}, "dns": DNS} | _OF_IPAM],
        kind="vlan", master="eth1", own="vlanId"),
    "tap": Configs(
        {"ipam": POOL, "owner": 0, "group": 0},
        [{"mtu": 1400, "mac": MAC, "owner": 107, "group": 0, "multiQueue": True, "selinuxContext": "",
          "bridge": "", "ipam": {"type": "static"}, "dns": DNS, "args": {"cni": {"mac": MAC}},
          "runtimeConfig": {"mac": MAC}} | _OF_IPAM], kind="tun"),
    "ipvlan": Configs(
        {"master": "eth1", "ipam": POOL},
        [{"master": "eth1", "linkInContainer": False, "mode": "l3s", "flags": "private", "mtu": 1400,
          "ipam": {"type": "static"}, "dns": DNS} | _OF_IPAM], kind="ipvlan", master="eth1"),
    "macvlan": Configs(
        {"master": "eth1", "ipam": POOL},
        [{"master": "eth1", "linkInContainer": False, "mode": "source", "allowedMACs": [MAC], "mtu": 1400,
          "mac": MAC, "bcqueuelen": 2000, "enabledad": True, "ipam": {"type": "static"}, "dns": DNS,
          "runtimeConfig": {"mac": MAC}} | _OF_IPAM], kind="macvlan", master="eth1"),
}
CONFIGS["host-device"] = Configs(
    {"device": "device0", "ipam": POOL},
    [{"device": "device0", "hwaddr": MAC, "kernelpath": "/sys/devices/pci0000:00/0000:00:1f.6",
      "pciBusID": "0000:00:1f.6", "DPDKMode": False, "enabledad": True, "ipam": {"type": "static"}, "dns": DNS,
      "runtimeConfig": {"deviceID": "0000:00:1f.6", "CNIDeviceInfoFile": "/run/devinfo/one-device.json"}} | _OF_IPAM],
    kind="veth", device=True)
#: GC without any attachment that is valid.
GC = {"cni.dev/valid-attachments": []}


def is_ipam(plugin):
    return CONFIGS[plugin].least.get("ipam", {}).get("type") == plugin


@functools.cache
def _has(kind):
    """Whether the kernel has links of that kind. Asked once: removing a link takes as long as a plugin."""
    try:
        run("ip", "link", "add", "probe0", "type", kind, *(("table", "9") if kind == "vrf" else ()))
    except RuntimeError as error:
        return "Unknown device type" not in str(error)  # or it is known, and needs more than a name
    run("ip", "link", "del", "probe0")
    return True


def lack(*plugins):
    """What one of the plugins needs that this kernel or machine does not have, as a sentence; None. Asked in a world."""
    if "dhcp" in plugins and not shutil.which("dnsmasq"):
        return "there is no dnsmasq"
    known = [CONFIGS[plugin] for plugin in plugins if plugin in CONFIGS]
    for kind in ({one.kind for one in known} | {one.link for one in known}) - {None}:
        if kind == "tun" and not os.path.exists("/dev/net/tun"):
            return "there is no /dev/net/tun: modprobe tun"
        if not _has(kind):
            return f"this kernel has no links of kind {kind}; scripts/vm runs one that does"
    return None


def provide(*plugins):
    """Makes what the plugins' configs need of the node: a veth as the master, whose other end is
    MASTER-out, with a default route. Returns what lack() returns, and then has made nothing."""
    if reason := lack(*plugins):
        return reason
    if "flannel" in plugins:
        os.makedirs("/run/flannel", exist_ok=True)
        shutil.copy(SUBNET_ENV, "/run/flannel/subnet.env")
    if "cluster-pool" in plugins:
        from support import blocks
        blocks.provide()
    if "dhcp" in plugins:
        from support import dhcp  # which needs the executables
        dhcp.play()
    there = {name for _, name in socket.if_nameindex()}
    masters = {CONFIGS[plugin].master for plugin in plugins if plugin in CONFIGS} - {None}
    for number, master in enumerate(sorted(masters - there)):
        run("ip", "-batch", "-", stdin=f"link add {master} type veth peer name {master}-out\n"
            f"link set {master} up\nlink set {master}-out up\n"
            f"addr add 192.0.2.{8 * number + 1}/29 dev {master}\n"
            f"route append default via 192.0.2.{8 * number + 2}\n")
    return None


def give_device(plugin, name="device0"):
    """What the plugin needs on the node before ADD, for plugins that take a device: a veth of that name, if
    it is nowhere. Its other end, NAME-end, stays on the node. dhcp needs an interface in the pod."""
    if plugin == "dhcp":
        from support import dhcp
        return dhcp.give_interfaces()
    if plugin in CONFIGS and CONFIGS[plugin].device and not run("ip", "link", "show", f"{name}-end", check=False):
        run("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}-end")


def give_interface(plugin, pod):
    """What previous() says of the pod, for plugins that look at the interface."""
    if plugin in CONFIGS and CONFIGS[plugin].link and not pod.run("ip", "link", "show", "eth0", check=False):
        pod.run("ip", "-batch", "-", stdin="link add eth0 type veth peer name other\nlink set other up\n"
                "link set eth0 up\naddr add 10.1.2.9/24 dev eth0\nroute add default via 10.1.2.1\n")


def remove_devices():
    """Those of give_device(), wherever they are."""
    for link in json.loads(run("ip", "-j", "link", "show", "type", "veth")):
        if link.get("ifname", "").endswith("-end"):  # ip prints {} for others
            run("ip", "link", "del", link["ifname"], check=False)  # with its namespace it goes, too


def number(version):
    """A version, comparable."""
    return tuple(int(part) for part in version.split("."))


def previous(version, address="10.1.2.9"):
    """What the plugin before a chained one says, in the words of the version."""
    version = version or "0.1.0"
    ip = {"address": f"{address}/24", "gateway": "10.1.2.1"}
    if number(version) < (0, 3, 0):
        ip["ip"] = ip.pop("address")
        return {"cniVersion": version, "ip4": ip | {"routes": [_ROUTE]}, "dns": {}}
    more = {"version": "4"} if number(version) < (1, 0, 0) else {}
    return {"cniVersion": version, "ips": [ip | more | {"interface": 0}], "routes": [_ROUTE],
            "interfaces": [{"name": "eth0", "mac": "02:11:22:33:44:55", "sandbox": "/run/x"}],
            "dns": {"nameservers": ["10.1.2.53"]}}


def own_of(plugin, number):
    """What differs in the config of the pod of that number."""
    known = CONFIGS[plugin]
    return {known.own: known.least[known.own] + number} if known.own else {}


def config(plugin, version, **more):
    """The least config, with more laid over it."""
    known = CONFIGS[plugin]
    chained = {"prevResult": previous(version)} if known.chained else {}
    return copy.deepcopy({"cniVersion": version, "name": "net1", "type": plugin,
                          **known.least, **chained, **more})
