"""Flows between the namespaces of a node, measured at the end that receives them (traffic.cc)."""

import contextlib
import dataclasses
import json
import os
import subprocess

from support.plugin import OURS

#: The program that is built beside the plugins.
PROGRAM = os.path.join(OURS, "traffic")


def why_impossible():
    """Why nothing can be sent, or None."""
    return None if os.access(PROGRAM, os.X_OK) else f"needs {PROGRAM}: build it"


@dataclasses.dataclass(frozen=True)
class Heard:
    """What one end of a flow got within some seconds; header is what each packet had beside its
    payload, from Ethernet's header on."""

    seconds: float
    bytes: int
    packets: int
    header: int

    @property
    def rate(self):
        """Bits per second of whole frames, as queueing disciplines count them."""
        return 8 * (self.bytes + self.packets * self.header) / self.seconds


def start(pod, *words, **options):
    """The program, started in a pod, or on the node where pod is None."""
    settings = [f"{key}={value}" for key, value in options.items() if value is not None]
    with pod.inside() if pod else contextlib.nullcontext():
        process = subprocess.Popen([PROGRAM, *map(str, words), *settings], stdout=subprocess.PIPE,
                                   text=True)
    if words[0] in ("receive", "echo"):
        said = process.stdout.readline()
        assert said == "ready\n", f"traffic {words}: {said}"
    return process


def finish(process, seconds=60):
    """What a started program has to say at its end, as a dict; None of one that says nothing."""
    said = process.communicate(timeout=seconds)[0]
    assert process.returncode == 0, f"{process.args}: exit {process.returncode}"
    return json.loads(said) if said else None


class Flow:
    """A flow of a protocol ("tcp" or "udp") from one pod to an address of another, which begins at
    once, or at begin, and is measured between two moments of time.monotonic(). rate is in bits/s;
    TCP sends what it can."""

    def __init__(self, protocol, origin, target, address, port, moments, rate=None, **options):
        begin, end = moments
        options |= {"from": begin, "to": end}
        self._receiver = start(target, "receive", protocol, address, port, **options)
        self._sender = start(origin, "send", protocol, address, port, rate=rate, **options)

    def finish(self):
        """(what the target heard, what the origin heard of it: acknowledgements)."""
        return tuple(Heard(**finish(process)) for process in (self._receiver, self._sender))


class Echo:
    """A small datagram every so many seconds, from one pod to an address of another and back."""

    def __init__(self, origin, target, address, port, moments, every=0.01):
        begin, end = moments
        self._echo = start(target, "echo", "udp", address, port, to=end + 12)
        self._ask = start(origin, "ask", "udp", address, port, every=every,
                          **{"from": begin, "to": end})

    def finish(self):
        """(how many were sent, sorted milliseconds of those that came back)."""
        answer = finish(self._ask)
        self._echo.terminate()
        self._echo.communicate()
        return answer["asked"], sorted(answer["milliseconds"])


def ahead_of_others():
    """What this process starts runs before the machine's other work, where that may be asked for. A
    guest as a whole does: in it, the kernel's own work is not to come last."""
    if os.environ.get("PATCHBAY_GUEST"):
        return
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(50))
