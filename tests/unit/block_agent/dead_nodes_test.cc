#include "plugins/cluster-pool/agent/dead_nodes.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/unit/block_agent/node.h"

namespace block_agent {
namespace {

TEST_CASE("blocks are released when a Node object has not existed for the time, at each look") {
  Memory memory;
  memory.nodes = {{"n1", true}, {"n2", true}};
  const Engine engine = engine_of(memory, true);
  View view;
  for (const char* node : {"n1", "n2"}) {
    Object one{
        .network = "net",
        .cidr = *netlink::Cidr::parse(node == std::string("n1") ? "10.5.0.0/28" : "10.5.0.16/28"),
        .node = node,
        .machine = "m",
        .claim = new_claim()};
    memory.create(one);
    view.put(one);
  }
  DeadNodes dead("n1", seconds(3600), &engine);
  CHECK(dead.look(view, seconds(0)) == 0);
  memory.nodes["n2"] = false;
  for (const int at : {300, 600, 3000}) CHECK(dead.look(view, seconds(at)) == 0);

  SUBCASE("it is gone") {
    CHECK(dead.look(view, seconds(3900)) == 0);  // asks it
    CHECK(memory.objects.size() == 2);
    CHECK(dead.look(view, seconds(4200)) == 1);
    CHECK(memory.objects.size() == 1);
  }
  SUBCASE("its agent answers") {
    const Object before = view.blocks_of("n2").front();
    dead.look(view, seconds(3900));
    Object& now = memory.objects.at(key_of(before));
    REQUIRE(is_question(now));
    now = before;
    now.version = ++memory.revision;
    for (const int at : {4200, 4500, 7700}) CHECK(dead.look(view, seconds(at)) == 0);
    CHECK(memory.objects.size() == 2);
    CHECK_FALSE(is_question(memory.objects.at(key_of(before))));
    dead.look(view, seconds(7900));  // and is asked again
    CHECK(is_question(memory.objects.at(key_of(before))));
    CHECK(dead.look(view, seconds(8200)) == 1);
  }
  SUBCASE("another agent asks, too") {
    DeadNodes other("n1", seconds(3600), &engine);
    for (const int at : {0, 300, 600}) CHECK(other.look(view, seconds(at)) == 0);
    dead.look(view, seconds(3900));
    view.put(memory.objects.at(key_of(view.blocks_of("n2").front())));
    other.look(view, seconds(3900));
    CHECK(dead.look(view, seconds(4200)) == 1);
    CHECK(other.look(view, seconds(4200)) == 0);
  }
  SUBCASE("it was there once meanwhile") {
    memory.nodes["n2"] = true;
    CHECK(dead.look(view, seconds(3300)) == 0);
    memory.nodes["n2"] = false;
    CHECK(dead.look(view, seconds(3900)) == 0);
    CHECK(dead.look(view, seconds(4200)) == 0);
  }
  SUBCASE("the API server does not answer: unknown") {
    memory.is_away = true;
    CHECK_THROWS(dead.look(view, seconds(3900)));
    CHECK(memory.objects.size() == 2);
  }
}

TEST_CASE(
    "an agent that is asked says that its node lives, and the block is its own all the time") {
  Memory memory;
  const Engine engine = engine_of(memory);
  Node node(memory, "n2");
  node.want();
  turn(memory, node);
  const auto claims = claims_in(memory);
  const Object before = memory.objects.begin()->second;
  REQUIRE(before.kind == Kind::kBlock);
  SUBCASE("it does") {
    const auto answer = answered_by(engine, "n2", [&] {
      CHECK(is_question(memory.objects.begin()->second));
      CHECK(claims_in(memory) == claims);
      turn(memory, node, seconds(300));
    });
    REQUIRE(answer);
    CHECK(answer->is_claim_of(before));
    CHECK(claims_in(memory) == claims);
    CHECK(node.held().size() == 1);
    CHECK(node.note().empty());
  }
  SUBCASE("it does not, and is back before the release") {
    CHECK_FALSE(answered_by(engine, "n2", [] {}));
    CHECK(claims_in(memory) == claims);
    node.start();
    turn(memory, node, seconds(1));
    CHECK(memory.objects.begin()->second.is_claim_of(before));
    CHECK(node.held().size() == 1);
  }
  SUBCASE("it does not") {
    CHECK_FALSE(answered_by(engine, "n2", [] {}));
    CHECK(release_blocks(engine, "n2") == 1);
  }
  SUBCASE("two ask at the same time") {
    CHECK(answered_by(engine, "n2", [&] {
      CHECK(answered_by(engine, "n2", [&] { turn(memory, node, seconds(2)); }));
    }));
    CHECK_THROWS(answered_by(engine, "n2", [&] { answered_by(engine, "n2", [] {}); }));
  }
  SUBCASE("its file was lost: the question is no claim of a copy") {
    std::filesystem::remove(node.folder.path() + "/blocks/net.json");
    node.start();
    for (const int at : {1, 200, 201}) {
      node.want();
      turn(memory, node, seconds(at));
    }
    CHECK_FALSE(answered_by(engine, "n2", [] {}));
    turn(memory, node, seconds(202));
    CHECK(node.note().empty());
  }
  SUBCASE("a node without blocks is not waited for") {
    CHECK_FALSE(answered_by(engine, "n4", [] { FAIL("waited"); }));
  }
}

}  // namespace
}  // namespace block_agent
