#!/usr/bin/env python3
"""The OCI images of scripts/package: the same bytes twice, digests that are right, and an entry point that puts the plugins
into the node's directory, where nothing is but the image, and in podman without a capability; and patchbay-agent, which
offers a device to a kubelet by no more of the node than its example mounts."""

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
from support import agent, kubelet, suite  # noqa: E402
from support.plugin import OURS, PLUGINS, have  # noqa: E402
from support.world import MS_BIND, MS_RDONLY, MS_REMOUNT, RUN, mount, run, set_up, wait_for  # noqa: E402

WHEN = 1_700_000_000
#: As in podman's test: no systemd, and the machine's own limits.
CONTAINERS_CONF = """[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "none"
"""
#: Into a folder, without a capability.
ENTER = ["setpriv", "--no-new-privs", "--bounding-set=-all,+sys_chroot", "--inh-caps=-all", shutil.which("chroot")]
STORAGE_CONF = '[storage]\ndriver = "vfs"\nrunroot = "/run/image/runroot"\ngraphroot = "/run/image/root"\n'


#: The rights of the container of the example, and what gives podman's the same.
EXAMPLE = "conf-examples/kubernetes/patchbay-install.yaml"
RIGHTS = {
    "hostNetwork: true": ("--network", "host"),
    "readOnlyRootFilesystem: true": ("--read-only", "--read-only-tmpfs=false"),
    "allowPrivilegeEscalation: false": ("--security-opt", "no-new-privileges"),
    "capabilities: {drop: [ALL]}": ("--cap-drop", "all"),
    "limits: {memory: 128Mi}": ("--memory", "128m"),  # the plugins' folder is in memory here
}
#: The same of patchbay-agent.
OF_AGENT = {right: words for right, words in RIGHTS.items() if "memory" not in right} | {
    "limits: {memory: 64Mi}": ("--memory", "64m")}


#: Of k3s's own executable.
K3S_NAMES = ("bandwidth", "bridge", "firewall", "flannel", "host-local", "loopback", "portmap")


def k3s_unpacks(data, digest):
    """What k3s does when it starts after an upgrade: its executable in a folder of its own, to which each name in
    data/cni leads that is a link or is not there."""
    program = data / digest / "bin/cni"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho CNI plugins plugin k3s >&2\n", encoding="ascii")
    program.chmod(0o755)
    for name in ("cni", *K3S_NAMES):
        link = data / "cni" / name
        if link.is_symlink():
            link.unlink()
        if not link.exists():
            link.symlink_to(program)


def layer(program, notes):
    """Of an image that installs the plugins."""
    return common.packed({"patchbay": (0o755, program), "COPYRIGHT": (0o644, notes)}, WHEN)


def links_in(folder):
    """{name: target}"""
    return {path.name: os.readlink(path) for path in folder.iterdir() if path.is_symlink()}


