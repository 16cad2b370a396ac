#!/usr/bin/env python3
"""ResourceSlices of patchbay-agent and the API server: what others change, and what the server drops."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, suite  # noqa: E402
from support.agent import nics, slots  # noqa: E402
from support.slices import API, NODE, PLURAL, SlicesTest, links  # noqa: E402
from support.world import run, set_up, wait_for  # noqa: E402

EXPECTED = ["netdev-eth1"]


class Foreign(SlicesTest):
    def setUp(self):
        super().setUp()
        links("eth1")
        self.by = self.agent(nics("eth*"))
        self.assert_published(EXPECTED, self.by)
        self.name = self.slices()[0]["metadata"]["name"]

    def test_a_foreign_edit_is_corrected(self):
        self.api.patch(API, PLURAL, self.name, {"spec": {"devices": []}})
        self.assert_published(EXPECTED, self.by)
        self.assertEqual(self.generations(), {2})
        self.api.patch(API, PLURAL, self.name, {"metadata": {"ownerReferences": None}})
        self.assert_soon(lambda: self.slices()[0]["metadata"].get("ownerReferences"), self.by)
        self.assert_quiet()

    def test_what_others_add_to_metadata_stays(self):
        self.api.patch(API, PLURAL, self.name, {"metadata": {"labels": {"of": "somebody"}}})
        self.assert_quiet()
        self.assertEqual(self.slices()[0]["metadata"]["labels"], {"of": "somebody"})

    def test_a_removed_slice_is_published_again_at_once(self):
        self.api.remove(API, PLURAL, self.name)
        self.assertEqual(self.slices(), [])
        begun = time.monotonic()
        self.assert_published(EXPECTED, self.by)
        self.assertLess(time.monotonic() - begun, 5)
        self.assertGreater(min(self.generations()), 1)

    def test_a_further_slice_of_the_driver_is_removed(self):
        copy = self.slices()[0]
        copy["metadata"] = {"name": "a-copy"}
        self.api.create(API, PLURAL, copy)
        self.assert_soon(lambda: [one["metadata"]["name"] for one in self.slices()] == [self.name], self.by)

    def test_a_node_that_was_made_again_is_the_new_owner(self):
        self.api.remove("v1", "nodes", NODE)
        self.api.create("v1", "nodes", {"metadata": {"name": NODE}})
        self.api.remove(API, PLURAL, self.name)  # as the garbage collector does
        uid = self.api.get("v1", "nodes", NODE)["metadata"]["uid"]
        self.assert_soon(lambda: [one["metadata"]["ownerReferences"][0]["uid"] for one in self.slices()] == [uid], self.by)


class Changed(SlicesTest):
    def test_a_slice_that_exists_already_is_taken_over(self):
        links("eth1")
        old = {"metadata": {"name": f"{NODE}-devices.patchbay-000"},
               "spec": {"driver": "devices.patchbay", "nodeName": NODE, "pool": {"name": NODE, "generation": 41, "resourceSliceCount": 1}, "devices": []}}
        self.api.create(API, PLURAL, old)
        by = self.agent(nics("eth*"))
        self.assert_published(EXPECTED, by)
        self.assertEqual(self.generations(), {42})

    def test_a_change_while_the_watch_has_expired_is_seen(self):
        links("eth1")
        by = self.agent(nics("eth*"))
        self.assert_published(EXPECTED, by)
        self.api.store.expire()
        self.api.disconnect()
        self.api.remove(API, PLURAL, self.slices()[0]["metadata"]["name"])
        self.assert_published(EXPECTED, by, 20)

    def test_a_slice_that_is_removed_before_its_answer_arrives_is_published_again(self):
        links("eth1")
        self.api.fault("POST", PLURAL, late=1.5)
        by = self.agent(nics("eth*"))
        self.assert_soon(self.slices, by)
        self.api.remove(API, PLURAL, self.slices()[0]["metadata"]["name"])
        self.assert_published(EXPECTED, by)

    def test_devices_that_need_a_field_which_the_server_drops_are_left_out(self):
        put = self.api.store._put

        def dropping(kind, item, what):
            for device in item.get("spec", {}).get("devices") or []:
                device.pop("taints", None)
                device.pop("allowMultipleAllocations", None)
                for one in device.get("capacity", {}).values():
                    one.pop("requestPolicy", None)
            return put(kind, item, what)
        self.api.store._put = dropping
        links("eth1", "eth2", "uplink")
        set_up("out-eth2", False)
        pool = slots(4)
        pool["slots"]["bandwidth"] = 10**9
        by = self.agent(nics("eth*"), pool)
        self.assert_soon(lambda: list(self.devices()) == EXPECTED and self.is_whole(), by)
        self.assertIn("DRADeviceTaints DRAConsumableCapacity", by.log)
        self.assert_quiet()

    def test_a_server_that_changes_what_it_stores_is_not_written_to_for_ever(self):
        put = self.api.store._put

        def changing(kind, item, what):
            for device in item.get("spec", {}).get("devices") or []:
                device["attributes"]["mtu"] = {"int": 1}
            return put(kind, item, what)
        self.api.store._put = changing
        links("eth1")
        by = self.agent(nics("eth*"))
        self.assert_soon(lambda: self.metric("slices_right") == 1, by)
        self.assert_quiet(4)

    def test_a_link_that_comes_and_goes_is_published_seldom(self):
        links("eth1", "eth2")
        by = self.agent(nics("eth*"))
        self.assert_published([*EXPECTED, "netdev-eth2"], by)
        end = time.monotonic() + 8
        while time.monotonic() < end:
            run("ip", "link", "set", "eth2", "mtu", str(1400 + int(time.monotonic() * 5) % 50))
            time.sleep(0.2)
        self.assertLessEqual(max(self.generations()), 11)
        self.assertTrue(wait_for(lambda: self.metric("slices_right") == 1, 20))


if __name__ == "__main__":
    suite.main(per_processor=3) if not agent.why_impossible() else sys.exit(suite.SKIPPED)
