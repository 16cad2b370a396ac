#!/usr/bin/env python3
"""What a person asks of a node at night is answered by one command each: which networks are there, which pod has
this address, which one this hostPort, what would GC remove, what is wrong with this pod."""

import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import UNSEEN, cnitool, container_of, use  # noqa: E402
from support.doctor import BIN, DoctorTest, shell  # noqa: E402
from support.plugin import OURS  # noqa: E402
from support.snapshot import snapshot  # noqa: E402
from support.world import Pod, run  # noqa: E402

ID = "c0ffee" * 10 + "0001"
NAME = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-1"


class Questions(DoctorTest):
    def setUp(self):
        super().setUp()
        shutil.copy(os.path.join(OURS, "ptp"), BIN)
        use({"cniVersion": "1.1.0", "name": "back", "plugins": [
            {"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.2.0.0/24"}}]}, "20.conflist")
        self.web = Pod("web")
        self.add(self.web, 8090, "--container-id", ID, "--args", NAME)
        self.assert_ok(cnitool("add", "back", self.web.path, "-i", "net1", "--container-id", ID, "--args", NAME,
                               CNI_PATH=BIN))

    def address(self, pod, link="eth0"):
        """As the kernel has it."""
        found = json.loads(pod.run("ip", "-j", "addr", "show", link))[0]["addr_info"]
        return next(one["local"] for one in found if one["family"] == "inet")

    def ask(self, *words):
        return cnitool(*words, CNI_PATH=BIN)

    def answer(self, *words):
        got = self.ask(*words)
        self.assertEqual((got.status, got.stderr), (0, ""), str(got))
        return got.stdout

    def found(self, *words):
        return [(one["containerID"], one["network"]) for one in json.loads(self.answer("list", "--json", *words))
                ["attachments"]]


class Asked(Questions):
    def test_the_five_questions(self):
        """And nothing is changed by asking."""
        before = snapshot()
        networks = {one["network"]: one["attachments"] for one in json.loads(self.answer("networks", "--json"))
                    ["networks"]}
        self.assertEqual(networks, {"net": 3, "back": 1})
        self.assertEqual(self.found("--address", self.address(self.web)), [(ID, "net")])
        self.assertEqual(self.found("--address", self.address(self.web, "net1")), [(ID, "back")])
        self.assertEqual(self.found("--host-port", "8090"), [(ID, "net")])
        self.assertIn(self.address(self.web), run("nft", "-j", "list", "ruleset"))
        self.assertEqual(self.answer("gc", "--dry-run", "--keep-alive"), "")
        self.assertEqual(self.answer("doctor", "--container-id", "web-1"),
                         f"no problem found: net1 (back), eth0 (net)\n{UNSEEN}")
        self.assert_same(before)
        gone = container_of(self.pods[1].path)
        self.pods[1].remove()
        self.assertEqual(self.answer("gc", "--dry-run", "--keep-alive"),
                         f"would remove interface 'eth0' of container '{gone}' in network 'net'\n")
        table = next(one["table"] for one in json.loads(run("nft", "-j", "list", "ruleset"))["nftables"]
                     if "hostport" in one.get("table", {}).get("name", ""))
        run("nft", "delete", "table", table["family"], table["name"])
        got = self.ask("doctor", "--container-id", "web-1")
        self.assertEqual((got.status, got.stderr), (1, ""), str(got))
        self.assertRegex(got.stdout, r"^error    pods: network 'net', shop/web-1 \(eth0\): portmap: .*hostport")
        self.assertTrue(got.stdout.endswith(f"\n1 error, 0 warnings\n{UNSEEN}"), got.stdout)
        self.assertNotIn(gone[:12], got.stdout)  # what is wrong with others is not said
        shell(re.search("remedy: (.*)", got.stdout)[1])
        self.assertIn("no problem found", self.answer("doctor", "--container-id", "web-1"))


