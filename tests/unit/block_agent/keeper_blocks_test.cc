#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "plugins/cluster-pool/agent/choice.h"
#include "plugins/cluster-pool/agent/keeper.h"
#include "tests/unit/block_agent/node.h"

namespace block_agent {
namespace {

TEST_CASE("an agent that was killed between creation and file finds its claim") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  memory.loses_answers = true;
  turn(memory, node);
  CHECK(node.held().empty());
  CHECK(claims_in(memory).size() == 1);
  memory.loses_answers = false;
  node.start();
  turn(memory, node);
  turn(memory, node, seconds(3));  // nobody has answered for it
  CHECK(node.held().size() == 1);
  CHECK(claims_in(memory) == std::set<std::string>{*node.held().begin() + " of n1"});
}

TEST_CASE("an agent that was killed between mark and removal returns the block later") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  turn(memory, node);
  auto held = *node.files().held("net");
  held.blocks[0].state = State::kReturning;
  node.files().put(held);
  node.start();
  memory.is_away = true;
  node.keeper->work(Time(0));
  CHECK(node.held(State::kReturning).size() == 1);
  memory.is_away = false;
  turn(memory, node);
  CHECK(claims_in(memory).empty());
  CHECK(node.files().held("net")->blocks.empty());
}

TEST_CASE("an idle block stays ADD's for as long as the engine does not answer") {
  Memory memory;
  Node node(memory, "n1");
  for (std::uint64_t held = 0; held < 2; ++held) {
    node.want(held);
    turn(memory, node);
  }
  memory.is_away = true;  // which no event has said yet
  for (int i = 1; i < 4; ++i) node.keeper->work(i * kTimes.idle);
  CHECK(node.held().size() == 2);
  CHECK(node.keeper->totals().errors == 3);
  node.keeper->failed("memory is away");
  node.keeper->work(4 * kTimes.idle);
  CHECK(node.keeper->totals().errors == 4);
  memory.is_away = false;
  turn(memory, node, 5 * kTimes.idle);
  CHECK(node.held().size() == 1);
  CHECK(claims_in(memory).size() == 1);
}

TEST_CASE("an engine that was restored from before the claim gets it again, with the same claim") {
  Memory memory;
  Node node(memory, "n1");
  const Memory before = memory;
  node.want();
  turn(memory, node);
  turn(memory, node);  // as after the event
  const auto claim = node.files().held("net")->blocks[0].claim;
  memory.objects = before.objects;
  memory.revision = before.revision;
  turn(memory, node);
  REQUIRE(claims_in(memory).size() == 1);
  CHECK(memory.objects.begin()->second.claim == claim);

  SUBCASE("nothing new is claimed meanwhile, because others do the same") {
    node.want(1);
    CHECK(node.keeper->work(seconds(1)) == seconds(60));
    CHECK(node.held().size() == 1);
    CHECK(node.note() == "memory was restored: all nodes claim again what they have");
    turn(memory, node, seconds(61));
    CHECK(node.held().size() == 2);
  }
  SUBCASE("nor by an agent that begins in this time") {
    node.start();
    node.want(1);
    turn(memory, node, seconds(20));
    CHECK(node.held().size() == 1);
    turn(memory, node, seconds(81));
    CHECK(node.held().size() == 2);
    node.start();
    node.want(2);
    turn(memory, node, seconds(90));
    CHECK(node.held().size() == 3);
  }
  SUBCASE("also by an agent that was down during the restore") {
    memory.revision = 5;
    node.start();
    node.want(1);
    turn(memory, node);
    CHECK(node.held().size() == 1);
  }
}

TEST_CASE("no block is claimed in a wide one that a person made, though others are in that, too") {
  Memory memory;
  Node node(memory, "n1");
  for (const char* cidr : {"10.5.0.0/26", "10.5.0.16/28"}) {
    Object one{.network = "net",
               .cidr = *Cidr::parse(cidr),
               .node = "n2",
               .machine = "m",
               .claim = new_claim()};
    memory.create(one);
  }
  node.want();
  turn(memory, node);
  node.want(0, {ip("10.5.0.20"), ip("10.5.0.50")});
  turn(memory, node);
  CHECK(node.held().empty());
}

