"""containerd on a node of a test, with an image whose command is a web server, and what a kubelet asks of it.
PATCHBAY_CONTAINERD: a folder with another containerd, as scripts/containerd prints it."""

import itertools
import json
import os
import subprocess

from support import cri, image, nodes, suite
from support.hostport import Site
from support.plugin import OURS, PLUGINS
from support.snapshot import left_by_design
from support.world import RUN, Pod, World, remove_cgroups, run, wait_for

if other := os.environ.get("PATCHBAY_CONTAINERD"):
    os.environ["PATH"] = f"{other}:{os.environ['PATH']}"

#: The programs that it and its tests need.
NEEDED = ("containerd", "ctr", "runc", "busybox")
PAGE = "patchbay answers\n"
SOCKET = "/run/c8d/containerd.sock"
#: What containerd itself keeps in /run, and its cache of results.
OWN_FILES = ("file/run/c8d/", "file/run/containerd/", "file/run/runc/", "file/var/lib/cni/results/")
CONFIG = """\
version = 2
root = "/run/c8d/root"
state = "/run/c8d/state"
[grpc]
address = "/run/c8d/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
restrict_oom_score_adj = true
sandbox_image = "localhost/busybox:test"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
{cni}[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
"""


class Daemon:
    """A containerd that runs until the end of the test, in the namespaces of this moment, and our plugins in its
    directory. cni: more keys of its config of networks."""

    _numbers = itertools.count()

    def __init__(self, test, cni=""):
        os.mkdir("/run/c8d")
        # ctr knows only these directories.
        World.private("/opt/cni/bin")
        World.private("/etc/cni/net.d")
        for name in PLUGINS:
            os.symlink(os.path.join(OURS, name), f"/opt/cni/bin/{name}")
        with open("/run/c8d/config.toml", "w", encoding="ascii") as file:
            file.write(CONFIG.format(cni=cni))
        self.cgroup = f"patchbay-containerd-{RUN}-{next(self._numbers)}"
        test.addCleanup(remove_cgroups, self.cgroup)
        self._test = test
        test.addCleanup(self._stop)
        self.restart()
        image.build("/run/c8d/image.tar", PAGE)
        # Release 2 has the daemon unpack it, with overlayfs.
        local = ["--local"] if "--local" in self.ctr("image", "import", "--help").stdout else []
        for namespace in ("default", "k8s.io"):
            self.ctr("--namespace", namespace, "image", "import", *local, "--snapshotter", "native", "/run/c8d/image.tar")

    def restart(self):
        """Starts it; if it ran before, that must have ended."""
        with open("/run/c8d/log", "ab") as log:
            self.process = subprocess.Popen(["containerd", "--config", "/run/c8d/config.toml"], stdout=log, stderr=log)
        if not wait_for(lambda: self.ctr("version", check=False).returncode == 0, 20, 0.1):
            with open("/run/c8d/log", encoding="utf-8") as log:
                self._test.fail("containerd does not answer: " + log.read())

    def _stop(self):
        self.process.terminate()
        self.process.wait(20)

    @staticmethod
    def ctr(*arguments, check=True):
        """Runs ctr."""
        done = subprocess.run(["ctr", "--address", SOCKET, *arguments], capture_output=True, text=True, timeout=120)
        assert not check or done.returncode == 0, f"ctr {arguments}: {done.stderr}{done.stdout}"
        return done


def global_addresses(pod):
    """The addresses of a pod by family."""
    with pod.inside():
        return nodes.global_addresses("eth0")


def token_buckets():
    """Those that are the root qdisc of a link, as tc shows them: rate and burst in bytes."""
    return [qdisc for qdisc in json.loads(run("tc", "-j", "qdisc", "show"))
            if qdisc["kind"] == "tbf" and qdisc.get("root")]


def rates():
    """{kind of link that a token bucket is the root of: its rate in bits/s}."""
    links = {link["ifname"]: link.get("linkinfo", {}).get("info_kind")
             for link in json.loads(run("ip", "-j", "-d", "link", "show"))}
    return {links[qdisc["dev"]]: 8 * qdisc["options"]["rate"] for qdisc in token_buckets()}


class ContainerdTest(suite.NodeTest):
    """A node with containerd on it, which has the test's image."""

    #: More keys for its config of networks.
    CNI = ""

    def setUp(self):
        super().setUp()
        self.daemon = Daemon(self, self.CNI)
        self.ctr, self.cgroup = self.daemon.ctr, self.daemon.cgroup

    @staticmethod
    def use(network):
        with open("/etc/cni/net.d/10-patchbay.conflist", "w", encoding="ascii") as file:
            json.dump(network, file)

    def assert_left_by_design(self, before, bridge="cni-c8d", *others):
        self.assert_same(before, ignore=lambda place: left_by_design(place, bridge)
                         or place.startswith((*OWN_FILES, *others)))


class PodsTest(ContainerdTest):
    """What a kubelet asks of containerd."""

    def setUp(self):
        reason = cri.why_impossible()
        if reason:
            self.skipTest(reason)
        super().setUp()
        self.cri = cri.Cri(SOCKET)
        self.outside = Site().outside
        self.running = set()
        run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")  # the node's links have more routes

    def use(self, network):
        super().use(network)
        self.assertTrue(wait_for(self.cri.is_ready, 20, 0.1), "containerd takes the network")

    def run_pod(self, name, *port_mappings, **options):
        sandbox = self.cri.run_pod(name, port_mappings,
                                   cgroup_parent=f"/{self.cgroup}", **options)
        self.running.add(sandbox)
        self.addCleanup(lambda: sandbox in self.running and self.end(sandbox))
        return sandbox

    def run_seen(self, name, *port_mappings, **options):
        """The same, and its network namespace."""
        others = set(os.listdir("/run/netns"))
        sandbox = self.run_pod(name, *port_mappings, **options)
        found, = set(os.listdir("/run/netns")) - others
        pod = Pod.existing(found)
        self.assertTrue(wait_for(lambda: global_addresses(pod)))
        return sandbox, pod

    def run_container(self, sandbox, pod, name, *command, attempt=0):
        """The ID of a container in the sandbox of a pod, which has the name pod."""
        container = {"name": name, "image": image.NAME, "command": command, "attempt": attempt}
        return self.cri.run_container(sandbox, {"name": pod, "cgroup_parent": f"/{self.cgroup}"}, container)

    def end(self, sandbox):
        """Ends a pod as a kubelet does."""
        self.running.discard(sandbox)
        self.cri.end_pod(sandbox)
