// In a network namespace of its own: where /run/cni/masquerade says that an attachment's rules are,
// and that they go whatever it says. Needs root; exits with 77 where it may not unshare.
#include "plugins/common/masquerade_record.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <climits>
#include <filesystem>
#include <string>
#include <vector>

#include "libcni/common/hash.h"
#include "plugins/common/masquerade.h"
#include "tests/netns/node.h"

using netlink::Cidr;
using node::count;
using node::output_of;
using node::run;
using plugins::Masquerade;

namespace {

constexpr auto kNft = plugins::MasqueradeBackend::kNftables;
const std::string kRecords = plugins::nft::MasqueradeRecord::kPath;

// A reboot: neither rules nor records are there.
struct Node : node::Fresh {
  Node() { std::filesystem::remove_all(kRecords); }
};

std::string record_path(const std::string& id) {
  return kRecords + "/" + cni::OwnerTag("mynet", id, "eth0").prefix();
}

// Empty: there is none.
std::string record_of(const std::string& id) {
  char text[PATH_MAX];
  const ssize_t size = ::readlink(record_path(id).c_str(), text, sizeof text);
  return {text, size < 0 ? 0 : static_cast<std::size_t>(size)};
}

Masquerade pod(const std::string& id, std::initializer_list<const char*> addresses,
               const std::string& network = "mynet") {
  Masquerade m{network, id, "eth0", {}};
  for (const char* const address : addresses) m.addresses.push_back(*Cidr::parse(address));
  return m;
}

// "12,13", as nft lists them.
std::string handles_of(const std::string& id) {
  std::string out =
      output_of("nft -a list ruleset | sed -n 's/.*id: " + id + "\".*# handle //p' | paste -sd ,");
  out.erase(out.find_last_not_of('\n') + 1);
  return out;
}

}  // namespace

TEST_CASE("nftables: the record names the rules that nft lists, and goes with them") {
  const Node node;
  plugins::add_masquerade(kNft, pod("other", {"10.7.1.9/24"}));
  plugins::add_masquerade(kNft, pod("one", {"10.7.1.2/24", "fd07::2/64"}));
  CHECK(record_of("one") == handles_of("one"));
  CHECK(count(record_of("one"), ",") == 1);
  plugins::remove_masquerade(pod("one", {}));
  CHECK(record_of("one").empty());
  CHECK(handles_of("one").empty());
  CHECK(record_of("other") == handles_of("other"));
}

TEST_CASE("nftables: whatever the record says, all rules of the attachment go, and no other") {
  const Node node;
  plugins::add_masquerade(kNft, pod("other", {"10.7.1.9/24"}));
  plugins::add_masquerade(kNft, pod("one", {"10.7.1.2/24", "fd07::2/64"}));
  const std::string own = handles_of("one"), others = handles_of("other");
  std::vector<std::string> texts = {"?",
                                    "999",
                                    others,
                                    own + "," + others,
                                    "0",
                                    "-1",
                                    ",",
                                    own + ",",
                                    "99999999999999999999",
                                    own + " ",
                                    "../one",
                                    std::string(300, '7')};
  texts.push_back("");  // none
  for (const std::string& text : texts) {
    CAPTURE(text);
    plugins::remove_masquerade(pod("one", {}));
    plugins::add_masquerade(kNft, pod("one", {"10.7.1.2/24", "fd07::2/64"}));
    ::unlink(record_path("one").c_str());
    if (!text.empty()) REQUIRE(::symlink(text.c_str(), record_path("one").c_str()) == 0);
    plugins::remove_masquerade(pod("one", {}));
    CHECK(handles_of("one").empty());
    CHECK(handles_of("other") == others);
    CHECK(record_of("one").empty());
  }
}

TEST_CASE("nftables: no rule stays of ADDs that no DEL followed") {
  const Node node;
  for (const char* const address : {"10.7.1.2/24", "10.7.1.3/24", "10.7.1.4/24"}) {
    plugins::add_masquerade(kNft, pod("one", {address}));
  }
  CHECK(count(handles_of("one"), ",") == 2);
  CHECK(record_of("one") == "?");
  plugins::remove_masquerade(pod("one", {"10.7.1.4/24"}));
  CHECK(handles_of("one").empty());
  CHECK(record_of("one").empty());
}

TEST_CASE("nftables: handles of a table that was there before say nothing") {
  const Node node;
  plugins::add_masquerade(kNft, pod("one", {"10.7.1.2/24"}));
  const std::string before = record_of("one");
  REQUIRE(run("nft flush ruleset"));
  plugins::add_masquerade(kNft, pod("two", {"10.7.1.3/24"}));
  CHECK(record_of("two") == before);
  plugins::remove_masquerade(pod("one", {"10.7.1.2/24"}));
  CHECK(handles_of("two") == before);
}

TEST_CASE("nftables: what is restored is in the record") {
  const Node node;
  const auto one = pod("one", {"10.7.1.2/24", "fd07::2/64"});
  plugins::add_masquerade(kNft, one);
  plugins::add_masquerade(kNft, pod("other", {"10.7.1.9/24"}));
  SUBCASE("of all") { REQUIRE(run("nft flush ruleset")); }
  SUBCASE("of one") {
    const std::string first = record_of("one").substr(0, record_of("one").find(','));
    REQUIRE(run("nft delete rule inet cni_plugins_masquerade masq_checks handle " + first));
  }
  SUBCASE("of none") {}
  plugins::restore_masquerade(kNft, one);
  CHECK(count(handles_of("one"), ",") == 1);
  CHECK(record_of("one") == handles_of("one"));
  plugins::remove_masquerade(one);
  CHECK(handles_of("one").empty());
}

TEST_CASE("nftables: GC removes the records of those that are gone") {
  const Node node;
  plugins::add_masquerade(kNft, pod("keep", {"10.7.1.2/24"}));
  plugins::add_masquerade(kNft, pod("drop", {"10.7.1.3/24"}));
  plugins::add_masquerade(kNft, pod("drop", {"10.9.1.3/24"}, "other"));
  plugins::gc_masquerade("mynet", {{"keep", "eth0"}});
  CHECK(record_of("keep") == handles_of("keep"));
  CHECK(record_of("drop").empty());
  CHECK(count(output_of("ls " + kRecords), "\n") == 2);
}

TEST_CASE("iptables: the record says that there are rules, and goes with them") {
  const Node node;
  CHECK_FALSE(plugins::was_masqueraded(pod("one", {})));
  plugins::add_masquerade(plugins::MasqueradeBackend::kIptables, pod("one", {"10.7.1.2/24"}));
  CHECK(record_of("one") == "?");
  CHECK(plugins::was_masqueraded(pod("one", {})));
  CHECK_FALSE(plugins::was_masqueraded(pod("one", {}, "other")));
  plugins::remove_masquerade(pod("one", {}));
  CHECK(record_of("one").empty());
}

static const node::TestFile kTests(__FILE__, [](doctest::Context&) -> std::string {
  return node::has_own_run() ? node::unless("nft list ruleset") : "a mount namespace";
});
