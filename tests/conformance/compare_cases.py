"""What is given to our plugins and to the Go reference, to compare what they make of it."""

import dataclasses

V4 = {"subnet": "10.1.2.0/24"}
V6 = {"subnet": "fd00:1:2::/64"}
DEFAULT4, DEFAULT6 = {"dst": "0.0.0.0/0"}, {"dst": "::/0"}
MASQ = {"isGateway": True, "ipMasq": True, "ipMasqBackend": "iptables"}


def host_local(*ranges, **more):
    return {"ipam": {"type": "host-local", "ranges": [[r] for r in ranges], **more}}


def static(*addresses, **more):
    return {"ipam": {"type": "static", "addresses": list(addresses), **more}}


def ports(first, count=1, protocol="tcp", host_ip=None):
    return [{"hostPort": first + i, "containerPort": 80 + i, "protocol": protocol} |
            ({"hostIP": host_ip} if host_ip else {}) for i in range(count)]


def portmap(mappings, addresses=("10.1.2.9/24", "fd00:1:2::9/64"), **more):
    """Of a pod that another plugin gave the addresses; the first interface is the node's."""
    def conf(version):
        old = version < "1.0.0"
        ips = [{"address": address, "interface": 0 if address.startswith("10.9.") else 1}
               | ({"version": "6" if ":" in address else "4"} if old else {})
               for address in addresses]
        interfaces = [{"name": "cni0"}, {"name": "eth0", "sandbox": "/run/netns/pod1"}]
        return {"backend": "iptables", "runtimeConfig": {"portMappings": mappings},
                "prevResult": {"cniVersion": version, "interfaces": interfaces, "ips": ips,
                               "dns": {}}} | more
    return conf


def firewall(addresses=("10.1.2.9/24", "fd00:1:2::9/64"), interfaces=("cni0",), **more):
    """Of a pod that another plugin gave the addresses and put on the bridge cni0."""
    def conf(version):
        old = version < "1.0.0"
        ips = [{"address": address} | ({"version": "6" if ":" in address else "4"} if old else {})
               for address in addresses]
        links = [{"name": name} for name in interfaces] + [{"name": "eth0", "sandbox": "/run/netns/pod1"}]
        return {"backend": "iptables", "prevResult": {"cniVersion": version, "interfaces": links, "ips": ips,
                                                      "dns": {}}} | more
    return conf


@dataclasses.dataclass
class Case:
    """One input of a plugin; setup runs on the node before it."""

    name: str
    conf: dict  # or what gives one for a version
    plugin: str = "bridge"
    args: str = ""
    ifname: str = "eth0"
    setup: list = dataclasses.field(default_factory=list)
    with_pod: list = dataclasses.field(default_factory=list)  # the same, once the pod is there
    fails: bool = False
    versions: tuple = ("1.0.0", "0.4.0")
    says: str = ""  # in the errors of both
    intended: tuple = ()  # differences of this case alone, like those of INTENDED


FOREIGN_BRIDGE = ["ip link add cni0 address 0a:00:00:00:00:01 type bridge",
                  "ip addr add 10.1.9.1/24 dev cni0", "ip link set cni0 up"]
RESOLV_CONF = ["printf 'nameserver 10.9.9.9\\n; no\\nsearch a.test b.test\\ndomain c.test\\n"
               "options ndots:5 rotate\\nsearch d.test\\n' >/run/resolv.conf"]
MAC = "02:11:22:33:44:55"
ALL = ("1.0.0", "0.4.0", "0.3.1", "0.2.0", "0.1.0")

