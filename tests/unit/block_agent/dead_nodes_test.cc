#include "plugins/cluster-pool/agent/dead_nodes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>

#include "tests/unit/block_agent/node.h"

namespace block_agent {
namespace {

// Whether an agent of the node answers while it is waited for, so that nothing is released.
bool lives(const Engine& engine, const std::string& node, const std::function<void()>& wait) try {
  release_if_silent(engine, node, wait);
  return false;
} catch (const cni::Error& e) {
  if (std::string(e.what()).find("it lives") == std::string::npos) throw;
  return true;
}

// As by a program that was killed after it had asked.
void ask_and_die(const Engine& engine, const std::string& node) {
  CHECK_THROWS(release_if_silent(engine, node, [] { throw std::runtime_error("killed"); }));
}

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
  SUBCASE("the question is gone, as where its agent removes a claim that is left over") {
    Object more = view.blocks_of("n2").front();
    more.cidr = *netlink::Cidr::parse("10.5.0.32/28");
    memory.create(more);
    view.put(more);
    dead.look(view, seconds(3900));
    const auto asked = std::ranges::find_if(
        memory.objects, [](const auto& one) { return is_question(one.second); });
    REQUIRE(asked != memory.objects.end());
    view.erase(asked->second);
    memory.objects.erase(asked);
    CHECK(dead.look(view, seconds(4200)) == 0);
    CHECK(memory.objects.size() == 2);
    dead.look(view, seconds(4500));  // asks by another one
    CHECK(dead.look(view, seconds(4800)) == 1);
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
    CHECK(lives(engine, "n2", [&] {
      CHECK(is_question(memory.objects.begin()->second));
      CHECK(claims_in(memory) == claims);
      turn(memory, node, seconds(300));
    }));
    CHECK(memory.objects.begin()->second.is_claim_of(before));
    CHECK(claims_in(memory) == claims);
    CHECK(node.held().size() == 1);
    CHECK(node.note().empty());
  }
  SUBCASE("it does not, and is back before the release") {
    ask_and_die(engine, "n2");
    CHECK(claims_in(memory) == claims);
    node.start();
    turn(memory, node, seconds(1));
    CHECK(memory.objects.begin()->second.is_claim_of(before));
    CHECK(node.held().size() == 1);
  }
  SUBCASE("it does at the last moment") {
    Engine slow = engine;
    slow.remove = [&](const Object& one) {
      turn(memory, node, seconds(1));
      return engine.remove(one);
    };
    CHECK(lives(slow, "n2", [] {}));
    CHECK(claims_in(memory) == claims);
  }
  SUBCASE("it was asked by a claim that it returns, or removes as left over") {
    Object left{.network = "net",
                .cidr = *Cidr::parse("10.5.0.0/28"),
                .node = "n2",
                .machine = "machine-of-n2",
                .claim = new_claim()};
    if (claims.contains("10.5.0.0/28 of n2")) left.cidr = *Cidr::parse("10.5.0.16/28");
    memory.create(left);
    Engine sorted = engine;
    sorted.list = [&](Kind kind) {
      auto out = engine.list(kind);
      std::ranges::sort(out, {}, [&](const Object& one) { return one.cidr != left.cidr; });
      return out;
    };
    CHECK_THROWS(release_if_silent(sorted, "n2", [&] {
      for (int at = 1; at < 5; ++at) turn(memory, node, seconds(at));
    }));
    CHECK(claims_in(memory) == claims);
  }
  SUBCASE("it does not") {
    CHECK(release_if_silent(engine, "n2", [] {}) == 1);
    CHECK(claims_in(memory).empty());
  }
  SUBCASE("two ask at the same time") {
    CHECK(lives(engine, "n2",
                [&] { CHECK(lives(engine, "n2", [&] { turn(memory, node, seconds(2)); })); }));
    CHECK_THROWS(release_if_silent(engine, "n2", [&] { ask_and_die(engine, "n2"); }));
  }
  SUBCASE("its file was lost: the question is no claim of a copy") {
    std::filesystem::remove(node.folder.path() + "/blocks/net.json");
    node.start();
    for (const int at : {1, 200, 201}) {
      node.want();
      turn(memory, node, seconds(at));
    }
    ask_and_die(engine, "n2");
    turn(memory, node, seconds(202));
    CHECK(node.note().empty());
  }
  SUBCASE("of a network whose file no agent can use") {
    node.lease(before.cidr.ip.next()->next()->str());
    const std::string path = node.folder.path() + "/blocks/net.json";
    std::string text = node.files().held("net")->text();
    SUBCASE("it was removed") { std::filesystem::remove(path); }
    SUBCASE("it is torn") { std::ofstream(path) << text.substr(0, 9); }
    SUBCASE("it is another network's") {
      std::ofstream(path) << text.replace(text.find("\"net\""), 5, "\"ten\"");
    }
    SUBCASE("its want is another network's") {
      const std::string folder = node.folder.path() + "/blocks/";
      node.files().ask({.network = "ten", .pool = node.pool, .sets = {{0, 0}}});
      std::filesystem::rename(folder + "ten.want", folder + "net.want");
    }
    SUBCASE("and its leases are unknown") {
      std::filesystem::remove(path);
      std::filesystem::rename(node.pool.data_dir, node.pool.data_dir + ".away");
      node.want();
    }
    node.start();
    CHECK(lives(engine, "n2", [&] {
      show(memory, *node.keeper, seconds(1));
      node.keeper->work("net", seconds(1));
    }));
    CHECK(claims_in(memory).contains(*claims.begin()));
  }
  SUBCASE("a node without blocks is not waited for") {
    CHECK(release_if_silent(engine, "n4", [] { FAIL("waited"); }) == 0);
  }
}

}  // namespace
}  // namespace block_agent
