#!/usr/bin/env python3
"""cnitool doctor: a healthy node has no complaint, every planted fault is named with its remedy, and
the remedy makes the node healthy again. Nothing is changed by looking."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import rows, suite  # noqa: E402
from support.cnitool import (CONF_DIR, RESULTS, UNSEEN, age_leases, cache_file, cache_names, cnitool, container_of, environment, printed_on,  # noqa: E402
                             finish, start, use)
from support.configs import lack  # noqa: E402
from support.doctor import (BANDWIDTH, BIN, BRIDGE, FILE, NETWORKS, PORTMAP, DoctorTest, chain,  # noqa: E402
                            shell, write)
from support.plugin import OURS, REFERENCE, has_reference  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import Pod, run, wait_for  # noqa: E402

#: An interpreter of verbs that says nothing but which versions it speaks.
FOREIGN = """#!/bin/sh
[ "$CNI_COMMAND" = VERSION ] &&
  echo '{"cniVersion": "0.4.0", "supportedVersions": ["0.3.1", "0.4.0"]}'
exit 0
"""


OTHER = BRIDGE | {"bridge": "cni1", "ipam": {"type": "host-local", "subnet": "10.1.3.0/28"}}
#: ADD goes on until /run/slow is removed.
SLOW = """#!/bin/sh
case $CNI_COMMAND in
VERSION) echo '{"cniVersion": "1.1.0", "supportedVersions": ["1.0.0", "1.1.0"]}';;
ADD) touch /run/slow; while [ -e /run/slow ]; do sleep 0.05; done
     echo '{"cniVersion": "1.1.0", "interfaces": [], "ips": []}';;
