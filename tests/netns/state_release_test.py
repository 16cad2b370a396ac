#!/usr/bin/env python3
"""What plugins and patchbay-agent keep on the node is to the byte what the previous release kept, and every verb reads it."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import agent, kubelet, ledger, suite  # noqa: E402
from support.agent import Agent, nics  # noqa: E402
from support.cnitool import cnitool  # noqa: E402
from support.plugin import cni  # noqa: E402
from support.snapshot import left_by_design, snapshot  # noqa: E402
from support.world import wait_for  # noqa: E402

#: What the executables of 0.2.0 (commit 93fbafca) kept: {path: text}. Files of JSON alone are in state_format_test.py.
RECORDED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support", "state_files", "0.2.0")

#: The folder, the config.
KEEPERS = [
    ("host-local", "/var/lib/cni/networks/net1", {"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.52.0.0/24"}]]}}),
    ("firewall", "/run/cni/firewall", {"backend": "iptables", "prevResult": {
        "cniVersion": "1.1.0", "interfaces": [{"name": "net1", "sandbox": "/run/netns/pod1"}],
        "ips": [{"address": ip, "interface": 0} for ip in ("10.52.0.2/24", "fd52::2/64")]}}),
    ("flannel", "/var/lib/cni/flannel", {"delegate": {"isDefaultGateway": True}}),
]
#: What differs from run to run: the boot, times, identities of namespaces, addresses of links.
CHANGING = re.compile(r'[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|(?<="netnsCookie":)\d+|(?<="promised":)\d+|(?<="started":)\d+'
                      r'|(?:[0-9a-f]{2}:){5}[0-9a-f]{2}')


def kept(folder):
    """{path: the text of a file, or "-> TARGET" of a link}, with what changes left out."""
    found = {}
    for top, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(top, name)
            if name.endswith("lock") or name == "seen":
                continue
            text = f"-> {os.readlink(path)}" if os.path.islink(path) else open(path, encoding="utf-8", newline="").read()
            found[CHANGING.sub("*", os.path.relpath(path, folder))] = CHANGING.sub("*", text)
    return found


def recorded(kind):
    with open(f"{RECORDED}/{kind}.json", encoding="utf-8") as file:
        return json.load(file)


@suite.spread
class Keepers(suite.NodeTest):
    def assert_as_of_0_2_0(self, folder, kind):
        """The files are those of 0.2.0, but for what this version appends, which is cut off."""
        now, before = kept(folder), recorded(kind)
        self.assertEqual(now.keys(), before.keys())
        for name, text in before.items():
            self.assertEqual(now[name][:len(text)], text)
            if now[name] != text:
                with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                    file.write(text)

    @suite.cases([(f"{row[0]}, {verb} at the end", (*row, verb)) for row in KEEPERS for verb in ("DEL", "GC")])
    def ADD_keeps_what_0_2_0_kept_and_every_verb_reads_it(self, row):
        kind, folder, given, verb = row
        os.makedirs("/run/flannel", exist_ok=True)
        with open("/run/flannel/subnet.env", "w", encoding="ascii") as file:
            file.write("FLANNEL_NETWORK=10.52.0.0/16\nFLANNEL_SUBNET=10.52.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n")
        pod = self.pod()
        conf = {"cniVersion": "1.1.0", "name": "net1", "type": kind} | given
        bare = {key: value for key, value in conf.items() if key != "prevResult"}
        options = {"netns": pod.path, "container": pod.name, "ifname": "net1"}

        def collect(*valid):
            return cni(kind, "GC", bare | {"cni.dev/valid-attachments": list(valid)}, netns=None, container=None, ifname=None)
        before = snapshot()
        result = self.assert_ok(cni(kind, "ADD", conf, **options))
        self.assert_as_of_0_2_0(folder, kind)
        self.assert_ok(collect({"containerID": pod.name, "ifname": "net1"}))
        self.assert_ok(cni(kind, "CHECK", conf | {"prevResult": result}, **options))
        if verb == "GC":
            pod.remove()
            self.assert_ok(collect())
        else:
            self.assert_ok(cni(kind, "DEL", bare, **options))
        self.assert_same({place: what for place, what in before.items() if "netns" not in place},
                         ignore=lambda place: left_by_design(place) or "netns" in place)


class Ledger(ledger.LedgerTest):
    def test_the_ledger_is_that_of_0_2_0_but_for_later_keys_and_a_later_entry_is_kept_and_named(self):
        if reason := agent.why_impossible() or kubelet.why_impossible():
            self.skipTest(reason)
        ledger.make_nic("dev0")
        of = kubelet.Kubelet()
        self.addCleanup(lambda: of.kill())
        by = Agent(nics("dev*", force=["dev0"], ipam=ledger.pool("10.50.0.0/24")))
        self.addCleanup(by.process.wait)
        self.addCleanup(lambda: by.process.kill())
        self.assertTrue(wait_for(lambda: of.devices(ledger.NIC), 20), by.log)
        of.allocate(ledger.NIC, ["netdev:dev0"])
        of.own("shop", "web-0", {ledger.NIC: ["netdev:dev0"]})
        pod = self.pod()
        result = self.add(pod)
        # "since" came later: 0.2.0 passes over keys that it does not know.
        now = {name: re.sub(r',"since":\{[^}]*\}', "", text) for name, text in kept(ledger.LEDGER).items()}
        self.assertEqual(now, recorded("devices"))
        by.process.kill()
        by.process.wait()
        self.assert_ok(self.call("CHECK", pod, prevResult=result))
        path = f"{ledger.LEDGER}/.held=netdev:dev0"
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("{", '{"format":2,', 1))
        for verb in ("CHECK", "DEL"):
            self.assert_error(self.call(verb, pod, prevResult=result), 999, f"read '{path}': a newer version of patchbay wrote it")
        self.assertIn(path, cnitool("doctor", "--json").stdout)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.assert_ok(self.call("GC", None, **{"cni.dev/valid-attachments": [{"containerID": pod.name, "ifname": "eth0"}]}))
        self.assertEqual(ledger.holders(), {"netdev:dev0": pod.name})
        by.start()  # reads that the promise is the pod's
        self.remove(pod)
        self.add(pod)
        self.assertEqual(ledger.holders(), {"netdev:dev0": pod.name})
        self.remove(pod)
        self.assertEqual((ledger.holders(), ledger.marks()), ({}, []))


if __name__ == "__main__":
    suite.main()
