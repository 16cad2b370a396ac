#!/usr/bin/env python3
"""Every system call of a plugin fails once, and once the plugin is killed at it.

A failed ADD leaves the node as it was and says why; a killed one is cleaned up by DEL; and a DEL
that was disturbed is completed by the next one. PATCHBAY_SWEEP_STEP=7 takes every seventh call.
"""

import collections
import ctypes
import dataclasses
import json
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import guest, suite  # noqa: E402
from support.parallel import parallel  # noqa: E402
from support.plugin import OURS, cni  # noqa: E402
from support.snapshot import diff, left_by_design, pod_snapshot, snapshot  # noqa: E402
from support.world import Pod, World, run  # noqa: E402

STEP = int(os.environ.get("PATCHBAY_SWEEP_STEP", "1"))

IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}
BRIDGE = {"cniVersion": "1.0.0", "name": "net1", "type": "bridge", "isGateway": True,
          "ipMasq": True, "ipMasqBackend": "nftables", "ipam": IPAM}
CONFIGS = {"bridge": BRIDGE, "bridge iptables": BRIDGE | {"ipMasqBackend": "iptables"},
           "host-local": {"cniVersion": "1.0.0", "name": "net1", "type": "bridge", "ipam": IPAM}}
PORTMAP = {"cniVersion": "1.0.0", "name": "net1", "type": "portmap", "backend": "nftables",
           "runtimeConfig": {"portMappings": [
               {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
               {"hostPort": 53, "containerPort": 53, "protocol": "udp", "hostIP": "127.0.0.1"}]},
           "prevResult": {"cniVersion": "1.0.0",
                          "interfaces": [{"name": "eth0", "sandbox": "/run/netns/pod1"}],
                          "ips": [{"address": "10.1.0.5/24", "interface": 0},
                                  {"address": "fd00:1::5/64", "interface": 0}]}}
CONFIGS |= {"portmap": PORTMAP, "portmap iptables": PORTMAP | {"backend": "iptables"}}
BANDWIDTH = {"cniVersion": "1.0.0", "name": "net1", "type": "bandwidth",
             "ingressRate": 8000000, "ingressBurst": 800000,
             "egressRate": 8000000, "egressBurst": 800000,
             "prevResult": {"cniVersion": "1.0.0",
                            "interfaces": [{"name": "cni0"},
                                           {"name": "eth0", "sandbox": "/run/netns/pod1"}],
                            "ips": [{"address": "10.1.0.5/24", "interface": 1}]}}
SUBNETS = {"unshapedSubnets": ["10.0.0.0/8", "fd00::/8"]}
CONFIGS |= {"bandwidth": BANDWIDTH, "bandwidth subnets": BANDWIDTH | SUBNETS,
            "bandwidth pod": BANDWIDTH | {"egressMode": "pod"},
            "bandwidth edt": BANDWIDTH | {"egressMode": "edt"}}

# The error that a call may really meet.
ERRNO = {
    "ENOBUFS": "sendmsg sendto recvmsg recvfrom",
    "EIO": "read pread64 readv fsync fdatasync getdents64 fstat newfstatat stat statx lstat "
           "statfs fstatfs lseek readlink readlinkat getrandom",
    "ENOSPC": "write pwrite64 writev mkdir mkdirat link linkat symlink symlinkat rename renameat "
              "renameat2 ftruncate",
    "EMFILE": "open openat socket socketpair pipe pipe2 dup dup2 dup3 fcntl eventfd2 pidfd_open "
              "epoll_create1 timerfd_create",
    "EPERM": "bpf setns ioctl bind setsockopt getsockopt getsockname unlink unlinkat fchmod fchmodat "
             "chmod prlimit64 prctl",
    "ENOMEM": "mmap munmap mprotect brk mremap poll ppoll madvise",
    "EAGAIN": "clone clone3 vfork fork",
    "ECHILD": "wait4 waitid",
    "ENOLCK": "flock",
    "ENOENT": "execve access faccessat",
    "EINVAL": "rt_sigaction rt_sigprocmask sigaltstack kill clock_nanosleep nanosleep connect",
}
ERRNO_OF = {call: errno for errno, calls in ERRNO.items() for call in calls.split()}
# Calls that never fail, or where a failure ends the process before anything of ours runs. close
# frees its descriptor even when it fails, which strace cannot imitate.
NEVER_FAIL = {"close", "exit_group", "exit", "getpid", "gettid", "getppid", "getuid", "geteuid", "getgid",
              "getegid", "futex", "set_tid_address", "set_robust_list", "rseq", "arch_prctl",
              "clock_gettime", "sched_yield", "umask", "rt_sigreturn", "restart_syscall", "alarm"}


@dataclasses.dataclass
class Point:
    """One call to disturb: the number-th one of its name, in the plugin that is run or in the
    delegate that it runs. early: before main()."""

    config: str
    plugin: str
    verb: str
    delegate: bool
    call: str
    number: int
    early: bool
    kill: bool = False

    @property
    def conf(self):
        return CONFIGS[self.config]

    @property
    def effect(self):
        if self.kill:
            return "signal=SIGKILL"
        if self.call == "brk":
            return "retval=0"  # brk(2) of the kernel tells the break, and never an error
        return "error=" + ERRNO_OF.get(self.call, "EIO")

    def __str__(self):
        return (f"{self.config} {self.verb}: {'host-local: ' * self.delegate}"
                f"{self.call} #{self.number} {self.effect}")


def calls_of(log):
    """(name, number, whether before main) of every call in strace's log of one process."""
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    # plugin_main() begins with ignoring SIGPIPE.
    main = next((i for i, line in enumerate(lines)
                 if line.startswith("rt_sigaction(SIGPIPE, {sa_handler=SIG_IGN")), 0)
    counts = collections.Counter()
    for index, line in enumerate(lines):
        name = re.match(r"(\w+)\(", line)
        # The kernel begins a write to a sysctl anew, hundreds of times, while others hold its lock.
        if name and "ERESTARTNOINTR" not in line:
            counts[name[1]] += 1
            yield name[1], counts[name[1]], index < main


class Stage:
    """A node with a pod, on which one plugin runs under strace."""

    def __init__(self, plugin):
        World()
        self.plugin = plugin
        self.pod = Pod("pod1")
        if plugin in ("portmap", "bandwidth"):  # what the plugin before it would have left
            run("ip", "link", "add", "cni0", "type", "veth", "peer", "name", "eth0", "netns", "pod1")
            run("ip", "link", "set", "cni0", "up", "addrgenmode", "none")
            run("ip", "addr", "add", "10.1.0.1/24", "dev", "cni0")
            run("ip", "addr", "add", "fd00:1::1/64", "dev", "cni0", "nodad")
        os.makedirs("/run/stage/bin")

    def run(self, plugin, verb, conf, delegate=False, inject=None):
        """Runs the plugin under strace, or the delegate that it runs (for the same verb)."""
        log = "/run/stage/log"
        strace = ["strace", "-qq", "-o", log, *(["-e", f"inject={inject}"] if inject else [])]
        if not delegate:
            return cni(plugin, verb, conf, netns=self.pod.path, wrap=strace)
        with open("/run/stage/bin/host-local", "w", encoding="ascii") as script:
            script.write(f'#!/bin/sh\n[ "$CNI_COMMAND" = {verb} ] && [ ! -e {log} ] || '
                         f'exec {OURS}/host-local\nexec {" ".join(strace)} {OURS}/host-local\n')
        os.chmod("/run/stage/bin/host-local", 0o755)
        return cni(plugin, verb, conf, netns=self.pod.path, path=f"/run/stage/bin:{OURS}")

    def state(self):
        """Of the node, and where a plugin works in it, of the pod."""
        if self.plugin != "bandwidth":
            return snapshot()
        inside = pod_snapshot(self.pod)
        return snapshot() | {f"pod {place}": what for place, what in inside.items()}

    def log(self):
        try:
            with open("/run/stage/log", encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""


def ignore(place):
    return left_by_design(place) or place.startswith("file/run/stage/")


def enumerate_calls(config, plugin, verb, delegate=False):
    """The points of a run that goes well."""
    stage = Stage(plugin)
    conf = CONFIGS[config]
    if verb == "DEL":
        cni(plugin, "ADD", conf, netns=stage.pod.path)
    outcome = stage.run(plugin, verb, conf, delegate)
    if not outcome.ok:
        raise AssertionError(f"{verb} without a fault: {outcome}")
    for call, number, early in calls_of("/run/stage/log"):
        if (call, number) != ("execve", 1):  # that one is strace's
            yield Point(config, plugin, verb, delegate, call, number, early)


def reap():
    """Waits for what a killed plugin left running: this process is their reaper."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.002)
        except ChildProcessError:
            return True
    return False


def complaint(outcome, point):
    """What is wrong with the output of a disturbed run."""
    if outcome.ok or point.kill and not point.delegate:
        return None
    if outcome.stdout == "" and point.early:
        return None  # it never came to main()
    if outcome.status == -signal.SIGABRT and point.call == "setns":
        return None  # a process lost in another namespace must not go on, not even to say so
    try:
        error = outcome.json
    except ValueError:
        return f"stdout is not one error object: {outcome}"
    if outcome.status != 1 or not {"cniVersion", "code", "msg"} <= error.keys():
        return f"not an error object: {outcome}"
    return None


def clean_up(stage, point, before):
    """DEL leaves nothing, and then everything works. It comes at once, as a runtime's does: what a
    killed plugin had started must not go on behind its back."""
    removed = cni(point.plugin, "DEL", point.conf, netns=stage.pod.path)
    if removed.status != 0 or removed.stdout:
        return f"DEL afterwards: {removed}"
    if not reap():
        return "something still runs"
    left = diff(before, stage.state(), ignore)
    if left:
        return f"DEL afterwards left:\n{left}"
    if not point.kill:
        return None
    for verb in ("ADD", "DEL"):
        again = cni(point.plugin, verb, point.conf, netns=stage.pod.path)
        if not again.ok:
            return f"{verb} after it all: {again}"
    left = diff(before, stage.state(), ignore)
    return f"ADD and DEL after it all left:\n{left}" if left else None


def disturb(point):
    """Disturbs one call; returns [reached, what is wrong or None]."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    stage = Stage(point.plugin)
    before = stage.state()
    if point.verb == "DEL":
        cni(point.plugin, "ADD", point.conf, netns=stage.pod.path)
    outcome = stage.run(point.plugin, point.verb, point.conf, point.delegate,
                        f"{point.call}:{point.effect}:when={point.number}")
    log = stage.log()
    reached = ("killed by SIGKILL" if point.kill else "(INJECTED)") in log
    wrong = complaint(outcome, point)
    killed = outcome.status < 0 and (not point.kill or not point.delegate)
    if not wrong and not outcome.ok and not killed:
        if point.verb == "ADD":
            left = diff(before, stage.state(), ignore)
            wrong = f"the failed ADD left:\n{left}" if left else None
    elif not wrong and outcome.ok and point.verb == "DEL":
        left = diff(before, stage.state(), ignore)
        wrong = f"DEL says that it succeeded, and left:\n{left}" if left else None
    return [reached, wrong or clean_up(stage, point, before)]


SWEEPS = [
    ("bridge ADD", ("bridge", "bridge", "ADD", False)),
    ("bridge ADD, in its host-local", ("bridge", "bridge", "ADD", True)),
    ("bridge ADD with iptables", ("bridge iptables", "bridge", "ADD", False)),
    ("host-local ADD", ("host-local", "host-local", "ADD", False)),
    ("bridge DEL", ("bridge", "bridge", "DEL", False)),
    ("host-local DEL", ("host-local", "host-local", "DEL", False)),
    ("portmap ADD", ("portmap", "portmap", "ADD", False)),
    ("portmap ADD with iptables", ("portmap iptables", "portmap", "ADD", False)),
    ("portmap DEL", ("portmap", "portmap", "DEL", False)),
    ("portmap DEL with iptables", ("portmap iptables", "portmap", "DEL", False)),
    *((f"{config} {verb}", (config, "bandwidth", verb, False))
      for config in CONFIGS if config.startswith("bandwidth") for verb in ("ADD", "DEL")),
]
COVERED = collections.Counter()


@suite.spread
class Sweep(suite.NodeTest):
    def points(self, what):
        """Of a run that goes well."""
        if what[0] == "bandwidth edt" and not guest.has_qdisc("fq"):
            self.skipTest("this kernel has no fq")
        return list(enumerate_calls(*what))

    def sweep(self, points, what):
        results = parallel(disturb, points)
        reached = sum(1 for at, _ in results if at)
        wrong = [f"{point}: {text}" for point, (_, text) in zip(points, results) if text]
        COVERED[what] += reached
        print(f"     {reached} of {len(points)} points reached, {len(wrong)} wrong", flush=True)
        if wrong:
            self.fail("\n     ".join([f"{len(wrong)} points:", *(w[:1200] for w in wrong[:12])]))
        self.assertGreater(reached, 0.9 * len(points) - 3, "the run differs each time")

    @suite.cases(SWEEPS)
    def each_call_fails_once(self, what):
        points = [p for p in self.points(what) if p.call not in NEVER_FAIL][::STEP]
        self.sweep(points, "errors")

    @suite.cases(SWEEPS)
    def killed_at_each_call(self, what):
        points = [dataclasses.replace(p, kill=True) for p in self.points(what)][::STEP]
        self.sweep(points, "kills")



def print_coverage():
    print(f"covered {COVERED['errors']} points (errors), {COVERED['kills']} points (kills)",
          flush=True)


if __name__ == "__main__":
    suite.main(needs=("strace", "iptables-restore"), summary=print_coverage)
