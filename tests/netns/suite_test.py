#!/usr/bin/env python3
"""Each plugin is an executable, and all of them are the multi-call binary, too: an IPAM plugin of the same build needs no
process, and a file that is replaced changes its name alone."""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite, world  # noqa: E402
from support.plugin import OURS, PLUGINS, REFERENCE, ROOT, cni, has_reference  # noqa: E402
from support.snapshot import snapshot  # noqa: E402
from support.world import mount, run  # noqa: E402

COPIES = "/run/copies"
IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/29"}]]}
BRIDGE = {"cniVersion": "1.1.0", "name": "net1", "type": "bridge", "isGateway": True,
          "ipMasq": True, "ipMasqBackend": "nftables", "ipam": IPAM}
AGE = re.compile(r"for \d+ (s|min|h|days)|\d+ (s|min|h|days) old")
MACS = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")


#: The file of a plugin, as an executable of its own and as the multi-call binary.
FORMS = [("executables of one plugin", "{}"), ("copies of the multi-call binary", "patchbay")]


def make_another(name, path):
    """A copy of the executable that counts as one of another build, by its note."""
    with open(os.path.join(OURS, name), "rb") as file:
        content = file.read()
    note = re.search(rb"patchbay\0{4}[0-9a-f]{32}", content[:4096])
    with open(path, "wb") as file:
        file.write(content[:note.end() - 32] + b"0" * 32 + content[note.end():])
    os.chmod(path, 0o755)
    return path


def copy_plugins(form="{}"):
    """A directory with bridge, and host-local of another build, which is another process."""
    os.makedirs(COPIES)
    shutil.copy(os.path.join(OURS, form.format("bridge")), os.path.join(COPIES, "bridge"))
    make_another(form.format("host-local"), os.path.join(COPIES, "host-local"))
    return COPIES


def started(log):
    """The programs that a call of strace's log started, without the first."""
    with open(log, encoding="utf-8") as file:
        return re.findall(r'execve\("([^"]+)"', file.read())[1:]


