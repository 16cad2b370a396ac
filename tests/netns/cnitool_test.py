#!/usr/bin/env python3
"""cnitool takes pods through their lives on a node: chains of plugins, capability arguments, the
results cache, garbage, errors."""

import contextlib
import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import termios

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import (CONF_DIR, RESULTS, age_leases, cache_file, cache_names, cached,  # noqa: E402
                             cnitool, container_of, environment, finish, start, use)
from support.hostport import Server, ask_one  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import run, wait_for  # noqa: E402

BRIDGE = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True,
          "hairpinMode": True, "capabilities": {"ips": True, "mac": True},
          "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}]],
                   "routes": [{"dst": "0.0.0.0/0"}]}}
PORTMAP = {"type": "portmap", "capabilities": {"portMappings": True}}
BANDWIDTH = {"type": "bandwidth", "capabilities": {"bandwidth": True}}
PORTS = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]
RATES = {"ingressRate": 8000000, "ingressBurst": 800000,
         "egressRate": 4000000, "egressBurst": 400000}
CAPABILITIES = {"portMappings": PORTS, "bandwidth": RATES, "mac": "02:11:22:33:44:55",
                "dns": {"servers": ["10.1.2.53"]}}


def chain(version="1.0.0", plugins=(BRIDGE, PORTMAP, BANDWIDTH), **more):
    return {"cniVersion": version, "name": "net", **more, "plugins": list(plugins)}


def qdiscs():
    return sorted({q["kind"] for q in json.loads(run("tc", "-j", "qdisc", "show"))
                   if q["kind"] in ("tbf", "ingress", "clsact")})


