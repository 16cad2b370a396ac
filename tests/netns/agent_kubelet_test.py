#!/usr/bin/env python3
"""patchbay-agent and the kubelet: registration both ways, restarts, allocation, streams, and two agents at once."""

import fcntl
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, kubelet, suite  # noqa: E402
from support.agent import RESOURCE, Agent, settle, slots  # noqa: E402
from support.kubelet import Kubelet, Refused  # noqa: E402
from support.world import run, set_up, wait_for  # noqa: E402

IDS = [f"uplink:macvlan:{n}" for n in range(1, 5)]
PLUGINS, REGISTRY = f"{kubelet.DIR}/device-plugins", f"{kubelet.DIR}/plugins_registry"


def sockets(folder):
    """The agents' sockets in a folder."""
    return sorted(name for name in os.listdir(folder) if name.startswith("patchbay-")) if os.path.isdir(folder) else []


class Node(suite.NodeTest):
    """A node with a link that slots stand on."""

    def setUp(self):
        super().setUp()
        run("ip", "link", "add", "uplink", "type", "veth", "peer", "name", "uplink-out")
        set_up("uplink-out")
        set_up("uplink")

    def kubelet(self, **options):
        made = Kubelet(**options)
        self.addCleanup(made.kill)
        return made

    def agent(self, *pools, **options):
        made = Agent(*(pools or [slots()]), **options)
        self.addCleanup(made.process.wait)
        self.addCleanup(lambda: made.process.kill())
        return made

    def assert_listed(self, of, ids=IDS, resource=RESOURCE, seconds=20, by=None):
        healthy = dict.fromkeys(ids, "Healthy")
        found = wait_for(lambda: of.devices(resource) == healthy, seconds)
        self.assertTrue(found, f"{of.ask('state')}\n{by.log if by else ''}")

    def assert_refused(self, code, *texts, call):
        with self.assertRaises(Refused) as caught:
            call()
        self.assertEqual(caught.exception.code, code, caught.exception.text)
        for text in texts:
            self.assertIn(text, caught.exception.text)


@suite.spread
class Registration(Node):
    @suite.cases([("a call, and the kubelet calls back before its answer", (False, "before", "call")),
                  ("a call, and the kubelet calls back after its answer", (False, "after", "call")),
                  ("a socket that the kubelet finds", (True, "before", "found"))])
    def the_kubelet_learns_of_devices_by(self, row):
        registry, call_back, way = row
        of = self.kubelet(registry=registry, call_back=call_back)
        by = self.agent(slots(4), slots(2, "vendor.example/second", first=5))
        self.assert_listed(of, by=by)
        self.assert_listed(of, ["uplink:macvlan:5", "uplink:macvlan:6"], "vendor.example/second", by=by)
        state = of.resource(RESOURCE)
        self.assertEqual(state["way"], way)
        self.assertEqual(state["options"], {"pre_start_required": False, "get_preferred_allocation_available": True})
        self.assertEqual(state["numa"], {})
        self.assertEqual(state["registrations"], 1)

    @suite.cases([("a call", False), ("a socket that it finds", True)])
    def a_kubelet_that_starts_later_learns_of_devices_by(self, registry):
        os.makedirs(REGISTRY if registry else kubelet.DIR)
        by = self.agent()
        self.assert_listed(self.kubelet(registry=registry), by=by)

    @suite.cases([("a call", False), ("a socket that it finds", True)])
    def after_a_restart_that_deletes_all_sockets_the_kubelet_learns_of_devices_again_by(self, registry):
        of = self.kubelet(registry=registry)
        by = self.agent()
        for _ in range(3):
            self.assert_listed(of, by=by)
            of.allocate(RESOURCE, IDS[:1])
            of.restart()
        self.assert_listed(of, by=by)
        self.assertEqual(len(sockets(PLUGINS) + sockets(REGISTRY)), 1, "sockets are left over")

    def test_a_deleted_socket_is_made_again(self):
        of = self.kubelet(registry=False)
        by = self.agent()
        self.assert_listed(of, by=by)
        [name] = sockets(PLUGINS)
        os.unlink(f"{PLUGINS}/{name}")
        self.assertTrue(wait_for(lambda: of.resource(RESOURCE)["registrations"] == 2, 10), by.log)
        self.assert_listed(of, by=by)

    @suite.cases([("a call", False), ("a socket that it finds", True)])
    def after_a_stream_that_broke_the_kubelet_reads_devices_again_by(self, registry):
        of = self.kubelet(registry=registry)
        by = self.agent()
        self.assert_listed(of, by=by)
        of.ask("break", resource=RESOURCE)
        self.assertTrue(wait_for(lambda: not of.resource(RESOURCE)["open"]))
        self.assert_listed(of, seconds=40, by=by)

    def test_a_kubelet_that_finds_no_socket_gets_a_call(self):
        """It has plugins_registry, and does not look there."""
        of = self.kubelet(mute=True)
        by = self.agent()
        self.assertTrue(wait_for(lambda: any(line["what"] == "register again" for line in by.lines()), 20), by.log)
        of.ask("mute", mute=False)
        self.assert_listed(of, seconds=60, by=by)

    def test_a_kubelet_that_does_not_answer_holds_up_no_end(self):
        self.kubelet(registry=False, register_delay=60)
        by = self.agent()
        self.assertTrue(wait_for(lambda: sockets(PLUGINS), 10), by.log)
        time.sleep(0.5)
        self.assertEqual(by.stop(5), 0, by.log)
        self.assertEqual(sockets(PLUGINS), [])


