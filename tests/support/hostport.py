"""Ports of the node that lead to pods: the hosts and pods of such a node, servers that say whom
they heard, and clients that ask many of them at once.

    outside (192.0.2.2) --- up0 (192.0.2.1, .10) node (198.51.100.1) up1 --- beyond (198.51.100.2)
                                                  |
                                        bridge cni0 (10.1.2.1): pods
"""

import contextlib
import ctypes
import dataclasses
import errno
import functools
import os
import selectors
import signal
import socket
import subprocess
import time

from support import guest, sctp
from support.chain import Network
from support.plugin import OURS
from support.world import Pod, run, wait_for

#: Addresses by family.
NODE = {4: "192.0.2.1", 6: "2001:db8:1::1"}
SECOND = {4: "192.0.2.10", 6: "2001:db8:1::10"}
OUTSIDE = {4: "192.0.2.2", 6: "2001:db8:1::2"}
BEYOND = {4: "198.51.100.2", 6: "2001:db8:2::2"}
BRIDGE = {4: "10.1.2.1", 6: "fd00:1:2::1"}

PROTOCOLS = ("tcp", "udp", "sctp")
BRIDGE_CONF = {"type": "bridge", "bridge": "cni0", "isDefaultGateway": True, "hairpinMode": True,
               "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}],
                                                         [{"subnet": "fd00:1:2::/64"}]]}}


def mapping(host_port, container_port, protocol="tcp", host_ip=None):
    """An entry of portMappings."""
    entry = {"hostPort": host_port, "containerPort": container_port, "protocol": protocol}
    return entry | ({"hostIP": host_ip} if host_ip is not None else {})


def config(mappings=None, backend="nftables", version="1.0.0", name="net1", **more):
    """The config of portmap alone."""
    conf = {"cniVersion": version, "name": name, "type": "portmap", "backend": backend} | more
    return conf if mappings is None else conf | {"runtimeConfig": {"portMappings": mappings}}


def result(pod, v4="10.1.2.2", v6="fd00:1:2::2", ifname="eth0"):
    """What a plugin before portmap would have said of a pod with these addresses."""
    ips = [{"address": f"{v4}/24", "interface": 0}] if v4 else []
    ips += [{"address": f"{v6}/64", "interface": 0}] if v6 else []
    return {"cniVersion": "1.0.0", "ips": ips,
            "interfaces": [{"name": ifname, "sandbox": getattr(pod, "path", pod)}]}


def network(backend="nftables", version="1.0.0", **more):
    """bridge and portmap, as runtimes call them."""
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}, "backend": backend}
    return Network({"cniVersion": version, "name": "net1",
                    "plugins": [BRIDGE_CONF, portmap | more]}, (OURS,))


@functools.cache
def _works(multi):
    """Whether the program lists the table nat, tried where nobody sees it."""
    listing = ["unshare", "--net", multi, "iptables", "-t", "nat", "-S"]
    return os.path.exists(multi) and subprocess.run(listing, capture_output=True).returncode == 0


def select_iptables(variant):
    """Makes the plain names of the iptables programs mean "nft" or "legacy" on this node, for all
    that looks them up in PATH. Returns why it cannot, or None."""
    multi = f"/usr/sbin/xtables-{variant}-multi"
    if variant == "legacy":
        guest.load(*(f"{family}table_{table}" for family in ("ip", "ip6") for table in ("filter", "nat")))
    if not _works(multi):
        return f"needs {multi}, and a kernel that knows its tables"
    folder = f"/run/xtables-{variant}"
    os.makedirs(folder, exist_ok=True)
    for name in ("iptables", "ip6tables"):
        for suffix in ("", "-save", "-restore"):
            with contextlib.suppress(FileExistsError):
                os.symlink(multi, f"{folder}/{name}{suffix}")
    others = [p for p in os.environ["PATH"].split(":") if not p.startswith("/run/xtables-")]
    os.environ["PATH"] = ":".join([folder, *others])
    return None


