#include <doctest/doctest.h>

#include <set>
#include <string>

#include "plugins/cluster-pool/agent/keeper.h"
#include "tests/unit/block_agent/node.h"

// An agent that is killed before or after each call of the engine, and so between each two files.
namespace block_agent {
namespace {

struct Killed {};  // no std::exception: nothing in the agent catches it

// The calls of an engine, one of which kills the agent.
struct Deadly {
  int at = 0;  ///< number of the call; 0: none
  bool is_before = false;
  int calls = 0;

  template <class Call>
  auto operator()(Call&& call) {
    const bool is_it = ++calls == at;
    if (is_it && is_before) throw Killed();
    auto out = call();
    if (is_it) throw Killed();
    return out;
  }
};

Engine deadly(const Engine& of, Deadly& deadly) {
  Engine out = of;
  out.create = [&deadly, of](Object& one) { return deadly([&] { return of.create(one); }); };
  out.replace = [&deadly, of](const Object& from, Object& to) {
    return deadly([&] { return of.replace(from, to); });
  };
  out.remove = [&deadly, of](const Object& one) { return deadly([&] { return of.remove(one); }); };
  out.list = [&deadly, of](Kind kind) { return deadly([&] { return of.list(kind); }); };
  return out;
}

// Claims, of which one is found by its leases; a shortage; a return that others called for; and a
// new name. Every step of it may be the second time.
void live(Memory& memory, Node& node) {
  node.want();
  turn(memory, node, seconds(1));
  node.want(1);
  turn(memory, node, seconds(2));
  node.want(2, {ip("10.5.0.50")});
  turn(memory, node, seconds(3));
  node.want(4);  // there is none
  turn(memory, node, seconds(4));
  if (const auto want = node.files().want("net")) node.files().served(*want);
  turn(memory, node, seconds(5));
  turn(memory, node, seconds(700));
  turn(memory, node, seconds(1400));
  node.self.node = "renamed";
  node.start();
  turn(memory, node, seconds(1500));
}

TEST_CASE("an agent that is killed at any call of its engine leaks and loses nothing") {
  int calls = 0;
  for (int at = 0; at == 0 || at <= calls; ++at) {
    for (const bool is_before : {false, true}) {
      CAPTURE(at);
      CAPTURE(is_before);
      Memory memory;
      Node node(memory, "n1", "m");
      Deadly kill{.at = at, .is_before = is_before};
      node.engine = deadly(node.engine, kill);
      node.start();
      node.lease("10.5.0.37");
      bool is_killed = false;
      try {
        live(memory, node);
      } catch (const Killed&) {
        is_killed = true;
      }
      CHECK(is_killed == (at != 0));
      if (at == 0) calls = kill.calls;
      node.start();
      CHECK(claims_in(memory).size() >= node.held().size());
      live(memory, node);
      for (const int later : {1501, 2300, 3100}) turn(memory, node, seconds(later));
      std::set<std::string> held;
      for (const std::string& one : node.held()) held.insert(one + " of renamed");
      CHECK(held == claims_in(memory));
      CHECK(node.held().contains("10.5.0.32/28"));
      CHECK(node.held(State::kReturning).empty());
      CHECK(node.held(State::kLost).empty());
      CHECK(memory.objects.size() == held.size() + 1);  // the pool; no shortage
    }
  }
  CHECK(calls >= 15);
}

}  // namespace
}  // namespace block_agent