class Streams(Node):
    def test_the_health_follows_the_parent(self):
        of = self.kubelet()
        by = self.agent()
        self.assert_listed(of, by=by)
        for up in (False, True, False):
            set_up("uplink", up)
            health = "Healthy" if up else "Unhealthy"
            self.assertTrue(wait_for(lambda health=health: of.devices(RESOURCE) == dict.fromkeys(IDS, health), 20), by.log)
        self.assertEqual(of.resource(RESOURCE)["registrations"], 1)

    def test_a_thousand_devices_are_listed(self):
        of = self.kubelet()
        by = self.agent(slots(1000))
        self.assert_listed(of, [f"uplink:macvlan:{n}" for n in range(1, 1001)], by=by)
        self.assertEqual(len(of.allocate(RESOURCE, [f"uplink:macvlan:{n}" for n in range(1, 1001)])), 1)


class Allocation(Node):
    def setUp(self):
        super().setUp()
        self.of = self.kubelet()
        self.by = self.agent()
        self.assert_listed(self.of, by=self.by)

    def test_devices_are_promised_and_named_in_the_environment(self):
        first, second = self.of.allocate(RESOURCE, IDS[:2], IDS[2:3])
        self.assertEqual(first["envs"]["PCIDEVICE_VENDOR_EXAMPLE_MACVLAN"], ",".join(IDS[:2]))
        self.assertEqual(second["envs"]["PCIDEVICE_VENDOR_EXAMPLE_MACVLAN"], IDS[2])
        entries = agent.ledger().values()
        self.assertEqual(sorted(entry["id"] for entry in entries), IDS[:3])
        self.assertTrue(all(entry["promised"] for entry in entries))

    def test_the_same_devices_may_be_allocated_again(self):
        for _ in range(20):
            self.assertEqual(len(self.of.allocate(RESOURCE, IDS[:2])), 1)
        self.assertEqual(len(agent.ledger()), 2)

    def test_an_allocation_that_waits_holds_up_no_other_call(self):
        """For the lock of the ledger, which a plugin has."""
        with open(f"{agent.LEDGER}/.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assert_refused("DEADLINE_EXCEEDED", call=lambda: self.of.allocate(RESOURCE, IDS[:1], timeout=2))
            options = self.of.ask("call", resource=RESOURCE, method="GetDevicePluginOptions", request={}, timeout=2)
            self.assertTrue(options["get_preferred_allocation_available"])
        self.assertEqual(len(self.of.allocate(RESOURCE, IDS[:1])), 1)

    def test_preferred_devices_are_of_the_available_ones(self):
        request = {"available": IDS[1:], "required": IDS[3:], "size": 2}
        answer = self.of.ask("call", resource=RESOURCE, method="GetPreferredAllocation",
                             request={"container_requests": [request]}, timeout=5)
        [chosen] = answer["container_responses"]
        self.assertEqual(len(chosen["device_ids"]), 2)
        self.assertIn(IDS[3], chosen["device_ids"])
        self.assertLessEqual(set(chosen["device_ids"]), set(IDS[1:]))

    def test_before_a_container_starts_nothing_is_done(self):
        self.of.ask("call", resource=RESOURCE, method="PreStartContainer", request={"device_ids": IDS}, timeout=5)
        self.assertEqual(agent.ledger(), {})

    def test_what_makes_no_sense_is_refused_and_promises_nothing(self):
        def allocate(*containers):
            return lambda: self.of.allocate(RESOURCE, *containers)

        def prefer(**request):
            return lambda: self.of.ask("call", resource=RESOURCE, method="GetPreferredAllocation",
                                       request={"container_requests": [request]}, timeout=5)

        bad = "INVALID_ARGUMENT"
        longest = "x" * 63
        self.assert_refused(bad, f"device '{longest}' does not exist in resource '{RESOURCE}'", call=allocate([longest]))
        self.assert_refused(bad, "expected 1 to 63 characters", call=allocate([longest + "x"]))
        self.assert_refused(bad, "expected 1 to 63 characters", call=allocate(IDS[:1], [""]))
        self.assert_refused(bad, "'../../etc/passwd' does not exist", call=allocate(IDS[:1], ["../../etc/passwd"]))
        self.assert_refused(bad, "listed twice", call=allocate(IDS[:1] * 2))
        self.assert_refused(bad, "more than 100 containers", call=allocate(*[IDS[:1]] * 101))
        self.assert_refused(bad, "more than 10000 device ids", call=allocate([f"i{n}" for n in range(10001)]))
        self.assert_refused("RESOURCE_EXHAUSTED", "larger than max", call=allocate(["x" * (2 << 20)]))
        self.assert_refused(bad, "allocation_size -1", call=prefer(available=IDS, size=-1))
        self.assert_refused(bad, "allocation_size 5", call=prefer(available=IDS, size=5))
        self.assert_refused(bad, "allocation_size 1", call=prefer(available=IDS, required=IDS[:2], size=1))
        self.assert_refused(bad, "does not exist", call=lambda: self.of.ask(
            "call", resource=RESOURCE, method="PreStartContainer", request={"device_ids": ["none"]}, timeout=5))
        self.assertEqual(agent.ledger(), {})
        self.assert_listed(self.of)


@suite.spread
class TwoAgents(Node):
    """As during an upgrade; each with its socket for plugins, because the later one takes that over."""

    @suite.cases([("a call", False), ("a socket that it finds", True)])
    def neither_removes_the_others_socket_if_the_kubelet_learns_by(self, registry):
        of = self.kubelet(registry=registry)
        folder = REGISTRY if registry else PLUGINS
        old = self.agent()
        self.assert_listed(of, by=old)
        new = self.agent(folder="/run/new", socket="/run/new/devices.sock")
        self.assertTrue(wait_for(lambda: len(sockets(folder)) == 2, 10), new.log)
        self.assertTrue(settle(lambda: of.resource(RESOURCE)["registrations"] >= 2), new.log)
        begun = of.resource(RESOURCE)["registrations"]
        self.assertEqual(old.stop(), 0, old.log)
        self.assertTrue(wait_for(lambda: len(sockets(folder)) == 1, 10))
        # A kubelet with one client for a resource has lost it now.
        self.assertTrue(wait_for(lambda: of.resource(RESOURCE)["registrations"] > begun, 20), new.log)
        self.assert_listed(of, by=new)
        self.assertEqual(len(of.allocate(RESOURCE, IDS[:1])), 1)

    def test_an_end_removes_own_sockets_alone(self):
        of = self.kubelet()
        by = self.agent()
        self.assert_listed(of, by=by)
        for folder in (PLUGINS, REGISTRY):
            with open(f"{folder}/other.sock", "w", encoding="ascii"):
                pass
        self.assertEqual(by.stop(), 0, by.log)
        self.assertEqual(sockets(PLUGINS) + sockets(REGISTRY), [])
        self.assertTrue(os.path.exists(f"{PLUGINS}/other.sock") and os.path.exists(f"{REGISTRY}/other.sock"))
        self.assertTrue(wait_for(lambda: not of.resource(RESOURCE)["open"]))

    def test_sockets_of_a_killed_agent_are_removed_by_the_next(self):
        os.makedirs(REGISTRY)
        by = self.agent()
        self.assertTrue(wait_for(lambda: sockets(REGISTRY)), by.log)
        by.kill()
        [name] = sockets(REGISTRY)
        os.utime(f"{REGISTRY}/{name}", (1, 1))  # a young one may be about to be listened on
        by.start()
        self.assertTrue(wait_for(lambda: len(sockets(REGISTRY)) == 1 and sockets(REGISTRY) != [name]), by.log)


if __name__ == "__main__":
    reason = kubelet.why_impossible() or agent.why_impossible()
    if reason:
        print(f"skip everything: {reason}\n0 passed, 0 failed, 1 skipped", flush=True)
        sys.exit(suite.SKIPPED)
    suite.main(daemons=True)
