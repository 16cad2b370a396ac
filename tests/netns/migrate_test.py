#!/usr/bin/env python3
"""A node with pods of the reference plugins is upgraded, migrated, rolled back and upgraded again: no connection
breaks, no request fails, nothing is left.

PATCHBAY_REFERENCE names the reference plugins: those of Debian 12 (1.1.1), or 1.9.1. PATCHBAY_OLDER names a folder with
`patchbay` of an older version. PATCHBAY_PODS is how many pods there are; the tier --full has 50."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import rows, suite  # noqa: E402
from support.cnitool import cache_file, cached, finish, start  # noqa: E402
from support.hostport import NODE  # noqa: E402
from support.migration import DIR, MigrateTest, network  # noqa: E402
from support.plugin import REFERENCE, cni, is_new_reference  # noqa: E402
from support.snapshot import snapshot  # noqa: E402
from support.steady import Echoes, Steady, wrong  # noqa: E402
from support.world import run  # noqa: E402

OLDER = os.environ.get("PATCHBAY_OLDER", "/nonexistent")
PODS = int(os.environ.get("PATCHBAY_PODS", "4"))

CASES = [("no backend in the config", (None, "nft")), ("iptables", ("iptables", "nft")),
         ("nftables", ("nftables", "nft")), ("no backend in the config, iptables-legacy", (None, "legacy"))]


@suite.spread
class Living(MigrateTest):
    @suite.cases(rows.sampled(CASES, most=4))
    def no_request_fails_and_nothing_is_left_with(self, row):
        backend, variant = row
        if backend == "nftables" and not is_new_reference("portmap"):
            self.skipTest(f"the Go plugins in {REFERENCE} have no backend nftables: set PATCHBAY_REFERENCE to 1.9")
        self.prepare(network(backend), PODS, variant)
        if backend != "nftables":  # as beside docker: pods need the rules of firewall
            for tool in ("iptables", "ip6tables"):
                run(tool, "-A", "FORWARD", "-m", "conntrack", "--ctstate", "DNAT", "-j", "ACCEPT")
                run(tool, "-P", "FORWARD", "DROP")
        kept = list(self.all.values())
        Echoes(self, [*kept, self.site.outside])
        steady = Steady(self.ways(kept))
        others = [self.add() for _ in range(4)]
        self.assertTrue(all(self.of_reference(pod) for pod in kept))
        said = self.checks()
        as_own = self.call("del", "net", others[3].path, "--container-id", others[3].name).status
        self.installer("install")
        self.delete(others[3])  # once more, or for good
        self.check_all()
        repaired = self.assert_ok(self.call("repair", "--json"))
        self.assertEqual({one["outcome"] for one in repaired["attachments"]}, {"ok"}, str(repaired))
        self.delete(others[0])
        before = snapshot()
        self.assert_migrated("to migrate", "--dry-run")
        self.assert_same(before, what="--dry-run changes something:")
        self.assert_migrated("migrated")
        self.assert_migrated("ok")
        self.check_all()
        self.assertNotIn("cni_hostport", run("nft", "list", "tables"))
        if backend != "iptables":
            self.assertEqual([line for pod in self.all.values() for line in self.of_reference(pod)], [])

        self.assert_migrated("migrated", "--back")
        self.assert_migrated("ok", "--back")
        self.installer("uninstall")
        self.assertEqual(sorted(os.listdir(DIR)), self.files)
        self.assertEqual(self.checks(), {name: said[name] for name in self.all})
        self.assertEqual([line for line in self.ruleset() if "patchbay" in line and kept[0].addresses[4] in line], [])
        self.delete_by_reference(others[1], as_own)

        self.installer("install")
        if as_own:
            self.delete(others[1])
        self.assert_migrated("migrated")
        self.check_all()
        self.delete(others[2])
        self.assert_steady(steady, 20 * len(kept))
        for tool in ("iptables", "ip6tables"):
            run(tool, "-P", "FORWARD", "ACCEPT")
            run(tool, "-F", "FORWARD")
        self.assert_nothing_left()


@suite.spread
class Older(MigrateTest):
    @suite.cases(CASES)
    def a_newer_patchbay_and_the_older_one_serve_each_others_pods_with(self, row):
        if not os.path.exists(f"{OLDER}/patchbay"):
            self.skipTest("needs a folder with an older patchbay: set PATCHBAY_OLDER")
        backend, variant = row
        self.prepare(network(backend), pods=0, variant=variant)
        self.installer("install", of=OLDER)
        kept = [self.add() for _ in range(PODS)]
        others = [self.add() for _ in range(2)]
        Echoes(self, [*kept, self.site.outside])
        steady = Steady(self.ways(kept))
        self.installer("install")
        self.check_all()
        self.assert_migrated("ok")
        self.delete(others[0])
        others.append(self.add())
        self.installer("install", "--downgrade", of=OLDER)
        self.check_all()
        for pod in others[1:]:
            self.delete(pod)
        self.installer("install")
        self.check_all()
        self.assert_steady(steady, 20)
        self.assert_nothing_left()


@suite.spread
class Interrupted(MigrateTest):
    def test_a_pod_that_is_gone_is_skipped_and_a_torn_entry_of_the_cache_is_named(self):
        self.begin(network(None), 4)
        gone, torn, *_ = self.all.values()
        gone.remove()
        with open(cache_file("net", torn.name), "r+", encoding="ascii") as file:
            file.truncate(40)
        for words in (("--dry-run",), ()):
            done = self.call("migrate", "--json", *words)
            self.assertEqual(done.status, 0, str(done))
            outcomes = {one["containerID"]: one["outcome"] for one in done.json["attachments"]}
            self.assertEqual(outcomes.pop(gone.name), "skipped")
            self.assertEqual(set(outcomes.values()), {"to migrate" if words else "migrated"})
            self.assertEqual(len(outcomes), 2)
            self.assertEqual([one["file"] for one in done.json["broken"]], [f"net-{torn.name}-eth0"])
        self.assertTrue(self.of_reference(torn))
        self.assertEqual(self.call("gc", "net", "--keep-alive").status, 0)

    def test_cnitool_killed_again_and_again_comes_to_the_end(self):
        self.begin(network(None), 4)
        for words in ((), ("--back",), ()):
            for seconds in (0.02, 0.05, 0.1, 0.2):
                process = start("migrate", *words, CNI_PATH=DIR)
                time.sleep(seconds)
                process.kill()
                finish(process)
                self.assert_works()
            self.assertLessEqual({one["outcome"] for one in self.migrate(*words).values()}, {"migrated", "ok"})
            self.assert_migrated("ok", *words)
        self.assert_works()
        self.assert_nothing_left()


@suite.spread
class Forms(MigrateTest):
    """Configs with other keys."""

    @suite.cases([("ptp", ("ptp", {})), ("ingressPolicy same-bridge", ("bridge", {"ingressPolicy": "same-bridge"}))])
    def forth_and_back_leaves_nothing_after(self, row):
        interface, more = row
        self.prepare(network(None, interface, **more), 2)
        Echoes(self, [*self.all.values(), self.site.outside])
        steady = Steady(self.ways(self.all.values()))
        for _ in range(2):
            self.installer("install")
            self.assert_migrated("migrated")
            self.check_all()
            self.assert_migrated("migrated", "--back")
            self.installer("uninstall")
        self.assert_steady(steady, 20)
        left = [place for place in snapshot() if "patchbay" in place and "/elem/" in place]
        self.assertEqual(left, [], "policies too are left to the reference")
        self.installer("install")
        for pod in list(self.all.values()):
            self.delete(pod)

    @suite.cases([("ingressPolicy isolated", (3, {"ingressPolicy": "isolated"}, "bridge-nf-call-ip")),
                  ("shapedSubnets", (2, {"shapedSubnets": ["192.0.2.0/24"]}, "shapedSubnets"))])
    def what_the_reference_cannot_carry_out_stays_and_is_said(self, row):
        index, keys, words = row
        conf = network(None)
        conf["plugins"][index] |= keys
        self.prepare(conf, 0)
        for tool in ("iptables", "ip6tables"):
            run("sysctl", "-qw", f"net.bridge.bridge-nf-call-{tool}=0", check=False)  # or there is no br_netfilter
        self.installer("install")
        pod = self.add()
        Echoes(self, [pod, self.site.outside])
        done = self.migrate("--back", status=1)[pod.name]
        self.assertEqual(done["outcome"], "failed", str(done))
        self.assertIn(words, done["error"]["msg"])
        ways = [way for way in self.ways([pod]) if way[:2] != (pod, NODE[4])]  # a pod is on its own bridge
        self.assertEqual(wrong(ways), [])
        self.assert_migrated("migrated")
        self.check_all()
        self.assert_nothing_left()

    def test_a_limit_in_the_pod_becomes_one_on_the_node(self):
        conf = network(None)
        conf["plugins"][2]["egressMode"] = "pod"
        self.prepare(conf, 0)
        self.installer("install")
        pod = self.add()
        self.assertNotIn("bwp", run("ip", "link"))
        self.assert_migrated("migrated", "--back")
        self.assertIn("bwp", run("ip", "link"))
        self.assertNotIn("tbf", pod.run("tc", "qdisc"))
        self.installer("uninstall")
        done = cni("bandwidth", "CHECK", conf["plugins"][2] | {
            "cniVersion": "1.0.0", "name": "net", "prevResult": cached("net", pod.name)["result"]},
            netns=pod.path, container=pod.name, directory=DIR)
        self.assertEqual(done.status, 0, str(done))
        self.installer("install")
        self.assert_migrated("migrated")
        self.assertNotIn("bwp", run("ip", "link"))
        self.check_all()
        self.assert_nothing_left()

    def test_plugins_of_another_project_are_named_and_left(self):
        self.prepare(network(None), 1)
        done = self.call("migrate")
        self.assertEqual((done.status, done.stdout.splitlines()[0]), (0, "net  pod1  eth0  skipped"), str(done))
        self.assertIn("'bridge' is not patchbay's: nothing of it is changed", done.stdout)
        self.installer("install")
        self.assert_nothing_left()

    def test_text_says_what_changes(self):
        self.prepare(network(None), 1)
        self.installer("install")
        done = self.call("migrate")
        first, *more = done.stdout.splitlines()
        self.assertEqual(first, "net  pod1  eth0  migrated")
        self.assertRegex(more[0], "^  bridge: link 'veth[0-9a-f]+' has no alias that names its owner$")
        self.assertRegex(done.stdout, "\n  portmap: hostPorts: chain 'CNI-DN-[0-9a-f]+' to be replaced\n")
        self.assertEqual(self.call("migrate").stdout, "net  pod1  eth0  ok\n")
        self.assert_nothing_left()


if __name__ == "__main__":
    suite.main(needs=("iptables", "ip6tables"), per_processor=2)
