#include "plugins/cluster-pool/agent/keeper.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/block_agent/node.h"

namespace block_agent {
namespace {

TEST_CASE("a want is served by a block that is in the engine and in the file") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  turn(memory, node);
  CHECK(node.held().size() == 1);
  CHECK(claims_in(memory) == std::set<std::string>{*node.held().begin() + " of n1"});
  CHECK_FALSE(node.files().want("net"));
  CHECK(node.note().empty());
  node.want(1);
  turn(memory, node);
  CHECK(node.held().size() == 2);
}

TEST_CASE(
    "nodes that start at once never have one block, though each has seen none of the others") {
  Memory memory;
  std::vector<std::unique_ptr<Node>> nodes;
  for (int i = 0; i < 4; ++i) {
    nodes.push_back(std::make_unique<Node>(memory, "n" + std::to_string(i)));
    show(memory, *nodes.back()->keeper);
  }
  std::set<std::string> all;
  for (auto& node : nodes) {
    node->want();
    node->keeper->work(Time(0));
    for (const auto& one : node->held()) CHECK(all.insert(one).second);
  }
  CHECK(all.size() == 4);
}

TEST_CASE(
    "where all blocks are taken, the note names who has them, and a node that is full calls") {
  Memory memory;
  Node one(memory, "n1"), other(memory, "n2");
  for (std::uint64_t held = 0; held < 4; ++held) {
    one.want(held);
    turn(memory, one);
  }
  CHECK(one.held().size() == 4);
  other.want();
  turn(memory, other);
  CHECK(other.held().empty());
  CHECK(other.note() == "all blocks of 10.5.0.0/26 are taken: n1 has 4");
  CHECK(other.files().want("net"));
  CHECK(memory.objects.contains("shortages/net/n2"));

  SUBCASE("the others return empty blocks at once, and keep those with leases") {
    one.lease("10.5.0.20");
    turn(memory, one);
    CHECK(one.held() == std::set<std::string>{"10.5.0.16/28"});
    turn(memory, other);
    CHECK(other.held().size() == 1);
    CHECK_FALSE(memory.objects.contains("shortages/net/n2"));
    CHECK_FALSE(other.files().want("net"));
  }
  SUBCASE("a call that lasts too long is of a node that died, and is passed over") {
    for (const char* address : {"10.5.0.2", "10.5.0.20", "10.5.0.40"}) one.lease(address);
    turn(memory, one);
    CHECK(one.held().size() == 3);
    one.release("10.5.0.20");
    turn(memory, one, std::chrono::minutes(16));
    CHECK(one.held().size() == 3);
  }
}

TEST_CASE(
    "empty blocks are returned after the idle time, but the last one, and what the next pods "
    "need") {
  Memory memory;
  Node node(memory, "n1");
  for (std::uint64_t held = 0; held < 3; ++held) {
    node.want(held);
    turn(memory, node);
  }
  const auto first = *node.held().begin();
  node.lease(Cidr::parse(first)->ip.next()->next()->str());
  turn(memory, node, seconds(1));
  turn(memory, node, seconds(500));
  CHECK(node.held().size() == 3);
  turn(memory, node, seconds(700));
  CHECK(node.held() == std::set<std::string>{first});
  CHECK(claims_in(memory) == std::set<std::string>{first + " of n1"});
  turn(memory, node, seconds(1500));
  CHECK(claims_in(memory).size() == 1);
}

TEST_CASE("blocks of two sizes never overlap: the first node sets the size") {
  Memory memory;
  Node one(memory, "n1"), other(memory, "n2", "", "10.5.0.0/26", 29),
      wide(memory, "n3", "", "10.5.0.0/25", 27);
  one.want();
  turn(memory, one);
  for (Node* wrong : {&other, &wide}) {
    wrong->want();
    turn(memory, *wrong);
    CHECK(wrong->held().empty());
    CHECK(wrong->note().find("has blocks of /28 in 10.5.0.0/26, set by node 'n1'") !=
          std::string::npos);
    CHECK(wrong->files().want("net"));
  }
  CHECK(claims_in(memory).size() == 1);
  CHECK(memory.list(Kind::kPool).size() == 1);
}

TEST_CASE("a node without a Node object claims nothing, because its blocks would be released") {
  Memory memory;
  Node node(memory, "n1.lan");
  node.engine = engine_of(memory, true);
  node.start();
  node.want();
  turn(memory, node);
  CHECK(claims_in(memory).empty());
  CHECK(node.note().starts_with("memory has no Node 'n1.lan', and blocks of a node without one"));
  memory.nodes["n1.lan"] = true;
  turn(memory, node);
  CHECK(node.held().size() == 1);
  CHECK(node.note().empty());
}

TEST_CASE("another folder of leases is taken when the former one has none in the blocks") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  turn(memory, node);
  const std::string address = Cidr::parse(*node.held().begin())->ip.next()->next()->str();
  node.lease(address);
  node.pool.data_dir += "/";  // the same one
  node.want();
  turn(memory, node);
  const blocks::Pool before = node.pool;
  CHECK(node.files().held("net")->pool == before);
  node.pool.data_dir = node.folder.path() + "/others";
  node.want();
  turn(memory, node);
  CHECK(node.files().held("net")->pool == before);
  CHECK(node.note().starts_with("dataDir of network 'net' is '" + node.pool.data_dir +
                                "', and pods of this node have leases in '" + before.data_dir));
  std::filesystem::remove(before.data_dir + "/net/" + address);
  turn(memory, node);
  CHECK(node.files().held("net")->pool == node.pool);
  CHECK(node.note().empty());
  CHECK(claims_in(memory).size() == 1);
}

