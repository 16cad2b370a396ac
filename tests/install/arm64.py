#!/usr/bin/env python3
"""The build for arm64. In QEMU's emulation of processes: each plugin's VERSION, --help and --schema,
STATUS of static and host-local, cnitool. In a virtual machine with Debian's kernel for arm64: pods with bridge,
host-local, portmap and bandwidth; static and host-local alone. Names at the end what cannot be run there. A step of `scripts/test --full`.

    tests/install/arm64.py [--unit]     --unit: with the unit tests, of which those fail that need a network namespace
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from support import initrd  # noqa: E402

ARM64 = ROOT / "scripts/arm64"
PLACE = ROOT / "build/arm64"
BIN = PLACE / "build/bin"
NOT_RUN = ("ADD of any plugin in the emulation of processes, which knows no ioctl_nsfs(2)",
           "tests in Python and kernel_tests: they need programs of the machine, and its kernel for arm64",
           "egressMode edt, iptables, firewalld, dhcp: the virtual machine has busybox alone",
           "any processor that is not emulated")
MODULES = ("bridge", "veth", "ifb", "nf_tables", "nft_chain_nat", "nft_masq", "nft_ct", "nft_fib_inet", "nft_nat", "nft_reject_inet",
           "nft_redir", "sch_tbf", "sch_ingress", "sch_fq_codel", "cls_u32", "cls_matchall", "act_mirred", "act_gact")
NETWORK = {"cniVersion": "1.1.0", "name": "net1", "plugins": [
    {"type": "bridge", "isGateway": True, "ipMasq": True, "ipam": {"type": "host-local", "ranges": [
        [{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]], "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
    {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": True}},
    {"type": "bandwidth", "ingressRate": 8000000, "ingressBurst": 800000, "egressRate": 8000000, "egressBurst": 800000}]}
#: Each is called alone, too.
IPAM = {"static": {"type": "static", "addresses": [{"address": "10.2.0.9/24", "gateway": "10.2.0.1"}]},
        "host-local": {"type": "host-local", "subnet": "10.3.0.0/24"}}
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin CNI_PATH=/cni CAP_ARGS='{"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}'
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs run /run
for file in /modules/*.ko; do insmod $file; done
mkdir -p /run/netns /var/lib/cni
unshare -n sleep 1000 &
sleep 2
: >/run/netns/pod; mount -o bind /proc/$!/ns/net /run/netns/pod
uname -rm
ip link set lo up
check() { "$@" && echo "ok   $*" || echo "FAIL $*"; }
cnitool=/cni/cnitool
check $cnitool add net1 /run/netns/pod
check nsenter --net=/run/netns/pod ping -c 2 -W 5 10.1.0.1
check ping -c 2 -W 5 10.1.0.2
check $cnitool check net1 /run/netns/pod
check $cnitool del net1 /run/netns/pod
check test ! -e /sys/class/net/cni0/brif/*
export CNI_CONTAINERID=one CNI_IFNAME=eth0 CNI_NETNS=/run/netns/pod
for kind in static host-local; do
  for CNI_COMMAND in ADD DEL; do
    export CNI_COMMAND
    check /cni/$kind </conf/$kind
  done
done
echo "guest is done"
poweroff -f
"""
FAILED = []


def require(condition, what):
    print(f"{'ok  ' if condition else 'FAIL'} {what}", flush=True)
    if not condition:
        FAILED.append(what)


def need(*command, **options):
    """A step without which nothing goes on; ends where its packages cannot be downloaded."""
    done = subprocess.run([str(word) for word in command], cwd=ROOT, check=False, **options)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done


def emulate(program, *arguments, conf=None, **env):
    """Runs one of the programs, and returns what it printed; None where it failed."""
    done = subprocess.run([ARM64, "run", BIN / program, *arguments], env=os.environ | env, input=json.dumps(conf or {}), text=True,
                          stdout=subprocess.PIPE, check=False)
    return done.stdout if done.returncode == 0 else None


