#!/usr/bin/env python3
"""The packages of scripts/package on a fresh minimal Debian: a pod of containerd's and a container of podman's, as the
distribution packages them, get a network from these executables, are reached and removed; purge leaves nothing. The same with
the tarball and `patchbay install`, and after replacing containernetworking-plugins under running pods. patchbay-agent alone.

    tests/install/fresh_debian.py [--as-made] [bookworm|trixie] [STEP...]   needs root and debootstrap; makes the packages before

It runs in the system of `scripts/debian --plain`, whose network is a namespace of its own.
"""

import contextlib
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import cri, image, world  # noqa: E402
from support.world import RUN, fetch, remove_cgroups, wait_for  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "build/package/out"
PAGE = "patchbay answers\n"
CALLS = "/run/calls.jsonl"  # what our plugins note of each call: PATCHBAY_LOG
SOCKET = "/run/containerd/containerd.sock"
CGROUP = f"patchbay-fresh-{RUN}"
FOLDER = pathlib.Path("/usr/lib/cni")
#: Beside it the test needs: a client of containerd's interface for kubelets, what is in its image, a reader of manual pages.
NEEDED = "python3 python3-grpcio busybox-static ca-certificates mandoc"
#: What these namespaces cannot do for containers: lower oom_score_adj, cgroups by systemd, its journal, high limits.
CONTAINERS_CONF = """\
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
env = ["PATCHBAY_LOG=/run/calls.jsonl"]
"""


def say(text):
    print(f"ok   {text}", flush=True)


def require(condition, what):
    if not condition:
        sys.exit(f"FAIL {what}")


def run(*words, **options):
    return world.run(*map(str, words), **options)


def apt(*words):
    return run("apt-get", "-y", "--no-install-recommends", *words, timeout=900)


def made(pattern):
    """The file of scripts/package for this machine's architecture."""
    return str(next(PACKAGES.glob(pattern.format(run("dpkg", "--print-architecture").strip()))))


def package():
    return made("patchbay_*_{}.deb")


def version():
    return run("dpkg-deb", "-f", package(), "Version").strip()


def files():
    """All paths of the system, without what changes by itself or is of apt and dpkg."""
    others = ("/proc", "/sys", "/dev", "/run", "/tmp", "/src", "/var/lib/apt", "/var/lib/dpkg", "/var/cache", "/var/log")
    found = set()
    for parent, folders, names in os.walk("/"):
        folders[:] = [name for name in folders if os.path.join(parent, name) not in others]
        found |= {os.path.join(parent, name) for name in [*folders, *names] if name != "__pycache__"}
    return {path for path in found if "/__pycache__/" not in path and path != "/etc/ld.so.cache"}


def owner():
    """The package that the plugin bridge is of; empty if it is of none."""
    found = subprocess.run(["dpkg", "-S", FOLDER / "bridge"], capture_output=True, text=True)
    return found.stdout.split(":")[0]


def links():
    return sorted(os.listdir("/sys/class/net"))


def leases():
    return [str(path) for path in pathlib.Path("/var/lib/cni/networks").glob("*/[0-9a-f]*[.:]*")]


def calls(since=0):
    """(plugin, verb, outcome) of what our plugins were called for, without the first."""
    try:
        entries = [json.loads(line) for line in pathlib.Path(CALLS).read_text().splitlines()]
    except FileNotFoundError:
        return []
    require(all(entry["version"] == version() for entry in entries), f"the version of all calls is {version()}")
    return [(entry["plugin"], entry["verb"], entry["outcome"]) for entry in entries if entry["kind"] == "plugin"][since:]


def require_calls(since, verb, plugins, what):
    made = calls(since)
    for name in plugins:  # podman's own cleanup of a container, which is asynchronous, may be what calls them
        require((name, verb, "ok") in made, f"{what}: {verb} by {name} of patchbay {version()}: {made}")


