#!/usr/bin/env python3
"""cnitool doctor where patchbay-agent is dead: what it finds, and that each remedy, carried out, makes the node healthy."""

import json
import os
import shutil
import signal
import subprocess
import sys
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, ledger, suite  # noqa: E402
from support.cnitool import cnitool, use  # noqa: E402
from support.doctor import BANDWIDTH, BIN, BRIDGE, PORTMAP, DoctorTest, chain, shell, write  # noqa: E402
from support.plugin import OURS, ROOT  # noqa: E402
from support.world import Pod, mount, wait_for  # noqa: E402

FAKES, PIDS = "/run/fakes", "/run/agent.pids"
UNIT = "patchbay-agent.service"
START = f"setsid {OURS}/patchbay-agent --kubelet-dir /run/kubelet --cdi-dir= --device-info-dir= >/run/agent.log 2>&1"
#: As systemd, which starts nothing if a condition is not met, and waits for sd_notify(3).
PLAYED = f"""#!/bin/sh
[ "$*" = "$EXPECTED" ] || {{ echo "unexpected: $*" >&2; exit 1; }}
[ -e {agent.CONFIG} ] || exit 0
{START} </dev/null & echo $! >>{PIDS}
for try in $(seq 200); do grep -q '"what":"start"' /run/agent.log && exit 0; sleep 0.05; done
exit 1
"""
SYSTEMCTL = f"enable --now {UNIT}"
ROLLOUT = "-n kube-system rollout restart daemonset/patchbay-agent"


