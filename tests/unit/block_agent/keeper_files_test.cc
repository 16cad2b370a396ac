#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "plugins/cluster-pool/agent/keeper.h"
#include "tests/unit/block_agent/node.h"

// Where the folder of blocks is not as the agent left it: a full disk, a copied one.
namespace block_agent {
namespace {

namespace fs = std::filesystem;

// While it exists, no file of the network's blocks can be written: a folder has the name of the new
// one.
struct FullDisk {
  explicit FullDisk(const Node& node) : path(node.folder.path() + "/blocks/.net.json.new") {
    fs::create_directories(path + "/full");
  }
  ~FullDisk() { fs::remove_all(path); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

  std::string path;
};

TEST_CASE("a block that cannot be written as returning keeps its claim") {
  Memory memory;
  Node node(memory, "n1", "", "10.5.0.0/28");
  Node other(memory, "n2", "", "10.5.0.0/28");
  node.want();
  turn(memory, node);
  other.want();
  turn(memory, other);  // calls for a block
  {
    const FullDisk full(node);
    for (int i = 0; i < 3; ++i) turn(memory, node, seconds(i));
    CHECK(node.held() == std::set<std::string>{"10.5.0.0/28"});
    CHECK(claims_in(memory) == std::set<std::string>{"10.5.0.0/28 of n1"});
    node.lease("10.5.0.5");  // by an ADD, for which it is held
  }
  turn(memory, node, seconds(5));
  CHECK(node.held() == std::set<std::string>{"10.5.0.0/28"});
  CHECK(claims_in(memory) == std::set<std::string>{"10.5.0.0/28 of n1"});
}

TEST_CASE("a claim that cannot be written is neither lost nor left for ever") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  {
    const FullDisk full(node);
    for (int i = 0; i < 3; ++i) turn(memory, node, seconds(i));
    CHECK(node.held().empty());
    CHECK(claims_in(memory).size() <= 1);
    CHECK(node.files().want("net"));
  }
  turn(memory, node, seconds(5));
  REQUIRE(node.held().size() == 1);
  CHECK(claims_in(memory) == std::set<std::string>{*node.held().begin() + " of n1"});
}

TEST_CASE("a block that is another's by now is lost as soon as the disk has room again") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  turn(memory, node);
  const std::string cidr = *node.held().begin();
  node.lease(Cidr::parse(cidr)->ip.next()->next()->str());
  Object& object = memory.objects.begin()->second;
  REQUIRE(object.kind == Kind::kBlock);
  object = {.network = "net",
            .cidr = object.cidr,
            .node = "n2",
            .machine = "machine-of-n2",
            .claim = new_claim(),
            .version = ++memory.revision};
  {
    const FullDisk full(node);
    turn(memory, node, seconds(1));
    CHECK(node.held() == std::set<std::string>{cidr});
  }
  turn(memory, node, seconds(2));
  CHECK(node.held(State::kLost) == std::set<std::string>{cidr});
}

TEST_CASE("where the folder of leases is not mounted no block is returned and no claim removed") {
  Memory memory;
  Node node(memory, "n1", "", "10.5.0.0/28"), other(memory, "n2", "", "10.5.0.0/28");
  node.want();
  turn(memory, node);
  other.want();
  turn(memory, other);  // calls for a block
  const std::string folder = node.pool.data_dir;
  fs::rename(folder, folder + ".away");
  turn(memory, node, seconds(700));
  fs::remove(node.folder.path() + "/blocks/net.json");
  node.start();
  node.want();
  turn(memory, node, seconds(1500));
  CHECK(claims_in(memory) == std::set<std::string>{"10.5.0.0/28 of n1"});
  CHECK_FALSE(fs::exists(folder));
  fs::rename(folder + ".away", folder);
  for (int turns = 0; turns < 3; ++turns) {  // the wants of before end, and are made anew
    other.want();
    turn(memory, node, seconds(2200 + 5 * turns));  // asks for what is left over, and removes it
    turn(memory, other, seconds(2200 + 5 * turns));
  }
  CHECK(claims_in(memory) == std::set<std::string>{"10.5.0.0/28 of n2"});
}

// Whatever a power loss, or a disk that lies about fsync(2), leaves of it: the node has its block,
// gets others at the latest after the time for a restore, and notices a restore by its own claim.
TEST_CASE("a .seen that is torn, empty, old, or of somebody else is harmless") {
  const std::string text =
      R"({"cluster":"one","settling":false,"revisions":[12,0,12]})";  // as Seen::write()
  std::set<std::string> all{"{}",
                            R"({"cluster":5})",
                            R"({"cluster":"","settling":0,"revisions":{}})",
                            R"({"cluster":"one","settling":true,"revisions":[-1,0.5,"9"]})",
                            R"({"cluster":"one","revisions":[18446744073709551615,9e99]})",
                            R"({"cluster":"one","settling":false,"revisions":[1,0,1]})"};
  for (std::size_t i = 0; i <= text.size(); ++i) all.insert(text.substr(0, i));
  for (const std::string& one : all) {
    for (const bool is_restored : {false, true}) {
      CAPTURE(one);
      CAPTURE(is_restored);
      Memory memory;
      Node node(memory, "n1");
      node.want();
      turn(memory, node);
      const auto held = node.held();
      const auto claims = claims_in(memory);
      if (is_restored) memory.objects.erase("blocks/net/" + Cidr::parse(*held.begin())->ip.str());
      std::ofstream(node.folder.path() + "/blocks/.seen", std::ios::trunc) << one;
      node.start();
      turn(memory, node, seconds(1));
      CHECK(node.held() == held);
      CHECK(claims_in(memory) == claims);
      node.want(1);
      turn(memory, node, seconds(2));
      if (is_restored) CHECK(claims_in(memory) == claims);
      turn(memory, node, seconds(70));
      CHECK(node.held().size() == 2);
    }
  }
}

TEST_CASE("a network whose files cannot be written holds up no other") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  node.files().ask({.network = "other", .pool = node.pool, .sets = {{0, 0}}});
  const FullDisk full(node);
  turn(memory, node);
  CHECK(node.held().empty());
  REQUIRE(node.files().held("other"));
  CHECK(node.files().held("other")->blocks.size() == 1);
}

