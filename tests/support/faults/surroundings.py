"""Whole runs in surroundings that lack something: a stdout that takes the result, room on the disk,
a /proc/sys that can be written, descriptors, memory."""

import contextlib
import dataclasses
import os
import sys

from support.cnitool import cache_file
from support.faults import judge, points, subjects
from support.faults.subjects import Stage
from support.world import MS_BIND, MS_RDONLY, MS_REMOUNT, mount, umount
from support.world import run as call

#: Those whose runs differ in what they need.
SUBJECTS = ("loopback", "static", "host-local", "bridge", "bridge, iptables", "ptp", "macvlan", "tap",
            "portmap", "portmap, iptables", "bandwidth", "cnitool, all in a chain")
#: Verbs that answer on stdout.
ANSWERS = ("ADD", "VERSION")
#: Directories that state is kept in.
STATE = ("/var/lib/cni", "/run/cni")
PAGE = 4096
KIB = 1024

_SHELL = ("sh", "-c")
_PIPE = (sys.executable, os.path.join(os.path.dirname(__file__), "full_pipe.py"))
LOST_STDOUT = {"closed": (*_SHELL, 'exec "$0" "$@" >&-'), "full": (*_SHELL, 'exec "$0" "$@" >/dev/full'),
               "a full pipe, then closed": (*_PIPE, "closed"),
               "a full pipe, then read": (*_PIPE, "drained")}


@dataclasses.dataclass(frozen=True)
class Surrounding:
    """What is lacking, and how much of it there is (of stdout: what it is)."""

    lacking: str
    there: object = 0

    def __str__(self):
        return f"{self.lacking}: {self.there}"

    @property
    def wrap(self):
        if self.lacking == "stdout":
            return LOST_STDOUT[self.there]
        if self.lacking in ("descriptors", "memory"):
            what = {"descriptors": "nofile", "memory": "as"}[self.lacking]
            return ("prlimit", f"--{what}={self.there}")
        return ()


def least_memory(subject):
    """The bytes of address space with which the program starts."""
    stage, low, high = Stage(subject, "VERSION"), 0, 64 * KIB * KIB
    verb = "STATUS" if stage.is_chain else "VERSION"
    while high - low > 64 * KIB:
        middle = (low + high) // 2
        if stage.run(verb, wrap=Surrounding("memory", middle).wrap).ok:
            high = middle
        else:
            low = middle
    return high


def of(subject, verb):
    """What a verb of a subject is tried in."""
    found = [Surrounding("stdout", kind) for kind in LOST_STDOUT
             if verb in ANSWERS or kind in ("closed", "full")]
    if verb != "VERSION":
        found.append(Surrounding("a writable /proc/sys"))
        for lacking, most in (("blocks", 12), ("inodes", 20)):
            found += [Surrounding(lacking, n) for n in range(most if verb == "ADD" else 2)]
    found += [Surrounding("descriptors", n) for n in range(24)]
    least = least_memory(subject)
    return found + [Surrounding("memory", least + step * 64 * KIB) for step in range(-4, 24)]


class _Disk:
    """File systems for what is kept, which can be filled."""

    def __init__(self, lacking):
        self.lacking = lacking
        for path in STATE:
            os.makedirs(path, exist_ok=True)
            mount("tmpfs", path, "tmpfs", options=f"mode=755,size={64 * PAGE},nr_inodes=300")

    def fill(self, free):
        """Leaves so many blocks or inodes free."""
        for path in STATE:
            (self._fill_blocks if self.lacking == "blocks" else self._fill_inodes)(path, free)

    @staticmethod
    def _fill_blocks(path, free):
        with open(f"{path}/filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(PAGE)):
                pass
        os.truncate(f"{path}/filler", max(os.path.getsize(f"{path}/filler") - free * PAGE, 0))

    @staticmethod
    def _fill_inodes(path, free):
        os.mkdir(f"{path}/filler")
        made = []
        with contextlib.suppress(OSError):
            while True:
                made.append(f"{path}/filler/{len(made)}")
                os.close(os.open(made[-1], os.O_CREAT | os.O_WRONLY))
        for name in made[:-1][len(made) - 1 - free:]:
            os.unlink(name)

    @staticmethod
    def empty():
        for path in STATE:
            call("rm", "-rf", f"{path}/filler")


#: Options of strace that show whether a program came to its main(): see points.is_main().
MAIN = ("-f", "--seccomp-bpf", "--trace=rt_sigaction,rt_sigprocmask")


def _came_to_main():
    return any(points.is_main(line) for line in subjects.log().splitlines())


def _run(stage, verb, one):
    """The outcome, and whether the program did not come to its main()."""
    if one.lacking in ("descriptors", "memory"):
        outcome = stage.run(verb, wrap=one.wrap, strace=MAIN)
        return outcome, not outcome.ok and not _came_to_main()
    return stage.run(verb, wrap=one.wrap), False


def _what_is_wrong(stage, verb, one, outcome):
    lost = one.lacking == "stdout" and (one.there != "a full pipe, then read")
    if lost and verb in ANSWERS and outcome.ok:
        return "does not work", f"succeeded, though its answer is lost: {outcome}"
    if one.lacking in ("blocks", "inodes") and verb == "DEL" and not outcome.ok:
        return "does not work", f"a full disk keeps things from being freed: {outcome}"
    # Without memory for its command line cnitool has not read that it is to answer in JSON.
    return judge.complaint(outcome, lost or stage.is_chain and one.lacking == "memory")


def _is_noted(stage):
    """Whether cnitool, which lacks what running DEL takes, remembers what it could not undo."""
    return stage.is_chain and os.path.exists(cache_file("net1", "pod1"))


def run(subject, verb, one):
    """The verdict on a verb in surroundings."""
    judge.become_reaper()
    stage = Stage(subject, verb)
    disk = _Disk(one.lacking) if one.lacking in ("blocks", "inodes") else None
    before = judge.prepare(stage, verb)
    if disk:
        disk.fill(one.there)
    if one.lacking == "a writable /proc/sys":
        # mount(8) would keep books in /run.
        mount("/proc/sys", "/proc/sys", flags=MS_BIND)
        mount("/proc/sys", "/proc/sys", flags=MS_REMOUNT | MS_BIND | MS_RDONLY)
    outcome, early = _run(stage, verb, one)
    if disk:
        disk.empty()
    if one.lacking == "a writable /proc/sys":
        umount("/proc/sys")
    if not judge.reap():
        return judge.Verdict(True, "error", ("hang", "something still runs")).json()
    ended = "early" if early else "ok" if outcome.ok else "error"
    wrong = None if early else _what_is_wrong(stage, verb, one, outcome)
    if not wrong and verb == "ADD":
        wrong = judge.after_add(stage, before, outcome, killed=_is_noted(stage))
    elif not wrong and verb in judge.LOOKS:
        wrong = judge.left(stage, before, verb)
    elif not wrong:
        wrong = judge.after_removal(stage, verb, before, outcome)
    return judge.Verdict(True, ended, wrong).json()