class ToolTest(suite.NodeTest):
    def assert_tool_ok(self, outcome, noted=""):
        self.assertEqual(outcome.status, 0, str(outcome))
        self.assertIn(noted, outcome.stderr)
        if not noted:
            self.assertEqual(outcome.stderr, "", str(outcome))
        return outcome.json if outcome.stdout.startswith("{") else outcome.stdout

    def assert_tool_fails(self, outcome, *said):
        """It failed, said why on stderr in so many words, and nothing on stdout."""
        self.assertEqual(outcome.status, 1, str(outcome))
        self.assertEqual(outcome.stdout, "", str(outcome))
        for text in said:
            self.assertIn(text, outcome.stderr)

    def assert_port_leads_to(self, pod):
        Server(self, pod.name, (80,), pod, protocols=("tcp",), addresses=("0.0.0.0",))
        self.assertRegex(ask_one(None, "tcp", "127.0.0.1", 8080), f"^{pod.name} ")

    def assert_nothing_left(self, before, *more):
        self.assert_same(before, ignore=lambda place: left_by_design(place) or place in more
                         or place in ("file/var/lib/cni/lock", "file/var/lib/cni/results/"))
        self.assertEqual(cache_names(), [])


    def on_terminal(self, answer, *words, **env):
        """The status of cnitool, and what it printed on a terminal where the answer was typed."""
        parent, child = os.openpty()
        process = subprocess.Popen([os.path.join(OURS, "cnitool"), *words], env=environment(**env),
                                   stdin=child, stdout=child, stderr=child, start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(child)
        printed = b""
        while answer and b"[y/N]" not in printed:
            printed += os.read(parent, 4096)
        os.write(parent, answer)
        status = process.wait(timeout=60)
        with contextlib.suppress(OSError):  # EIO: that was all; the kernel may be passing on what was printed last
            while True:
                printed += os.read(parent, 65536)
        os.close(parent)
        return status, printed.decode()


class Life(ToolTest):
    def test_a_chain_of_bridge_portmap_and_bandwidth_with_capability_arguments(self):
        use(chain())
        pod = self.pod()
        before = snapshot()
        added = cnitool("add", "net", pod.path, CAP_ARGS=CAPABILITIES)
        result = self.assert_tool_ok(added)
        # As the reference prints it: four spaces, no line break at the end.
        self.assertEqual(added.stdout, json.dumps(result, indent=4))
        self.assertEqual(result["cniVersion"], "1.0.0")
        address = result["ips"][0]["address"]
        shown = json.loads(pod.run("ip", "-j", "addr", "show", "eth0"))[0]
        self.assertEqual(shown["address"], "02:11:22:33:44:55")
        self.assertIn(address.split("/")[0], [a["local"] for a in shown["addr_info"]])
        self.assertIn("tbf", qdiscs())
        self.assert_port_leads_to(pod)
        self.assert_tool_ok(cnitool("check", "net", pod.path, CAP_ARGS=CAPABILITIES))
        self.assert_tool_ok(cnitool("del", "net", pod.path, CAP_ARGS=CAPABILITIES))
        self.assertNotIn("tbf", qdiscs())
        self.assert_tool_ok(cnitool("del", "net", pod.path))  # there is nothing any more
        self.assert_nothing_left(before)

    def test_del_and_check_know_what_add_was_given(self):
        use(chain())
        pod = self.pod()
        before = snapshot()
        self.assert_tool_ok(cnitool("add", "net", pod.path, CAP_ARGS=CAPABILITIES))
        self.assertIn("tbf", qdiscs())
        run("tc", "qdisc", "del", "dev", next(
            q["dev"] for q in json.loads(run("tc", "-j", "qdisc", "show")) if q["kind"] == "tbf"),
            "root")
        self.assert_tool_fails(cnitool("check", "net", pod.path),
                               'plugin type="bandwidth" failed (check): ')
        self.assert_tool_ok(cnitool("del", "net", pod.path))
        self.assert_nothing_left(before)

    def test_check_says_what_is_missing(self):
        use(chain())
        pod = self.pod()
        self.assert_tool_ok(cnitool("add", "net", pod.path))
        self.assert_tool_ok(cnitool("check", "net", pod.path))
        pod.run("ip", "addr", "flush", "dev", "eth0")
        self.assert_tool_fails(cnitool("check", "net", pod.path),
                               'plugin type="bridge" failed (check): ')

    def test_options_say_what_the_environment_says(self):
        use(chain(plugins=[BRIDGE]), "20.conflist")
        pod = self.pod()
        nothing = {"CNI_PATH": None, "NETCONFPATH": None}
        added = cnitool("add", "--conf-dir", CONF_DIR, "--path", OURS, "-i", "net1",
                        "--container-id", "c1", "--cap-args", '{"mac": "02:00:00:00:00:07"}',
                        "--args", "IgnoreUnknown=1;IP=10.1.2.77", "--cache-dir", "/run/cache",
                        "net", pod.path, **nothing)
        result = self.assert_tool_ok(added)
        self.assertEqual(result["ips"][0]["address"], "10.1.2.77/24")
        shown = json.loads(pod.run("ip", "-j", "link", "show", "net1"))[0]
        self.assertEqual(shown["address"], "02:00:00:00:00:07")
        self.assertEqual(os.listdir("/run/cache/results"), ["net-c1-net1"])
        by_environment = {"CNI_IFNAME": "net2", "CNI_ARGS": "IgnoreUnknown=1;IP=10.1.2.78",
                          "CAP_ARGS": {"mac": "02:00:00:00:00:08"}}
        result = self.assert_tool_ok(cnitool("add", "net", pod.path, **by_environment))
        self.assertEqual(result["ips"][0]["address"], "10.1.2.78/24")
        self.assertEqual(cache_names(), [f"net-{container_of(pod.path)}-net2"])
        shown = json.loads(pod.run("ip", "-j", "link", "show", "net2"))[0]
        self.assertEqual(shown["address"], "02:00:00:00:00:08")

    def test_the_container_is_named_after_the_absolute_path(self):
        use(chain(plugins=[BRIDGE]))
        pod = self.pod()
        os.chdir("/run")
        self.assert_tool_ok(cnitool("add", "net", f"netns/../netns/./{pod.name}"))
        self.assertEqual(cache_names(), [f"net-{container_of(pod.path)}-eth0"])
        self.assertEqual(cached("net", container_of(pod.path))["netns"], pod.path)
        self.assert_tool_ok(cnitool("del", "net", pod.path))
        self.assertEqual(cache_names(), [])

    def test_del_works_when_the_namespace_is_gone(self):
        use(chain())
        pod = self.pod()
        before = snapshot()
        self.assert_tool_ok(cnitool("add", "net", pod.path, CAP_ARGS=CAPABILITIES))
        pod.remove()
        self.assert_tool_ok(cnitool("del", "net", pod.path))
        self.assert_nothing_left(before, f"file{pod.path}")

    def test_del_and_gc_work_when_the_network_is_gone(self):
        use(chain())
        pod, other = self.pod(), self.pod()
        before = snapshot()
        for one in (pod, other):
            self.assert_tool_ok(cnitool("add", "net", one.path))
        os.unlink(f"{CONF_DIR}/10-test.conflist")
        self.assert_tool_fails(cnitool("check", "net", pod.path), "no net configurations found")
        self.assert_tool_ok(cnitool("del", "net", pod.path), noted="the cached config of ADD")
        self.assert_tool_fails(cnitool("del", "net", pod.path), "no net configurations found")
        self.assert_tool_ok(cnitool("gc", "net", "--yes"), noted="the cached config of ADD")
        self.assert_nothing_left(before, f"file{CONF_DIR}/10-test.conflist")

    def test_plugins_of_the_directory_beside_a_list_are_called_too(self):
        use(chain(plugins=[BRIDGE]))
        os.mkdir(f"{CONF_DIR}/net")
        with open(f"{CONF_DIR}/net/10.conf", "w", encoding="ascii") as file:
            json.dump(PORTMAP, file)
        pod = self.pod()
        self.assert_tool_ok(cnitool("add", "net", pod.path, CAP_ARGS={"portMappings": PORTS}))
        self.assert_port_leads_to(pod)
        config = json.loads(cached("net", container_of(pod.path))["config"])
        self.assertEqual([p["type"] for p in config["plugins"]], ["bridge", "portmap"])


class ResultsCache(ToolTest):
    def test_a_file_has_the_keys_of_the_reference(self):
        text = use(chain())
        pod = self.pod()
        result = self.assert_tool_ok(cnitool("add", "net", pod.path, CAP_ARGS=CAPABILITIES,
                                             CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAME=p"))
        container = container_of(pod.path)
        self.assertEqual(cache_names(), [f"net-{container}-eth0"])
        found = cached("net", container)
        self.assertEqual(found, {
            "kind": "cniCacheV1", "containerId": container, "config": text, "ifName": "eth0",
            "networkName": "net", "netns": pod.path,
            "cniArgs": [["IgnoreUnknown", "1"], ["K8S_POD_NAME", "p"]],
            "capabilityArgs": CAPABILITIES, "result": result})
        self.assertEqual(list(found), ["kind", "containerId", "config", "ifName", "networkName",
                                       "netns", "cniArgs", "capabilityArgs", "result"])
        self.assertEqual(os.stat(RESULTS).st_mode & 0o7777, 0o700)
        self.assertEqual(os.stat(cache_file("net", container)).st_mode & 0o7777, 0o600)
        pod2 = self.pod()
        self.assert_tool_ok(cnitool("add", "net", pod2.path))
        self.assertEqual(set(cached("net", container_of(pod2.path))),
                         set(found) - {"cniArgs", "capabilityArgs"})

    def test_no_broken_file_stops_anything(self):
        use(chain("1.1.0"))
        pod, other = self.pod(), self.pod()
        before = snapshot()
        self.assert_tool_ok(cnitool("add", "net", pod.path, CAP_ARGS=CAPABILITIES))
        file = cache_file("net", container_of(pod.path))
        with open(file, "rb") as whole:
            whole = whole.read()
        contents = [b"", b"\0" * len(whole), b"garbage", b"{}", b"[]", os.urandom(300)]
        contents += [whole[:n] for n in range(1, len(whole), 97)]

        def spoil(content):
            with open(file, "wb") as broken:
                broken.write(content)

        for content in contents:
            spoil(content)
            self.assert_tool_ok(cnitool("list"), noted="is broken: ")
            # Without its result and its arguments CHECK cannot succeed, and says so.
            self.assert_tool_fails(cnitool("check", "net", pod.path, CAP_ARGS=CAPABILITIES),
                                   "is passed over: ", "the cache has no result of ADD")
            self.assert_tool_ok(cnitool("del", "net", pod.path), noted="is passed over: ")
            self.assert_nothing_left(before)
            spoil(content)
            self.assert_tool_ok(cnitool("add", "net", pod.path, CAP_ARGS=CAPABILITIES),
                                noted="is passed over: ")
            self.assert_tool_ok(cnitool("check", "net", pod.path))
            self.assert_tool_ok(cnitool("add", "net", other.path))
            spoil(content)
            self.assert_tool_ok(cnitool("gc", "net", "--yes", "--keep", container_of(other.path)),
                                noted="is broken: ")
            self.assertEqual(cache_names(), [f"net-{container_of(other.path)}-eth0"])
            self.assert_tool_ok(cnitool("check", "net", other.path))
            self.assert_tool_ok(cnitool("del", "net", other.path))
            self.assert_nothing_left(before)
            self.assert_tool_ok(cnitool("add", "net", pod.path, CAP_ARGS=CAPABILITIES))

    def test_a_cache_that_cannot_be_written_fails_add_before_anything_is_done(self):
        use(chain())
        with open("/run/file", "w", encoding="ascii"):
            pass
        pod = self.pod()
        before = snapshot()
        self.assert_tool_fails(cnitool("add", "net", pod.path, "--cache-dir", "/run/file"),
                               "/run/file")
        self.assert_same(before)
        # DEL has something more important to do.
        self.assert_tool_ok(cnitool("add", "net", pod.path))
        self.assert_tool_ok(cnitool("del", "net", pod.path, "--cache-dir", "/run/file"),
                            noted="going on without a lock")
        self.assertNotIn("eth0", pod.run("ip", "link"))

    def test_list_and_show_say_what_is_there(self):
        use(chain())
        alive, gone, lost = self.pod(), self.pod(), self.pod()
        self.assert_tool_ok(cnitool("add", "net", alive.path, CAP_ARGS={"portMappings": PORTS}))
        for pod in (gone, lost):
            self.assert_tool_ok(cnitool("add", "net", pod.path, CNI_ARGS="IgnoreUnknown=1"))
        gone.remove()
        lost.run("ip", "link", "del", "eth0")
        with open(f"{RESULTS}/net-x-eth0", "w", encoding="ascii"):
            pass
        found = self.assert_tool_ok(cnitool("list", "--json"))
        self.assertEqual(found["broken"], [{"file": "net-x-eth0", "why": "it is empty"}])
        states = {one["netns"]: one["state"] for one in found["attachments"]}
        self.assertEqual(states, {alive.path: "alive", gone.path: "no namespace",
                                  lost.path: "no interface"})
        one = next(a for a in found["attachments"] if a["netns"] == alive.path)
        self.assertEqual(one["addresses"], [cached("net", container_of(alive.path))
                                            ["result"]["ips"][0]["address"]])
        self.assertLess(one["ageSeconds"], 60)
        text = cnitool("list", "net").stdout.splitlines()
        self.assertEqual(text[0].split(), ["NETWORK", "CONTAINER", "INTERFACE", "ADDRESSES", "AGE",
                                           "STATE"])
        self.assertEqual(len(text), 4)
        self.assertNotIn("\x1b", "".join(text), "colours are for terminals")

        shown = self.assert_tool_ok(cnitool("show", "net", alive.path, "--json"))
        self.assertEqual(shown["capabilityArgs"], {"portMappings": PORTS})
        self.assertEqual(shown["config"], chain())
        self.assertEqual(shown["result"]["ips"][0]["address"], one["addresses"][0])
        named = cnitool("show", "net", "--container-id", container_of(lost.path))
        self.assertIn("no interface", named.stdout)
        self.assertIn("IgnoreUnknown=1", named.stdout)
        self.assert_tool_fails(cnitool("show", "net", "/run/netns/never"), "not in the cache")

    def test_colours_are_for_terminals_that_want_them(self):
        use(chain())
        for env, wanted in (({}, True), ({"NO_COLOR": "1"}, False)):
            parent, child = os.openpty()
            subprocess.run([os.path.join(OURS, "cnitool"), "list"], env=environment(**env),
                           stdout=child, check=True)
            os.close(child)
            self.assertEqual(b"\x1b[1m" in os.read(parent, 4096), wanted)
            os.close(parent)


class Failing(ToolTest):
    def test_what_fails_in_the_middle_of_a_chain_is_undone_from_its_end(self):
        use(chain())
        one, two = self.pod(), self.pod()
        self.assert_tool_ok(cnitool("add", "net", one.path, CAP_ARGS={"portMappings": PORTS}))
        names, before = cache_names(), snapshot()
        self.assert_tool_fails(cnitool("add", "net", two.path, CAP_ARGS={"portMappings": PORTS}),
                               'plugin type="portmap" failed (add): ', "8080")
        self.assert_same(before, ignore=left_by_design)
        self.assertEqual(cache_names(), names)
        self.assert_tool_ok(cnitool("check", "net", one.path))
        # The same without undoing: bridge's work is left, and gc finds it.
        self.assert_tool_fails(cnitool("add", "--no-undo", "net", two.path,
                                       CAP_ARGS={"portMappings": PORTS}), "8080")
        self.assertIn("eth0", two.run("ip", "link"))
        found = self.assert_tool_ok(cnitool("list", "--json"))["attachments"]
        self.assertEqual(sorted(one["state"] for one in found), ["alive", "unfinished"])
        self.assert_tool_ok(cnitool("gc", "net", "--keep-alive"))
        self.assert_same(before, ignore=left_by_design)

    def test_what_somebody_else_has_in_the_namespace_is_not_taken_down(self):
        use(chain())
        pod = self.pod()
        self.assert_tool_ok(cnitool("add", "net", pod.path))
        before = snapshot()
        inside = pod.run("ip", "-j", "addr")
        for container in ([], ["--container-id", "another"]):
            self.assert_tool_fails(cnitool("add", "net", pod.path, *container),
                                   "nothing was undone, as 'eth0' was in the namespace before")
            self.assertEqual(pod.run("ip", "-j", "addr"), inside)
        self.assert_same(before)
        self.assert_tool_ok(cnitool("check", "net", pod.path))

    def test_a_second_add_of_a_pod_that_renamed_its_interface_takes_nothing_from_it(self):
        use(chain(plugins=[BRIDGE]))
        pod = self.pod()
        self.assert_tool_ok(cnitool("add", "net", pod.path))
        pod.run("ip", "link", "set", "eth0", "down")
        pod.run("ip", "link", "set", "eth0", "name", "hidden")
        before, names = snapshot(), cache_names()
        for _ in range(2):
            calls = [start("add", "net", pod.path) for _ in range(3)]
            for call in calls:
                self.assert_tool_fails(finish(call), "nothing was undone, as the namespace has an earlier ADD of ",
                                       "call DEL")
            self.assert_same(before, ignore=left_by_design)
            self.assertEqual(cache_names(), names)
        self.assert_tool_ok(cnitool("del", "net", pod.path))
        self.assertNotIn("hidden", pod.run("ip", "link"))
        self.assertEqual(cache_names(), [])

    def test_what_add_refused_is_removed_by_del_and_gc(self):
        pod = self.pod()
        ipams = [("1.1.0", ipam) for ipam in ("host-local", 5, [], {"type": 7}, {"type": "a/b"},
                                              {"type": "host-local", "subnet": "10.0.0.0/33"})]
        remedies = (("del", "net", pod.path), ("gc", "net", "--yes"), ("gc", "net", "--keep-alive"))
        before = snapshot()
        for (version, ipam), remedy in itertools.product([*ipams, ("1.0.0", {"type": "host-locla"})], remedies):
            use(chain(version, [BRIDGE | {"ipam": ipam}]))
            self.assert_tool_fails(cnitool("add", "--no-undo", "net", pod.path))
            found, = self.assert_tool_ok(cnitool("list", "--json"))["attachments"]
            self.assertEqual(found["state"], "unfinished")
            removed = cnitool(*remedy)
            self.assertEqual(removed.status, 0, f"{ipam} {remedy}: {removed}")
            self.assertEqual(cache_names(), [])
            self.assert_same(before, ignore=lambda place: left_by_design(place) or "/net.d" in place)

    def test_a_signal_in_the_middle_is_undone(self):
        self.slow_plugin()
        use(chain(plugins=[BRIDGE, {"type": "slow"}]))
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            pod = self.pod()
            before = snapshot()
            process = start("add", "net", pod.path, CNI_PATH=f"{OURS}:/run/bin")
            self.assertTrue(wait_for(lambda: os.path.exists("/run/slow-is-running")))
            os.unlink("/run/slow-is-running")
            process.send_signal(signum)
            self.assert_tool_fails(finish(process), 'plugin type="slow" failed (add): ',
                                   "it was stopped before its end")
            self.assert_nothing_left(before)
            self.assertEqual(run("pgrep", "-f", "sleep 3600", check=False), "")

    def test_a_plugin_has_a_time_limit(self):
        self.slow_plugin()
        use(chain(plugins=[BRIDGE, {"type": "slow"}]))
        pod = self.pod()
        before = snapshot()
        outcome = cnitool("add", "net", pod.path, "--timeout", "1", CNI_PATH=f"{OURS}:/run/bin")
        self.assert_tool_fails(outcome, 'plugin type="slow" failed (add): ',
                               "it took too long and was stopped")
        os.unlink("/run/slow-is-running")
        self.assert_nothing_left(before)
        self.assertEqual(run("pgrep", "-f", "sleep 3600", check=False), "", "its child is killed")

    def test_what_takes_long_is_reported_on_a_terminal(self):
        self.slow_plugin()
        use(chain(plugins=[BRIDGE, {"type": "slow"}]))
        words = ("add", "net", self.pod().path, "--timeout", "4")
        status, printed = self.on_terminal(b"", *words, CNI_PATH=f"{OURS}:/run/bin")
        self.assertEqual(status, 1)
        self.assertRegex(printed, "^add: waiting for plugin [a-z]+, 2 s\r\n")
        os.unlink("/run/slow-is-running")
        pod = self.pod()
        os.makedirs("/var/lib/cni", exist_ok=True)
        self.assertNotIn("waiting", cnitool("add", "net", pod.path, "--timeout", "3",
                                            CNI_PATH=f"{OURS}:/run/bin").stderr)

    def test_each_command_that_calls_plugins_reports_it(self):
        os.makedirs("/run/bin")
        with open("/run/bin/bridge", "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n[ ! -e /run/lazy ] || [ $CNI_COMMAND = VERSION ] || sleep 2.3\n"
                       f"exec {OURS}/bridge\n")
        os.chmod("/run/bin/bridge", 0o755)
        use(chain("1.1.0", plugins=[BRIDGE]))
        pod, path = self.pod(), {"CNI_PATH": f"/run/bin:{OURS}"}
        self.assert_tool_ok(cnitool("add", "net", pod.path, **path))
        with open("/run/lazy", "w", encoding="ascii"):
            pass
        for words, report in ((("trace", "check", "net", pod.path), "check: "), (("repair",), "repair: 0 of 1 attachment, "),
                              (("doctor",), "doctor: (0 of 1 attachment, )?"), (("gc", "net", "--keep-alive"), "gc: "),
                              (("gc", "--dry-run"), "gc: "), (("del", "net", pod.path), "del: ")):
            _, printed = self.on_terminal(b"", *words, **path)
            self.assertRegex(printed, f"(^|\n){report}waiting for plugin bridge, 2 s\r\n", str(words))

    def slow_plugin(self):
        os.makedirs("/run/bin", exist_ok=True)
        with open("/run/bin/slow", "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n[ $CNI_COMMAND != ADD ] || { touch /run/slow-is-running; sleep 3600; true; }\n")
        os.chmod("/run/bin/slow", 0o755)

    def test_errors_say_what_to_do(self):
        use(chain())
        pod = self.pod()
        self.assert_tool_fails(cnitool("add", "nat", pod.path),
                               f'no net configuration with name "nat" in {CONF_DIR}', "did you mean net?")
        self.assert_tool_fails(cnitool("add", "net", pod.path, NETCONFPATH="/nowhere"),
                               "no net configurations found in /nowhere", "--conf-dir")
        self.assert_tool_fails(cnitool("add", "net", pod.path, CNI_PATH="/nowhere"),
                               'failed to find plugin "bridge" in path [/nowhere]', "--path")
        self.assert_tool_fails(cnitool("add", "net", pod.path, CAP_ARGS="{"),
                               "CAP_ARGS is not JSON: parse error at line 1, column 2")
        self.assert_tool_fails(cnitool("add", "net", pod.path, CAP_ARGS="[]"),
                               "CAP_ARGS: expected a JSON object")
        for args in ("x", "=x", "x=", "a=b;c"):
            self.assert_tool_fails(cnitool("add", "net", pod.path, CNI_ARGS=args),
                                   "invalid CNI_ARGS pair")
        self.assert_tool_fails(cnitool("add", "net", pod.name), f"/run/netns/{pod.name}")
        self.assert_tool_fails(cnitool("add", "net", "/run/netns/never"), "ip netns add")
        self.assert_tool_fails(cnitool("add", "net", pod.path, "-i", "a/b"), "interface name")
        error = cnitool("add", "nat", pod.path, "--json")
        self.assertEqual((error.status, error.stderr, error.json["code"]), (1, "", 7))
        use("not a list", "05-broken.conflist")
        self.assert_tool_ok(cnitool("status", "net"), noted="05-broken.conflist': expected a JSON")
        self.assert_tool_fails(cnitool("status", "nat"), "05-broken.conflist")

    def test_output_that_cannot_be_written_is_an_error(self):
        use(chain())
        pod = self.pod()
        self.assert_tool_ok(cnitool("add", "net", pod.path))
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([os.path.join(OURS, "cnitool"), "list"], stdout=full,
                                  stderr=subprocess.PIPE, env=environment(), text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("stdout", done.stderr)

    def test_a_pod_whose_result_nobody_can_read_is_removed_again(self):
        use(chain())
        pod = self.pod()
        before = snapshot()
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([os.path.join(OURS, "cnitool"), "add", "net", pod.path], stdout=full,
                                  stderr=subprocess.PIPE, env=environment(), text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the attachment was rolled back", done.stderr)
        self.assert_nothing_left(before)

    def test_json_says_that_a_verb_without_a_result_is_done(self):
        use(chain())
        pod = self.pod()
        self.assert_tool_ok(cnitool("add", "net", pod.path))
        for verb in ("check", "del"):
            outcome = cnitool(verb, "net", pod.path, "--json")
            self.assertEqual((outcome.status, outcome.stderr), (0, ""))
            self.assertEqual(outcome.json, {"operation": verb, "network": "net", "ok": True})


class Crowd(ToolTest):
    def test_32_pods_at_once(self):
        use(chain())
        pods = [self.pod() for _ in range(32)]
        before = snapshot()
        for verb in ("add", "check", "del"):
            running = [start(verb, "net", pod.path, CAP_ARGS={
                "portMappings": [{"hostPort": 9000 + n, "containerPort": 80, "protocol": "tcp"}],
                "bandwidth": RATES}) for n, pod in enumerate(pods)]
            results = [self.assert_tool_ok(finish(process)) for process in running]
            if verb == "add":
                addresses = {result["ips"][0]["address"] for result in results}
                self.assertEqual(len(addresses), len(pods))
                self.assertEqual(len(cache_names()), len(pods))
                states = self.assert_tool_ok(cnitool("list", "--json"))["attachments"]
                self.assertEqual({one["state"] for one in states}, {"alive"})
        self.assert_nothing_left(before)

    def test_32_adds_of_one_attachment_make_one(self):
        use(chain())
        pod = self.pod()
        before = snapshot()
        outcomes = [finish(p) for p in [start("add", "net", pod.path) for _ in range(32)]]
        self.assertEqual(sum(outcome.ok for outcome in outcomes), 1)
        self.assert_tool_ok(cnitool("check", "net", pod.path))
        self.assertEqual(len(cache_names()), 1)
        for outcome in [finish(p) for p in [start("del", "net", pod.path) for _ in range(32)]]:
            self.assert_tool_ok(outcome)
        self.assert_nothing_left(before)

    def test_add_del_and_gc_in_any_order_leave_nothing(self):
        use(chain("1.1.0"))
        pods = [self.pod() for _ in range(8)]
        before = snapshot()
        running = []
        for pod in pods:
            running += [start("add", "net", pod.path), start("del", "net", pod.path),
                        start("gc", "net", "--yes"), start("add", "net", pod.path, "-i", "eth1")]
        for process in running:
            self.assertEqual(finish(process).status, 0)
        # Each add either came after the last collection, or is gone altogether.
        found = self.assert_tool_ok(cnitool("list", "--json"))["attachments"]
        self.assertEqual({one["state"] for one in found} - {"alive"}, set())
        for one in found:
            self.assert_tool_ok(cnitool("check", "net", one["netns"], "-i", one["ifname"]))
        self.assert_tool_ok(cnitool("gc", "net", "--yes"))
        self.assert_nothing_left(before)


class Everyone(ToolTest):
    """What reaches whom, seen by scripts in front of the plugins."""

    def setUp(self):
        super().setUp()
        os.makedirs("/run/bin")
        for name in ("bridge", "portmap", "bandwidth", "host-local"):
            with open(f"/run/bin/{name}", "w", encoding="ascii") as file:
                file.write(f"#!/bin/sh\necho $CNI_COMMAND {name} $TRACEPARENT >>/run/log\n"
                           f"exec {OURS}/{name}\n")
            os.chmod(f"/run/bin/{name}", 0o755)

    def log(self):
        with open("/run/log", encoding="ascii") as file:
            lines = file.read().splitlines()
        os.unlink("/run/log")
        return lines

    def tool(self, *arguments, **env):
        return cnitool(*arguments, CNI_PATH="/run/bin", **env)

    def test_STATUS_and_GC_of_1_1_0_reach_every_plugin_and_its_IPAM_plugin(self):
        use(chain("1.1.0"))
        pod = self.pod()
        self.assert_tool_ok(self.tool("add", "net", pod.path))
        self.log()
        self.assert_tool_ok(self.tool("status", "net"))
        self.assertEqual(self.log(), ["STATUS bridge", "STATUS host-local", "STATUS portmap",
                                      "STATUS bandwidth"])
        self.assert_tool_ok(self.tool("gc", "net", "--yes", "--keep", container_of(pod.path)))
        log = self.log()
        calls = [line for line in log if "host-local" not in line]
        looks = [f"{verb} {name}" for name in ("bridge", "portmap", "bandwidth") for verb in ("VERSION", "GC")]
        self.assertEqual(calls, [*looks, "GC bridge", "GC portmap", "GC bandwidth"])  # who lives is asked first
        self.assertIn("GC host-local", log)
        self.assert_tool_ok(self.tool("check", "net", pod.path))

    def test_a_trace_is_passed_to_every_plugin_and_its_IPAM_plugin(self):
        use(chain("1.1.0"))
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        self.assert_tool_ok(self.tool("add", "net", self.pod().path, TRACEPARENT=trace))
        self.assertEqual(self.log(), [f"ADD {name} {trace}" for name in
                                      ("bridge", "host-local", "portmap", "bandwidth")])

    def test_trace_shows_every_call(self):
        use(chain("1.1.0"))
        pod = self.pod()
        shown = self.assert_tool_ok(self.tool("trace", "add", "net", pod.path, "--json"))
        self.assertTrue(shown["ok"])
        self.assertEqual([(c["command"], c["type"]) for c in shown["calls"]],
                         [("ADD", "bridge"), ("ADD", "portmap"), ("ADD", "bandwidth")])
        for call in shown["calls"]:
            self.assertEqual(call["file"], f"/run/bin/{call['type']}")
            self.assertEqual(call["input"]["name"], "net")
            self.assertIn("ips", call["output"])
            self.assertLess(call["microseconds"], shown["microseconds"])
        again = self.tool("trace", "add", "net", pod.path, "--json")
        self.assertEqual(again.status, 1)
        self.assertFalse(again.json["ok"])
        self.assertIn("eth0", again.json["error"]["msg"])
        self.assertEqual(again.json["calls"][0]["error"]["code"], again.json["error"]["code"])
        text = self.tool("trace", "del", "net", pod.path)
        self.assertEqual(text.status, 0)
        self.assertRegex(text.stdout, r"DEL bandwidth  /run/bin/bandwidth  [0-9.]+ ms  ok\n  input\n")
        self.assertRegex(text.stdout, r"\ndel took [0-9.]+ ms\n$")

    def test_status_fails_with_the_code_of_the_plugin(self):
        with open("/run/file", "w", encoding="ascii"):
            pass
        ipam = {"type": "host-local", "dataDir": "/run/file", "ranges": [[{"subnet": "10.1.2.0/30"}]]}
        use(chain("1.1.0", plugins=[BRIDGE | {"ipam": ipam}, PORTMAP]))
        error = self.tool("status", "net", "--json")
        self.assertEqual((error.status, error.json["code"]), (1, 50), str(error))
        self.assertIn("STATUS portmap", self.log(), "the others are asked as well")


class Garbage(ToolTest):
    def test_gc_keeps_what_it_is_told_to_keep(self):
        for version in ("1.1.0", "0.4.0"):
            use(chain(version))
            pods = [self.pod() for _ in range(4)]
            before = snapshot()
            for pod in pods[:2]:
                self.assert_tool_ok(cnitool("add", "net", pod.path))
            kept = snapshot()
            for n, pod in enumerate(pods[2:]):
                self.assert_tool_ok(cnitool("add", "net", pod.path, CAP_ARGS={"portMappings": [
                    {"hostPort": 8080 + n, "containerPort": 80, "protocol": "tcp"}]}))
            keep = [{"containerID": container_of(pod.path), "ifname": "eth0"} for pod in pods[:2]]
            everything = snapshot()
            for broken in ("", "[", "{}", "5", '"x"', "[5]", '[{"containerID": "c"}]',
                           json.dumps(keep + [{"containerID": "", "ifname": "eth0"}]),
                           json.dumps(keep + [{"containerID": "../c", "ifname": "eth0"}])):
                refused = cnitool("gc", "net", "--yes", "--keep-json", broken)
                self.assertEqual((refused.status in (1, 2), refused.stdout), (True, ""), str(refused))
                self.assert_same(everything, what=f"gc with {broken}")
            self.assert_tool_ok(cnitool("gc", "net", "--yes", pods[0].path, "--keep-json", json.dumps(keep)))
            self.assert_same(kept, ignore=lambda place: "last_reserved_ip" in place
                             or left_by_design(place))
            self.assertEqual(len(cache_names()), 2)
            for pod in pods[:2]:
                self.assert_tool_ok(cnitool("check", "net", pod.path))
            pods[1].remove()
            self.assert_tool_ok(cnitool("gc", "net", "--keep-alive"))
            self.assertEqual(cache_names(), [f"net-{container_of(pods[0].path)}-eth0"])
            self.assert_tool_ok(cnitool("check", "net", pods[0].path))
            self.assert_tool_ok(cnitool("gc", "net", "--yes"))
            self.assert_nothing_left(before, f"file{pods[1].path}")

    def test_gc_keeps_living_pods_whose_cache_entry_or_lease_cannot_be_read(self):
        for version in ("1.1.0", "0.4.0"):
            use(chain(version))
            pods = {name: self.pod() for name in ("torn", "later", "lease", "dead")}
            before = snapshot()
            for name, pod in pods.items():
                self.assert_tool_ok(cnitool("add", "net", pod.path, "--container-id", name))
            for name in ("torn", "dead"):
                os.truncate(cache_file("net", name), 50)
            with open(cache_file("net", "later"), encoding="utf-8") as file:
                text = file.read()
            with open(cache_file("net", "later"), "w", encoding="utf-8") as file:
                file.write(text.replace("cniCacheV1", "cniCacheV2"))
            lease = "/var/lib/cni/networks/net/" + cached("net", "lease")["result"]["ips"][0]["address"].split("/")[0]
            with open(lease, "wb") as file:
                file.write(b"\xff\n")
            pods["dead"].remove()
            wait_for(lambda: len(json.loads(run("ip", "-j", "link", "show", "type", "veth"))) == 3)
            age_leases()
            links = {name: pods[name].run("ip", "addr") for name in ("torn", "later", "lease")}
            what = "interface 'eth0' of container 'dead' in network 'net'"
            would = self.assert_tool_ok(cnitool("gc", "net", "--keep-alive", "--dry-run"))
            self.assertEqual([line for line in would.splitlines() if "would" in line], [f"would remove {what}"], would)
            removed = self.assert_tool_ok(cnitool("gc", "net", "--keep-alive"), noted="is broken: ")
            self.assertEqual(removed, f"removed {what}\n")
            for name, link in links.items():
                self.assertEqual(pods[name].run("ip", "addr"), link)
            self.assertEqual(cache_names(), ["net-later-eth0", "net-lease-eth0", "net-torn-eth0"])
            with open(lease, "rb") as file:
                self.assertEqual(file.read(), b"\xff\n")
            self.assertEqual(sum(name.startswith("10.") for name in os.listdir(os.path.dirname(lease))), 3)
            os.unlink(lease)
            for name in links:
                deleted = cnitool("del", "net", pods[name].path, "--container-id", name)
                self.assertEqual(deleted.status, 0, str(deleted))
            self.assert_nothing_left(before, f"file{pods['dead'].path}")

    def test_gc_goes_on_past_a_state_file_of_a_later_format(self):
        use(chain("1.1.0"))
        pods = {name: self.pod() for name in ("later", "dead")}
        before = snapshot()
        files = {}
        for number, (name, pod) in enumerate(pods.items()):
            self.assert_tool_ok(cnitool("add", "net", pod.path, "--container-id", name, CAP_ARGS={"portMappings": [
                {"hostPort": 8080 + number, "containerPort": 80, "protocol": "tcp"}]}))
            files[name], = [file.path for file in os.scandir("/run/cni/portmap")
                            if file.is_file(follow_symlinks=False) and file.name != "lock" and file.path not in files.values()]
        with open(files["later"], encoding="utf-8") as file:
            written = file.read()
        later = json.dumps([one | {"format": 2} for one in json.loads(written)])
        with open(files["later"], "w", encoding="utf-8") as file:
            file.write(later)
        said = f"read '{files['later']}': a newer version of patchbay wrote it"
        doctor = json.loads(cnitool("doctor", "--json").stdout)
        remedies = [one.get("remedy") for one in doctor["findings"] if said in one["what"]]
        self.assertEqual(remedies, ["install the version of patchbay that wrote it"], doctor)
        pods["dead"].remove()
        collected = cnitool("gc", "net", "--keep-alive")
        self.assertEqual(collected.stderr.count(said), 1, collected)
        self.assertEqual(self.assert_tool_ok(collected, noted=said),
                         "removed interface 'eth0' of container 'dead' in network 'net'\n")
        self.assertEqual((os.path.exists(files["dead"]), cache_names()), (False, ["net-later-eth0"]))
        with open(files["later"], encoding="utf-8") as file:
            self.assertEqual(file.read(), later)
        self.assertIn("8080", run("nft", "list", "ruleset"))
        self.assert_tool_fails(cnitool("del", "net", pods["later"].path, "--container-id", "later"), said)
        with open(files["later"], "w", encoding="utf-8") as file:
            file.write(written)
        self.assert_tool_ok(cnitool("del", "net", pods["later"].path, "--container-id", "later"))
        self.assert_nothing_left(before, f"file{pods['dead'].path}")

    def test_gc_prints_what_it_removes_and_before_that_what_it_would(self):
        use(chain("1.1.0"))
        stays, goes = self.pod(), self.pod()
        for pod, container in ((stays, "stays"), (goes, "goes")):
            self.assert_tool_ok(cnitool("add", "net", pod.path, "--container-id", container))
        what = "interface 'eth0' of container 'goes' in network 'net'"
        keep = ("--keep", "stays")
        self.assertEqual(self.assert_tool_ok(cnitool("gc", "net", "--dry-run", *keep)), f"would remove {what}\n")
        self.assertEqual(self.assert_tool_ok(cnitool("gc", "net", "--yes", *keep)), f"removed {what}\n")
        self.assertEqual(self.assert_tool_ok(cnitool("gc", "net", "--yes", *keep)), "")
        self.assert_tool_ok(cnitool("check", "net", stays.path, "--container-id", "stays"))
        self.assertEqual(self.assert_tool_ok(cnitool("gc", "net", "--yes", "--json"))["removed"],
                         [what.replace("goes", "stays")])

    def test_gc_says_what_it_cannot_remove_and_which_plugin_says_so(self):
        pods = [self.pod(), self.pod()]
        os.makedirs("/run/more")
        with open("/run/more/stuck", "w", encoding="ascii") as file:
            file.write('#!/bin/sh\n[ "$CNI_COMMAND" != VERSION ] || echo \'{"cniVersion": "1.1.0", "supportedVersions": ["1.1.0"]}\'\n'
                       '[ "$CNI_COMMAND" != ADD ] || echo \'{"cniVersion": "1.1.0"}\'\n'
                       '[ "$CNI_COMMAND$CNI_CONTAINERID" != DELone ] || [ -e /run/well ] || '
                       '{ echo \'{"cniVersion": "1.1.0", "code": 100, "msg": "it hangs"}\'; exit 1; }\n')
        os.chmod("/run/more/stuck", 0o755)
        conf = chain("1.1.0")
        use(conf | {"plugins": [*conf["plugins"], {"type": "stuck"}]})
        path = {"CNI_PATH": f"{OURS}:/run/more"}
        for pod, container in zip(pods, ("one", "two")):
            self.assert_tool_ok(cnitool("add", "net", pod.path, "--container-id", container, **path))
        for more in ((), ("--json",)):
            got = cnitool("gc", "net", "--yes", *more, **path)
            self.assertEqual(got.status, 1, str(got))
            said = got.stderr if not more else got.json["msg"] + "; " + got.json["details"]
            self.assertIn('failed to delete stale attachment one eth0: plugin type="stuck" failed (delete): it hangs', said)
            self.assertIn("; not removed: interface 'eth0' of container 'one' in network 'net'", said)
            self.assertEqual("; removed: interface 'eth0' of container 'two'" in said, not more)
        with open("/run/well", "w", encoding="ascii"):
            pass
        self.assertIn("container 'one'", self.assert_tool_ok(cnitool("gc", "net", "--yes", **path)))

    def test_gc_refuses_to_keep_what_does_not_exist(self):
        use(chain("1.1.0"))
        pod = self.pod()
        self.assert_tool_ok(cnitool("add", "net", pod.path, "--container-id", "web-1"))
        before = snapshot()
        for name, more in (("web1", ""), ("another", "--dry-run"), ("web-1:net1", "")):
            got = cnitool("gc", "net", "--keep", name, *more.split())
            self.assert_tool_fails(got, f"keep '{name if ':' in name else name + ':eth0'}': network 'net' "
                                   "has no such attachment", "nothing was removed; `cnitool list net` lists all")
        self.assertIn("(did you mean web-1:eth0?)", cnitool("gc", "net", "--yes", "--keep", "web1").stderr)
        self.assert_same(before)
        # Without its cache entry the plugins know it.
        os.unlink(cache_file("net", "web-1"))
        self.assert_tool_ok(cnitool("gc", "net", "--yes", "--keep", "web-1"))
        self.assertIn("eth0", pod.run("ip", "link"))

    def test_gc_asks_on_a_terminal_before_it_detaches_pods_that_are_alive(self):
        use(chain("1.1.0"))
        pod = self.pod()
        self.assert_tool_ok(cnitool("add", "net", pod.path))
        for answer in (b"\n", b"no\n", b"\x03", b"\x04"):
            status, printed = self.on_terminal(answer, "gc", "net")
            self.assertEqual(status, 1, printed)
            self.assertIn("gc detaches pods that are alive", printed)
            self.assertIn("gc: nothing was removed", printed)
        self.assert_tool_ok(cnitool("check", "net", pod.path))
        self.assertNotIn("alive", self.on_terminal(b"", "gc", "net", "--keep-alive")[1])
        status, printed = self.on_terminal(b"y\n", "gc", "net")
        self.assertEqual(status, 0, printed)
        self.assertIn("removed interface 'eth0'", printed)
        self.assert_tool_ok(cnitool("add", "net", pod.path))
        status, printed = self.on_terminal(b"", "gc", "net", "--yes")
        self.assertEqual((status, "Go on?" in printed), (0, False), printed)

    def test_disableGC_leaves_everything(self):
        use(chain("1.1.0", disableGC=True))
        pod = self.pod()
        self.assert_tool_ok(cnitool("add", "net", pod.path))
        before = snapshot()
        self.assert_tool_ok(cnitool("gc", "net", "--yes"))
        self.assert_same(before)


if __name__ == "__main__":
    suite.main(needs=("pgrep",), per_processor=2)
