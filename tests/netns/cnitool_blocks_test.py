#!/usr/bin/env python3
"""cnitool with cluster-pool: what `blocks` prints and releases, what doctor finds, and what validate says."""

import json
import os
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import blocks, suite  # noqa: E402
from support.cnitool import CONF_DIR, cnitool, use  # noqa: E402
from support.plugin import cni  # noqa: E402

SOCKET = "/run/cni/patchbay-blocks.sock"
SUBNET = "10.5.0.0/24"
CONF = {"cniVersion": "1.1.0", "name": "net1", "type": "cluster-pool",
        "ipam": {"type": "cluster-pool", "subnet": SUBNET, "waitForBlock": 0}}
LIST = {"cniVersion": "1.1.0", "name": "net1", "plugins": [
    {"type": "bridge", "isGateway": True, "ipam": CONF["ipam"]}]}


class Answering:
    """An agent that gives each line this answer. lines has them."""

    def __init__(self, answer):
        os.makedirs(os.path.dirname(SOCKET), exist_ok=True)
        self.answer, self.lines = answer, []
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(SOCKET)
        self._server.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def stop(self):
        self._server.shutdown(socket.SHUT_RDWR)  # ends accept(2)
        self._thread.join()
        self._server.close()

    def _serve(self):
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection, connection.makefile("rw") as file:
                if line := file.readline():
                    self.lines.append(json.loads(line))
                    file.write(json.dumps(self.answer) + "\n")


