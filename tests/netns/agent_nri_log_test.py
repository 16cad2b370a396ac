#!/usr/bin/env python3
"""`patchbay-agent nri log` prints the life of pods, at runtimes of NRI 0.8 to 0.12."""

import json
import os
import select
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, suite  # noqa: E402
from support.agent import PROGRAM  # noqa: E402
from support.nri_runtime import Runtime, Sandbox  # noqa: E402
from support.world import World, run, wait_for  # noqa: E402

OUT = "/run/life"


def cache(sandbox, network, ifname, result):
    """An entry of the runtime's results cache."""
    os.makedirs("/var/lib/cni/results", exist_ok=True)
    with open(f"/var/lib/cni/results/{network}-{sandbox}-{ifname}", "w", encoding="ascii") as file:
        json.dump({"kind": "cniCacheV1", "containerId": sandbox, "config": "e30=", "ifName": ifname, "networkName": network,
                   "result": result}, file)


RESULT = {"cniVersion": "1.0.0", "interfaces": [
    {"name": "cni0", "mac": "02:00:00:00:00:01"}, {"name": "veth1"},
    {"name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": "/run/netns/web"},
    {"name": "net1", "sandbox": "/run/netns/web"}],
    "ips": [{"address": "10.1.0.2/24", "interface": 2}, {"address": "fd00::2/64", "interface": 2},
            {"address": "10.2.0.2/24", "interface": 3}]}
INTERFACES = [{"name": "eth0", "mac": "02:00:00:00:00:02", "addresses": ["10.1.0.2/24", "fd00::2/64"]},
              {"name": "net1", "addresses": ["10.2.0.2/24"]}]
VERSIONS = [(f"with NRI {major}.{minor}", (major, minor)) for major, minor in ((0, 8), (0, 9), (0, 10), (0, 11), (0, 12))]


def web(**more):
    return Sandbox("web", "shop", netns="/run/netns/web", ips=["10.1.0.2"], **more)


