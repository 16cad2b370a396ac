"""Flows between the namespaces of a node, measured at the end that receives them (traffic.cc)."""

import contextlib
import dataclasses
import functools
import json
import os
import subprocess
import time
import unittest

from support.plugin import OURS

#: The programs that are built beside the plugins.
PROGRAM = os.path.join(OURS, "traffic")
WATCH = os.path.join(OURS, "watch")


def why_impossible():
    """Why nothing can be sent, or None."""
    lacking = [program for program in (PROGRAM, WATCH) if not os.access(program, os.X_OK)]
    return f"needs {' and '.join(lacking)}: build it" if lacking else None


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
        process = _run(PROGRAM, *words, *settings)
    if words[0] in ("receive", "echo"):
        _await_ready(process)
    return process


def _run(*words):
    return subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, text=True)


def _await_ready(process):
    said = process.stdout.readline()
    assert said == "ready\n", f"{process.args}: {said}"


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


class Watch:
    """Sees whether the machine gave its processors to others, as a host of virtual machines does, and
    as the machine of a guest does."""

    #: The part of the time that a processor may be away while something is measured.
    MOST = 0.01

    def __enter__(self):
        self._each = [_run(WATCH, processor) for processor in os.sched_getaffinity(0)]
        for process in self._each:
            _await_ready(process)
        return self

    def __exit__(self, *_):
        for process in self._each:
            process.terminate()
        found = [finish(process) for process in self._each]
        self.away = max(one["away"] / one["seconds"] for one in found)

    @property
    def disturbed(self):
        return self.away > self.MOST


class NotOffered(AssertionError):
    """A sender could not send what was to fill a limit: this machine is too slow, or busy."""


class Looks:
    """A figure that is wrong is looked at again, since a machine that does something else is late, too:
    twice where the processors were there, and where they were not until this program has spent so many
    seconds on that. What then still is wrong is no figure of what is measured: the test is skipped."""

    MOST_SECONDS = 150
    spent = 0

    @classmethod
    def measured(cls, function):
        """Decorates a test that measures; start_again() of it removes what the look before made."""
        @functools.wraps(function)
        def looked_at(test, *row):
            wrong = 0
            while True:
                begin = time.monotonic()
                try:
                    with Watch() as watch:
                        return function(test, *row)
                except AssertionError as error:
                    what = str(error).splitlines()[0]
                    cls.spent += time.monotonic() - begin
                    disturbed = watch.disturbed or isinstance(error, NotOffered)
                    wrong += not disturbed
                    if wrong == 3:
                        raise
                    if disturbed and cls.spent > cls.MOST_SECONDS:
                        raise unittest.SkipTest(f"a processor was away for {watch.away:.0%} of the "
                                                f"time, and {what}") from error
                    print(f"     once more (a processor was away for {watch.away:.1%} of the time): "
                          f"{what}", flush=True)
                test.start_again()
        return looked_at


measured = Looks.measured


def ahead_of_others():
    """What this process starts runs before the machine's other work, where that may be asked for. A
    guest as a whole does: in it, the kernel's own work is not to come last."""
    if os.environ.get("PATCHBAY_GUEST"):
        return
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(50))
