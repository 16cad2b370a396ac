"""A world of its own for a test: network, mount and host-name namespaces that play a node.

Everything a CNI plugin may touch is private in it: links, firewall, sysctls, /run (with /run/netns
and the xtables lock), /var/lib and /etc/cni. So tests run in parallel, and the machine they run on
is left as it was.
"""

import contextlib
import ctypes
import fcntl
import glob
import os
import secrets
import signal
import socket
import struct
import subprocess
import time

from support.places import OURS, ROOT

_libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_MOVE = 8192
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_SHARED = 1 << 20
MNT_DETACH = 2

PR_SET_PDEATHSIG = 1

#: What a test goes on to read, wherever it is: the repository and, if they are not below it, the plugins under test.
SOURCES = tuple(dict.fromkeys(map(os.path.realpath, (ROOT, OURS))))
#: A part of names that are the machine's, as of control groups. The number of a process is 1 in each of own_processes().
RUN = secrets.token_hex(4)


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source, target, kind, flags, options):
    _check(_libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()),
           f"mount {kind or source} on {target}")


def mount(source, target, kind="", flags=0, options=""):
    """mount(2). An empty file system hides all but the sources: people have them below /tmp, /var/lib, /opt or /mnt."""
    kept = []
    if kind == "tmpfs" and not flags & MS_REMOUNT:
        top = os.path.join(os.path.realpath(target), "")
        below = [path for path in SOURCES if path.startswith(top) and os.path.isdir(path)]
        kept = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in below]
    try:
        _mount(source, target, kind, flags, options)
        for path, before in kept:
            if not os.path.isdir(path):  # else it is below another one
                os.makedirs(path)
                _mount(f"/proc/self/fd/{before}", path, "", MS_BIND | MS_REC, "")
    finally:
        for _, before in kept:
            os.close(before)


def umount(target):
    """umount2(2), detached."""
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def small_disk(path):
    """Mounts an empty file system of 64 KiB. The function returned fills it."""
    os.makedirs(path, exist_ok=True)
    mount("tmpfs", path, "tmpfs", options="mode=755,size=64k,nr_inodes=200")

    def fill():
        with open(f"{path}/filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))

    return fill


def unshare(flags):
    """unshare(2)."""
    _check(_libc.unshare(flags), "unshare")


def setns(path_or_fd, kind):
    """setns(2) with a path or an open descriptor."""
    if isinstance(path_or_fd, int):
        _check(_libc.setns(path_or_fd, kind), "setns")
        return
    fd = os.open(path_or_fd, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(fd, kind), f"setns {path_or_fd}")
    finally:
        os.close(fd)


def set_up(link, up=True):
    """Sets a link of this network namespace up or down: netdevice(7). A program would take longer than most tests do."""
    get, put, flag = 0x8913, 0x8914, 1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        flags = struct.unpack_from("h", fcntl.ioctl(asked, get, struct.pack("16s24x", link.encode())), 16)[0]
        flags = flags | flag if up else flags & ~flag
        fcntl.ioctl(asked, put, struct.pack("16sh22x", link.encode(), flags))


def run(*command, check=True, stdin=None, timeout=60):
    """Runs a command and returns its stdout; a failure names the command and what it said."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def wait_for(condition, seconds=5.0, step=0.02):
    """Waits until condition() is true and returns what it returned; the last answer when it never
    was."""
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer or time.monotonic() > end:
            return answer
        time.sleep(step)


def fetch(address, seconds=10):
    """The page that a web server at address (an IP address, or ADDRESS:PORT with IPv6 in brackets)
    serves. A server that has just started, or an IPv6
    address whose node is still looking for duplicates, gets some seconds."""
    host = f"[{address}]" if address.count(":") > 1 and "[" not in address else address

    import urllib.request  # here, because few tests need it and its import takes long in a virtual machine

    def attempt():
        try:
            with urllib.request.urlopen(f"http://{host}/", timeout=1) as answer:
                return answer.read().decode()
        except OSError:
            return None

    return wait_for(attempt, seconds)


def remove_cgroups(name):
    """Removes the control groups called name, now empty, of every hierarchy of the machine: the
    only thing of a container runtime that a world does not hold."""
    def attempt():
        for top in glob.glob("/sys/fs/cgroup/*/" + name) + glob.glob("/sys/fs/cgroup/" + name):
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
        return not glob.glob("/sys/fs/cgroup/*/" + name)

    wait_for(attempt, 2)


def _in_plain_chroot():
    """Whether / is no mount point."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return not any(line.split()[4] == "/" for line in file)


def _make_private():
    """Makes the mounts of a new mount namespace private, and / a mount point: mount(2), MS_PRIVATE. In a plain chroot
    this process leaves the chroot for that, since its mount is one of directories above it."""
    if not _in_plain_chroot():
        mount("none", "/", flags=MS_REC | MS_PRIVATE)
        return
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    setns("/proc/self/ns/mnt", CLONE_NEWNS)  # this very namespace, whose root becomes that of the process
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    path = os.readlink(f"/proc/self/fd/{root}")
    os.close(root)
    mount(path, path, flags=MS_BIND | MS_REC)
    os.chroot(path)


def own_processes():
    """Goes on in a child of this process that is the first of a PID namespace: it sees no process of other tests, whose
    pods have the same addresses, and all that it starts ends with it, as it ends with this process."""
    World.leave()
    unshare(CLONE_NEWPID | CLONE_NEWNS)
    child = os.fork()
    if child != 0:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(code if code >= 0 else 128 - code)  # as a shell has it
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL), "prctl")
    _make_private()
    mount("proc", "/proc", "proc")


