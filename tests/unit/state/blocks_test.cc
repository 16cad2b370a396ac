#include "plugins/state/blocks.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "libcni/common/error.h"

namespace blocks {

using netlink::Cidr;
using netlink::Ip;

namespace {

namespace fs = std::filesystem;

struct Place {
  Place() {
    std::string name = (fs::temp_directory_path() / "blocks.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path = name;
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path + "/" + name) << text;
  }
  std::string path;
};

Pool pool(const std::string& subnet) {
  const auto ends = cni::AddressRange::make(*Cidr::parse(subnet));
  return {.sets = {{{.subnet = ends.subnet,
                     .start = ends.start,
                     .end = ends.end,
                     .gateway = ends.gateway,
                     .block_size = 28,
                     .exclude = {*Cidr::parse("10.5.0.9/32")}}}},
          .data_dir = "/var/lib/cni/networks"};
}

Want want(std::vector<Ip> fixed, std::vector<Want::Short> sets, std::int64_t since = 7) {
  return {.network = "net.json",
          .pool = pool("10.5.0.0/24"),
          .fixed = std::move(fixed),
          .sets = std::move(sets),
          .since = since};
}

const Ip kOne = *Ip::parse("10.5.0.33"), kTwo = *Ip::parse("10.5.0.77");

}  // namespace

TEST_CASE("blocks: what is written is read again") {
  const Place place;
  const auto folder = Folder::create(place.path);
  const Held held{.network = "pods",
                  .node = "node1",
                  .pool = pool("10.5.0.0/24"),
                  .blocks = {{*Cidr::parse("10.5.0.16/28"), "uuid1"},
                             {*Cidr::parse("10.5.0.32/28"), "uuid2", State::kReturning},
                             {*Cidr::parse("10.5.0.48/28"), "uuid3", State::kLost, "node2"}},
                  .note = "all are claimed",
                  .noted = 1700000000};
  folder.put(held);
  CHECK(folder.held("pods") == held);
  const Nodes nodes{.at = 1700000000,
                    .nodes = {{"node2", {*Cidr::parse("10.5.0.48/28")}}, {"node3"}}};
  folder.put("pods", nodes);
  CHECK(folder.nodes("pods") == nodes);
  CHECK(nodes.node_with(*Ip::parse("10.5.0.50")) == "node2");
  CHECK(nodes.node_with(kTwo).empty());
  CHECK(folder.networks() == std::vector<std::string>{"pods"});
  CHECK(folder.has_held("pods"));
  folder.remove("pods");
  CHECK(fs::is_empty(place.path));
}

TEST_CASE("blocks: a torn file is unknown, another state is refused") {
  const Place place;
  const auto folder = Folder::create(place.path);
  CHECK_FALSE(folder.held("pods"));
  CHECK_FALSE(folder.has_held("pods"));
  for (const char* const torn : {"", "{", R"({"network":"pods","blo)"}) {
    place.write("pods.json", torn);
    CHECK_FALSE(folder.held("pods"));
    CHECK(folder.has_held("pods"));
  }
  folder.put(Held{.network = "pods", .node = "n", .blocks = {{*Cidr::parse("10.5.0.16/28"), "u"}}});
  std::string text = folder.held("pods")->text();
  text.replace(text.find("\"held\""), 6, "\"sold\"");
  place.write("pods.json", text);
  CHECK_THROWS_AS(folder.held("pods"), cni::Error);
  place.write("pods.json", R"({"format":2})");
  CHECK_THROWS_WITH(folder.held("pods"), doctest::Contains("newer version of patchbay"));
}

TEST_CASE("blocks: a want is written when it says something new, and is added to") {
  const Place place;
  const auto folder = Folder::create(place.path);
  CHECK(folder.ask(want({kOne}, {{0, 1}})));
  CHECK_FALSE(folder.ask(want({kOne}, {{0, 1}}, 99)));
  CHECK_FALSE(folder.ask(want({}, {})));
  CHECK(folder.ask(want({kTwo}, {{1, 0}}, 99)));
  CHECK(folder.want("net.json") == want({kOne, kTwo}, {{0, 1}, {1, 0}}));
  CHECK(folder.ask(want({}, {{0, 2}})));
  CHECK(folder.want("net.json")->sets == std::vector<Want::Short>{{0, 2}, {1, 0}});
  CHECK(folder.networks() == std::vector<std::string>{"net.json"});
}

TEST_CASE("blocks: a want of another pool replaces what was wanted of the earlier one") {
  const Place place;
  const auto folder = Folder::create(place.path);
  folder.ask(want({kOne}, {{0, 1}}));
  Want other = want({}, {{0, 0}});
  other.pool = pool("10.5.0.0/23");
  CHECK(folder.ask(other));
  CHECK(folder.want("net.json") == other);
}

TEST_CASE("blocks: the agent removes a want as it has served it, not a later one") {
  const Place place;
  const auto folder = Folder::create(place.path);
  folder.ask(want({kOne}, {}));
  const auto seen = folder.want("net.json");
  folder.ask(want({kTwo}, {}));
  CHECK_FALSE(folder.served(*seen));
  CHECK(folder.served(*folder.want("net.json")));
  CHECK_FALSE(folder.want("net.json"));
  CHECK_FALSE(folder.served(*seen));
}

TEST_CASE("blocks: a torn want is written anew") {
  const Place place;
  const auto folder = Folder::create(place.path);
  place.write("net.json.want", R"({"netw)");
  CHECK(folder.ask(want({kOne}, {})));
  CHECK(folder.want("net.json") == want({kOne}, {}));
}

TEST_CASE("blocks: a want has no more fixed addresses than it can have") {
  const Place place;
  const auto folder = Folder::create(place.path);
  folder.ask(want({}, {}));
  Ip ip = kOne;
  for (int i = 0; i < 300; ++i, ip = *ip.next()) folder.ask(want({ip}, {}));
  CHECK(folder.want("net.json")->fixed.size() == 256);
}

}  // namespace blocks
