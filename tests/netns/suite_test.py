#!/usr/bin/env python3
"""All plugins are one executable: what it is called by decides, and an IPAM plugin that is the same
file needs no process. As copies, each for itself, they do the same."""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite, world  # noqa: E402
from support.plugin import OURS, PLUGINS, cni  # noqa: E402
from support.snapshot import snapshot  # noqa: E402
from support.world import mount, run  # noqa: E402

COPIES = "/run/copies"
IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/29"}]]}
BRIDGE = {"cniVersion": "1.1.0", "name": "net1", "type": "bridge", "isGateway": True,
          "ipMasq": True, "ipMasqBackend": "nftables", "ipam": IPAM}
AGE = re.compile(r"for \d+ (s|min|h|days)|\d+ (s|min|h|days) old")
MACS = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")


def make_another(path):
    """A copy of the executable that counts as one of another build, by its size."""
    shutil.copy(os.path.join(OURS, "bridge"), path)  # follows the link
    with open(path, "ab") as file:
        file.write(b"\0")


def copy_plugins():
    """A directory with bridge, and host-local of another build, which is another process."""
    os.makedirs(COPIES)
    shutil.copy(os.path.join(OURS, "bridge"), COPIES)
    make_another(os.path.join(COPIES, "host-local"))
    return COPIES


def started(log):
    """The programs that a call of strace's log started, without the first."""
    with open(log, encoding="utf-8") as file:
        return re.findall(r'execve\("([^"]+)"', file.read())[1:]