CASES = [
    Case("L2", {}),
    Case("L2 in version 0.2.0, whose result needs an address", {}, versions=("0.2.0",),
         fails=True),
    Case("L2 with mtu, hairpin", {"mtu": 1400, "hairpinMode": True}),
    Case("L2 promiscuous", {"promiscMode": True}),
    Case("L2 on a bridge of another name and with a dot", {"bridge": "br.one"}),
    Case("no gateway", host_local(V4)),
    Case("isGateway", {"isGateway": True} | host_local(V4, routes=[DEFAULT4]), versions=ALL),
    Case("isGateway with a gateway of its own",
         {"isGateway": True} | host_local(V4 | {"gateway": "10.1.2.99"}, routes=[DEFAULT4])),
    Case("isDefaultGateway", {"isDefaultGateway": True} | host_local(V4), versions=ALL),
    Case("isDefaultGateway beside a default route with a gateway",
         {"isDefaultGateway": True} |
         host_local(V4, routes=[{"dst": "0.0.0.0/0", "gw": "10.1.2.7"}])),
    Case("IPv6 alone", {"isDefaultGateway": True} | host_local(V6), versions=ALL),
    Case("dual-stack", {"isDefaultGateway": True} | host_local(V4, V6), versions=ALL),
    Case("three subnets", {"isGateway": True} | host_local(
        V4, V6, {"subnet": "fd00:1:3::/64"}, routes=[DEFAULT4, DEFAULT6])),
    Case("ipMasq with iptables", MASQ | host_local(V4, routes=[DEFAULT4])),
    Case("ipMasq with iptables, dual-stack", MASQ | host_local(V4, V6)),
    Case("ipMasq without a gateway", {"ipMasq": True, "ipMasqBackend": "iptables"} |
         host_local(V4)),
    Case("mac from CNI_ARGS", host_local(V4), args=f"IgnoreUnknown=1;MAC={MAC}"),
    Case("mac from args", {"args": {"cni": {"mac": MAC}}} | host_local(V4),
         args="IgnoreUnknown=1;MAC=02:00:00:00:00:01"),
    Case("mac from runtimeConfig", {"runtimeConfig": {"mac": MAC},
                                    "args": {"cni": {"mac": "02:00:00:00:00:02"}}} |
         host_local(V4), args="IgnoreUnknown=1;MAC=02:00:00:00:00:01"),
    Case("mac from RuntimeConfig in podman's spelling", {"RuntimeConfig": {"mac": MAC}} |
         host_local(V4)),
    Case("dns override", {"dns": {"nameservers": ["10.1.2.3"], "domain": "x.test"}} |
         host_local(V4, resolvConf="/run/resolv.conf"), setup=RESOLV_CONF),
    Case("dns wiped", {"dns": {"nameservers": []}} |
         host_local(V4, resolvConf="/run/resolv.conf"), setup=RESOLV_CONF),
    Case("dns from resolvConf", host_local(V4, resolvConf="/run/resolv.conf"), setup=RESOLV_CONF,
         versions=ALL),
    Case("bridge is there already", {"isGateway": True} | host_local({"subnet": "10.1.9.0/24"}),
         setup=FOREIGN_BRIDGE),
    Case("bridge has another address", {"isGateway": True} | host_local(V4), setup=FOREIGN_BRIDGE,
         fails=True),
    Case("bridge has another address, forceAddress", {"isGateway": True, "forceAddress": True} |
         host_local(V4), setup=FOREIGN_BRIDGE),
    Case("bridge has another IPv6 address", {"isGateway": True} | host_local(V6),
         setup=["ip link add cni0 address 0a:00:00:00:00:01 type bridge",
                "ip addr add fd00:9::1/64 dev cni0 nodad"]),
    Case("bridge is no bridge", host_local(V4), setup=["ip link add cni0 type veth"], fails=True),
    Case("static", {"isGateway": True} | static(
        {"address": "10.1.2.9/24", "gateway": "10.1.2.1"}, {"address": "fd00:1:2::9/64"},
        routes=[DEFAULT4, {"dst": "10.7.0.0/16", "gw": "10.1.2.77"},
                {"dst": "fd00:7::/64", "gw": "fd00:1:2::77"}],
        dns={"nameservers": ["10.1.2.53"]})),
    Case("static of one address in every version", static(
        {"address": "10.1.2.9/24", "gateway": "10.1.2.1"}, routes=[DEFAULT4]), versions=ALL),
    Case("static /32 and /31", static({"address": "10.1.2.9/32"}, {"address": "10.1.3.8/31"})),
    Case("static without an address", static(), fails=True),
    Case("static given an address twice", static({"address": "10.1.2.9/24"},
                                                 {"address": "10.1.2.9/24"}), fails=True),
    Case("a route that cannot be", host_local(V4, routes=[{"dst": "10.9.0.0/16", "gw": "10.8.8.8"}]),
         fails=True),
    Case("IPAM plugin is absent", {"ipam": {"type": "absent"}}, fails=True),
    Case("host-local, old style", {"ipam": {"type": "host-local", "subnet": "10.1.2.0/24",
                                            "rangeStart": "10.1.2.20", "rangeEnd": "10.1.2.30",
                                            "gateway": "10.1.2.254", "routes": [DEFAULT4]}},
         "host-local", versions=ALL),
    Case("host-local, one set of several ranges", {"ipam": {
        "type": "host-local", "ranges": [[{"subnet": "10.1.2.0/30"}, {"subnet": "10.1.3.0/30"}],
                                         [V6 | {"rangeStart": "fd00:1:2::10"}]]}}, "host-local"),
    Case("host-local with routes and a gateway outside",
         host_local(V4 | {"gateway": "10.9.9.9"},
                    routes=[DEFAULT4, {"dst": "10.5.0.0/16", "gw": "10.1.2.5"}]), "host-local"),
    Case("host-local, address from CNI_ARGS", host_local(V4), "host-local", args="IP=10.1.2.77"),
    Case("host-local, address with prefix from CNI_ARGS", host_local(V4), "host-local",
         args="IP=10.1.2.77/16"),
    Case("host-local, addresses from args", host_local(V4, V6) |
         {"args": {"cni": {"ips": ["fd00:1:2::42", "10.1.2.42/24"]}}}, "host-local"),
    Case("host-local, addresses from runtimeConfig", host_local(V4, V6) |
         {"runtimeConfig": {"ips": ["10.1.2.43", "fd00:1:2::43/64"]}}, "host-local"),
    Case("host-local, ranges from runtimeConfig", host_local(V4) |
         {"runtimeConfig": {"ipRanges": [[{"subnet": "10.3.0.0/24"}]]}}, "host-local"),
    Case("host-local, asked for the gateway", host_local(V4), "host-local", args="IP=10.1.2.1",
         fails=True),
    Case("host-local, asked for an address of no range", host_local(V4), "host-local",
         args="IP=10.9.2.1", fails=True),
    Case("host-local, asked for two addresses of one set", host_local(V4) |
         {"args": {"cni": {"ips": ["10.1.2.3", "10.1.2.4"]}}}, "host-local", fails=True),
    Case("host-local, two IPv4 sets in 0.2.0", host_local(V4, {"subnet": "10.1.3.0/24"}),
         "host-local", versions=("0.2.0",), fails=True),
    Case("firewall, dual-stack", firewall(), "firewall"),
    Case("firewall, IPv4", firewall(("10.1.2.9/24",)), "firewall"),
    Case("firewall, IPv6", firewall(("fd00:1:2::9/64",)), "firewall"),
    Case("firewall, two addresses of a family", firewall(("10.1.2.9/24", "10.1.3.9/16", "fd00:1:2::9/64")),
         "firewall"),
    Case("firewall without addresses", firewall(()), "firewall"),
    Case("firewall, iptablesAdminChainName", firewall(iptablesAdminChainName="SITE"), "firewall"),
    Case("firewall, ingressPolicy open", firewall(ingressPolicy="open"), "firewall"),
    Case("firewall, ingressPolicy same-bridge", firewall(ingressPolicy="same-bridge"), "firewall"),
    Case("firewall, a policy beside another's", firewall(ingressPolicy="same-bridge"), "firewall",
         setup=[f"{tool} -{words}" for tool in ("iptables", "ip6tables") for words in (
             "P FORWARD DROP", "A FORWARD -i eth9 -j ACCEPT", "N CNI-ISOLATION-STAGE-1", "N CNI-ISOLATION-STAGE-2",
             "I FORWARD 1 -m comment --comment 'CNI firewall plugin rules (ingressPolicy: same-bridge)' "
             "-j CNI-ISOLATION-STAGE-1",
             "A CNI-ISOLATION-STAGE-1 -i br9 ! -o br9 -m comment --comment 'CNI firewall plugin rules "
             "(ingressPolicy: same-bridge)' -j CNI-ISOLATION-STAGE-2",
             "A CNI-ISOLATION-STAGE-1 -m comment --comment 'CNI firewall plugin rules (ingressPolicy: same-bridge)' "
             "-j RETURN",
             "A CNI-ISOLATION-STAGE-2 -o br9 -m comment --comment 'CNI firewall plugin rules (ingressPolicy: "
             "same-bridge)' -j DROP",
             "A CNI-ISOLATION-STAGE-2 -m comment --comment 'CNI firewall plugin rules (ingressPolicy: same-bridge)' "
             "-j RETURN")],
         intended=((r"rules after ADD ip6?tables FORWARD: ",
                    "the reference puts what accepts pods before the policies"),)),
    Case("firewall, an unknown policy", firewall(ingressPolicy="x"), "firewall", fails=True,
         says='unknown ingress policy: '),
    Case("firewall, a policy without an interface", firewall(ingressPolicy="same-bridge", prevResult={
        "cniVersion": "1.0.0", "ips": [{"address": "10.1.2.9/24"}]}), "firewall", fails=True, versions=("1.0.0",),
        says="interface needs to be set for ingress policy"),
    Case("firewall without a result", {"backend": "iptables"}, "firewall", fails=True,
         says="missing prevResult from earlier plugin"),
    Case("host-local goes on after the last address", host_local(V4), "host-local",
         setup=["mkdir -p /var/lib/cni/networks/net1",
                "printf 10.1.2.77 >/var/lib/cni/networks/net1/last_reserved_ip.0"]),
    Case("host-local wraps round", host_local(V4), "host-local",
         setup=["mkdir -p /var/lib/cni/networks/net1",
                "printf 10.1.2.254 >/var/lib/cni/networks/net1/last_reserved_ip.0"]),
    Case("host-local passes over what is taken", host_local(V4), "host-local",
         setup=["mkdir -p /var/lib/cni/networks/net1",
                "printf 'a\\r\\neth0' >/var/lib/cni/networks/net1/10.1.2.2",
                "printf 'old' >/var/lib/cni/networks/net1/10.1.2.3"]),
    Case("host-local, range is used up", host_local({"subnet": "10.1.2.0/30"}), "host-local",
         setup=["mkdir -p /var/lib/cni/networks/net1",
                "printf 'a\\r\\neth0' >/var/lib/cni/networks/net1/10.1.2.2"], fails=True),
    Case("host-local, has an address already", host_local(V4), "host-local",
         setup=["mkdir -p /var/lib/cni/networks/net1",
                "printf 'pod1\\r\\neth0' >/var/lib/cni/networks/net1/10.1.2.2"], fails=True),
    Case("host-local in a dataDir", host_local(V4, dataDir="/run/leases"), "host-local"),
    Case("static alone", static({"address": "10.1.2.9/24"}), "static", versions=ALL),
    Case("static, address and gateway from CNI_ARGS", static({"address": "10.1.2.9/24"}),
         "static", args="IP=10.2.2.42/24,fd00::42/64;GATEWAY=10.2.2.1"),
    Case("static, addresses from args", static({"address": "10.1.2.9/24"}) |
         {"args": {"cni": {"ips": ["10.4.4.4/24"]}}}, "static", args="IP=10.2.2.42/24"),
    Case("static, addresses from runtimeConfig", static({"address": "10.1.2.9/24"}) |
         {"runtimeConfig": {"ips": ["10.5.5.5/24"]}, "args": {"cni": {"ips": ["10.4.4.4/24"]}}},
         "static", args="IP=10.2.2.42/24"),
    Case("static, no prefix", static({"address": "10.1.2.9"}), "static", fails=True),
    Case("loopback", {}, "loopback", ifname="lo", versions=("1.0.0",)),
    Case("loopback after another plugin", {"prevResult": {
        "interfaces": [{"name": "eth0", "sandbox": "/x"}],
        "ips": [{"address": "10.1.2.3/24", "interface": 0}], "dns": {}}}, "loopback", ifname="lo",
        versions=("1.0.0",)),
]

