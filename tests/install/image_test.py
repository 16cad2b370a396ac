#!/usr/bin/env python3
"""The OCI image of scripts/package: the same bytes twice, digests that are right, and an entry point that puts the plugins
into the node's directory, where nothing is but the image, and in podman without a capability."""

import fcntl
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
if shutil.which("dpkg") is None:
    print("skip everything: scripts/package needs the program dpkg")
    sys.exit(77)
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "scripts"))
from dist import common, image  # noqa: E402
from support import suite  # noqa: E402
from support.plugin import OURS, PLUGINS, have  # noqa: E402
from support.world import mount, wait_for  # noqa: E402

WHEN = 1_700_000_000
#: As in podman's test: no systemd, and the machine's own limits.
CONTAINERS_CONF = """[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "none"
"""
STORAGE_CONF = '[storage]\ndriver = "vfs"\nrunroot = "/run/image/runroot"\ngraphroot = "/run/image/root"\n'


class Image(suite.NodeTest):
    def setUp(self):
        super().setUp()
        self.work = pathlib.Path("/run/image")
        self.work.mkdir()
        self.plugins = self.work / "plugins"  # of the node
        self.plugins.mkdir()
        self.tar = self.make("image.tar")

    def make(self, name):
        """The other architecture's executable is not run."""
        program = pathlib.Path(OURS, "patchbay").read_bytes()
        image.write(self.work / name, {common.OWN: (program, b"licences"), "other": (b"another", b"")}, WHEN)
        return self.work / name

    def blobs(self):
        with tarfile.open(self.tar) as tar:
            return {member.name: tar.extractfile(member).read() for member in tar}

    def get(self, blobs, descriptor):
        """The blob of a descriptor, whose size and digest are right."""
        kind, digest = descriptor["digest"].split(":")
        content = blobs[f"blobs/{kind}/{digest}"]
        self.assertEqual((len(content), hashlib.sha256(content).hexdigest()), (descriptor["size"], digest))
        return content

    def image_of(self, blobs, architecture):
        """(config, tar file of its layer)"""
        whole, = json.loads(blobs["index.json"])["manifests"]
        manifests = json.loads(self.get(blobs, whole))["manifests"]
        one, = [each for each in manifests if each["platform"] == {"architecture": architecture, "os": "linux"}]
        manifest = json.loads(self.get(blobs, one))
        layer, = manifest["layers"]
        config, content = json.loads(self.get(blobs, manifest["config"])), gzip.decompress(self.get(blobs, layer))
        self.assertEqual(config["rootfs"]["diff_ids"], [f"sha256:{hashlib.sha256(content).hexdigest()}"])
        self.assertEqual(config["architecture"], architecture)
        return config, content

    def assert_installs(self, process):
        """Every name arrives, and comes back when another program removes one."""
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

        def version_of(name):
            if not (self.plugins / name).exists():
                return None
            return subprocess.run([self.plugins / name, "--version"], capture_output=True, text=True, check=True).stdout
        self.assertTrue(wait_for(lambda: all((self.plugins / name).exists() for name in PLUGINS), 30))
        # It has the lock until it has looked at each of them: whoever removes one before makes it fail.
        with open(self.plugins / ".patchbay/lock", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
        for name in PLUGINS:
            self.assertIn(f"CNI {name} plugin patchbay {common.version()}", version_of(name))
        (self.plugins / "bridge").unlink()
        self.assertTrue(wait_for(lambda: (version_of("bridge") or "").startswith("CNI bridge plugin"), 30))

    def test_is_the_same_each_time(self):
        self.assertEqual(self.tar.read_bytes(), self.make("again.tar").read_bytes())

    def test_has_blobs_of_two_architectures_whose_digests_are_right(self):
        blobs = self.blobs()
        self.assertEqual(json.loads(blobs["oci-layout"]), {"imageLayoutVersion": "1.0.0"})
        for architecture in (common.OWN, "other"):
            config, _ = self.image_of(blobs, architecture)
            self.assertEqual(config["config"]["Labels"]["org.opencontainers.image.version"], common.version())

    def test_installs_the_plugins_where_nothing_is_but_the_image(self):
        config, layer = self.image_of(self.blobs(), common.OWN)
        root = self.work / "root"
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            tar.extractall(root)
        for place in ("opt/cni/bin", "proc"):
            (root / place).mkdir(parents=True)
        mount(str(self.plugins), str(root / "opt/cni/bin"), flags=4096)  # MS_BIND
        mount("proc", str(root / "proc"), "proc")
        command = [*config["config"]["Entrypoint"], *config["config"]["Cmd"]]
        enter = ["setpriv", "--bounding-set=-all,+sys_chroot", "--inh-caps=-all", shutil.which("chroot"), str(root)]
        self.assert_installs(subprocess.Popen([*enter, *command], env={}))

    def test_installs_the_plugins_in_podman(self):
        if missing := have("podman", "runc"):
            self.skipTest(f"needs the program {missing}")
        (self.work / "containers.conf").write_text(CONTAINERS_CONF)
        (self.work / "storage.conf").write_text(STORAGE_CONF)
        (self.work / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        env = os.environ | {"CONTAINERS_CONF": f"{self.work}/containers.conf", "CONTAINERS_STORAGE_CONF": f"{self.work}/storage.conf"}
        loaded = subprocess.run(["podman", "load", "-q", "--signature-policy", self.work / "policy.json", "-i", self.tar], env=env,
                                capture_output=True, text=True, check=False)
        name = f"localhost/patchbay:{common.version()}"
        self.assertIn(name, loaded.stdout, loaded.stderr)
        self.assert_installs(subprocess.Popen([
            "podman", "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "all", "--cgroup-parent", f"/patchbay-image-{os.getpid()}",
            "-v", f"{self.plugins}:/opt/cni/bin", name], env=env))

    def test_the_example_names_this_version_and_the_directory_of_the_image(self):
        text = (ROOT / "conf-examples/node/patchbay-install.yaml").read_text(encoding="utf-8")
        config, _ = self.image_of(self.blobs(), common.OWN)
        place, = config["config"]["Cmd"]
        self.assertIn(f"image: localhost/patchbay:{common.version()}\n", text)
        self.assertEqual(set(re.findall(r"(?:args: \[|mountPath: |hostPath: \{path: )([^\],}]+)", text)), {place})


if __name__ == "__main__":
    suite.main()
