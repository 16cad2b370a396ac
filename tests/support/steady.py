"""Requests that never cease while a node changes: none may fail, and none may have to be sent again."""

import contextlib
import ctypes
import os
import selectors
import signal
import socket
import time

from support.forked import Forked

TIMEOUT = 20.0
SLOW = 0.9  # the kernel sends a lost SYN again after a second (TCP_TIMEOUT_INIT)


def _inside(pod):
    return pod.inside() if pod else contextlib.nullcontext()


def _listeners(pods, port):
    for pod in pods:
        with _inside(pod):
            for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
                one = socket.socket(family, socket.SOCK_STREAM)
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind((address, port))
                one.listen(256)
                yield one, pod.name


def _serve(pods, port, ready):
    """Answers each line with the name of the pod and the client's address."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    selector = selectors.DefaultSelector()
    for listener, name in _listeners(pods, port):
        selector.register(listener, selectors.EVENT_READ, name)
    os.write(ready, b"r")
    while True:
        for key, _ in selector.select():
            with contextlib.suppress(OSError):
                if isinstance(key.data, str):
                    connection, peer = key.fileobj.accept()
                    said = f"{key.data} {peer[0].removeprefix('::ffff:')}\n".encode()
                    selector.register(connection, selectors.EVENT_READ, (said,))
                elif key.fileobj.recv(64):
                    key.fileobj.sendall(key.data[0])
                else:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()


class Echoes:
    """One process that answers in every pod of the list at the port."""

    def __init__(self, test, pods, port=80):
        ready, say = os.pipe()
        self._process = Forked(_serve, pods, port, say)
        os.close(say)
        os.read(ready, 1)
        os.close(ready)
        test.addCleanup(os.kill, self._process.pid, signal.SIGKILL)


class _SentAgain:
    """How many segments the kernel has sent more than once in the namespaces of these pods, whoever lost them: the
    request's end or the answer's."""

    def __init__(self, pods):
        self._files = []
        for pod in pods:
            with _inside(pod):  # the file goes on showing the namespace in which it was opened
                self._files.append(os.open("/proc/thread-self/net/snmp", os.O_RDONLY))

    def __call__(self):
        return sum(self._of(file) for file in self._files)

    @staticmethod
    def _of(file):
        names, values = (line.split() for line in os.pread(file, 16384, 0).decode().splitlines()
                         if line.startswith("Tcp:"))
        return int(values[names.index("RetransSegs")])


class _Way:
    """One connection that lasts, and new ones beside it."""

    def __init__(self, origin, address, port, right):
        self.origin, self.where, self.right = origin, (address, port), right
        self.lasting = self._connect()

    def _connect(self):
        family = socket.AF_INET6 if ":" in self.where[0] else socket.AF_INET
        with _inside(self.origin):
            one = socket.socket(family, socket.SOCK_STREAM)
        one.settimeout(TIMEOUT)
        one.connect(self.where)
        return one

    def _ask(self, connection):
        connection.sendall(b"?")
        answer = connection.recv(256).decode()
        if not answer.startswith(self.right):
            raise OSError(f"answer {answer!r}, not {self.right!r}")

    def ask_both(self):
        self._ask(self.lasting)
        one = self._connect()
        with one:
            self._ask(one)

    def __str__(self):
        return f"{self.origin.name if self.origin else 'node'} to {self.where[0]} port {self.where[1]}"


def wrong(ways):
    """What fails of one request over each way."""
    found = []
    for way in ways:
        try:
            _Way(*way).ask_both()
        except OSError as error:
            found.append(f"{way}: {error!r}")
    return found


def _go_on(ways, until, ready):
    """Asks in turn until the file `until` exists. {requests, failed, slow}"""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    ways = [_Way(*way) for way in ways]
    os.write(ready, b"r")
    sent_again = _SentAgain({id(way.origin): way.origin for way in ways}.values())
    done = {"requests": 0, "failed": [], "slow": [], "rounds": 0}
    while not os.path.exists(until):
        before = sent_again()
        for way in ways:
            begin = time.monotonic()
            try:
                way.ask_both()
            except OSError as error:
                done["failed"].append(f"{way}: {error!r}")
            # A machine that does something else is late as well.
            if time.monotonic() - begin > SLOW and sent_again() > before:
                done["slow"].append(f"{way}: {time.monotonic() - begin:.2f} s")
            done["requests"] += 2
        done["rounds"] += 1
    return done


class Steady:
    """Asks over every way (pod or None for the node, address, port, beginning of the answer) until finish()."""

    def __init__(self, ways):
        self._until = f"/run/steady-{time.monotonic_ns()}"
        ready, say = os.pipe()
        self._process = Forked(_go_on, ways, self._until, say)
        os.close(say)
        os.read(ready, 1)  # all are connected, or it failed: see finish()
        os.close(ready)

    def finish(self):
        with open(self._until, "w", encoding="ascii"):
            pass
        done = self._process.result()
        os.unlink(self._until)
        return done