MASTER = ["ip link add eth1 mtu 1450 type veth peer name eth1-out", "ip link set eth1 up", "ip link set eth1-out up"]
NOTIFY = (r"pod after ADD sysctl/ipv4/conf/eth0/arp_notify: \"0\" -> \"1\"",
          "the address is announced to the machines on the segment")


def vlan(name, conf, setup=(), **more):
    return Case(f"vlan {name}", {"master": "eth1"} | conf, "vlan", setup=MASTER + list(setup), intended=(NOTIFY,),
                **{"versions": ("1.0.0", "0.4.0")} | more)


CASES += [
    vlan("IPv4", {"vlanId": 33} | host_local(V4, routes=[DEFAULT4]), versions=ALL),
    vlan("dual-stack", {"vlanId": 4094} | host_local(V4, V6, routes=[DEFAULT4, DEFAULT6])),
    vlan("without an ID", host_local(V4)),
    vlan("with mtu", {"vlanId": 5, "mtu": 1400} | host_local(V4)),
    vlan("with dns, instead of IPAM's", {"vlanId": 5, "dns": {"nameservers": ["10.1.2.3"]}}
         | host_local(V4, resolvConf="/run/resolv.conf"), RESOLV_CONF),
    vlan("without dns, whatever IPAM says", {"vlanId": 5} | host_local(V4, resolvConf="/run/resolv.conf"), RESOLV_CONF),
    vlan("of more than the master's MTU", {"mtu": 1600} | host_local(V4), fails=True,
         says="invalid MTU 1600, must be [0, master MTU(1450)]"),
    vlan("of a negative MTU", {"mtu": -100} | host_local(V4), fails=True,
         says="invalid MTU -100, must be [0, master MTU(1450)]"),
    vlan("without a master", {"master": ""} | host_local(V4), fails=True,
         says="It specifies the host interface name to create the VLAN for"),
    vlan("of a master that does not exist", {"master": "eth9"} | host_local(V4), fails=True, says="Link not found"),
    vlan("of a VLAN that does not exist", {"vlanId": 4095} | host_local(V4), fails=True, says="invalid VLAN ID 4095"),
    vlan("whose ID is taken", {"vlanId": 5} | host_local(V4), ["ip link add eth1.5 link eth1 type vlan id 5"],
         fails=True, says="file exists"),
]