TEST_CASE("a block that a list lacks and no event removed is its node's for the time of settle") {
  Memory memory;
  Node node(memory, "n1"), other(memory, "n2");
  node.want(0, {ip("10.5.0.20")});
  turn(memory, node);
  other.want(0, {ip("10.5.0.50")});
  turn(memory, other);
  const auto restored = memory.objects.extract("blocks/net/10.5.0.16");
  REQUIRE(restored);
  memory.revision += 1000;  // as etcdutl snapshot restore --bump-revision
  other.want(0, {ip("10.5.0.21")});
  turn(memory, other, seconds(1));
  turn(memory, other, seconds(30));
  CHECK_FALSE(other.held().contains("10.5.0.16/28"));
  CHECK(other.files().nodes("net")->node_with(ip("10.5.0.21")) == "n1");

  SUBCASE("which has it again by then") {
    turn(memory, node, seconds(31));
    other.want(0, {ip("10.5.0.21")});
    turn(memory, other, seconds(70));
    CHECK(claims_in(memory).contains("10.5.0.16/28 of n1"));
    CHECK(node.held().contains("10.5.0.16/28"));
  }
  SUBCASE("or not") {
    other.want(0, {ip("10.5.0.21")});
    other.keeper->work(seconds(62));
    CHECK(claims_in(memory).contains("10.5.0.16/28 of n2"));
  }
  SUBCASE("unless it returns it") {
    Object other_version = restored.mapped();
    other_version.version = ++memory.revision;
    other.keeper->removed(other_version);
    other.want(0, {ip("10.5.0.21")});
    other.keeper->work(seconds(31));
    CHECK(claims_in(memory).contains("10.5.0.16/28 of n2"));
  }
}

TEST_CASE("an engine that was restored is found by the revision of a claim, before it is listed") {
  Memory memory;
  Node node(memory, "n1"), other(memory, "n2");
  const Memory saved = memory;
  memory.revision += 10;
  show(memory, *other.keeper);
  node.want(0, {ip("10.5.0.20")});
  turn(memory, node);  // which the other one does not see
  memory.objects = saved.objects;
  memory.revision = saved.revision;
  other.want(0, {ip("10.5.0.21")});
  other.keeper->work(seconds(1));
  CHECK(other.held().empty());
  turn(memory, other, seconds(2));  // removes its claim
  turn(memory, node, seconds(3));
  turn(memory, other, seconds(100));
  CHECK(node.held().contains("10.5.0.16/28"));
  CHECK_FALSE(other.held().contains("10.5.0.16/28"));
}

TEST_CASE("a restored engine gives no block back to the node that had it before another one") {
  Memory memory;
  Node before(memory, "n1", "", "10.5.0.0/28"), now(memory, "n2", "", "10.5.0.0/28");
  before.want();
  turn(memory, before);
  const Memory saved = memory;
  now.want();
  turn(memory, now);
  turn(memory, before);  // n2 is short of blocks
  turn(memory, now);
  REQUIRE(claims_in(memory) == std::set<std::string>{"10.5.0.0/28 of n2"});
  now.lease("10.5.0.5");
  memory.objects = saved.objects;
  memory.revision = saved.revision;
  turn(memory, now);  // the engine says that n1 has it
  CHECK(now.held(State::kLost).size() == 1);
  turn(memory, before);
  CHECK(before.held().empty());
  turn(memory, now);
  CHECK(now.held().size() == 1);
  CHECK(claims_in(memory) == std::set<std::string>{"10.5.0.0/28 of n2"});
}

TEST_CASE("a file that was lost is made anew of the claims in which there are leases") {
  Memory memory;
  Node node(memory, "n1");
  for (std::uint64_t held = 0; held < 2; ++held) {
    node.want(held);
    turn(memory, node);
  }
  const std::string used = *node.held().begin();
  node.lease(Cidr::parse(used)->ip.next()->next()->str());
  std::filesystem::remove(node.folder.path() + "/blocks/net.json");
  node.start();
  node.want();
  turn(memory, node);
  turn(memory, node, seconds(3));  // nobody has answered for the other one
  CHECK(node.held() == std::set<std::string>{used});
  CHECK(claims_in(memory) == std::set<std::string>{used + " of n1"});
}

