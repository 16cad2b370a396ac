#include "plugins/state/address_index.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/unit/surroundings.h"

using plugins::AddressIndex;

namespace {

using Tags = std::vector<std::string>;

const netlink::Ip kV4 = *netlink::Ip::parse("10.1.2.3");
const netlink::Ip kV6 = *netlink::Ip::parse("fd00::3");

struct Index {
  surroundings::Folder folder;
  cni::Dir dir = cni::Dir::create(folder.path());
  AddressIndex index{dir, "ip-"};
  bool is_empty() const { return std::filesystem::is_empty(folder.path()); }
};

}  // namespace

TEST_CASE("an address has the tags that were put, each once, and no link without any") {
  const Index one;
  CHECK(one.index.lines(kV4).empty());
  for (const char* const tag : {"a", "b", "a"}) one.index.insert(kV4, tag);
  one.index.insert(kV6, "a");
  CHECK(one.index.lines(kV4) == Tags{"a", "b"});
  CHECK(one.index.lines(kV6) == Tags{"a"});
  one.index.erase(kV4, "a");
  one.index.erase(kV4, "none");
  CHECK(one.index.lines(kV4) == Tags{"b"});
  one.index.erase(kV4, "b");
  one.index.erase(kV6, "a");
  CHECK(one.is_empty());
}

TEST_CASE("stale tags of all addresses are removed, also beside what a killed call left") {
  const Index one;
  one.index.insert(kV4, "a");
  one.index.insert(kV4, "b");
  one.index.insert(kV6, "a");
  CHECK(one.dir.make_link(cni::Dir::kAside, "torn"));
  one.index.erase_if([](const std::string& tag) { return tag == "a"; });
  CHECK(one.index.lines(kV4) == Tags{"b"});
  CHECK(one.index.lines(kV6).empty());
}

TEST_CASE("as many tags as a link can name stay, the newest ones") {
  const Index one;
  for (int i = 0; i < 100; ++i) one.index.insert(kV4, std::string(50, 'x') + std::to_string(i));
  const Tags tags = one.index.lines(kV4);
  CHECK(tags.size() == 77);  // of 53 bytes with the end of the line, in 4,095
  CHECK(tags.front() == std::string(50, 'x') + "23");
  CHECK(tags.back().ends_with("99"));
  one.index.replace(kV4, Tags(100, std::string(50, 'y')));
  CHECK(one.index.lines(kV4).size() == 80);
}

TEST_CASE("a file of that name is nobody's, and is replaced") {
  const Index one;
  CHECK(one.dir.publish("ip-10.1.2.3", "a"));
  CHECK(one.index.lines(kV4).empty());
  one.index.insert(kV4, "a");
  CHECK(one.index.lines(kV4) == Tags{"a"});
}