@suite.spread
class CnitoolBlocks(suite.NodeTest):
    def add(self, *containers):
        for name in containers:
            self.assert_ok(cni("cluster-pool", "ADD", CONF, netns="/run/netns/none", container=name))

    def findings(self, check="blocks"):
        use(LIST)
        return [one for one in cnitool("doctor", "--json").json["findings"] if one["check"] == check]

    def test_blocks_prints_who_has_what_and_how_full(self):
        blocks.held("10.5.0.16/28", blocks.block("10.5.0.32/28", "lost", "node3"), note="etcd is away")
        blocks.seen({"node1": ["10.5.0.16/28"], "node2": ["10.5.0.64/28", "10.5.0.80/28"]}, age=7)
        self.add("a", "b", "c")
        done = cnitool("blocks")
        self.assertEqual(done.status, 0, str(done))
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual(rows[0], ["NETWORK", "NODE", "BLOCK", "STATE", "USED"])
        self.assertIn(["net1", "node1", "(this)", "10.5.0.16/28", "held", "3/16"], rows)
        self.assertIn(["net1", "node1", "(this)", "10.5.0.32/28", "lost", "to", "node3", "0/16"], rows)
        self.assertIn(["net1", "node2", "10.5.0.80/28", "held", "-"], rows)
        self.assertIn("3/16 blocks have a node, as the agent saw it", done.stderr)
        self.assertIn("the agent says: etcd is away", done.stderr)

    def test_blocks_as_JSON_has_all_of_it(self):
        blocks.held("10.5.0.16/28")
        blocks.seen({"node2": ["10.5.0.64/28"]}, age=100)
        blocks.held("10.9.0.0/28", network="other", of=blocks.pool("10.9.0.0/28"))
        self.add("a")
        answer = cnitool("blocks", "--json").json["networks"]
        self.assertEqual([one["network"] for one in answer], ["net1", "other"])
        [own] = answer[0]["blocks"]
        self.assertEqual((own["cidr"], own["state"], own["used"], own["size"]), ("10.5.0.16/28", "held", 1, 16))
        self.assertEqual(answer[0]["seen"]["nodes"], [{"node": "node2", "blocks": ["10.5.0.64/28"]}])
        self.assertGreaterEqual(answer[0]["seen"]["age"], 100)
        self.assertEqual((answer[0]["node"], answer[0]["claimed"], answer[0]["total"]), ("node1", 1, 16))
        self.assertEqual([one["network"] for one in cnitool("blocks", "other", "--json").json["networks"]], ["other"])
        unknown = cnitool("blocks", "none", "--json")
        self.assertEqual((unknown.status, unknown.json["code"]), (1, 7))

    def test_blocks_release_asks_the_agent(self):
        agent = Answering({"released": 3})
        self.addCleanup(agent.stop)
        done = cnitool("blocks", "release", "node2")
        self.assertEqual((done.status, done.stdout), (0, "node 'node2' had 3 blocks, which any node can claim\n"), str(done))
        self.assertEqual(agent.lines, [{"verb": "release", "node": "node2"}])
        self.assertEqual(cnitool("blocks", "release", "node2", "--json").json, {"node": "node2", "released": 3})

    def test_blocks_release_says_what_the_agent_refuses(self):
        agent = Answering({"error": {"code": 11, "msg": "node 'node2' has a Node object", "details": "delete it first"}})
        self.addCleanup(agent.stop)
        done = cnitool("blocks", "release", "node2")
        self.assertEqual(done.status, 1)
        self.assertIn("node 'node2' has a Node object; delete it first", done.stderr)

    def test_blocks_release_without_an_agent_names_its_config(self):
        done = cnitool("blocks", "release", "node2", "--json")
        self.assertEqual((done.status, done.json["code"]), (1, 11))
        self.assertIn("/etc/patchbay/blocks.json", done.json["details"])
        self.assertEqual(cnitool("blocks", "free", "node2").status, 2)

    def serve(self):
        agent = Answering({"node": "node1", "engine": "etcd", "serves": True, "there": True, "missing": []})
        self.addCleanup(agent.stop)

    def test_doctor_says_nothing_of_blocks_that_are_as_they_should_be(self):
        self.serve()
        blocks.held("10.5.0.0/28", "10.5.0.16/28")
        self.add("a")
        self.assertEqual([one["level"] for one in self.findings()], ["ok"])

    @suite.cases([
        ("a lost block with a lease", ("error", "node 'node2' has block 10.5.0.16/28 of this node, in which pods live: 10.5.0.16 of container a",
                                       lambda: blocks.held(blocks.block("10.5.0.16/28", "lost", "node2")))),
        ("a lease outside", ("warning", "has 1 lease in no block of this node: 10.5.0.16 of container a", lambda: blocks.held("10.5.0.32/28"))),
        ("a torn file", ("error", "net1.json' is torn", lambda: blocks.put("net1.json", "{"))),
        ("a later file", ("error", "a newer version of patchbay wrote it", lambda: blocks.held("10.5.0.16/28", format=2))),
    ])
    def doctor_finds(self, row):
        level, says, spoil = row
        blocks.held("10.5.0.16/28")
        self.add("a")
        spoil()
        found = self.findings()
        mine = [one for one in found if says in one["what"]]
        self.assertEqual([one["level"] for one in mine], [level], str(found))
        self.assertTrue(mine[0]["why"] and mine[0]["remedy"])

    def test_doctor_finds_that_no_agent_answers_where_one_has_served(self):
        blocks.held("10.5.0.0/28")
        [found] = self.findings()
        self.assertEqual((found["level"], found["what"]), ("warning", "no patchbay-agent answers for blocks"))

    def test_doctor_counts_the_blocks_of_each_set_that_have_addresses(self):
        self.serve()
        both = blocks.pool(SUBNET, "fd00:5::/64", exclude=["10.5.0.0/28", "10.5.0.16/28"])
        both["ranges"][1][0]["exclude"] = []
        every = [f"10.5.0.{16 * n}/28" for n in range(2, 16)]
        blocks.held(*every[:1], "fd00:5::/120", of=both)
        blocks.seen({"node1": [every[0], "fd00:5::/120"], "node2": every[1:12]})
        self.assertEqual([one["level"] for one in self.findings()], ["ok"])
        blocks.seen({"node1": [every[0], "fd00:5::/120"], "node2": every[1:]})
        [found] = self.findings()
        self.assertEqual((found["level"], found["what"]), ("error", f"network 'net1': 14 of 14 blocks of {SUBNET} have a node"))
        self.assertIn(f"{SUBNET}: 14/14 blocks, fd00:5::/64: 1/more than 2^32 blocks have a node", cnitool("blocks").stderr)
        blocks.seen({"node1": [every[0], "10.9.0.0/28"], "node2": [*every[1:12], *(f"10.5.1.{16 * n}/28" for n in range(9))]})
        self.assertEqual([one["level"] for one in self.findings()], ["ok"])  # of a range that the pool had

    def test_doctor_says_how_old_it_is_what_the_agent_saw(self):
        self.serve()
        every = [f"10.5.0.{16 * n}/28" for n in range(16)]
        blocks.held(every[0])
        blocks.seen({"node1": every[:1], "node2": every[1:]}, age=3 * 3600)
        [found] = self.findings()
        self.assertEqual(found["level"], "warning")
        self.assertIn("have a node, as patchbay-agent saw it 3h ago", found["what"])

    def test_doctor_leaves_a_node_alone_that_has_all_blocks_and_room_in_them(self):
        self.serve()
        every = [f"10.5.0.{16 * n}/28" for n in range(16)]
        blocks.held(*every)
        blocks.seen({"node1": every})
        self.add("a")
        self.assertEqual([one["level"] for one in self.findings()], ["ok"])

    def test_doctor_finds_a_pool_whose_blocks_are_claimed_up_to_a_tenth(self):
        self.serve()
        blocks.held("10.5.0.0/28")
        every = [f"10.5.0.{16 * n}/28" for n in range(16)]
        blocks.seen({"node1": every[:1], "node2": every[1:14]})
        self.assertEqual([one["level"] for one in self.findings()], ["ok"])
        blocks.seen({"node1": every[:1], "node2": every[1:15]})
        [found] = self.findings()
        self.assertEqual((found["level"], found["what"]), ("warning", "network 'net1': 15 of 16 blocks of the cluster have a node"))
        blocks.seen({"node1": every[:1], "node2": every[1:]})
        self.assertEqual(self.findings()[0]["level"], "error")
        blocks.seen({"node1": every[:1], "node2": [f"10.7.0.{16 * n}/28" for n in range(16)]})  # of a range of before
        self.assertEqual([one["level"] for one in self.findings()], ["ok"])

    def test_doctor_finds_what_keeps_the_agent_from_claiming_and_addresses_that_the_pool_excludes(self):
        agent = Answering({"node": "node1", "engine": "etcd", "serves": True, "there": True, "missing": []})
        self.addCleanup(agent.stop)
        blocks.held("10.5.0.16/28", note="a copy of this machine claims blocks")
        self.add("a")
        [found] = self.findings()
        self.assertEqual((found["level"], found["what"]),
                         ("warning", "network 'net1': patchbay-agent claims no block: a copy of this machine claims blocks"))
        blocks.held("10.5.0.16/28", of=blocks.pool(SUBNET, exclude=["10.5.0.16/32"]))
        [found] = self.findings()
        self.assertIn("pods have addresses that the pool excludes, or its gateway: 10.5.0.16 of container a", found["what"])
        agent.answer = {"node": "node1", "engine": "etcd", "serves": False, "why": "open '.agent': is a directory"}
        blocks.held("10.5.0.16/28")
        [found] = self.findings()
        self.assertEqual((found["level"], found["what"]), ("error", "patchbay-agent serves no blocks: open '.agent': is a directory"))

    def test_doctor_finds_a_want_that_no_agent_serves(self):
        use(LIST)
        cni("cluster-pool", "ADD", CONF, netns="/none", container="a")
        want = blocks.want()
        blocks.put("net1.want", want | {"since": int(time.time()) - 90})
        [found] = [one for one in self.findings() if one["level"] == "error"]
        self.assertRegex(found["what"], r"network 'net1' wants a block since \d+s, and no patchbay-agent answers for blocks")
        self.assertIn("/etc/patchbay/blocks.json", found["remedy"])

    def test_doctor_finds_at_once_that_an_ADD_has_no_agent_or_one_that_sees_another_folder(self):
        use(LIST)
        cni("cluster-pool", "ADD", CONF, netns="/none", container="a")
        [found] = self.findings()
        self.assertIn("no patchbay-agent answers for blocks", found["what"])
        want = blocks.want()
        blocks.put("net1.want", want | {"since": int(time.time()) - 90})
        agent = Answering({"node": "node1", "engine": "etcd", "serves": True, "there": True, "networks": []})
        self.addCleanup(agent.stop)
        [found] = self.findings()
        self.assertIn("patchbay-agent runs, and has written nothing to /var/lib/cni/blocks", found["why"])
        self.assertIn("mount /var/lib/cni", found["remedy"])

    def test_doctor_does_not_know_whether_pools_without_a_config_are_on_one_segment(self):
        blocks.held("10.5.0.0/28")
        blocks.held("10.5.1.16/28", network="other", of=blocks.pool("10.5.1.0/24"))
        self.assertEqual([one["level"] for one in self.findings("subnets")], ["ok"])
        blocks.held("10.5.0.64/28", network="other", of=blocks.pool("10.5.0.0/25"))
        [found] = self.findings("subnets")
        self.assertEqual(found["level"], "unknown")
        self.assertIn("'net1' and 'other' have pools with the same addresses", found["what"])
        self.assertIn("Where pods of 'other' are is unknown", found["what"])
        blocks.held("10.5.0.64/28", network="other", of=blocks.pool("10.5.0.0/25", exclude=["10.5.0.0/25"]))
        self.assertEqual([one["level"] for one in self.findings("subnets")], ["ok"])

    def test_doctor_says_what_the_agent_knows_of_its_engine_and_of_dead_nodes(self):
        blocks.held("10.5.0.0/28")
        answer = {"node": "node1", "engine": "the API server", "serves": True, "there": True, "missing": []}
        agent = Answering(answer)
        self.addCleanup(agent.stop)
        self.assertEqual([one["level"] for one in self.findings()], ["ok"])
        agent.answer = answer | {"there": False, "why": "connect: refused", "missing": [{"node": "n7", "seconds": 2400}]}
        away, dead = self.findings()
        self.assertEqual((away["level"], away["what"]), ("warning", "the API server does not answer patchbay-agent: connect: refused"))
        self.assertEqual(dead["level"], "warning")
        self.assertRegex(dead["what"], "node 'n7' has blocks, and no Node object since 40m")
        self.assertIn("cnitool blocks release n7", dead["remedy"])
        agent.answer = {"missing": [7, {"node": 3, "seconds": "x"}], "engine": 5}  # of another version
        self.assertEqual([one["level"] for one in self.findings()], ["ok"])

    def test_graph_shows_the_blocks_of_a_network(self):
        use(LIST)
        blocks.held("10.5.0.16/28", blocks.block("10.5.0.32/28", "lost", "node3"))
        blocks.seen({"node1": ["10.5.0.16/28"], "node2": ["10.5.0.64/28"]})
        pod = self.pod("a")
        self.assert_ok(cnitool("add", "net1", pod.path))
        shown = cnitool("graph").stdout
        for line in ("pool: 2/16 blocks claimed", "10.5.0.16/28 1/16", "10.5.0.32/28 lost 0/16"):
            self.assertIn(line, shown)
        self.assertEqual(cnitool("graph", "--json").json["pools"], [{
            "network": "net1", "claimed": 2, "total": 16, "sets": [{"subnets": [SUBNET], "claimed": 2, "total": 16}], "blocks": [
                {"cidr": "10.5.0.16/28", "state": "held", "used": 1, "size": 16},
                {"cidr": "10.5.0.32/28", "state": "lost", "used": 0, "size": 16}]}])

    def test_validate_names_the_key_and_networks_counts_the_leases(self):
        blocks.held("10.5.0.16/28")
        self.add("a")
        use(LIST)
        [network] = cnitool("networks", "--json").json["networks"]
        self.assertEqual(network["pools"], [{"subnets": [SUBNET], "used": 1, "total": 253}])
        bad = json.loads(json.dumps(LIST))
        bad["plugins"][0]["ipam"]["blockSize"] = 31
        use(bad)
        done = cnitool("validate", f"{CONF_DIR}/10-test.conflist")
        self.assertEqual(done.status, 1)
        self.assertIn("blockSize", done.stdout + done.stderr)
        self.assertIn("four addresses", done.stdout + done.stderr)


if __name__ == "__main__":
    suite.main()
