"""The points at which a run is disturbed: each system call of a run that goes well, with each error
that the call may really meet, and with signals."""

import collections
import dataclasses
import re

_ERRORS = {
    "sendmsg sendto": "ENOBUFS ENOMEM EINTR",
    "recvmsg recvfrom": "ENOBUFS ENOMEM EINTR EAGAIN",
    "read pread64 readv": "EIO EINTR",
    "write pwrite64 writev": "ENOSPC EIO EINTR",
    "getdents64 fstat newfstatat stat statx lstat readlink readlinkat": "EIO ENOMEM",
    "statfs fstatfs lseek getrandom getcwd": "EIO",
    "mkdir mkdirat link linkat symlink symlinkat rename renameat renameat2": "ENOSPC EIO EPERM",
    "ftruncate fsync fdatasync": "EIO ENOSPC",
    "unlink unlinkat rmdir utimensat fchmod fchmodat chmod": "EPERM EIO",
    "open openat": "EMFILE EIO EPERM",
    "socket socketpair": "EMFILE ENOBUFS EPERM",
    "pipe pipe2 dup dup2 dup3 fcntl eventfd2 pidfd_open epoll_create1 timerfd_create signalfd4":
        "EMFILE",
    "bpf setns": "EPERM ENOMEM",
    "ioctl bind setsockopt getsockopt getsockname prlimit64 prctl setpgid": "EPERM",
    "mmap munmap mprotect brk mremap madvise": "ENOMEM",
    "poll ppoll": "ENOMEM EINTR",
    "clone clone3 vfork fork": "EAGAIN ENOMEM",
    "wait4 waitid": "ECHILD EINTR",
    "flock": "ENOLCK EINTR",
    "execve access faccessat faccessat2": "ENOENT EPERM",
    "rt_sigaction rt_sigprocmask sigaltstack kill connect": "EINVAL",
    "clock_nanosleep nanosleep": "EINTR",
}
ERRORS_OF = {call: tuple(errors.split()) for calls, errors in _ERRORS.items()
             for call in calls.split()}
# Calls that never fail, or where a failure ends the process before anything of ours runs. close
# frees its descriptor even when it fails, which strace cannot imitate.
NEVER_FAIL = frozenset(
    "close exit_group exit getpid gettid getppid getuid geteuid getgid getegid futex "
    "set_tid_address set_robust_list rseq arch_prctl clock_gettime sched_yield umask rt_sigreturn "
    "restart_syscall alarm sched_getaffinity uname".split())
_STARTS = frozenset("clone clone3 fork vfork".split())
SIGNALS = ("SIGKILL", "SIGTERM")


@dataclasses.dataclass(frozen=True)
class Point:
    """One call to disturb: the number-th one of its name, by an error or a signal. early: before
    main(). alone: the program starts no other one."""

    call: str
    number: int
    early: bool
    what: str  # an errno's name, or a signal's
    alone: bool = False

    @property
    def signal(self):
        return self.what in SIGNALS

    @property
    def options(self):
        """Of strace, which writes of this call alone. Where there is one process, the kernel stops it at this call alone,
        too. With -f, which strace asks for then, the calls of other processes would count; and a signal would be lost:
        to a process that seccomp(2) has stopped, ptrace(2) passes on none."""
        by_kernel = ["-f", "--seccomp-bpf"] if self.alone and not self.signal else []
        return [f"--trace={self.call}", f"--inject={self.inject}", *by_kernel]

    @property
    def inject(self):
        """As strace takes it."""
        effect = ("signal=" if self.signal else "error=") + self.what
        if self.call == "brk" and not self.signal:
            effect = "retval=0"  # brk(2) of the kernel tells the break, and never an error
        return f"{self.call}:{effect}:when={self.number}"

    def __str__(self):
        return f"{self.call} #{self.number} {self.what}"


def calls_of(log):
    """(name, number, whether before main) of every call in strace's log of one process."""
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    main = next((i for i, line in enumerate(lines) if is_main(line)), 0)
    counts = collections.Counter()
    for index, line in enumerate(lines):
        name = re.match(r"(\w+)\(", line)
        # The kernel begins a write to a sysctl anew, hundreds of times, while others hold its lock.
        if name and "ERESTARTNOINTR" not in line:
            counts[name[1]] += 1
            yield name[1], counts[name[1]], index < main


def is_main(line):
    """Whether a call is the first one of a plugin's, or cnitool's, own."""
    return line.startswith(("rt_sigaction(SIGPIPE, {sa_handler=SIG_IGN", "rt_sigprocmask(SIG_BLOCK"))


def _alone(calls):
    return not any(call[0] in _STARTS for call in calls)


def errors(calls, most=9):
    """The points at which calls fail, once for each error, of which there are so many at most."""
    return [Point(*call, what, _alone(calls)) for call in calls if call[0] not in NEVER_FAIL
            for what in ERRORS_OF.get(call[0], ("EIO",))[:most]]


def signals(calls, of_terms=1):
    """The points at which a signal comes: SIGKILL, and at one of so many calls SIGTERM. To die of
    SIGTERM after a call is to die of SIGKILL before the next one."""
    return [Point(*call, what, _alone(calls)) for number, call in enumerate(calls) for what in SIGNALS
            if what == "SIGKILL" or number % of_terms == 0]
