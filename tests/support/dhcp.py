"""DHCP servers, our daemon, and captures, for the tests of dhcp."""

import atexit
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from support import daemons
from support.plugin import OURS, cni
from support.world import Pod, run, wait_for

SOCKET = "/run/cni/dhcp.sock"
STATES = "/run/cni/dhcp"
BRIDGE = "br-dhcp"
MAC = "02:00:5e:00:77:01"


def segment(address="10.77.0.1/24"):
    """A bridge of the node that the pods' interfaces are ports of; the servers listen on it."""
    run("ip", "link", "add", BRIDGE, "address", MAC, "type", "bridge")
    run("ip", "addr", "add", address, "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    # A port that is up: some servers do not listen on a bridge without carrier.
    run("ip", "link", "add", "uplink", "type", "veth", "peer", "name", "uplink-out")
    run("ip", "link", "set", "uplink-out", "up")
    run("ip", "link", "set", "uplink", "master", BRIDGE, "up")
    wait_for(lambda: "state UP" in run("ip", "link", "show", BRIDGE))


def veth(pod, host, ifname="eth0"):
    """Gives a pod an interface whose other end, called host, is a port of the bridge."""
    run("ip", "link", "add", host, "type", "veth", "peer", "name", ifname, "netns", pod.name)
    run("ip", "link", "set", host, "master", BRIDGE, "up")


class Daemon:
    """`dhcp daemon` of a directory of plugins, with its log in a file."""

    def __init__(self, *flags, directory=OURS, socket=SOCKET, folder="/run"):
        self.socket, self.flags, self.directory = socket, flags, directory
        self.log_file = f"{folder}/dhcp-daemon-{time.monotonic_ns()}.log"
        self.start()

    @property
    def pids(self):
        return {self.process.pid}

    def spawn(self, **options):
        with open(self.log_file, "a") as out:
            self.process = subprocess.Popen(
                [os.path.join(self.directory, "dhcp"), "daemon", "-socketpath", self.socket, *self.flags],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, **options)

    def start(self):
        self.spawn()
        if not wait_for(lambda: os.path.exists(self.socket) or self.process.poll() is not None, 10):
            raise RuntimeError("the daemon does not listen: " + self.log)
        if self.process.poll() is not None:
            raise RuntimeError(f"the daemon ended with {self.process.returncode}: {self.log}")
        if self.directory == OURS:
            wait_for(lambda: self.leases(check=False) is not None, 10)

    @property
    def log(self):
        with open(self.log_file) as file:
            return file.read()

    def leases(self, check=True):
        """The daemon's leases, by the names of their containers."""
        asked = subprocess.run([os.path.join(OURS, "dhcp"), "leases", "-json", "-socketpath", self.socket],
                               capture_output=True, text=True, timeout=30)
        if asked.returncode != 0:
            if check:
                raise RuntimeError(f"dhcp leases: {asked.stderr}")
            return None
        return {lease["containerID"]: lease for lease in json.loads(asked.stdout)}

    def kill(self):
        """As the kernel does it that is out of memory."""
        self.process.kill()
        self.process.wait()

    def restart(self):
        self.kill()
        self.start()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=10)

    def memory(self):
        """Resident memory in KiB."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])

    def open_files(self):
        """The targets of its descriptors. One that it closes meanwhile is left out."""
        folder = f"/proc/{self.process.pid}/fd"
        files = []
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                files.append(os.readlink(f"{folder}/{name}"))
        return files

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Server:
    """A DHCP server, with its log in a file."""

    def __init__(self, command, log_file, ready):
        self.command, self.log_file, self.ready = command, log_file, ready
        self.process = None
        self.start()

    @property
    def pids(self):
        return {self.process.pid}

    def start(self):
        before = len(self.log)
        with open(self.log_file, "a") as out:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        if not wait_for(lambda: self.ready in self.log[before:] or self.process.poll() is not None, 15):
            raise RuntimeError(f"{self.command[0]} is not ready: {self.log}")
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.command[0]} ended with {self.process.returncode}: {self.log}")

    @property
    def log(self):
        try:
            with open(self.log_file, errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def dnsmasq(lease="1h", pool="10.77.0.10,10.77.0.99", options=(), folder="/run/dnsmasq", interface=BRIDGE):
    os.makedirs(folder, exist_ok=True)
    return Server(["dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0", "--log-dhcp", "--no-ping",
                   "--user=root", "--bind-interfaces", f"--interface={interface}", "--except-interface=lo",
                   f"--dhcp-leasefile={folder}/leases", f"--pid-file={folder}/pid", "--dhcp-authoritative",
                   f"--dhcp-range={pool},{lease}", *options],
                  f"{folder}/log", "DHCP, sockets bound exclusively")


def released(wanted=0):
    """Waits until dnsmasq has as many leases as wanted, by default none: it reads a RELEASE when it has time."""
    return wait_for(lambda: len(dnsmasq_leases()) == wanted, 20)


def dnsmasq_leases():
    """Address to client identifier, of the server's own file."""
    try:
        with open("/run/dnsmasq/leases") as file:
            return {line.split()[2]: line.split()[4] for line in file if len(line.split()) == 5}
    except FileNotFoundError:
        return {}