def try_plugins():
    for name in emulate("patchbay", "--list").split():
        answer = emulate(name, conf={"cniVersion": "1.1.0"}, CNI_COMMAND="VERSION") or "{}"
        require("1.1.0" in json.loads(answer).get("supportedVersions", ()), f"{name} answers VERSION")
        require(name in (emulate(name, "--help") or ""), f"{name} --help")
        require("$schema" in json.loads(emulate(name, "--schema") or "{}"), f"{name} --schema")
    require("cnitool patchbay" in (emulate("cnitool", "--version") or ""), "cnitool --version")


def try_ipam(folder):
    """What needs no network namespace: this emulation does not know ioctl_nsfs(2)."""
    for kind, ipam in IPAM.items():
        conf = {"cniVersion": "1.1.0", "name": "net1", "type": kind, "ipam": ipam | {"dataDir": folder}}
        require(emulate(kind, conf=conf, CNI_COMMAND="STATUS", CNI_PATH=str(BIN)) is not None, f"{kind} STATUS")


def boot(work):
    """What the virtual machine prints."""
    (work / "10-net1.conflist").write_text(json.dumps(NETWORK))
    files = {"bin/busybox": PLACE / "root/usr/bin/busybox", "cni/cnitool": BIN / "cnitool",
             "etc/cni/net.d/10-net1.conflist": work / "10-net1.conflist"}
    for kind, ipam in IPAM.items():
        (work / kind).write_text(json.dumps({"cniVersion": "1.1.0", "name": "net2", "type": kind, "ipam": ipam}))
        files |= {f"conf/{kind}": work / kind, f"cni/{kind}": BIN / "patchbay"}
    files |= {f"cni/{plugin['type']}": BIN / "patchbay" for plugin in NETWORK["plugins"]}
    kernel = need(ARM64, "kernel", stdout=subprocess.PIPE, text=True).stdout.strip()
    initrd.make(work, kernel, MODULES, INIT, files)
    machine = subprocess.run([
        PLACE / "tools/usr/bin/qemu-system-aarch64", "-M", "virt", "-accel", "tcg,thread=multi", "-cpu", "cortex-a72", "-smp", "1",
        "-m", "512", "-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio", "-kernel", work / "vmlinuz",
        "-initrd", work / "initrd", "-append", "console=ttyAMA0 quiet panic=-1 loglevel=3 norandmaps"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900, check=False)
    return machine.stdout.decode(errors="replace").replace("\r", "")


def try_pods(work):
    said = boot(work)
    print(said)
    require("guest is done" in said and "FAIL" not in said, "pods in a virtual machine: ADD, ping, CHECK, DEL; static and host-local alone")


def try_unit_tests():
    build = PLACE / "unit"
    need("cmake", "--preset", "arm64", "-B", build, "-DCMAKE_BUILD_TYPE=Debug", "-DCNI_TESTS=ON", "-DCNI_STRIP=OFF",
         "-DCMAKE_UNITY_BUILD_BATCH_SIZE=10", stdout=subprocess.DEVNULL)
    need("cmake", "--build", build, "--target", "unit_tests")
    jobs = str(len(os.sched_getaffinity(0)))
    done = subprocess.run(["ctest", "--test-dir", build, "-L", "unit", "-j", jobs, "--output-on-failure"], check=False)
    require(done.returncode == 0, "unit tests")


def main():
    need(ARM64, stdout=subprocess.DEVNULL)
    need("cmake", "--preset", "arm64", stdout=subprocess.DEVNULL)
    need("cmake", "--build", "--preset", "arm64")
    try_plugins()
    with tempfile.TemporaryDirectory(prefix="patchbay-arm64-") as folder:
        try_ipam(folder)
        try_pods(pathlib.Path(folder))
    if "--unit" in sys.argv:
        try_unit_tests()
    print("not run:", *NOT_RUN, sep="\n- ")
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
