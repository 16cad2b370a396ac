"""A container runtime's side of NRI, with the limits of the real one, and plugins that register at it.

Messages are put together here from the numbers of fields in api.proto of github.com/containerd/nri and request.proto of
github.com/containerd/ttrpc, not from the agent's own .proto file, so that a wrong number there is noticed. What ends a
connection there ends it here, and is in Plugin.violation: a frame that is larger than the buffer it is read into, parts of
two messages in a frame, an empty frame, more than 256 unread frames, an unknown bit in the mask, an answer after 2 s.
"""

import collections
import contextlib
import os
import socket
import struct
import subprocess
import threading
import time

SOCKET = "/var/run/nri/nri.sock"
PLUGIN_SERVICE, RUNTIME_SERVICE = 1, 2
REQUEST, RESPONSE = 1, 2
MOST_FRAMES, FIRST_READ, MOST = 256, 4096, 4 << 20
TIMEOUT = 2.0
UNIMPLEMENTED = 12
#: {method: number of the event}, of those that have StateChange before 0.12
EVENTS = {"RunPodSandbox": 1, "StopPodSandbox": 2, "RemovePodSandbox": 3, "PostCreateContainer": 5, "StartContainer": 6,
          "PostStartContainer": 7, "PostUpdateContainer": 9, "RemoveContainer": 11}
#: ... and of those that always have a method of their own
CALLS = {"CreateContainer": 4, "UpdateContainer": 8, "StopContainer": 10, "UpdatePodSandbox": 12,
         "ValidateContainerAdjustment": 14}


