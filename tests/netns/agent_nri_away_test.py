#!/usr/bin/env python3
"""patchbay-agent with --nri-socket at a runtime that starts, ends, is not installed, or finds the agent too slow, and how
soon a device is free whose sandbox has ended."""

import fcntl
import os
import shutil
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import ledger, suite  # noqa: E402
from support.nri_node import IDS, NriNode  # noqa: E402
from support.nri_runtime import CutOff, Sandbox  # noqa: E402
from support.world import wait_for  # noqa: E402


class Away(NriNode):
    """The runtime."""

    def idle(self):
        begun = self.by.processor_seconds()
        time.sleep(5)
        self.assertLess(self.by.processor_seconds() - begun, 0.05)

    def registered(self, of):
        return wait_for(lambda: of.plugins and not of.plugins[-1].ended.is_set(), 10)

    def test_a_socket_that_does_not_exist_is_waited_for_without_polling_also_in_a_folder_that_is_made_anew(self):
        shutil.rmtree("/run/nri", ignore_errors=True)
        self.agent()
        self.idle()
        begun = time.monotonic()
        of = self.runtime()
        self.assertTrue(self.registered(of), self.by.log)
        self.assertLess(time.monotonic() - begun, 2)
        of.stop()
        shutil.rmtree("/run/nri")
        time.sleep(1)
        again = self.runtime()
        self.assertTrue(self.registered(again), self.by.log)
        self.idle()

    def test_one_that_is_killed_is_found_again_and_the_agent_does_not_end(self):
        of = self.runtime()
        self.agent()
        for _ in range(3):
            self.assertTrue(self.registered(of), self.by.log)
            of.stop(unlink=False)  # the socket's file stays
            time.sleep(0.3)
            of.start()
        self.assertTrue(self.registered(of), self.by.log)
        self.assertTrue(self.by.is_alive())
        self.assertEqual(of.failures, [])

    def test_one_that_refuses_the_agent_is_asked_seldom(self):
        of = self.runtime(version=(0, 8))
        of.admit = lambda connection: (of.failures.append(time.monotonic()), connection.close())
        self.agent()
        time.sleep(5)
        self.assertLess(len(of.failures), 9)
        self.assertGreater(len(of.failures), 3)

    def test_an_agent_that_is_stopped_is_cut_off_after_2_s_and_registers_again(self):
        of = self.runtime()
        self.agent()
        plugin = of.plugin()
        os.kill(self.by.process.pid, signal.SIGSTOP)
        os.waitpid(self.by.process.pid, os.WUNTRACED)  # until all threads have stopped
        begun = time.monotonic()
        with self.assertRaises(CutOff):
            plugin.happen("RunPodSandbox", Sandbox("web"))
        self.assertAlmostEqual(time.monotonic() - begun, 2, delta=0.5)
        os.kill(self.by.process.pid, signal.SIGCONT)
        self.assertTrue(self.registered(of), self.by.log)

    def test_while_the_ledger_is_locked_events_are_answered_at_once(self):
        of, web = self.runtime(), Sandbox("web")
        self.agent()
        self.admit(web, IDS[0])
        with open(f"{ledger.LEDGER}/.lock", "a", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            begun = time.monotonic()
            of.run(web)
            of.stop_sandbox(web)
            of.remove(web)
            self.assertLess(time.monotonic() - begun, 1)

    def test_a_list_of_megabytes_leaves_no_memory(self):
        self.runtime(sandboxes=[Sandbox(f"pod{n}", padding=30_000) for n in range(110)], chunk=110)
        self.agent()
        self.assertTrue(wait_for(lambda: "register at the container runtime" in self.by.log, 10), self.by.log)
        self.assertLess(self.by.memory(), 20 << 10)


class Free(NriNode):
    def test_a_device_is_free_30_s_after_its_pods_sandbox_was_removed(self):
        of, web = self.runtime(), Sandbox("web")
        self.agent()
        self.admit(web, IDS[0])
        of.run(web)
        self.quiet()
        self.of.disown(web.space, web.name)
        of.stop_sandbox(web)
        of.remove(web)
        begun = time.monotonic()
        self.assertTrue(wait_for(lambda: not ledger.devices(), 40), self.by.log)
        self.assertGreater(time.monotonic() - begun, 25, "a kubelet that has just started lists nothing: two looks")
        self.assertLess(time.monotonic() - begun, 34)


if __name__ == "__main__":
    suite.main(per_processor=3)
