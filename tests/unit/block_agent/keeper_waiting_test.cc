#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <list>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "plugins/state/waiters.h"
#include "tests/unit/block_agent/node.h"

// ADDs that wait, and engines that are slow.
namespace block_agent {
namespace {

/// ADDs that wait for an address of the first set.
std::list<blocks::Waiter> waiters(const Node& node, std::size_t count) {
  std::list<blocks::Waiter> out;
  while (out.size() < count) {
    REQUIRE(out.emplace_back(node.files().dir(), "net").wait_for({0}));
  }
  return out;
}

TEST_CASE("as many blocks are claimed at once as the waiting ADDs need, and no more") {
  Memory memory;
  Node node(memory, "n1", "", "10.5.0.0/22");
  node.want();
  turn(memory, node);
  REQUIRE(node.held().size() == 1);
  for (int host = 1; host < 15; ++host) {  // the block is full
    const auto first = Cidr::parse(*node.held().begin())->ip;
    const auto text = first.str();
    node.lease(text.substr(0, text.rfind('.') + 1) +
               std::to_string(std::stoi(text.substr(text.rfind('.') + 1)) + host));
  }
  const auto waiting = waiters(node, 186);
  node.want(1);
  memory.slow = [](const Object&) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  memory.most_at_once = 0;
  turn(memory, node);
  CHECK(node.held().size() == 1 + 12);  // 2 addresses are free, and 184 are in 11.5 blocks
  CHECK(memory.most_at_once > 1);
  CHECK_FALSE(node.files().want("net"));
}

TEST_CASE("ADDs that ended, however, count no more") {
  Memory memory;
  Node node(memory, "n1", "", "10.5.0.0/22");
  { const auto ended = waiters(node, 100); }
  const auto waiting = waiters(node, 1);
  node.want();
  turn(memory, node);
  CHECK(node.held().size() == 1);
}

TEST_CASE("a want that no ADD waits for ends, and claims nothing when the engine comes back") {
  Memory memory;
  Node node(memory, "n1");
  memory.is_away = true;
  show(memory, *node.keeper);
  std::list<blocks::Waiter> waiting = waiters(node, 1);
  node.want();
  node.keeper->work(Time(0));
  node.keeper->work(seconds(1000));
  CHECK(node.files().want("net"));  // the ADD waits yet
  waiting.clear();
  const Time next = node.keeper->work(seconds(1001));
  CHECK(next < seconds(1001) + Keeper::kWantLasts);
  node.keeper->work(seconds(1001) + Keeper::kWantLasts);
  CHECK_FALSE(node.files().want("net"));
  memory.is_away = false;
  turn(memory, node, seconds(2000));
  CHECK(claims_in(memory).empty());
}

TEST_CASE("an address in a block that is left over of this node is waited for") {
  Memory memory;
  Node node(memory, "n1");
  Object left{.network = "net",
              .cidr = *Cidr::parse("10.5.0.16/28"),
              .node = node.self.node,
              .machine = node.self.machine,
              .claim = new_claim()};
  memory.create(left);
  node.want(0, {ip("10.5.0.20")});
  const Time next = turn(memory, node);
  CHECK(node.files().want("net"));
  turn(memory, node, next);
  CHECK(node.held().contains("10.5.0.16/28"));
  CHECK(node.note().empty());
}

TEST_CASE("a shortage ends with the want that it was for") {
  Memory memory;
  Node one(memory, "n1", "", "10.5.0.0/28"), other(memory, "n2", "", "10.5.0.0/28");
  one.want();
  turn(memory, one);
  other.want();
  turn(memory, other);
  REQUIRE(memory.objects.contains("shortages/net/n2"));
  turn(memory, other, Keeper::kWantLasts);
  turn(memory, other, Keeper::kWantLasts);
  CHECK_FALSE(other.files().want("net"));
  CHECK_FALSE(memory.objects.contains("shortages/net/n2"));
}

TEST_CASE("a block that an ADD waits for is returned to no other node before that has ended") {
  Memory memory;
  Node node(memory, "n1", "", "10.5.0.0/28"), other(memory, "n2", "", "10.5.0.0/28");
  Object call{.kind = Kind::kShortage,
              .network = "net",
              .node = other.self.node,
              .machine = other.self.machine,
              .claim = new_claim()};
  memory.create(call);
  auto waiting = waiters(node, 1);
  node.want();
  turn(memory, node);
  CHECK(node.held().size() == 1);
  waiting.clear();
  turn(memory, node, seconds(1));
  CHECK(node.held().empty());
}

TEST_CASE("a call for one network holds up no other one") {
  Memory memory;
  Node node(memory, "n1");
  std::atomic<bool> may_end = false, has_begun = false;
  memory.slow = [&](const Object& object) {
    if (object.network != "net") return;
    has_begun = true;
    while (!may_end) std::this_thread::yield();
  };
  show(memory, *node.keeper);
  node.want();
  std::thread slow([&] { node.keeper->work("net", Time(0)); });
  while (!has_begun) std::this_thread::yield();
  node.files().ask({.network = "quick", .pool = node.pool, .sets = {{0, 0}}});
  node.keeper->work("quick", Time(0));
  CHECK(node.files().held("quick").value_or(blocks::Held{}).blocks.size() == 1);
  CHECK(node.held().empty());
  may_end = true;
  slow.join();
  CHECK(node.held().size() == 1);
}

TEST_CASE("blocks of leases are claimed before others, however many there are") {
  Memory memory;
  Node node(memory, "n1", "", "10.5.0.0/16");
  for (int i = 0; i < 300; ++i) {
    node.lease("10.5." + std::to_string(i / 16 + 1) + "." + std::to_string(i % 16 * 16 + 3));
  }
  node.want();
  turn(memory, node);
  CHECK(node.held().size() == 300);
  CHECK(node.held().contains("10.5.1.0/28"));
  CHECK(node.held().contains("10.5.19.176/28"));
}

TEST_CASE("an engine that has lost claims, at whatever revision, gets no new ones for a while") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  turn(memory, node);
  const auto before = claims_in(memory);
  std::erase_if(memory.objects, [](const auto& one) { return one.second.kind == Kind::kBlock; });
  memory.revision += 1000;  // as etcdutl snapshot restore --bump-revision
  node.want(1);
  CHECK(turn(memory, node, seconds(1)) <= seconds(65));  // the clock goes on
  CHECK(claims_in(memory) == before);
  turn(memory, node, seconds(65));
  CHECK(claims_in(memory).size() == 2);
}

TEST_CASE("a process that begins after claims were missing claims nothing for a while, either") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  turn(memory, node);
  std::erase_if(memory.objects, [](const auto& one) { return one.second.kind == Kind::kBlock; });
  turn(memory, node, seconds(1));
  REQUIRE(claims_in(memory).size() == 1);
  node.start();
  node.want(1);
  turn(memory, node, seconds(2));
  CHECK(claims_in(memory).size() == 1);
  turn(memory, node, seconds(62));
  CHECK(claims_in(memory).size() == 2);
}