PTP4, PTP6 = {"address": "10.1.2.9/24", "gateway": "10.1.2.1"}, {"address": "fd00:1:2::9/64",
                                                                 "gateway": "fd00:1:2::1"}


PTP_INTENDED = (
    (r"pod after ADD link/\S+ txqlen: null -> 1000", "the kernel's default, as that of 1.9 has it there"),
    (r"address/\S+ dev \S+ noprefixroute: null -> true",
     "the route of the kernel to the subnet is not added, instead of deleted afterwards"),
    (r"address/\S+ dev \S+ nodad: null -> true", "nobody else is on the link: IPv6 works when ADD returns"),
    (r"sysctl/ipv[46]/conf/\S+/(arp_notify: \"0\" -> \"1\"|accept_dad: \"1\" -> \"0\"|(accept_ra|ndisc_notify):)",
     "the addresses are usable and announced when ADD returns; nobody but the node is a router"),
    (r"^CHECK said: .*Expected Route .*GW:.*nil.* -> \"\"",
     "the CHECK of the reference expects a route without a gateway, where its ADD took the address's"))


def ptp(name, conf, **more):
    return Case(f"ptp {name}", conf, "ptp", intended=PTP_INTENDED, **more)


CASES += [
    ptp("IPv4", host_local(V4), versions=ALL),
    ptp("dual-stack with default routes", host_local(V4, V6, routes=[DEFAULT4, DEFAULT6]), versions=ALL),
    ptp("IPv6 alone", host_local(V6, routes=[DEFAULT6])),
    ptp("of a /66", host_local({"subnet": "2001:db8:1::/66"}, routes=[DEFAULT6])),
    ptp("three subnets, and other routes", host_local(
        V4, {"subnet": "10.1.3.0/25"}, V6, routes=[DEFAULT4, {"dst": "10.7.0.0/16"}, {"dst": "10.6.6.6/32"},
                                                   {"dst": "fd00:7::/64"}])),
    ptp("with mtu", {"mtu": 1400} | host_local(V4, V6)),
    ptp("ipMasq with iptables", {"ipMasq": True, "ipMasqBackend": "iptables"} |
        host_local(V4, V6, routes=[DEFAULT4, DEFAULT6])),
    ptp("static", static(PTP4, PTP6, routes=[DEFAULT4, {"dst": "10.7.0.0/16", "gw": "10.1.2.1"}],
                         dns={"nameservers": ["10.1.2.53"]})),
    ptp("dns override", {"dns": {"nameservers": ["10.1.2.3"], "domain": "x.test"}} |
        host_local(V4, resolvConf="/run/resolv.conf"), setup=RESOLV_CONF),
    ptp("dns wiped", {"dns": {"search": []}} | host_local(V4, resolvConf="/run/resolv.conf"),
        setup=RESOLV_CONF),
    ptp("dns from resolvConf", host_local(V4, resolvConf="/run/resolv.conf"), setup=RESOLV_CONF),
    ptp("forwarding is on already", host_local(V4, V6),
        setup=["sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"]),
    ptp("another interface name", host_local(V4), ifname="net1.5"),
    ptp("without ipam", {}, fails=True, says="no plugin name provided"),
    ptp("IPAM plugin is absent", {"ipam": {"type": "absent"}}, fails=True),
    ptp("no address", static(), fails=True, says="missing IP config"),
    ptp("the interface exists", host_local(V4), fails=True, says="already exists",
        with_pod=["ip -n pod1 link add eth0 type veth"]),
]

POD = ["ip link add cni0 type bridge", "ip addr add 10.1.2.1/24 dev cni0",
       "ip addr add fd00:1:2::1/64 dev cni0 nodad", "ip link set cni0 up"]
MARK_CHAIN = ["iptables -t nat -N KUBE-MARK-MASQ", "ip6tables -t nat -N KUBE-MARK-MASQ"]
IPV4, IPV6 = ("10.1.2.9/24",), ("fd00:1:2::9/64",)
TO_IPV4, TO_IPV6 = ports(9001, host_ip="192.0.2.1"), ports(9002, host_ip="2001:db8::1")
EVERY = ports(8000) + ports(8001, 2, "udp") + ports(8003, 1, "sctp")
NO_LOOPBACK = (r"sysctl/ipv4/conf/cni0/route_localnet: \"1\" -> \"0\"",
               "ours turns it on where a port is asked for at 127.0.0.1, the reference always")