class Containerd:
    """The distribution's, with its own config but for oom_score_adj."""

    plugins = ("bridge", "host-local", "portmap", "bandwidth")

    def __enter__(self):
        config = pathlib.Path("/etc/containerd/config.toml")
        shown = run("containerd", "config", "default") if not config.exists() else config.read_text()
        header = '[plugins."io.containerd.grpc.v1.cri"]\n'
        require(header in shown, f"{config} has {header.strip()}")
        shown = re.sub(r" *restrict_oom_score_adj = .*\n", "", shown)
        config.write_text(shown.replace(header, f"{header}    restrict_oom_score_adj = true\n"))
        used = run("containerd", "config", "dump")
        self.sandbox_image = re.search(r'sandbox_image = "(.*)"', used)[1]
        require(f'bin_dir = "{FOLDER}"' in used, f"containerd looks in {FOLDER}")
        self.log = open("/run/containerd.log", "wb")
        self.process = subprocess.Popen(["containerd"], stdout=self.log, stderr=self.log, env=os.environ | {"PATCHBAY_LOG": CALLS})
        require(wait_for(lambda: self.ctr("version").returncode == 0, 30, 0.2), "containerd answers")
        image.build("/run/image.tar", PAGE)
        require(self.ctr("image", "import", "/run/image.tar").returncode == 0, "the image is imported")
        self.ctr("image", "tag", image.NAME, self.sandbox_image)
        self.cri = cri.Cri(SOCKET)
        require(wait_for(self.cri.is_ready, 30, 0.2), "containerd has a network for pods")
        return self

    @staticmethod
    def ctr(*words):
        return subprocess.run(["ctr", "-n", "k8s.io", *words], capture_output=True, text=True)

    def start(self, name):
        """A pod whose first container, the sandbox's, serves the page; (ID, its address)."""
        before = set(leases())
        ports = [{"protocol": "tcp", "hostPort": 8080, "containerPort": 80}]
        sandbox = self.cri.run_pod(name, ports, cgroup_parent=f"/{CGROUP}")
        address, = set(leases()) - before
        return sandbox, os.path.basename(address)

    def remove(self, sandbox):
        self.cri.stop_pod(sandbox)
        self.cri.remove_pod(sandbox)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        self.log.close()


class Podman:
    """The distribution's, with its own network."""

    plugins = ("bridge", "host-local", "portmap", "firewall")

    def __enter__(self):
        pathlib.Path("/run/containers.conf").write_text(CONTAINERS_CONF)
        if not os.path.exists("/run/image.tar"):
            image.build("/run/image.tar", PAGE)
        self.podman("load", "-i", "/run/image.tar")
        return self

    @staticmethod
    def podman(*words, check=True):
        done = subprocess.run(["podman", *words], capture_output=True, text=True, timeout=120,
                              env=os.environ | {"CONTAINERS_CONF": "/run/containers.conf"})
        require(not check or done.returncode == 0, f"podman {words}: {done.stderr}")
        return done.stdout.strip()

    @classmethod
    def why_impossible(cls):
        """Why there is nothing for CNI plugins to do, or None."""
        pathlib.Path("/run/containers.conf").write_text(CONTAINERS_CONF)
        backend = cls.podman("info", "--format", "{{.Host.NetworkBackend}}")
        return None if backend == "cni" else f"podman {cls.podman('--version').split()[-1]} has the backend {backend}, without CNI"

    def start(self, name):
        self.podman("run", "-d", "--name", name, "-p", "8081:80", "--cgroup-parent", f"/{CGROUP}", image.NAME)
        settings = json.loads(self.podman("inspect", name))[0]["NetworkSettings"]
        return name, settings["Networks"]["podman"]["IPAddress"]

    def remove(self, name):
        self.podman("rm", "-f", "-t", "0", name)

    def __exit__(self, *_):
        self.podman("rm", "-f", "-a", "-t", "0", check=False)


def require_served(address, port, what):
    for place in (address, f"127.0.0.1:{port}"):
        require(fetch(place) == PAGE, f"{what} answers at {place}")


def lifecycle(engine, port, what, during=lambda: None):
    """Starts a pod, reaches it, removes it: by our executables, as their log says. Calls during() while it runs."""
    before, since = (links(), leases()), len(calls())
    pod, address = engine.start("one")
    require_calls(since, "ADD", engine.plugins, what)
    require_served(address, port, what)
    during()
    require_served(address, port, f"{what}, afterwards")
    since = len(calls())
    engine.remove(pod)
    require_calls(since, "DEL", engine.plugins, what)
    require(wait_for(lambda: fetch(address, seconds=0) is None, 5), f"{what} is gone")
    require(leases() == before[1], f"{what}: no lease is left: {leases()}")
    require([link for link in links() if "veth" in link] == [link for link in before[0] if "veth" in link],
            f"{what}: no link is left: {links()}")
    say(f"{what}: ADD and DEL by {', '.join(engine.plugins)} of patchbay {version()}; reached at {address} and 127.0.0.1:{port}")


def engines():
    """(context manager, port, name) of what there is for CNI plugins."""
    yield Containerd(), 8080, f"containerd {run('containerd', '--version').split()[2]}"
    if reason := Podman.why_impossible():
        print(f"skip podman: {reason}", flush=True)
    else:
        yield Podman(), 8081, f"podman {Podman.podman('--version').split()[-1]}"