def kea(lease=3600, pool="10.77.0.10 - 10.77.0.99", renew=None, rebind=None):
    os.makedirs("/run/kea", exist_ok=True)
    os.makedirs("/var/lib/kea", exist_ok=True)
    conf = {"Dhcp4": {"interfaces-config": {"interfaces": [BRIDGE], "dhcp-socket-type": "raw"},
                      "lease-database": {"type": "memfile", "name": "/var/lib/kea/leases.csv", "lfc-interval": 0},
                      "valid-lifetime": lease, "authoritative": True,
                      "subnet4": [{"id": 1, "subnet": "10.77.0.0/24", "pools": [{"pool": pool}],
                                   "option-data": [{"name": "routers", "data": "10.77.0.1"}]}],
                      "loggers": [{"name": "kea-dhcp4", "severity": "DEBUG", "debuglevel": 50,
                                   "output_options": [{"output": "stdout", "flush": True}]}]}}
    if renew:
        conf["Dhcp4"] |= {"renew-timer": renew, "rebind-timer": rebind}
    with open("/run/kea/kea.conf", "w") as file:
        json.dump(conf, file)
    return Server(["kea-dhcp4", "-c", "/run/kea/kea.conf"], "/run/kea/log", "DHCP4_STARTED")


def kea_leases():
    """Addresses that the server's file has as leased."""
    state = {}
    try:
        with open("/var/lib/kea/leases.csv") as file:
            for line in list(file)[1:]:
                fields = line.split(",")
                state[fields[0]] = fields[3] != "0" and fields[9] == "0"
    except FileNotFoundError:
        pass
    return {address for address, leased in state.items() if leased}


def isc(lease=3600, pool="10.77.0.10 10.77.0.99", subnet="10.77.0.0 netmask 255.255.255.0", interface=BRIDGE, more=""):
    os.makedirs("/run/isc", exist_ok=True)
    with open("/run/isc/dhcpd.conf", "w") as file:
        file.write(f"authoritative; default-lease-time {lease}; max-lease-time {lease}; min-lease-time 1;\n"
                   f"ping-check off;\n"
                   f"subnet {subnet} {{ range {pool}; option routers 10.77.0.1; }}\n{more}")
    open("/run/isc/leases", "a").close()
    return Server(["dhcpd", "-4", "-d", "-cf", "/run/isc/dhcpd.conf", "-lf", "/run/isc/leases", "-pf",
                   "/run/isc/pid", "--no-pid", interface], "/run/isc/log", "Server starting service")


def isc_leases():
    """Addresses whose last entry in the server's file is active."""
    with open("/run/isc/leases") as file:
        text = file.read()
    state = dict(re.findall(r"lease (\S+) \{[^}]*?\n  binding state (\w+);", text))
    return {address for address, word in state.items() if word == "active"}


def udhcpd(lease=3600, pool=("10.77.0.10", "10.77.0.99")):
    os.makedirs("/run/udhcpd", exist_ok=True)
    with open("/run/udhcpd/conf", "w") as file:
        file.write(f"start {pool[0]}\nend {pool[1]}\ninterface {BRIDGE}\nlease_file /run/udhcpd/leases\n"
                   f"pidfile /run/udhcpd/pid\nmin_lease 1\nopt lease {lease}\nopt router 10.77.0.1\n"
                   "opt subnet 255.255.255.0\noption dns 10.77.0.53\n")
    open("/run/udhcpd/leases", "a").close()
    return Server(["busybox", "udhcpd", "-f", "/run/udhcpd/conf"], "/run/udhcpd/log", "started")