class GcOfAll(Questions):
    def test_each_network_is_looked_at_and_those_without_a_config_too(self):
        os.unlink("/run/net.d/20.conflist")
        before = snapshot()
        got = self.ask("gc", "--dry-run")
        self.assertEqual(got.status, 0, str(got))
        removed = {line.split("network ")[1] for line in got.stdout.splitlines()}
        self.assertEqual((len(got.stdout.splitlines()), removed), (4, {"'net'", "'back'"}), str(got))
        listed = self.ask("gc", "--dry-run", "--json").json["networks"]
        self.assertEqual({one["network"]: len(one["attachments"]) for one in listed}, {"net": 3, "back": 1})
        self.assert_same(before)
        # A thing that no attachment has is named with its network.
        os.unlink(f"/var/lib/cni/results/back-{ID}-net1")
        run("ip", "netns", "del", "web")
        self.assertRegex(self.ask("gc", "--dry-run", "--keep-alive").stdout, r"would remove [^\n]*network 'net'\n")

    def test_without_a_network_nothing_is_removed(self):
        before = snapshot()
        for words, report in ((("gc",), "gc: expected a network"),
                              (("gc", "--keep-alive", "--yes"), "gc: expected a network"),
                              (("gc", "--dry-run", "--keep", "c1"), "gc --dry-run: --keep needs a network")):
            got = self.ask(*words)
            self.assertEqual((got.status, got.stdout), (2, ""), str(got))
            self.assertTrue(got.stderr.startswith(report), got.stderr)
            self.assertTrue(self.ask(*words, "--json").json["msg"].startswith(report))
        self.assert_same(before)