def alone():
    """The package without a runtime: it needs nothing, and purge leaves nothing."""
    before = files()
    apt("install", package())
    added = run("apt-mark", "showmanual").split()
    require("patchbay" in added and not files() - before == set(), "the package is installed")
    names = run(FOLDER / "patchbay", "--list").split()
    for name in names:
        require(f"CNI {name} plugin patchbay {version()}" in run(FOLDER / name, "--version"), f"{name} says its version")
    run("/usr/bin/cnitool", "doctor", check=False)
    pages = [path for path in run("dpkg", "-L", "patchbay").splitlines() if path.endswith((".1.gz", ".8.gz"))]
    said = b"".join(subprocess.run(["mandoc", "-Tlint", "-Wwarning"], input=gzip.decompress(pathlib.Path(path).read_bytes()),
                                   capture_output=True).stdout for path in pages).decode()
    require(len(pages) == len(names) + 2 and not said, f"manual pages without warnings of mandoc: {said}")
    say(f"apt installs patchbay {version()} alone: {len(names)} plugins and cnitool say their version")
    apt("purge", "patchbay")
    left = files() ^ before
    require(not left, f"purge leaves nothing: {sorted(left)}")
    say("purge leaves nothing")


def agent():
    """patchbay-agent without patchbay and without a kubelet: purge leaves what the operator and the ledger have."""
    before = files()
    apt("install", made("patchbay-agent_*_{}.deb"))
    require(run("patchbay-agent", "--version").startswith(f"patchbay-agent {version()}"), "patchbay-agent says its version")
    page = gzip.decompress(pathlib.Path("/usr/share/man/man8/patchbay-agent.8.gz").read_bytes())
    said = subprocess.run(["mandoc", "-Tlint", "-Wwarning"], input=page, capture_output=True).stdout.decode()
    require(not said, f"its manual page has no warnings of mandoc: {said}")
    run("busybox", "ip", "link", "add", "nic0", "type", "veth")
    listed = {one.get("link"): one for one in json.loads(run("patchbay-agent", "list", "--json"))}
    require("nic0" in listed and listed["lo"]["keptBack"] == "loopback", f"it lists nic0 and lo: {listed}")
    os.makedirs("/etc/patchbay")
    pathlib.Path("/etc/patchbay/devices.json").write_text(
        '{"pools": [{"resource": "vendor.example/nic", "devices": [{"name": ["nic*"]}]}]}')
    listed = {one.get("link"): one for one in json.loads(run("patchbay-agent", "list", "--json"))}
    require(listed["nic0"].get("resource") == "vendor.example/nic", f"with a config it offers nic0: {listed['nic0']}")
    command = re.search("ExecStart=(.*)", pathlib.Path("/usr/lib/systemd/system/patchbay-agent.service").read_text())[1]
    with subprocess.Popen(command.split(), stderr=subprocess.PIPE, text=True) as process:
        try:  # that no kubelet answers may be said before it
            said = (json.loads(line)["what"] for line in process.stderr)
            require("start" in said, "the command of its unit starts it")
        finally:
            process.terminate()
        require(process.wait(20) == 0, "SIGTERM ends it")
    say(f"apt installs patchbay-agent {version()} alone: it lists and offers a link, and its unit's command runs")
    apt("purge", "patchbay-agent")
    run("busybox", "ip", "link", "del", "nic0")
    left = sorted(files() ^ before)
    kept = ("/etc/patchbay", "/var/lib/cni", "/var/lib/kubelet")
    require(not [path for path in left if not path.startswith(kept)], f"purge leaves its config and ledger alone: {left}")
    say(f"purge leaves {' '.join(left)}")
    for path in kept:
        shutil.rmtree(path, ignore_errors=True)


def by_package():
    apt("install", package(), "containerd", "podman")
    wanted = run("apt-get", "-s", "install", "--install-recommends", "containerd", "podman")
    require("Inst containernetworking-plugins" not in wanted, "with patchbay the runtimes want no other plugins")
    require(owner() == "patchbay", f"bridge is of the package {owner()}")
    os.makedirs("/etc/cni/net.d", exist_ok=True)
    shutil.copy("/usr/share/doc/patchbay/examples/10-kubernetes.conflist", "/etc/cni/net.d")
    for engine, port, name in engines():
        with engine:
            lifecycle(engine, port, f"{name}, from the package", during=upgrade)
    remove_package()


def installed():
    return run("dpkg-query", "-W", "-f", "${Version}", "patchbay")


