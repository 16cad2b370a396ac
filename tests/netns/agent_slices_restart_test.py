#!/usr/bin/env python3
"""ResourceSlices of patchbay-agent over restarts, kills, other configs and a second instance."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, suite  # noqa: E402
from support.agent import nics, slots  # noqa: E402
from support.slices import PLURAL, SlicesTest, links  # noqa: E402
from support.world import run, wait_for  # noqa: E402


class Restarted(SlicesTest):
    def test_the_generation_goes_on_after_a_restart_and_a_kill(self):
        links("eth1")
        by = self.agent(nics("eth*"))
        self.assert_published(["netdev-eth1"], by)
        links("eth2")
        self.assert_published(["netdev-eth1", "netdev-eth2"], by)
        by.stop()
        by.start()
        self.assert_quiet()
        self.assertEqual(self.generations(), {2})
        by.kill()
        links("eth3")
        by.start()
        self.assert_published(["netdev-eth1", "netdev-eth2", "netdev-eth3"], by)
        self.assertEqual(self.generations(), {3})

    def test_another_config_changes_the_devices_and_none_removes_them(self):
        links("eth1", "eth2")
        by = self.agent(nics("eth1"))
        self.assert_published(["netdev-eth1"], by)
        by.stop()
        self.assertEqual(list(self.devices()), ["netdev-eth1"])  # a normal stop leaves them
        by.write(self.config(nics("eth2")))
        by.start()
        self.assert_published(["netdev-eth2"], by)
        by.stop()
        by.write(self.config(nics("eth2", devicePlugin=True)))
        by.start()
        self.assert_soon(lambda: self.slices() == [], by)

    def test_a_generation_that_a_kill_interrupted_is_completed(self):
        links("uplink")
        by = self.agent(slots(300))
        self.assert_soon(lambda: len(self.devices()) == 300 and self.is_whole(), by)
        for moment in (1, 2):  # requests after which it dies
            begun = len(self.api.seen("PUT", PLURAL))
            run("ip", "link", "set", "uplink", "mtu", str(1400 + moment))
            wait_for(lambda begun=begun, moment=moment: len(self.api.seen("PUT", PLURAL)) >= begun + moment, 10, 0.001)
            by.kill()
            by.start()
            self.assert_soon(lambda moment=moment: self.is_whole() and self.attribute("uplink-macvlan-1", "mtu") == 1400 + moment and
                             self.attribute("uplink-macvlan-300", "mtu") == 1400 + moment, by)
            self.assertEqual(len(self.devices()), 300)
            self.assert_quiet(1.5)

    def test_two_instances_with_one_config_write_nothing_twice(self):
        links("eth1")
        first = self.agent(nics("eth*"))
        second = self.agent(nics("eth*"), folder="/run/second", socket="/run/cni/second.sock")
        self.assert_published(["netdev-eth1"], first)
        self.assert_quiet(late=1)
        links("eth2")
        self.assert_published(["netdev-eth1", "netdev-eth2"], second)
        self.assert_quiet(late=1)
        self.assert_quiet()
        self.assertLessEqual(max(self.generations()), 3)
        first.stop()
        self.assert_quiet()
        links("eth3")
        self.assert_published(["netdev-eth1", "netdev-eth2", "netdev-eth3"], second)

    def test_two_instances_with_two_configs_write_seldom_until_one_ends(self):
        links("eth1", "eth2")
        first = self.agent(nics("eth1"))
        self.assert_published(["netdev-eth1"], first)
        second = self.agent(nics("eth2"), folder="/run/second", socket="/run/cni/second.sock")
        time.sleep(8)
        self.assertLessEqual(max(self.generations()), 22)  # each has ten at once
        first.stop()
        self.assert_published(["netdev-eth2"], second)
        self.assert_quiet()


if __name__ == "__main__":
    suite.main(per_processor=3) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