class DeadAgent(DoctorTest):
    def setUp(self):
        if reason := agent.why_impossible():
            self.skipTest(reason)
        super().setUp()
        try:
            agent.cover_etc()
        except OSError as e:
            self.skipTest(str(e))
        for name in ("devices", "macvlan"):
            shutil.copy(os.path.join(OURS, name), BIN)
        write(agent.CONFIG, json.dumps({"pools": [agent.slots(parent="up0")]}))
        path = mock.patch.dict(os.environ, {"PATH": f"{FAKES}:{os.environ['PATH']}"})
        path.start()
        self.addCleanup(path.stop)
        self.addCleanup(self.kill)

    @staticmethod
    def play(program, expected):
        write(f"{FAKES}/{program}", PLAYED.replace("$EXPECTED", expected), 0o755)

    def install_unit(self):
        """The unit of the sources, with systemd played."""
        shutil.copy(os.path.join(ROOT, "plugins/devices/agent/systemd", UNIT), self.folder_of_units())
        self.play("systemctl", SYSTEMCTL)

    @staticmethod
    def folder_of_units():
        os.makedirs("/run/systemd/system", exist_ok=True)
        return "/run/systemd/system"

    @staticmethod
    def kill():
        """As the kernel's OOM killer: the socket's file stays."""
        if os.path.exists(PIDS):
            with open(PIDS, encoding="ascii") as file:
                for pid in file.read().split():
                    os.kill(int(pid), signal.SIGKILL)
                    wait_for(lambda pid=pid: not os.path.exists(f"/proc/{pid}/exe"))
            os.unlink(PIDS)

    @staticmethod
    def network(**more):
        use(chain(BRIDGE, {"type": "devices", **more}, PORTMAP, BANDWIDTH))

    def found(self):
        """All findings about devices, notes too."""
        outcome = cnitool("doctor", "--json", CNI_PATH=BIN)
        return [one for one in outcome.json["findings"] if one["check"] == "devices"]

    def assert_remedied(self, level, remedy, *words, besides=()):
        self.assertEqual(self.assert_finds(level, "devices", *words, besides=besides), remedy)
        self.cured(remedy)
        self.assertEqual([one["level"] for one in self.found()], ["ok"])

    def test_a_node_without_the_plugin_and_without_a_ledger_has_no_finding(self):
        self.assertEqual(self.found(), [])
        os.makedirs(agent.LEDGER)  # it has run once
        self.assertEqual(self.found(), [])

    def test_an_agent_that_has_never_run_is_noted(self):
        self.network()
        [one] = self.found()
        self.assertEqual((one["level"], one["remedy"]), ("note", "kubectl apply -f conf-examples/kubernetes/patchbay-agent.yaml"))
        self.assertTrue(os.path.exists(os.path.join(ROOT, one["remedy"].split()[-1])))
        self.install_unit()
        [one] = self.found()
        self.cured(one["remedy"])
        self.assertEqual([one["level"] for one in self.found()], ["ok"])

    def test_a_unit_without_a_config_starts_nothing(self):
        self.network()
        self.install_unit()
        os.unlink(agent.CONFIG)
        shell(f"systemctl {SYSTEMCTL}")
        remedy = self.found()[0]["remedy"]
        self.assertEqual(remedy, f"write {agent.CONFIG}, then systemctl {SYSTEMCTL}")
        write(agent.CONFIG, json.dumps({"pools": [agent.slots(parent="up0")]}))
        self.cured(remedy.partition(", then ")[2])

    def test_an_agent_that_was_killed_and_one_that_was_stopped(self):
        self.network()
        self.install_unit()
        shell(f"systemctl {SYSTEMCTL}")
        self.assert_healthy()
        self.kill()
        self.assert_remedied("warning", f"systemctl {SYSTEMCTL}", "nothing listens", agent.SOCKET)
        self.kill()
        os.unlink(agent.SOCKET)
        self.assert_remedied("warning", f"systemctl {SYSTEMCTL}", "no socket", agent.SOCKET)

    def test_the_folder_of_the_ledger_was_removed(self):
        self.network()
        self.install_unit()
        shell(f"systemctl {SYSTEMCTL}")
        self.assert_healthy()
        self.kill()
        shutil.rmtree(agent.LEDGER)
        self.assert_remedied("error", f"systemctl {SYSTEMCTL}", "was removed", agent.LEDGER)

    def test_a_device_that_no_container_has_makes_every_ADD_fail(self):
        self.network()
        self.install_unit()
        ledger.put("up0:macvlan:1", agent.RESOURCE, ledger.slot("up0"), promised=1)
        pod = Pod("late")
        done = cnitool("add", "net", pod.path, CNI_PATH=BIN, CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=a;K8S_POD_NAME=b;K8S_POD_UID=c")
        self.assertEqual(done.status, 1)
        self.assertIn("no container of another pod has it", done.stderr)
        [one] = self.found()
        self.assertIn("1 device in the ledger that no container has: ADD of any pod fails", one["why"])
        self.assertEqual(self.assert_finds("error", "devices", "does not run"), f"systemctl {SYSTEMCTL}")
        shell(f"systemctl {SYSTEMCTL}")
        self.assert_finds("warning", "devices", "1 device promised to a pod", r"no pod has claimed it for")

    def test_a_network_that_requires_a_device(self):
        self.network(required=True)
        self.install_unit()
        self.assert_remedied("error", f"systemctl {SYSTEMCTL}", "does not run", besides=("status",))

    def test_devices_of_the_ledger_whose_network_was_removed(self):
        ledger.put("up0:macvlan:1", agent.RESOURCE, ledger.slot("up0"), pod=ledger.pod_of("web-0"))
        self.play("kubectl", ROLLOUT)
        self.assertIn("1 device in the ledger", self.found()[0]["why"])
        self.assertEqual(self.assert_finds("warning", "devices", "does not run"), f"kubectl {ROLLOUT}")

    def test_pods_that_ask_for_a_device_start_without_it_where_no_network_has_the_plugin(self):
        self.install_unit()
        shell(f"systemctl {SYSTEMCTL}")
        remedy = self.assert_finds("error", "devices", "no network has the plugin devices")
        self.assertRegex(remedy, r"^add \{.type.: .devices.\} after the first plugin in '/.*conflist'")
        self.network()
        self.assert_healthy()

    def test_keys_of_the_plugin_name_another_socket_and_ledger(self):
        self.network(agentSocket="/run/other.sock", ledgerDir="/var/lib/other")
        os.makedirs("/var/lib/other")
        self.assert_finds("warning", "devices", "/run/other.sock")
        with subprocess.Popen(f"exec {START} --socket /run/other.sock --ledger /var/lib/other --config {agent.CONFIG}", shell=True,
                              stdin=subprocess.DEVNULL) as process:
            self.assertTrue(wait_for(lambda: os.path.exists("/run/other.sock"), 20))
            self.assert_healthy()
            process.kill()


if __name__ == "__main__":
    suite.main()
