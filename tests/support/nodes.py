"""Several nodes of a cluster on one machine: each has a network, a mount and a host-name namespace of its own, and all are
ports of one segment. Routes between them are made as flanneld makes them.

    outside (192.0.2.9, the world of the test) --- lan --- eth0 (192.0.2.1N) of node N --- cni0 (10.244.N.1): pods

The pods of node N have addresses of 10.244.N.0/27 and fd00:244:0:N::/64.
"""

import contextlib
import io
import itertools
import json
import os
import tarfile
import uuid

from support.cnitool import cnitool, use
from support.reboot import boot
from support.world import CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWUTS, Pod, World, run, setns

OUTSIDE = {4: "192.0.2.9", 6: "2001:db8:1::9"}
#: Of all pods, as flanneld's net-conf.json has it.
CLUSTER = {4: "10.244.0.0/16", 6: "fd00:244::/56"}
SUBNET_ENV = "/run/flannel/subnet.env"
NETWORK = "cbr0"
_KINDS = (("mnt", CLONE_NEWNS), ("net", CLONE_NEWNET), ("uts", CLONE_NEWUTS))
_STATE = "/var/lib/cni"

#: As k3s writes it, and with the version that has STATUS.
CONFLIST = {"name": NETWORK, "cniVersion": "1.1.0", "plugins": [
    {"type": "flannel", "delegate": {"hairpinMode": True, "forceAddress": True, "isDefaultGateway": True}},
    {"type": "portmap", "capabilities": {"portMappings": True}},
    {"type": "bandwidth", "capabilities": {"bandwidth": True}}]}


def batch(*lines, words=()):
    """Runs lines of ip(8) at once."""
    run("ip", *words, "-batch", "-", stdin="".join(f"{line}\n" for line in lines))


class Place:
    """The namespaces in which this process is now, to return to."""

    def __init__(self):
        self._kinds = [(os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind) for name, kind in _KINDS]
        self._root, self._directory = os.open("/", os.O_PATH | os.O_CLOEXEC), os.getcwd()

    @property
    def netns(self):
        """A name of the network namespace that ip(8) takes."""
        return f"/proc/{os.getpid()}/fd/{self._kinds[1][0]}"

    def enter(self):
        for fd, kind in self._kinds:
            setns(fd, kind)
        os.fchdir(self._root)
        os.chroot(".")  # the root of a mount namespace need not be that of its processes
        os.chdir(self._directory)

    def close(self):
        """Forgets the namespaces: without processes in them they are removed."""
        for fd in (*(fd for fd, _ in self._kinds), self._root):
            os.close(fd)


class NodePod(Pod):
    """A pod of a node, reached from everywhere. Made in its node."""

    _numbers = itertools.count(1)

    def __init__(self, node, host_port=None):
        super().__init__(f"web-{next(self._numbers)}")
        self.node, self.container, self.host_port = node, uuid.uuid4().hex * 2, host_port
        self._netns = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        self.addresses = {}

    @contextlib.contextmanager
    def inside(self):
        home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        setns(self._netns, CLONE_NEWNET)
        try:
            yield
        finally:
            setns(home, CLONE_NEWNET)
            os.close(home)

    def close(self):
        os.close(self._netns)

    def call(self, verb, *words, **options):
        """Runs cnitool with what a kubelet and its runtime say of the pod."""
        names = {"K8S_POD_NAMESPACE": "default", "K8S_POD_NAME": self.name, "K8S_POD_INFRA_CONTAINER_ID": self.container}
        ports = [] if self.host_port is None else [{"hostPort": self.host_port, "containerPort": 8080, "protocol": "tcp"}]
        options = {"CNI_ARGS": ";".join(["IgnoreUnknown=1", *(f"{k}={v}" for k, v in names.items())]),
                   "CAP_ARGS": {"portMappings": ports} if ports else None} | options
        with self.node.inside():
            return cnitool(verb, NETWORK, self.path, "--container-id", self.container, *words, **options)


