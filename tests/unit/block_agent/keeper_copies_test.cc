#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <string>

#include "plugins/cluster-pool/agent/keeper.h"
#include "tests/unit/block_agent/node.h"

// Two machines that are one node to the engine: one name, one machine-id.
namespace block_agent {
namespace {

constexpr const char* kSays = "a copy of this machine claims blocks, with its name 'n1'";

bool says_so(const Node& node) { return node.note().starts_with(kSays); }

TEST_CASE("a copy of a machine takes no block away, and both say that there are two") {
  Memory memory;
  Node node(memory, "n1", "m"), copy(memory, "n1", "m");
  node.want();
  turn(memory, node);
  const auto has = node.held();
  copy.want();
  for (int i = 1; i < 9; ++i) {
    turn(memory, copy, seconds(i));
    CHECK(claims_in(memory).contains(*has.begin() + " of n1"));
    turn(memory, node, seconds(i));
    CHECK(node.held() == has);
  }
  CHECK(says_so(node));
  CHECK(says_so(copy));
  CHECK(memory.removals.empty());
  node.want(1);
  turn(memory, node, seconds(9));
  CHECK(node.held().size() + copy.held().size() == claims_in(memory).size());
}

TEST_CASE("a copy that knows no questions is found when it claims again what was left over") {
  Memory memory;
  Node node(memory, "n1", "m");
  Object one{.network = "net",
             .cidr = *Cidr::parse("10.5.0.32/28"),
             .node = "n1",
             .machine = "m",
             .claim = new_claim()};
  memory.create(one);
  node.want();
  for (int i = 0; i < 20; ++i) {
    turn(memory, node, seconds(i));
    const auto there = memory.objects.find("blocks/net/10.5.0.32");
    if (there != memory.objects.end()) one.claim = there->second.claim;  // as its file has it
    if (there == memory.objects.end()) memory.create(one);
  }
  CHECK(says_so(node));
  CHECK(memory.removals.size() <= 2);
}

TEST_CASE("a block that a copy of the machine claims later is left to it") {
  Memory memory;
  Node node(memory, "n1", "m");
  node.want();
  turn(memory, node);
  turn(memory, node, seconds(1));
  turn(memory, node, seconds(200));
  Object one{.network = "net",
             .cidr = *Cidr::parse("10.5.0.48/28"),
             .node = "n1",
             .machine = "m",
             .claim = new_claim()};
  if (node.held().contains("10.5.0.48/28")) one.cidr = *Cidr::parse("10.5.0.0/28");
  memory.create(one);
  turn(memory, node, seconds(201));
  CHECK(claims_in(memory).contains(one.cidr.str() + " of n1"));
  CHECK(says_so(node));
  node.want(1);
  turn(memory, node, seconds(202));
  CHECK(node.held().size() == 1);  // it claims nothing
  SUBCASE("also where this node has leases in it, of before the disk was copied") {
    node.lease(one.cidr.ip.next()->next()->str());
    turn(memory, node, seconds(203));
    CHECK(node.held().size() == 1);
  }
  SUBCASE("until it is returned, or the agent begins anew where no copy runs") {
    SUBCASE("") { memory.remove(one); }
    SUBCASE("") { node.start(); }
    turn(memory, node, seconds(204));
    turn(memory, node, seconds(205));
    CHECK(node.held().size() == 2);
    CHECK(node.note().empty());
  }
}

TEST_CASE("a block that a copy of the machine took is lost, and its leases stay") {
  Memory memory;
  Node node(memory, "n1", "m");
  node.want();
  turn(memory, node);
  turn(memory, node, seconds(200));
  const auto has = node.held();
  node.lease(Cidr::parse(*has.begin())->ip.next()->next()->str());
  Object& object = memory.objects.at("blocks/net/" + Cidr::parse(*has.begin())->ip.str());
  object.claim = new_claim();
  object.version = ++memory.revision;
  turn(memory, node, seconds(201));
  CHECK(node.held().empty());
  CHECK(node.held(State::kLost) == has);
}

TEST_CASE("what an earlier process claimed, or the engine was restored with, is no copy's") {
  Memory memory;
  Node node(memory, "n1", "m");
  node.want();
  turn(memory, node);
  memory.loses_answers = true;
  node.want(1);
  turn(memory, node, seconds(1));
  memory.loses_answers = false;
  SUBCASE("killed") { node.start(); }
  SUBCASE("an answer was lost") {}
  SUBCASE("restored") { memory.revision = 3; }
  for (int i = 2; i < 300; i += 60) turn(memory, node, seconds(i));
  CHECK_FALSE(says_so(node));
  CHECK(node.held().size() == 2);
  CHECK(claims_in(memory).size() == 2);
}

}  // namespace
}  // namespace block_agent