NOWHERE = "the reference leads the port of a family that the mapping is not for to an empty chain"


def hostport(name, conf, setup=(), **more):
    return Case(f"portmap {name}", conf, "portmap", setup=POD + list(setup),
                **{"versions": ("1.0.0",)} | more)


CASES += [
    hostport("dual-stack", portmap(EVERY), versions=("1.0.0", "0.4.0", "0.3.1")),
    hostport("IPv4", portmap(EVERY, IPV4)),
    hostport("IPv6", portmap(EVERY, IPV6)),
    hostport("tcp and udp of one number", portmap(ports(53) + ports(53, 1, "udp"))),
    hostport("15 ports", portmap(ports(8000, 15))),
    hostport("16 ports, and 31 of another protocol",
             portmap(ports(8000, 16) + ports(9100, 31, "udp"))),
    hostport("not in order", portmap(ports(8005) + ports(7000, 1, "udp") + ports(80) + ports(443))),
    hostport("of no port", portmap([])),
    hostport("of a pod without addresses", portmap(EVERY, ())),
    hostport("of a pod with addresses of the node and several of its own", portmap(
        EVERY, ("10.9.9.9/24", "10.1.2.9/24", "10.1.2.10/24", "fd00:1:2::9/64", "fd00::9/64"))),
    hostport("of an address with a prefix of its own", portmap(EVERY, ("10.1.2.9/32",))),
    hostport("at an IPv4 address", portmap(TO_IPV4 + ports(80, host_ip="192.0.2.1"), IPV4),
             intended=(NO_LOOPBACK,)),
    hostport("at an IPv6 address", portmap(TO_IPV6 + ports(80, host_ip="2001:db8::1"), IPV6)),
    hostport("at 0.0.0.0", portmap(ports(80, 2, host_ip="0.0.0.0"), IPV4)),
    hostport("at ::", portmap(ports(80, 2, host_ip="::"), IPV6)),
    hostport("at 127.0.0.1", portmap(ports(80, host_ip="127.0.0.1"), IPV4)),
    hostport("at addresses of both families", portmap(ports(9000) + TO_IPV4 + TO_IPV6), intended=(
        (r"CNI-HOSTPORT-DNAT\b.* --dports 90[0-9,]+ -j CNI-DN-", NOWHERE),)),
    hostport("at 0.0.0.0 and ::", portmap(
        ports(9000) + ports(9003, host_ip="0.0.0.0") + ports(9004, host_ip="::")), intended=(
            (r"CNI-HOSTPORT-DNAT\b.* --dports 90[0-9,]+ -j CNI-DN-", NOWHERE),)),
    hostport("at an IPv4 address alone, dual-stack", portmap(TO_IPV4), intended=(
        NO_LOOPBACK, (r"(ip6tables-nft/nat|nft/(table|chain)/ip6/nat|rules after ADD ip6tables).* -> null",
         NOWHERE),)),
    hostport("without snat", portmap(EVERY, snat=False)),
    hostport("with markMasqBit", portmap(EVERY, markMasqBit=5)),
    hostport("with markMasqBit 31", portmap(EVERY, markMasqBit=31)),
    hostport("with externalSetMarkChain", portmap(EVERY, externalSetMarkChain="KUBE-MARK-MASQ"),
             MARK_CHAIN),
    hostport("with externalSetMarkChain, which is not there",
             portmap(EVERY, externalSetMarkChain="KUBE-MARK-MASQ"), fails=True),
    hostport("with conditions", portmap(
        EVERY, conditionsV4=["!", "-s", "192.0.2.0/24", "-i", "eth7"],
        conditionsV6=["-m", "mark", "--mark", "0x7/0xff"])),
    hostport("with conditions for IPv4", portmap(EVERY, conditionsV4=["-s", "192.0.2.0/24"])),
    hostport("with names too long for the comment", portmap(EVERY, name="n" * 250)),
    hostport("with a name of strange characters", portmap(EVERY, name="a.b_c-d")),
    hostport("host port 0", portmap(ports(0)), fails=True, says="Invalid host port number"),
    hostport("container port 0", portmap([EVERY[0] | {"containerPort": 0}]), fails=True,
             says="Invalid container port number"),
    hostport("markMasqBit 32", portmap(EVERY, markMasqBit=32), fails=True,
             says="MasqMarkBit must be between 0 and 31"),
    hostport("markMasqBit -1", portmap(EVERY, markMasqBit=-1), fails=True,
             says="MasqMarkBit must be between 0 and 31"),
    hostport("markMasqBit and externalSetMarkChain", portmap(
        EVERY, markMasqBit=5, externalSetMarkChain="KUBE-MARK-MASQ"), fails=True,
        says="Cannot specify externalSetMarkChain and markMasqBit"),
    hostport("without a previous result", {"backend": "iptables"}, fails=True,
             says="must be called as chained plugin"),
]

DEVICE = ["ip link add dev0 address 02:11:22:33:44:55 type veth peer name far0", "ip link set dev0 addrgenmode none"]


BACK = ((r"node after DEL link/dev0 ifalias: \"dev0\" -> null",
         "the reference of 1.1.1 leaves its alias, the one of 1.9 removes it"),
        (r"pod after ADD sysctl/ipv4/conf/eth0/arp_notify: \"0\" -> \"1\"",
         "an address that another device had is announced"),
        (r"pod after ADD sysctl/ipv6/conf/eth0/accept_dad: \"1\" -> \"0\"",
         "IPv6 works when ADD returns; enabledad is a key of ours"))


def host_device(name, conf, **more):
    return Case(f"host-device {name}", conf, "host-device", **{"setup": DEVICE, "intended": BACK} | more)


