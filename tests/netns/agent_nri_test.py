#!/usr/bin/env python3
"""patchbay-agent with --nri-socket sees pods, and looks at its devices as soon as a sandbox has ended: at runtimes of NRI 0.8
to 0.12."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, suite  # noqa: E402
from support.agent import RESOURCE, Agent, slots  # noqa: E402
from support.nri_node import IDS, NriNode  # noqa: E402
from support.nri_runtime import Sandbox, Status, field, message  # noqa: E402
from support.world import wait_for  # noqa: E402

VERSIONS = [(f"NRI {major}.{minor}{how}", ((major, minor), crossing))
            for major, minor, how, crossing in ((0, 8, "", False), (0, 9, "", True), (0, 11, "", True), (0, 12, "", True),
                                                (0, 12, " that answers before it configures", False))]


@suite.spread
class Seen(NriNode):
    @suite.cases(VERSIONS)
    def the_end_of_a_sandbox_is_seen_at_once_with(self, how):
        version, crossing = how
        of, web, other = self.runtime(version=version, crossing=crossing), Sandbox("web"), Sandbox("other")
        self.agent()
        self.assertEqual(of.plugin().mask, 0x7)
        self.assertEqual((of.plugin().name, of.plugin().index), ("patchbay-agent", "90"))
        self.admit(web, IDS[0])
        for one in (web, other):
            of.run(one)
        self.quiet()
        of.stop_sandbox(other)
        of.remove(other)
        self.assertIs(self.looks(0.7), False, "a pod without devices concerns nobody")
        of.remove(web)
        self.assertTrue(self.looks(2), self.by.log)
        self.assertIn("default/web", [line.get("pod") for line in self.by.lines() if "sandbox ended" in line["what"]])
        self.assertEqual(of.failures, [])

    def test_a_sandbox_that_ended_while_the_runtime_was_away_is_seen_when_it_is_back_and_nothing_is_taken(self):
        of, web, late = self.runtime(), Sandbox("web"), Sandbox("late")
        self.agent()
        self.admit(web, IDS[0])
        self.admit(late, IDS[1])  # its ADD runs: the runtime does not list its sandbox yet
        of.run(web)
        self.quiet()
        of.stop()
        del of.sandboxes[web.id]
        of.start()
        of.plugin()
        self.assertTrue(self.looks(5), self.by.log)
        self.assertEqual([line["pod"] for line in self.by.lines() if "sandbox ended" in line["what"]], ["default/web"])
        self.assertEqual(set(agent.ledger()), set(IDS[:2]), "the kubelet lists both pods")

    def test_without_the_flag_it_does_not_register(self):
        of = self.runtime()
        self.by = Agent(slots(4))
        self.addCleanup(lambda: self.by.kill())
        self.assertTrue(wait_for(lambda: len(self.of.devices(RESOURCE)) == 4, 20))
        self.assertEqual((of.plugins, of.failures), ([], []))

    def test_a_call_that_is_unknown_is_answered_as_unimplemented(self):
        of = self.runtime()
        self.agent()
        plugin = of.plugin()
        for method, service in (("Explode", "nri.pkg.api.v1alpha1.Plugin"), ("RunPodSandbox", "nri.pkg.api.v2.Plugin")):
            with self.assertRaisesRegex(Status, "^12: "):
                plugin.call(method, service=service)
        self.assertEqual(plugin.call("StateChange", field(1, 99)), b"")
        self.assertEqual(plugin.call("CreateContainer", message(1, Sandbox("web").encoded())), b"", "it asks for none")
        self.assertEqual(plugin.call("Shutdown"), b"")
        self.assertIs(plugin.ended.is_set(), False)

    def test_a_payload_that_is_no_message_is_refused_and_the_next_one_served(self):
        of = self.runtime()
        self.agent()
        plugin = of.plugin()
        with self.assertRaisesRegex(Status, "^3: "):
            plugin.call("RunPodSandbox", b"\xff" * 100)
        self.assertEqual(plugin.happen("RunPodSandbox", Sandbox("web")), b"")

    def test_frames_of_any_size_are_read(self):
        of = self.runtime()
        self.agent()
        web = Sandbox("web", padding=20_000)
        for pieces in (1, 7, 4096, 1 << 20):
            of.pieces = pieces
            self.assertEqual(of.run(web), b"")
        self.assertIs(of.plugin().ended.is_set(), False)


if __name__ == "__main__":
    suite.main(per_processor=2)