TEST_CASE("a node with a copy of another's disk and machine-id does not keep its blocks") {
  Memory memory;
  Node node(memory, "n1", "m"), copy(memory, "n2", "m");
  node.want();
  turn(memory, node);
  const std::string cidr = *node.held().begin();
  fs::copy(node.folder.path() + "/blocks/net.json", copy.folder.path() + "/blocks/net.json");
  turn(memory, copy);  // as if it had been renamed; its pool has the same folder of leases
  node.lease(Cidr::parse(cidr)->ip.next()->next()->str());
  for (int i = 0; i < 3; ++i) {
    turn(memory, node);
    turn(memory, copy);
  }
  CHECK(claims_in(memory) == std::set<std::string>{cidr + " of n1"});
  CHECK(node.held() == std::set<std::string>{cidr});
  CHECK(copy.held().empty());
  CHECK(copy.held(State::kLost) == std::set<std::string>{cidr});
}

TEST_CASE("a file that is damaged while the agent runs is written again for the ADD that asks") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  turn(memory, node);
  const auto held = node.held();
  const auto claims = claims_in(memory);
  const std::string file = node.folder.path() + "/blocks/net.json";
  for (const char* const content : {"", "{", "[]", R"({"network":"other"})"}) {
    CAPTURE(content);
    std::ofstream(file, std::ios::trunc) << content;
    node.want();
    turn(memory, node, seconds(1));
    CHECK(node.held() == held);
    CHECK(claims_in(memory) == claims);
  }
  fs::remove(file);
  fs::create_symlink("/nonexistent", file);
  node.want();
  turn(memory, node, seconds(1));
  CHECK(node.held() == held);
}

TEST_CASE("a file of blocks of another network is an error, and gives it none of them") {
  Memory memory;
  Node node(memory, "n1");
  node.want();
  turn(memory, node);
  const std::string folder = node.folder.path() + "/blocks/";
  fs::copy(folder + "net.json", folder + "renamed.json");
  CHECK_THROWS_WITH_AS(node.files().held("renamed"), doctest::Contains("it is of network 'net'"),
                       cni::Error);
  const auto before = claims_in(memory);
  turn(memory, node, seconds(1));
  CHECK(claims_in(memory) == before);
  CHECK(node.held().size() == 1);
  fs::remove(folder + "renamed.json");
  node.files().ask({.network = "renamed", .pool = node.pool, .sets = {{0, 0}}});
  turn(memory, node, seconds(100));
  CHECK(node.files().held("renamed")->blocks.size() == 1);
}

}  // namespace
}  // namespace block_agent
