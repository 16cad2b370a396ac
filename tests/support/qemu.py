"""A small virtual machine in a pod, as KubeVirt runs one: QEMU attaches to the pod's tap without any capability,
and the machine configures the address that the pod got. Its kernel is that of scripts/vm."""

import os
import shutil
import signal
import subprocess
import tempfile

from support import initrd
from support.plugin import ROOT
from support.suite import SKIPPED
from support.world import mount, run, wait_for

UID, GID = 107, 107  # qemu's, in KubeVirt and on most distributions

_INIT = """\
#!/bin/busybox sh
bb=/bin/busybox
$bb mount -t proc proc /proc; $bb mount -t sysfs sys /sys
for file in /modules/*.ko; do $bb insmod $file; done
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
$bb ip link set eth0 up
for address in ADDRESSES; do $bb ip address add $address dev eth0; done
echo "queues: $($bb ls /sys/class/net/eth0/queues | $bb grep -c rx)"
for address in REACHES; do
  until $bb ping -c 1 -W 1 $address >/dev/null 2>&1; do :; done; echo "reaches $address"
done
echo "guest is ready"
while :; do $bb sleep 1000; done
"""


def kernel():
    """(folder of the kernel package, None), or (None, why it cannot be had)."""
    asked = subprocess.run([os.path.join(ROOT, "scripts/vm"), "--kernel"], capture_output=True, text=True,
                           check=False)
    if asked.returncode == SKIPPED:
        return None, asked.stdout.strip()
    if asked.returncode != 0:
        raise RuntimeError(asked.stderr)
    return asked.stdout.strip(), None


def everybody_may_open_tun():
    """/dev/net/tun as most nodes have it: with mode 666. For this world alone."""
    node = "/run/tun"
    os.mknod(node, 0o600 | 0o020000, os.makedev(10, 200))
    os.chmod(node, 0o666)
    mount(node, "/dev/net/tun", flags=4096)  # MS_BIND


class Machine:
    """Boots in the pod when it is made. addresses: what the guest configures; reaches: whom it must reach by
    ping before it says that it is ready."""

    def __init__(self, pod, mac, addresses, reaches, queues=1):
        folder, _ = kernel()
        self.work = tempfile.mkdtemp(prefix="patchbay-machine.")
        initrd.make(self.work, folder, ("virtio_pci", "virtio_net"),
                    _INIT.replace("ADDRESSES", " ".join(addresses)).replace("REACHES", " ".join(reaches)))
        run("chown", "-R", f"{UID}:{GID}", self.work)
        self.process = self._start(pod, mac, queues)

    def _start(self, pod, mac, queues):
        many = (f",queues={queues}", f",mq=on,vectors={2 * queues + 2}") if queues > 1 else ("", "")
        command = [
            "setpriv", f"--reuid={UID}", f"--regid={GID}", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
            "qemu-system-x86_64", "-M", "pc", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(queues),
            "-m", "160", "-nodefaults", "-display", "none", "-no-reboot", "-serial", f"file:{self.work}/console",
            "-kernel", f"{self.work}/vmlinuz", "-initrd", f"{self.work}/initrd",
            "-append", "console=ttyS0 quiet panic=-1 loglevel=3 mitigations=off",
            "-netdev", f"tap,id=net0,ifname=eth0,script=no,downscript=no,vnet_hdr=on{many[0]}",
            "-device", f"virtio-net-pci,netdev=net0,mac={mac},romfile={many[1]}"]
        with pod.inside(), open(f"{self.work}/log", "w", encoding="utf-8") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.work)

    def said(self):
        """The console, and what QEMU wrote."""
        text = ""
        for name in ("console", "log"):
            if os.path.exists(f"{self.work}/{name}"):
                with open(f"{self.work}/{name}", encoding="utf-8", errors="replace") as file:
                    text += file.read()
        return text

    def is_ready(self, seconds=60):
        """Waits until the guest has its addresses and reaches whom it must; emulated, that takes seconds."""
        wait_for(lambda: "guest is ready" in self.said() or self.process.poll() is not None, seconds, 0.1)
        return "guest is ready" in self.said()