class Node:
    """A node with its uplink and its part of the pods' addresses; `disk` is /var/lib/cni of before its reboot."""

    def __init__(self, lan, number, disk=None):
        self.name, self.number = f"node{number}", number
        self.address = {4: f"192.0.2.{10 + number}", 6: f"2001:db8:1::{10 + number}"}
        self.subnet = {4: f"10.244.{number}.0/27", 6: f"fd00:244:0:{number}::/64"}
        self.pods = []
        World()
        if disk is not None:
            with tarfile.open(fileobj=io.BytesIO(disk)) as tar:
                tar.extractall(_STATE)
        boot(5)
        self._place = Place()
        lan.enter()
        batch(f"link add {self.name} type veth peer name eth0 address 02:00:5e:00:01:0{number} "
              f"netns {self._place.netns}",
              f"link set {self.name} master lan up")
        with self.inside():
            self._configure()
            use(CONFLIST, "10-flannel.conflist")
        self._lan = lan

    def _configure(self):
        """What the operator's files do."""
        no_dad("eth0")
        for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            with open(f"/proc/sys/net/{name}", "w", encoding="ascii") as file:
                file.write("1")
        batch(f"address add {self.address[4]}/24 dev eth0", f"address add {self.address[6]}/64 dev eth0 nodad",
              "link set eth0 up", f"route add default via {OUTSIDE[4]}", f"route add default via {OUTSIDE[6]}")

    @contextlib.contextmanager
    def inside(self):
        """This process and its children are on the node for the length of a with statement."""
        back = Place()
        self._place.enter()
        try:
            yield
        finally:
            back.enter()
            back.close()

    def run(self, *command, **options):
        with self.inside():
            return run(*command, **options)

    def new_pods(self, count, host_port=None):
        """So many more pods. The first of the node has a hostPort."""
        with self.inside():
            made = [NodePod(self, None if n or self.pods else host_port) for n in range(count)]
        self.pods += made
        return made

    def disk(self):
        """What is in /var/lib/cni."""
        out = io.BytesIO()
        with self.inside(), tarfile.open(fileobj=out, mode="w") as tar:
            tar.add(_STATE, arcname=".")
        return out.getvalue()

    def switch_off(self):
        """Its namespaces and those of its pods end."""
        for pod in self.pods:
            pod.close()
        self._place.close()
        run("ip", "link", "del", self.name)


def no_dad(link):
    """Its link-local address is usable at once: until then the kernel asks for no neighbour, up to 2 s."""
    with open(f"/proc/sys/net/ipv6/conf/{link}/accept_dad", "w", encoding="ascii") as file:
        file.write("0")


def global_addresses(link):
    """{family: address} of a link."""
    found, = json.loads(run("ip", "-j", "addr", "show", "dev", link))
    return {6 if one["family"] == "inet6" else 4: one["local"] for one in found["addr_info"] if one["scope"] == "global"}


def source_towards(address):
    """The node's own address for packets to an address."""
    return json.loads(run("ip", "-j", "route", "get", address))[0]["prefsrc"]


class Lan:
    """The segment between the nodes, in the world of the test, which is a host outside of the cluster."""

    def __init__(self):
        # Of its own, else it is that of a port.
        run("ip", "link", "add", "lan", "address", "02:00:5e:00:00:09", "type", "bridge")
        no_dad("lan")
        batch(f"address add {OUTSIDE[4]}/24 dev lan", f"address add {OUTSIDE[6]}/64 dev lan nodad", "link set lan up")
        self._place = Place()

    def enter(self):
        self._place.enter()


class HostGateway:
    """flanneld's backend host-gw: pods of another node by way of its address."""

    mtu = {4: 1500, 6: 1500}

    def start(self, node):
        """What flanneld does on a node when it begins: nothing is needed before the routes."""

    def connect(self, node, peer):
        batch(*(f"route replace {peer.subnet[family]} via {peer.address[family]} dev eth0" for family in (4, 6)))

    def disconnect(self, node, peer):
        batch(*(f"route del {peer.subnet[family]} via {peer.address[family]} dev eth0" for family in (4, 6)))


