#!/usr/bin/env python3
"""What a person types after `cnitool probe`, and reads: pods, targets, sources, changes, and the broken ways of `cnitool graph`."""

import json
import os
import signal
import sys
import xml.etree.ElementTree as ET

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import cnitool, container_of, finish, start, use  # noqa: E402
from support.doctor import BANDWIDTH, BIN, BRIDGE, PORTMAP, chain  # noqa: E402
from support.probe import FAST, ProbeTest, connections, differences, traces  # noqa: E402
from support.world import Pod, run  # noqa: E402

DROP = ("nft", "add table inet x; add chain inet x i { type filter hook input priority 0; }; "
        "add rule inet x i ip saddr 10.1.2.0/28 icmp type echo-request drop")


def probed(*words):
    return cnitool("probe", *FAST, *words, CNI_PATH=BIN)


class Choices(ProbeTest):
    def refused(self, status, *words):
        got = probed(*words)
        self.assertEqual((got.status, got.stdout), (status, ""), str(got))
        return got.stderr

    def test_a_pod_by_its_name_or_container(self):
        self.name(Pod("c"), 8082, "shop", "web-1")
        everything = len(self.probe()["questions"])
        for word in ("shop/web-1", "web-1", container_of("/run/netns/c"), container_of("/run/netns/c")[:14]):
            asked = self.probe(word)["questions"]
            self.assertEqual({one["containerID"] for one in asked if "shop/web-1 (eth0) to its gateway" in one["question"]},
                             {container_of("/run/netns/c")})
            self.assertTrue(all("shop/web-1" in one["question"] for one in asked), asked)
            self.assertLess(len(asked), everything)
        self.assertIn("no attachment in the cache (did you mean", self.refused(1, "shop/web-2"))
        self.assertIn("no attachment in the cache", self.refused(1, "--to", "shop/web-2"))
        self.assertEqual(cnitool("probe", "web-1", "--pod", "web-1", CNI_PATH=BIN).status, 2)
        self.name(Pod("d"), 8083, "test", "web-1")
        for words in (("web-1",), ("--to", "web-1")):
            self.assertIn("matches 2: shop/web-1, test/web-1", self.refused(1, *words))
        self.assertEqual(self.probe("test/web-1", "--to", "shop/web-1")["findings"], [])
        run("ip", "netns", "del", "c")
        for words in (("shop/web-1",), ("--pod", "shop/web-1"), ("--to", "shop/web-1")):
            self.assertIn("it has ended", self.refused(1, *words))

    def test_words_that_are_no_target(self):
        for words in (("",), ("--to", "a b"), ("--to", "10.0.0"), ("--to", "web-1:"), ("--to", "1.2.3.4:80/sctp"),
                      ("--from", "web-1"), ("--from", "127.0.0.1"), ("--from", "192.0.2.2", "--to", "192.0.2.2"),
                      ("--watch", "--dry-run"), ("--interval", "2"), ("--watch", "--interval", "0"), ("--too", "dns")):
            self.assertEqual(probed(*words).status, 2, words)
        self.assertEqual(probed("--network", "nonet").status, 1)

    def test_a_line_for_each_question(self):
        run(*DROP)
        got = probed(container_of(self.pods[0].path))
        self.assertEqual(got.status, 1)
        lines = got.stdout.splitlines()
        asked = [line for line in lines if line.startswith(("ok     ", "error   ", "unknown "))]
        self.assertTrue(lines[-1].startswith(f"{len(asked)} questions, "), lines[-1])
        self.assertIn(f"error   {container_of(self.pods[0].path)[:12]} (eth0) to its gateway 10.1.2.1: no answer", lines)
        self.assertEqual(sum("chain 'i' of table inet x" in line for line in lines if "remedy" not in line), 1)
        quiet = probed("-q").stdout
        self.assertTrue(quiet.startswith("error chain 'i' of table inet x drops packets"), quiet)

    def test_completion(self):
        self.name(Pod("c"), 8082, "shop", "web-1")
        def completed(*words):
            return {line.split("\t")[0] for line in cnitool("complete", "--", "probe", *words).stdout.splitlines()}
        self.assertIn("shop/web-1", completed(""))
        self.assertIn(container_of(self.pods[0].path), completed(""))
        self.assertLessEqual({"shop/web-1", "dns"}, completed("--to", ""))
        self.assertEqual(completed("--network", ""), {"net"})


