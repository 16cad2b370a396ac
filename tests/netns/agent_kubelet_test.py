#!/usr/bin/env python3
"""patchbay-agent and the kubelet: registration both ways, restarts, allocation, streams, and two agents at once."""

import fcntl
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, kubelet, suite  # noqa: E402
from support.agent import RESOURCE, Agent, settle, slots  # noqa: E402
from support.kubelet import Kubelet, Refused  # noqa: E402
from support.world import run, set_up, wait_for  # noqa: E402

IDS = [f"uplink:macvlan:{n}" for n in range(1, 5)]
PLUGINS, REGISTRY = f"{kubelet.DIR}/device-plugins", f"{kubelet.DIR}/plugins_registry"

#: How often an agent is replaced or disturbed; scripts/test --full: 20.
UPDATES = int(os.environ.get("PATCHBAY_UPDATES", "3"))
WHOLE = UPDATES > 3
EACH = [(f"{way}, kubelet with {clients} of a resource", (registry, clients.split()[0]))
        for way, registry in (("a call", False), ("a socket that it finds", True)) for clients in ("one client", "many clients")]


def sockets(folder):
    """The agents' sockets in a folder."""
    return sorted(name for name in os.listdir(folder) if name.startswith("patchbay-")) if os.path.isdir(folder) else []


def served(by):
    """How many sockets for the kubelet an agent has made."""
    return sum(line["what"].startswith("serve '") for line in by.lines())


def status(by):
    return subprocess.run([agent.PROGRAM, "status", "--socket", by.socket], capture_output=True, text=True, check=False, timeout=30)


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
        self.assertLessEqual(served(by), 4, by.log)

    def test_the_status_says_whether_the_kubelet_reads_the_devices(self):
        by = self.agent()
        asked = status(by)
        self.assertEqual(asked.returncode, 1)
        self.assertEqual(asked.stdout, f"{RESOURCE}: 4 devices, 4 healthy, not read by the kubelet\n")
        self.assertIn(f"the kubelet does not read the list of '{RESOURCE}'", asked.stderr)
        of = self.kubelet()
        self.assert_listed(of, by=by)
        self.assertTrue(wait_for(lambda: status(by).returncode == 0), by.log)
        self.assertEqual(status(by).stdout, f"{RESOURCE}: 4 devices, 4 healthy\n")
        of.kill()
        self.assertTrue(wait_for(lambda: status(by).returncode == 1), by.log)

    @suite.cases([("a call", False), ("a socket that it finds", True)])
    def while_the_kubelet_is_away_nothing_is_registered_by(self, registry):
        """Its socket stays, and nobody listens on it."""
        of = self.kubelet(registry=registry)
        by = self.agent()
        self.assert_listed(of, by=by)
        of.kill()
        self.assertTrue(wait_for(lambda: not by.status()[0]["read"]), by.log)
        time.sleep(15 if WHOLE else 0.5)
        self.assertEqual(served(by), 1, by.log)
        of.start()
        self.assert_listed(of, by=by)
        self.assertEqual(of.resource(RESOURCE)["registrations"], 1)
        self.assertLessEqual(served(by), 2, by.log)

    @suite.cases([("a call", False), ("a socket that it finds", True)])
    def after_an_update_while_the_kubelet_was_stopped_it_learns_of_devices_by(self, registry):
        """Its socket accepts connections meanwhile."""
        of = self.kubelet(registry=registry)
        old = self.agent()
        self.assert_listed(of, by=old)
        of.signal(signal.SIGSTOP)
        new = self.agent(folder="/run/new")
        old.stop()
        time.sleep(15 if WHOLE else 0.5)
        of.signal(signal.SIGCONT)
        self.assert_listed(of, by=new)
        time.sleep(1)
        self.assertLessEqual(of.resource(RESOURCE)["registrations"], 4)
        self.assert_listed(of, by=new)

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
    """As during an upgrade."""

    def other(self, number):
        return self.agent(folder=f"/run/agent{number}")

    def registered(self, of, count, *agents):
        """After as many registrations, no more of them, the kubelet has the devices, and the agent that is left says so."""
        logs = "\n\n".join(one.log for one in agents)
        self.assertTrue(wait_for(lambda: of.resource(RESOURCE).get("registrations") == count, 20), f"{of.ask('state')}, not {count}\n{logs}")
        self.assert_listed(of, by=agents[-1])
        self.assertTrue(wait_for(lambda: agents[-1].status()[0].get("read", True)), agents[-1].log)

    def assert_steady(self, of, count):
        time.sleep(1)
        state = of.resource(RESOURCE)
        self.assertEqual(state["registrations"], count)
        # 10 s is the agent's patience with a kubelet that does not read.
        self.assertLess(state["longest"], 1 if WHOLE else 5)

    @suite.cases(EACH)
    def each_update_costs_two_registrations_by(self, row):
        """That of the new agent, and one more after the end of the old one."""
        registry, clients = row
        of = self.kubelet(registry=registry, clients=clients)
        old, count = self.agent(), 1
        self.registered(of, count, old)
        for number in range(UPDATES):
            new = self.other(number)
            self.registered(of, count + 1, old, new)
            self.assertEqual(old.stop(), 0, old.log)
            count += 2
            self.registered(of, count, old, new)
            self.assertEqual(len(sockets(PLUGINS) + sockets(REGISTRY)), 1, "sockets are left over")
            self.assertEqual(len(of.allocate(RESOURCE, IDS[:1])), 1)
            old = new
        self.assert_steady(of, count)

    @suite.cases([(f"{how}, by {name}", (how, *row)) for how in ("ends", "is killed") for name, row in EACH
                  if WHOLE or row[1] == "one"])
    def an_agent_that_stays_registers_once_if_the_other(self, row):
        how, registry, clients = row
        of = self.kubelet(registry=registry, clients=clients)
        by, count = self.agent(), 1
        self.registered(of, count, by)
        for number in range(UPDATES if WHOLE else 1):
            other = self.other(number)
            self.registered(of, count + 1, by, other)
            other.kill() if how == "is killed" else other.stop()
            count += 2
            self.assertTrue(wait_for(lambda count=count: of.resource(RESOURCE)["registrations"] == count, 20), by.log)
            self.assert_listed(of, by=by)
            self.assertEqual(len(sockets(PLUGINS) + sockets(REGISTRY)), 1, "sockets are left over")
        self.assert_steady(of, count)

    def test_two_that_live_leave_each_other_alone(self):
        of = self.kubelet()
        one = self.agent()
        self.registered(of, 1, one)
        other = self.other(1)
        self.registered(of, 2, one, other)
        other_name = of.resource(RESOURCE)["socket"]
        os.unlink(f"{REGISTRY}/{other_name}")  # it registers again, and has no socket for a moment
        self.assertTrue(wait_for(lambda: of.resource(RESOURCE)["registrations"] >= 3, 10), other.log)
        self.assert_listed(of, by=other)
        before = of.resource(RESOURCE)["registrations"]
        self.assert_steady(of, before)

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
    suite.main(per_processor=2)
