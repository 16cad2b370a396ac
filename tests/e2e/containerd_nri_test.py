#!/usr/bin/env python3
"""containerd 2.1 and the agent's plugins for it, by NRI: the life of a pod is logged, annotations are served or refused, and
each side is killed while pods run."""

import json
import os
import re
import stat
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, suite  # noqa: E402
from support.agent import PROGRAM, Agent, slots  # noqa: E402
from support.containerd import NEEDED, PodsTest  # noqa: E402
from support.kubelet import Kubelet  # noqa: E402
from support.plugin import OURS, PLUGINS  # noqa: E402
from support.world import World, run, wait_for  # noqa: E402

NETWORK = {"cniVersion": "1.0.0", "name": "pods", "plugins": [
    {"type": "bridge", "bridge": "cni-c8d", "isDefaultGateway": True,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.87.1.0/24"}], [{"subnet": "fd87::/64"}]]}}]}
NRI = "/run/nri/nri.sock"
LIFE = "/run/life"
WISHES = {"devices.noderesource.dev": "[{path: /dev/patchbay, type: c, major: 1, minor: 3, file_mode: 0600}, {path: /dev/full}]",
          "cdi-devices.noderesource.dev/container.main": "- vendor.example/nic=a"}


class NriTest(PodsTest):
    def setUp(self):
        if reason := agent.why_impossible():
            self.skipTest(reason)
        super().setUp()
        self.install()
        if not wait_for(lambda: os.path.exists(NRI), 3):
            self.skipTest("this containerd has no NRI: scripts/containerd has one that does")
        self.use(NETWORK)
        os.makedirs("/run/cdi", exist_ok=True)
        with open("/run/cdi/vendor.json", "w", encoding="ascii") as file:
            json.dump({"cdiVersion": "0.3.0", "kind": "vendor.example/nic",
                       "devices": [{"name": "a", "containerEdits": {"env": ["FROM_CDI=yes"]}}]}, file)

    def install(self):
        """Pre-installed plugins."""

    def start(self, *words, out=subprocess.DEVNULL):
        with open("/run/nri.log", "ab") as log:
            process = subprocess.Popen([PROGRAM, "nri", *words], stdin=subprocess.DEVNULL, stdout=out, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def registered(self, times=1):
        """Whether plugins have registered as often."""
        def count():
            with open("/run/nri.log", encoding="utf-8") as log:
                return log.read().count("register at the container runtime")
        self.assertTrue(wait_for(lambda: count() >= times, 20), f"{times} registrations")

    def log(self):
        """The logger."""
        with open(LIFE, "ab") as out:
            return self.start("log", "--containers", out=out)

    def life(self, path=LIFE):
        with open(path, encoding="ascii") as file:
            return [json.loads(line) for line in file]

    def events(self, pod, path=LIFE):
        return [line["event"] for line in self.life(path) if line.get("pod") == pod]

    def root(self, container):
        """The first process of a container."""
        for line in self.ctr("--namespace", "k8s.io", "task", "ls").stdout.splitlines():
            if line.startswith(container):
                return f"/proc/{line.split()[1]}"
        return self.fail("the container does not run")


class Plugins(NriTest):
    def test_a_pods_whole_life_is_logged_with_all_its_addresses(self):
        self.log()
        self.registered()
        sandbox, pod = self.run_seen("web")
        container = self.run_container(sandbox, "web", "main", "sleep", "1000")
        self.cri.end_container(container)
        self.end(sandbox)
        expected = ["sandbox run", "container create", "container start", "container stop", "container remove",
                    "sandbox stop", "sandbox remove"]
        self.assertTrue(wait_for(lambda: len(self.events("web")) >= len(expected), 10))
        # containerd reports the end of a container that exits and the call that stops it
        self.assertEqual(list(dict.fromkeys(self.events("web"))), expected)
        line = next(one for one in self.life() if one.get("event") == "sandbox run")
        self.assertEqual((line["namespace"], line["uid"], line["sandbox"]), ("default", "web-uid", sandbox))
        self.assertEqual(os.path.basename(line["netns"]), pod.name)
        eth0, = line["interfaces"]
        self.assertEqual(eth0["name"], "eth0")
        self.assertRegex(" ".join(eth0["addresses"]), r"^10\.87\.1\.\d+/24 fd87::\w+/64$")
        self.assertEqual(line["ips"], [one.split("/")[0] for one in eth0["addresses"]])
        for one in self.life():
            if one.get("pod") == "web":
                self.assertEqual(one["interfaces"], line["interfaces"], one["event"])
        self.assertEqual(next(one for one in self.life() if one["event"] == "container start")["containerID"], container)

    def test_annotations_of_an_allowed_namespace_are_served(self):
        self.start("inject", "--allow", "default")
        self.registered()
        sandbox = self.run_pod("web", annotations=WISHES)
        container = self.run_container(sandbox, "web", "main", "sleep", "1000")
        root = self.root(container)
        for path, device, mode in (("/dev/patchbay", (1, 3), 0o600), ("/dev/full", (1, 7), None)):
            found = os.stat(f"{root}/root{path}")
            self.assertTrue(stat.S_ISCHR(found.st_mode))
            self.assertEqual((os.major(found.st_rdev), os.minor(found.st_rdev)), device)
            self.assertIn(stat.S_IMODE(found.st_mode), (mode or stat.S_IMODE(found.st_mode),))
        with open(f"{root}/environ", "rb") as file:
            self.assertIn(b"FROM_CDI=yes", file.read().split(b"\0"))
        other = self.run_container(sandbox, "web", "other", "sleep", "1000")
        with open(f"{self.root(other)}/environ", "rb") as file:
            self.assertNotIn(b"FROM_CDI", file.read())

    def test_a_sysctl_is_set_or_refused_if_the_runtime_would_ignore_it(self):
        self.start("inject", "--allow", "default")
        self.registered()
        sandbox = self.run_pod("web", annotations={"sysctl.noderesource.dev/pod": "net.core.somaxconn: 517"})
        version = re.search(r" v?(\d+)\.(\d+)\.(\d+)", run("containerd", "--version"))
        if tuple(map(int, version.groups())) < (2, 2, 1):
            with self.assertRaisesRegex(RuntimeError, "the container runtime sets no sysctls of NRI"):
                self.run_container(sandbox, "web", "main", "sleep", "1000")
            return
        root = self.root(self.run_container(sandbox, "web", "main", "sleep", "1000"))
        self.assertEqual(run("nsenter", f"--net={root}/ns/net", "cat", "/proc/sys/net/core/somaxconn").strip(), "517")

    def test_annotations_that_are_wrong_or_of_another_namespace_fail_the_container_with_a_sentence(self):
        self.start("inject", "--allow", "lab")
        self.registered()
        sandbox = self.run_pod("web", annotations=WISHES)
        with self.assertRaisesRegex(RuntimeError, "pods of namespace .{1,2}default.{1,2} may not ask for it"):
            self.run_container(sandbox, "web", "main", "sleep", "1000")
        plain = self.run_pod("plain")
        self.run_container(plain, "plain", "main", "sleep", "1000")

    def test_a_device_that_does_not_exist_fails_the_container(self):
        self.start("inject", "--allow", "default")
        self.registered()
        sandbox = self.run_pod("web", annotations={"devices.nri.io": "[{path: /dev/nothing}]"})
        with self.assertRaisesRegex(RuntimeError, "read annotation .{1,2}devices.nri.io.{1,2}: .{1,2}/dev/nothing.{1,2} is no device node"):
            self.run_container(sandbox, "web", "main", "sleep", "1000")

    def test_runtime_logger_and_agent_are_killed_in_turn_and_pods_go_on(self):
        of = Kubelet()
        self.addCleanup(lambda: of.kill())
        run("ip", "link", "add", "uplink", "type", "veth", "peer", "name", "uplink-out")
        by = Agent(slots(2), flags=["--nri-socket", NRI])
        self.addCleanup(lambda: by.kill())
        logger = self.log()
        self.registered()
        first, pod = self.run_seen("first")
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon.restart()
        self.registered(2)
        self.assertTrue(wait_for(lambda: by.log.count("register at the container runtime") == 2, 20), by.log)
        second = self.run_pod("second")
        logger.kill()
        logger.wait()
        by.kill()
        third = self.run_pod("third")
        self.log()
        self.registered(3)
        by.start()
        self.assertTrue(wait_for(lambda: by.log.count("register at the container runtime") == 3, 20), by.log)
        self.assertTrue(wait_for(lambda: self.events("third") == ["sandbox exists"], 10))
        self.assertTrue(by.is_alive())
        self.assertTrue(pod.run("ip", "-o", "-4", "addr", "show", "eth0"))
        for sandbox in (first, second, third):
            self.end(sandbox)
        self.assertTrue(wait_for(lambda: self.events("third") == ["sandbox exists", "sandbox stop", "sandbox remove"], 10))
        # containerd 2.1.9 reports no events of sandboxes that ran before it was restarted: the next list has the news.
        self.daemon.process.terminate()
        self.daemon.process.wait(20)
        self.daemon.restart()
        self.registered(4)
        self.assertTrue(wait_for(lambda: self.events("first")[-1] in ("sandbox vanished", "sandbox remove"), 10))
        self.assertEqual(self.events("first")[:2], ["sandbox run", "sandbox exists"])


class Preinstalled(NriTest):
    def install(self):
        self.daemon.process.terminate()
        self.daemon.process.wait(20)
        agent.cover_etc()
        os.makedirs("/etc/nri/conf.d")
        World.private("/opt")  # all of it: of a machine that has /opt/cni/bin the daemon has covered that alone
        os.makedirs("/opt/nri/plugins")
        os.makedirs("/opt/cni/bin")
        for name in PLUGINS:
            os.symlink(os.path.join(OURS, name), f"/opt/cni/bin/{name}")
        os.symlink(PROGRAM, "/opt/nri/plugins/90-patchbay-log")
        os.symlink(PROGRAM, "/opt/nri/plugins/20-patchbay-inject")
        with open("/etc/nri/conf.d/patchbay-log.conf", "w", encoding="ascii") as file:
            file.write("file: /run/life.jsonl\n")
        with open("/etc/nri/conf.d/20-patchbay-inject.conf", "w", encoding="ascii") as file:
            file.write("allow: [default]\n")
        self.daemon.restart()

    def test_containerd_starts_both_and_their_configs_are_in_conf_d(self):
        sandbox = self.run_pod("web", annotations=WISHES)
        container = self.run_container(sandbox, "web", "main", "sleep", "1000")
        self.assertTrue(os.path.exists(f"{self.root(container)}/root/dev/patchbay"))
        self.end(sandbox)
        expected = ["sandbox run", "sandbox stop", "sandbox remove"]
        self.assertTrue(wait_for(lambda: self.events("web", "/run/life.jsonl") == expected, 10))


if __name__ == "__main__":
    suite.main(needs=NEEDED)
