#!/usr/bin/env python3
"""patchbay-agent and the kubelet find each other as driver of DRA, whichever of them starts, ends, or is killed."""

import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, ledger, suite  # noqa: E402
from support.agent import Agent, slots  # noqa: E402
from support.claims import DraTest, result  # noqa: E402
from support.kubelet import Refused  # noqa: E402
from support.ledger import SLOT  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.world import wait_for  # noqa: E402

POOL = slots(4, SLOT, "eth1", ipam=ledger.pool("10.60.0.0/24"))
REGISTRY = "/var/lib/kubelet/plugins_registry"


def sockets():
    return sorted(os.listdir(REGISTRY))


@suite.spread
class Registration(DraTest):
    def second(self):
        """Another instance of the agent, as in a rolling update."""
        other = Agent(config=self.config, folder="/run/agent2", flags=["--plugin-dir", OURS])
        self.addCleanup(other.process.wait)
        self.addCleanup(lambda: other.process.kill())
        return other

    def assert_prepares(self, number):
        claim = self.claim(f"web-{number}-nic", result(f"eth1-macvlan-{number}"), pod=f"web-{number}")
        self.of.prepare(claim)
        self.of.unprepare(claim)

    def status(self):
        return subprocess.run([agent.PROGRAM, "status", "--socket", self.by.socket], capture_output=True, text=True, check=False)

    def test_the_socket_tells_the_versions_and_goes_with_the_agent(self):
        self.start(POOL)
        [path] = self.of.drivers()
        self.assertRegex(path, f"^{REGISTRY}/devices.patchbay-[0-9a-f]{{8}}-reg.sock$")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertTrue(wait_for(lambda: self.status().returncode == 0), self.by.log)
        self.assertEqual(self.by.stop(), 0)
        self.assertEqual(sockets(), [])

    def test_a_socket_that_was_removed_comes_back(self):
        self.start(POOL)
        [path] = self.of.drivers()
        os.unlink(path)
        self.assertTrue(wait_for(lambda: self.of.drivers() not in ([], [path])), self.by.log)
        self.assert_prepares(1)

    def test_dranet_19_a_kubelet_or_an_agent_that_was_killed_finds_the_other_again(self):
        self.start(POOL)
        self.of.restart()
        self.assert_registered()
        self.assert_prepares(1)
        old = self.of.drivers()
        self.by.kill()
        self.by.start()
        self.assertTrue(wait_for(lambda: self.of.drivers() and not set(old) & set(self.of.drivers())), self.by.log)
        self.assert_prepares(2)
        self.of.kill()
        self.by.kill()
        self.by.start()
        self.of.start()
        self.assertTrue(wait_for(lambda: any(os.path.exists(one) for one in self.of.drivers())), self.by.log)
        self.assertTrue(wait_for(lambda: self.status().returncode == 0), self.by.log)

    def test_a_kubelet_that_registers_the_driver_before_the_agent_sees_its_start_is_not_asked_again(self):
        self.start(POOL)
        self.assertTrue(wait_for(lambda: self.status().returncode == 0), self.by.log)
        before = self.of.drivers()
        self.of.restart()
        self.assert_registered()
        with open(f"{REGISTRY}/another", "w", encoding="utf-8"):  # the agent looks at the folder
            pass
        self.assertFalse(wait_for(lambda: self.status().returncode, 3), self.by.log)
        self.assertEqual(self.of.drivers(), before)

    @suite.cases([("a moment", 1), ("half a minute", 30), ("an hour", 3600), ("an hour by a clock that was set back", -3600)])
    def a_socket_goes_whose_agent_was_killed_after(self, seconds):
        self.start(POOL)
        [path] = self.of.drivers()
        self.by.kill()
        made = time.time() - seconds
        os.utime(path, (made, made))
        self.by.start()
        self.assertTrue(wait_for(lambda: os.path.basename(path) not in sockets()), self.by.log)
        self.assertTrue(wait_for(lambda: self.of.drivers() not in ([], [path])), self.by.log)
        time.sleep(1.5)
        # One more where the instance may have ended after this one began: kubelets with one client forget this one with it.
        self.assertLessEqual(self.by.log.count("serve '"), 3 if seconds == 1 else 2, self.by.log)

    @suite.cases([("ends", False), ("is killed", True)])
    def an_update_by_an_instance_beside_the_old_one_which(self, is_killed):
        self.start(POOL)
        [old] = self.of.drivers()
        other = self.second()
        self.assertTrue(wait_for(lambda: len(self.of.drivers()) == 2), other.log)
        new = self.of.drivers()[-1]
        self.assertNotEqual(new, old)
        self.assert_prepares(1)
        if is_killed:
            self.by.kill()
        else:
            self.by.stop()
        self.assertTrue(os.path.exists(new))
        self.assertTrue(wait_for(lambda: old not in self.of.drivers()), other.log)
        self.assertIn(new, self.of.drivers())  # at all times one that answers
        self.assert_prepares(2)

    def test_a_refused_registration_is_in_the_log_and_the_status(self):
        self.start(POOL, kubelet_options={"refuses": "no such driver here"})
        self.assertTrue(wait_for(lambda: "the kubelet refuses it: no such driver here" in self.by.log), self.by.log)
        status = self.status()
        self.assertEqual(status.returncode, 1)
        self.assertIn("not read by the kubelet", status.stdout)

    def test_without_the_folder_of_the_kubelet_the_agent_says_so(self):
        self.start(POOL, kubelet_options={"registry": False}, waits=False)
        self.assertTrue(wait_for(lambda: f"listen on '{REGISTRY}/devices.patchbay-" in self.by.log and "the folder does not exist" in self.by.log),
                        self.by.log)
        self.assertEqual(self.status().returncode, 1)
        os.mkdir(REGISTRY)
        self.of.restart()
        self.assert_registered()

    def test_the_driver_is_called_as_the_config_says(self):
        self.start(POOL, driver={"driver": "nics.vendor.example"}, waits=False)
        self.assertTrue(wait_for(lambda: self.of.drivers("nics.vendor.example")), self.by.log)
        with self.assertRaises(Refused):
            self.of.prepare(self.claim("a", result("eth1-macvlan-1")))


if __name__ == "__main__":
    suite.main(per_processor=2)