CASES += [
    host_device("by name", {"device": "dev0"}),
    host_device("by MAC address", {"hwaddr": MAC}),
    host_device("by name before MAC address", {"device": "dev0", "hwaddr": "02:00:00:00:00:01"}),
    host_device("with IPv4", {"device": "dev0"} | static({"address": "10.1.2.9/24", "gateway": "10.1.2.1"},
                                                         routes=[DEFAULT4]), versions=ALL),
    host_device("with both families", {"device": "dev0"} | static(
        {"address": "10.1.2.9/24", "gateway": "10.1.2.1"}, {"address": "fd00:1:2::9/64"}, routes=[DEFAULT4])),
    host_device("with host-local and dns", {"device": "dev0", "dns": {"nameservers": ["10.1.2.53"]}}
                | host_local(V4, routes=[DEFAULT4])),
    host_device("with dns and without IPAM", {"device": "dev0", "dns": {"nameservers": ["10.1.2.53"]}}),
    host_device("of version 0.2.0 without IPAM", {"device": "dev0"}, versions=("0.2.0",), fails=True),
    host_device("without a selector", {}, fails=True,
                says='specify either \\"device\\", \\"hwaddr\\", \\"kernelpath\\" or \\"pciBusID\\"'),
    host_device("of a MAC address of no link", {"hwaddr": "02:00:00:00:00:01"}, fails=True,
                says="failed to find physical interface"),
    host_device("of a MAC address that is none", {"hwaddr": "zz"}, fails=True,
                says='failed to parse MAC address \\"zz\\"'),
    host_device("of a device that does not exist", {"device": "dev9"}, fails=True, says="Link not found"),
]

CONNECTED = ["ip link add host1 mtu 1400 type veth peer name eth0 mtu 1400 netns pod1",
             "ip link set host1 up addrgenmode none", "ip -n pod1 link set eth0 up addrgenmode none"]
TO_POD = {"ingressRate": 8000000, "ingressBurst": 800000}
FROM_POD = {"egressRate": 4000000, "egressBurst": 400000}
# What containerd and CRI-O always give.
KUBERNETES = {"ingressRate": 1000000, "ingressBurst": 4294967295,
              "egressRate": 2000000, "egressBurst": 4294967295}
WRAPPED = (r"limits after ADD .* burst \d+|^CHECK said: .*Buffer doesn't match|^CHECK status",
           "a burst that takes longer than 274 seconds is cut to that, and does not wrap around")


def bandwidth(*interfaces, **more):
    """After a plugin that made these interfaces; those of the node are text, the pod's None."""
    def conf(version):
        old = version < "1.0.0"
        names = [{"name": name} if name else {"name": "eth0", "sandbox": "/run/netns/pod1"}
                 for name in interfaces or ("host1", None)]
        return {"queue": "fifo",  # our default takes what the kernel has
                "prevResult": {"cniVersion": version, "interfaces": names, "dns": {}, "ips": [
                    {"address": "10.1.2.9/24", "interface": len(names) - 1}
                    | ({"version": "4"} if old else {})]}} | more
    return conf


def limits(name, conf, **more):
    return Case(f"bandwidth {name}", conf, "bandwidth",
                **{"versions": ("1.0.0",), "with_pod": CONNECTED} | more)


CASES += [
    limits("both ways", bandwidth(**TO_POD, **FROM_POD), versions=("1.0.0", "0.4.0", "0.3.1")),
    limits("to the pod", bandwidth(**TO_POD)),
    limits("from the pod", bandwidth(**FROM_POD)),
    limits("from the runtime", bandwidth(runtimeConfig={"bandwidth": TO_POD | FROM_POD})),
    limits("from the runtime, in another spelling",
           bandwidth(runtimeConfig={"bandWidth": TO_POD | FROM_POD})),
    limits("from the config, and not from the runtime",
           bandwidth(**TO_POD, runtimeConfig={"bandwidth": FROM_POD})),
    limits("null in the config, and not from the runtime",
           bandwidth(egressRate=None, runtimeConfig={"bandwidth": FROM_POD})),
    limits("zero", bandwidth(ingressRate=0, ingressBurst=0, egressRate=0, egressBurst=0)),
    limits("none", bandwidth(), versions=("1.0.0", "0.4.0", "0.3.1")),
    limits("of a byte per second", bandwidth(ingressRate=8, ingressBurst=8)),
    limits("of two bytes per second", bandwidth(ingressRate=16, ingressBurst=8)),
    limits("of odd bits", bandwidth(ingressRate=12345677, ingressBurst=765433)),
    limits("of 100 Gbit/s", bandwidth(ingressRate=100000000000, ingressBurst=100000000)),
    limits("of more than 32 bits", bandwidth(egressRate=800000000000, egressBurst=8000000000)),
    limits("with Kubernetes' bursts", bandwidth(**KUBERNETES), intended=(WRAPPED,)),
    limits("with Kubernetes' bursts at rates that they are right for",
           bandwidth(**{k: v * 20 if "Rate" in k else v for k, v in KUBERNETES.items()})),
    limits("with the largest burst", bandwidth(ingressRate=10 ** 9, ingressBurst=8 * (2 ** 32 - 2))),
    limits("with several links of the node", bandwidth("cni0", "absent", "host1", None, **TO_POD,
                                                       **FROM_POD)),
    limits("of a macvlan", bandwidth(None, **FROM_POD), fails=True, says="no veth peer", with_pod=[
        "ip link add host1 type veth", "ip link set host1 up",
        "ip link add eth0 netns pod1 link host1 type macvlan"]),
    limits("of an interface that is not there", bandwidth(**FROM_POD), ifname="eth7", fails=True),
    limits("a rate without burst", bandwidth(ingressRate=8000), fails=True,
           says="if rate is set, burst must also be set"),
    limits("a burst without rate", bandwidth(egressBurst=8000), fails=True,
           says="if burst is set, rate must also be set"),
    limits("a burst of 4 GB", bandwidth(ingressRate=8, ingressBurst=8 * (2 ** 32 - 1)), fails=True,
           says="burst cannot be more than 4GB"),
    limits("a negative rate", bandwidth(ingressRate=-1, ingressBurst=8), fails=True),
    limits("a fraction", bandwidth(ingressRate=1.5, ingressBurst=8), fails=True),
    limits("without a previous result", {"prevResult": None, **FROM_POD}, fails=True,
           says="must be called as chained plugin"),
]

