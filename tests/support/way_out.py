#!/usr/bin/env python3
"""Runs a command in a network namespace of its own, whose only way out is a SOCKS proxy for apt-get.

    tests/support/way_out.py COMMAND [ARGUMENT...]      socks5h://127.0.0.1:1080, RFC 1928

What the command does to the network touches nothing of the machine. Names are resolved outside.
"""

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support.world import CLONE_NEWNET, set_up, setns, unshare  # noqa: E402

PORT = 1080


def destination(stream):
    """The host and port that a client asks for; it gets the answer that it is connected."""
    _, methods = stream.read(2)
    stream.read(methods)
    stream.write(b"\5\0")  # no authentication
    *_, kind = stream.read(4)
    host = {1: lambda: socket.inet_ntop(socket.AF_INET, stream.read(4)),
            3: lambda: stream.read(stream.read(1)[0]).decode(),
            4: lambda: socket.inet_ntop(socket.AF_INET6, stream.read(16))}[kind]()
    return host, struct.unpack("!H", stream.read(2))[0]


def copy(source, target):
    try:
        shutil.copyfileobj(source.makefile("rb", buffering=0), target.makefile("wb", buffering=0), 1 << 16)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # one of them has gone


def serve(client):
    with client, client.makefile("rwb", buffering=0) as stream:
        with socket.create_connection(destination(stream)) as server:
            stream.write(b"\5\0\0\1" + bytes(6))
            back = threading.Thread(target=copy, args=(server, client), daemon=True)
            back.start()
            copy(client, server)
            back.join()


def accept(listener):
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def main():
    home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    unshare(CLONE_NEWNET)
    set_up("lo")
    listener = socket.create_server(("127.0.0.1", PORT))
    command = subprocess.Popen(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the command too
    signal.signal(signal.SIGTERM, lambda *_: command.terminate())
    setns(home, CLONE_NEWNET)
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    status = command.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
