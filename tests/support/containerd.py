"""containerd on a node of a test, with an image whose command is a web server."""

import itertools
import os
import subprocess

from support import image
from support.plugin import OURS, PLUGINS
from support.world import World, remove_cgroups, wait_for

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
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
"""


class Daemon:
    """A containerd that runs until the end of the test, in the namespaces of this moment, and our plugins in its
    directory."""

    _numbers = itertools.count()

    def __init__(self, test):
        os.mkdir("/run/c8d")
        # ctr knows only these directories.
        World.private("/opt/cni/bin")
        World.private("/etc/cni/net.d")
        for name in PLUGINS:
            os.symlink(os.path.join(OURS, name), f"/opt/cni/bin/{name}")
        with open("/run/c8d/config.toml", "w", encoding="ascii") as file:
            file.write(CONFIG)
        with open("/run/c8d/log", "wb") as log:
            self._process = subprocess.Popen(["containerd", "--config", "/run/c8d/config.toml"], stdout=log, stderr=log)
        self.cgroup = f"patchbay-containerd-{os.getpid()}-{next(self._numbers)}"
        test.addCleanup(remove_cgroups, self.cgroup)
        test.addCleanup(self._stop)
        if not wait_for(lambda: self.ctr("version", check=False).returncode == 0, 20, 0.1):
            with open("/run/c8d/log", encoding="utf-8") as log:
                test.fail("containerd does not answer: " + log.read())
        image.build("/run/c8d/image.tar", PAGE)
        for namespace in ("default", "k8s.io"):
            self.ctr("--namespace", namespace, "image", "import", "--snapshotter", "native", "/run/c8d/image.tar")

    def _stop(self):
        self._process.terminate()
        self._process.wait(20)

    @staticmethod
    def ctr(*arguments, check=True):
        """Runs ctr."""
        done = subprocess.run(["ctr", "--address", SOCKET, *arguments], capture_output=True, text=True, timeout=120)
        assert not check or done.returncode == 0, f"ctr {arguments}: {done.stderr}{done.stdout}"
        return done
