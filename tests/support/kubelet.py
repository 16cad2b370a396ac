"""A kubelet's side of device plugins: Registration, the watch of plugins_registry, a client of DevicePlugin, PodResources.

It runs as a program of its own, as support.cri does, and takes commands as lines of JSON. Messages are put together here
from the numbers of fields in k8s.io/kubelet (pkg/apis/deviceplugin/v1beta1, pluginregistration/v1, podresources/v1), not
from the agent's own .proto files, so that a wrong number there is noticed.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

PYTHON = "/usr/bin/python3"
DIR = "/var/lib/kubelet"


def why_impossible():
    """Why there is no kubelet here, or None."""
    tried = subprocess.run([PYTHON, "-c", "import grpc"], capture_output=True, check=False)
    return None if tried.returncode == 0 else f"{PYTHON} has no module grpc (python3-grpcio)"


class Refused(Exception):
    """A call's status: its name as gRPC has it, and its text."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


class Kubelet:
    """The process. call_back: "before" or "after" the answer to Register. registry: whether it has plugins_registry.

    clients: "one" for a resource, as in kubelets up to 1.3x, where the end of any stream of the resource, or the removal of
    any socket, drops the client that came last; or "many"."""

    PROGRAM = os.path.abspath(__file__)

    def __init__(self, folder=DIR, *, registry=True, **options):
        self.folder, self.options = folder, options
        for name in ("device-plugins", "pod-resources", *(["plugins_registry"] if registry else [])):
            os.makedirs(f"{folder}/{name}", exist_ok=True)
        self.start()

    def start(self):
        self.lock = threading.Lock()
        self.process = subprocess.Popen([PYTHON, self.PROGRAM, self.folder, json.dumps(self.options)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask("state")

    @property
    def pids(self):
        return {self.process.pid}

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.communicate()

    stop = kill

    def restart(self, **options):
        self.kill()
        self.options |= options
        self.start()

    def ask(self, do, **arguments):
        """The result of a command; Refused where the agent's answer is an error."""
        with self.lock:
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the kubelet ended with {self.process.wait()}")
        answer = json.loads(line)
        if "code" in answer:
            raise Refused(answer["code"], answer["text"])
        return answer["result"]

    def resource(self, name):
        """{devices: {id: health}, numa: {id: [nodes]}, open, way, socket, lists, registrations, longest} of a resource; {} of
        none. longest: seconds without devices at a stretch, since the first list or "forget"."""
        return self.ask("state").get(name, {})

    def devices(self, name):
        """{id: health} of what may be allocated: none without an open stream."""
        state = self.resource(name)
        return state["devices"] if state.get("open") else {}

    def allocate(self, resource, *containers, timeout=20):
        """The answers, one for each container."""
        requests = [{"device_ids": list(ids)} for ids in containers]
        return self.ask("call", resource=resource, method="Allocate", request={"container_requests": requests},
                        timeout=timeout)["container_responses"]

    def own(self, space, name, devices, containers=("main",)):
        """PodResources lists a pod from now on: {resource: [ids]} of its first container."""
        self.ask("own", pod={"name": name, "namespace": space, "containers": [
            {"name": container, "devices": [{"resource_name": resource, "device_ids": ids} for resource, ids in devices.items()]
             if container == containers[0] else []} for container in containers]})

    def disown(self, space, name):
        self.ask("disown", space=space, name=name)


# From here on what runs in the process.

#: A pod that each node has. A kubelet lists none until it has reached the API server (rules: times=0).
DAEMON = {"name": "kube-proxy-1", "namespace": "kube-system", "containers": [{"name": "main"}]}

#: {message: {number: (name, kind)}}. A kind is string, bool, int, map (of strings) or a message, "*" before it: repeated.
FIELDS = {
    "Empty": {},
    "RegisterRequest": {1: ("version", "string"), 2: ("endpoint", "string"), 3: ("resource_name", "string"),
                        4: ("options", "DevicePluginOptions")},
    "DevicePluginOptions": {1: ("pre_start_required", "bool"), 2: ("get_preferred_allocation_available", "bool")},
    "ListAndWatchResponse": {1: ("devices", "*Device")},
    "Device": {1: ("id", "string"), 2: ("health", "string"), 3: ("topology", "TopologyInfo")},
    "TopologyInfo": {1: ("nodes", "*NumaNode")},
    "NumaNode": {1: ("id", "int")},
    "AllocateRequest": {1: ("container_requests", "*ContainerAllocateRequest")},
    "ContainerAllocateRequest": {1: ("device_ids", "*string")},
    "AllocateResponse": {1: ("container_responses", "*ContainerAllocateResponse")},
    "ContainerAllocateResponse": {1: ("envs", "map"), 2: ("mounts", "*Mount"), 3: ("devices", "*DeviceSpec"),
                                  4: ("annotations", "map"), 5: ("cdi_devices", "*CdiDevice")},
    "Mount": {1: ("container_path", "string"), 2: ("host_path", "string"), 3: ("read_only", "bool")},
    "DeviceSpec": {1: ("container_path", "string"), 2: ("host_path", "string"), 3: ("permissions", "string")},
    "CdiDevice": {1: ("name", "string")},
    "PreferredAllocationRequest": {1: ("container_requests", "*Preferred")},
    "Preferred": {1: ("available", "*string"), 2: ("required", "*string"), 3: ("size", "int")},
    "PreferredAllocationResponse": {1: ("container_responses", "*ContainerAllocateRequest")},
    "PreStartContainerRequest": {1: ("device_ids", "*string")},
    "PluginInfo": {1: ("type", "string"), 2: ("name", "string"), 3: ("endpoint", "string"), 4: ("supported_versions", "*string")},
    "RegistrationStatus": {1: ("plugin_registered", "bool"), 2: ("error", "string")},
    "List": {1: ("pod_resources", "*Pod")},
    "Get": {1: ("pod_resources", "Pod")},
    "GetRequest": {1: ("pod_name", "string"), 2: ("pod_namespace", "string")},
    "Pod": {1: ("name", "string"), 2: ("namespace", "string"), 3: ("containers", "*Container")},
    "Container": {1: ("name", "string"), 2: ("devices", "*ContainerDevices"), 3: ("cpu_ids", "*int"),
                  5: ("dynamic_resources", "*DynamicResource")},
    "DynamicResource": {2: ("claim_name", "string"), 3: ("claim_namespace", "string"), 4: ("claim_resources", "*ClaimResource")},
    "ClaimResource": {2: ("driver_name", "string"), 3: ("pool_name", "string"), 4: ("device_name", "string"), 5: ("share_id", "string")},
    "ContainerDevices": {1: ("resource_name", "string"), 2: ("device_ids", "*string"), 3: ("topology", "TopologyInfo")},
}
#: {method of DevicePlugin: (request, answer)}
METHODS = {"GetDevicePluginOptions": ("Empty", "DevicePluginOptions"), "ListAndWatch": ("Empty", "ListAndWatchResponse"),
           "Allocate": ("AllocateRequest", "AllocateResponse"), "PreStartContainer": ("PreStartContainerRequest", "Empty"),
           "GetPreferredAllocation": ("PreferredAllocationRequest", "PreferredAllocationResponse")}


def _varint(number):
    number &= (1 << 64) - 1
    out = b""
    while number > 0x7f:
        out += bytes([number & 0x7f | 0x80])
        number >>= 7
    return out + bytes([number])


def _read_varint(data, at):
    number = shift = 0
    while True:
        number |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return number, at


def _behind_length(number, data):
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _encode_one(number, kind, value):
    if kind in ("int", "bool"):
        return _varint(number << 3) + _varint(int(value))
    if kind == "map":
        pairs = [_behind_length(1, key.encode()) + _behind_length(2, text.encode()) for key, text in value.items()]
        return b"".join(_behind_length(number, pair) for pair in pairs)
    return _behind_length(number, value.encode() if kind == "string" else encode(kind, value))


def encode(message, value):
    """The bytes of a dictionary."""
    parts = []
    for number, (name, kind) in FIELDS[message].items():
        if name in value:
            each = value[name] if kind.startswith("*") else [value[name]]
            parts += [_encode_one(number, kind.lstrip("*"), one) for one in each]
    return b"".join(parts)


def _decode_one(kind, value):
    if kind == "bool":
        return bool(value)
    if kind == "int":
        return value
    if kind == "map":
        pair = decode({1: ("key", "string"), 2: ("value", "string")}, value)
        return {pair["key"]: pair["value"]}
    return value.decode() if kind == "string" else decode(kind, value)


def decode(message, data):
    """The dictionary of bytes, with all its members. A field that is not listed is an error: the agent sends none."""
    fields = FIELDS[message] if isinstance(message, str) else message
    empty = {"string": "", "bool": False, "int": 0, "map": {}}
    out = {name: [] if kind.startswith("*") else empty.get(kind) for name, kind in fields.values()}
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        value, at = _read_varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        name, kind = fields[key >> 3]
        assert (key & 7 == 2) == (kind.lstrip("*") not in ("int", "bool")), f"{name}: wire type {key & 7}"
        one = _decode_one(kind.lstrip("*"), value)
        if kind.startswith("*"):
            out[name].append(one)
        else:
            out[name] = out[name] | one if kind == "map" else one
    return out


class Server:
    """What the process has. Imports gRPC when it is made, because Debian's Python alone has it."""

    def __init__(self, folder, call_back="before", register_delay=0, mute=False, clients="one"):
        import grpc  # noqa: PLC0415
        from concurrent import futures  # noqa: PLC0415
        self.grpc, self.folder, self.call_back = grpc, folder, call_back
        self.register_delay, self.mute, self.has_one_client = register_delay, mute, clients == "one"
        self.resources, self.clients, self.seen, self.by_socket = {}, {}, set(), {}
        self.lock = threading.RLock()
        self.pods, self.rules = {}, {"padding": 0, "refuse": 0, "get": "on", "delay": 0, "rate": None, "times": 1}
        self.calls = {"List": 0, "Get": 0, "refused": 0}
        self.bucket = (10.0, time.monotonic())
        self.pool = futures.ThreadPoolExecutor(32)
        for name in os.listdir(f"{folder}/device-plugins"):  # as a kubelet does
            if name != "kubelet_internal_checkpoint":
                os.unlink(f"{folder}/device-plugins/{name}")
        self.listen("device-plugins", "v1beta1.Registration", {"Register": (self.register, "RegisterRequest", "Empty")})
        self.listen("pod-resources", "v1.PodResourcesLister", {"List": (self.list_pods, "Empty", None),
                                                               "Get": (self.get_pod, "GetRequest", "Get")})
        if os.path.isdir(f"{folder}/plugins_registry"):
            threading.Thread(target=self.watch, daemon=True).start()

    def listen(self, folder, service, methods):
        path = f"{self.folder}/{folder}/kubelet.sock"
        if os.path.exists(path):
            os.unlink(path)
        handlers = {name: self.grpc.unary_unary_rpc_method_handler(
            function, request_deserializer=lambda data, kind=request: decode(kind, data),
            response_serializer=(lambda value, kind=answer: encode(kind, value)) if answer else None)
            for name, (function, request, answer) in methods.items()}
        server = self.grpc.server(self.pool, options=[("grpc.max_send_message_length", 1 << 30)])
        server.add_generic_rpc_handlers((self.grpc.method_handlers_generic_handler(service, handlers),))
        server.add_insecure_port(f"unix:{path}")
        server.start()
        setattr(self, folder, server)

    # Registration by a call.
    def register(self, request, context):
        time.sleep(self.register_delay)
        if request["version"] != "v1beta1" or "/" not in request["resource_name"] or "/" in request["endpoint"]:
            context.abort(self.grpc.StatusCode.INVALID_ARGUMENT, f"bad registration: {request}")
        name, path = request["resource_name"], f"{self.folder}/device-plugins/{request['endpoint']}"
        if self.mute:
            return {}
        if self.call_back == "before":
            self.connect(name, path, "call", options=request["options"])
        else:
            threading.Timer(0.3, self.connect, (name, path, "call")).start()
        return {}

    # Registration by a socket that is found.
    def watch(self):
        while True:
            names = set(os.listdir(f"{self.folder}/plugins_registry"))
            for name in self.seen - names:
                self.deregister(name)
            for name in names - self.seen:
                if not name.startswith(".") and not self.mute:
                    threading.Thread(target=self.found, args=(f"{self.folder}/plugins_registry/{name}",), daemon=True).start()
            self.seen = names
            time.sleep(0.1)

    def deregister(self, name):
        """As the handler of device plugins does it for a socket that was removed."""
        with self.lock:
            resource = self.by_socket.pop(name, None)
            client = self.clients.get(resource)
            if client and (self.has_one_client or os.path.basename(client[2]) == name):
                self.drop(resource)

    def found(self, path):
        channel = self.grpc.insecure_channel(f"unix:{path}")
        try:
            self.inform(channel)
        except self.grpc.RpcError:  # tried again, as by a kubelet
            self.seen.discard(os.path.basename(path))
        channel.close()

    def inform(self, channel):
        info = channel.unary_unary("/pluginregistration.Registration/GetInfo",
                                   response_deserializer=lambda data: decode("PluginInfo", data))(b"", timeout=1)
        good = info["type"] == "DevicePlugin" and info["supported_versions"] == ["v1beta1"]
        if good:
            self.by_socket[os.path.basename(info["endpoint"])] = info["name"]
            self.connect(info["name"], info["endpoint"], "found")
        status = encode("RegistrationStatus", {"plugin_registered": good, "error": "" if good else "what is this"})
        channel.unary_unary("/pluginregistration.Registration/NotifyRegistrationStatus")(status, timeout=5)

    # The client of a resource.
    def method(self, channel, name):
        request, answer = METHODS[name]
        kind = channel.unary_stream if name == "ListAndWatch" else channel.unary_unary
        return kind(f"/v1beta1.DevicePlugin/{name}", request_serializer=lambda value: encode(request, value),
                    response_deserializer=lambda data: decode(answer, data))

    def connect(self, name, path, way, options=None):
        channel = self.grpc.insecure_channel(f"unix:{path}")
        said = self.method(channel, "GetDevicePluginOptions")({}, timeout=10)
        assert options in (None, said), (options, said)
        stream = self.method(channel, "ListAndWatch")({})
        with self.lock:
            state = self.resources.setdefault(name, {"lists": 0, "registrations": 0, "longest": 0, "empty": None})
            if not state.get("open"):  # else it has those of the earlier client until the first list
                state |= {"devices": {}, "numa": {}}
            state |= {"open": True, "way": way, "socket": os.path.basename(path), "options": said}
            state["registrations"] += 1
            self.clients[name] = (channel, stream, path)
        threading.Thread(target=self.read, args=(name, stream), daemon=True).start()

    def read(self, name, stream):
        state = self.resources[name]
        try:
            for answer in stream:
                with self.lock:
                    if name in self.clients and self.clients[name][1] is stream:
                        state["devices"] = {device["id"]: device["health"] for device in answer["devices"]}
                        self.note_empty(state)
                        state["numa"] = {device["id"]: [node["id"] for node in device["topology"]["nodes"]]
                                         for device in answer["devices"] if device["topology"]}
                    state["lists"] += 1
        except self.grpc.RpcError:
            pass
        with self.lock:
            client = self.clients.get(name)
            if client and (self.has_one_client or client[1] is stream):
                self.drop(name)

    def drop(self, name):
        self.clients.pop(name)[1].cancel()
        state = self.resources[name]
        state |= {"open": False, "devices": {}}
        self.note_empty(state)

    @staticmethod
    def note_empty(state):
        """How long the resource has no devices, and had none at the longest."""
        now = time.monotonic()
        if state["empty"] is not None:
            state["longest"] = max(state["longest"], now - state["empty"])
        state["empty"] = None if state["devices"] else state["empty"] or now

    # PodResources.
    def admit(self, context, what):
        rules = self.rules
        time.sleep(rules["delay"])
        self.calls[what] += 1
        refused = rules["refuse"] > 0
        rules["refuse"] -= refused
        if rules["rate"]:  # a second, and a burst of 10
            tokens, last = self.bucket
            now = time.monotonic()
            tokens = min(10.0, tokens + (now - last) * rules["rate"])
            refused = refused or tokens < 1
            self.bucket = (tokens - (tokens >= 1), now)
        if refused:
            self.calls["refused"] += 1
            context.abort(self.grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")

    def list_pods(self, _request, context):
        self.admit(context, "List")
        pods = [encode("Pod", pod) for pod in [DAEMON, *self.pods.values()]] * self.rules["times"]
        other = encode("Pod", {"name": "other", "namespace": "default", "containers": [
            {"name": "main", "cpu_ids": [1, 2], "devices": [{"resource_name": "other.example/gpu", "device_ids": [
                f"gpu-{n:050}" for n in range(50)], "topology": {"nodes": [{"id": 1}]}}]}]})
        return b"".join(_behind_length(1, pod) for pod in pods + [other] * (self.rules["padding"] // len(other)))

    def get_pod(self, request, context):
        if self.rules["get"] == "unimplemented":
            context.abort(self.grpc.StatusCode.UNIMPLEMENTED, "unknown method Get")
        self.admit(context, "Get")
        if self.rules["get"] == "disabled":
            context.abort(self.grpc.StatusCode.UNKNOWN, "PodResources API Get method disabled")
        if self.rules["get"] == "empty":
            return {}
        pod = self.pods.get((request["pod_namespace"], request["pod_name"]))
        if not pod:
            context.abort(self.grpc.StatusCode.UNKNOWN, f"pod {request['pod_name']} in namespace {request['pod_namespace']} not found")
        return {"pod_resources": pod}

    # Commands.
    def do(self, command):
        do = command.pop("do")
        with self.lock:
            if do == "state":
                for state in self.resources.values():
                    self.note_empty(state)
                return self.resources
            if do == "forget":
                self.resources[command["resource"]]["longest"] = 0
            if do == "own":
                pod = command["pod"]
                self.pods[(pod["namespace"], pod["name"])] = pod
            elif do == "disown":
                self.pods.pop((command["space"], command["name"]), None)
            elif do == "rules":  # of PodResources; the calls since the last time
                self.rules |= command
                calls, self.calls = self.calls, dict.fromkeys(self.calls, 0)
                return calls
            elif do == "break":
                self.clients[command["resource"]][1].cancel()
            elif do == "mute":
                self.mute = command["mute"]
            elif do == "call":
                channel = self.clients[command["resource"]][0]
        if do == "call":
            return self.method(channel, command["method"])(command["request"], timeout=command["timeout"])
        return self.flood(**command) if do == "flood" else None

    def flood(self, resource, method, request, count):
        """{status: how many} of as many calls at once, by four connections."""
        path = self.clients[resource][2]
        each = [self.grpc.insecure_channel(f"unix:{path}", options=[("grpc.use_local_subchannel_pool", 1)]) for _ in range(4)]
        futures = [self.method(each[n % 4], method).future(request, timeout=60) for n in range(count)]
        seen = {}
        for one in futures:
            seen[one.code().name] = seen.get(one.code().name, 0) + 1
        for one in each:
            one.close()
        return seen

    def run(self):
        for line in sys.stdin:
            try:
                answer = {"result": self.do(json.loads(line))}
            except self.grpc.RpcError as error:
                answer = {"code": error.code().name, "text": error.details()}
            except KeyError as error:
                answer = {"code": "UNAVAILABLE", "text": f"no client of {error}"}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Server(sys.argv[1], **json.loads(sys.argv[2])).run()
    os._exit(0)