TEST_CASE("that while begins when the call ends that found them missing") {
  using std::chrono::milliseconds;
  Memory memory;
  Node node(memory, "n1");
  node.keeper.emplace(node.self, Keeper::Times{seconds(600), milliseconds(500)}, node.engine,
                      node.files());
  node.want();
  turn(memory, node);
  std::erase_if(memory.objects, [](const auto& one) { return one.second.kind == Kind::kBlock; });
  memory.slow = [](const Object&) { std::this_thread::sleep_for(milliseconds(600)); };
  turn(memory, node);
  memory.slow = {};
  node.want(1);
  turn(memory, node, milliseconds(1000));
  CHECK(claims_in(memory).size() == 1);
  turn(memory, node, seconds(60));
  CHECK(claims_in(memory).size() == 2);
}

TEST_CASE("an error that has passed is said no more, also before blocks are claimed again") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  turn(memory, node);
  std::erase_if(memory.objects, [](const auto& one) { return one.second.kind == Kind::kBlock; });
  memory.revision = 3;
  memory.is_away = true;
  turn(memory, node, seconds(1));
  REQUIRE(node.note() == "connect to 'memory': refused");
  memory.is_away = false;
  turn(memory, node, seconds(2));
  CHECK(node.note().empty());
  CHECK(claims_in(memory).size() == 1);
}

TEST_CASE("a claim that is found missing when its block is returned is claimed again") {
  Memory memory;
  Node node(memory, "n1");
  for (std::uint64_t held = 0; held < 2; ++held) {
    node.want(held);
    turn(memory, node);
  }
  const auto first = node.files().held("net").value().blocks.at(0);
  std::erase_if(memory.objects, [&](const auto& one) { return one.second.claim == first.claim; });
  node.keeper->work(seconds(700));
  CHECK(claims_in(memory) == std::set<std::string>{first.cidr.str() + " of n1"});
  CHECK(node.held() == std::set<std::string>{first.cidr.str()});
  node.want(1);
  node.keeper->work(seconds(701));
  CHECK(claims_in(memory).size() == 1);  // others have lost theirs, too
}

TEST_CASE("what was claimed while the engine was restored is another's perhaps, and is removed") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  memory.slow = [&](const Object& object) {
    if (object.kind == Kind::kBlock) {
      node.keeper->listed(Kind::kBlock, {.cluster = memory.cluster, .revision = 1}, Time(0));
    }
  };
  turn(memory, node);
  memory.slow = {};
  CHECK(claims_in(memory).size() == 1);
  CHECK(node.held().empty());
  turn(memory, node, seconds(1));
  CHECK(claims_in(memory).empty());
  turn(memory, node, seconds(61));
  CHECK(node.held().size() == 1);
}

TEST_CASE("a copy of a node's disk takes none of its blocks while its Node object exists") {
  Memory memory;
  memory.nodes = {{"n1", true}, {"copy", true}};
  Node node(memory, "n1", "m");
  node.want();
  turn(memory, node);
  const auto before = claims_in(memory);
  const std::string cidr = *node.held().begin();
  node.lease(Cidr::parse(cidr)->ip.next()->next()->str());
  node.engine = engine_of(memory, true);
  node.self.node = "copy";
  for (int starts = 0; starts < 2; ++starts) {
    node.start();
    turn(memory, node);
    CHECK(claims_in(memory) == before);
    CHECK(node.held().empty());
    CHECK(node.held(State::kLost) == std::set<std::string>{cidr});
  }
  memory.nodes["n1"] = false;  // and released
  std::erase_if(memory.objects, [](const auto& one) { return one.second.kind == Kind::kBlock; });
  turn(memory, node);
  CHECK(node.held() == std::set<std::string>{cidr});
}

TEST_CASE("a size of blocks that nobody uses is named with the object to remove") {
  Memory memory;
  Node wrong(memory, "n1", "", "10.5.0.0/26", 29), node(memory, "n2");
  wrong.want();
  turn(memory, wrong);
  std::erase_if(memory.objects, [](const auto& one) { return one.second.kind == Kind::kBlock; });
  node.want();
  turn(memory, node);
  CHECK(node.note().find("remove the AddressPool 'net.10-5-0-0-26'") != std::string::npos);
}

}  // namespace
}  // namespace block_agent
