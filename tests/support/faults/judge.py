"""Disturbs one run, and says what is wrong with how it ended and with what is left: the state of
the whole node before and after decides."""

import contextlib
import ctypes
import dataclasses
import functools
import os
import signal
import time

from support import daemons
from support.faults import points, subjects
from support.faults.subjects import Stage, ignore
from support.snapshot import diff, is_flannels_state

#: What may be wrong.
KINDS = ("leftover", "hang", "crash", "no error object", "does not work")
#: Verbs that change nothing.
LOOKS = ("CHECK", "STATUS", "VERSION")
#: Their points share a stage, as long as it stays as it was.
BATCH = 24
HANG_SECONDS = 30


@dataclasses.dataclass
class Verdict:
    """reached: the run came to the point. ended: "ok", "error", "killed" or "early" (before
    main()). wrong: (one of KINDS, words), or None."""

    reached: bool
    ended: str
    wrong: tuple = None

    def json(self):
        return [self.reached, self.ended, self.wrong]


def children():
    """The PIDs of this process's children."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return {int(pid) for pid in file.read().split()}


def reap():
    """Waits for what a killed program left running, besides daemons of the stage: this process is their reaper."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                if daemons.playing() and children() <= daemons.playing():
                    return True
                time.sleep(0.002)
        except ChildProcessError:
            return True
    return False


def become_reaper():
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _hung(outcome):
    return "(killed: it ran longer" in outcome.stderr


def complaint(outcome, stdout_may_be_lost=False):
    """What is wrong with the output of a disturbed run that was not killed."""
    if _hung(outcome):
        return "hang", str(outcome)
    if outcome.ok:
        return None
    if outcome.status < 0 or outcome.status >= 128:
        return "crash", str(outcome)
    if stdout_may_be_lost and not outcome.stdout:
        said = outcome.status == 1 and outcome.stderr
        return None if said else ("no error object", f"nothing on stderr either: {outcome}")
    try:
        error = outcome.json
    except ValueError:
        return "no error object", f"stdout is not one error object: {outcome}"
    if outcome.status != 1 or not {"code", "msg"} <= error.keys():
        return "no error object", str(outcome)
    return None


def left(stage, before, when, allowed=ignore):
    """What is left of what was not there before."""
    what = diff(before, stage.state(), allowed)
    return ("leftover", f"{when} left:\n{what}") if what else None


def _works(stage, verb, before, when, number=1):
    """Runs a verb, after which the node has to be as before unless that is None."""
    outcome = stage.run(verb, number)
    if not outcome.ok or verb == "DEL" and outcome.stdout and not stage.is_chain:
        return "does not work", f"{verb} {when}: {outcome}"
    if not reap():
        return "hang", f"something still runs after {verb} {when}"
    return left(stage, before, f"{verb} {when}") if before is not None else None


def first(*checks):
    """The first complaint of checks, each of which is run only when those before had none."""
    for check in checks:
        if wrong := check():
            return wrong
    return None


def after_add(stage, before, outcome, killed):
    """DEL leaves nothing, and then everything works. It comes at once, as a runtime's does: what a
    killed plugin had started must not go on behind its back."""
    return first(
        lambda: None if outcome.ok or killed else left(
            stage, before, "the failed ADD", lambda place: ignore(place) or is_flannels_state(place)),
        lambda: _works(stage, "DEL", before, "afterwards"),
        lambda: _works(stage, "ADD", None, "after it all") if killed else None,
        lambda: _works(stage, "DEL", before, "after it all") if killed else None)


def after_removal(stage, verb, before, outcome):
    """A DEL or GC that says that it succeeded has left nothing; else the next one completes it."""
    return first(
        lambda: left(stage, before, f"{verb}, which succeeded,") if outcome.ok else None,
        lambda: _works(stage, verb, before, "afterwards"))


def _reached(point):
    """Whether strace has disturbed the run. Of a signal that the program blocks the log says nothing
    but the call."""
    log = subjects.log()
    if "(INJECTED)" in log or f"--- {point.what}" in log or f"+++ killed by {point.what}" in log:
        return True
    return point.signal and log.count(f"\n{point.call}(") + 1 >= point.number


def _hit_stdout(point):
    """Whether it is the answer that could not be written."""
    return point.call == "write" and any(line.startswith("write(1,") and "(INJECTED)" in line
                                         for line in subjects.log().splitlines())


def _verdict(stage, point, outcome):
    """Of the run alone."""
    reached = _reached(point)
    # A program may catch SIGTERM: then it ends as it does when it fails.
    killed = point.signal and (outcome.status == -getattr(signal, point.what)
                               or bool(stage.inner) and not outcome.ok)
    if point.early and not outcome.ok and not outcome.stdout:
        return Verdict(reached, "early")
    if killed and not stage.inner:
        return Verdict(reached, "killed")
    if outcome.status == -signal.SIGABRT and point.call == "setns":
        return Verdict(reached, "killed")  # a process lost in another namespace must not go on
    return Verdict(reached, "ok" if outcome.ok else "error", complaint(outcome, _hit_stdout(point)))


def prepare(stage, verb):
    """What has to be there before the verb; the state that the verb, or DEL after it, must leave."""
    if verb == "GC":
        stage.run("ADD", 2)
    if verb == "GC" and stage.collects_in_part:
        stage.run("ADD")
        stage.run("GC")
    before = stage.state() if verb in ("ADD", "DEL", "GC") else None
    if verb != "ADD":
        outcome = stage.run("ADD")
        if not outcome.ok:
            raise AssertionError(f"ADD without a fault: {outcome}")
    return stage.state() if before is None else before


def _stops_daemons(function):
    """Decorator: those of the stage do not outlive it."""
    @functools.wraps(function)
    def stopping(*arguments):
        try:
            return function(*arguments)
        finally:
            daemons.stop()
    return stopping


@_stops_daemons
def disturb(name, verb, point):
    """Disturbs one call of a verb that changes something."""
    become_reaper()
    stage = Stage(name, verb)
    before = prepare(stage, verb)
    outcome = stage.run(verb, strace=point.options)
    verdict = _verdict(stage, point, outcome)
    gone = verdict.ended in ("killed", "early")
    if not verdict.wrong and verb == "ADD":
        verdict.wrong = after_add(stage, before, outcome, gone)
    elif not verdict.wrong:
        verdict.wrong = after_removal(stage, verb, before, outcome)
    return verdict.json()


@_stops_daemons
def look(name, verb, batch):
    """Disturbs calls of a verb that only looks, one run each, on one stage."""
    become_reaper()
    stage = Stage(name, verb)
    before, verdicts = prepare(stage, verb), []
    for point in batch:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(subjects.LOG)
        verdicts.append(_verdict(stage, point, stage.run(verb, strace=point.options)))
    wrong = first(lambda: None if reap() else ("hang", "something still runs"),
                  lambda: left(stage, before, verb), lambda: _works(stage, verb, before, "afterwards"))
    if wrong and len(batch) > 1:
        return [one for point in batch for one in look(name, verb, [point])]
    if wrong:
        verdicts[0].wrong = verdicts[0].wrong or wrong
    return [verdict.json() for verdict in verdicts]


@_stops_daemons
def calls(name, verb):
    """(name, number, whether before main) of each call of a run that goes well."""
    stage = Stage(name, verb)
    prepare(stage, verb)
    outcome = stage.run(verb, strace=())
    if not outcome.ok:
        raise AssertionError(f"{verb} without a fault: {outcome}")
    # The first execve is strace's.
    return [call for call in points.calls_of(subjects.LOG) if call[:2] != ("execve", 1)]