class Targets(ProbeTest):
    def test_another_pod(self):
        name = container_of(self.pods[1].path)
        answer = self.probe("--to", name)
        self.assertEqual((answer["findings"], answer["asked"]), ([], 4))  # from the node and the other one, in both families
        answer = self.probe("--to", f"{name}:80", container_of(self.pods[0].path))
        self.assertEqual({one["answer"] for one in answer["questions"]}, {"closed"})
        self.pods[1].run("nft", "add table inet x; add chain inet x i { type filter hook input priority 0; policy drop; }")
        [found] = self.probe("--to", name)["findings"]
        self.assertEqual(len(found["lines"]), 4)

    def test_name_servers_by_both_protocols(self):
        refused = probed("--to", "dns")
        self.assertIn("name no name server", refused.stderr)
        for pod in self.pods:
            self.assert_ok(cnitool("del", "net", pod.path, CNI_PATH=BIN))
        use(chain({**BRIDGE, "dns": {"nameservers": ["192.0.2.2"]}}, PORTMAP, BANDWIDTH))
        self.add(self.pods[0], 8080)
        answers = {one["question"].rpartition("192.0.2.2")[2]: one["answer"]
                   for one in self.probe("--to", "dns")["questions"]}
        self.assertEqual(answers, {"": "192.0.2.2 says: port unreachable", " by TCP": "closed"})
        udp = self.probe("--to", "192.0.2.2:9/udp")
        self.assertEqual([one["what"] for one in udp["findings"]], ["192.0.2.2 says: port unreachable"])


class Incoming(ProbeTest):
    def test_packets_of_a_host_beyond_the_node(self):
        Pod.existing("outside").run("ip", "-6", "addr", "add", "2001:db8::2/64", "dev", "eth0", "nodad")
        self.settle()
        run("ping", "-c1", "-W1", "-q", "192.0.2.2")
        before, tracked = traces("a", "b"), connections()
        for source in ("192.0.2.2", "203.0.113.7"):  # on the segment, and behind the router
            answer = self.probe("--from", source)
            self.assertEqual((answer["findings"], answer["asked"]), ([], 4), source)
            self.assertEqual(sorted(one["answer"] for one in answer["questions"]), ["answered", "answered", "closed", "closed"])
        self.assertEqual(self.probe("--from", "2001:db8::2")["findings"], [])
        self.assertEqual((differences(before, traces("a", "b")), connections() - tracked), ({}, set()))
        run("nft", "add table ip x; add chain ip x p { type filter hook prerouting priority -300; }; "
            "add rule ip x p iifname up0 tcp dport 8080 drop")
        [found] = self.probe("--from", "203.0.113.7")["findings"]
        self.assertIn("chain 'p' of table ip x drops packets: iifname \"up0\" tcp dport 8080 drop", found["what"])
        self.assertEqual(len(found["lines"]), 1)
        self.assertEqual(self.probe()["findings"], [])  # who asks the node alone does not see it

    def test_sources_that_are_not_beyond_the_node(self):
        for source, words in (("192.0.2.1", "is an address of the node or a pod"), ("2001:db9::1", "has no route"),
                              (self.address_of(self.pods[0]), "is an address of the node or a pod")):
            got = probed("--from", source)
            self.assertEqual((got.status, got.stdout), (1, ""))
            self.assertIn(words, got.stderr)