TEST_CASE("a block that another node has by now is lost: its leases stay, and it comes back") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  turn(memory, node);
  const std::string cidr = *node.held().begin();
  const std::string address = Cidr::parse(cidr)->ip.next()->next()->str();
  node.lease(address);
  auto& object = memory.objects.begin()->second;
  REQUIRE(object.kind == Kind::kBlock);
  object.node = "n2";
  object.machine = "machine-of-n2";
  object.claim = new_claim();
  object.version = ++memory.revision;
  turn(memory, node);
  CHECK(node.held(State::kLost) == std::set<std::string>{cidr});
  CHECK(node.files().held("net")->blocks[0].holder == "n2");
  CHECK(std::filesystem::exists(node.pool.data_dir + "/net/" + address));

  SUBCASE("it is this node's again when the other one has returned it") {
    memory.remove(Object(memory.objects.begin()->second));
    turn(memory, node);
    CHECK(node.held() == std::set<std::string>{cidr});
    CHECK(claims_in(memory) == std::set<std::string>{cidr + " of n1"});
  }
  SUBCASE("it is forgotten with its last lease") {
    node.release(address);
    turn(memory, node);
    CHECK(node.files().held("net")->blocks.empty());
    CHECK(claims_in(memory) == std::set<std::string>{cidr + " of n2"});
  }
}

TEST_CASE("late events about a block that was another's before make it nobody else's") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  turn(memory, node);
  Object late = memory.objects.begin()->second;
  late.node = "n2";
  late.claim = new_claim();
  late.version = 3;
  node.keeper->changed(late);
  node.keeper->work(Time(0));
  CHECK(node.held().size() == 1);
  late.version = memory.revision + 5;  // one that the engine never had
  node.keeper->changed(late);
  node.keeper->work(Time(0));
  CHECK(node.held().size() == 1);
  node.keeper->removed(late);
  node.keeper->work(Time(0));
  CHECK(claims_in(memory).size() == 1);
}

TEST_CASE("a node that was renamed keeps its blocks, and the engine has its new name") {
  Memory memory;
  Node node(memory, "n1", "m");
  node.want();
  turn(memory, node);
  const std::string cidr = *node.held().begin();
  SUBCASE("") {}
  SUBCASE("also if it was asked by its former name whether it lives") {
    memory.objects.begin()->second.claim = new_question();
    memory.objects.begin()->second.version = ++memory.revision;
  }
  node.self.node = "new";
  node.start();
  turn(memory, node);
  CHECK(node.held() == std::set<std::string>{cidr});
  CHECK(claims_in(memory) == std::set<std::string>{cidr + " of new"});
  CHECK(node.files().held("net")->node == "new");
}

TEST_CASE("a question that an older release of the agent took for a claim is one no more") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  turn(memory, node);
  auto held = *node.files().held("net");
  Object& object = memory.objects.begin()->second;
  object.claim = held.blocks[0].claim = new_question();
  object.version = ++memory.revision;
  node.files().put(held);
  node.start();
  turn(memory, node);
  CHECK_FALSE(is_question(object));
  CHECK(node.files().held("net")->blocks ==
        std::vector<blocks::Block>{{held.blocks[0].cidr, object.claim}});
}

TEST_CASE("a block of this node is not free, though the engine was seen without it") {
  Memory memory;
  const Node node(memory, "n1", "", "10.5.0.0/28");
  blocks::Held held{.network = "net", .node = "n1", .pool = node.pool};
  CHECK(free_blocks({node.pool.sets[0], 2}, View(), held).size() == 1);
  held.blocks.push_back({.cidr = *Cidr::parse("10.5.0.0/28"), .claim = new_claim()});
  CHECK(free_blocks({node.pool.sets[0], 2}, View(), held).empty());
}

TEST_CASE("two machines with one name claim nothing") {
  Memory memory;
  Node one(memory, "n1", "m1"), other(memory, "n1", "m2");
  one.want();
  turn(memory, one);
  other.want();
  turn(memory, other);
  CHECK(other.held().empty());
  CHECK(other.note().starts_with("another machine has blocks as node 'n1', too"));
  CHECK(one.held().size() == 1);
}

}  // namespace
}  // namespace block_agent
