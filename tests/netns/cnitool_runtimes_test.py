#!/usr/bin/env python3
"""cnitool runtimes: the configs of k3s, RKE2, containerd, CRI-O and podman are read as these read them, and all commands of
cnitool look where the first of them looks."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import k3s, suite  # noqa: E402
from support.cnitool import cnitool  # noqa: E402
from support.doctor import write  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.world import World  # noqa: E402

TOOLS = "/run/tools"
TOML = "/etc/containerd/config.toml"
CRI = "io.containerd.grpc.v1.cri"
LIST = {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "loopback"}]}
#: Configs of containerd, and where it looks.
FORMS = {
    "a string": (f'[plugins."{CRI}".cni]\n  bin_dir = "/run/one/" # was "/run/six"\n', ["/run/one"]),
    "a literal string": (f"[plugins.'{CRI}'.cni]\nbin_dir = '/run/one'\n", ["/run/one"]),
    "a string of several lines": (f'[plugins."{CRI}".cni]\nbin_dir = """\n/run/one"""\n', ["/run/one"]),
    "an escape": (f'[plugins."{CRI}".cni]\nbin_dir = "/run/\\u006fne"\n', ["/run/one"]),
    "a quoted key": (f'[plugins."{CRI}".cni]\n"bin_dir" = "/run/one"\n', ["/run/one"]),
    "a dotted key": (f'[plugins."{CRI}"]\ncni.bin_dir = "/run/one"\n', ["/run/one"]),
    "an inline table": (f'[plugins]\n"{CRI}" = {{cni = {{bin_dir = "/run/one"}}}}\n', ["/run/one"]),
    "a list of several lines": (f'[plugins."{CRI}".cni]\nbin_dirs = [ # not "/run/six" ]\n"/run/one", # "/run/six"\n\'/run/two\',\n]\n',
                                ["/run/one", "/run/two"]),
    "a key of another table": (f'[plugins."{CRI}".cni]\nbin_dir = "/run/one"\n[plugins.other]\nbin_dir = "/run/six"\n', ["/run/one"]),
    "a text that looks like a key": (f'[plugins."{CRI}".cni]\nbin_dir = "/run/one"\nconf_template = """\nbin_dir = "/run/six"\n"""\n',
                                     ["/run/one"]),
    "an import": ('imports = ["/etc/more/*.toml"]\n', ["/run/one"]),
    "no key": ("version = 2\n", ["/opt/cni/bin"]),
}


def tool(name, text=""):
    path = f"{TOOLS}/{name}"
    write(path, f"#!/bin/sh\n{text}\n")
    os.chmod(path, 0o755)


@suite.spread
class Runtimes(suite.NodeTest):
    def setUp(self):
        super().setUp()
        World.private("/etc")
        os.mkdir(TOOLS)

    def call(self, *words):
        return cnitool(*words, CNI_PATH=None, NETCONFPATH=None, PATH=TOOLS)

    def found(self, *words):
        done = self.call("runtimes", "--json", *words)
        self.assertEqual((done.status, done.stderr), (0, ""))
        return done.json["runtimes"]

    def plugin_dir(self, *words):
        done = self.call("runtimes", "--plugin-dir", *words)
        self.assertEqual((done.status, done.stderr), (0, ""))
        return done.stdout.strip()

    @suite.cases(list(FORMS.items()))
    def every_form_of_toml(self, row):
        text, folders = row
        write("/etc/more/cni.toml", FORMS["a string"][0])
        write(TOML, text)
        one, = self.found()
        self.assertEqual((one["runtime"], one["pluginDirs"], one["config"]), ("containerd", folders, TOML))

    def test_k3s_comes_first_and_each_can_be_asked_for(self):
        k3s.start("v1.9.1-k3s1")
        write("/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
              "[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dir = '/run/rke2'\nconf_dir = '/run/rke2.d'\n")
        write("/etc/crio/crio.conf", "[crio.network]\n# plugin_dirs = ['/run/six']\nnetwork_dir = '/run/crio.d'\n")
        write("/etc/crio/crio.conf.d/10.conf", "[crio]\nnetwork.plugin_dirs = [\n\t'/run/crio/',\n]\n")
        tool("containerd", "exit 1")  # nothing is executed
        tool("podman")
        write("/etc/containers/containers.conf", "[network]\ncni_plugin_dirs = ['/run/four']\n")
        write("/etc/containers/containers.conf.d/a.conf", "network = {cni_plugin_dirs = ['/run/five']}\n")
        self.assertEqual([(one["runtime"], one["pluginDirs"], one["networkDir"]) for one in self.found()], [
            ("k3s", [k3s.CNI], k3s.NETWORKS), ("RKE2", ["/run/rke2"], "/run/rke2.d"),
            ("containerd", ["/opt/cni/bin"], "/etc/cni/net.d"), ("CRI-O", ["/run/crio"], "/run/crio.d"),
            ("podman", ["/run/five"], "/etc/cni/net.d")])
        for name, folder in (("crio", "/run/crio"), ("RKE2", "/run/rke2"), ("podman", "/run/five")):
            self.assertEqual(self.plugin_dir(name), folder)
        self.assertRegex(self.call("runtimes").stdout, rf"k3s +installed +{k3s.CNI} +{k3s.NETWORKS} ")
        self.assertEqual(self.call("networks", "--json").json["networks"][0]["network"], "cbr0")

    def test_the_folder_for_plugins_is_the_first_that_has_some(self):
        write(TOML, f"[plugins.'{CRI}'.cni]\nbin_dirs = ['/run/one', '/run/two', '/run/three']\n")
        self.assertEqual(self.plugin_dir(), "/run/one")
        for folder in ("/run/three", "/run/two"):
            os.mkdir(folder)
        self.assertEqual(self.plugin_dir(), "/run/two")
        write("/run/three/bridge", "")
        self.assertEqual(self.plugin_dir(), "/run/three")

    def test_podman_without_CNI_and_the_containerd_of_Docker_are_no_runtimes(self):
        tool("podman")
        write("/etc/containers/containers.conf", "[network]\nnetwork_backend = 'netavark'\n")
        write(TOML, "disabled_plugins = ['cri']\n")
        done = self.call("runtimes", "--plugin-dir")
        self.assertEqual((done.status, done.stdout), (0, "/opt/cni/bin\n"))
        self.assertIn("no container runtime was found", done.stderr)

    def test_what_is_not_here_or_cannot_be_read_is_no_folder(self):
        done = self.call("runtimes", "k3s", "--plugin-dir")
        self.assertEqual((done.status, done.stdout), (1, ""))
        self.assertIn("runtime 'k3s' is not installed here", done.stderr)
        write(TOML, "[plugins\n")
        done = self.call("runtimes", "--plugin-dir")
        self.assertEqual((done.status, done.stdout), (1, ""))
        self.assertIn(f"{TOML}: line 1: ", done.stderr)

    def test_all_commands_look_where_patchbay_installs_for_Debians_containerd(self):
        write(TOML, f'version = 2\n[plugins]\n  [plugins."{CRI}"]\n    [plugins."{CRI}".cni]\n'
              '      bin_dir = "/run/lib/cni"\n      conf_dir = "/run/pods.d"\n')
        write("/run/pods.d/10-pods.conflist", json.dumps(LIST))
        subprocess.run([f"{OURS}/patchbay", "install", self.plugin_dir(), "--only", "loopback"], check=True, capture_output=True)
        for words in (("status", "pods"), ("validate",), ("networks",), ("doctor", "-q")):
            done = self.call(*words)
            self.assertEqual((done.status, done.stderr), (0, ""), str(done))
        self.assertIn("/run/lib/cni", self.call("doctor").stdout)
        self.assertIn("pods\t", self.call("complete", "--", "status", "").stdout)
        # Unless they are told otherwise.
        self.assertEqual(self.call("status", "pods", "--path", "/run/nothing").status, 1)
        self.assertEqual(self.call("status", "pods", "--conf-dir", "/run/nothing").status, 1)


if __name__ == "__main__":
    suite.main()