class Vxlan:
    """flanneld's backend vxlan: a device for each family, and of each peer a route, a neighbour and an entry of its
    forwarding database."""

    mtu = {4: 1450, 6: 1430}
    _links = {4: "flannel.1", 6: "flannel-v6.1"}

    @staticmethod
    def _endpoint(node, family):
        """The address of its device: the first one of its subnet."""
        return node.subnet[family].split("/")[0]

    def start(self, node):
        for family, link in self._links.items():
            batch(f"link add {link} type vxlan id 1 dev eth0 local {node.address[family]} dstport 8472 nolearning")
            no_dad(link)
            batch(f"link set {link} mtu {self.mtu[family]}",
                  f"address add {self._endpoint(node, family)}/{32 if family == 4 else 128} dev {link} "
                  f"{'nodad' if family == 6 else ''}", f"link set {link} up")
        node.vtep = {family: json.loads(run("ip", "-j", "link", "show", link))[0]["address"]
                     for family, link in self._links.items()}

    def connect(self, node, peer):
        for family, link in self._links.items():
            endpoint, mac = self._endpoint(peer, family), peer.vtep[family]
            run("bridge", "fdb", "replace", mac, "dev", link, "dst", peer.address[family], "self", "permanent")
            batch(f"neigh replace {endpoint} lladdr {mac} dev {link} nud permanent",
                  f"route replace {peer.subnet[family]} via {endpoint} dev {link} onlink")

    def disconnect(self, node, peer):
        for family, link in self._links.items():
            endpoint = self._endpoint(peer, family)
            batch(f"route del {peer.subnet[family]} via {endpoint} dev {link}", f"neigh del {endpoint} dev {link}")
            run("bridge", "fdb", "del", peer.vtep[family], "dev", link, "dst", peer.address[family], "self")


def _masquerade(node):
    """flanneld's tables with --ip-masq, in its order."""
    for family, word, table, multicast in ((4, "ip", "flannel-ipv4", "224.0.0.0/4"), (6, "ip6", "flannel-ipv6", "ff00::/8")):
        own, cluster = node.subnet[family], CLUSTER[family]
        yield f"""table {word} {table} {{
          chain forward {{
            type filter hook forward priority filter;
            {word} saddr {cluster} accept
            {word} daddr {cluster} accept
          }}
          chain postrtg {{
            type nat hook postrouting priority srcnat;
            meta mark & 0x4000 == 0x4000 return
            {word} saddr {own} {word} daddr {cluster} return
            {word} saddr {cluster} {word} daddr {own} return
            {word} saddr != {cluster} {word} daddr {own} return
            {word} saddr {cluster} {word} daddr != {multicast} masquerade
            {word} saddr != {cluster} {word} daddr {cluster} masquerade
          }}
        }}
        """


class Flanneld:
    """What a flanneld on each node does together with the others. masquerade is its --ip-masq."""

    def __init__(self, backend, masquerade=True):
        self.backend, self.masquerade, self._nodes = backend, masquerade, []

    def start(self, node):
        """It begins on a node, and the others hear of it. subnet.env is there at the end."""
        with node.inside():
            self.backend.start(node)
            if self.masquerade:
                run("nft", "-f", "-", stdin="".join(_masquerade(node)))
        for peer in self._nodes:
            for one, other in ((node, peer), (peer, node)):
                with one.inside():
                    self.backend.connect(one, other)
        self._nodes.append(node)
        with node.inside():
            self._write(node)

    def _write(self, node):
        first = {family: subnet.replace("0/27", "1/27").replace("::/", "::1/") for family, subnet in node.subnet.items()}
        lines = [f"FLANNEL_NETWORK={CLUSTER[4]}", f"FLANNEL_SUBNET={first[4]}", f"FLANNEL_IPV6_NETWORK={CLUSTER[6]}",
                 f"FLANNEL_IPV6_SUBNET={first[6]}", f"FLANNEL_MTU={self.backend.mtu[4]}",
                 f"FLANNEL_IPMASQ={'true' if self.masquerade else 'false'}"]
        os.makedirs(os.path.dirname(SUBNET_ENV), exist_ok=True)
        with open(SUBNET_ENV + ".new", "w", encoding="ascii") as file:
            file.write("".join(f"{line}\n" for line in lines))
        os.rename(SUBNET_ENV + ".new", SUBNET_ENV)

    def forget(self, node):
        """The lease of a node ends: the others remove their routes to it."""
        self._nodes.remove(node)
        for peer in self._nodes:
            with peer.inside():
                self.backend.disconnect(peer, node)

    def lose(self, node):
        """A node is switched off, and keeps its lease: the others keep their routes."""
        self._nodes.remove(node)