class World:
    """The namespaces in which this process plays a node. A process has one at a time; a new one
    starts from the machine's own namespaces again, so that worlds do not pile up."""

    _home = None  # descriptors of the machine's own mount, network and host-name namespaces
    _ends = []  # what ends threads of the node, with the process that has them

    def __init__(self):
        self.leave()
        kinds = (("mnt", CLONE_NEWNS), ("net", CLONE_NEWNET), ("uts", CLONE_NEWUTS))
        World._home = [(os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind) for name, kind in kinds]
        World._directory = os.getcwd()
        World._chroot = os.open("/", os.O_PATH | os.O_CLOEXEC) if _in_plain_chroot() else None
        unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS)
        _make_private()
        for path in ("/run", "/var/lib"):
            mount("tmpfs", path, "tmpfs", options="mode=755")
        # /sys shows the links of the namespace it was mounted in; the cgroups below it stay.
        if os.path.isdir("/sys/fs/cgroup"):
            os.mkdir("/run/cgroup")
            mount("/sys/fs/cgroup", "/run/cgroup", flags=MS_BIND | MS_REC)
        mount("sysfs", "/sys", "sysfs")
        if os.path.isdir("/run/cgroup"):
            mount("/run/cgroup", "/sys/fs/cgroup", flags=MS_MOVE)
            os.rmdir("/run/cgroup")
        if os.path.isdir("/etc/cni"):
            mount("tmpfs", "/etc/cni", "tmpfs", options="mode=755")
        for path in ("/run/netns", "/run/lock", "/var/lib/cni"):
            os.mkdir(path)
        mount("/run/netns", "/run/netns", flags=MS_BIND | MS_REC)  # as ip-netns(8) has it
        mount("none", "/run/netns", flags=MS_SHARED | MS_REC)
        if os.path.isdir(World._directory):  # it may be hidden
            os.chdir(World._directory)  # setns to a mount namespace goes to its root
        # A new namespace has the machine's IPv4 settings (devconf_inherit_init_net in ip-sysctl.rst).
        with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as file:
            file.write("0")
        set_up("lo")

    @staticmethod
    def leave():
        """This process, if it plays a node, is the machine again."""
        if World._home is None:
            return
        while World._ends:
            process, end = World._ends.pop()
            if process == os.getpid():
                end()
        # A thread that was joined may still be there for a moment, and setns(2) refuses a mount namespace to two.
        wait_for(lambda: len(os.listdir("/proc/self/task")) == 1)
        for fd, kind in World._home:
            setns(fd, kind)
            os.close(fd)
        if World._chroot is not None:
            os.fchdir(World._chroot)
            os.chroot(".")
            os.close(World._chroot)
        if os.path.isdir(World._directory):
            os.chdir(World._directory)
        World._home = None

    @staticmethod
    def at_leave(end):
        """Calls end() before this process leaves the node, as a thread must end before: setns(2)."""
        World._ends.append((os.getpid(), end))

    @staticmethod
    def enter_machine():
        """The node is the machine's own network namespace from now on, to which the kernel returns hardware."""
        home = next(fd for fd, kind in World._home if kind == CLONE_NEWNET)
        setns(home, CLONE_NEWNET)
        mount("sysfs", "/sys", "sysfs")

    @property
    def netns(self):
        """The node's own network namespace."""
        return "/proc/self/ns/net"

    @staticmethod
    def private(path):
        """An empty directory of this world at path, for programs with fixed paths."""
        at = path
        while not os.path.isdir(at):
            at = os.path.dirname(at)
        mount("tmpfs", at, "tmpfs", options="mode=755")
        os.makedirs(path, exist_ok=True)


class Pod:
    """A network namespace at /run/netns/NAME, as a runtime makes one for a container."""

    def __init__(self, name):
        self.name = name
        self.path = f"/run/netns/{name}"
        os.close(os.open(self.path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            unshare(CLONE_NEWNET)
            mount("/proc/thread-self/ns/net", self.path, flags=MS_BIND)
        finally:
            setns(home, CLONE_NEWNET)
            os.close(home)

    @classmethod
    def existing(cls, name):
        """One that a runtime made."""
        pod = cls.__new__(cls)
        pod.name, pod.path = name, f"/run/netns/{name}"
        return pod

    def remove(self):
        """Removes the file and with it the namespace, unless a process is left in it. As ip-netns(8): the file
        need not be mounted on."""
        file = f"/run/netns/{self.name}"  # self.path may be another way to it
        with contextlib.suppress(OSError):
            umount(file)
        os.unlink(file)

    @contextlib.contextmanager
    def inside(self):
        """This process and its children are in the pod for the length of a with statement."""
        home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        setns(self.path, CLONE_NEWNET)
        try:
            yield
        finally:
            setns(home, CLONE_NEWNET)
            os.close(home)

    def run(self, *command, **options):
        """Runs a command in the pod and returns its stdout."""
        with self.inside():
            return run(*command, **options)


def vlan_filtering():
    """Whether the kernel's bridges know VLANs."""
    try:
        run("ip", "link", "add", "probe", "type", "bridge", "vlan_filtering", "1")
    except RuntimeError:
        return False
    run("ip", "link", "del", "probe")
    return True


def why_impossible():
    """Why no world can be made here, or None."""
    if os.geteuid() != 0:
        return "needs root to make namespaces"
    if not os.path.exists("/proc/self/mountinfo"):
        return "needs /proc: mount -t proc proc /proc"
    pid = os.fork()
    if pid == 0:
        try:
            World()
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1] != 0:
        return "this machine does not let us make network and mount namespaces"
    return None
