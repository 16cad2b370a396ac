"""The ledger of devices as patchbay-agent writes it, and a stand-in for patchbay-agent on its socket."""

import contextlib
import json
import os
import socket
import threading
import time

from support.plugin import cni
from support.suite import NodeTest
from support.world import World, run

LEDGER = "/var/lib/cni/devices"
HELD = ".held="
SOCKET = "/run/cni/devices.sock"
NIC, SLOT, TAP = "vendor.example/nic", "vendor.example/macvlan", "vendor.example/tap"


def pool(subnet, **more):
    """The key ipam of a pool."""
    return {"type": "host-local", "ranges": [[{"subnet": subnet}]]} | more


def nic(device, subnet="10.50.0.0/24"):
    """The plugins of a device that exists."""
    return [{"type": "host-device", "device": device, "ipam": pool(subnet)}]


def slot(parent="eth1", subnet="10.60.0.0/24"):
    """Those of a macvlan slot."""
    return [{"type": "macvlan", "master": parent, "ipam": pool(subnet)}]


def put(device, resource=NIC, plugins=None, pod=None, promised=0, **more):
    """Writes an entry as the kubelet's Allocate makes it: promised, without a pod. The holder stays."""
    entry = {"id": device, "resource": resource, "promised": promised or (0 if pod else int(time.time())),
             "plugins": json.dumps(plugins or nic(device)), "interface": ""} | more
    if pod:
        entry["pod"] = pod
    os.makedirs(LEDGER, mode=0o700, exist_ok=True)
    with open(f"{LEDGER}/.{device}.new", "w", encoding="utf-8") as file:
        json.dump(entry, file)
    os.rename(f"{LEDGER}/.{device}.new", f"{LEDGER}/{device}")
    return entry


def _lines(name):
    """What each line of a file has; nothing of what is torn."""
    found = []
    with contextlib.suppress(FileNotFoundError, ValueError):
        with open(f"{LEDGER}/{name}", encoding="utf-8") as file:
            for line in file:
                found.append(json.loads(line))
    return found


def holder(device):
    """What the plugin has written of the attachment with the device, "result" with it; None without one."""
    found = _lines(f"{HELD}{device}")
    return found[0] | dict(zip(["result"], found[1:])) if found else None


def entry(device):
    """The entry of a device, "holder" with it; None without one, or for a torn one."""
    found = _lines(device)
    if not found:
        return None
    by = holder(device)
    return found[0] | ({"holder": by} if by else {})