esac
"""
#: Which plugin of chain(), which of its keys, and a value that ADD refuses: one of each plugin, and of each way to an IPAM
#: plugin.
REFUSED = [*(((0, "ipam"), ipam) for ipam in (
    "host-local", {"type": "a/b"}, {"type": "host-locla"}, {"type": "bridge"}, {"type": "host-local", "subnet": "10.0.0.0/33"})),
           ((0, "bridge"), "a/b"), ((1, "backend"), "ipfw"), ((2, "ingressRate"), -5)]


def reserve(address, owner="somebody"):
    write(f"{NETWORKS}/net/{address}", f"{owner}\r\neth0")
    age_leases()


def config():
    with open(FILE, encoding="utf-8") as file:
        return json.load(file)


class Health(DoctorTest):
    def test_a_healthy_node_has_no_complaint_and_is_left_as_it_is(self):
        roots = ("/var/lib/cni", "/run")
        before = snapshot(roots)
        self.assert_healthy()
        outcome = cnitool("doctor", CNI_PATH=BIN, PATCHBAY_LOG="/run/log")
        self.assertEqual((outcome.status, outcome.stderr), (0, ""))
        self.assertTrue(outcome.stdout.endswith(f"\n0 errors, 0 warnings\n{UNSEEN}"), outcome.stdout)
        self.assertNotIn("remedy", outcome.stdout)
        self.assert_same(before, snapshot(roots))

    def test_a_node_without_pods_is_healthy_too(self):
        for pod in self.pods:
            self.assertEqual(cnitool("del", "net", pod.path, CNI_PATH=BIN).status, 0)
        self.assert_healthy()

    def test_who_is_not_root_is_told_what_could_not_be_looked_at(self):
        done = subprocess.run([os.path.join(OURS, "cnitool"), "doctor", "--json"],
                              env=environment(CNI_PATH=BIN), capture_output=True, text=True,
                              user=65534, group=65534, extra_groups=(), check=False)
        found = json.loads(done.stdout)["findings"]
        unknown = {one["check"] for one in found if one["level"] == "unknown"}
        self.assertLessEqual({"status", "attachments", "pods", "leftovers"}, unknown)
        self.assertNotIn("error", {one["level"] for one in found}, str(found))
        self.assertEqual(done.returncode, 0)

    def test_interfaces_that_live_in_the_pod_are_healthy_and_collected(self):
        """A tap has nothing on the node; a macvlan is on the wire of the uplink."""
        if reason := lack("tap"):
            self.skipTest(reason)
        shutil.copy(os.path.join(OURS, "tap"), BIN)
        use({"cniVersion": "1.1.0", "name": "vms", "plugins": [
            {"type": "tap", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.7.0.0/24"}],
                                                                      [{"subnet": "fd00:7::/64"}]]}}]}, "20.conflist")
        if has_reference("macvlan"):
            shutil.copy(os.path.join(REFERENCE, "macvlan"), BIN)
            use({"cniVersion": "0.4.0", "name": "lan", "plugins": [
                {"type": "macvlan", "master": "up0",
                 "ipam": {"type": "host-local", "ranges": [[{"subnet": "192.0.2.0/24"}]]}}]}, "30.conflist")
            self.assert_ok(cnitool("add", "lan", Pod("wired").path, CNI_PATH=BIN))
        machine = Pod("vm")
        self.assert_ok(cnitool("add", "vms", machine.path, CNI_PATH=BIN))
        self.assert_healthy()
        for word in ("check", "repair"):
            done = cnitool(word, "vms", *([machine.path] if word == "check" else []), CNI_PATH=BIN)
            self.assertEqual(done.status, 0, str(done))
        machine.remove()
        self.cured(self.assert_finds("warning", "attachments", "vms", "no namespace", besides=("leases",)))

    def test_100_pods_are_healthy_and_looked_at_soon(self):
        use(chain(BRIDGE | {"ipam": BRIDGE["ipam"] | {"ranges": [[{"subnet": "10.1.0.0/16"}]]}},
                  PORTMAP, BANDWIDTH))
        for pod in self.pods:
            self.assertEqual(cnitool("del", "net", pod.path, CNI_PATH=BIN).status, 0)
        run("ip", "link", "del", "cni0")
        pods = [Pod(f"many{n}") for n in range(100)]
        for begin in range(0, 100, 20):
            running = [start("add", "net", pod.path, CNI_PATH=BIN, CAP_ARGS={"portMappings": [
                {"hostPort": 9000 + n, "containerPort": 80, "protocol": "tcp"}]})
                       for n, pod in enumerate(pods[begin:begin + 20], begin)]
            for process in running:
                self.assert_ok(finish(process))
        begin = time.monotonic()
        self.assert_healthy()
        print(f"     100 pods: {(time.monotonic() - begin) * 1000:.0f} ms", flush=True)


    def test_progress_is_shown_on_a_terminal_after_two_seconds(self):
        def seen():
            terminal, end = os.openpty()
            done = subprocess.run([os.path.join(OURS, "cnitool"), "doctor", "--json"], env=environment(CNI_PATH=BIN),
                                  stdout=subprocess.PIPE, stderr=end, check=False)
            os.close(end)
            json.loads(done.stdout)
            return printed_on(terminal).decode()
        self.assertEqual(seen(), "")
        shutil.move(f"{BIN}/portmap", "/run/portmap")
        write(f"{BIN}/portmap", "#!/bin/sh\n[ $CNI_COMMAND = REPAIR ] && sleep 2.1\nexec /run/portmap\n", 0o755)
        text = seen()
        self.assertRegex(text, r"^doctor: [01] of 2 attachments, waiting for plugin (bridge, )?portmap, 2 s\r\n$")


@suite.spread
class Configs(DoctorTest):
    def test_a_config_that_cannot_be_read(self):
        write(f"{CONF_DIR}/05-broken.conflist", '{"name": "x",}')
        remedy = self.assert_finds("error", "networks", "05-broken.conflist")
        self.assertIn("05-broken.conflist", remedy)
        os.unlink(f"{CONF_DIR}/05-broken.conflist")
        self.assert_healthy()

    def test_no_network_at_all(self):
        os.rename(FILE, "/run/aside")
        self.assert_finds("error", "networks", CONF_DIR)
        os.rename("/run/aside", FILE)
        self.assert_healthy()

    def test_two_files_with_one_name(self):
        shutil.copy(FILE, f"{CONF_DIR}/20-again.conflist")
        remedy = self.assert_finds("warning", "network names", "'net'", "20-again.conflist")
        self.assertIn(f"diff {FILE} {CONF_DIR}/20-again.conflist", remedy)
        os.unlink(f"{CONF_DIR}/20-again.conflist")
        self.assert_healthy()

    def test_a_directory_that_all_may_write_to(self):
        os.chmod(CONF_DIR, 0o777)
        self.cured(self.assert_finds("error", "permissions", CONF_DIR, "0777"))

    def test_a_plugin_of_another_user(self):
        os.chown(f"{BIN}/bridge", 1000, 0)
        self.cured(self.assert_finds("warning", "permissions", f"{BIN}/bridge", "1000"))

    def test_a_plugin_that_is_not_executable(self):
        os.chmod(f"{BIN}/host-local", 0o644)
        self.cured(self.assert_finds("error", "plugins", f"{BIN}/host-local"))

    @suite.cases([(how, how) for how in ("is not there", "is empty", "was cut off")])
    def a_plugin_that(self, how):
        """Its pods have a network: it says nothing of them, and none could be restarted."""
        for name in ("host-local", "portmap"):
            with self.subTest(name):
                whole = open(f"{BIN}/{name}", "rb").read()
                os.unlink(f"{BIN}/{name}")
                if how != "is not there":
                    with open(f"{BIN}/{name}", "wb") as file:
                        file.write(whole[:100000 if how == "was cut off" else 0])
                    os.chmod(f"{BIN}/{name}", 0o755)
                remedy = self.assert_finds("error", "plugins", f"{name}'", BIN)
                self.assertEqual(remedy, f"{OURS}/patchbay install {BIN} --only {name}")
                self.assertEqual(len(self.doctor()[1]), 1)
                self.cured(remedy)

    def test_a_folder_without_plugins_is_one_finding(self):
        for name in os.listdir(BIN):
            os.unlink(f"{BIN}/{name}")
        remedy = self.assert_finds("error", "plugins", "'bandwidth', 'bridge', 'host-local', 'portmap' are not in " + BIN)
        self.assertEqual((len(self.doctor()[1]), remedy), (1, f"{OURS}/patchbay install {BIN}"))
        self.cured(remedy)

    def test_the_executable_that_installs_is_asked_before_it_is_named(self):
        """Another program may have the name, and say nothing against it."""
        os.unlink(f"{BIN}/portmap")
        write(f"{BIN}/patchbay", "#!/bin/sh\n# plugin patchbay \nexit 0\n", 0o755)
        self.assertEqual(self.assert_finds("error", "plugins", "'portmap'"), f"{OURS}/patchbay install {BIN} --only portmap")
        alone = "/run/alone"
        os.makedirs(alone)
        shutil.copy(os.path.join(OURS, "cnitool"), alone)
        done = subprocess.run([f"{alone}/cnitool", "doctor", "--json"], env=environment(CNI_PATH=BIN) | {"PATH": "/usr/bin:/bin"},
                              capture_output=True, text=True, check=False)
        found = [one for one in json.loads(done.stdout)["findings"] if one["check"] == "plugins"]
        self.assertRegex(found[0]["remedy"], r"^copy patchbay \S+ to this node \(docs/install.md\), then ./patchbay install " + BIN)

    def test_a_plugin_whose_type_is_misspelt(self):
        use(chain(BRIDGE, PORTMAP, BANDWIDTH | {"type": "bandwith"}))
        self.cured(self.assert_finds("error", "plugins", "'bandwith'"))
        self.assertEqual(config()["plugins"][2]["type"], "bandwidth")

    def test_a_plugin_in_the_place_of_another_one(self):
        shutil.copy(f"{BIN}/host-local", f"{BIN}/portmap")
        shutil.copy(f"{BIN}/bridge", f"{BIN}/mybridge")  # works by any name that is no other plugin's
        use(chain(BRIDGE | {"type": "mybridge"}, PORTMAP, BANDWIDTH))
        self.cured(self.assert_finds("error", "plugins", f"plugin '{BIN}/portmap' is the plugin host-local"))

    def test_a_plugin_that_does_not_speak_the_version_of_its_network(self):
        write(f"{BIN}/foreign", FOREIGN, 0o755)
        use(chain(BRIDGE, PORTMAP, BANDWIDTH, {"type": "foreign"}))
        self.cured(self.assert_finds("error", "spec versions", "1.1.0", "'foreign'"))
        self.assertEqual(config()["cniVersion"], "0.4.0")

    def test_a_plugin_of_another_release(self):
        with open(f"{BIN}/portmap", "rb") as file:
            shutil.copy(f"{BIN}/portmap", "/run/portmap.real")
            self.assertIn(b" plugin patchbay ", file.read())
        write(f"{BIN}/portmap", "#!/bin/sh\n# CNI portmap plugin patchbay \n"
              "[ $# = 0 ] && exec /run/portmap.real\n"
              "echo 'CNI portmap plugin patchbay 0.0.1 (commit 0123456789ab)'\n", 0o755)
        self.assert_finds("warning", "releases", f"{BIN}/portmap", "0.0.1")


class Settings(DoctorTest):
    def test_forwarding_that_somebody_turned_off(self):
        for family, key in (("4", "net.ipv4.ip_forward"), ("6", "net.ipv6.conf.all.forwarding")):
            run("sysctl", "-w", f"{key}=0")
            self.cured(self.assert_finds("error", "pods", key.replace(".", "/")))

    def test_IPv6_that_is_off_on_the_bridge(self):
        run("sysctl", "-w", "net.ipv6.conf.cni0.disable_ipv6=1")
        shell(self.assert_finds("error", "IPv6", "cni0", besides=["pods"]))
        self.cured(self.assert_finds("error", "pods", "fd00:1:2::1"))

    def test_a_strict_reverse_path_filter_with_two_uplinks(self):
        run("ip", "link", "add", "up1", "type", "veth", "peer", "name", "eth1", "netns", "outside")
        run("ip", "addr", "add", "198.51.100.1/24", "dev", "up1")
        run("ip", "link", "set", "up1", "up")
        run("ip", "route", "add", "default", "via", "198.51.100.2", "metric", "200")
        for link in ("all", "up0", "up1"):
            run("sysctl", "-w", f"net.ipv4.conf.{link}.rp_filter=0")
        self.assert_healthy()
        run("sysctl", "-w", "net.ipv4.conf.up1.rp_filter=1")
        self.cured(self.assert_finds("warning", "reverse path", "up1"))

    def test_bridge_netfilter_without_hairpin_mode(self):
        key = "/proc/sys/net/bridge/bridge-nf-call-iptables"
        if not os.path.exists(key):
            self.skipTest("the kernel has no br_netfilter")
        use(chain({k: v for k, v in BRIDGE.items() if k != "hairpinMode"}, PORTMAP))
        run("sysctl", "-w", "net.bridge.bridge-nf-call-iptables=1")
        self.cured(self.assert_finds("warning", "bridge netfilter", "hairpinMode"))
        self.assertTrue(config()["plugins"][0]["hairpinMode"])


@suite.spread
class Leftovers(DoctorTest):
    def test_a_pod_that_is_gone(self):
        self.pods[0].remove()
        self.cured(self.assert_finds("warning", "attachments", "no namespace", "1 attachment whose pod does not exist"))
        self.assertFalse(os.path.exists(cache_file("net", container_of(self.pods[0].path))))

    def test_an_ADD_that_was_killed(self):
        file = cache_file("net", "killed")
        with open(cache_file("net", container_of(self.pods[0].path)), encoding="utf-8") as real:
            doc = json.load(real)
        del doc["result"]
        write(file, json.dumps(doc | {"containerId": "killed", "netns": "/run/netns/never"}), 0o600)
        remedy = self.assert_finds("warning", "attachments", "ADD was interrupted", "killed (eth0)")
        self.assertEqual(remedy, "cnitool del net /run/netns/never --container-id killed --ifname eth0")
        self.cured(remedy)

    def test_an_ADD_that_goes_on(self):
        write(f"{BIN}/slow", SLOW, 0o755)
        use(chain(OTHER, {"type": "slow"}, name="slow"), "20-slow.conflist")
        pod = Pod("slow")
        adding = start("add", "slow", pod.path, CNI_PATH=BIN)
        wait_for(lambda: os.path.exists("/run/slow"))
        _, found = self.doctor()
        self.assertNotIn("attachments", [one["check"] for one in found])
        file = cache_file("slow", container_of(pod.path))
        os.utime(file, (time.time() - 3600, time.time() - 3600))
        self.assert_finds("warning", "attachments", "ADD was interrupted")
        os.unlink("/run/slow")
        self.assert_ok(finish(adding))

    def assert_named_and_removed(self, plugins, wrong):
        use(chain(*plugins, name="wrong"), "20-wrong.conflist")
        pod = Pod("wrong")
        _, others = self.doctor()
        refused = cnitool("add", "--no-undo", "wrong", pod.path, CNI_PATH=BIN)
        self.assertNotEqual(refused.status, 0)
        error = refused.stderr.strip().split(" failed (add): ")[1].split("; ")[0]
        remedy = self.assert_finds("warning", "attachments", "network 'wrong' has 1 attachment whose ADD failed",
                                   container_of(pod.path)[:12], f'plugin type="{wrong}": {error}',
                                   besides=[one["check"] for one in others])
        self.assertEqual(remedy, f"cnitool del wrong {pod.path} --container-id {container_of(pod.path)} --ifname eth0")
        shell(remedy)
        self.assertEqual(self.doctor()[1], others)
        os.unlink(f"{CONF_DIR}/20-wrong.conflist")
        pod.remove()

    def test_an_ADD_that_the_config_made_fail_whatever_is_wrong_with_it(self):
        use(chain(OTHER, name="wrong"), "20-wrong.conflist")
        right = Pod("right")
        for verb in ("add", "del"):  # the bridge stays
            self.assert_ok(cnitool(verb, "wrong", right.path, CNI_PATH=BIN))
        right.remove()
        os.unlink(f"{CONF_DIR}/20-wrong.conflist")
        before = snapshot()
        for (index, key), value in rows.sampled(REFUSED):
            plugins = [dict(OTHER), dict(PORTMAP), dict(BANDWIDTH)]
            plugins[index][key] = value
            self.assert_named_and_removed(plugins, plugins[index]["type"])
        self.assert_same(before, ignore=left_by_design)
        self.assert_healthy()

    @suite.cases([(f"ADDs that a config made fail, {label}", more) for label, more in (
        ("removed by GC", {}), ("removed by DEL, as the config forbids GC", {"disableGC": True}),
        ("after the network was removed", None))])
    def several(self, more):
        use(chain(OTHER | {"ipam": "host-local"}, name="wrong", **(more or {})), "20-wrong.conflist")
        pods = [Pod(name) for name in ("w1", "w2")]
        for pod in pods:
            self.assertNotEqual(cnitool("add", "--no-undo", "wrong", pod.path, CNI_PATH=BIN).status, 0)
        # Its error is that of the config at ADD.
        use(chain(BANDWIDTH, name="wrong", **(more or {})), "20-wrong.conflist")
        if more is None:
            os.unlink(f"{CONF_DIR}/20-wrong.conflist")
        before = cache_names()
        remedy = self.assert_finds("warning", "attachments", "has 2 attachments whose ADD failed",
                                   'ipam: expected an object: "host-local"')
        self.assertEqual(remedy.startswith("cnitool del"), bool(more), remedy)
        self.cured(remedy)
        self.assertEqual(set(cache_names()), {name for name in before if not name.startswith("wrong-")})
        for pod in self.pods:
            self.assert_ok(cnitool("check", "net", pod.path, CNI_PATH=BIN))

    def test_an_ADD_whose_arguments_are_refused(self):
        pod = Pod("wrong")
        before = cache_names()
        for env in ({"CAP_ARGS": {"portMappings": [{"hostPort": 99999, "containerPort": 80}]}}, {"CNI_ARGS": "MAC=no"}):
            refused = cnitool("add", "--no-undo", "net", pod.path, CNI_PATH=BIN, **env)
            error = refused.stderr.strip().split(" failed (add): ")[1]
            self.cured(self.assert_finds("warning", "attachments", "ADD failed", error))
            self.assertEqual(cache_names(), before)

    def test_a_cache_file_that_is_broken(self):
        write(cache_file("net", "torn"), '{"kind": "cniC', 0o600)
        self.cured(self.assert_finds("warning", "attachments", "net-torn-eth0", "broken"))

    def test_an_address_that_is_reserved_for_nobody(self):
        reserve("10.1.2.9")
        self.cured(self.assert_finds("warning", "leftovers", "lease 10.1.2.9", "somebody"))

    def test_the_same_where_plugins_know_no_GC(self):
        use(chain(cniVersion="0.4.0"))
        reserve("10.1.2.9")
        self.cured_with_gc()

    def cured_with_gc(self):
        """GC is of version 1.1.0: for an older list the remedy is a copy of it."""
        self.cured(self.assert_finds("warning", "leftovers"))

    def test_a_pod_whose_attachment_the_cache_lost(self):
        os.unlink(cache_file("net", container_of(self.pods[1].path)))
        self.pods[1].remove()
        # The kernel takes a namespace apart, and the pod's link with it, when it has time to.
        wait_for(lambda: "id: " + container_of(self.pods[1].path) not in run("ip", "link"), 20)
        age_leases()
        remedy = self.assert_finds("warning", "leftovers", "'net'", "and 3 more")
        before = snapshot(("/run/cni", NETWORKS))
        said = cnitool("gc", "net", "--keep-alive", "--dry-run", CNI_PATH=BIN)
        self.assertEqual((said.status, said.stderr), (0, ""))
        for word in ("bridge: masquerading", "bridge: lease 10.1.2.", "portmap: hostPort: tcp port 8081"):
            self.assertIn(f"{word}", said.stdout)
        self.assert_same(before, snapshot(("/run/cni", NETWORKS)))
        self.cured(remedy)

    def test_a_pod_that_lives_without_a_cache_entry_loses_nothing(self):
        """By host veth, lease, state file and device; whatever the doctor recommends, and GC."""
        for name in ("tap", "tuning", "host-device"):
            shutil.copy(os.path.join(OURS, name), BIN)
        run("ip", "link", "add", "nic0", "type", "veth", "peer", "name", "far0")
        kinds = {"wire": [{"type": "host-device", "device": "nic0"}],
                 "tuned": [{"type": "bridge", "bridge": "cni1"},
                           {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"}}]}
        if not lack("tap"):
            kinds["vms"] = [{"type": "tap", "ipam": {"type": "host-local", "subnet": "10.7.0.0/24"}}]
        pods = {}
        for number, (name, plugins) in enumerate(kinds.items()):
            use({"cniVersion": "1.1.0", "name": name, "plugins": plugins}, f"2{number}.conflist")
            pods[name] = Pod(name)
            self.assert_ok(cnitool("add", name, pods[name].path, CNI_PATH=BIN))
        self.assert_healthy()
        for name, pod in [*pods.items(), *(("net", one) for one in self.pods)]:
            os.unlink(cache_file(name, container_of(pod.path)))
        roots = ("/run/cni", NETWORKS)
        before = snapshot(roots)
        _, found = self.doctor()
        for one in found:
            subprocess.run(["sh", "-c", one["remedy"]], env=environment(CNI_PATH=BIN), check=False)
        self.assertEqual(found, [])
        notes = [one["what"] for one in cnitool("doctor", "--json", CNI_PATH=BIN).json["findings"]
                 if "without a cache entry" in one["what"]]
        self.assertEqual(len(notes), len(pods) + 1, str(notes))
        for name in [*pods, "net"]:
            self.assert_ok(cnitool("gc", name, "--keep-alive", CNI_PATH=BIN))
        self.assert_same(before, snapshot(roots))
        for pod in self.pods:
            self.assertIn("10.1.2.1", pod.run("ping", "-c1", "-W2", "10.1.2.1"))
        self.assertIn("8081", run("nft", "list", "ruleset"))

    def test_a_living_container_whose_name_nothing_tells_stays_and_without_keep_alive_gc_asks_for_it(self):
        name = "a-network-with-a-name-of-which-the-alias-has-no-end"
        container = "c" * 64
        use({"cniVersion": "1.1.0", "name": name, "plugins": [{"type": "bridge", "bridge": "cni1"}]},
            "20.conflist")
        pod = Pod("long")
        self.assert_ok(cnitool("add", name, pod.path, "--container-id", container, CNI_PATH=BIN))
        os.unlink(cache_file(name, container))
        self.assert_healthy()
        self.assert_ok(cnitool("gc", name, "--keep-alive", CNI_PATH=BIN))
        pod.run("ip", "link", "show", "eth0")
        done = cnitool("gc", name, "--yes", CNI_PATH=BIN)
        self.assertEqual(done.status, 1, str(done))
        for word in ("its pod lives", "--keep CONTAINER:IFNAME"):
            self.assertIn(word, done.stderr)
        pod.run("ip", "link", "show", "eth0")
        for more in (["--keep-alive"], []):
            self.assert_ok(cnitool("gc", name, "--yes", "--keep", f"{container}:eth0", *more, CNI_PATH=BIN))
            pod.run("ip", "link", "show", "eth0")
        self.assertEqual(cnitool("gc", name, "--yes", CNI_PATH=BIN).status, 1)
        self.assert_ok(cnitool("del", name, pod.path, "--container-id", container, CNI_PATH=BIN))
        self.assertNotIn("eth0", pod.run("ip", "link"))

    def test_an_alias_that_a_pod_wrote_does_not_stop_gc(self):
        self.pods[0].run("ip", "link", "add", "x", "type", "veth", "peer", "name", "y")
        mine = json.loads(run("ip", "-j", "link", "show", "type", "veth"))
        tag = next(link["ifalias"] for link in mine if "net: net" in link.get("ifalias", ""))[:17]
        self.pods[0].run("ip", "link", "set", "x", "alias", tag + "0123456789abcdef, net: net")
        self.assert_ok(cnitool("gc", "net", "--keep-alive", CNI_PATH=BIN))

    def replaced(self):
        """A network of other plugins instead of "net"."""
        os.unlink(FILE)
        use(chain(OTHER, name="other"), "20-other.conflist")

    @suite.cases([("in the cache", False), ("by leases and links alone", True)])
    def what_a_removed_network_left_is_found(self, is_lost):
        self.replaced()
        dead, living = self.pods
        os.unlink(cache_file("net", container_of(dead.path)))
        if is_lost:
            os.unlink(cache_file("net", container_of(living.path)))
        dead.remove()
        wait_for(lambda: "id: " + container_of(dead.path) not in run("ip", "link"), 20)
        age_leases()
        remedy = self.assert_finds("warning", "leftovers", "network 'net'", "bridge: masquerading")
        self.cured(remedy)
        self.assertIn("10.1.2.1", living.run("ping", "-c1", "-W2", "10.1.2.1"))
        rules = run("nft", "list", "ruleset")
        self.assertIn("8081", rules)
        self.assertNotIn("8080", rules)

    @suite.cases([("elements of nftables", ("/run/cni/portmap", "/run/cni/firewall")), ("state files", None)])
    def what_alone_names_a_removed_network_is_found(self, lost):
        self.replaced()
        for pod in self.pods:
            os.unlink(cache_file("net", container_of(pod.path)))
            pod.remove()
        shutil.rmtree(f"{NETWORKS}/net")
        wait_for(lambda: "net: net" not in run("ip", "link"), 20)
        for folder in lost or ():
            shutil.rmtree(folder, ignore_errors=True)
        if lost is None:
            run("nft", "flush", "ruleset")
        what = "hostPort" if lost is None else "bridge: masquerading"
        self.cured(self.assert_finds("warning", "leftovers", "network 'net'", what))
        self.assertNotIn("net: net", run("nft", "list", "ruleset"))
        self.assertEqual(set(os.listdir("/run/cni/portmap") if lost is None else ()) - {"lock", "claims"}, set())

    def test_pods_of_a_removed_network_are_no_leftovers(self):
        self.replaced()
        self.assert_healthy()
        for pod in self.pods:
            os.unlink(cache_file("net", container_of(pod.path)))
        self.assert_healthy()

    def test_a_link_that_was_left_behind(self):
        alias = json.loads(run("ip", "-j", "link", "show", "type", "veth"))
        mine = next(link for link in alias if "net: net" in link.get("ifalias", ""))
        left = mine["ifalias"][:17] + "0123456789abcdef" + ", net: net, if: eth0, id: gone"
        run("ip", "link", "add", "left0", "type", "veth", "peer", "name", "left1")
        run("ip", "link", "set", "left0", "alias", left)
        self.cured(self.assert_finds("warning", "leftovers", "left0", "'net'"))

    def test_an_ifb_that_the_reference_left_behind(self):
        run("ip", "link", "add", "bwp0123456789ab", "type", "ifb")
        run("ip", "link", "add", "port0", "type", "veth", "peer", "name", "port1")
        run("tc", "qdisc", "add", "dev", "port0", "ingress")
        run("tc", "filter", "add", "dev", "port0", "parent", "ffff:", "protocol", "all", "u32", "match", "u32",
            "0", "0", "action", "mirred", "egress", "redirect", "dev", "bwp0123456789ab")
        shell(self.assert_finds("warning", "links", "bwp0123456789ab"))
        run("ip", "link", "show", "bwp0123456789ab")  # port0 sends over it
        run("ip", "link", "del", "port0")
        self.cured(self.assert_finds("warning", "links", "bwp0123456789ab"))

    def test_a_device_whose_pod_is_gone(self):
        shutil.copy(os.path.join(OURS, "host-device"), BIN)
        device = {"type": "host-device", "device": "nic0"}
        run("ip", "link", "add", "nic0", "type", "veth", "peer", "name", "far0")
        run("ip", "link", "set", "nic0", "mtu", "1400", "alias", "of the operator")
        for version, lost in (("1.1.0", False), ("1.1.0", True), ("1.0.0", True)):
            with self.subTest(version=version, without_cache_file=lost):
                use({"cniVersion": version, "name": "wire", "plugins": [device]}, "20.conflist")
                machine = Pod("vm")
                self.assert_ok(cnitool("add", "wire", machine.path, CNI_PATH=BIN))
                self.assert_healthy()
                machine.run("ip", "link", "set", "eth0", "mtu", "1300")
                if lost:
                    os.unlink(cache_file("wire", container_of(machine.path)))
                # The kernel would remove a veth together with the namespace.
                run("ip", "-n", machine.name, "link", "set", "eth0", "netns", str(os.getpid()))
                machine.remove()
                if lost:
                    self.assert_finds("warning", "leftovers", "device 'nic0'", "wire")
                    self.cured_with_gc()
                else:  # which the cache has: its device is restored, and it stays to be removed
                    shell(self.assert_finds("error", "pods", "nic0", "wire", besides=("attachments",)))
                    self.cured(self.assert_finds("warning", "attachments", "wire"))
                link = json.loads(run("ip", "-j", "link", "show", "nic0"))[0]
                self.assertEqual((link["mtu"], link["ifalias"]), (1400, "of the operator"))


    def test_state_files_whose_pod_the_cache_lost(self):
        for plugin in ("sbr", "tuning"):
            shutil.copy(os.path.join(OURS, plugin), BIN)
        bridge = {"type": "bridge", "bridge": "cni1", "isGateway": True,
                  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.8.0.0/24"}]]}}
        for version in ("1.1.0", "1.0.0"):
            with self.subTest(version=version):
                use({"cniVersion": version, "name": "tuned", "plugins": [
                    bridge, {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_filter": "1"}}, {"type": "sbr"}]},
                    "20.conflist")
                pod = Pod("tuned")
                self.assert_ok(cnitool("add", "tuned", pod.path, CNI_PATH=BIN))
                self.assert_healthy()
                os.unlink(cache_file("tuned", container_of(pod.path)))
                pod.remove()
                self.assertTrue(wait_for(lambda: "tuned" not in run("ip", "link"), 20))
                age_leases("tuned")
                said = cnitool("gc", "tuned", "--dry-run", CNI_PATH=BIN).stdout
                for word in ("bridge: lease 10.8.0.", "tuning: state file /run/cni/tuning/", "sbr: state file /run/cni/sbr/"):
                    self.assertIn(word, said)
                self.cured_with_gc()

    def test_a_sysctl_that_the_node_forbids(self):
        shutil.copy(os.path.join(OURS, "tuning"), BIN)
        allowlist = "/etc/cni/tuning/allowlist.conf"
        write(allowlist, "^net\\.ipv4\\.conf\\.IFNAME\\.")
        use({"cniVersion": "1.1.0", "name": "tuned", "plugins": [
            {"type": "bridge", "bridge": "cni1"}, {"type": "tuning", "sysctl": {"net.core.somaxconn": "500"}}]},
            "20.conflist")
        remedy = self.assert_finds("error", "status", "network 'tuned'", "Sysctl net.core.somaxconn is not allowed",
                                   f"the node's operator lists them in {allowlist}")
        self.assertEqual(remedy, "cnitool status tuned")
        write(allowlist, "somaxconn")
        self.assert_healthy()


@suite.spread
class Pods(DoctorTest):
    """What the plugins say of their attachments; every break of theirs is in doctor_pods_test.py."""

    def test_a_bridge_that_is_down(self):
        run("ip", "link", "set", "cni0", "down")
        self.repaired(self.assert_finds("error", "pods", "'cni0'", "down"))

    def test_rules_that_were_flushed(self):
        run("nft", "flush", "ruleset")
        _, found = self.doctor()
        self.assertEqual({(one["level"], one["check"]) for one in found}, {("error", "pods")})
        text = str(found)
        for word in ("bridge: ", "masquerading", "portmap: ", "hostport rules"):
            self.assertIn(word, text)
        for one in found:
            shell(one["remedy"])
        self.assert_healthy()

    @suite.cases([("flushed", ("flush", "' has no rules")), ("deleted", ("delete", "' is missing"))])
    def the_table_of_hostPorts_that_was(self, row):
        verb, said = row
        run("nft", verb, "table", "ip", "patchbay_hostport")
        self.repaired(self.assert_finds("error", "pods", "table 'ip patchbay_hostport" + said))

    def test_a_bridge_that_was_deleted(self):
        run("ip", "link", "del", "cni0")
        self.repaired(self.assert_finds("error", "pods", "Interface name cni0 not found"))

    def test_a_pod_that_was_taken_from_its_bridge(self):
        ports = json.loads(run("ip", "-j", "link", "show", "master", "cni0"))
        run("ip", "link", "set", ports[0]["ifname"], "nomaster")
        remedy = self.assert_finds("error", "pods", ports[0]["ifname"])
        self.assertTrue(remedy.startswith("cnitool repair --container-id cnitool-"), remedy)
        self.cured(remedy)

    def test_a_gateway_address_that_was_removed(self):
        run("ip", "addr", "del", "10.1.2.1/28", "dev", "cni0")
        self.repaired(self.assert_finds("error", "pods", "10.1.2.1"))

    def test_the_same_findings_as_of_repair(self):
        run("nft", "flush", "ruleset")
        run("ip", "addr", "del", "10.1.2.1/28", "dev", "cni0")
        self.pods[0].run("ip", "addr", "del", "10.1.2.2/28", "dev", "eth0")
        dry = cnitool("repair", "--dry-run", "--json", CNI_PATH=BIN).json["attachments"]
        _, found = self.doctor()
        text = "\n".join("\n".join([one["what"], *one.get("lines", ())]) for one in found)
        for one in dry:
            for finding in one["found"]:
                self.assertIn(f'{finding["plugin"]}: {finding["what"]}', text)

    def test_a_plugin_of_others_that_fails_CHECK(self):
        write(f"{BIN}/foreign", FOREIGN.replace("exit 0", "[ $CNI_COMMAND = ADD ] && exec cat /run/result\n"
              "[ $CNI_COMMAND = CHECK ] && echo '{\"code\": 100, \"msg\": \"no route\"}' && exit 1\nexit 0"), 0o755)
        write("/run/result", '{"cniVersion": "0.4.0", "interfaces": []}')
        use({"cniVersion": "0.4.0", "name": "theirs", "plugins": [{"type": "foreign"}]}, "20.conflist")
        pod = Pod("theirs")
        pod.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        self.assert_ok(cnitool("add", "theirs", pod.path, "--ifname", "lo", CNI_PATH=BIN))
        remedy = self.assert_finds("error", "pods", "'foreign' is not patchbay's", "no route", "theirs")
        self.assertIn("restart the pod of container", remedy)

    def test_pods_that_have_names_are_named_one_a_line_and_in_the_remedy(self):
        use(chain(OTHER, name="named"), "20-named.conflist")
        named = {}
        for n in range(5):
            pod = Pod(f"web{n}")
            self.assert_ok(cnitool("add", "named", pod.path, CNI_PATH=BIN,
                                   CNI_ARGS=f"IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME={pod.name}"))
            named[f"shop/{pod.name}"] = pod
        for rules, text in (("ruleset", ""), ("map inet patchbay_masquerade pods4", ": bridge: ")):
            with self.subTest(rules):
                self.assert_healthy()
                run("nft", "flush", *rules.split())
                _, found = self.doctor()
                mine = [line for one in found if "'named', 5 pods: " in one["what"] + " " for line in one["lines"]]
                self.assertEqual([line.split(": ")[0] for line in mine], [f"{name} (eth0)" for name in named], str(found))
                printed = cnitool("doctor", "-q", CNI_PATH=BIN).stdout
                for name in named:
                    self.assertRegex(printed, rf"(?m)^ +{name} \(eth0\){text}")
                for one in found:
                    shell(one["remedy"])
        for pod in list(named.values())[:2]:
            pod.run("ip", "link", "set", "eth0", "down")
        _, found = self.doctor()
        self.assertEqual({one["remedy"] for one in found}, {"restart the pods shop/web0, shop/web1"}, str(found))

    def test_an_address_that_is_not_reserved_any_more(self):
        with open(cache_file("net", container_of(self.pods[0].path)), encoding="utf-8") as file:
            address = json.load(file)["result"]["ips"][0]["address"].split("/")[0]
        os.unlink(f"{NETWORKS}/net/{address}")
        self.cured(self.assert_finds("error", "pods", address, "has no lease"))

    def repaired(self, remedy):
        self.assertEqual(remedy, "cnitool repair net")
        self.cured(remedy)


class Addresses(DoctorTest):
    def test_a_pool_that_is_nearly_and_then_quite_full(self):
        for n in range(4, 14):
            reserve(f"10.1.2.{n}")
        self.assert_finds("warning", "address pools", "'net': 12 of 13 addresses", "10.1.2.0/28",
                          besides=["leftovers"])
        reserve("10.1.2.14")
        remedy = self.assert_finds("error", "address pools", "13 of 13", besides=["leftovers"])
        self.cured(remedy)

    def test_a_network_that_got_another_name(self):
        """Its pods have leases of the earlier name: they are named, and no ADD gives their addresses away."""
        taken = {"10.1.2.2", "10.1.2.3"}
        use(chain(BRIDGE, name="front"))
        remedy = self.assert_finds("warning", "addresses", "'net', which no file names", "2 attachments", "'front'")
        names = ", ".join(f"of container {one}" for one in sorted(container_of(pod.path) for pod in self.pods))
        self.assertEqual(remedy, f'restart the pods {names}, or in {FILE} set "name": "net"')
        os.rename(RESULTS, f"{RESULTS}.away")  # as where another runtime has a cache of its own
        self.assert_finds("warning", "addresses", "'net', which no file names", "2 attachments", "'front'",
                          besides=["leftovers"])
        os.rename(f"{RESULTS}.away", RESULTS)
        new = self.assert_ok(cnitool("add", "front", Pod("new").path, CNI_PATH=BIN))
        self.assertEqual(new["ips"][0]["address"], "10.1.2.4/28")
        asked = cnitool("add", "front", Pod("asking").path, CNI_PATH=BIN, CNI_ARGS="IgnoreUnknown=1;IP=10.1.2.3")
        self.assertIn("10.1.2.3 is not available", asked.stderr)
        self.assertIn("a pod of network 'net' on the same link has it", asked.stderr)
        use(chain(BRIDGE | {"bridge": "cni1", "ipMasq": False}, name="apart"), "20-apart.conflist")
        apart = self.assert_ok(cnitool("add", "apart", Pod("apart").path, CNI_PATH=BIN))
        self.assertIn(apart["ips"][0]["address"].split("/")[0], taken)

    def test_two_networks_with_one_subnet(self):
        use(chain(BRIDGE | {"bridge": "cni1", "ipMasq": False}, name="other"), "20-other.conflist")
        remedy = self.assert_finds("error", "subnets", "10.1.2.0/28", "'other'", "'net'",
                                   besides=["routes"])
        self.assertIn('20-other.conflist set another "subnet"', remedy)
        os.unlink(f"{CONF_DIR}/20-other.conflist")
        self.assert_healthy()

    def test_a_route_of_the_node_into_the_subnet(self):
        """Whatever takes the pods' packets is named as `ip route` shows it, and removed."""
        for route in ("10.1.2.0/29 via 192.0.2.2 dev up0 proto static", "10.1.2.8/29 dev up0", "blackhole 10.1.2.0/29",
                      "10.1.2.0/29 proto bird metric 20 nexthop via 192.0.2.2 dev up0 nexthop via 192.0.2.3 dev up0",
                      "10.1.2.4/30 via 10.1.2.3 dev cni0", "fd00:1:2::/80 via 2001:db8::2 dev up0 proto static metric 1024",
                      "unreachable fd00:1:2::/80 metric 1024"):
            with self.subTest(route):
                version = "-6" if "::" in route else "-4"
                run("ip", version, "route", "add", *route.split())
                remedy = self.assert_finds("error", "routes", f"overlaps the node's route {route}", besides=("pods",))
                self.assertEqual(remedy, f"ip {'-6 ' if '::' in route else ''}route del {route}")
                self.cured(remedy)

    def test_of_two_routes_to_the_subnet_the_one_that_counts(self):
        for more in ("via 192.0.2.2 metric 100", "via 192.0.2.2 proto static metric 7"):
            run("ip", "route", "add", "10.1.2.0/28", *more.split())
        for more in ("via 2001:db8::2", "via 2001:db8::2 metric 300"):
            run("ip", "-6", "route", "add", "fd00:1:2::/64", *more.split())
        self.assert_healthy()
        run("ip", "route", "prepend", "10.1.2.0/28", "via", "192.0.2.2")
        self.cured(self.assert_finds("error", "routes", "10.1.2.0/28 via 192.0.2.2 dev up0", besides=("pods",)))
        run("ip", "-6", "route", "add", "fd00:1:2::/64", "via", "2001:db8::2", "metric", "5")
        self.cured(self.assert_finds("error", "routes", "fd00:1:2::/64 via 2001:db8::2", besides=("pods",)))

    def test_a_subnet_that_another_link_has(self):
        run("ip", "addr", "add", "10.1.2.9/29", "dev", "up0")
        remedy = self.assert_finds("error", "routes", "10.1.2.8/29 dev up0 proto kernel")
        self.assertEqual(remedy, f'in {FILE} set another "subnet" in "ipam", remove the pods of network \'net\', '
                         "ip addr del 10.1.2.1/28 dev cni0, and start the pods again")
        run("ip", "addr", "del", "10.1.2.9/29", "dev", "up0")
        run("ip", "route", "add", "10.1.0.0/16", "dev", "up0")
        self.assert_finds("warning", "routes", "10.1.0.0/16 dev up0")
        run("ip", "route", "del", "10.1.0.0/16", "dev", "up0")
        ranges = [[{"subnet": "10.1.2.0/28", "rangeEnd": "10.1.2.7"}], [{"subnet": "fd00:1:2::/64"}]]
        use(chain(BRIDGE | {"ipam": BRIDGE["ipam"] | {"ranges": ranges}}, PORTMAP, BANDWIDTH))
        run("ip", "route", "add", "10.1.2.8/29", "dev", "up0")  # no pod gets these
        self.assert_healthy()

    def test_a_subnet_that_was_changed_while_pods_live(self):
        """ADD of every pod fails until the bridge has the gateway, which costs the pods that live nothing."""
        other = [[{"subnet": "10.1.9.0/28"}], [{"subnet": "fd00:1:2::/64"}]]
        use(chain(BRIDGE | {"ipam": BRIDGE["ipam"] | {"ranges": other}}, PORTMAP, BANDWIDTH))
        pod = Pod("c")
        self.assertNotEqual(cnitool("add", "net", pod.path, CNI_PATH=BIN).status, 0)
        remedy = self.assert_finds("error", "bridge addresses", "'cni0' has address 10.1.2.1/28", "outside of the subnets")
        self.assertEqual(remedy, "ip addr add 10.1.9.1/28 dev cni0")
        self.cured(remedy)
        self.add(pod, 8090)
        for one in (*self.pods, pod):
            one.run("ping", "-c1", "-W2", "192.0.2.2")
        other = BRIDGE | {"isGateway": True, "ipam": {"type": "host-local", "subnet": "10.1.2.0/28", "gateway": "10.1.2.14"}}
        use(chain(other, name="moved"), "20-moved.conflist")
        self.assert_finds("error", "bridge addresses", "10.1.2.1/28, which is no gateway of network 'moved'", besides=("subnets",))
        os.unlink(f"{CONF_DIR}/20-moved.conflist")
        for one in (*self.pods, pod):
            self.assert_ok(cnitool("del", "net", one.path, CNI_PATH=BIN))
        run("ip", "addr", "del", "10.1.9.1/28", "dev", "cni0")
        remedy = self.assert_finds("error", "bridge addresses", "10.1.2.1/28")
        self.assertEqual(remedy, "ip addr del 10.1.2.1/28 dev cni0")
        self.cured(remedy)

    def test_a_route_of_a_bridge_that_a_removed_network_left(self):
        run("ip", "link", "add", "cni9", "type", "bridge")
        run("ip", "addr", "add", "10.1.2.9/28", "dev", "cni9")
        run("ip", "link", "set", "cni9", "up")
        self.cured(self.assert_finds("warning", "routes", "10.1.2.0/28 dev cni9"))

    def test_pods_that_containerd_attached_to_its_loopback_network(self):
        """Each has an entry of the network cni-loopback, as the Go library writes it."""
        for pod in self.pods:
            pod.run("ip", "link", "set", "lo", "up")
            network = {"cniVersion": "0.3.1", "name": "cni-loopback", "plugins": [{"type": "loopback"}]}
            ips = [{"version": family, "interface": 0, "address": address}
                   for family, address in (("4", "127.0.0.1/8"), ("6", "::1/128"))]
            doc = {"kind": "cniCacheV1", "containerId": container_of(pod.path), "ifName": "lo",
                   "networkName": "cni-loopback", "netns": pod.path,
                   "config": base64.b64encode(json.dumps(network).encode()).decode(),
                   "cniArgs": [["IgnoreUnknown", "1"]],
                   "result": {"cniVersion": "0.3.1", "dns": {}, "ips": ips, "interfaces": [
                       {"name": "lo", "mac": "00:00:00:00:00:00", "sandbox": pod.path}]}}
            write(cache_file("cni-loopback", container_of(pod.path), "lo"), json.dumps(doc), 0o600)
        self.assert_healthy()
        self.assertEqual(cnitool("list", "cni-loopback").stdout.count("127.0.0.1/8"), 2)

    def test_link_local_addresses_of_two_pods(self):
        for pod in self.pods:
            file = cache_file("net", container_of(pod.path))
            with open(file, encoding="utf-8") as real:
                doc = json.load(real)
            doc["result"]["ips"] += [{"address": "169.254.1.1/32"}, {"address": "fe80::1/64"}]
            write(file, json.dumps(doc), 0o600)
        self.assertNotIn("addresses", {one["check"] for one in self.doctor()[1]})