TEST_CASE("a fixed address claims its block, unless another node has it") {
  Memory memory;
  Node one(memory, "n1"), other(memory, "n2");
  one.want(0, {ip("10.5.0.50")});
  turn(memory, one);
  CHECK(one.held().contains("10.5.0.48/28"));
  other.want(0, {ip("10.5.0.51")});
  turn(memory, other);
  CHECK_FALSE(other.held().contains("10.5.0.48/28"));
  CHECK_FALSE(other.files().want("net"));
  CHECK(other.files().nodes("net")->node_with(ip("10.5.0.51")) == "n1");
}

TEST_CASE("an engine that is away leaves everything as it is, and the note says why") {
  Memory memory;
  Node node(memory, "n1");
  memory.is_away = true;
  node.want();
  node.keeper->failed("connect to 'memory': refused");
  node.keeper->work(Time(0));
  CHECK(node.note() == "memory was not reached yet: connect to 'memory': refused");
  memory.is_away = false;
  turn(memory, node);
  CHECK(node.held().size() == 1);
  memory.is_away = true;
  node.want(1);
  const Time next = node.keeper->work(seconds(1));
  CHECK(next > seconds(1));
  CHECK(next <= seconds(40));
  CHECK(node.held().size() == 1);
  CHECK(node.note() == "connect to 'memory': refused");
  memory.is_away = false;
  node.keeper->work(seconds(2));
  CHECK(node.held().size() == 2);
  CHECK(node.note().empty());
}

TEST_CASE("an agent without anything to do calls nobody") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  turn(memory, node);
  const int before = memory.calls;
  CHECK(node.keeper->work(seconds(5)) == cni::kNever);
  CHECK(node.keeper->work(seconds(6)) == cni::kNever);
  CHECK(memory.calls == before);
}

TEST_CASE("both families are claimed, of ranges with more blocks than 64 bits count") {
  Memory memory;
  Node node(memory, "n1");
  node.pool.sets.push_back({range_of("fd00::/8", 120)});
  node.want();
  turn(memory, node);
  CHECK(node.held().size() == 2);
  CHECK(std::ranges::any_of(node.held(), [](const auto& one) { return one.starts_with("fd"); }));
}

TEST_CASE("nodes begin at different blocks of a range with more addresses than 64 bits count") {
  std::set<std::string> begun;
  for (const char* name : {"n1", "n2", "n3", "n4"}) {
    Memory memory;  // each in a cluster of its own
    Node node(memory, name, "", "fd00:5::/64", 120);
    node.want();
    turn(memory, node);
    begun.merge(node.held());
  }
  CHECK(begun.size() == 4);
}

TEST_CASE("a size of blocks that is not readable is respected, and the note says so") {
  Memory memory;
  Node node(memory, "n1");
  Object pool{.kind = Kind::kPool, .network = "net", .cidr = *Cidr::parse("10.5.0.0/26")};
  memory.create(pool);
  node.want();
  turn(memory, node);
  CHECK(claims_in(memory).empty());
  CHECK(
      node.note().starts_with("network 'net': the size of blocks in 10.5.0.0/26 is in an object "
                              "that is not readable"));
}

// The way to another size that docs/cluster-pool.md has, with a node whose config comes late.
TEST_CASE("a size of blocks that was removed and set anew is respected by an agent that knew it") {
  Memory memory;
  Node node(memory, "n1", "", "10.5.0.0/26", 28), other(memory, "n2", "", "10.5.0.0/26", 29);
  node.want();
  turn(memory, node);
  memory.objects.erase("pools/net/10.5.0.0_26");
  other.want();
  turn(memory, other, seconds(1));
  REQUIRE(other.held().size() == 1);
  node.want(1);
  turn(memory, node, seconds(60));
  CHECK(node.held().size() == 1);
  CHECK(node.note().find("has blocks of /29 in 10.5.0.0/26, set by node 'n2'") !=
        std::string::npos);
}

}  // namespace
}  // namespace block_agent
