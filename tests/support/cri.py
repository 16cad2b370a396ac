"""A client of the Container Runtime Interface with what a kubelet does for a pod's network.

It runs as a program of its own, since gRPC is there for Debian's Python and maybe not for the one
that runs the tests. The few messages of runtime.v1's api.proto are put together here by hand.
"""

import json
import os
import subprocess
import sys

PYTHON = "/usr/bin/python3"
_PROTOCOLS = {"tcp": 0, "udp": 1, "sctp": 2}


def why_impossible():
    """Why there is no client here, or None."""
    tried = subprocess.run([PYTHON, "-c", "import grpc"], capture_output=True, check=False)
    return None if tried.returncode == 0 else f"{PYTHON} has no module grpc (python3-grpcio)"


class Cri:
    """The runtime behind a socket."""

    def __init__(self, socket):
        self.socket = socket

    def run_pod(self, name, port_mappings=(), annotations=None, cgroup_parent="", attempt=0):
        """Starts a sandbox and returns its ID. port_mappings are entries of portMappings; attempt: how many sandboxes
        the pod had before."""
        return self._call("run", json.dumps(_pod(name, port_mappings, annotations, cgroup_parent, attempt)))

    def run_container(self, sandbox, pod, container):
        """Starts a container in a sandbox and returns its ID. pod: keywords of run_pod(); container: name, image, command
        (a list), and attempt: how often it was started before."""
        return self._call("container", json.dumps({"sandbox": sandbox, "pod": _pod(**pod)} | container))

    def end_container(self, container):
        """Kills a container and forgets it."""
        self._call("end container", container)

    def stop_pod(self, sandbox):
        """Takes the sandbox's network down and ends its process."""
        self._call("stop", sandbox)

    def remove_pod(self, sandbox):
        """Forgets the sandbox."""
        self._call("remove", sandbox)

    def end_pod(self, sandbox):
        """What a kubelet does with a pod that is to go; it asks for the first step twice."""
        self._call("end pod", sandbox)

    def list_pods(self):
        """All sandboxes: {id, uid, attempt, is_ready}."""
        return json.loads(self._call("list", ""))

    def netns(self, sandbox):
        """The path of a sandbox's network namespace; empty if the runtime names none."""
        return self._call("netns", sandbox)

    def update_pod_cidrs(self, cidrs):
        """Names the node's ranges of addresses, as a kubelet does once its node has them."""
        self._call("config", ",".join(cidrs))

    def is_ready(self):
        """Whether the runtime answers and has a network for pods."""
        try:
            return self._call("status", "") == "ready"
        except RuntimeError as error:
            if "not initialized yet" in str(error):  # containerd 1.6, once it listens
                return False
            raise

    def _call(self, verb, argument):
        done = subprocess.run([PYTHON, os.path.abspath(__file__), self.socket, verb],
                              input=argument, capture_output=True, text=True, timeout=120,
                              check=False)
        if done.returncode != 0:
            raise RuntimeError(f"CRI {verb}: {done.stderr.strip().splitlines()[-1:]}")
        return done.stdout