def upgrade():
    """From the same package with a lower version."""
    folder, older = pathlib.Path("/run/older"), "/run/older.deb"
    run("dpkg-deb", "-R", package(), folder)
    control = folder / "DEBIAN/control"
    control.write_text(control.read_text().replace(f"Version: {version()}", "Version: 0.0.9"))
    run("dpkg-deb", "-Zgzip", "-b", folder, older)
    shutil.rmtree(folder)
    run("dpkg", "-i", older)
    require(installed() == "0.0.9", "the package of a lower version is installed")
    apt("install", package())
    require(installed() == version() and owner() == "patchbay", "the package replaces an older one")


def remove_package():
    mine = [path for path in run("dpkg", "-L", "patchbay").splitlines() if not os.path.isdir(path)]
    apt("purge", "patchbay")
    left = [path for path in mine if os.path.lexists(path)]
    require(not left and not FOLDER.exists(), f"purge leaves nothing: {left}")
    say(f"the package upgrades itself under running pods; purge removes all {len(mine)} files and {FOLDER}")


def by_tarball():
    """Over containernetworking-plugins where podman depends on them, else into no folder."""
    apt("install", "podman")
    there = owner()
    os.mkdir("/run/tarball")
    run("tar", "-xzf", made("patchbay-linux-{}-*.tgz"), "-C", "/run/tarball")
    print(run("/run/tarball/patchbay", "install", FOLDER).splitlines()[-1])
    run("/run/tarball/patchbay", "verify", FOLDER)
    for engine, port, name in engines():
        with engine:
            lifecycle(engine, port, f"{name}, from the tarball")
    run("/run/tarball/patchbay", "uninstall", FOLDER)
    if there:
        require(not run("dpkg", "-V", there) and not (FOLDER / "patchbay").exists(), f"uninstall restores {there}")
    else:
        require(not FOLDER.exists(), f"uninstall leaves {FOLDER}")
    say(f"uninstall restores {there}" if there else "uninstall leaves nothing")


def replacing():
    """Pods of the reference plugins go on, and are removed by ours."""
    apt("install", "containernetworking-plugins", "iptables")
    require(owner() == "containernetworking-plugins", f"bridge is of {owner()}")
    pods = []
    with contextlib.ExitStack() as stack:
        for engine, port, name in engines():
            stack.enter_context(engine)
            since, before = len(calls()), (links(), leases())
            pods.append((engine, port, name, engine.start("theirs"), before))
            require(not calls(since), "the pod is of the reference plugins")
            require_served(pods[-1][3][1], port, f"{name}, reference plugins")
        apt("install", package())
        require(owner() == "patchbay", f"bridge is of {owner()}")
        for engine, port, name, (pod, address), _ in pods:
            require_served(address, port, f"{name}, after replacing the plugins")
        for engine, port, name, (pod, address), (_, leased) in reversed(pods):
            since = len(calls())
            engine.remove(pod)
            require_calls(since, "DEL", engine.plugins, name)
            require(leases() == leased and fetch(address, seconds=0) is None, f"{name}: the pod is gone: {leases()}")
            say(f"{name}: a pod of containernetworking-plugins goes on under patchbay, which removes it")
        require(not [link for link in links() if "veth" in link], f"no link is left: {links()}")
        for engine, port, name, *_ in pods:
            lifecycle(engine, port, f"{name}, after containernetworking-plugins")
    remove_package()


def inside(names):
    os.environ["LC_ALL"] = "C.UTF-8"
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    if not os.path.exists("/etc/hosts"):  # debootstrap's minimal system has none, an installed one has
        pathlib.Path("/etc/hosts").write_text("127.0.0.1 localhost\n")
    try:
        for name in names or STEPS:
            STEPS[name]()
    finally:
        remove_cgroups(CGROUP)


STEPS = {step.__name__: step for step in (alone, agent, by_package, by_tarball, replacing)}


def main():
    if sys.argv[1:2] == ["--inside"]:
        return inside(sys.argv[2:])
    steps = [word for word in sys.argv[1:] if word in STEPS]
    suites = [word for word in sys.argv[1:] if word not in ["--as-made", *STEPS]] or ["bookworm", "trixie"]
    if "--as-made" not in sys.argv:
        subprocess.run([ROOT / "scripts/package"], check=True, stdout=subprocess.DEVNULL)
    command = (f"apt-get -qq update; apt-get -qq -y install --no-install-recommends {NEEDED} >/dev/null; "
               f"python3 tests/install/fresh_debian.py --inside {' '.join(steps)}")
    for suite in suites:
        done = subprocess.run([ROOT / "scripts/debian", "--plain", suite, command])
        if done.returncode != 0:
            sys.exit(done.returncode)


if __name__ == "__main__":
    main()