def devices():
    """The devices that have an entry."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(name for name in os.listdir(LEDGER) if not name.startswith("."))
    return []


def holders():
    """{device: the container that has it}."""
    with contextlib.suppress(FileNotFoundError):
        found = [name.removeprefix(HELD) for name in os.listdir(LEDGER) if name.startswith(HELD)]
        return {device: by["containerID"] for device in sorted(found) if (by := holder(device))}
    return {}


def marks():
    """The marks of attachments with devices."""
    with contextlib.suppress(FileNotFoundError):
        return [name for name in os.listdir(LEDGER) if name.startswith(".of-")]
    return []


def pod_of(name, uid=None, space="shop"):
    """A pod as the ledger and the protocol have it."""
    return {"namespace": space, "name": name, "uid": uid or f"uid-{name}"}


def args_of(pod):
    """CNI_ARGS of a pod, as containerd passes them."""
    return (f"IgnoreUnknown=1;K8S_POD_NAMESPACE={pod['namespace']};K8S_POD_NAME={pod['name']};"
            f"K8S_POD_INFRA_CONTAINER_ID=x;K8S_POD_UID={pod['uid']}")


class Agent:
    """Answers claims by what the kubelet says that pods own: {name of the pod: [devices]}. Of other pods the ledger says it.
    A node has one at a time, until the process leaves it."""

    last = None

    def __init__(self, owned=None, answer=None):
        self.owned = owned or {}
        self.answer = answer  # instead: bytes, or None for silence where `silent`
        self.silent = False
        self.asked = []
        if Agent.last and Agent.last.process == os.getpid():
            Agent.last.stop()
        Agent.last, self.process = self, os.getpid()
        World.at_leave(self.stop)
        os.makedirs(os.path.dirname(SOCKET), exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(SOCKET)
        self.listener.listen(64)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if Agent.last is self:
            Agent.last = None
        if self.listener.fileno() < 0:
            return
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET)

    def _serve(self):
        waiting = []
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                break
            with client.makefile("rb") as lines:
                line = lines.readline()
            if not line:  # it has looked whether somebody listens
                client.close()
                continue
            question = json.loads(line)
            self.asked.append(question)
            if self.silent:
                waiting.append(client)
                continue
            answer = self.answer or json.dumps(self._claim(question)).encode() + b"\n"
            with contextlib.suppress(OSError):
                client.sendall(answer)
            client.close()
        for client in waiting:
            client.close()

    def _claim(self, question):
        if question["do"] == "status":
            return {"resources": []}
        pod = question["pod"]
        out = []
        of_ledger = [one for one in devices() if (entry(one) or {}).get("pod") == pod]
        for device in self.owned.get(pod["name"], of_ledger):
            known = entry(device)
            if known is None:
                return {"error": {"code": 11, "msg": f"device '{device}' has no entry"}}
            if known.get("pod") and known["pod"]["uid"] not in ("", pod["uid"]):
                return {"error": {"code": 11, "msg": f"device '{device}' is another pod's"}}
            if known.get("pod") != pod:
                known.pop("holder", None)
                put(**{"device": known.pop("id"), **known, "plugins": json.loads(known["plugins"]), "pod": pod})
            out.append(device)
        return {"devices": out}


def make_nic(device, address="10.50.0.1/24"):
    """A device of the node, whose other end has an address that pods reach through it."""
    run("ip", "link", "add", device, "type", "veth", "peer", "name", f"{device}-end")
    run("ip", "addr", "add", address, "dev", f"{device}-end")
    run("ip", "link", "set", f"{device}-end", "up")


def make_parent(parent="eth1", address="10.60.0.1/24"):
    """The same for the parent of slots."""
    make_nic(parent, address)
    run("ip", "link", "set", parent, "up")


class LedgerTest(NodeTest):
    """A node with the plugin chained after one that made eth0."""

    def setUp(self):
        super().setUp()
        self.agent = None

    def tearDown(self):
        if self.agent:
            self.agent.stop()

    def play(self, owned=None, **options):
        self.agent = Agent(owned, **options)
        return self.agent

    def call(self, verb, pod, network="net", container=None, of="web-0", uid=None, **conf):
        options = conf.pop("options", {})
        previous = conf.pop("prevResult", {"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": pod.path}],
                                           "ips": [{"address": "10.1.2.9/24", "interface": 0}]} if pod else None)
        conf = {"cniVersion": "1.1.0", "name": network, "type": "devices"} | conf
        if previous and verb not in ("GC", "STATUS"):
            conf["prevResult"] = previous
        return cni("devices", verb, conf, **{
            "netns": pod.path if pod else "", "container": container or (pod.name if pod else "none"),
            "args": args_of(pod_of(of, uid))} | options)

    def add(self, pod, **more):
        return self.assert_ok(self.call("ADD", pod, **more))

    def remove(self, pod, **more):
        outcome = self.call("DEL", pod, **more)
        self.assertEqual((outcome.status, outcome.stdout), (0, ""), str(outcome))

    def ping(self, pod, address):
        pod.run("ping", "-c1", "-W2", address)

    def names(self, pod=None):
        """The links of a pod or of the node."""
        shown = json.loads(run("ip", *(("-n", pod.name) if pod else ()), "-j", "link"))
        return {one["ifname"] for one in shown if "ifname" in one}

    def leases(self):
        """{network: addresses} that host-local has given."""
        top = "/var/lib/cni/networks"
        found = {}
        for network in os.listdir(top) if os.path.isdir(top) else []:
            held = [one for one in os.listdir(f"{top}/{network}") if one[0].isdigit()]
            if held:
                found[network] = sorted(held)
        return found