class Client(Cri):
    """The same by one process for all calls, which come one after another: without the time that gRPC takes to load."""

    def __init__(self, socket):
        super().__init__(socket)
        self.process = subprocess.Popen([PYTHON, os.path.abspath(__file__), socket, "serve"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def close(self):
        self.process.kill()
        self.process.communicate()

    def _call(self, verb, argument):
        self.process.stdin.write(json.dumps([verb, argument]) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(f"CRI {verb}: {answer['error']}")
        return answer["result"]


def _pod(name, port_mappings=(), annotations=None, cgroup_parent="", attempt=0):
    return {"name": name, "port_mappings": list(port_mappings), "annotations": annotations or {},
            "cgroup_parent": cgroup_parent, "attempt": attempt}


def _varint(number):
    out = b""
    while number > 0x7f:
        out += bytes([number & 0x7f | 0x80])
        number >>= 7
    return out + bytes([number])


def _field(number, value):
    """A field of a message: a number, or bytes or text behind their length. What is empty is left
    out, as proto3 has it."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value) if value else b""
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data if data else b""


def _number(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7f) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def _fields(data):
    """(number, value) of all fields of a message; it has numbers, texts and messages only."""
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        value, at = _number(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        yield key >> 3, value


def _sandbox_config(pod):
    """PodSandboxConfig."""
    metadata = (_field(1, pod["name"]) + _field(2, pod["name"] + "-uid") + _field(3, "default")
                + _field(4, pod["attempt"]))
    out = _field(1, metadata) + _field(2, pod["name"])
    for entry in pod["port_mappings"]:
        out += _field(5, _field(1, _PROTOCOLS[entry["protocol"]])
                      + _field(2, entry["containerPort"]) + _field(3, entry["hostPort"])
                      + _field(4, entry.get("hostIP", "")))
    for key, value in pod["annotations"].items():
        out += _field(7, _field(1, key) + _field(2, value))
    return out + _field(8, _field(1, pod["cgroup_parent"]))


def _container_request(container):
    """CreateContainerRequest."""
    config = _field(1, _field(1, container["name"]) + _field(2, container["attempt"]))
    config += _field(2, _field(1, container["image"])) + b"".join(_field(3, word) for word in container["command"])
    return _field(1, container["sandbox"]) + _field(2, config) + _field(3, _sandbox_config(container["pod"]))


def _is_network_ready(status):
    """Whether StatusResponse has the condition NetworkReady."""
    for number, runtime_status in _fields(status):
        for _, condition in _fields(runtime_status) if number == 1 else ():
            if (1, b"NetworkReady") in (found := list(_fields(condition))):
                return (2, 1) in found
    return False


def _sandboxes(listed):
    """Those of ListPodSandboxResponse."""
    out = []
    for _, item in _fields(listed):
        one = dict(_fields(item))
        metadata = dict(_fields(one[2]))
        out.append({"id": one[1].decode(), "uid": metadata[2].decode(), "attempt": metadata.get(4, 0),
                    "is_ready": one.get(3, 0) == 0})
    return out


def _netns(status):
    """The path in the spec of PodSandboxStatusResponse; containerd's has it in the text called "info"."""
    pairs = [dict(_fields(value)) for number, value in _fields(status) if number == 2]
    info = json.loads(next((pair[2] for pair in pairs if pair[1] == b"info"), b"{}"))
    namespaces = ((info.get("runtimeSpec") or {}).get("linux") or {}).get("namespaces", [])
    return next((one.get("path", "") for one in namespaces if one["type"] == "network"), "")


def _answer(call, verb, argument):
    """What a verb prints. call(method, request): the answer of the runtime."""
    if verb == "run":
        config = _sandbox_config(json.loads(argument))
        return dict(_fields(call("RunPodSandbox", _field(1, config))))[1].decode()
    if verb == "container":
        created = dict(_fields(call("CreateContainer", _container_request(json.loads(argument)))))[1]
        call("StartContainer", _field(1, created))
        return created.decode()
    if verb == "config":
        call("UpdateRuntimeConfig", _field(1, _field(1, _field(1, argument))))
        return ""
    if verb == "status":
        return "ready" if _is_network_ready(call("Status", b"")) else "not ready"
    if verb == "list":
        return json.dumps(_sandboxes(call("ListPodSandbox", b"")))
    if verb == "netns":
        return _netns(call("PodSandboxStatus", _field(1, argument) + _field(2, 1)))
    methods = {"stop": ["StopPodSandbox"], "remove": ["RemovePodSandbox"],
               "end pod": ["StopPodSandbox", "StopPodSandbox", "RemovePodSandbox"],
               "end container": ["StopContainer", "RemoveContainer"]}  # in no time
    for method in methods[verb]:
        call(method, _field(1, argument))
    return ""


def _asked(socket, verb, argument):
    import grpc  # not for the Python of the tests
    with grpc.insecure_channel(f"unix://{socket}") as channel:
        def call(method, request):
            return channel.unary_unary(f"/runtime.v1.RuntimeService/{method}")(request, timeout=60)
        return _answer(call, verb, argument)


def _text(error):
    """Of whatever gRPC has: it names the cause."""
    return " ".join(str(error).split())


def _serve(socket):
    """Answers lines that are JSON lists of verb and argument."""
    for line in sys.stdin:
        try:
            answer = {"result": _asked(socket, *json.loads(line))}
        except Exception as error:
            answer = {"error": _text(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    try:
        if sys.argv[2] == "serve":
            _serve(sys.argv[1])
        else:
            sys.stdout.write(_asked(*sys.argv[1:], sys.stdin.read()))
    except Exception as error:
        sys.exit(_text(error))