class Suite(suite.NodeTest):
    def test_an_empty_file_system_hides_all_but_the_sources(self):
        for name in ("checkout/tests", "other"):
            os.makedirs(f"/run/work/{name}")
        with unittest.mock.patch.object(world, "SOURCES", ("/run/work/checkout", "/run/work/checkout/tests")):
            mount("tmpfs", "/run/work", "tmpfs")
        self.assertEqual(os.listdir("/run/work"), ["checkout"])
        self.assertEqual(os.listdir("/run/work/checkout"), ["tests"])

    def test_every_plugin_has_its_name(self):
        for plugin in PLUGINS:
            said = subprocess.run([os.path.join(OURS, plugin), "--version"], capture_output=True,
                                  text=True, check=True).stdout
            self.assertTrue(said.startswith(f"CNI {plugin} plugin"), said)
            by_argument = subprocess.run([os.path.join(OURS, "patchbay"), plugin, "--version"],
                                         capture_output=True, text=True, check=True).stdout
            self.assertEqual(by_argument, said)

    def test_a_call_without_a_verb_prints_the_version_that_orchestrators_compare(self):
        """Nomad takes the first word of the output that is a version, nerdctl what follows the name on stderr."""
        version = r"v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?"
        for plugin in PLUGINS:
            said = subprocess.run([os.path.join(OURS, plugin)], capture_output=True, text=True, check=True, env={})
            self.assertEqual(said.stdout, "")
            words = [word for word in said.stderr.split() if re.fullmatch(version, word)]
            self.assertEqual(said.stderr.splitlines()[0], f"CNI {plugin} plugin {words[0]}")
            self.assertGreaterEqual([int(part) for part in words[0].split("+")[0][1:].split(".")], [1, 9, 1])

    def test_a_name_that_ends_in_a_plugin_s_name_is_that_plugin(self):
        """Copies and links, as of OpenShift Virtualization and BuildKit; the last one is of another build."""
        os.makedirs(COPIES)
        shutil.copy(os.path.join(OURS, "bridge"), os.path.join(COPIES, "cnv-bridge"))
        for link in ("buildkit-cni-bridge", "x-host-local"):
            os.symlink("cnv-bridge", os.path.join(COPIES, link))
        make_another(os.path.join(COPIES, "y-host-local"))
        wrap = ["strace", "-f", "-o", "/run/strace.log", "-e", "trace=execve"]
        for plugin, ipam in (("cnv-bridge", "x-host-local"), ("buildkit-cni-bridge", "y-host-local")):
            pod = self.pod()
            conf = BRIDGE | {"type": plugin, "ipam": IPAM | {"type": ipam}}
            call = {"netns": pod.path, "container": pod.name, "directory": COPIES}
            added = self.assert_ok(cni(plugin, "ADD", conf, wrap=wrap, **call))
            processes = [os.path.join(COPIES, ipam)] if ipam == "y-host-local" else []
            self.assertEqual(started("/run/strace.log"), processes)
            address = added["ips"][0]["address"].split("/")[0]
            self.assertEqual(os.listdir("/var/lib/cni/networks/net1").count(address), 1)
            said = cni(plugin, "CHECK", conf | {"prevResult": added}, env={"PATCHBAY_LOG": "stderr"}, **call)
            self.assert_ok(said)
            self.assertEqual(json.loads(said.stderr.splitlines()[-1])["plugin"], "bridge")
            self.assert_ok(cni(plugin, "DEL", conf, **call))
            self.assertNotIn(address, os.listdir("/var/lib/cni/networks/net1"))

    def test_a_renamed_plugin_that_is_no_ipam_plugin_is_refused_as_one(self):
        os.makedirs(COPIES)
        for link in ("bridge", "cnv-bridge"):
            os.symlink(os.path.realpath(os.path.join(OURS, "bridge")), os.path.join(COPIES, link))
        conf = BRIDGE | {"ipam": {"type": "cnv-bridge"}}
        pod, before = self.pod(), snapshot()
        self.assert_error(cni("bridge", "ADD", conf, netns=pod.path, directory=COPIES, documented=False),
                          code=7, msg="ipam.type: 'bridge' is not an IPAM plugin")
        self.assert_same(before)

    def test_the_list_names_each_plugin_that_has_a_link(self):
        links = {name for name in os.listdir(OURS)
                 if os.path.realpath(os.path.join(OURS, name)) == os.path.join(OURS, "patchbay")}
        self.assertEqual({*PLUGINS, "patchbay"}, links)
        self.assertIn("bridge", PLUGINS)

    def test_a_person_finds_the_plugins(self):
        def said(*words):
            return subprocess.run([os.path.join(OURS, "patchbay"), *words], capture_output=True,
                                  text=True, check=True).stdout
        for option in "--help", "-h":
            self.assertIn("patchbay PLUGIN --help", said(option))
            for plugin in PLUGINS:
                self.assertIn(plugin, said(option))

    def test_an_unknown_name_is_answered_with_the_names_that_there_are(self):
        wrong = subprocess.run([os.path.join(OURS, "patchbay"), "brigde"], capture_output=True,
                               text=True, check=False)
        self.assertEqual((wrong.returncode, wrong.stdout), (2, ""))
        self.assertIn("'brigde' is no plugin (did you mean bridge?)", wrong.stderr)
        for plugin in PLUGINS:
            self.assertIn(plugin, wrong.stderr)
        wrong = subprocess.run([os.path.join(OURS, "patchbay"), "instal"], capture_output=True, text=True, check=False)
        self.assertEqual((wrong.returncode, wrong.stdout), (2, ""))
        self.assertIn("'instal' is no plugin (did you mean install?)", wrong.stderr)

    def test_a_runtime_that_calls_it_by_no_plugin_s_name_is_told_so(self):
        error = self.assert_error(cni("patchbay", "ADD", BRIDGE, netns=self.pod().path,
                                      documented=False), code=4, msg="patchbay' is no plugin")
        self.assertIn("bridge", error["msg"])

    def test_host_local_needs_no_process_where_it_is_of_the_same_build(self):
        copies = copy_plugins()
        wrap = ["strace", "-f", "-o", "/run/strace.log", "-e", "trace=execve"]
        for directory, programs in ((OURS, []), (copies, [os.path.join(copies, "host-local")]), (copies, [])):
            if directory == copies and not programs:
                shutil.copy(os.path.join(OURS, "bridge"), os.path.join(copies, "host-local"))
            pod = self.pod()
            for verb in ("ADD", "DEL"):
                self.assert_ok(cni("bridge", verb, BRIDGE, netns=pod.path, container=pod.name,
                                   directory=directory, wrap=wrap))
                self.assertEqual(started("/run/strace.log"), programs, f"{directory} {verb}")

    def test_both_ways_leave_the_same_and_say_the_same(self):
        copies = copy_plugins()
        seen = []
        for directory in (OURS, copies):
            pod = self.pod("pod1")
            before = snapshot()
            added = self.assert_ok(cni("bridge", "ADD", BRIDGE, netns=pod.path, directory=directory))
            with_pod = snapshot()
            conf = BRIDGE | {"prevResult": added}
            self.assert_ok(cni("bridge", "CHECK", conf, netns=pod.path, directory=directory))
            self.assert_ok(cni("bridge", "DEL", conf, netns=pod.path, directory=directory))
            after = snapshot()
            self.assertEqual({place for place in before if place not in after}, set())
            files = sorted(place for place in with_pod if "/var/lib/cni/networks" in place)
            seen.append((MACS.sub("MAC", json.dumps(added)), files))
            run("ip", "link", "del", "cni0")
            shutil.rmtree("/var/lib/cni/networks")
            pod.remove()
        self.assertEqual(seen[0], seen[1])

    def test_both_ways_fail_the_same(self):
        copies = copy_plugins()
        full = BRIDGE | {"ipam": IPAM | {"ranges": [[{"subnet": "10.1.0.0/30"}]]}}
        wrong = BRIDGE | {"ipam": IPAM | {"ranges": [[{"subnet": "10.1.0.0/33"}]]}}
        first, pod = self.pod(), self.pod()
        self.assert_ok(cni("bridge", "ADD", full, netns=first.path, container="first"))
        for conf in (full, wrong):
            errors = [cni("bridge", "ADD", conf, netns=pod.path, directory=directory).stdout
                      for directory in (OURS, copies)]
            self.assertIn('"code"', errors[0])
            self.assertEqual(*(AGE.sub("for so long", error) for error in errors))
        before = snapshot()
        cni("bridge", "ADD", full, netns=pod.path)
        self.assert_same(before)

    def portmap_conf(self, pod, **more):
        return {"cniVersion": "1.0.0", "name": "net1", "type": "portmap", "backend": "nftables",
                "runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80,
                                                    "protocol": "tcp"}]},
                "prevResult": {"cniVersion": "1.0.0", "interfaces": [
                    {"name": "eth0", "sandbox": pod.path}],
                    "ips": [{"address": "10.1.0.5/24", "interface": 0}]}} | more

    def test_nft_of_the_current_directory_is_not_run(self):
        """PATH may name it: "." and an empty part."""
        os.makedirs("/run/trap")
        with open("/run/trap/nft", "w", encoding="ascii") as file:
            file.write("#!/bin/sh\ntouch /run/trap/sprung\n")
        os.chmod("/run/trap/nft", 0o755)
        pod = self.pod()
        conf = self.portmap_conf(pod, conditionsV4=["ip saddr != 198.51.100.0/24"])
        here = os.getcwd()
        os.chdir("/run/trap")
        try:
            outcome = cni("portmap", "ADD", conf, netns=pod.path, env={"PATH": ".::../trap"})
        finally:
            os.chdir(here)
        self.assertEqual(os.listdir("/run/trap"), ["nft"])
        self.assert_ok(outcome)
        self.assertIn("198.51.100.0/24", run("nft", "list", "ruleset"))


if __name__ == "__main__":
    suite.main(needs=("strace",))