MASTER = ["ip link add eth1 type veth peer name eth1-out", "ip link set eth1 up", "ip link set eth1-out up",
          "ip addr add 192.0.2.1/24 dev eth1", "ip route add default via 192.0.2.2"]
ON_MASTER = (
    (r"link/eth0 ifalias: null -> ", "the interface says whose it is"),
    (r"sysctl/ipv6/conf/eth0/accept_dad: \"1\" -> \"0\"",
     "an IPv6 address is usable when ADD returns; enabledad of macvlan looks for duplicates"),
    (r"pod after DEL sysctl/|node after DEL link/eth1 promiscuity",
     "the kernel's own, some time after the interface went"))


def on_master(plugin, name, conf, **more):
    return Case(f"{plugin} {name}", conf, plugin,
                **{"setup": MASTER, "intended": ON_MASTER, "versions": ("1.0.0", "0.4.0")} | more)


def macvlan(name, conf, **more):
    return on_master("macvlan", name, {"master": "eth1"} | conf, **more)


CASES += [
    *(macvlan(mode, {"mode": mode} | host_local(V4)) for mode in ("bridge", "private", "vepa", "passthru")),
    macvlan("IPv4", host_local(V4, routes=[DEFAULT4]), versions=ALL),
    macvlan("IPv6", host_local(V6, routes=[DEFAULT6]), versions=ALL),
    macvlan("dual-stack", host_local(V4, V6, routes=[DEFAULT4, DEFAULT6]), versions=ALL),
    macvlan("static", static({"address": "10.1.2.9/24", "gateway": "10.1.2.1"}, {"address": "fd00:1:2::9/64"},
                             routes=[DEFAULT4, {"dst": "10.7.0.0/16", "gw": "10.1.2.77"}])),
    macvlan("L2", {"ipam": {}}, versions=("1.0.0", "0.4.0", "0.3.1")),
    macvlan("L2 in version 0.2.0, whose result needs an address", {}, versions=("0.2.0", "0.1.0"), fails=True,
            says="cannot convert: no valid IP addresses"),
    macvlan("without master", {"master": ""} | host_local(V4)),
    macvlan("with mtu", {"mtu": 1400} | host_local(V4)),
    macvlan("with mac", {"mac": MAC} | host_local(V4)),
    macvlan("with a mac from CNI_ARGS", host_local(V4), args=f"IgnoreUnknown=true;MAC={MAC}"),
    macvlan("with a mac from RuntimeConfig", {"RuntimeConfig": {"mac": MAC}} | host_local(V4)),
    macvlan("with dns", {"dns": {"nameservers": ["10.1.2.3"], "domain": "x.test"}} |
            host_local(V4, resolvConf="/run/resolv.conf"), setup=MASTER + RESOLV_CONF),
    macvlan("without dns, where IPAM has one", host_local(V4, resolvConf="/run/resolv.conf"),
            setup=MASTER + RESOLV_CONF),
    macvlan("an unknown mode", {"mode": "x"} | host_local(V4), fails=True, says="unknown macvlan mode: "),
    macvlan("an MTU above the master's", {"mtu": 9000} | host_local(V4), fails=True,
            says="invalid MTU 9000, must be [0, master MTU(1500)]"),
    macvlan("a master that does not exist", {"master": "gone0"} | host_local(V4), fails=True,
            says="Link not found"),
    macvlan("no default route", {"master": ""} | host_local(V4), fails=True, setup=MASTER[:4],
            says="no default route interface found"),
]


def ipvlan(name, conf, **more):
    return on_master("ipvlan", name, {"master": "eth1"} | conf, **more)


def after_master(version):
    """The master is the only interface of the result of another plugin, whose address is taken over."""
    old = {"version": "4"} if version < "1.0.0" else {}
    return {"master": "", "prevResult": {"cniVersion": version, "interfaces": [{"name": "eth1"}], "dns": {},
                                         "ips": [{"address": "10.1.2.9/24", "interface": 0} | old]}}


#: The CHECK of the reference needs a master in the config.
NO_MASTER = ((r"^CHECK (status|said): ", "the CHECK of the reference fails without master"),)

CASES += [
    *(ipvlan(mode, {"mode": mode} | host_local(V4)) for mode in ("l2", "l3", "l3s")),
    ipvlan("IPv4", host_local(V4, routes=[DEFAULT4]), versions=ALL),
    ipvlan("IPv6", host_local(V6, routes=[DEFAULT6]), versions=ALL),
    ipvlan("dual-stack", host_local(V4, V6, routes=[DEFAULT4, DEFAULT6]), versions=ALL),
    ipvlan("static", static({"address": "10.1.2.9/24", "gateway": "10.1.2.1"}, {"address": "fd00:1:2::9/64"},
                            routes=[DEFAULT4, {"dst": "10.7.0.0/16", "gw": "10.1.2.77"}])),
    ipvlan("without master", {"master": ""} | host_local(V4), intended=ON_MASTER + NO_MASTER),
    ipvlan("with mtu", {"mtu": 1400} | host_local(V4)),
    ipvlan("with dns", {"dns": {"nameservers": ["10.1.2.3"], "domain": "x.test"}} |
           host_local(V4, resolvConf="/run/resolv.conf"), setup=MASTER + RESOLV_CONF),
    on_master("ipvlan", "after another plugin", after_master, intended=ON_MASTER + NO_MASTER + (
        (r"^ADD result (interfaces|ips): ", "what the plugin before made stays in the result"),
        (r"^DEL: ", "the DEL of the reference fails where a result has not one interface"))),
    ipvlan("an unknown mode", {"mode": "x"} | host_local(V4), fails=True, says="unknown ipvlan mode: "),
    ipvlan("a master that does not exist", {"master": "gone0"} | host_local(V4), fails=True,
           says="Link not found"),
    ipvlan("no default route", {"master": ""} | host_local(V4), fails=True, setup=MASTER[:4],
           says="no default route interface found"),
    ipvlan("without IPAM", {}, fails=True, says="no plugin name provided"),
]