class Changes(ProbeTest):
    def test_are_printed_as_they_come(self):
        self.settle()
        run("ping", "-c1", "-W1", "-q", "192.0.2.2")
        before, tracked = traces("a", "b"), connections()
        watching = start("probe", "--watch", "--json", "--interval", "1", *FAST, CNI_PATH=BIN)
        def changes(count):
            return [json.loads(watching.stdout.readline()) for _ in range(count)]
        [first] = changes(1)
        self.assertEqual((first["errors"], first["asked"], first["time"][-1]), (0, first["answered"], "Z"))
        run(*DROP)
        failed = changes(2)  # each pod to its gateway; what is as large is the same
        self.assertEqual({one["level"] for one in failed}, {"error"})
        self.assertIn("chain 'i' of table inet x", failed[0]["cause"])
        run("nft", "delete table inet x")
        while (change := changes(1)[0])["level"] == "error":
            failed.append(change)
        healed = [change, *changes(len(failed) - 1)]
        self.assertEqual({one["level"] for one in healed}, {"ok"})
        self.assertEqual({one["question"] for one in healed}, {one["question"] for one in failed})
        watching.send_signal(signal.SIGINT)
        got = finish(watching)
        self.assertEqual((got.status, got.stdout, got.stderr), (0, "", ""))
        self.assertEqual((differences(before, traces("a", "b")), connections() - tracked), ({}, set()))

    def test_text_and_an_end_with_an_error(self):
        run(*DROP)
        watching = start("probe", "--watch", *FAST, CNI_PATH=BIN)
        lines = [watching.stdout.readline() for _ in range(2)]
        watching.send_signal(signal.SIGTERM)
        self.assertEqual(finish(watching).status, 1)
        self.assertRegex(lines[0], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \d+ questions, \d+ answered, 1 error$")
        self.assertRegex(lines[1], r"^\S+Z error .* \(eth0\) to its gateway 10.1.2.1: no answer: chain 'i' of table inet x drops")

    def test_an_output_that_was_closed(self):
        watching = start("probe", "--watch", "--interval", "1", *FAST, CNI_PATH=BIN)
        watching.stdout.readline()
        watching.stdout.close()
        run(*DROP)
        self.assertEqual(watching.wait(timeout=60), 1)
        watching.stderr.close()


class Drawn(ProbeTest):
    def drawn(self, *words):
        return self.assert_ok(cnitool("graph", "--probe", *FAST, "--json", CNI_PATH=BIN)) if words == ("json",) else (
            cnitool("graph", "--probe", *FAST, "--format", *words, CNI_PATH=BIN).stdout)

    def test_a_way_that_is_broken(self):
        whole = cnitool("graph", CNI_PATH=BIN).stdout
        self.assertEqual(self.drawn("text"), whole)
        run(*DROP)
        cause = "broken: chain 'i' of table inet x drops packets"
        self.assertEqual(self.drawn("text").count(cause), 2)
        self.assertIn("style=dashed, color=red", self.drawn("dot"))
        pods = self.drawn("json")["bridges"][0]["pods"]
        self.assertTrue(all(pod["broken"].startswith(cause.removeprefix("broken: ")) for pod in pods), pods)
        self.assertFalse(any("brokenOut" in pod for pod in pods), pods)
        svg = ET.fromstring(self.drawn("svg"))
        self.assertEqual(sum(one.get("class") == "broken" for one in svg.iter("{http://www.w3.org/2000/svg}circle")), 2)
        run("nft", "delete table inet x")
        run("nft", "add table inet x; add chain inet x f { type filter hook forward priority 0; }; "
            "add rule inet x f oifname up0 drop")
        text = self.drawn("text")
        self.assertEqual(text.count("broken: chain 'f' of table inet x drops packets"), 1, text)
        self.assertLess(text.index("to up0, masqueraded"), text.index("broken: "))


if __name__ == "__main__":
    suite.main()