def varint(number):
    out = b""
    number &= (1 << 64) - 1
    while number > 0x7f:
        out += bytes([number & 0x7f | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """A field: a number, or bytes or text behind their length; what is empty is left out."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value) if value else b""
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data if data else b""


def message(number, data):
    """A field that is a message, be it empty."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def fields(data):
    """{number: [values]} of a message."""
    out, at = collections.defaultdict(list), 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            value, shift, at = value | (byte & 0x7f) << shift, shift + 7, at + 1
            if byte < 0x80:
                return value
    while at < len(data):
        key = number()
        value = number()
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        out[key >> 3].append(value)
    return out


def frame(connection, payload, length=None):
    """A frame of the multiplexer, whose length may be a lie."""
    return struct.pack(">II", connection, len(payload) if length is None else length) + payload


def ttrpc(stream, kind, data, length=None):
    return struct.pack(">IIBB", len(data) if length is None else length, stream, kind, 0) + data


def pairs(number, values):
    return b"".join(message(number, field(1, key) + field(2, value)) for key, value in values.items())


class Sandbox:
    """A pod's sandbox, as the runtime describes it."""

    def __init__(self, name, space="default", *, netns="", ips=(), annotations=None, id=None, padding=0):
        self.name, self.space, self.netns, self.ips = name, space, netns, list(ips)
        self.id, self.uid = id or f"{name}-sandbox", f"{name}-uid"
        self.annotations, self.padding = annotations or {}, padding

    def encoded(self, whole=True):
        """PodSandbox. whole: with namespaces and addresses, which older runtimes leave out in StopPodSandbox."""
        out = field(1, self.id) + field(2, self.name) + field(3, self.uid) + field(4, self.space)
        out += pairs(5, {"label": "x" * self.padding} if self.padding else {}) + pairs(6, self.annotations)
        if whole and self.netns:
            spaces = message(5, field(1, "ipc") + field(2, "/proc/1/ns/ipc"))
            out += message(8, spaces + message(5, field(1, "network") + field(2, self.netns)))
        return out + b"".join(field(10, ip) for ip in self.ips if whole)


def container(name, sandbox):
    return field(1, f"{name}-id") + field(2, sandbox.id) + field(3, name)


class Status(Exception):
    """The error that a plugin has answered."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


class CutOff(Exception):
    """The plugin was disconnected: for the runtime the call is as if the plugin did not exist."""


class Plugin:
    """A connection, from the runtime's side."""

    def __init__(self, runtime, connection):
        self.runtime, self.socket = runtime, connection
        self.violation, self.ended = "", threading.Event()
        self.name = self.index = self.mask = None
        self.dedicated = runtime.version >= (0, 12)
        self._frames = {PLUGIN_SERVICE: collections.deque(), RUNTIME_SERVICE: collections.deque()}
        self._changed = threading.Condition()
        self._stream, self._last_stream = -1, 0
        self._calls = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def end(self, why=""):
        self.violation = self.violation or why
        self.ended.set()
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        with self._changed:
            self._changed.notify_all()

    def _exactly(self, size):
        out = b""
        while len(out) < size:
            piece = self.socket.recv(size - len(out))
            if not piece:
                raise ConnectionError("the plugin closed the connection")
            out += piece
        return out

    def _read(self):
        try:
            while True:
                connection, size = struct.unpack(">II", self._exactly(8))
                if size == 0 or size > MOST + 10:
                    return self.end(f"a frame of {size} bytes")
                payload = self._exactly(size)
                with self._changed:
                    queue = self._frames.get(connection)
                    if queue is None:
                        continue
                    if len(queue) >= MOST_FRAMES:
                        return self.end("256 frames are unread")
                    queue.append(payload)
                    self._changed.notify_all()
        except OSError:
            return self.end()

    def _frame(self, connection, buffer, until):
        with self._changed:
            while not self._frames[connection]:
                if self.ended.is_set() or not self._changed.wait(until - time.monotonic()):
                    raise CutOff(self.violation or "no answer in time")
            out = self._frames[connection].popleft()
        if len(out) > buffer:
            self.end(f"a frame of {len(out)} bytes for a buffer of {buffer}")
            raise CutOff(self.violation)
        return out

    def receive(self, connection, until):
        """(stream, kind, data) of the next message."""
        data = self._frame(connection, FIRST_READ, until)
        size, stream, kind, _ = struct.unpack(">IIBB", data[:10])
        data = data[10:]
        while len(data) < size:
            data += self._frame(connection, max(size - len(data), FIRST_READ), until)
        if len(data) > size:
            self.end("parts of two messages in a frame")
            raise CutOff(self.violation)
        return stream, kind, data

    def send(self, connection, stream, kind, data, pieces=None):
        """pieces: bytes of a frame; a plugin must take any division."""
        whole = ttrpc(stream, kind, data)
        pieces = pieces or self.runtime.pieces
        self.socket.sendall(b"".join(frame(connection, whole[at:at + pieces]) for at in range(0, len(whole), pieces)))

    def ask(self, method, payload=b"", service="nri.pkg.api.v1alpha1.Plugin"):
        """Sends a call and returns its stream."""
        self._stream += 2
        request = field(1, service) + field(2, method) + field(3, payload) + field(4, int(TIMEOUT * 1e9))
        self.send(PLUGIN_SERVICE, self._stream, REQUEST, request)
        return self._stream

    def answer(self, stream, timeout=TIMEOUT):
        """The payload of the answer. \\throws Status; CutOff where it does not come in time."""
        until = time.monotonic() + timeout
        try:
            got, kind, data = self.receive(PLUGIN_SERVICE, until)
        except CutOff:
            self.end("an answer takes too long")
            raise
        assert (got, kind) == (stream, RESPONSE), (got, kind, stream)
        response = fields(data)
        if 1 in response:
            status = fields(response[1][0])
            raise Status(status[1][0], b"".join(status[2]).decode())
        return b"".join(response[2])

    def call(self, method, payload=b"", **options):
        with self._calls:
            return self.answer(self.ask(method, payload, **options))

    def register(self):
        """The whole registration. \\throws CutOff, Status."""
        until = time.monotonic() + 5
        stream, kind, data = self.receive(RUNTIME_SERVICE, until)
        request = fields(data)
        assert kind == REQUEST and stream % 2 == 1 and stream > self._last_stream, (kind, stream)
        assert (request[1], request[2]) == ([b"nri.pkg.api.v1alpha1.Runtime"], [b"RegisterPlugin"]), request
        body = fields(request[3][0])
        self.name, self.index = body[1][0].decode(), body[2][0].decode()
        configure = (field(1, self.runtime.config) + field(2, self.runtime.itself[0]) + field(3, self.runtime.itself[1])
                     + field(4, 5000) + field(5, 2000))
        if self.runtime.crossing:  # before the answer to RegisterPlugin
            asked = self.ask("Configure", configure)
            time.sleep(0.05)
            self.send(RUNTIME_SERVICE, stream, RESPONSE, b"")
        else:
            self.send(RUNTIME_SERVICE, stream, RESPONSE, b"")
            asked = self.ask("Configure", configure)
        self.mask = fields(self.answer(asked, 5)).get(2, [0])[0]
        known = 0x7ff if self.runtime.version < (0, 10) else 0x3fff
        if self.mask & ~known:
            self.end(f"invalid plugin events: {self.mask & ~known:#x}")
            raise CutOff(self.violation)
        self.mask = self.mask or known
        self.synchronize()

    def synchronize(self):
        listed, chunk = list(self.runtime.sandboxes.values()), self.runtime.chunk or (1 << 30)
        for at in range(0, max(len(listed), 1), chunk):
            part, more = listed[at:at + chunk], at + chunk < len(listed)
            payload = b"".join(message(1, one.encoded()) for one in part) + field(3, int(more))
            payload += b"".join(message(2, container("main", one)) for one in part)
            answered = fields(self.call("Synchronize", payload))
            if more and (answered[2] != [1] or answered[1]):
                self.end("no demand for more in Synchronize")
                raise CutOff(self.violation)

    def happen(self, method, sandbox, about=None, whole=True):
        """An event, in the style of the version. None where the plugin does not want it."""
        number = EVENTS.get(method) or CALLS[method]
        if not self.mask & 1 << number - 1:
            return None
        body = sandbox.encoded(whole)
        more = container(about, sandbox) if about else None
        if self.dedicated or method in CALLS:
            try:
                return self.call(method, message(1, body) + (message(2, more) if more else b""))
            except Status as refused:
                if refused.code != UNIMPLEMENTED or method in CALLS:
                    raise
                self.dedicated = False
        return self.call("StateChange", field(1, number) + message(2, body) + (message(3, more) if more else b""))


class Runtime:
    """Listens for plugins and registers them, one after another. version: (0, 8) to (0, 12); itself: what it says that it is, name and version. pieces: bytes of the frames
    that it sends; chunk: sandboxes in a part of Synchronize."""

    def __init__(self, path=SOCKET, *, version=(0, 12), sandboxes=(), crossing=True, chunk=None, pieces=65536, config="",
                 itself=("fake", "v1.2.3")):
        self.path, self.version, self.crossing, self.chunk, self.pieces = path, version, crossing, chunk, pieces
        self.config, self.itself = config, itself
        self.sandboxes = {one.id: one for one in sandboxes}
        self.plugins, self.failures, self.listener = [], [], None
        self.start()

    def start(self):
        if self.path:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            if os.path.exists(self.path):
                os.unlink(self.path)
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(self.path)
            self.listener.listen()
            threading.Thread(target=self._serve, args=(self.listener,), daemon=True).start()

    def _serve(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.admit(connection)

    def admit(self, connection):
        plugin = Plugin(self, connection)
        try:
            plugin.register()
            self.plugins.append(plugin)
        except (CutOff, Status, AssertionError, OSError) as error:
            plugin.end()
            self.failures.append(error)

    def launch(self, program, name, index):
        """Starts a pre-installed plugin, as the runtime does it, and registers it."""
        ours, theirs = socket.socketpair()

        def third():
            os.dup2(theirs.fileno(), 3, inheritable=True)
        process = subprocess.Popen([program], preexec_fn=third, close_fds=False, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env={"NRI_PLUGIN_NAME": name, "NRI_PLUGIN_IDX": index, "NRI_PLUGIN_SOCKET": "3"})
        theirs.close()
        self.admit(ours)
        return process

    def plugin(self, timeout=10):
        """The newest plugin that is connected."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            for one in reversed(self.plugins):
                if not one.ended.is_set():
                    return one
            time.sleep(0.02)
        raise AssertionError(f"no plugin is registered: {self.failures}")

    def stop(self, unlink=True):
        """As if it were killed, or with the socket removed."""
        if self.listener:
            with contextlib.suppress(OSError):  # it was stopped
                self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
        for one in self.plugins:
            one.end()
        if unlink and self.path:
            os.unlink(self.path)

    # What happens on the node, for the newest plugin.

    def run(self, sandbox):
        self.sandboxes[sandbox.id] = sandbox
        return self.plugin().happen("RunPodSandbox", sandbox)

    def stop_sandbox(self, sandbox):
        return self.plugin().happen("StopPodSandbox", sandbox, whole=self.version >= (0, 9))

    def remove(self, sandbox):
        self.sandboxes.pop(sandbox.id, None)
        return self.plugin().happen("RemovePodSandbox", sandbox, whole=self.version >= (0, 9))

    def create(self, sandbox, name):
        """The adjustment: {devices: {path: fields}, cdi: [names], sysctl: {key: value}}."""
        answered = self.plugin().happen("CreateContainer", sandbox, name)
        adjust = fields(b"".join(fields(answered or b"")[1]))
        linux = fields(b"".join(adjust[6]))
        devices = {one[1][0].decode(): one for one in map(fields, linux[1])}
        return {"devices": devices, "cdi": [fields(one)[1][0].decode() for one in adjust[8]],
                "sysctl": {one[1][0].decode(): one[2][0].decode() for one in map(fields, linux[8])}}
