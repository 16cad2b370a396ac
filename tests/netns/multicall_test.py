#!/usr/bin/env python3
"""One executable under many names, as k3s has it: its seven names and all of ours, by any kind of link, each alone in a
folder; what it says where nobody calls a plugin; and the same of executables of one plugin."""

import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.plugin import OURS, PLUGINS, cni  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import mount  # noqa: E402

#: The names of k3s's executable.
K3S = ("bandwidth", "bridge", "firewall", "flannel", "host-local", "loopback", "portmap")
STORE, ALONE = "/mnt/store/cni", "/mnt/alone"  # not where a snapshot reads every file
BY_ARGV0 = ("bash", "-c", f'exec -a "$0" {STORE}')
POOL = {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}
#: A pod of a k3s node; each plugin gets the result of the one before.
CHAIN = [
    ("loopback", {}, "lo"),
    ("bridge", {"isGateway": True, "ipam": POOL}, "eth0"),
    ("firewall", {"backend": "nftables"}, "eth0"),
    ("portmap", {"backend": "nftables", "runtimeConfig": {"portMappings": [
        {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}}, "eth0"),
    ("bandwidth", {"ingressRate": 8000000, "ingressBurst": 8000000}, "eth0")]
PROTOCOLS = "CNI protocol versions supported: 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0\n"


def place(kind, name):
    """A folder with nothing but the name, and what goes in front of a call."""
    folder = f"{ALONE}/{name}"
    os.makedirs(folder)
    if kind == "relative symlink":
        os.symlink("../../store/cni", f"{folder}/{name}")
    elif kind == "absolute symlink":
        os.symlink(STORE, f"{folder}/{name}")
    elif kind == "hard link":
        os.link(STORE, f"{folder}/{name}")
    elif kind == "copy":
        shutil.copy(STORE, folder + "/" + name)
    elif kind == "executable of its own":
        shutil.copy(os.path.join(OURS, name), folder)
    return folder


def call(program, *arguments, argv0=None, **variables):
    """Exit status, stdout and stderr of a call that no runtime makes."""
    done = subprocess.run([argv0 or program, *arguments], executable=program, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]} | variables, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def write_script(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


@suite.spread
class MultiCall(suite.NodeTest):
    def setUp(self):
        super().setUp()
        mount("tmpfs", "/mnt", "tmpfs")
        os.makedirs(os.path.dirname(STORE))
        shutil.copy(os.path.join(OURS, "patchbay"), STORE)
        with open("/mnt/subnet.env", "w", encoding="ascii") as file:
            file.write("FLANNEL_NETWORK=10.1.0.0/16\nFLANNEL_SUBNET=10.1.2.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n")

    def test_it_has_all_of_k3s_s_names(self):
        self.assertEqual(set(K3S) - set(PLUGINS), set())

    @suite.cases([(kind, kind) for kind in ("relative symlink", "absolute symlink", "hard link", "copy", "argv[0]",
                                             "executable of its own")])
    def alone_in_a_folder_each_name_does_its_whole_job_as(self, kind):
        folders = {name: place(kind, name) for name in PLUGINS}
        wrap = BY_ARGV0 if kind == "argv[0]" else ()
        for name, folder in folders.items():
            said = self.assert_ok(cni(name, "VERSION", "", directory=folder, wrap=wrap))
            self.assertIn("1.1.0", said["supportedVersions"], name)
        if kind == "argv[0]":  # files for those that look for one
            for name in ("bridge", "host-local"):
                os.symlink(STORE, f"{ALONE}/{name}/{name}")
        pod, before = self.pod(), snapshot()
        options = {"netns": pod.path, "container": pod.name, "path": ":".join(folders.values()), "wrap": wrap}
        confs, result = [], None
        for name, keys, ifname in CHAIN:
            conf = {"cniVersion": "1.0.0", "name": "net1", "type": name} | keys
            conf |= {"prevResult": result} if result and name != "bridge" else {}
            added = self.assert_ok(cni(name, "ADD", conf, directory=folders[name], ifname=ifname, **options))
            result = result if name == "loopback" else added
            confs.append((name, conf, ifname))
        self.assertEqual(result["ips"][0]["address"], "10.1.2.2/24")
        address, = (one for link in json.loads(pod.run("ip", "-j", "-4", "addr", "show", "dev", "eth0"))
                    for one in link["addr_info"])
        self.assertEqual((address["local"], address["prefixlen"]), ("10.1.2.2", 24))
        for name, conf, ifname in confs:
            given = conf if name == "loopback" else conf | {"prevResult": result}
            self.assert_ok(cni(name, "CHECK", given, directory=folders[name], ifname=ifname, **options))
        flannel = {"cniVersion": "1.0.0", "name": "net2", "type": "flannel", "subnetFile": "/mnt/subnet.env",
                   "delegate": {"bridge": "cni0"}}
        for verb in ("ADD", "CHECK", "DEL"):
            said = self.assert_ok(cni("flannel", verb, flannel, directory=folders["flannel"], ifname="eth1", **options))
            if verb == "ADD":
                self.assertEqual(said["ips"][0]["address"], "10.1.2.3/24")  # net1, on the same bridge, has .2
                flannel["prevResult"] = said
        for name, conf, ifname in reversed(confs):
            self.assert_ok(cni(name, "DEL", conf, directory=folders[name], ifname=ifname, **options))
        self.assert_same(before, ignore=left_by_design)

    def test_bridge_alone_cannot_give_addresses(self):
        """The IPAM plugin is that of CNI_PATH, as with the reference, not the one within."""
        for kind in ("copy", "hard link", "executable of its own"):
            shutil.rmtree(ALONE, ignore_errors=True)
            folder, pod, before = place(kind, "bridge"), self.pod(), snapshot()
            conf = {"cniVersion": "1.0.0", "name": "net1", "type": "bridge", "ipam": POOL}
            self.assert_error(cni("bridge", "ADD", conf, netns=pod.path, directory=folder), code=7,
                              msg=f'failed to find plugin "host-local" in path [{folder}]')
            self.assert_same(before)

    def test_the_order_of_CNI_PATH_decides_whose_IPAM_plugin_runs(self):
        for name in ("bridge", "host-local"):
            os.makedirs(f"{ALONE}/{name}")
            os.link(STORE, f"{ALONE}/{name}/{name}")
        os.makedirs("/mnt/theirs")
        write_script("/mnt/theirs/host-local", 'cat >/dev/null; echo $CNI_COMMAND >>/mnt/theirs/log\n'
                     'echo \'{"cniVersion":"1.0.0","ips":[{"address":"10.1.2.200/24"}]}\'\n')
        conf = {"cniVersion": "1.0.0", "name": "net1", "type": "bridge", "ipam": POOL}
        for order, address in (("/mnt/theirs", "10.1.2.200/24"), (f"{ALONE}/host-local", "10.1.2.2/24")):
            pod = self.pod()
            options = {"netns": pod.path, "container": pod.name, "directory": f"{ALONE}/bridge",
                       "path": ":".join([f"{ALONE}/bridge", order, "/mnt/theirs", f"{ALONE}/host-local"])}
            added = self.assert_ok(cni("bridge", "ADD", conf, **options))
            self.assertEqual(added["ips"][0]["address"], address)
            self.assert_ok(cni("bridge", "DEL", conf, **options))
        with open("/mnt/theirs/log", encoding="ascii") as file:
            self.assertEqual(file.read().split(), ["ADD", "DEL"])

    def test_without_a_plugin_s_name_it_says_its_version(self):
        for name in ("cni", "patchbay", "something"):
            status, out, said = call(STORE, argv0=name)
            self.assertEqual((status, out), (0, ""), name)
            self.assertRegex(said, r"^CNI plugins plugin v1\.9\.1\+patchbay\.\d+\.\d+\.\d+\n" + re.escape(PROTOCOLS) + "$")
            self.assertEqual(call(STORE, argv0=f"/opt/cni/bin/{name}", CNI_COMMAND=""), (0, "", said))
            for more in ({}, {"CNI_COMMAND": "ADD"}):
                status, out, said = call(STORE, "--version", argv0=name, **more)
                self.assertEqual((status, out), (0, ""), name)
                self.assertRegex(said, r"^CNI plugins plugin patchbay \d+\.\d+\.\d+( \(commit [0-9a-f]{12}\+?\))?\n"
                                 + re.escape(PROTOCOLS) + "$")

    def test_a_runtime_that_calls_another_name_gets_an_error_object(self):
        for name in ("cni", "patchbay", "something"):
            for verb in ("ADD", "DEL", "CHECK", "VERSION", "GC", "STATUS", "NONSENSE"):
                status, out, said = call(STORE, argv0=name, CNI_COMMAND=verb)
                error = json.loads(out)
                self.assertEqual((status, error["code"], error["cniVersion"]), (1, 4, "1.1.0"), name)
                self.assertIn(f"'{name}' is no plugin", error["msg"])
                self.assertIn("bridge", said)

    def test_by_name_without_a_verb_it_says_the_plugin_s_version(self):
        for name in PLUGINS:
            for more in ({}, {"CNI_COMMAND": ""}, {"CNI_PATH": "/opt/cni/bin"}):
                status, out, said = call(STORE, argv0=f"/x/{name}", **more)
                self.assertEqual((status, out), (0, ""), name)
                self.assertRegex(said, rf"^CNI {name} plugin v1\.9\.1\+patchbay\.\d+\.\d+\.\d+\n" + re.escape(PROTOCOLS) + "$")


if __name__ == "__main__":
    suite.main(needs=("bash",))