#: As docker, flannel and kube-proxy write them.
FILTER = """*filter
:FORWARD DROP [0:0]
:DOCKER - [0:0]
:DOCKER-FORWARD - [0:0]
:DOCKER-USER - [0:0]
:FLANNEL-FWD - [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-FORWARD
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
-A DOCKER ! -i docker0 -o docker0 -j DROP
-A DOCKER-FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A DOCKER-FORWARD -o docker0 -j DOCKER
-A DOCKER-FORWARD -i docker0 -j ACCEPT
-A DOCKER-USER -j RETURN
-A FLANNEL-FWD -s 10.1.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
-A FLANNEL-FWD -d 10.1.0.0/16 -m comment --comment "flanneld forward" -j ACCEPT
-A INPUT -j KUBE-FIREWALL
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -j DROP
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
*nat
:DOCKER - [0:0]
:FLANNEL-POSTRTG - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
-A POSTROUTING -j KUBE-POSTROUTING
-A POSTROUTING -j FLANNEL-POSTRTG
-A FLANNEL-POSTRTG -s 10.244.0.0/16 -d 10.244.0.0/16 -j RETURN
-A FLANNEL-POSTRTG -s 10.244.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MASQUERADE
COMMIT
"""


@suite.spread
class Firewall(DoctorTest):
    def test_rules_as_of_docker_flannel_and_kube_proxy_are_healthy(self):
        for tool in ("iptables-nft-restore", "iptables-legacy-restore"):
            try:
                run(tool, stdin=FILTER)
            except (RuntimeError, OSError):
                continue
            _, found = self.doctor()
            # Where the kernel has no br_netfilter, or it is off, pods do not reach Services.
            self.assertLessEqual({one["check"] for one in found}, {"bridge netfilter"}, str(found))
            said = cnitool("doctor", "-q", CNI_PATH=BIN).stdout
            self.assertNotIn("ok ", said)
            self.assertNotIn("firewalld", cnitool("doctor", CNI_PATH=BIN).stdout)
            run(tool, stdin="*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n*nat\nCOMMIT\n")
            for table in ("filter", "nat"):
                run("nft", "delete", "table", "ip", table, check=False)

    def test_what_accepts_in_another_way_counts(self):
        run("nft", "add table inet site")
        run("nft", "add chain inet site forward { type filter hook forward priority 0; policy drop; }")
        run("nft", "add chain inet site pods")
        run("nft", "add set inet site bridges { type ifname; elements = { cni0, cni1 }; }")
        run("nft", "add set inet site ranges4 { type ipv4_addr; flags interval; elements = { 10.0.0.0/16, 10.1.0.0/16, "
            "10.1.2.255-10.9.0.0, 192.0.2.1, 255.0.0.0/8 }; auto-merge; }")
        run("nft", "add set inet site any { type ifname; elements = { docker0, * }; }")
        run("nft", "add set inet site any4 { type ipv4_addr; elements = { * }; }")
        run("nft", "add set inet site ranges6 { type ipv6_addr; flags interval; elements = { fd00:1::/32 }; }")
        self.assert_finds("error", "forward policy", "'inet site forward'")
        for rules in (("iifname cni* accept", "oifname cni* accept"), ("iifname @bridges accept", "oifname @bridges accept"),
                      ("iifname { cni0, cni9 } accept", "oifname { cni0, cni9 } accept"), ("iif cni0 accept", "oif cni0 accept"),
                      ("ip saddr 10.1.0.0/16 accept", "ip daddr 10.1.2.0/24 counter accept",
                       "ip6 saddr fd00:1::/32 accept", "ip6 daddr fd00:1::/32 accept"), ("ip saddr @ranges4 accept", "ip daddr { 10.1.2.0-10.1.2.15, 10.1.2.128/25 } accept",
                       "ip6 saddr @ranges6 accept", "ip6 daddr { fd00::/16, fe80::/10 } accept"),
                      ("iifname @any accept", "oifname @any accept"), ("ip saddr @any4 accept", "ip daddr @any4 accept",
                       "ip6 saddr fd00:1::/32 accept", "ip6 daddr fd00:1::/32 accept"),
                      ("jump pods",), ("goto pods",)):
            with self.subTest(rules):
                run("nft", "flush chain inet site pods")
                run("nft", "add rule inet site pods accept")
                for rule in rules:
                    run("nft", f"add rule inet site forward {rule}")
                self.assert_healthy()
                run("nft", "flush chain inet site forward")
                self.assert_finds("error", "forward policy", "'inet site forward'")

    def test_a_chain_of_nftables_that_drops_what_is_forwarded(self):
        run("nft", "add", "table", "inet", "filter")
        run("nft", "add", "chain", "inet", "filter", "forward",
            "{ type filter hook forward priority 0; policy drop; }")
        self.cured(self.assert_finds("error", "forward policy", "'inet filter forward'", "'cni0'"))

    def test_a_policy_of_iptables_that_drops_what_is_forwarded(self):
        for tool in ("iptables-nft", "iptables-legacy"):
            try:
                run(tool, "-P", "FORWARD", "DROP")
            except (RuntimeError, OSError):
                continue
            remedy = self.assert_finds("error", "forward policy", "filter FORWARD", "'cni0'")
            # The tool that the remedy names is whichever the node's iptables is.
            self.cured(remedy.replace("iptables ", f"{tool} "))
            run(tool, "-P", "FORWARD", "ACCEPT")
            run(tool, "-F", "FORWARD")
            if tool == "iptables-nft":
                run("nft", "delete", "table", "ip", "filter")

    def test_rules_that_drop_by_sets_of_addresses(self):
        run("nft", "add table ip site")
        run("nft", "add chain ip site forward { type filter hook forward priority 0; }")
        run("nft", "add set ip site blocked { type ipv4_addr; flags interval; }")
        run("nft", "add rule ip site forward ip saddr @blocked drop")
        for elements, is_error in (("10.1.1.0/24, 10.1.3.0-10.1.3.255", False), ("10.1.2.16/28", False),
                                   ("10.1.2.0/28, 10.1.2.16/28", True), ("10.1.1.0-10.1.4.0", True), ("10.1.2.0/24", True),
                                   ("0.0.0.0/0", True), ("10.1.2.0-255.255.255.255", True), ("0.0.0.0-10.1.1.255", False)):
            with self.subTest(elements):
                run("nft", "flush set ip site blocked")
                run("nft", f"add element ip site blocked {{ {elements} }}")
                if not is_error:
                    self.assert_healthy()
                    continue
                self.cured(self.assert_finds("error", "forward policy", "'ip site forward'", "drops packets from or to 'cni0'"))
                run("nft", "flush chain ip site forward")
                run("nft", "add rule ip site forward ip saddr @blocked drop")

    def test_a_last_rule_that_drops_everything_stays(self):
        run("nft", "add table inet site")
        run("nft", "add chain inet site forward { type filter hook forward priority 0; }")
        run("nft", "add chain inet site rest")
        for last in ("forward", "rest"):
            run("nft", "add rule inet site forward iifname lo accept")
            run("nft", f"add rule inet site {last} counter drop")
            if last == "rest":
                run("nft", "add rule inet site forward jump rest")
            self.cured(self.assert_finds("error", "forward policy", "'inet site forward'", "'cni0'"))
            self.assertRegex(run("nft", "list", "chain", "inet", "site", last), r"(?s)cni0.*accept\n.*cni0.*accept\n.*drop\n")
            run("nft", "flush chain inet site forward")

    @suite.cases([(tool, tool) for tool in ("iptables-nft", "iptables-legacy")])
    def a_last_rule_that_drops_everything_stays_in(self, tool):
        try:
            run(tool, "-A", "FORWARD", "-i", "lo", "-j", "ACCEPT")
            run(tool, "-A", "FORWARD", "-j", "DROP")
        except (RuntimeError, OSError) as reason:
            self.skipTest(str(reason))
        remedy = self.assert_finds("error", "forward policy", "filter FORWARD", "'cni0'")
        self.cured(remedy.replace("iptables ", f"{tool} "))
        rules = [line for line in run(tool, "-S", "FORWARD").splitlines() if line.startswith("-A")]
        self.assertEqual((len(rules), rules[0], rules[-1]), (4, "-A FORWARD -i lo -j ACCEPT", "-A FORWARD -j DROP"))

    def test_a_policy_is_an_error_unless_a_rule_may_be_meant_for_the_pods(self):
        run("nft", "add", "table", "inet", "site")
        run("nft", "add", "chain", "inet", "site", "forward", "{ type filter hook forward priority 0; policy drop; }")
        run("nft", "add", "rule", "inet", "site", "forward", "ct state established,related accept")
        run("nft", "add", "set", "inet", "site", "docker", "{ type ifname; elements = { docker0 }; }")
        for rules, level in (
                ((), "error"), (("iifname docker0 accept", "iifname != cni0 accept", "iifname @docker accept"), "error"),
                (("ct state vmap { established : accept, invalid : drop }", "ip saddr 10.244.0.0/16 accept"), "error"),
                (("tcp dport 22 accept", "meta l4proto icmp accept", "limit rate 1/second accept"), "error"),
                (("meta mark & 0x4000 == 0x4000 accept",), "error"),
                (("iifname cni0 tcp dport 443 accept",), "warning"), (("meta mark 7 accept",), "warning"),
                (("iifname . oifname { cni0 . up0 } accept",), "warning"), (("iifname vmap { cni0 : accept }",), "warning")):
            with self.subTest(rules):
                for rule in rules:
                    run("nft", "add", "rule", "inet", "site", "forward", rule)
                self.assert_finds(level, "forward policy", "'inet site forward' drops packets by default")
                run("nft", "flush", "chain", "inet", "site", "forward")
                run("nft", "add", "rule", "inet", "site", "forward", "ct state established,related accept")
        run("nft", "add", "rule", "inet", "site", "forward", "iifname", "cni0", "oifname", "up0", "accept")
        self.cured(self.assert_finds("error", "forward policy", "drops new connections to hostPort 8080/tcp"))

    @suite.cases([(tool, tool) for tool in ("iptables-nft", "iptables-legacy")])
    def rules_of_others_beside_a_policy_of(self, tool):
        """As of docker, kube-proxy and ufw."""
        rules = ("-i docker0 -j ACCEPT", "! -i cni0 -j ACCEPT", "-s 10.244.0.0/16 -j ACCEPT", "-m mark --mark 0x4000/0x4000 -j ACCEPT",
                 "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", "-p icmp --icmp-type 8 -j ACCEPT", "-p tcp --dport 22 -j ACCEPT",
                 "-p tcp --tcp-flags SYN,ACK SYN -m limit --limit 1/s -j ACCEPT")
        try:
            run(tool, "-P", "FORWARD", "DROP")
        except (RuntimeError, OSError) as reason:
            self.skipTest(str(reason))
        for rule in rules:
            run(tool, "-A", "FORWARD", *rule.split())
        remedy = self.assert_finds("error", "forward policy", "drops packets by default, and no rule accepts")
        self.cured(remedy.replace("iptables ", f"{tool} "))

    def test_a_table_of_others_that_drops_before_the_routing_or_behind_it(self):
        run("nft", "add", "table", "inet", "site")
        for hook, rule in (("prerouting", "iifname cni0 drop"), ("postrouting", "ip saddr 10.1.0.0/16 oifname up0 reject")):
            run("nft", "add", "chain", "inet", "site", hook, f"{{ type filter hook {hook} priority -200; }}")
            run("nft", "add", "rule", "inet", "site", hook, rule.replace("reject", "drop"))
            self.cured(self.assert_finds("error", "forward policy", f"'inet site {hook}'", "'cni0'"))
            run("nft", "flush", "chain", "inet", "site", hook)

    def test_rules_of_both_iptables(self):
        try:
            run("iptables-legacy", "-A", "INPUT", "-i", "none", "-j", "DROP")
            run("iptables-nft", "-A", "INPUT", "-i", "none", "-j", "DROP")
        except (RuntimeError, OSError) as reason:
            self.skipTest(str(reason))
        self.assert_finds("warning", "iptables", "iptables-legacy")
        run("iptables-legacy", "-F", "INPUT")
        self.assert_healthy()

    def test_a_rule_that_exempts_pods_from_NAT_in_vain(self):
        def content_with(tool, *match):
            run(tool, "-t", "nat", "-I", "POSTROUTING", *match)
            self.assert_healthy()
            run(tool, "-t", "nat", "-D", "POSTROUTING", *match)

        self.assert_healthy()
        rows = [("iptables-nft", ("-s", "10.1.0.0/16", "-d", "10.0.0.0/8", "-j", "ACCEPT"),
                 "'ip nat POSTROUTING' accepts packets from 10.1.0.0/16"),
                ("iptables-nft", ("-o", "up0", "-j", "RETURN"), "from 0.0.0.0/0"),
                ("ip6tables-nft", ("-s", "fd00:1:2::9", "-j", "ACCEPT"), "from fd00:1:2::9/128"),
                ("iptables-legacy", ("-s", "10.1.2.0/24", "-j", "RETURN"),
                 "'iptables-legacy nat POSTROUTING' accepts packets from 10.1.2.0/24")]
        for tool, match, text in rows:
            try:
                run(tool, "-t", "nat", "-I", "POSTROUTING", *match)
            except (RuntimeError, OSError) as reason:
                self.skipTest(str(reason))
            remedy = self.assert_finds("warning", "NAT exemptions", text, "'net'",
                                       besides=["iptables"])
            self.assertIn('"ipMasqBackend": "iptables"', remedy)
            run(tool, "-t", "nat", "-D", "POSTROUTING", *match)
        for match in (("-s", "10.9.0.0/16", "-j", "ACCEPT"), ("-s", "10.1.0.0/16", "-j", "LOG"),
                      ("!", "-s", "10.1.0.0/16", "-j", "ACCEPT")):
            content_with("iptables-nft", *match)
        run("iptables-nft", "-t", "nat", "-I", "POSTROUTING", *rows[0][1])
        for bridge in (BRIDGE, BRIDGE | {"ipMasqBackend": "nftables"}):
            use(chain(bridge, PORTMAP, BANDWIDTH))
            self.cured(self.assert_finds("warning", "NAT exemptions", rows[0][2]))
            self.assertEqual(config()["plugins"][0]["ipMasqBackend"], "iptables")

    def with_firewall(self, **conf):
        use(chain(BRIDGE, PORTMAP, BANDWIDTH, {"type": "firewall", **conf}))

    def test_the_plugin_firewall_opens_the_chain_of_iptables_but_not_from_nftables(self):
        for backend in ("", "iptables"):
            self.with_firewall(backend=backend)
            for tool in ("iptables", "ip6tables"):  # for what is no reply
                run(tool, "-P", "FORWARD", "DROP")
                self.cured(self.assert_finds("error", "forward policy", "drops new connections to hostPort 8080/tcp"))
                run(tool, "-F", "FORWARD")
                run(tool, "-P", "FORWARD", "ACCEPT")
            self.assert_healthy()
        run("iptables-nft", "-P", "FORWARD", "DROP")
        self.with_firewall(backend="nftables")
        shell(self.assert_finds("error", "forward policy", "'ip filter FORWARD'", "'cni0'", besides=["pods"]))
        self.assertNotIn("forward policy", {one["check"] for one in self.doctor()[1]})

    def test_rules_of_the_plugin_firewall_open_the_chain_of_one_iptables_alone(self):
        self.with_firewall(backend="iptables")
        self.assert_ok(cnitool("add", "net", Pod("behind").path, CNI_PATH=BIN))
        other = "iptables-legacy" if "nf_tables" in run("iptables", "--version") else "iptables-nft"
        try:
            run(other, "-P", "FORWARD", "DROP")
        except (RuntimeError, OSError) as reason:
            self.skipTest(str(reason))
        said = [one["what"] for one in self.doctor()[1] if one["check"] == "forward policy"]
        self.assertEqual(len(said), 1)
        self.assertIn("drops packets by default, and no rule accepts traffic from and to 'cni0'", said[0])

    def test_a_chain_of_nftables_is_closed_to_the_plugin_firewall(self):
        run("nft", "add", "table", "inet", "site")
        run("nft", "add", "chain", "inet", "site", "forward", "{ type filter hook forward priority 0; policy drop; }")
        for backend in ("iptables", "nftables"):
            self.with_firewall(backend=backend)
            self.assert_finds("error", "forward policy", "'inet site forward'", besides=["pods"])

    def test_a_chain_of_the_plugin_firewall_gets_no_rule_of_another(self):
        """With its policy at drop, as its README recommends, and networks that are isolated."""
        pods = []
        for n in (1, 2):
            use({"cniVersion": "1.1.0", "name": f"tenant{n}", "plugins": [
                {"type": "bridge", "bridge": f"cnit{n}", "isDefaultGateway": True,
                 "ipam": {"type": "host-local", "subnet": f"10.7{n}.0.0/24"}},
                {"type": "firewall", "backend": "nftables", "ingressPolicy": "isolated"}]}, f"2{n}.conflist")
            pods.append(Pod(f"tenant{n}"))
            self.assert_ok(cnitool("add", f"tenant{n}", pods[-1].path, CNI_PATH=BIN))
        run("nft", "chain inet patchbay_firewall forward { policy drop; }")
        _, found = self.doctor()
        self.assertEqual({one["check"] for one in found}, {"forward policy"}, str(found))
        self.assertEqual([one["remedy"] for one in found], [f'in {FILE} add the plugin "firewall"'])
        self.assertIn("'cni0'", found[0]["what"])

    def test_what_opens_a_chain_of_another_stands_behind_its_own_rules(self):
        run("nft", "add", "table", "inet", "site")
        run("nft", "add", "chain", "inet", "site", "forward", "{ type filter hook forward priority 0; policy drop; }")
        run("nft", "add", "rule", "inet", "site", "forward", "iifname", "cni0", "oifname", "cni9", "drop")
        self.cured(self.assert_finds("error", "forward policy", "'inet site forward'"))
        rules = run("nft", "list", "chain", "inet", "site", "forward")
        self.assertLess(rules.index("drop\n\t\tiif"), rules.index("accept"))

    def test_firewalld_and_the_backends_of_the_plugin_firewall(self):
        self.firewalld()
        self.with_firewall()
        self.assert_healthy()
        for backend in ("iptables", "nftables"):
            self.with_firewall(backend=backend)
            self.assert_finds("error", "firewalld", "rejects", "'cni0'", besides=["pods"])

    def test_rules_of_the_plugin_firewall_that_were_flushed(self):
        self.with_firewall(backend="nftables")
        for pod in self.pods:
            self.assert_ok(cnitool("del", "net", pod.path, CNI_PATH=BIN))
        for n, pod in enumerate(self.pods):
            self.add(pod, 8080 + n)
        self.assert_healthy()
        run("nft", "delete", "table", "inet", "patchbay_firewall")
        self.cured(self.assert_finds("error", "pods", "patchbay_firewall"))

    def test_elements_of_the_plugin_firewall_without_a_pod(self):
        self.with_firewall(backend="nftables")
        for n, pod in enumerate(self.pods):
            self.assert_ok(cnitool("del", "net", pod.path, CNI_PATH=BIN))
            self.add(pod, 8080 + n)
        run("nft", "add element inet patchbay_firewall pods4 "
            "{ 10.1.2.9 comment \"0123456789abcdef-0123456789abcdef, net: x, if: eth0, id: y\" }")
        network = hashlib.sha512(b"net").hexdigest()[:16]
        run("nft", "add element inet patchbay_firewall pods4 "
            f"{{ 10.1.2.10 comment \"{network}-0123456789abcdef, net: net, if: eth0, id: y\" }}")
        self.cured(self.assert_finds("warning", "leftovers", "firewall: firewall"))

    def firewalld(self):
        """As it is between zones that have none of the pods' links."""
        run("nft", "add", "table", "inet", "firewalld")
        run("nft", "add", "chain", "inet", "firewalld", "filter_FORWARD",
            "{ type filter hook forward priority 10; policy accept; }")
        for rule in ("ct state { established, related } accept", "ct status dnat accept", "iifname lo accept",
                     "ct state { invalid } drop", "reject with icmpx type admin-prohibited"):
            run("nft", "add", "rule", "inet", "firewalld", "filter_FORWARD", rule)

    def test_firewalld(self):
        """Its own program keeps what it opens, if it runs."""
        self.firewalld()
        remedy = self.assert_finds("error", "firewalld", "'inet firewalld filter_FORWARD' rejects", "'cni0'")
        shutil.copy("/bin/sleep", "/run/firewalld")
        running = subprocess.Popen(["/run/firewalld", "60"])
        self.addCleanup(running.wait)
        self.addCleanup(running.kill)
        # A program gets its name a little after Popen() returned: 24 ms were seen.
        self.assertTrue(wait_for(lambda: run("cat", f"/proc/{running.pid}/comm") == "firewalld\n"))
        self.assertEqual(self.assert_finds("error", "firewalld"),
                         "firewall-cmd --zone=trusted --change-interface=cni0 && "
                         "firewall-cmd --permanent --zone=trusted --change-interface=cni0")
        running.kill()
        running.wait()
        self.cured(remedy)


