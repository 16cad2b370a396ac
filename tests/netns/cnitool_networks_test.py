#!/usr/bin/env python3
"""cnitool shows which networks exist, and names them where a name or a file is wrong."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import suite  # noqa: E402
from support.cnitool import CONF_DIR, cnitool, use  # noqa: E402


def network(name, subnets):
    return {"cniVersion": "1.1.0", "name": name, "plugins": [
        {"type": "bridge", "bridge": name[:8],
         "ipam": {"type": "host-local", "ranges": [[{"subnet": subnet}] for subnet in subnets]}},
        {"type": "portmap", "capabilities": {"portMappings": True}}]}


class Networks(suite.NodeTest):
    def setUp(self):
        super().setUp()
        self.file = f"{CONF_DIR}/10-net.conflist"
        use(network("net", ["10.1.2.0/24", "fd00:1::/64"]), "10-net.conflist")
        use(network("other", ["10.1.3.0/28"]), "20-other.conflist")
        self.pod1 = self.pod()
        self.assertEqual(cnitool("add", "net", self.pod1.path).status, 0)

    def test_a_table_has_plugins_subnets_use_and_attachments(self):
        got = cnitool("networks")
        self.assertEqual((got.status, got.stderr), (0, ""))
        self.assertEqual([line.split() for line in got.stdout.splitlines()], [
            ["NETWORK", "PLUGINS", "SUBNETS", "USED", "ATTACHMENTS", "FILE"],
            ["net", "bridge(host-local),portmap", "10.1.2.0/24,fd00:1::/64", "1/253,1", "1", self.file],
            ["other", "bridge(host-local),portmap", "10.1.3.0/28", "0/13", "0",
             f"{CONF_DIR}/20-other.conflist"]])
        self.assertEqual(cnitool("networks", "--json").json["networks"][0], {
            "network": "net", "plugins": ["bridge(host-local)", "portmap"],
            "pools": [{"subnets": ["10.1.2.0/24"], "used": 1, "total": 253},
                      {"subnets": ["fd00:1::/64"], "used": 1, "total": None}],
            "attachments": 1, "file": self.file})

    def test_a_network_whose_config_was_removed_is_listed_while_it_has_attachments(self):
        os.unlink(self.file)
        last = cnitool("networks").stdout.splitlines()[-1]
        self.assertEqual(last.split(), ["net", "-", "-", "-", "1", "no", "config"])
        self.assertEqual(len(cnitool("list", "net").stdout.splitlines()), 2)

    def test_list_has_one_container_too(self):
        container = cnitool("list", "--json").json["attachments"][0]["containerID"]
        self.assertEqual(len(cnitool("list", "--container-id", container).stdout.splitlines()), 2)
        self.assertEqual(cnitool("list", "other", "--container-id", container).stdout.count("\n"), 1)

    def test_list_finds_the_pod_of_an_address_and_of_a_port(self):
        pod = self.pod()
        ports = {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}
        self.assertEqual(cnitool("add", "net", pod.path, CAP_ARGS=ports).status, 0)
        for words in (("--host-port", "8080"), ("--address", "10.1.2.3"), ("--address", "fd00:1:0::3")):
            found = cnitool("list", "--json", *words).json["attachments"]
            self.assertEqual([one["netns"] for one in found], [pod.path], words)
        for words in (("--host-port", "80"), ("--address", "10.1.2.9")):
            self.assertEqual(cnitool("list", "--json", *words).json["attachments"], [])
        for words in (("--host-port", "0"), ("--address", "10.1.2")):
            self.assertEqual(cnitool("list", *words).status, 2)

    def test_a_wrong_name_is_an_error_with_the_names_that_exist(self):
        pod = self.pod()
        for words in (("add", "nte", pod.path), ("check", "nte", pod.path), ("del", "nte", pod.path),
                      ("gc", "nte"), ("status", "nte"), ("list", "nte"), ("repair", "nte")):
            got = cnitool(*words)
            self.assertEqual((got.status, got.stdout), (1, ""), str(got))
            self.assertEqual(got.stderr, f'no net configuration with name "nte" in {CONF_DIR}\n'
                             "hint: did you mean net? the networks are net, other\n", words)

    def test_files_that_no_runtime_reads_are_named(self):
        for name in ("30-more.yaml", "31-more.conflist.bak"):
            use({}, name)
        hint = cnitool("add", "more", self.pod1.path).stderr
        self.assertIn("not read, because only files *.conflist, *.conf and *.json are: "
                      "30-more.yaml, 31-more.conflist.bak\n", hint)

    def test_a_broken_file_is_one_line_that_names_validate(self):
        broken = {"30-a.conflist": '{"name": "a" "plugins": []}',
                  "31-b.conflist": '{"name": "' + 3000 * "x", "05-c.conf": "[]"}
        for name, text in broken.items():
            with open(f"{CONF_DIR}/{name}", "w", encoding="ascii") as file:
                file.write(text)
        for words, status in ((("status", "net"), 0), (("networks",), 0), (("status", "nte"), 1)):
            got = cnitool(*words)
            self.assertEqual(got.status, status)
            lines = got.stderr.splitlines()[:3]
            for name, line in zip(broken, lines, strict=True):
                self.assertTrue(line.startswith(f"read '{CONF_DIR}/{name}': "), line)
                self.assertIn(f"`cnitool validate {CONF_DIR}/{name}`", line)
                self.assertLess(len(line), 350)
        use({"name": "d", "plugins": [5]}, "33-d.conflist")
        got = cnitool("status", "d").stderr.splitlines()[-2:]
        self.assertIn("plugins[0]: expected an object", got[0])
        self.assertEqual(got[1], f"hint: `cnitool validate {CONF_DIR}/33-d.conflist` shows where")


if __name__ == "__main__":
    suite.main()
