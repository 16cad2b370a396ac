#!/usr/bin/env python3
"""The build for arm64. In QEMU's emulation of processes: each plugin's VERSION, --help and --schema,
STATUS of static and host-local, cnitool, the config of patchbay-agent. In a virtual machine with Debian's kernel for arm64: pods with bridge,
host-local, portmap and bandwidth; static and host-local alone; all unit tests. Names at the end what cannot be run
there. A step of `scripts/test --full`.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from support import initrd  # noqa: E402

ARM64 = ROOT / "scripts/arm64"
PLACE = ROOT / "build/arm64"
BIN = PLACE / "build/bin"
UNIT = PLACE / "unit"
NOT_RUN = ("ADD of any plugin in the emulation of processes, which knows no ioctl_nsfs(2)",
           "tests in Python and kernel_tests: they need programs of the machine, and its kernel for arm64",
           "egressMode edt, iptables, firewalld, dhcp: the virtual machine has busybox alone",
           "any processor that is not emulated")
MODULES = ("bridge", "veth", "ifb", "nf_tables", "nft_chain_nat", "nft_masq", "nft_ct", "nft_fib_inet", "nft_nat",
           "nft_reject_inet", "nft_redir", "sch_tbf", "sch_ingress", "sch_fq_codel", "cls_u32", "cls_matchall",
           "act_mirred", "act_gact")
NETWORK = {"cniVersion": "1.1.0", "name": "net1", "plugins": [
    {"type": "bridge", "isGateway": True, "ipMasq": True, "ipam": {"type": "host-local", "ranges": [
        [{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00:1::/64"}]], "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
    {"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": True}},
    {"type": "bandwidth",
     "ingressRate": 8000000, "ingressBurst": 800000, "egressRate": 8000000, "egressBurst": 800000}]}
#: What unit tests are linked with.
LIBRARIES = ("ld-linux-aarch64.so.1", "libc.so.6", "libgcc_s.so.1", "libm.so.6", "libmnl.so.0", "libnl-3.so.200",
             "libnl-route-3.so.200", "libstdc++.so.6")
#: Each is called alone, too.
IPAM = {"static": {"type": "static", "addresses": [{"address": "10.2.0.9/24", "gateway": "10.2.0.1"}]},
        "host-local": {"type": "host-local", "subnet": "10.3.0.0/24"}}
#: Unit tests run in the folder of their build, as CTest runs them.
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin CNI_PATH=/cni CAP_ARGS='{"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}'
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs run /run
for file in /modules/*.ko; do insmod $file; done
mkdir -p /run/netns /var/lib/cni /tmp /usr
ln -s /bin /usr/bin; ln -s /proc/self/fd/2 /dev/stderr
echo 0123456789abcdef0123456789abcdef >/etc/machine-id
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
cd @UNIT@
for program in bin/unit_*; do
  echo "begin ${program#bin/}"
  env -i PATH=/usr/bin:/bin $program --no-colors=true </dev/null 2>&1
  printf '\\nend %d\\n' $?
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
    done = subprocess.run([ARM64, "run", BIN / program, *arguments], env=os.environ | env, input=json.dumps(conf or {}),
                          text=True, stdout=subprocess.PIPE, check=False)
    return done.stdout if done.returncode == 0 else None


def try_plugins():
    for name in emulate("patchbay", "--list").split():
        answer = emulate(name, conf={"cniVersion": "1.1.0"}, CNI_COMMAND="VERSION") or "{}"
        require("1.1.0" in json.loads(answer).get("supportedVersions", ()), f"{name} answers VERSION")
        require(name in (emulate(name, "--help") or ""), f"{name} --help")
        require("$schema" in json.loads(emulate(name, "--schema") or "{}"), f"{name} --schema")
    require("cnitool patchbay" in (emulate("cnitool", "--version") or ""), "cnitool --version")
    require("patchbay-agent 0." in (emulate("patchbay-agent", "--version") or ""), "patchbay-agent --version")
    for key, is_valid in (("pools", True), ("pols", False)):
        said = emulate("patchbay-agent", "--validate", conf={key: [{"resource": "vendor.example/nic", "devices": [{"name": ["e*"]}]}]})
        require((said is not None) == is_valid, f"patchbay-agent --validate {'accepts' if is_valid else 'refuses'} {key}")


def try_ipam(folder):
    """What needs no network namespace: this emulation does not know ioctl_nsfs(2)."""
    for kind, ipam in IPAM.items():
        conf = {"cniVersion": "1.1.0", "name": "net1", "type": kind, "ipam": ipam | {"dataDir": folder}}
        require(emulate(kind, conf=conf, CNI_COMMAND="STATUS", CNI_PATH=str(BIN)) is not None, f"{kind} STATUS")


def unit_tests():
    """The names of their programs, one for each folder with tests."""
    return sorted(f"unit_{folder.name}" for folder in (ROOT / "tests/unit").iterdir() if any(folder.rglob("*_test.cc")))


def build_unit_tests():
    """Optimized, as the release is. Warnings are no errors: the release has been compiled without any, and
    GCC has false ones for other groups of sources."""
    need("cmake", "--preset", "arm64", "-B", UNIT, "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
         "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2", "-DCMAKE_EXE_LINKER_FLAGS=-s", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=10",
         "-DCNI_TESTS=ON", "-DCNI_WERROR=OFF", stdout=subprocess.DEVNULL)
    need("cmake", "--build", UNIT, "--target", "unit_tests")


def files_of_unit_tests():
    """The programs, their libraries, and what they read of the sources."""
    files = {f"{UNIT}/bin/{name}": UNIT / "bin" / name for name in unit_tests()}
    files |= {f"lib/{name}": PLACE / "root/usr/lib/aarch64-linux-gnu" / name for name in LIBRARIES}
    read = [ROOT / "tests/unit/cnitool/json_text_test.cc", *ROOT.glob("conf-examples/*.conflist")]
    return files | {str(path): path for path in read}


def boot(work):
    """What the virtual machine prints."""
    (work / "10-net1.conflist").write_text(json.dumps(NETWORK))
    files = {"bin/busybox": PLACE / "root/usr/bin/busybox", "cni/cnitool": BIN / "cnitool",
             "etc/cni/net.d/10-net1.conflist": work / "10-net1.conflist", **files_of_unit_tests()}
    for kind, ipam in IPAM.items():
        (work / kind).write_text(json.dumps({"cniVersion": "1.1.0", "name": "net2", "type": kind, "ipam": ipam}))
        files |= {f"conf/{kind}": work / kind, f"cni/{kind}": BIN / kind}
    files |= {f"cni/{plugin['type']}": BIN / plugin["type"] for plugin in NETWORK["plugins"]}
    kernel = need(ARM64, "kernel", stdout=subprocess.PIPE, text=True).stdout.strip()
    initrd.make(work, kernel, MODULES, INIT.replace("@UNIT@", str(UNIT)), files)
    machine = subprocess.run([
        PLACE / "tools/usr/bin/qemu-system-aarch64", "-M", "virt", "-accel", "tcg,thread=multi", "-cpu", "cortex-a72",
        "-smp", "2", "-m", "1024", "-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio",
        "-kernel", work / "vmlinuz", "-initrd", work / "initrd", "-append", "console=ttyAMA0 quiet panic=-1 loglevel=3 norandmaps"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1800, check=False)
    return machine.stdout.decode(errors="replace").replace("\r", "")


def try_pods(said):
    require("ok   " in said and "FAIL" not in said,
            "pods in a virtual machine: ADD, ping, CHECK, DEL; static and host-local alone")


def try_unit_tests(said):
    """Every case of every program passes, and none says that it is skipped."""
    outputs = dict(re.findall(r"^begin (\w+)\n(.*?^end \d+)$", said, re.MULTILINE | re.DOTALL))
    for name in unit_tests():
        output = outputs.get(name, "")
        passed = re.search(r"test cases: +(\d+) \| +\1 passed \| +0 failed \| +0 skipped", output)
        whole = passed and output.endswith("end 0") and "skipped: " not in output
        require(whole, f"{name}: {f'{passed[1]} cases' if whole else 'not all cases'} passed")
    require("0.1.0" in (emulate(UNIT / "bin/unit_example", CNI_COMMAND="VERSION") or ""), "unit_example: VERSION")


def main():
    need(ARM64, stdout=subprocess.DEVNULL)
    need("cmake", "--preset", "arm64", stdout=subprocess.DEVNULL)
    need("cmake", "--build", "--preset", "arm64")
    build_unit_tests()
    try_plugins()
    with tempfile.TemporaryDirectory(prefix="patchbay-arm64-") as folder:
        try_ipam(folder)
        said = boot(pathlib.Path(folder))
    print(said)
    try_pods(said.partition("begin unit_")[0])
    try_unit_tests(said)
    require("guest is done" in said, "the virtual machine came to its end")
    print("not run:", *NOT_RUN, sep="\n- ")
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