@suite.spread
class Surroundings(DoctorTest):
    def test_no_default_route(self):
        run("ip", "route", "del", "default")
        remedy = self.assert_finds("warning", "uplink", "IPv4")
        self.cured(remedy.replace("GATEWAY", "192.0.2.2").replace("LINK", "up0"))

    def test_a_default_route_that_pods_had(self):
        """Tracked connections tell it from one that the node never had."""
        for family, host in (("-4", "198.51.100.7"), ("-6", "2001:db8:7::7")):
            with self.subTest(family):
                self.pods[0].run("bash", "-c", f"echo >/dev/udp/{host}/53")
                run("ip", family, "route", "del", "default")
                remedy = self.assert_finds("error", "uplink", "no default route", f"{container_of(self.pods[0].path)[:12]} (eth0) with {host}")
                self.cured(remedy.replace("GATEWAY", {"-4": "192.0.2.2", "-6": "2001:db8::2"}[family]).replace("LINK", "up0"))

    def test_an_uplink_that_does_not_work(self):
        for family, default in (("-4", "blackhole default metric 0"), ("-6", "unreachable default metric 5")):
            run("ip", "route", "del", "default")  # of IPv4, whose metric is 0
            run("ip", family, "route", "add", *default.split())
            if family == "-6":
                run("ip", "route", "add", "default", "via", "192.0.2.2")
            shell(self.assert_finds("error", "uplink", default.split(" metric")[0]))
            run("ip", "route", "replace", "default", "via", "192.0.2.2")
            self.assert_healthy()
        run("ip", "-n", "outside", "link", "set", "eth0", "down")
        self.assertTrue(wait_for(lambda: self.operstate("up0") != "UP"))
        self.assert_finds("error", "uplink", "link 'up0' has no carrier, and the default route")
        run("ip", "link", "set", "up0", "down")
        remedy = self.assert_finds("error", "uplink", "link 'up0' is down, and the node has no default route")
        self.assertTrue(remedy.startswith("ip link set up0 up  # its default route went with it"), remedy)
        os.makedirs("/var/lib/dhcp", exist_ok=True)
        write("/var/lib/dhcp/dhclient.up0.leases", 'lease {\n  interface "up0";\n  fixed-address 192.0.2.1;\n'
              '  option routers 192.0.2.2;\n  expire never;\n}\n')
        run("ip", "-n", "outside", "link", "set", "eth0", "up")
        shell(self.assert_finds("error", "uplink", "link 'up0' is down, and the node has no default route"))
        self.assertTrue(wait_for(lambda: self.operstate("up0") == "UP"))
        self.assert_healthy()

    @staticmethod
    def operstate(link):
        return json.loads(run("ip", "-j", "link", "show", link))[0]["operstate"]

    def test_the_link_of_pods_on_the_wire(self):
        """A macvlan's master, a vlan under it, and a bridge without a gateway, with and without pods."""
        shutil.copy(os.path.join(OURS, "macvlan"), BIN)
        run("ip", "link", "add", "lan0", "type", "veth", "peer", "name", "lan1", "netns", "outside")
        run("ip", "link", "add", "br0", "type", "bridge")
        run("ip", "link", "set", "lan0", "up", "master", "br0")
        run("ip", "link", "set", "br0", "up")
        run("ip", "-n", "outside", "link", "set", "lan1", "up")
        self.assertTrue(wait_for(lambda: self.operstate("lan0") == "UP"))
        pool = {"type": "host-local", "ranges": [[{"subnet": "172.20.0.0/24"}]]}
        kinds = {"lan": {"type": "macvlan", "master": "br0", "ipam": pool}, "wire": {"type": "bridge", "bridge": "br0"}}
        if lack("macvlan"):
            del kinds["lan"]
        for name, plugin in kinds.items():
            use({"cniVersion": "1.1.0", "name": name, "plugins": [plugin]}, f"{name}.conflist")
        self.assert_healthy()
        run("ip", "link", "set", "lan0", "down")
        self.cured(self.assert_finds("warning", "masters", "link 'lan0' is down"))
        pods = {name: Pod(name) for name in kinds}
        for name, pod in pods.items():
            self.assert_ok(cnitool("add", name, pod.path, CNI_PATH=BIN))
        self.assert_healthy()
        run("ip", "link", "set", "lan0", "down")
        _, found = self.doctor()
        self.assertEqual({one["what"] for one in found if one["level"] == "error"},
                         {"link 'lan0' is down: 'br0', the master of network 'lan', stands on it",
                          "link 'lan0' is down: no other port of bridge 'br0' is on the wire"} if len(kinds) == 2 else
                         {"link 'lan0' is down: no other port of bridge 'br0' is on the wire"})
        self.assertEqual({one["remedy"] for one in found}, {"ip link set lan0 up"})
        self.cured(found[0]["remedy"])
        run("ip", "-n", "outside", "link", "set", "lan1", "down")
        self.assertTrue(wait_for(lambda: self.operstate("lan0") != "UP"))
        self.assert_finds("error", "masters", "link 'lan0' has no carrier")

    def test_a_bridge_with_a_larger_MTU_than_the_uplink(self):
        run("ip", "link", "set", "up0", "mtu", "1400")
        shell(self.assert_finds("warning", "MTU", "'cni0' has MTU 1500", "'up0' 1400"))
        self.assertEqual(self.assert_finds("warning", "MTU", "'cni0' has MTU 1500"), "restart the pods of network 'net'")
        for n, pod in enumerate(self.pods):
            self.assert_ok(cnitool("del", "net", pod.path, CNI_PATH=BIN))
        for n, pod in enumerate(self.pods):
            self.add(pod, 8080 + n)
        self.assert_healthy()

    def test_a_file_system_that_is_read_only(self):
        run("mount", "-o", "remount,ro", "/var/lib")
        remedy = self.assert_finds("error", "disks", "read-only")
        self.assertEqual(len(self.doctor()[1]), 1)
        self.cured(remedy)

    @suite.cases([(path, path) for path in (f"{NETWORKS}/net", "/run/cni/portmap", "/var/lib/cni/results")])
    def a_file_where_a_folder_of_state_should_be(self, path):
        """No pod is to be restarted: its ADD would fail."""
        shutil.rmtree(path)
        with open(path, "w", encoding="ascii"):
            pass
        remedy = self.assert_finds("error", "disks", f"'{path}' is not a directory")
        self.assertEqual(len(self.doctor()[1]), 1)
        shell(remedy)
        self.assertNotIn("disks", {one["check"] for one in self.doctor()[1]})

    @suite.cases([(path, path) for path in ("/var/lib/cni/lock", f"{NETWORKS}/net/lock", "/run/cni/portmap/lock")])
    def a_folder_where_a_lock_should_be(self, path):
        if os.path.exists(path):
            os.unlink(path)
        os.mkdir(path)
        remedy = self.assert_finds("error", "disks", f"'{path}' is no regular file")
        self.assertEqual(len(self.doctor()[1]), 1)
        self.cured(remedy)

    def test_a_file_system_that_is_full(self):
        run("mount", "-o", "remount,size=4M", "/var/lib")
        with open("/var/lib/large", "wb") as file:
            try:
                file.write(b"x" * (8 << 20))
            except OSError:
                pass
        self.assert_finds("error", "disks", "0 % of its space")
        os.unlink("/var/lib/large")
        self.assert_healthy()

    def test_the_folder_of_what_a_reboot_ends_is_full(self):
        for options, what in (("size=64k", "space"), ("nr_inodes=40", "files")):
            with self.subTest(what):
                shutil.copytree("/run/cni", "/run/aside", symlinks=True)
                run("mount", "-t", "tmpfs", "-o", f"mode=755,{options}", "tmpfs", "/run/cni")
                shutil.copytree("/run/aside", "/run/cni", symlinks=True, dirs_exist_ok=True)
                self.assert_healthy()
                try:
                    for n in range(1000):
                        with open(f"/run/cni/large{n}", "wb") as file:
                            file.write(b"x" * 4096 if what == "space" else b"")
                except OSError:
                    pass
                self.assertIn("large", " ".join(os.listdir("/run/cni")))
                self.assert_finds("error", "disks", f"the file system of /run/cni has 0 % of its {what} left")
                self.assertEqual(len(self.doctor()[1]), 1)
                run("umount", "/run/cni")
                shutil.rmtree("/run/aside")

    def hold(self, path):
        """A process that has the lock, and the one that it waits for."""
        process = subprocess.Popen(["flock", path, "sleep", "300"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertTrue(wait_for(lambda: "FLOCK" in run("cat", "/proc/locks") and f" {process.pid} " in run("cat", "/proc/locks")))
        return process

    @suite.cases([(name, path) for name, path in (("host-local", f"{NETWORKS}/net/lock"), ("portmap", "/run/cni/portmap/lock"))])
    def a_hung_process_with_the_lock_of(self, path):
        process = self.hold(path)
        begin = time.monotonic()
        remedy = self.assert_finds("error", "locks", f"lock '{path}'", f"process {process.pid} (flock)", "(sleep)")
        self.assertLess(time.monotonic() - begin, 10)
        self.assertTrue(remedy.startswith("kill -9 "), remedy)
        self.cured(remedy)

    def test_a_process_of_the_node_that_listens_on_a_hostPort(self):
        import socket
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::")):
            with socket.create_server((address, 8080), family=family):
                remedy = self.assert_finds("warning", "hostPorts", "tcp port 8080", f"process {os.getpid()} (python3",
                                           container_of(self.pods[0].path)[:12])
                shell(remedy)
            self.assert_healthy()


if __name__ == "__main__":
    suite.main(needs=("sysctl", "mount"), per_processor=2)
