"""What a kernel's objects take, counted by a control group of memory.

The kernel charges links, routes, rules, namespaces, inodes ... to the group of the process that asked
for them, object by object (Documentation/admin-guide/cgroup-v2.rst, "memory.stat"; for the first
version memory.kmem.usage_in_bytes of cgroup-v1/memory.rst), and takes them off when they are freed,
by whomever.
"""

import contextlib
import os
import time

from support.world import RUN

#: Where the two versions of control groups are mounted, and the group of this process within.
_FIRST, _SECOND = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"


def _own(controller):
    with open("/proc/self/cgroup", encoding="ascii") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controller in controllers.split(","):
                return path
    return None


class KernelMemory:
    """A group that this process enters, with all that it starts from now on; for a with statement.
    Without control groups of memory `is_counted` is false."""

    def __enter__(self):
        first = _own("memory")
        top = _FIRST + first if first is not None else _SECOND + (_own("") or "/")
        self.home = top.rstrip("/")
        self.group = f"{self.home}/kernel_memory_{RUN}"
        self.is_first = first is not None
        self.is_counted = False
        with contextlib.suppress(OSError):
            os.mkdir(self.group)
            self._enter(self.group)
            self.is_counted = os.path.exists(self._path("kmem.usage_in_bytes" if self.is_first
                                                        else "stat"))
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._enter(self.home)
            os.rmdir(self.group)

    def used(self, quiet=5):
        """Bytes, once the kernel freed what it frees later and forgot what it only remembers: the
        least that was seen, when for quiet seconds it was not less."""
        least, end = self._look(), time.monotonic() + quiet
        while time.monotonic() < end:
            time.sleep(0.2)
            seen = self._look()
            if seen < least:
                least, end = seen, time.monotonic() + quiet
        return least

    def _look(self):
        with contextlib.suppress(OSError):  # nothing that could be given back
            name, text = ("force_empty", "0") if self.is_first else ("reclaim", "1G")
            with open(self._path(name), "w", encoding="ascii") as file:
                file.write(text)
        if self.is_first:
            return int(self._read("kmem.usage_in_bytes"))
        return next(int(line.split()[1]) for line in self._read("stat").splitlines()
                    if line.startswith("kernel "))

    def _path(self, name):
        return f"{self.group}/memory.{name}"

    def _read(self, name):
        with open(self._path(name), encoding="ascii") as file:
            return file.read()

    @staticmethod
    def _enter(group):
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
