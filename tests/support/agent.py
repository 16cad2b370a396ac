"""patchbay-agent as a process of a test, with its config, its log and what it costs."""

import contextlib
import json
import os
import re
import signal
import socket as sockets
import subprocess
import time

from support import ledger as entries
from support.ledger import LEDGER, SOCKET
from support.plugin import OURS
from support.world import MS_BIND, MS_REC, mount, wait_for

CONFIG = "/etc/patchbay/devices.json"
PROGRAM = os.path.join(OURS, "patchbay-agent")
RESOURCE = "vendor.example/macvlan"


def why_impossible():
    """Why there is no agent here, or None."""
    return None if os.path.exists(PROGRAM) else "patchbay-agent is not built: it needs libgrpc++ (scripts/install-deps build)"


def cover_etc():
    """Changes of /etc are this world's alone; its networks, which are already, stay."""
    for path in ("/run/networks", "/run/etc/upper", "/run/etc/work"):
        os.makedirs(path)
    mount("/etc/cni", "/run/networks", flags=MS_BIND | MS_REC)
    mount("overlay", "/etc", "overlay", options="lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work")
    mount("/run/networks", "/etc/cni", flags=MS_BIND | MS_REC)


def slots(count=4, resource=RESOURCE, parent="uplink", first=1, **plugin):
    """A pool of slots on a link of the node, by default of macvlan."""
    return {"resource": resource, "slots": {"parent": parent, "count": count, "first": first}, "plugins": [{"type": "macvlan"} | plugin]}


def nics(*names, resource="vendor.example/nic", ipam=None, **more):
    """A pool of links of the node, by globs of their names."""
    plugins = {"plugins": [{"type": "host-device", "ipam": ipam}]} if ipam else {}
    return {"resource": resource, "devices": [{"name": list(names)}]} | plugins | more


class Agent:
    """The process, of pools or of a whole config."""

    def __init__(self, *pools, kubelet="/var/lib/kubelet", folder="/run/agent", flags=(), config=None, socket=SOCKET):
        os.makedirs(folder, exist_ok=True)
        self.config, self.log_file = f"{folder}/devices.json", f"{folder}/log"
        self.socket = socket
        self.flags = ["--kubelet-dir", kubelet, "--ledger", LEDGER, "--socket", self.socket,
                      "--cdi-dir", f"{folder}/cdi", "--device-info-dir", f"{folder}/devinfo", *flags]
        self.write(config or {"pools": list(pools)})
        self.start()

    def write(self, config):
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(config, file)

    def start(self):
        with open(self.log_file, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([PROGRAM, "--config", self.config, *self.flags], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        if not wait_for(lambda: self.process.poll() is not None or self.status() is not None, 20):
            raise RuntimeError("the agent does not listen: " + self.log)
        if self.process.poll() is not None:
            raise RuntimeError(f"the agent ended with {self.process.returncode}: {self.log}")

    @property
    def pids(self):
        return {self.process.pid}

    @property
    def log(self):
        with open(self.log_file, encoding="utf-8") as file:
            return file.read()

    def lines(self):
        """The log: an object a line, whichever part of the process has written it."""
        lines = [json.loads(line) for line in self.log.splitlines()]
        assert all({"time", "level", "what"} <= set(line) for line in lines), self.log
        return lines

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, timeout=15):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=timeout)

    def ask(self, do, **members):
        """The answer of its socket."""
        with sockets.socket(sockets.AF_UNIX) as asked:
            asked.settimeout(30)
            asked.connect(self.socket)
            asked.sendall(json.dumps({"version": 1, "do": do, **members}).encode() + b"\n")
            answer = b""
            while piece := asked.recv(65536):
                answer += piece
        return json.loads(answer)

    def claim(self, space, name, uid="u1"):
        """As the plugin does it at ADD of a pod: the list of ids, or the error object."""
        answer = self.ask("claim", pod={"namespace": space, "name": name, "uid": uid}, containerID="c1", network="net")
        return answer.get("devices", answer.get("error"))

    def status(self):
        """The resources, or None while the socket is not served."""
        with contextlib.suppress(OSError, ValueError):
            return self.ask("status")["resources"]
        return None

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def memory(self, kind="VmRSS"):
        """Resident memory in KiB."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(re.search(rf"{kind}:\s+(\d+)", file.read())[1])

    def most_memory(self):
        """The peak since it was started."""
        return self.memory("VmHWM")

    def processor_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_alive(self):
        return self.process.poll() is None


def ledger():
    """{id: entry} of the ledger."""
    return {device: found for device in entries.devices() if (found := entries.entry(device))}


def settle(condition, seconds=20):
    """Whether the condition is true within the time, and still is after a moment."""
    return wait_for(condition, seconds) and (time.sleep(0.2) or condition())
