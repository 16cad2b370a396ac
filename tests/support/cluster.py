"""A node of a cluster for a page of the documentation: `systemctl` of one service and `kubectl` of one pod, as programs in
/run/tools. The kubelet is that of the tests, the container is a network namespace, and cnitool plays the runtime."""

import json
import os
import re
import shlex
import socketserver
import subprocess
import threading

from support.kubelet import Kubelet
from support.plugin import OURS
from support.world import Pod, run, wait_for

SOCKET = "/run/tools/cluster.sock"
CLIENT = f"""#!/usr/bin/python3
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect("{SOCKET}")
    asked.sendall(json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:], os.getcwd()]).encode() + b"\\n")
    status, text = json.loads(asked.makefile().read())
print(text, end="")
sys.exit(status)
"""
UNITS = "/usr/local/lib/systemd/system"


def _text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Cluster:
    """Listens until stop()."""

    PROGRAMS = ("kubectl", "systemctl")

    def __init__(self, network, kubelet=None):
        self.network, self.kubelet = network, kubelet or Kubelet()
        self.service, self.pods = None, {}
        for name in self.PROGRAMS:
            with open(f"/run/tools/{name}", "w", encoding="ascii") as file:
                file.write(CLIENT)
            os.chmod(f"/run/tools/{name}", 0o755)
        cluster = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                program, *words, folder = json.loads(self.rfile.readline())
                try:
                    answer = 0, getattr(cluster, program)(words, folder)
                except Exception as e:  # it is the answer, whatever it is
                    answer = 1, f"{program}: {e!r}\n"
                self.wfile.write(json.dumps(answer).encode())

        self.server = socketserver.ThreadingUnixStreamServer(SOCKET, Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        if self.service:
            self.service.kill()
            self.service.wait()
        self.kubelet.kill()

    def systemctl(self, words, folder):
        verb, now, unit = words
        if (verb, now) == ("enable", "--now"):
            command = re.search("^ExecStart=(.*)$", _text(f"{UNITS}/{unit}"), re.MULTILINE)[1]
            self.service = subprocess.Popen(shlex.split(command), cwd=folder, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return ""
        assert (verb, now) == ("disable", "--now"), words
        self.service.terminate()
        status, self.service = self.service.wait(timeout=20), None
        assert status == 0, status
        return ""

    def allocatable(self, resource):
        """The kubelet lists it within seconds."""
        wait_for(lambda: self.kubelet.devices(resource), 20)
        return [one for one, health in self.kubelet.devices(resource).items() if health == "Healthy"]

    def kubectl(self, words, folder):
        verb, *words = words
        if verb == "get":
            resource = re.fullmatch(r"jsonpath=\{\.status\.allocatable\.(.*)\}", words[-1])[1].replace("\\.", ".")
            return f"{len(self.allocatable(resource))}\n"
        if verb == "apply":
            return self.create(_text(os.path.join(folder, words[1])))
        if verb == "exec":
            return self.pods[words[0]].run(*words[2:])
        assert (verb, words[0]) == ("delete", "pod"), words
        return self.delete(words[1])

    def call(self, verb, name):
        args = f"IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={name};K8S_POD_UID=uid-{name}"
        return run("env", f"CNI_ARGS={args}", f"{OURS}/cnitool", verb, self.network, self.pods[name].path)

    def create(self, manifest):
        name = re.search(r"^  name: (\S+)$", manifest, re.MULTILINE)[1]
        resource = re.search(r"limits: \{(\S+): 1\}", manifest)[1]
        device = self.allocatable(resource)[0]
        self.kubelet.allocate(resource, [device])
        self.kubelet.own("default", name, {resource: [device]})
        self.pods[name] = Pod(name)
        self.call("add", name)
        return f"pod/{name} created\n"

    def delete(self, name):
        self.call("del", name)
        self.kubelet.disown("default", name)
        self.pods.pop(name).remove()
        return f'pod "{name}" deleted\n'