class OfOnePod(Questions):
    def wrong(self, name):
        """The checks of the findings about a pod that are more than notes."""
        got = self.ask("doctor", "--json", "--container-id", name)
        found = [one for one in got.json["findings"] if one["level"] not in ("ok", "note")]
        self.assertEqual(got.status, 1 if any(one["level"] == "error" for one in found) else 0)
        return sorted({one["check"] for one in found})

    def test_a_pod_is_named_by_its_ID_the_beginning_of_it_or_its_name(self):
        other = Pod("other")
        for name in (ID, ID[:7], "shop/web-1", "web-1"):
            self.assertIn("no problem found", self.answer("doctor", "--container-id", name), name)
            self.assertEqual(self.found("--container-id", name), [(ID, "back"), (ID, "net")], name)
            self.assertEqual(len(self.ask("repair", "--dry-run", "--json", "--container-id", name).json["attachments"]), 2)
        self.add(other, 8091, "--container-id", ID[:-1] + "2", "--args", NAME.replace("shop", "test"))
        for name, matches in (("web-1", "matches 2: shop/web-1, test/web-1"), (ID[:7], f"matches 2: {ID}, {ID[:-1]}2")):
            for words in (("doctor",), ("list",), ("repair", "--dry-run")):
                got = self.ask(*words, "--container-id", name)
                self.assertEqual((got.status, got.stdout), (1, ""), str(got))
                self.assertEqual(got.stderr, f"container '{name}': {matches}; `cnitool list` lists all attachments\n")
        self.assertEqual(self.found("--container-id", "test/web-1"), [(ID[:-1] + "2", "net")])

    def test_all_commands_select_and_show_a_kubernetes_pod_by_its_name(self):
        other = Pod("other")
        for name in ("shop/web-1", "web-1"):
            for words in (("doctor",), ("list",), ("graph",), ("repair", "--dry-run"), ("migrate", "--dry-run")):
                self.assertIn("no problem found" if words == ("doctor",) else "shop/web-1",
                              self.answer(*words, "--pod", name), words)
            self.assertEqual(self.found("--pod", name), [(ID, "back"), (ID, "net")], name)
            self.assertEqual(json.loads(self.answer("show", "net", "--pod", name, "--json"))["containerID"], ID)
        self.assertEqual([line.split()[:2] for line in self.answer("list").splitlines()[1:3]],
                         [["shop/web-1", "back"], ["shop/web-1", "net"]])
        graph = self.answer("graph", "--pod", "web-1")
        self.assertEqual(re.findall(r"pod (\S+)  (\S+)", graph), [("shop/web-1", "net"), ("shop/web-1", "back")])
        # The same name in another namespace: what only looks shows both, what changes names both.
        self.add(other, 8091, "--container-id", "d" * 64, "--args", NAME.replace("shop", "test"))
        self.assertEqual(self.found("--pod", "web-1"), [(ID, "back"), (ID, "net"), ("d" * 64, "net")])
        self.assertEqual(self.answer("doctor", "--pod", "web-1"), "no problem found: shop/web-1 net1 (back), "
                         f"shop/web-1 eth0 (net), test/web-1 eth0 (net)\n{UNSEEN}")
        self.assertEqual(len(json.loads(self.answer("repair", "--dry-run", "--json", "--pod", "web-1"))["attachments"]), 3)
        before = snapshot()
        for words in (("repair",), ("migrate",), ("show", "net")):
            got = self.ask(*words, "--pod", "web-1")
            self.assertEqual((got.status, got.stdout, got.stderr),
                             (1, "", "pod 'web-1': matches 2: shop/web-1, test/web-1; nothing was changed; "
                              "--pod NAMESPACE/NAME names one of them\n"))
        self.assert_same(before)
        self.assertEqual(self.answer("repair", "--pod", "test/web-1").splitlines(),
                         [f"net  test/web-1  {'d' * 64}  eth0  ok"])
        self.assertEqual(self.ask("list", "--pod", "").status, 2)
        self.assertEqual(self.ask("list", "--pod", "web-1", "--container-id", ID).status, 2)
        got = self.ask("list", "--pod", "web1")
        self.assertEqual((got.status, got.stderr), (1, "pod 'web1': no attachment in the cache (did you mean web-1?); "
                                                    "`cnitool list` lists all attachments\n"))

    def test_a_restarted_pod_has_two_containers_and_its_name_selects_both(self):
        self.web.remove()
        again = Pod("again")
        self.add(again, 8091, "--container-id", "e" * 64, "--args", NAME)
        self.assertEqual([one for one, _ in self.found("--pod", "shop/web-1")], [ID, ID, "e" * 64])
        self.assertEqual(json.loads(self.answer("show", "net", "--pod", "web-1", "--json"))["containerID"], "e" * 64)
        self.assertIn(f"pod does not exist: shop/web-1 {ID[:12]} (eth0), no namespace", self.ask("doctor", "-q").stdout)

    def test_a_hostile_name_reaches_no_terminal(self):
        name = "\x1b]0;owned\x07\nuid"
        file = f"/var/lib/cni/results/net-{ID}-eth0"
        with open(file, encoding="utf-8") as entry:
            doc = json.load(entry)
        doc["cniArgs"] = [["K8S_POD_NAMESPACE", "shop\r"], ["K8S_POD_NAME", name]]
        with open(file, "w", encoding="utf-8") as entry:
            json.dump(doc, entry)
        self.web.run("ip", "link", "del", "eth0")
        shown = "shop?/?]0;owned??uid"
        for words in (("list",), ("show", "net", "--container-id", ID), ("graph",), ("graph", "--format", "dot"),
                      ("graph", "--format", "svg"), ("doctor",), ("repair", "--dry-run"), ("list", "--json"),
                      ("repair", "--dry-run", "--json"), ("complete", "--", "list", "--pod", "")):
            got = self.ask(*words)
            self.assertIn(shown, got.stdout, words)
            self.assertEqual(re.findall(r"[\x00-\x08\x0b-\x1f\x7f]", got.stdout + got.stderr), [], words)
        self.assertIn((ID, "net"), self.found("--pod", shown))

    def test_an_unknown_name_is_an_error_with_what_is_near(self):
        for words in (("doctor",), ("list",), ("repair",)):
            got = self.ask(*words, "--container-id", "web1")
            self.assertEqual((got.status, got.stdout, got.stderr),
                             (1, "", "container 'web1': no attachment in the cache (did you mean web-1?); "
                              "`cnitool list` lists all attachments\n"))
            got = self.ask(*words, "--container-id", "nobody", "--json")
            self.assertEqual((got.status, got.json["code"], got.json["msg"]),
                             (1, 3, "container 'nobody': no attachment in the cache"))

    def test_what_is_wrong_with_its_networks_and_the_node_is_said_too_and_nothing_of_others(self):
        first = container_of(self.pods[0].path)
        self.assertEqual((self.wrong("web-1"), self.wrong(first)), ([], []))
        run("ip", "link", "add", "other0", "type", "bridge")  # a route beside the one of "back" is none of ptp's
        os.unlink(f"{BIN}/ptp")
        self.assertEqual(self.wrong(first), [])
        self.assertIn("plugins", self.wrong("web-1"))
        shutil.copy(os.path.join(OURS, "ptp"), BIN)
        run("nft", "-f", "-", stdin="table ip filter { chain FORWARD { type filter hook forward priority 0; "
            "policy drop;\niifname cni0 accept\noifname cni0 accept\n}\n}\n")
        self.assertEqual((self.wrong(first), self.wrong("web-1")), ([], ["forward policy"]))
        run("nft", "delete", "table", "ip", "filter")
        os.chmod(BIN, 0o777)  # it endangers the node, and keeps no pod from its network
        self.assertEqual(self.wrong(first), [])
        os.chmod(BIN, 0o755)
        self.web.run("ip", "link", "del", "net1")
        self.assertEqual((self.wrong(first), self.wrong("web-1")), ([], ["attachments"]))


if __name__ == "__main__":
    suite.main()