@suite.spread
class Suite(suite.NodeTest):
    def test_an_empty_file_system_hides_all_but_the_sources(self):
        for name in ("checkout/tests", "other"):
            os.makedirs(f"/run/work/{name}")
        with unittest.mock.patch.object(world, "SOURCES", ("/run/work/checkout", "/run/work/checkout/tests")):
            mount("tmpfs", "/run/work", "tmpfs")
        self.assertEqual(os.listdir("/run/work"), ["checkout"])
        self.assertEqual(os.listdir("/run/work/checkout"), ["tests"])

    def test_a_case_whose_process_ends_has_failed(self):
        with open("/run/some_test.py", "w", encoding="utf-8") as file:
            file.write(f"import os, sys\nsys.path.insert(0, '{ROOT}/tests')\nfrom support import suite\n\n\n"
                       "class Some(suite.NodeTest):\n    def test_one(self): pass\n    def test_two(self): os._exit(0)\n"
                       "    def test_zero(self): self.skipTest('why')\n\n\nsuite.main(per_processor=2)\n")
        done = subprocess.run([sys.executable, "/run/some_test.py"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("FAIL two: its process ended\n", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^ok   one \([\d.]+ s\)$")
        self.assertRegex(done.stdout, r"(?m)^skip zero \([\d.]+ s\): why$")
        self.assertEqual(done.stdout.splitlines()[-1], "1 passed, 1 failed, 1 skipped")

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

    @suite.cases(FORMS)
    def a_name_that_ends_in_a_plugin_s_name_is_that_plugin_as(self, form):
        """Copies and links, as of OpenShift Virtualization and BuildKit; the last one is of another build."""
        os.makedirs(COPIES)
        for name, source in (("cnv-bridge", "bridge"), ("x-host-local", "host-local")):
            shutil.copy(os.path.join(OURS, form.format(source)), os.path.join(COPIES, name))
        os.symlink("cnv-bridge", os.path.join(COPIES, "buildkit-cni-bridge"))
        make_another(form.format("host-local"), os.path.join(COPIES, "y-host-local"))
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
        """Also a program of another project that has the name of one."""
        os.makedirs(COPIES)
        for link in ("bridge", "cnv-bridge"):
            os.symlink(os.path.join(OURS, "bridge"), os.path.join(COPIES, link))
        shutil.copy("/bin/true", os.path.join(COPIES, "vlan"))
        pod, before = self.pod(), snapshot()
        for kind, name in (("cnv-bridge", "bridge"), ("vlan", "vlan")):
            self.assert_error(cni("bridge", "ADD", BRIDGE | {"ipam": {"type": kind}}, netns=pod.path, directory=COPIES,
                                  documented=False), code=7, msg=f"ipam.type: '{name}' is not an IPAM plugin")
            self.assert_same(before)

    def test_the_list_names_each_plugin_which_is_a_file_of_its_own(self):
        found = {name for name in os.listdir(OURS) if os.stat(os.path.join(OURS, name)).st_mode & 0o111 and "CNI " in subprocess.run(
            [os.path.join(OURS, name)], capture_output=True, text=True, env={}, stdin=subprocess.DEVNULL, check=False).stderr}
        self.assertEqual({*PLUGINS, "patchbay"}, found - {"bench_runner"})
        self.assertIn("bridge", PLUGINS)
        files = {os.lstat(os.path.join(OURS, name)).st_ino for name in found}
        self.assertEqual(len(files), len(found))

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

    @suite.cases(FORMS)
    def host_local_needs_no_process_where_it_is_of_the_same_build_as(self, form):
        copies = copy_plugins(form)
        wrap = ["strace", "-f", "-o", "/run/strace.log", "-e", "trace=execve"]
        for source, programs in ((None, [os.path.join(copies, "host-local")]), ("patchbay", []), ("host-local", [])):
            if source:
                shutil.copy(os.path.join(OURS, source), os.path.join(copies, "host-local"))
            pod = self.pod()
            for verb in ("ADD", "DEL"):
                self.assert_ok(cni("bridge", verb, BRIDGE, netns=pod.path, container=pod.name,
                                   directory=copies, wrap=wrap))
                self.assertEqual(started("/run/strace.log"), programs, f"{source} {verb}")

    @suite.cases([("/bin/true", lambda: "/bin/true"), ("the reference's bridge", lambda: f"{REFERENCE}/bridge"),
                  ("portmap", lambda: os.path.join(OURS, "portmap")), ("bridge of another build", lambda: make_another("bridge", "/run/another")),
                  ("flannel of another build", lambda: make_another("flannel", "/run/another"))])
    def a_file_changes_its_name_alone_when_it_is_replaced_by(self, make):
        """And nothing calls itself: host-local that is bridge would call host-local."""
        program = make()
        if not os.path.exists(program):
            self.skipTest(f"the Go plugins are not in {REFERENCE}")
        os.makedirs(COPIES)
        for name in PLUGINS:
            shutil.copy(os.path.join(OURS, name), COPIES)
        with open("/run/subnet.env", "w", encoding="ascii") as file:
            file.write("FLANNEL_NETWORK=10.1.0.0/16\nFLANNEL_SUBNET=10.1.2.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n")
        flannel = {"cniVersion": "1.0.0", "name": "net2", "type": "flannel", "subnetFile": "/run/subnet.env", "delegate": {"bridge": "cni1"}}
        calling = {"host-local": BRIDGE, "bridge": flannel}
        options = {"netns": self.pod().path, "directory": COPIES, "documented": False}
        wrap = ["strace", "-f", "-o", "/run/strace.log", "-e", "trace=execve"]

        def files():
            about = {name: os.stat(os.path.join(COPIES, name)) for name in PLUGINS}
            return {name: (one.st_ino, one.st_mtime_ns, one.st_size) for name, one in about.items()}
        for name in PLUGINS:
            before = files()
            subprocess.run(["cp", "-f", program, os.path.join(COPIES, name)], check=True)
            self.assertEqual({other for other, file in files().items() if file != before[other]}, {name})
            for verb in ("ADD", "DEL") if name in calling else ():
                cni(calling[name]["type"], verb, calling[name], wrap=wrap, **options)
                self.assertLessEqual(len(started("/run/strace.log")), 4, f"{name}: {verb}")
            shutil.copy(os.path.join(OURS, name), COPIES)
        for conf in calling.values():  # each name is the plugin again, and the rest is as ever
            for verb in ("ADD", "DEL"):
                self.assert_ok(cni(conf["type"], verb, conf, **options))

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