class Site:
    """The hosts around the node, and the node's addresses towards them."""

    def __init__(self):
        # Every refusal is told, not one a second.
        run("sysctl", "-qw", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
        self.outside, self.beyond = Pod("outside"), Pod("beyond")
        self._join("up0", self.outside, NODE, OUTSIDE)
        self._join("up1", self.beyond, {4: "198.51.100.1", 6: "2001:db8:2::1"}, BEYOND)
        for address in (f"{SECOND[4]}/24", f"{SECOND[6]}/64"):
            run("ip", "addr", "add", address, "dev", "up0", "nodad")
        # The kernels of both ends are ready for IPv6 some time after the links are up.
        for pod, address in ((self.outside, NODE[6]), (self.beyond, "2001:db8:2::1")):
            assert wait_for(lambda pod=pod, address=address: " 0% packet loss" in pod.run(
                "ping", "-c1", "-W1", address, check=False), 10)

    @staticmethod
    def _join(link, pod, here, there):
        run("ip", "link", "add", link, "type", "veth", "peer", "eth0", "netns", pod.name)
        for at, name, addresses in (((), link, here), (("-n", pod.name), "eth0", there)):
            batch = "".join(f"addr add {addresses[family]}/{length} dev {name} {nodad}\n"
                            for family, length, nodad in ((4, 24, ""), (6, 64, "nodad")))
            run("ip", *at, "-batch", "-", stdin=batch + f"link set {name} up\n")
        run("ip", "-n", pod.name, "-batch", "-", stdin="".join(
            f"route add default via {address}\n" for address in here.values()))


def _answer(name, port, peer):
    return f"{name} {port} {peer.removeprefix('::ffff:')}"


class _Serving:
    """The loop of a server's process."""

    def __init__(self, ports, protocols, addresses):
        self.ports, self.protocols, self.addresses = ports, protocols, addresses
        self.selector = selectors.DefaultSelector()

    def open(self, name):
        """Answers with this name in the network namespace in which the process is."""
        for address in self.addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            if "sctp" in self.protocols:
                self._watch(sctp.raw_socket(family), self._sctp, name)
            for port in self.ports:
                if "tcp" in self.protocols:
                    self._bind(family, socket.SOCK_STREAM, (address, port), self._tcp, name)
                if "udp" in self.protocols:
                    self._bind(family, socket.SOCK_DGRAM, (address, port), self._udp, name)

    def _watch(self, one, what, name):
        one.setblocking(False)
        self.selector.register(one, selectors.EVENT_READ, functools.partial(what, name))

    def _bind(self, family, kind, where, what, name):
        one = socket.socket(family, kind)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind(where)
        if kind == socket.SOCK_STREAM:
            one.listen(64)
        self._watch(one, what, name)

    def _tcp(self, name, one):
        connection, peer = one.accept()
        with connection:
            connection.send(_answer(name, one.getsockname()[1], peer[0]).encode())

    def _udp(self, name, one):
        _, peer = one.recvfrom(2048)
        one.sendto(_answer(name, one.getsockname()[1], peer[0]).encode(), peer)

    def _sctp(self, name, one):
        packet, peer = sctp.receive(one)
        found = sctp.parse(packet)
        if found and found[2] == sctp.INIT and found[1] in self.ports:
            one.sendto(sctp.init_ack(packet, _answer(name, found[1], peer)), (peer, 0))

    def forever(self):
        while True:
            for key, _ in self.selector.select():
                with contextlib.suppress(OSError):  # the client is gone
                    key.data(key.fileobj)


class Servers:
    """A process that answers on ports of pods with the pod's name, its port and the address that it took for the
    client's. places are names with pods, or with None for the node."""

    def __init__(self, test, places, ports, protocols=PROTOCOLS, addresses=("0.0.0.0", "::")):
        ready, say = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
                os.close(ready)
                serving = _Serving(ports, protocols, addresses)
                for name, pod in places:
                    with pod.inside() if pod else contextlib.nullcontext():
                        serving.open(name)
                os.write(say, b"ready")
                serving.forever()
            except OSError as error:
                os.write(say, str(error).encode())
            finally:
                os._exit(1)
        os.close(say)
        with os.fdopen(ready, "rb") as file:
            said = file.read(5)
            assert said == b"ready", f"servers {[name for name, _ in places]}: {said + file.read()}"
        test.addCleanup(self.stop)

    def stop(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0


class Server(Servers):
    """The same of one pod, or of the node where pod is None."""

    def __init__(self, test, name, ports, pod=None, **options):
        super().__init__(test, [(name, pod)], ports, **options)


@dataclasses.dataclass(frozen=True)
class Probe:
    """One question: origin is a Pod, or None for the node itself."""

    origin: Pod
    protocol: str
    address: str
    port: int
    source_port: int = 0

    def __str__(self):
        who = self.origin.name if self.origin else "node"
        return f"{who} asks {self.protocol} {self.address} port {self.port}"


class _Asking:
    _next_port = 20000

    def __init__(self, probe):
        self.probe, self.answer, self.sent = probe, None, 0.0
        family = socket.AF_INET6 if ":" in probe.address else socket.AF_INET
        _Asking._next_port += 1
        self.source_port = probe.source_port or _Asking._next_port
        with probe.origin.inside() if probe.origin else contextlib.nullcontext():
            if probe.protocol == "sctp":
                self.socket = sctp.raw_socket(family)
            else:
                kind = socket.SOCK_STREAM if probe.protocol == "tcp" else socket.SOCK_DGRAM
                self.socket = socket.socket(family, kind | socket.SOCK_NONBLOCK)
        if family == socket.AF_INET6 and probe.protocol != "sctp":
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            if probe.source_port and probe.protocol != "sctp":
                self.socket.bind(("::" if ":" in probe.address else "0.0.0.0", probe.source_port))
            # Connected, it gets packets from this address (and port) only: an answer that was not
            # translated back is none.
            self.socket.connect((probe.address, 0 if probe.protocol == "sctp" else probe.port))
        except BlockingIOError:
            pass
        except OSError as error:
            self._failed(error)

    def _failed(self, error):
        if self.probe.protocol == "sctp":
            return  # the kernel tells a raw socket of the errors of all others to the same address
        known = {errno.ECONNREFUSED: "refused"}
        self.answer = known.get(error.errno, errno.errorcode.get(error.errno, str(error)))

    def send(self, now):
        """Sends again what nobody else would."""
        if self.answer is not None or self.probe.protocol == "tcp" or now - self.sent < 0.25:
            return
        self.sent = now
        try:
            if self.probe.protocol == "udp":
                self.socket.send(b"who is there")
            else:
                self.socket.send(sctp.init(self.source_port, self.probe.port))
        except OSError as error:
            self._failed(error)

    def receive(self):
        try:
            if self.probe.protocol != "sctp":
                self.answer = self.socket.recv(2048).decode() or "closed"
                return
            found = sctp.parse(sctp.receive(self.socket)[0])
            if found and found[:3] == (self.probe.port, self.source_port, sctp.INIT_ACK):
                self.answer = found[3]
        except BlockingIOError:
            pass
        except OSError as error:
            self._failed(error)


def ask(probes, seconds=2.0):
    """What each probe was answered: "NAME PORT PEER", "refused", the name of another error, or
    "nothing" within the seconds. All are asked at once."""
    asking = [_Asking(probe) for probe in probes]
    end = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for one in asking:
            if one.answer is None:
                selector.register(one.socket, selectors.EVENT_READ, one)
        while (now := time.monotonic()) < end and any(one.answer is None for one in asking):
            for one in asking:
                one.send(now)
            for key, _ in selector.select(0.1):
                key.data.receive()
                if key.data.answer is not None:
                    selector.unregister(key.fileobj)
    for one in asking:
        one.socket.close()
    return [one.answer or "nothing" for one in asking]


def ask_one(origin, protocol, address, port, seconds=2.0, source_port=0):
    """The answer to one question."""
    return ask([Probe(origin, protocol, address, port, source_port)], seconds)[0]


def tracked(*words):
    """The connections that the node's kernel tracks, one line each, that have all the words."""
    with open("/proc/net/nf_conntrack", encoding="ascii") as file:
        return [line for line in file if all(word in line.split() for word in words)]
