#include "plugins/portmap/attachment.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "plugins/portmap/port_claims.h"
#include "tests/unit/surroundings.h"

using namespace portmap;

namespace {

namespace fs = std::filesystem;

const Owner kOne{"net1", "c1", "eth0"};

Attachment attachment(const Owner& owner = kOne) {
  Attachment out;
  out.owner = owner;
  out.netns = "/run/netns/pod";
  out.netns_inode = "4:4711";
  out.backend = portmap::BackendName::kIptables;
  out.options.conditions_v4 = {"!", "-s", "192.0.2.0/24"};
  out.options.mark_bit = 7;
  out.pod = {netlink::Cidr::parse("10.1.2.3/24"), netlink::Cidr::parse("fd00::3/64")};
  out.claims =
      portmap::claims_of({{8080, 80, portmap::Protocol::kTcp, {}},
                          {53, 53, portmap::Protocol::kUdp, netlink::Ip::parse("192.0.2.1")}},
                         out.pod);
  return out;
}

std::string content(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

}  // namespace

TEST_CASE("an attachment is read as it was put") {
  const surroundings::Folder dir;
  const StateDir state = StateDir::create(dir.path());
  put_attachment(state, attachment());
  CHECK(find_attachment(state, kOne) == attachment());
  CHECK(state.dir().has(kOne.container_hash()));
  CHECK_FALSE(find_attachment(state, {"net2", "c1", "eth0"}));
  CHECK(containers_in(state) == std::vector{kOne.container_hash()});
}

TEST_CASE("a container's attachments share a file, which goes with the last") {
  const surroundings::Folder dir;
  const StateDir state = StateDir::create(dir.path());
  const Owner two{"net2", "c1", "eth1"};
  put_attachment(state, attachment());
  put_attachment(state, attachment(two));
  Attachment changed = attachment();
  changed.claims.back().target_port = 5353;
  put_attachment(state, changed);
  CHECK(attachments_of(state, kOne.container_hash()) ==
        std::vector<Attachment>{changed, attachment(two)});
  remove_attachment(state, kOne);
  CHECK(find_attachment(state, two) == attachment(two));
  remove_attachment(state, two);
  remove_attachment(state, two);
  CHECK(fs::is_empty(dir.path()));
}

TEST_CASE("a truncated state file has no attachments, and can be replaced and removed") {
  const surroundings::Folder dir;
  const StateDir state = StateDir::create(dir.path());
  const fs::path file = fs::path(dir.path()) / kOne.container_hash();
  put_attachment(state, attachment());
  const std::string whole = content(file);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    std::ofstream(file) << whole.substr(0, length);
    CHECK(attachments_of(state, kOne.container_hash()).empty());
  }
  put_attachment(state, attachment());
  CHECK(find_attachment(state, kOne) == attachment());
  std::ofstream(file) << "[";
  remove_attachment(state, kOne);
  CHECK_FALSE(state.dir().has(kOne.container_hash()));
}

TEST_CASE("a claim is released only by its owner") {
  const surroundings::Folder dir;
  const StateDir state = StateDir::create(dir.path());
  const portmap::Key key = attachment().claims[0].key;
  const Owner other{"net1", "c2", "eth0"};
  CHECK(PortClaims(state).claimant(key).empty());
  PortClaims(state).put(key, kOne);
  PortClaims(state).release(key, Tag(other));
  CHECK(PortClaims(state).claimant(key) == Tag(kOne));
  PortClaims(state).put(key, other);
  CHECK(PortClaims(state).claimant(key) == Tag(other));
  PortClaims(state).release(key, Tag(other));
  CHECK(PortClaims(state).claimant(key).empty());
}

TEST_CASE("a tag is fifty characters, and the comment begins with it and fits nft") {
  CHECK(Tag(kOne).str() == "8e48f37d5de60467-f4d01f2ef4b92245-bcfe21e6280bf11b");
  const Owner owner{std::string(60, 'n'), std::string(64, 'c') + "\"", "eth0"};
  const std::string comment = portmap::Attachment{.owner = owner}.comment();
  CHECK(comment.starts_with(Tag(owner).str() + ", net: nnn"));
  CHECK(comment.size() == 128);
  CHECK(comment.find('"') == std::string::npos);
  CHECK(Tag({"net2", "c1", "eth1"}).is_of_sibling(Tag(kOne)));
  CHECK_FALSE(Tag(kOne).is_of_sibling(Tag(kOne)));
  CHECK_FALSE(Tag(owner).is_of_sibling(Tag(kOne)));
  CHECK_FALSE(Tag().is_of_sibling(Tag(kOne)));
  CHECK(kOne.as_owner() == "container 'c1' (network 'net1', interface 'eth0')");
}

TEST_CASE("a state file of 0.1.0 is read") {
  const auto container = Container::from(surroundings::corpus("portmap_record/container_of_0.1.0"));
  REQUIRE(container);
  REQUIRE(container->attachments.size() == 1);
  const Attachment& one = container->attachments.front();
  CHECK(one.owner == kOne);
  CHECK(one.netns_inode == "4:4711");
  CHECK(one.backend == portmap::BackendName::kIptables);
  CHECK_FALSE(one.detected);
  CHECK(one.pod.v4 == netlink::Cidr::parse("10.1.2.3/24"));
  CHECK(one.pod.v6 == netlink::Cidr::parse("fd00::3/64"));
  REQUIRE(one.claims.size() == 3);
  CHECK_FALSE(one.claims[0].key.address);
  CHECK(one.claims[1].key.address == netlink::Ip::parse("192.0.2.1"));
  CHECK(Container::from(container->text()) == container);
}

TEST_CASE("JSON that portmap does not write is refused, and stays") {
  const std::string whole = Container{{attachment()}}.text();
  REQUIRE(Container::from(whole) == Container{{attachment()}});
  const std::pair<std::string, std::string> others[] = {
      {R"(null,8080,)", R"(null,73616,)"},  // 8080, if it is cut to 16 bits
      {R"(null,8080,)", R"(null,0,)"},
      {R"(null,8080,)", R"(null,8080.5,)"},
      {R"("192.0.2.1",53)", R"("2001:db8::1",53)"},  // of an IPv4 target
      {R"("markMasqBit":7)", R"("markMasqBit":32)"},
      {R"("markMasqBit":7)", R"("markMasqBit":-1)"},
      {R"("backend":"iptables")", R"("backend":"ipvs")"},
      {R"("10.1.2.3/24")", R"("10.1.2.3/33")"},
  };
  for (const auto& row : others) {
    CAPTURE(row.second);
    std::string text = whole;
    const auto at = text.find(row.first);
    REQUIRE(at != std::string::npos);
    text.replace(at, row.first.size(), row.second);
    CHECK_THROWS_AS(static_cast<void>(Container::from(text)), cni::Error);
  }
  for (const char* const text : {"[]", "{}", "null", R"({"attachments": []})"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(static_cast<void>(Container::from(text)), cni::Error);
  }
  const surroundings::Folder dir;
  const StateDir state = StateDir::create(dir.path());
  std::ofstream(dir.file(kOne.container_hash())) << "{}";
  CHECK_THROWS_AS(remove_attachment(state, kOne), cni::Error);
  CHECK_THROWS_AS(put_attachment(state, attachment()), cni::Error);
  CHECK(content(dir.file(kOne.container_hash())) == "{}");
}
