#!/usr/bin/env python3
"""cluster-pool: ADD in the blocks that patchbay-agent has claimed for the node, and what it says where there are none. The
agent is one of this test, without an engine."""

import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from support import blocks, suite  # noqa: E402
from support.parallel import parallel  # noqa: E402
from support.plugin import cni  # noqa: E402
from support.reboot import boot  # noqa: E402
from support.world import run, wait_for  # noqa: E402

SUBNET = "10.5.0.0/24"
FULL = 14  # addresses of the first /28 of a subnet: without its own, and the gateway
UNKNOWN = "/run/netns/none"


def conf(plugin="cluster-pool", wait=0, of=None, **more):
    ipam = {"type": "cluster-pool", "waitForBlock": wait} | (of or {"subnet": SUBNET})
    return {"cniVersion": "1.1.0", "name": "net1", "type": plugin, "ipam": ipam} | more


def call(verb, config=None, container="pod1", **more):
    return cni(config["type"] if config else "cluster-pool", verb, config or conf(),
               **({"netns": UNKNOWN, "container": container} | more))


def fill(item):
    """ADD of a container; its address, or its error."""
    container, config = item
    done = call("ADD", config, container)
    return done.json["ips"][0]["address"] if done.ok else str(done)


@suite.spread
class ClusterPool(suite.NodeTest):
    def add(self, container="pod1", config=None, **more):
        return self.assert_ok(call("ADD", config, container, **more))["ips"][0]["address"]

    def agent(self, *taken, delay=0.0):
        agent = blocks.Agent(taken, delay)
        self.addCleanup(agent.stop)
        return agent

    # Blocks that the node has.

    def test_addresses_come_from_the_held_blocks_and_have_the_subnet_s_prefix_length(self):
        blocks.held("10.5.0.16/28", "10.5.0.64/28")
        result = self.assert_ok(call("ADD"))
        self.assertEqual(result["ips"], [{"address": "10.5.0.16/24", "gateway": "10.5.0.1"}])
        got = parallel(fill, [(f"more{n}", conf()) for n in range(31)], 4)
        self.assertEqual(sorted(got + ["10.5.0.16/24"]),
                         sorted(f"10.5.0.{n}/24" for n in [*range(16, 32), *range(64, 80)]))
        self.assert_error(call("ADD", container="another"), 11, "no IP addresses available in the 2 blocks of this node")

    def test_network_gateway_broadcast_and_excluded_addresses_are_nobody_s(self):
        of = {"subnet": "10.5.0.0/27", "exclude": ["10.5.0.4", "10.5.0.8/30", "10.5.0.16/28"], "gateway": "10.5.0.2"}
        blocks.held("10.5.0.0/28", "10.5.0.16/28")
        got = [fill((f"pod{n}", conf(of=of))) for n in range(10)]
        self.assertEqual(got[:-1], [f"10.5.0.{n}/27" for n in (1, 3, 5, 6, 7, 12, 13, 14, 15)])
        self.assertIn("no IP addresses available", got[-1])

    def test_two_families_are_two_sets(self):
        of = {"ranges": [[{"subnet": SUBNET}], [{"subnet": "fd00:5::/64"}]]}
        blocks.held("10.5.0.32/28", "fd00:5::100/120")
        result = self.assert_ok(call("ADD", conf(of=of)))
        self.assertEqual([ip["address"] for ip in result["ips"]], ["10.5.0.32/24", "fd00:5::100/64"])
        self.assertEqual(result["ips"][1]["gateway"], "fd00:5::1")
        self.assert_ok(call("CHECK", conf(of=of, prevResult=result)))
        self.assert_ok(call("DEL", conf(of=of)))
        self.assertEqual(blocks.leased(), {})

    def test_a_set_without_a_block_takes_nothing_of_the_other(self):
        blocks.held("10.5.0.32/28")
        of = {"ranges": [[{"subnet": SUBNET}], [{"subnet": "fd00:5::/64"}]]}
        self.assert_error(call("ADD", conf(of=of)), 11, "failed to allocate for range 1: this node has no block of fd00:5::1-")
        self.assertEqual(blocks.leased(), {})
        self.assertEqual(blocks.want()["full"], [{"set": 1, "blocks": 0}])

    def test_pods_reach_each_other(self):
        blocks.held("10.5.0.16/28")
        config = conf("bridge", isGateway=True)
        pods = [self.pod(), self.pod()]
        for pod in pods:
            self.assert_ok(call("ADD", config, pod.name, netns=pod.path))
        shown = json.loads(pods[1].run("ip", "-j", "-4", "addr", "show", "dev", "eth0"))[0]["addr_info"][0]
        self.assertEqual((shown["local"], shown["prefixlen"]), ("10.5.0.17", 24))
        pods[0].run("ping", "-c1", "-W2", "10.5.0.17")

    def test_returning_and_lost_blocks_give_out_nothing_and_their_pods_keep_their_addresses(self):
        blocks.held("10.5.0.16/28")
        address = self.add("living")
        for number, (state, holder) in enumerate((("returning", ""), ("lost", "node2"))):
            blocks.held(blocks.block("10.5.0.16/28", state, holder), "10.5.0.128/28")
            self.assertEqual(self.add(f"new{number}"), f"10.5.0.{128 + number}/24")
            self.assert_ok(call("CHECK", container="living"))
        self.assertEqual(blocks.leased()["10.5.0.16"], "living")
        self.assert_ok(call("DEL", container="living"))
        self.assertNotIn(address.split("/")[0], blocks.leased())

    # Waiting for the agent.

    def test_ADD_waits_until_the_agent_has_claimed_the_first_block(self):
        agent = self.agent("10.5.0.0/28", delay=0.2)
        self.assertEqual(self.add(config=conf(wait=10)), "10.5.0.16/24")
        self.assertEqual(agent.served[0]["pool"], blocks.pool(SUBNET))
        self.assertEqual(agent.served[0]["full"], [{"set": 0, "blocks": 0}])

    def test_fifty_pods_at_once_get_an_address_each(self):
        self.agent(delay=0.05)
        of = {"subnet": "10.5.0.0/22"}
        got = parallel(fill, [(f"pod{n}", conf(wait=20, of=of)) for n in range(50)], 8)
        self.assertEqual(len(set(got)), 50, got)
        self.assertEqual(sorted(f"{address}/22" for address in blocks.leased()), sorted(got))
        for number in range(50):
            self.assert_ok(call("DEL", conf(of=of), f"pod{number}"))
        self.assertEqual(blocks.leased(), {})

    def test_the_lock_is_free_while_ADD_waits_and_an_address_that_comes_free_ends_the_wait(self):
        blocks.held("10.5.0.0/28", note="all are claimed")
        parallel(fill, [(f"pod{n}", conf()) for n in range(FULL)], 4)
        waits = subprocess.Popen([sys.executable, "-c", f"import sys; sys.path.insert(0, {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))!r})\n"
                                  "from support.plugin import cni; import json\n"
                                  f"done = cni('cluster-pool', 'ADD', {conf(wait=20)!r}, netns='/none', container='late')\n"
                                  "print(done.json['ips'][0]['address'] if done.ok else done)"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(waits.kill)
        self.assertTrue(wait_for(lambda: "inotify" in run("sh", "-c", "ls -l /proc/[0-9]*/fd 2>/dev/null | grep inotify || true"), 5))
        started = time.monotonic()
        self.assert_ok(call("DEL", container="pod3"))
        self.assertLess(time.monotonic() - started, 2)
        self.assertRegex(waits.communicate(timeout=10)[0], r"^10\.5\.0\.\d+/24\n$")

    def test_what_ADD_says_where_no_agent_was_ever_seen(self):
        done = call("ADD")
        self.assert_error(done, 11, "this node has no block of 10.5.0.1-10.5.0.254")
        self.assertIn("is it running with /etc/patchbay/blocks.json?", done.json["details"])
        self.assertEqual(blocks.want()["pool"], blocks.pool(SUBNET))

    def test_what_ADD_says_after_it_has_waited_in_vain(self):
        blocks.held("10.5.0.0/28", note="etcd does not answer since 12:00")
        parallel(fill, [(f"pod{n}", conf()) for n in range(FULL)], 4)
        started = time.monotonic()
        done = call("ADD", conf(wait=1), "late")
        self.assertGreater(time.monotonic() - started, 0.9)
        self.assert_error(done, 11, "no IP addresses available in the 1 block of this node: 10.5.0.1-10.5.0.15")
        self.assertIn("patchbay-agent: etcd does not answer since 12:00", done.json["details"])
        self.assertIn("in 1 s", done.json["details"])

    def test_a_torn_file_is_unknown_and_the_agent_writes_it_again(self):
        blocks.held("10.5.0.16/28")
        self.add("first")
        blocks.put("net1.json", '{"network": "net1", "blo')
        done = call("ADD", container="second")
        self.assert_error(done, 11)
        self.assertIn("net1.json' is torn", done.json["details"])
        os.remove(f"{blocks.DIR}/net1.json")
        self.agent()
        self.assertEqual(self.add("second", conf(wait=10)), "10.5.0.17/24")
        self.assertEqual([one["cidr"] for one in blocks.read("net1.json")["blocks"]][0], "10.5.0.16/28")

    def test_a_file_of_a_later_release_is_an_error_and_DEL_works(self):
        blocks.held("10.5.0.16/28")
        self.add()
        blocks.held("10.5.0.16/28", format=2)
        self.assert_error(call("ADD", container="second"), 999, "a newer version of patchbay wrote it")
        self.assert_ok(call("DEL"))
        self.assertEqual(blocks.leased(), {})

    # What is asked for early.

    def test_a_block_is_asked_for_when_three_quarters_are_used_and_once(self):
        blocks.held("10.5.0.0/28")
        for number in range(10):
            self.add(f"pod{number}")
        self.assertIsNone(blocks.want())
        self.add("pod10")  # of 14
        before = os.stat(f"{blocks.DIR}/net1.want").st_ino
        self.assertEqual(blocks.want()["full"], [{"set": 0, "blocks": 1}])
        self.add("pod11")
        self.assertEqual(os.stat(f"{blocks.DIR}/net1.want").st_ino, before)
        self.agent()
        wait_for(lambda: blocks.want() is None)
        self.add("pod12")
        self.assertIsNone(blocks.want())

    def test_no_block_is_asked_for_where_the_node_has_all(self):
        blocks.held("10.5.0.0/28", of=blocks.pool("10.5.0.0/28"))
        for number in range(13):
            self.add(f"pod{number}", conf(of={"subnet": "10.5.0.0/28"}))
        self.assertIsNone(blocks.want())
        self.assert_error(call("ADD", conf(of={"subnet": "10.5.0.0/28"}), "late"), 11, "the pool has no other block")
        self.assertIsNone(blocks.want())

    def test_another_pool_in_the_config_is_told_to_the_agent(self):
        blocks.held("10.5.0.16/28")
        self.assertEqual(self.add(config=conf(of={"subnet": "10.5.0.0/23"})), "10.5.0.16/23")
        self.assertEqual(blocks.want()["pool"], blocks.pool("10.5.0.0/23"))
        self.assert_error(call("ADD", conf(of={"subnet": "10.5.0.0/24", "blockSize": 29}), "other"), 11)
        self.assertEqual(blocks.want()["pool"], blocks.pool(SUBNET, size=29))

    def test_blocks_of_another_data_dir_give_nothing_until_the_agent_has_taken_it(self):
        blocks.held("10.5.0.16/28")
        self.assertEqual(self.add(), "10.5.0.16/24")
        moved = conf(of={"subnet": SUBNET, "dataDir": "/var/lib/cni/others"})
        self.assert_error(call("ADD", moved, "other"), 11, "this node has no block of 10.5.0.1-10.5.0.254")
        self.assertEqual(blocks.want()["pool"], blocks.pool(SUBNET, data_dir="/var/lib/cni/others"))
        self.assertEqual(self.add("same"), "10.5.0.17/24")

    # Addresses that are asked for.

    @suite.cases([("CNI_ARGS", ({}, "IP=10.5.0.21")), ("args", ({"args": {"cni": {"ips": ["10.5.0.21"]}}}, "")),
                  ("runtimeConfig", ({"runtimeConfig": {"ips": ["10.5.0.21/24"]}}, ""))])
    def a_fixed_address_of_a_held_block_is_taken_from(self, row):
        more, args = row
        blocks.held("10.5.0.16/28")
        self.assertEqual(self.add(config=conf(**more), args=args), "10.5.0.21/24")
        self.assert_error(call("ADD", conf(**more), "other", args=args), 11, "requested IP address 10.5.0.21 is not available")

    def test_a_fixed_address_of_another_block_makes_the_agent_claim_that(self):
        blocks.held("10.5.0.16/28")
        agent = self.agent()
        self.assertEqual(self.add(config=conf(wait=10), args="IP=10.5.0.99"), "10.5.0.99/24")
        self.assertEqual(agent.served[0]["fixed"], ["10.5.0.99"])
        self.assertEqual(self.add("any"), "10.5.0.100/24")

    def test_a_fixed_address_of_another_node_s_block_fails_at_once_and_says_whose(self):
        blocks.held("10.5.0.16/28")
        blocks.seen({"node1": ["10.5.0.16/28"], "node2": ["10.5.0.96/28"]})
        started = time.monotonic()
        done = call("ADD", conf(wait=20), args="IP=10.5.0.99")
        self.assert_error(done, 11, "requested IP address 10.5.0.99 is not available: node 'node2' has its block 10.5.0.96/28")
        self.assertLess(time.monotonic() - started, 5)
        blocks.held(blocks.block("10.5.0.16/28", "lost", "node3"))
        self.assert_error(call("ADD", args="IP=10.5.0.20"), 11, "node 'node3' has its block 10.5.0.16/28")

    @suite.cases([("the gateway", ("10.5.0.1", {}, "is subnet's gateway")), ("an excluded one", ("10.5.0.20", {"exclude": ["10.5.0.20"]}, "10.5.0.20")),
                  ("one of no range", ("10.6.0.1", {}, "10.6.0.1")), ("the broadcast address", ("10.5.0.255", {}, "10.5.0.255"))])
    def an_address_that_no_node_can_give_is_an_invalid_config(self, row):
        address, ipam, says = row
        blocks.held("10.5.0.0/28", "10.5.0.16/28", "10.5.0.240/28")
        self.assert_error(call("ADD", conf(of={"subnet": SUBNET} | ipam), args=f"IP={address}"), 7, says)

    # Leases.

    def test_leases_of_host_local_in_the_same_folder_are_respected(self):
        before = {"cniVersion": "1.1.0", "name": "net1", "type": "host-local",
                  "ipam": {"type": "host-local", "subnet": SUBNET, "rangeStart": "10.5.0.40"}}
        for number in range(12):
            self.assert_ok(call("ADD", before, f"old{number}"))
        self.agent()
        got = [self.add(f"new{number}", conf(wait=10)) for number in range(8)]
        self.assertEqual(len(blocks.leased()), 20)
        self.assertFalse({f"10.5.0.{n}/24" for n in range(40, 52)} & set(got))
        self.assert_ok(call("DEL", container="old3"))
        self.assertNotIn("10.5.0.43", blocks.leased())

    def test_leases_of_before_a_reboot_are_reclaimed(self):
        boot(3600)
        blocks.held("10.5.0.0/28")
        parallel(fill, [(f"pod{n}", conf()) for n in range(FULL)], 4)
        boot(60)
        done = call("ADD", container="new")
        self.assertRegex(self.assert_ok(done)["ips"][0]["address"], r"^10\.5\.0\.\d+/24$")
        self.assertIn("cluster-pool: network 'net1': reclaimed stale lease", done.stderr)

    def test_GC_releases_what_no_valid_attachment_has(self):
        blocks.held("10.5.0.16/28")
        for name in ("kept", "gone"):
            self.add(name)
        self.assert_ok(call("GC", conf(**{"cni.dev/valid-attachments": [{"containerID": "kept", "ifname": "eth0"}]}), ""))
        self.assertEqual(set(blocks.leased().values()), {"kept"})

    def test_REPAIR_writes_a_lost_lease_again_also_of_a_lost_block(self):
        blocks.held("10.5.0.16/28")
        result = self.assert_ok(call("ADD"))
        os.remove(f"{blocks.LEASES}/net1/10.5.0.16")
        blocks.held(blocks.block("10.5.0.16/28", "lost", "node2"))
        self.assert_ok(call("REPAIR", conf(prevResult=result)))
        self.assertEqual(blocks.leased(), {"10.5.0.16": "pod1"})

    # STATUS.

    def test_STATUS_asks_for_a_block_and_is_well_once_there_is_one(self):
        done = call("STATUS", container="", netns="")
        self.assert_error(done, 50, "no IP addresses available")
        self.assertIn("is it running", done.json["details"])
        self.agent()
        wait_for(lambda: blocks.read("net1.json"))
        self.assert_ok(call("STATUS", container="", netns=""))

    def test_STATUS_says_50_where_the_blocks_are_full_and_the_agent_has_no_other(self):
        blocks.held("10.5.0.0/28", note="all blocks are claimed")
        self.assert_ok(call("STATUS"))
        parallel(fill, [(f"pod{n}", conf()) for n in range(FULL)], 4)
        self.assertIn("all blocks are claimed", self.assert_error(call("STATUS"), 50)["details"])
        blocks.held("10.5.0.0/28")
        self.assert_ok(call("STATUS"))
        self.assert_ok(call("DEL", container="pod1"))
        blocks.held("10.5.0.0/28", note="all blocks are claimed")
        self.assert_ok(call("STATUS"))

    # Configs that are refused.

    @suite.cases([
        ("blocks larger than the subnet", ({"subnet": SUBNET, "blockSize": 23}, "expected a prefix length from 24")),
        ("blocks of two addresses", ({"subnet": SUBNET, "blockSize": 31}, "to 30, which has four addresses")),
        ("an exclusion outside", ({"subnet": SUBNET, "exclude": ["10.5.0.7", "10.6.0.0/24"]}, "exclude[1]: is not in the subnet")),
        ("an exclusion with host bits", ({"subnet": SUBNET, "exclude": ["10.5.0.7/28"]}, "has host bits set: the network is 10.5.0.0/28")),
        ("all excluded", ({"subnet": SUBNET, "exclude": [SUBNET]}, "all its addresses are excluded")),
        ("the network address", ({"subnet": SUBNET, "rangeStart": "10.5.0.0"}, "rangeStart: is the network's own address")),
        ("the broadcast address", ({"subnet": SUBNET, "rangeEnd": "10.5.0.255"}, "rangeEnd: is the broadcast address")),
        ("no subnet", ({"rangeStart": "10.5.0.9"}, "requires ipam.subnet")),
        ("two ranges in a block", ({"ranges": [[{"subnet": SUBNET, "rangeEnd": "10.5.0.20"}, {"subnet": SUBNET, "rangeStart": "10.5.0.21"}]]},
                                   "have a block in common")),
        ("a wait without an end", ({"subnet": SUBNET, "waitForBlock": 601}, "ipam.waitForBlock: expected")),
    ])
    def refuses(self, row):
        ipam, says = row
        config = conf()
        config["ipam"] = {"type": "cluster-pool"} | ipam
        blocks.held("10.5.0.0/28")
        done = call("ADD", config)
        self.assert_error(done, 7)
        self.assertIn(says, done.stdout)
        self.assertEqual(blocks.leased(), {})

    def test_ranges_of_the_runtime_are_refused_with_the_reason(self):
        blocks.held("10.5.0.0/28")
        self.assert_error(call("ADD", conf(runtimeConfig={"ipRanges": [[{"subnet": "10.9.0.0/24"}]]}), documented=False), 7,
                          "all nodes must have the same: write them in ipam.ranges")


if __name__ == "__main__":
    suite.main()