def play(interface=BRIDGE):
    """What the tests of all plugins need for dhcp: our daemon, and a server that gives 10.1.2.2 first. Both end with the
    process, or with the next ones. Their logs are in no world, since they are no state."""
    daemons.stop()
    if interface == BRIDGE and not os.path.exists(f"/sys/class/net/{BRIDGE}"):
        segment("10.1.2.1/24")
    folder = tempfile.mkdtemp(prefix="dhcp-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    daemons.play(lambda: dnsmasq(pool="10.1.2.2,10.1.2.99", options=("--dhcp-sequential-ip",), folder=folder,
                                 interface=interface),
                 lambda: Daemon(folder=folder))


def give_interfaces():
    """Each pod that has none gets an eth0 on the segment."""
    for name in sorted(os.listdir("/run/netns")):
        pod = Pod.existing(name)
        if not pod.run("ip", "link", "show", "eth0", check=False):
            veth(pod, host := f"d-{name}"[:15])
            pod.run("ip", "link", "set", "eth0", "up")
            wait_for(lambda host=host: "state forwarding" in run("ip", "-d", "link", "show", host))


@contextlib.contextmanager
def capture(path, interface=BRIDGE):
    """Everything of DHCP and ARP on an interface, in a file, for tshark."""
    with open(path + ".log", "w") as log:
        process = subprocess.Popen(["tcpdump", "-U", "--immediate-mode", "-n", "-i", interface, "-w", path,
                                    "udp port 67 or udp port 68 or arp or icmp"], stderr=log)
    wait_for(lambda: "listening on" in open(path + ".log").read(), 10)
    try:
        yield path
    finally:
        time.sleep(0.1)  # what is in the kernel's buffer is written
        process.terminate()
        process.wait()


def packets(path, *fields, where="dhcp"):
    """The fields of the captured packets, as tshark reads them: a tuple for each."""
    command = ["tshark", "-r", path, "-Y", where, "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]
    for field in fields:
        command += ["-e", field]
    return [tuple(line.split("|")) for line in run(*command).splitlines()]


TYPES = {1: "DISCOVER", 2: "OFFER", 3: "REQUEST", 4: "DECLINE", 5: "ACK", 6: "NAK", 7: "RELEASE"}


def malformed(path):
    """What tcpdump has against our packets of those captured, and tshark against all."""
    shown = run("tcpdump", "-vv", "-n", "-r", path, "udp src port 68 or arp").splitlines()
    odd = [line for line in shown if re.search(r"\[\||\bbad\b|\binvalid\b|\bwrong\b|\bmalformed\b|\btrunc", line)
           or (".68 > " in line and "[udp sum ok]" not in line)]
    return "\n".join(odd) + run("tshark", "-r", path, "-Y", "_ws.malformed || _ws.expert.severity == \"Error\" || ip.checksum.status == 0")


def config(kind="bridge", version="1.1.0", ipam=None, **more):
    conf = {"cniVersion": version, "name": "net1", "type": kind, "ipam": {"type": "dhcp"} | (ipam or {})} | more
    if kind == "bridge":
        conf |= {"bridge": BRIDGE}
    return conf


def attach(verb, pod, conf, **options):
    """Calls the interface plugin of a config for a pod."""
    return cni(conf["type"], verb, conf, **({"netns": pod.path, "container": pod.name} | options))


def addresses(pod, ifname="eth0"):
    """The IPv4 addresses of an interface of the pod, as the kernel shows them."""
    shown = json.loads(pod.run("ip", "-j", "-4", "addr", "show", "dev", ifname) or "[]")
    return [f"{one['local']}/{one['prefixlen']}" for link in shown for one in link.get("addr_info", [])]


def lifetime(pod, ifname="eth0"):
    """For how many seconds the pod's one IPv4 address is valid; None is forever."""
    [link] = json.loads(pod.run("ip", "-j", "-4", "addr", "show", "dev", ifname))
    [address] = link["addr_info"]
    assert address["preferred_life_time"] == address["valid_life_time"], address
    return None if address["valid_life_time"] == 2**32 - 1 else address["valid_life_time"]


def routes(pod):
    return {(route["dst"], route.get("gateway"), route.get("metric"))
            for route in json.loads(pod.run("ip", "-j", "-4", "route") or "[]") if route.get("protocol") != "kernel"}
