#!/usr/bin/env python3
"""containerd and pods with two devices of the node, by a kubelet's Allocate, patchbay-agent and the plugin devices: a
pod has both or does not start, also where patchbay-agent is killed between, and at the end the node has them again."""

import contextlib
import fcntl
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, ledger, suite  # noqa: E402
from support.agent import SOCKET, Agent, nics, slots  # noqa: E402
from support.cnitool import cached  # noqa: E402
from support.containerd import NEEDED, OWN_FILES, PAGE, PodsTest  # noqa: E402
from support.kubelet import Kubelet, Refused  # noqa: E402
from support.ledger import NIC, SLOT  # noqa: E402
from support.snapshot import pod_snapshot, snapshot  # noqa: E402
from support.world import Pod, fetch, run, wait_for  # noqa: E402

#: {interface in the pod: what is on the other side of its device}
PEERS = {"net1": "10.60.0.1", "net2": "10.50.0.1"}
NIC_ID, SLOT_ID = "netdev:dev0", "eth1:macvlan:1"
POOLS = [nics("dev*", ipam=ledger.pool("10.50.0.0/24", type="gated")),
         slots(2, SLOT, "eth1", ipam=ledger.pool("10.60.0.0/24"))]
NETWORK = {"cniVersion": "1.0.0", "name": "pods", "plugins": [
    {"type": "bridge", "bridge": "cni-c8d", "isDefaultGateway": True,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.87.1.0/24"}]]}},
    {"type": "devices"}]}
#: An IPAM plugin that waits while /run/gate has a file called as the verb, and is then host-local, or broken.
GATED = """\
#!/bin/sh
conf=$(cat)
if [ -e "/run/gate/$CNI_COMMAND" ]; then
  : > /run/gate/waits
  while [ -e "/run/gate/$CNI_COMMAND" ]; do sleep 0.02; done
fi
if [ -e /run/gate/broken ] && [ "$CNI_COMMAND" = ADD ]; then
  echo '{"cniVersion": "1.0.0", "code": 100, "msg": "no address today"}'
  exit 1
fi
printf %s "$conf" | /opt/cni/bin/host-local
"""
UNKNOWN = "may be this pod.{1,2}s: no container of another pod has it"
#: What of the files in /run is the tests' own.
OF_TEST = ("file/run/agent/", "file/run/gate/")


def plug_in(link, peer):
    """A link of the node whose other end, in a namespace without another way to the node, has the address."""
    run("ip", "link", "add", link, "type", "veth", "peer", "name", link, "netns", "segment")
    run("ip", "-n", "segment", "-batch", "-", stdin=f"addr add {peer}/24 dev {link}\nlink set {link} up\n")
    run("ip", "link", "set", link, "mtu", "1400", "alias", f"to {peer}", "up")


def is_asked():
    """Whether somebody is connected to patchbay-agent: unix(7) says what /proc shows. The name is that of bind(2)."""
    with open("/proc/net/unix", encoding="ascii") as file:
        sockets = [line.split() for line in file if f" {os.path.dirname(SOCKET)}/" in line]
    return any(state == "03" for _, _, _, _, _, state, *_ in sockets)


class DevicesTest(PodsTest):
    """A node with a NIC and the parent of slots."""

    def setUp(self):
        if reason := agent.why_impossible():
            self.skipTest(reason)
        super().setUp()
        self.segment = Pod("segment")
        plug_in("eth1", PEERS["net1"])
        plug_in("dev0", PEERS["net2"])
        os.mkdir("/run/gate")
        with open("/opt/cni/bin/gated", "w", encoding="ascii") as file:
            file.write(GATED)
        os.chmod("/opt/cni/bin/gated", 0o755)
        self.use(NETWORK)
        self.of = Kubelet()
        self.addCleanup(lambda: self.of.kill())
        self.by = Agent(*POOLS)
        self.addCleanup(lambda: self.by.kill())
        self.admitted = None
        self.assert_offered()
        self.before = snapshot()

    def assert_offered(self):
        """The kubelet has both resources."""
        self.assertTrue(wait_for(lambda: self.of.devices(NIC) == {NIC_ID: "Healthy"}
                                 and self.of.devices(SLOT).get(SLOT_ID) == "Healthy", 20), self.by.log)

    def allocate(self):
        """Of a kubelet that does not list the earlier pod any more."""
        if self.admitted:
            self.of.disown("default", self.admitted)
            self.admitted = None
        self.of.allocate(NIC, [NIC_ID])
        self.of.allocate(SLOT, [SLOT_ID])

    def list_pod(self, name, *containers):
        """PodResources has this pod from now on."""
        self.of.own("default", name, {NIC: [NIC_ID], SLOT: [SLOT_ID]}, ("main", *containers))
        self.admitted = name

    def admit(self, name, *containers):
        """What a kubelet does before a pod's first sandbox."""
        self.allocate()
        self.list_pod(name, *containers)

    def addresses(self, pod):
        """{name: address} of the interfaces that are devices."""
        shown = [one for one in json.loads(pod.run("ip", "-j", "-4", "addr")) if one.get("ifname", "").startswith("net")]
        return {one["ifname"]: address["local"] for one in shown for address in one["addr_info"]}

    def assert_whole(self, sandbox, pod):
        """The pod reaches a peer through each device, and each peer the pod."""
        addresses = self.addresses(pod)
        self.assertEqual(sorted(addresses), ["net1", "net2"])
        self.assertEqual(ledger.holders(), {NIC_ID: sandbox, SLOT_ID: sandbox})
        for name, peer in PEERS.items():
            pod.run("ping", "-c1", "-W2", "-I", name, peer)
            with self.segment.inside():
                self.assertEqual(fetch(addresses[name]), PAGE, name)

    def assert_back(self, before=None):
        """Everything is as before the pod, and no container has a device."""
        self.assert_left_by_design(before or self.before, "cni-c8d", *OF_TEST)
        self.assertEqual((ledger.holders(), ledger.marks()), ({}, []))

    def assert_next(self):
        """The next Allocate promises both devices to another pod."""
        if not self.by.is_alive():
            self.by.start()
        self.assert_offered()
        self.allocate()
        for one in (NIC_ID, SLOT_ID):
            entry = ledger.entry(one)
            self.assertTrue(entry["promised"] and "pod" not in entry and "holder" not in entry, entry)

    def assert_refused(self, pattern, name="web"):
        """A pod that does not start leaves nothing."""
        before = snapshot()
        with self.assertRaisesRegex(RuntimeError, pattern):
            self.run_pod(name)
        self.assert_back(before)


@suite.spread
class Pods(DevicesTest):
    def test_a_pod_has_both_devices_and_the_next_pod_after_it(self):
        self.admit("web")
        sandbox, pod = self.run_seen("web")
        self.assert_whole(sandbox, pod)
        self.assertEqual([one["name"] for one in cached("pods", sandbox, "eth0")["result"]["interfaces"]][-3:],
                         ["eth0", "net1", "net2"])
        other, inside = self.run_seen("plain")
        self.assertEqual(self.addresses(inside), {})
        self.end(other)
        self.assert_whole(sandbox, pod)
        self.end(sandbox)
        self.assert_back()
        self.assertEqual({ledger.entry(one)["pod"]["name"] for one in (NIC_ID, SLOT_ID)}, {"web"})
        self.admit("next")
        sandbox, pod = self.run_seen("next")
        self.assert_whole(sandbox, pod)
        self.end(sandbox)
        self.assert_back()

    def test_a_container_that_restarts_and_a_second_one_change_nothing(self):
        self.admit("web", "side")
        sandbox, pod = self.run_seen("web")
        self.assert_whole(sandbox, pod)
        node, inside = snapshot(), pod_snapshot(pod)

        def serve(name, port, attempt=0):
            command = ("/bin/httpd", "-f", "-p", str(port), "-h", "/www")
            return self.run_container(sandbox, "web", name, *command, attempt=attempt)
        self.cri.end_container(serve("main", 81))
        serve("main", 81, attempt=1)
        side = serve("side", 82)
        for address in self.addresses(pod).values():
            for port in (80, 81, 82):
                with self.segment.inside():
                    self.assertEqual(fetch(f"{address}:{port}"), PAGE, f"{address}:{port}")
        self.cri.end_container(side)
        self.assert_whole(sandbox, pod)
        self.assert_same(node, ignore=lambda place: place.startswith((*OWN_FILES, *OF_TEST)))
        self.assert_same(inside, pod_snapshot(pod))
        self.end(sandbox)
        self.assert_back()

    @suite.cases([("was stopped", False), ("has died", True)])
    def without_Allocate_the_next_sandbox_of_a_pod_has_its_devices_once_the_first_one(self, dies):
        self.admit("web")
        first, pod = self.run_seen("web")
        self.assert_whole(first, pod)
        if dies:
            for pid in run("ip", "netns", "pids", pod.name).split():
                os.kill(int(pid), 9)
        self.cri.stop_pod(first)
        self.assert_back()
        second, pod = self.run_seen("web", attempt=1)
        self.assert_whole(second, pod)
        self.end(first)
        self.assert_whole(second, pod)
        self.end(second)
        self.assert_back()

    def test_a_pod_whose_device_vanished_starts_once_the_device_is_there_again(self):
        self.admit("web")
        run("ip", "link", "del", "dev0")
        self.assert_refused(r"claim device .*netdev:dev0.*: its link does not exist")
        self.assertTrue(wait_for(lambda: self.of.devices(NIC) == {NIC_ID: "Unhealthy"}), self.by.log)
        with self.assertRaisesRegex(Refused, "it vanished"):
            self.of.allocate(NIC, [NIC_ID])
        plug_in("dev0", PEERS["net2"])
        sandbox, pod = self.run_seen("web")
        self.assert_whole(sandbox, pod)
        self.end(sandbox)


class Killed(DevicesTest):
    """patchbay-agent is killed, and no pod has one device of two."""

    @contextlib.contextmanager
    def waiting(self, verb, call, *arguments):
        """What the call of a thread will return; its IPAM plugin waits until the end of the block."""
        with open(f"/run/gate/{verb}", "w", encoding="ascii"), ThreadPoolExecutor(1) as pool:
            made = pool.submit(call, *arguments)
            try:
                self.assertTrue(wait_for(lambda: os.path.exists("/run/gate/waits"), 20), self.by.log)
                yield made
            finally:
                os.unlink(f"/run/gate/{verb}")
        os.unlink("/run/gate/waits")

    def the_pod(self):
        """The only one that the runtime has."""
        name, = (one for one in os.listdir("/run/netns") if one.startswith("cni-"))
        return Pod.existing(name)

    def starts(self):
        """The pod starts, whoever runs."""
        sandbox, pod = self.run_seen("web")
        self.assert_whole(sandbox, pod)
        self.end(sandbox)
        self.assert_back()

    def test_between_two_Allocates_the_first_device_is_promised_and_then_free(self):
        self.of.allocate(NIC, [NIC_ID])
        self.by.kill()
        with self.assertRaises(Refused):
            self.of.allocate(SLOT, [SLOT_ID])
        self.assertEqual(ledger.devices(), [NIC_ID])
        self.assert_refused(UNKNOWN)  # for all that the node knows this pod could be the one
        self.assert_next()

    def test_while_Allocate_waits_for_the_ledger_nothing_is_promised(self):
        with open(f"{ledger.LEDGER}/.lock", "a", encoding="ascii") as lock, ThreadPoolExecutor(1) as pool:
            fcntl.flock(lock, fcntl.LOCK_EX)
            made = pool.submit(self.of.allocate, NIC, [NIC_ID])
            time.sleep(0.2)
            self.by.kill()
            self.assertRaises(Refused, made.result)
        self.assertEqual(ledger.devices(), [])
        self.assert_next()

    def test_with_one_of_two_devices_known_as_the_pods_it_does_not_start_with_that_one(self):
        """A kubelet that lists a pod before it has allocated all, or one of two entries that is written."""
        self.of.allocate(NIC, [NIC_ID])
        self.of.own("default", "web", {NIC: [NIC_ID]})
        self.assertTrue(wait_for(lambda: ledger.entry(NIC_ID).get("pod")))
        self.of.allocate(SLOT, [SLOT_ID])
        self.by.kill()
        self.list_pod("web")
        self.assert_refused(UNKNOWN)
        self.by.start()
        self.starts()
        self.assert_next()

    def test_after_Allocate_the_pod_starts_as_soon_as_somebody_knows_whose_the_devices_are(self):
        self.allocate()
        self.by.kill()
        self.list_pod("web")
        self.assert_refused(UNKNOWN)
        self.by.start()
        self.starts()
        self.assert_next()

    def test_while_ADD_waits_for_its_answer_the_pod_does_not_start_but_later(self):
        self.of.ask("rules", delay=10)
        self.admit("web")
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(self.run_pod, "web")
            self.assertTrue(wait_for(is_asked, 20), self.by.log)
            self.by.kill()
            self.assertRaisesRegex(RuntimeError, UNKNOWN, made.result)
        self.assert_back()
        self.of.ask("rules", delay=0)
        self.by.start()
        self.starts()
        self.assert_next()

    def test_while_ADD_attaches_the_pod_starts(self):
        self.admit("web")
        with self.waiting("ADD", self.run_pod, "web") as made:
            self.by.kill()
            self.assertEqual(set(ledger.holders()), {NIC_ID, SLOT_ID})
        sandbox = made.result()
        self.assert_whole(sandbox, self.the_pod())
        self.end(sandbox)
        self.assert_back()
        self.assert_next()

    def test_while_ADD_attaches_a_device_that_then_fails_the_first_one_goes_back(self):
        self.admit("web")
        with open("/run/gate/broken", "w", encoding="ascii"):
            pass
        with self.waiting("ADD", self.run_pod, "web") as made:
            self.by.kill()
            self.assertEqual(set(ledger.holders()), {NIC_ID, SLOT_ID})
        self.assertRaisesRegex(RuntimeError, "attach device .*netdev:dev0.*no address today", made.result)
        self.assert_back()
        os.unlink("/run/gate/broken")
        self.by.start()
        self.starts()
        self.assert_next()

    def test_before_DEL_the_pod_goes_on_and_its_devices_come_back(self):
        self.admit("web")
        sandbox, pod = self.run_seen("web")
        self.by.kill()
        self.assert_whole(sandbox, pod)
        self.end(sandbox)
        self.assert_back()
        self.assert_next()

    def test_while_DEL_detaches_the_devices_come_back(self):
        self.admit("web")
        sandbox, pod = self.run_seen("web")
        self.assert_whole(sandbox, pod)
        with self.waiting("DEL", self.end, sandbox) as made:
            self.by.kill()
        made.result()
        self.assert_back()
        self.assert_next()


if __name__ == "__main__":
    suite.main(needs=(*NEEDED, "ping"))
