"""The part of the benchmark that is a test: what does not depend on the machine, never a time."""

import sys

from support.plugin import OURS, PLUGINS, REFERENCE, have
from support.world import why_impossible

import subject
import trace

SKIPPED = 77
SIZE = 40_000_000  # bytes of all plugins
PROGRAMS = {"bridge": {"bridge"}, "portmap": {"portmap"}, "bandwidth": {"bandwidth"}}

#: The maximum of system calls of each, host-local's counted with bridge's: twice today's count. A
#: call more is no defect; a loop over all pods is.
CALLS = {
    "ADD": {"bridge": 366, "portmap": 136, "bandwidth": 148},
    "CHECK": {"bridge": 226, "portmap": 122, "bandwidth": 124},
    "DEL": {"bridge": 370, "portmap": 128, "bandwidth": 136},
}
#: The most requests of all three for which the kernel holds the lock of all links, by egressMode.
CHANGES = {"ADD": {"ifb": 21, "pod": 14}, "CHECK": {"ifb": 0, "pod": 0}, "DEL": {"ifb": 7, "pod": 5}}


def complaints_of_call(verb, call):
    plugin, most = call["plugin"], CALLS[verb][call["plugin"]]
    if call["calls"] > most:
        yield f"{call['calls']} system calls, allowed are {most}"
    for program in call["programs"]:
        if program not in PROGRAMS[plugin]:
            yield f"it runs {program}"
    if len(call["programs"]) > len(PROGRAMS[plugin]):
        yield f"it runs {' '.join(call['programs'])}"


def complaints_of_mode(mode):
    one = subject.Subject(f"ours, {mode}", OURS, keys={"egressMode": mode})
    for verb, calls in trace.traced(one).items():
        for call in calls:
            print(f"{verb} of {call['plugin']}, egress {mode}: {call['calls']} system calls of "
                  f"{CALLS[verb][call['plugin']]}, {len(call['changes'])} requests that hold RTNL")
            for complaint in complaints_of_call(verb, call):
                yield f"{verb} of {call['plugin']}, egress {mode}: {complaint}"
        changes = [kind for call in calls for kind in call["changes"]]
        if len(changes) > CHANGES[verb][mode]:
            yield (f"{verb}, egress {mode}: {len(changes)} requests that hold RTNL, allowed are "
                   f"{CHANGES[verb][mode]}: {' '.join(changes)}")
    one.close()


def complaints_of_sizes():
    ours, theirs = trace.sizes(OURS, PLUGINS), trace.sizes(REFERENCE, PLUGINS)
    print(f"the plugins have {ours} bytes, the reference's {theirs}")
    if ours > SIZE:
        yield f"the plugins have {ours} bytes, allowed are {SIZE}"


def run(with_sizes):
    """The exit status of the test."""
    missing = have("strace")
    reason = why_impossible() or (missing and f"{missing} is not installed")
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    complaints = [one for mode in ("ifb", "pod") for one in complaints_of_mode(mode)]
    if with_sizes:
        complaints += complaints_of_sizes()
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0