class ImageTest(suite.NodeTest):
    """A node with an image of the executable under test."""

    def setUp(self):
        super().setUp()
        self.work = pathlib.Path("/run/image")
        self.work.mkdir()
        self.plugins = self.work / "plugins"  # of the node
        self.plugins.mkdir()
        self.tar = self.make("image.tar")

    def unpacked(self):
        """A folder with nothing but the image, and the command that it runs."""
        config, layer = self.image_of(self.blobs(), common.OWN)
        root = self.work / "root"
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            tar.extractall(root)
        return root, [*config["config"]["Entrypoint"], *config["config"].get("Cmd", [])]

    def load_into_podman(self, name):
        """(the image, the environment of podman)."""
        (self.work / "containers.conf").write_text(CONTAINERS_CONF)
        (self.work / "storage.conf").write_text(STORAGE_CONF)
        (self.work / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        env = os.environ | {"CONTAINERS_CONF": f"{self.work}/containers.conf", "CONTAINERS_STORAGE_CONF": f"{self.work}/storage.conf"}
        loaded = subprocess.run(["podman", "load", "-q", "--signature-policy", self.work / "policy.json", "-i", self.tar], env=env,
                                capture_output=True, text=True, check=False)
        self.assertIn(f"localhost/{name}:{common.version()}", loaded.stdout, loaded.stderr)
        return f"localhost/{name}:{common.version()}", env

    def make(self, name):
        """The other architecture's executable is not run."""
        program = pathlib.Path(OURS, "patchbay").read_bytes()
        image.write(self.work / name, image.INSTALLER, {common.OWN: layer(program, b"licences"), "other": layer(b"another", b"")}, WHEN)
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

    def version_of(self, name):
        if not (self.plugins / name).exists():
            return ""
        return subprocess.run([self.plugins / name, "--version"], capture_output=True, text=True, check=True).stdout

    def await_quiet(self):
        """It has the lock until it has looked at each name: whoever removes one before makes it fail."""
        with open(self.plugins / ".patchbay/lock", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)

    def assert_installs(self, process):
        """Every name arrives, and comes back when another program removes one."""
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        self.assertTrue(wait_for(lambda: all((self.plugins / name).exists() for name in PLUGINS), 30))
        self.await_quiet()
        for name in PLUGINS:
            self.assertIn(f"CNI {name} plugin patchbay {common.version()}", self.version_of(name))
        (self.plugins / "bridge").unlink()
        self.assertTrue(wait_for(lambda: self.version_of("bridge").startswith("CNI bridge plugin"), 30))


class Image(ImageTest):
    def test_is_the_same_each_time(self):
        self.assertEqual(self.tar.read_bytes(), self.make("again.tar").read_bytes())

    def test_has_blobs_of_two_architectures_whose_digests_are_right(self):
        blobs = self.blobs()
        self.assertEqual(json.loads(blobs["oci-layout"]), {"imageLayoutVersion": "1.0.0"})
        for architecture in (common.OWN, "other"):
            config, _ = self.image_of(blobs, architecture)
            self.assertEqual(config["config"]["Labels"]["org.opencontainers.image.version"], common.version())

    def test_installs_the_plugins_where_nothing_is_but_the_image(self):
        root, command = self.unpacked()
        for place in ("opt/cni/bin", "proc"):
            (root / place).mkdir(parents=True)
        mount(str(self.plugins), str(root / "opt/cni/bin"), flags=MS_BIND)
        mount("proc", str(root / "proc"), "proc")
        self.assert_installs(subprocess.Popen([*ENTER, str(root), *command], env={}))

    def test_the_example_names_this_version_the_directory_of_the_image_and_the_rights_that_are_tested(self):
        text = (ROOT / EXAMPLE).read_text(encoding="utf-8")
        for right in RIGHTS:
            self.assertIn(right, text)
        config, _ = self.image_of(self.blobs(), common.OWN)
        place, = config["config"]["Cmd"]
        self.assertIn(f"image: localhost/patchbay:{common.version()}\n", text)
        self.assertEqual(set(re.findall(r"(?:args: \[|mountPath: |hostPath: \{path: )([^\],}]+)", text)), {place})


    def test_the_patch_of_flannel_installs_this_version_once_with_the_same_rights(self):
        text = (ROOT / "conf-examples/kubernetes/patchbay-flannel.yaml").read_text(encoding="utf-8")
        for right in ("readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false", "capabilities: {drop: [ALL]}"):
            self.assertIn(right, text)
        config, _ = self.image_of(self.blobs(), common.OWN)
        entry, place = config["config"]["Entrypoint"], config["config"]["Cmd"][0]
        self.assertIn(f"image: localhost/patchbay:{common.version()}\n", text)
        self.assertIn(f"command: [{', '.join(word for word in entry if word != '--watch')}]\n", text)
        self.assertIn(f"args: [{place}]\n", text)


class Agent(ImageTest):
    """The image of patchbay-agent with the mounts of its example, a kubelet, and a link that slots stand on."""

    NAME = "patchbay-agent"
    EXAMPLE = "conf-examples/kubernetes/patchbay-agent.yaml"
    IDS = ["uplink:macvlan:1", "uplink:macvlan:2"]

    def setUp(self):
        if reason := agent.why_impossible() or kubelet.why_impossible():
            self.skipTest(reason)
        super().setUp()
        text = (ROOT / self.EXAMPLE).read_text(encoding="utf-8")
        self.text = re.sub(r"(?m)^ *#.*\n", "", text)  # what is off by default
        paths = dict(re.findall(r"- name: ([\w-]+)[^\n]*\n +hostPath: \{path: ([^,]+),", self.text))
        paths["config"] = "/run/image/config"
        found = re.findall(r"- \{name: ([\w-]+), mountPath: ([^,}]+)(, readOnly: true)?\}", self.text)
        self.mounts = [(paths.pop(name), to, bool(only)) for name, to, only in found]
        self.assertFalse(paths, "every volume is mounted")
        run("ip", "link", "add", "uplink", "type", "veth", "peer", "name", "uplink-out")
        set_up("uplink-out")
        set_up("uplink")
        self.kubelet = kubelet.Kubelet()
        self.addCleanup(self.kubelet.kill)
        for folder, _, _ in self.mounts:
            os.makedirs(folder, exist_ok=True)
        pathlib.Path("/run/image/config/devices.json").write_text(json.dumps({"pools": [agent.slots(2)]}))

    def make(self, name):
        program = pathlib.Path(agent.PROGRAM)
        of = {"usr/sbin/patchbay-agent": program, **common.shared_libraries(program)}
        files = common.packed({path: (0o755, file.read_bytes()) for path, file in of.items()}, WHEN)
        image.write(self.work / name, image.AGENT, {common.OWN: files}, WHEN)
        return self.work / name

    def assert_offers(self, log):
        """A kubelet lists its devices, and allocates one; the ledger has it."""
        healthy = dict.fromkeys(self.IDS, "Healthy")
        self.assertTrue(wait_for(lambda: self.kubelet.devices(agent.RESOURCE) == healthy, 60), log())
        self.assertEqual(self.kubelet.resource(agent.RESOURCE)["way"], "found")
        self.kubelet.own("shop", "web-0", {agent.RESOURCE: self.IDS[:1]})
        self.kubelet.allocate(agent.RESOURCE, self.IDS[:1])
        self.assertTrue(wait_for(lambda: (agent.ledger()[self.IDS[0]].get("pod") or {}).get("name") == "web-0", 20), log())

    def test_offers_devices_where_nothing_is_but_the_image_and_the_mounts_of_the_example(self):
        root, command = self.unpacked()
        for place in ("proc", "sys", *(to.lstrip("/") for _, to, _ in self.mounts)):
            (root / place).mkdir(parents=True, exist_ok=True)
        mount(str(root), str(root), flags=MS_BIND)
        mount("proc", f"{root}/proc", "proc")
        mount("sysfs", f"{root}/sys", "sysfs")
        for folder, to, only in [*self.mounts, ("", "", True)]:
            if folder:
                mount(folder, f"{root}{to}", flags=MS_BIND)
            if only:
                mount("none", f"{root}{to}", flags=MS_BIND | MS_REMOUNT | MS_RDONLY)
        probe = [word.strip() for word in re.search(r"livenessProbe: \{exec: \{command: \[(.*?)\]", self.text)[1].split(",")]
        self.assertEqual(subprocess.run([*ENTER, str(root), *probe], env={}, capture_output=True, check=False).returncode, 1)
        with open("/run/image/log", "w", encoding="utf-8") as log:
            process = subprocess.Popen([*ENTER, str(root), *command], env={}, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assert_offers(pathlib.Path("/run/image/log").read_text)
        done = subprocess.run([*ENTER, str(root), *probe], env={}, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, f"{agent.RESOURCE}: 2 devices, 2 healthy\n"), done.stderr)
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            self.assertEqual(set(re.findall(r"Cap(?:Prm|Eff):\s+(\w+)", file.read())), {"0" * 16}, "it drops the last one")

    def test_offers_devices_in_podman_with_the_rights_of_the_example(self):
        if missing := have("podman", "runc"):
            self.skipTest(f"needs the program {missing}")
        for right in (*OF_AGENT, "seccompProfile: {type: RuntimeDefault}"):
            self.assertIn(right, self.text)
        name, env = self.load_into_podman(self.NAME)
        self.assertIn(f"image: {name}\n", self.text)
        options = [word for words in OF_AGENT.values() for word in words]
        options += [word for folder, to, only in self.mounts for word in ("-v", f"{folder}:{to}{':ro' if only else ''}")]
        process = subprocess.Popen(["podman", "run", "--rm", "--name", "agent", *options, "--cgroup-parent",
                                    f"/patchbay-image-{RUN}", name], env=env, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        self.assert_offers(lambda: "podman")
        done = subprocess.run(["podman", "exec", "agent", "/usr/sbin/patchbay-agent", "status"], env=env, capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (0, f"{agent.RESOURCE}: 2 devices, 2 healthy\n"), done.stderr)


class Podman(ImageTest):
    """The image run with the rights of the example and the node's directory."""

    def setUp(self):
        if missing := have("podman", "runc"):
            self.skipTest(f"needs the program {missing}")
        super().setUp()
        self.image, self.env = self.load_into_podman("patchbay")

    def start(self, *options, command=()):
        """The container, whose process ends with it."""
        rights = [word for words in RIGHTS.values() for word in words]
        return subprocess.Popen(["podman", "run", "--rm", *rights, "--cgroup-parent", f"/patchbay-image-{RUN}",
                                 "-v", f"{self.plugins}:/opt/cni/bin", *options, self.image, *command],
                                env=self.env)

    def test_installs_the_plugins_in_podman(self):
        self.assert_installs(self.start())

    def test_installs_in_podman_into_the_data_folder_of_k3s_stays_through_its_upgrade_and_leaves_it_as_it_was(self):
        data = pathlib.Path("/var/lib/rancher/k3s/data")
        self.plugins = data / "cni"
        self.plugins.mkdir(parents=True)
        k3s_unpacks(data, "1" * 64)
        before = links_in(self.plugins)
        self.assertEqual(set(before), {"cni", *K3S_NAMES})
        container = self.start()
        self.assert_installs(container)
        self.await_quiet()
        k3s_unpacks(data, "2" * 64)
        self.assertEqual(links_in(self.plugins), {name: f"{data}/{'2' * 64}/bin/cni" for name in before.keys() - set(PLUGINS)})
        put = self.plugins / "host-local"
        put.unlink()
        put.symlink_to(f"{data}/{'2' * 64}/bin/cni")
        self.assertTrue(wait_for(lambda: not put.is_symlink() and put.exists(), 30))
        self.await_quiet()
        container.terminate()
        self.assertEqual(container.wait(30), 0)
        for name in PLUGINS:
            self.assertIn(f"CNI {name} plugin patchbay", self.version_of(name))
        done = self.start("--entrypoint", "/patchbay", command=("uninstall", "/opt/cni/bin"))
        self.assertEqual(done.wait(60), 0)
        self.assertEqual(sorted(path.name for path in self.plugins.iterdir()), sorted(before))
        self.assertEqual(links_in(self.plugins), dict.fromkeys(before, f"{data}/{'2' * 64}/bin/cni"))



if __name__ == "__main__":
    suite.main()