#: A pod whose eth0 another plugin made, with routes by it.
MADE = ["ip -n pod1 link set lo up", "ip link add host1 type veth peer name eth0 netns pod1", "ip link set host1 up",
        "ip -n pod1 addr add 10.1.2.9/24 dev eth0", "ip -n pod1 addr add fd00:1:2::9/64 dev eth0 nodad",
        "ip -n pod1 link set eth0 addrgenmode none up", "ip -n pod1 route add 10.9.0.0/16 via 10.1.2.1 mtu 1400",
        "ip -n pod1 route add default via 10.1.2.1"]


def behind(keys, addresses=("10.1.2.9/24", "fd00:1:2::9/64")):
    """After a plugin that made eth0 with these addresses, each with a gateway."""
    def conf(version):
        old = version < "1.0.0"
        ips = [{"address": one, "gateway": "fd00:1:2::1" if ":" in one else "10.1.2.1", "interface": 0}
               | ({"version": "6" if ":" in one else "4"} if old else {}) for one in addresses]
        return {"prevResult": {"cniVersion": version, "ips": ips, "dns": {},
                               "interfaces": [{"name": "eth0", "sandbox": "/run/netns/pod1"}]}} | keys
    return conf


def in_pod(plugin, name, keys, intended=(), **more):
    return Case(f"{plugin} {name}", behind(keys, more.pop("addresses", ("10.1.2.9/24", "fd00:1:2::9/64"))), plugin,
                **{"with_pod": MADE, "versions": ("1.0.0",), "intended": intended} | more)


WHOSE = (r"pod after (ADD|DEL) rule-", "a rule says by its protocol whose it is; compared in netns.sbr")
TO_TABLE = (r"pod after ADD route-[46]/unicast (default|fd00:1:2::/64) .*table 10[01]",
            "the default route says whose it is; routes of IPv6 go to tables of IPv6 addresses alone")
STAYS = (r"pod after ADD route-6/unicast fd00:1:2::/64 .*table main ", "routes of a family without address stay")
BACK = (r"pod after DEL (route-|link/|sysctl/|address/)", "DEL restores what ADD changed")
VALUE = (r"^CHECK (status: 1 -> 0|said: .*(Tuning configured value|conf/IFNAME/))",
         "values are compared, and not texts; the reference of 1.1.1 does not replace IFNAME in CHECK")
MOVED = (r"pod after ADD route-[46]/unicast [^ ]+ via [^ ]+ dev eth0 table (1|77)\b.*: null -> |CHECK",
         "older releases lose routes via gateways; those of 1.9 move them")
QUEUE = (r"pod after ADD link/blue txqlen: null -> 1000", "the reference sets a queue length of 0 by accident")
CASES += [
    in_pod("sbr", "dual-stack", {}, (WHOSE, TO_TABLE, BACK), versions=("1.0.0", "0.4.0", "0.3.1")),
    in_pod("sbr", "IPv4", {}, (WHOSE, TO_TABLE, BACK, STAYS), addresses=("10.1.2.9/24",)),
    in_pod("sbr", "without addresses", {}, addresses=(), fails=True, says="No IP addresses supplied on interface"),
    in_pod("sbr", "of an interface that is not there", {}, ifname="eth7", fails=True),
    in_pod("sbr", "without a previous result", {"prevResult": None}, fails=True,
           says="This plugin must be called as chained plugin"),
    in_pod("tuning", "a sysctl", {"sysctl": {"net.ipv4.conf.IFNAME.rp_filter": "2"}}, (BACK, VALUE),
           versions=("1.0.0", "0.4.0", "0.3.1")),
    in_pod("tuning", "a list of numbers", {"sysctl": {"net.ipv4.ip_local_port_range": "2000 3000"}}, (VALUE,)),
    in_pod("tuning", "a MAC address", {"mac": MAC}, (BACK,)),
    in_pod("tuning", "promisc and allmulti", {"promisc": True, "allmulti": True}, (BACK,)),
    in_pod("tuning", "an MTU", {"mtu": 1400, "mtuBothEnds": False}, (BACK,)),
    in_pod("tuning", "of an interface that is not there", {"mtu": 1400}, ifname="eth7", fails=True),
    in_pod("tuning", "a sysctl beside net", {"sysctl": {"kernel.core_pattern": "x"}}, fails=True),
    in_pod("tuning", "without a previous result", {"prevResult": None}, fails=True, says="Required prevResult missing"),
    in_pod("vrf", "dual-stack", {"vrfname": "blue"}, (MOVED, QUEUE, BACK), versions=("1.0.0", "0.4.0", "0.3.1")),
    in_pod("vrf", "with a table", {"vrfname": "blue", "table": 77}, (MOVED, QUEUE, BACK)),
    in_pod("vrf", "without a name", {}, fails=True, says="configuration is expected to have a valid vrf name"),
    in_pod("vrf", "of an interface that is not there", {"vrfname": "blue"}, ifname="eth7", fails=True,
           says="could not get link by name"),
    in_pod("vrf", "of a name that is another link's", {"vrfname": "eth0"}, fails=True, says="is not a VRF"),
]