@suite.spread
class Log(suite.NodeTest):
    def setUp(self):
        if reason := agent.why_impossible():
            self.skipTest(reason)
        super().setUp()
        World.private("/var/lib/cni")
        self.process = None

    def start(self, *flags):
        with open(OUT, "wb") as out, open(f"{OUT}.log", "wb") as log:
            self.process = subprocess.Popen([PROGRAM, "nri", "log", *flags], stdin=subprocess.DEVNULL, stdout=out, stderr=log)
        self.addCleanup(self.stop)

    def stop(self):
        self.process.kill()
        return self.process.wait()

    def runtime(self, **options):
        out = Runtime(**options)
        self.addCleanup(lambda: out.stop(unlink=False))
        return out

    def lines(self, path=OUT):
        if not os.path.exists(path):
            return []
        with open(path, "rb") as file:
            return [json.loads(line) for line in file.read().splitlines()]

    def assert_events(self, *expected):
        self.assertTrue(wait_for(lambda: len(self.lines()) >= len(expected), 10))
        self.assertEqual([line["event"] for line in self.lines()], list(expected))
        return self.lines()

    @suite.cases(VERSIONS)
    def a_pods_whole_life_is_logged(self, version):
        of = self.runtime(version=version)
        self.start("--containers")
        pod = web()
        of.plugin()
        cache(pod.id, "pods", "eth0", RESULT)
        of.run(pod)
        for method in ("PostCreateContainer", "StartContainer", "PostStartContainer", "StopContainer", "RemoveContainer"):
            of.plugin().happen(method, pod, "main")
        self.assert_events("connected", "sandbox run", "container create", "container start", "container stop", "container remove")
        os.unlink(f"/var/lib/cni/results/pods-{pod.id}-eth0")  # DEL
        of.stop_sandbox(pod)
        of.remove(pod)
        lines = self.assert_events("connected", "sandbox run", "container create", "container start", "container stop",
                                   "container remove", "sandbox stop", "sandbox remove")
        self.assertEqual((lines[0]["runtime"], lines[0]["version"]), ("fake", "v1.2.3"))
        for line in lines[1:]:
            self.assertEqual((line["namespace"], line["pod"], line["uid"], line["sandbox"]), ("shop", "web", "web-uid", pod.id))
            self.assertEqual((line["netns"], line["ips"], line["interfaces"]), ("/run/netns/web", ["10.1.0.2"], INTERFACES))
            self.assertEqual("container" in line, line["event"].startswith("container"))
        self.assertEqual((lines[2]["container"], lines[2]["containerID"]), ("main", "main-id"))
        self.assertEqual(of.plugin().mask, 0x637)
        self.assertEqual(of.failures, [])

    def test_without_a_flag_containers_are_not_asked_for(self):
        of = self.runtime()
        self.start()
        self.assertEqual(of.plugin().mask, 0x7)
        self.assertEqual((of.plugin().name, of.plugin().index), ("patchbay-log", "90"))

    def test_name_and_index_are_those_of_the_flags_and_a_wrong_one_is_refused(self):
        of = self.runtime()
        self.start("--name", "net-log", "--index", "07")
        self.assertEqual((of.plugin().name, of.plugin().index), ("net-log", "07"))
        for flags, why in ((["--index", "7"], "two digits"), (["--name", "a/b"], "expected letters")):
            done = subprocess.run([PROGRAM, "nri", "log", *flags], capture_output=True, text=True, timeout=20, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(why, done.stderr)

    def test_sandboxes_of_a_list_in_parts_are_logged_once_and_those_that_vanished_when_the_runtime_is_back(self):
        pods = [Sandbox(f"pod{n}", padding=2000) for n in range(25)]
        of = self.runtime(sandboxes=pods, chunk=7, pieces=1000)
        self.start()
        self.assert_events("connected", *["sandbox exists"] * 25)
        of.stop()
        del of.sandboxes[pods[3].id]
        of.start()
        self.addCleanup(lambda: of.stop(unlink=False))
        of.plugin()
        lines = self.assert_events("connected", *["sandbox exists"] * 25, "connected", "sandbox vanished")
        self.assertEqual(lines[-1]["pod"], "pod3")
        self.assertEqual(of.failures, [])

    def test_a_list_of_megabytes_is_read(self):
        pods = [Sandbox(f"pod{n}", padding=30_000) for n in range(100)]
        of = self.runtime(sandboxes=pods)
        self.start()
        self.assert_events("connected", *["sandbox exists"] * 100)
        self.assertIs(of.plugin().ended.is_set(), False)

    def test_what_a_pod_has_chosen_is_printed_as_JSON_of_ASCII(self):
        of = self.runtime()
        self.start()
        of.plugin()
        evil = Sandbox("web\x1b[2J\n{\"event\": \"forged\"}\u202e", netns="/run/\xff")
        of.run(evil)
        lines = self.assert_events("connected", "sandbox run")
        self.assertEqual(lines[1]["pod"], evil.name)
        with open(OUT, "rb") as file:
            self.assertTrue(all(32 <= byte < 127 or byte == 10 for byte in file.read()))

    def test_text_that_is_no_UTF_8_is_replaced_and_the_pod_runs(self):
        of = self.runtime()
        self.start()
        of.plugin()
        pod = web()
        encoded = pod.encoded().replace(b"shop", b"s\xff\xfep")
        pod.encoded = lambda whole=True: encoded
        of.run(pod)
        lines = self.assert_events("connected", "sandbox run")
        self.assertEqual(lines[1]["namespace"], "s\ufffd\ufffdp")

    def test_an_entry_of_the_cache_that_is_torn_hides_no_other(self):
        of = self.runtime()
        self.start()
        of.plugin()
        pod = web(id="abc")
        cache("abc", "pods", "eth0", RESULT)
        with open("/var/lib/cni/results/other-abc-eth0", "w", encoding="ascii") as file:
            file.write('{"kind": "cniCa')
        cache("abcd", "pods", "eth0", {"cniVersion": "1.0.0"})
        of.run(pod)
        self.assertEqual(self.assert_events("connected", "sandbox run")[1]["interfaces"], INTERFACES)

    def test_a_network_whose_name_has_another_pods_sandbox_lends_it_no_interface(self):
        """Users of a namespace name their networks."""
        of = self.runtime()
        self.start()
        of.plugin()
        cache("mine", "a-victim-b", "eth0", RESULT)
        of.run(web(id="victim"))
        self.assertNotIn("interfaces", self.assert_events("connected", "sandbox run")[1])

    def test_a_cache_that_no_DEL_has_cleaned_up_makes_no_pod_wait_for_2_s(self):
        os.makedirs("/var/lib/cni/results")
        for n in range(20_000):
            open(f"/var/lib/cni/results/pods-{n:064x}-eth0", "wb").close()
        pods = [web(id=f"{n:064x}") for n in range(20_000, 20_200)]
        cache(pods[-1].id, "pods", "eth0", RESULT)
        of = self.runtime(sandboxes=pods)
        self.start()
        of.plugin()
        of.run(Sandbox("late"))  # while the list is logged
        lines = self.assert_events("connected", *["sandbox exists"] * 200, "sandbox run")
        self.assertEqual(lines[200]["interfaces"], INTERFACES)
        self.assertIs(of.plugin().ended.is_set(), False)

    def test_what_happens_after_a_sandbox_was_removed_does_not_vanish_later(self):
        of = self.runtime()
        self.start("--containers")
        pod = web()
        of.plugin()
        of.run(pod)
        of.remove(pod)
        of.plugin().happen("RemovePodSandbox", pod)
        of.plugin().happen("RemoveContainer", pod, "main")
        before = of.plugin()
        before.end()
        self.assertTrue(wait_for(lambda: of.plugin() is not before, 10))
        of.run(Sandbox("late"))
        self.assert_events("connected", "sandbox run", "sandbox remove", "sandbox remove", "container remove", "connected", "sandbox run")

    def test_a_line_that_a_full_disk_tore_hides_no_other(self):
        os.mkdir("/run/small")
        run("mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", "/run/small")
        of = self.runtime(path="", config="file: /run/small/life.jsonl")
        os.symlink(PROGRAM, "/run/10-patchbay-log")
        self.process = of.launch("/run/10-patchbay-log", "patchbay-log", "10")
        self.addCleanup(lambda: (self.stop(), self.process.stderr.close()))
        for n in range(40):
            of.run(Sandbox(f"pod{n}", netns="/run/netns/" + "x" * (100 + n)))
        self.assertTrue(wait_for(lambda: os.stat("/run/small/life.jsonl").st_size == 8192, 5))
        with open("/run/small/life.jsonl", "rb") as file:
            self.assertFalse(file.read().endswith(b"\n"), "the last line is torn")
        run("mount", "-o", "remount,size=64k", "/run/small")
        of.run(web())
        self.assertTrue(wait_for(lambda: os.stat("/run/small/life.jsonl").st_size > 8192, 5))
        with open("/run/small/life.jsonl", "rb") as file:
            self.assertEqual(json.loads(file.read().splitlines()[-1])["pod"], "web")

    def test_a_reader_that_does_not_read_makes_no_pod_wait_for_2_s(self):
        of = self.runtime()
        reading, writing = os.pipe()
        self.process = subprocess.Popen([PROGRAM, "nri", "log"], stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.DEVNULL)
        self.addCleanup(self.stop)
        of.plugin()
        for n in range(60):  # 64 KiB are in the pipe; some lines are longer than what the kernel writes at once
            of.run(Sandbox(f"pod{n}", "\1" * 500 * (n % 2), netns="/run/netns/" + "\1" * 500))
        self.assertIs(of.plugin().ended.is_set(), False)
        with open(reading, "rb", buffering=0) as out:  # one that reads again gets whole lines again
            out.read(1 << 20)
            of.run(web())
            lines = []
            while not lines or not lines[-1].endswith(b"}\n") or json.loads(lines[-1])["pod"] != "web":
                self.assertTrue(select.select([out], [], [], 5)[0], lines[-1:])
                lines = (b"".join(lines) + out.read(1 << 20)).splitlines(keepends=True)
        os.close(writing)

    def test_pre_installed_it_writes_the_file_that_its_config_names(self):
        of = self.runtime(path="", config="file: /run/life.jsonl\ncontainers: true\n")
        os.symlink(PROGRAM, "/run/10-patchbay-log")
        self.process = of.launch("/run/10-patchbay-log", "patchbay-log", "10")
        pod = web()
        of.run(pod)
        of.plugin().happen("StopContainer", pod, "main")
        self.assertTrue(wait_for(lambda: len(self.lines("/run/life.jsonl")) == 3, 10))
        self.assertEqual([line["event"] for line in self.lines("/run/life.jsonl")], ["connected", "sandbox run", "container stop"])
        self.assertEqual((of.plugin().name, of.plugin().index), ("patchbay-log", "10"))
        of.plugin().end()  # the runtime ends; it starts another one
        self.assertEqual(self.process.wait(10), 0)
        self.process.stderr.close()

    def test_pre_installed_with_a_config_that_is_wrong_it_registers_and_logs_all_the_same(self):
        of = self.runtime(path="", config="file: [")
        os.makedirs("/var/log", exist_ok=True)
        World.private("/var/log")
        os.symlink(PROGRAM, "/run/10-patchbay-log")
        self.process = of.launch("/run/10-patchbay-log", "patchbay-log", "10")
        of.run(web())
        self.assertTrue(wait_for(lambda: len(self.lines("/var/log/patchbay-nri.jsonl")) == 2, 10))
        self.process.kill()
        self.assertIn("read config", self.process.communicate()[1])

    def test_SIGTERM_ends_it(self):
        of = self.runtime()
        self.start()
        of.plugin()
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(10), 0)


if __name__ == "__main__":
    suite.main()
