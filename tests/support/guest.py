"""Tests of what this machine's kernel lacks run in a virtual machine with another: scripts/vm."""

import functools
import os
import subprocess
import sys

from support.plugin import ROOT
from support.suite import SKIPPED
from support.world import World, run, why_impossible


def has_qdisc(kind):
    """Whether the kernel knows a queueing discipline; asked in a world."""
    run("ip", "link", "add", "probe0", "type", "veth", "peer", "probe1")
    try:
        run("tc", "qdisc", "add", "dev", "probe0", "root", kind)
        return True
    except RuntimeError:
        return False
    finally:
        run("ip", "link", "del", "probe0")


@functools.cache
def load(*modules):
    """In the virtual machine: loads modules of its kernel that nothing loads by itself from within a world. Elsewhere
    that would change the machine, and nothing is done."""
    if os.environ.get("PATCHBAY_GUEST"):
        run("modprobe", "-d", os.environ["PATCHBAY_KERNEL"], "-a", *modules, check=False)


def enter_unless(able, lack):
    """Runs the calling program again in the virtual machine and ends as that ended, unless able(),
    asked in a world of its own, finds that this kernel will do. lack is a sentence."""
    if why_impossible() is not None or os.environ.get("PATCHBAY_GUEST"):
        return
    probe = os.fork()  # a process of its own: this one stays on the machine
    if probe == 0:
        World()
        os._exit(0 if able() else 1)
    if os.waitpid(probe, 0)[1] == 0:
        return
    print(f"{lack}: in a virtual machine", flush=True)
    os.environ["PATCHBAY_GUEST"] = "1"
    os.environ.setdefault("VM_TIMEOUT", "1400")  # for what hangs: emulated, beside others
    done = subprocess.run([os.path.join(ROOT, "scripts/vm"), sys.executable, *sys.argv],
                          check=False)
    if done.returncode == SKIPPED:
        print("0 passed, 0 failed, 1 skipped")
    sys.exit(done.returncode)
