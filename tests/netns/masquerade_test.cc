// In a network namespace of its own: what add_masquerade() and add_macspoof() leave in the kernel,
// as nft and iptables-save see it. Needs root; exits with 77 where it may not unshare.
#include "plugins/common/firewall/masquerade.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "libcni/common/error.h"
#include "netlink/nf/socket.h"
#include "plugins/bridge/macspoof.h"
#include "tests/netns/node.h"

using netlink::Cidr;
using netlink::Mac;
using node::contains;
using node::count;
using node::output_of;
using node::run;
using plugins::Masquerade;
using plugins::MasqueradeBackend;
using Node = node::Fresh;

namespace {

// The rules alone: no counters, no dates, no built-in chains.
std::string rules_of(const std::string& tool) {
  return output_of(tool + "-save 2>/dev/null | grep -e '^:CNI' -e '^-A'");
}

std::string ruleset() { return output_of("nft list ruleset"); }

Masquerade pod(const std::string& id, std::initializer_list<const char*> addresses,
               const std::string& ifname = "eth0") {
  Masquerade m{{"mynet", id, ifname}, {}};
  for (const char* const address : addresses) m.addresses.push_back(*Cidr::parse(address));
  return m;
}

constexpr auto kNft = MasqueradeBackend::kNftables;
constexpr auto kIptables = MasqueradeBackend::kIptables;
constexpr const char* kChain = "CNI-70a29d9dc18bc4d652ea5d59";  // mynet, abc123

const std::string kBaseChain = R"(	chain postrouting {
		type nat hook postrouting priority 150; policy accept;
		ip saddr vmap @pods4
		ip6 saddr vmap @pods6
	}
)";

// How many addresses are masqueraded.
std::size_t elements() { return count(ruleset(), " : goto masq_"); }

// What an earlier version had for a pod, with the base chain of the reference plugin.
bool load_earlier(const std::string& comment) {
  const node::TextFile file(
      "table inet cni_plugins_masquerade {\n"
      "chain masq_checks { ip saddr 10.7.1.2 ip daddr != 10.7.1.0/24 masquerade comment \"" +
      comment +
      "\"; }\nchain postrouting { type nat hook postrouting priority 100; goto masq_checks; "
      "}\n}\n");
  return run("nft -f " + file.path);
}

void collect(const char* network, std::vector<cni::Attachment> valid) {
  cni::Collect of(network, std::move(valid));
  plugins::gc_masquerade(network, of);
}

}  // namespace

TEST_CASE("nftables: a map of pods, and a chain for each subnet") {
  const Node node;
  const auto one = pod("abc123", {"10.7.1.2/24", "10.8.1.2/20", "fd07::2/64", "10.9.9.9/32"});
  plugins::add_masquerade(kNft, one);
  const std::string listed = ruleset();
  CHECK(contains(listed, kBaseChain));
  CHECK(contains(listed, "ip daddr != 10.7.1.0/24 ip daddr != 224.0.0.0/4 masquerade\n"));
  CHECK(contains(listed, "ip daddr != 10.8.0.0/20 ip daddr != 224.0.0.0/4 masquerade\n"));
  CHECK(contains(listed, "ip6 daddr != fd07::/64 ip6 daddr != ff00::/8 masquerade\n"));
  CHECK(contains(listed, "\tchain masq_hosts4 {\n\t\tip daddr != 224.0.0.0/4 masquerade\n"));
  CHECK(contains(listed, "10.7.1.2 comment \""));
  CHECK(contains(listed, "id: abc123\" : goto masq_10.7.1.0/24"));
  CHECK(contains(listed, "id: abc123\" : goto masq_fd07__/64"));
  CHECK(count(listed, ", net: mynet, if: eth0, id: abc123\"") == 4);
  plugins::check_masquerade(one);
  SUBCASE("removed by name") { plugins::remove_masquerade(pod("abc123", {})); }
  SUBCASE("removed by address") {
    auto known = one;
    known.from_result = true;
    plugins::remove_masquerade(known);
  }
  SUBCASE("removed by addresses that are not all its own") {
    auto known = pod("abc123", {"10.7.1.2/24", "10.7.1.3/24"});
    known.from_result = true;
    plugins::remove_masquerade(known);
  }
  CHECK(elements() == 0);
  CHECK(contains(ruleset(), kBaseChain));
  CHECK_THROWS_AS(plugins::check_masquerade(one), cni::Error);
}

TEST_CASE("nftables: rules of an earlier version are checked, removed, and replaced by repair") {
  const Node node;
  const auto one = pod("abc123", {"10.7.1.2/24"});
  plugins::add_masquerade(kNft, one);
  std::string comment =
      output_of("nft list map inet patchbay_masquerade pods4 | grep -o '\"[^\"]*\"'");
  comment = comment.substr(1, comment.rfind('"') - 1);
  REQUIRE(run("nft flush ruleset"));
  REQUIRE(load_earlier(comment));
  plugins::check_masquerade(one);
  SUBCASE("DEL") { plugins::remove_masquerade(one); }
  SUBCASE("DEL without addresses") { plugins::remove_masquerade(pod("abc123", {})); }
  SUBCASE("GC") { collect("mynet", {}); }
  SUBCASE("GC of another network") {
    collect("other", {});
    plugins::check_masquerade(one);
    plugins::remove_masquerade(one);
  }
  SUBCASE("repair") {
    plugins::restore_masquerade(kNft, one);
    CHECK(elements() == 1);
    plugins::check_masquerade(one);
  }
  CHECK(!contains(ruleset(), "masquerade comment"));
}

TEST_CASE("nftables: the listing is what nft takes back") {
  const Node node;
  plugins::add_masquerade(kNft, pod("abc123", {"10.7.1.2/24", "10.1.2.3/32", "fd07::2/61"}));
  bridge::add_macspoof("abc123", "eth0", "vethabc", *Mac::parse("02:00:00:00:00:01"));
  const std::string listed = ruleset();
  REQUIRE(
      run("nft list ruleset > /tmp/masquerade_test.nft && nft flush ruleset && "
          "nft -f /tmp/masquerade_test.nft"));
  CHECK(ruleset() == listed);
  ::unlink("/tmp/masquerade_test.nft");
}

TEST_CASE("nftables: an ADD repairs a damaged chain, and twice is once") {
  const Node node;
  plugins::add_masquerade(kNft, pod("one", {"10.7.1.2/24"}));
  REQUIRE(run("nft flush table inet patchbay_masquerade"));
  plugins::add_masquerade(kNft, pod("two", {"10.7.1.3/24"}));
  plugins::add_masquerade(kNft, pod("three", {"10.7.1.4/24"}));
  CHECK(contains(ruleset(), kBaseChain));
  CHECK(count(ruleset(), "ip daddr != 10.7.1.0/24") == 1);
  CHECK(elements() == 3);
}

TEST_CASE("nftables: an ADD that no DEL followed is replaced by the next") {
  const Node node;
  plugins::add_masquerade(kNft, pod("one", {"10.7.1.2/24"}));
  plugins::add_masquerade(kNft, pod("one", {"10.7.1.2/16", "10.7.1.3/16"}));
  CHECK(elements() == 2);
  plugins::check_masquerade(pod("one", {"10.7.1.2/16", "10.7.1.3/16"}));
  plugins::remove_masquerade(pod("one", {}));
  CHECK(elements() == 0);
}

TEST_CASE("nftables: who takes an address over keeps it when the one before is removed") {
  const Node node;
  plugins::add_masquerade(kNft, pod("a", {"10.7.1.2/24"}));
  plugins::add_masquerade(kNft, pod("b", {"10.7.1.2/24"}));
  plugins::remove_masquerade(pod("a", {"10.7.1.2/24"}));
  CHECK(elements() == 1);
  CHECK(contains(ruleset(), "id: b\""));
}

TEST_CASE("nftables: GC keeps the valid and other networks") {
  const Node node;
  plugins::add_masquerade(kNft, pod("keep", {"10.7.1.2/24"}));
  plugins::add_masquerade(kNft, pod("drop", {"10.7.1.3/24"}));
  plugins::add_masquerade(kNft, {{"other", "drop", "eth0"}, {*Cidr::parse("10.9.1.3/24")}});
  collect("mynet", {{"keep", "eth0"}});
  CHECK(elements() == 2);
  CHECK(contains(ruleset(), "id: keep\""));
  CHECK(contains(ruleset(), "net: other, if: eth0, id: drop\""));
}

TEST_CASE("nftables: 64 first ADDs at once leave one set of shared rules") {
  const Node node;
  std::vector<pid_t> children;
  for (int i = 0; i < 64; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      try {
        const std::string address = netlink::cat("10.7.1.", i + 2, "/24");
        plugins::add_masquerade(kNft, pod(netlink::cat("c", i), {address.c_str()}));
        if (i % 2 == 0) plugins::remove_masquerade(pod(netlink::cat("c", i), {}));
        ::_exit(0);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "child %d: %s\n", i, e.what());
        ::_exit(1);
      }
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    CHECK(status == 0);
  }
  const std::string listed = ruleset();
  CHECK(elements() == 32);
  CHECK(contains(listed, kBaseChain));
  CHECK(count(listed, "ip daddr != 10.7.1.0/24") == 1);
}

TEST_CASE("iptables: the rules are the reference's") {
  const Node node;
  plugins::add_masquerade(kIptables, pod("abc123", {"10.7.1.2/24", "fd07::2/64"}));
  CHECK(rules_of("iptables") ==
        R"(:CNI-70a29d9dc18bc4d652ea5d59 - [0:0]
-A POSTROUTING -s 10.7.1.2/32 -m comment --comment "name: \"mynet\" id: \"abc123\"" -j CNI-70a29d9dc18bc4d652ea5d59
-A CNI-70a29d9dc18bc4d652ea5d59 -d 10.7.1.0/24 -m comment --comment "name: \"mynet\" id: \"abc123\"" -j ACCEPT
-A CNI-70a29d9dc18bc4d652ea5d59 ! -d 224.0.0.0/4 -m comment --comment "name: \"mynet\" id: \"abc123\"" -j MASQUERADE
)");
  CHECK(rules_of("ip6tables") ==
        R"(:CNI-70a29d9dc18bc4d652ea5d59 - [0:0]
-A POSTROUTING -s fd07::2/128 -m comment --comment "name: \"mynet\" id: \"abc123\"" -j CNI-70a29d9dc18bc4d652ea5d59
-A CNI-70a29d9dc18bc4d652ea5d59 -d fd07::/64 -m comment --comment "name: \"mynet\" id: \"abc123\"" -j ACCEPT
-A CNI-70a29d9dc18bc4d652ea5d59 ! -d ff00::/8 -m comment --comment "name: \"mynet\" id: \"abc123\"" -j MASQUERADE
)");
  plugins::check_masquerade(pod("abc123", {"10.7.1.2/24", "fd07::2/64"}));
  // Again, as after an ADD that was killed.
  plugins::add_masquerade(kIptables, pod("abc123", {"10.7.1.2/24", "fd07::2/64"}));
  CHECK(count(rules_of("iptables"), "-A ") == 3);
  CHECK(count(rules_of("ip6tables"), "-A ") == 3);
  plugins::remove_masquerade(pod("abc123", {}));
  CHECK(rules_of("iptables").empty());
  CHECK(rules_of("ip6tables").empty());
  plugins::remove_masquerade(pod("abc123", {}));
}

TEST_CASE("iptables: attachments that share a chain are removed one by one") {
  const Node node;
  const auto first = pod("abc123", {"10.7.1.2/24", "10.6.1.2/24"});
  const auto second = pod("abc123", {"10.7.1.3/24"}, "net1");
  plugins::add_masquerade(kIptables, first);
  plugins::add_masquerade(kIptables, second);
  CHECK(count(rules_of("iptables"), "-A POSTROUTING") == 3);
  CHECK(count(rules_of("iptables"), "ACCEPT") == 2);
  plugins::remove_masquerade(first);
  CHECK(count(rules_of("iptables"), "-A POSTROUTING") == 1);
  CHECK(contains(rules_of("iptables"), "-d 10.7.1.0/24"));
  CHECK(!contains(rules_of("iptables"), "-d 10.6.1.0/24"));
  plugins::check_masquerade(second);
  plugins::remove_masquerade(second);
  CHECK(rules_of("iptables").empty());
}

TEST_CASE("iptables: both forms of the jump are removed, and foreign rules stay") {
  const Node node;
  plugins::add_masquerade(kIptables, pod("abc123", {"10.7.1.2/24"}));
  const std::string chain = kChain;
  REQUIRE(run("iptables -t nat -A POSTROUTING -s 10.7.1.2/24 -j " + chain));
  REQUIRE(run("iptables -t nat -A POSTROUTING -s 10.99.0.0/16 -j MASQUERADE"));
  plugins::remove_masquerade(pod("abc123", {"10.7.1.2/24"}));
  CHECK(rules_of("iptables") == "-A POSTROUTING -s 10.99.0.0/16 -j MASQUERADE\n");
}

TEST_CASE("iptables: what the legacy tables hold is removed") {
  const Node node;
  const std::string rules =
      std::string("*nat\n:") + kChain +
      " - [0:0]\n-A POSTROUTING -s 10.7.1.2 -m comment --comment "
      R"("name: \"mynet\" id: \"abc123\"")"
      " -j " +
      kChain + "\n-A " + kChain + " -d 10.7.1.0/24 -j ACCEPT\n-A " + kChain +
      " ! -d 224.0.0.0/4 -j MASQUERADE\n-A POSTROUTING -j MASQUERADE\nCOMMIT\n";
  const std::string command = "printf '%s' \"$RULES\" | iptables-legacy-restore --noflush";
  ::setenv("RULES", rules.c_str(), 1);
  if (!run(command)) {
    MESSAGE("SKIP: no legacy iptables here");
    return;
  }
  plugins::check_masquerade(pod("abc123", {"10.7.1.2/24"}));
  SUBCASE("by address") { plugins::remove_masquerade(pod("abc123", {"10.7.1.2/24"})); }
  SUBCASE("by name") { plugins::remove_masquerade(pod("abc123", {})); }
  SUBCASE("by GC") {
    collect("mynet", {{"abc123", "eth0"}});
    CHECK(count(rules_of("iptables-legacy"), "CNI-") == 4);
    collect("mynet", {});
  }
  CHECK(rules_of("iptables-legacy") == "-A POSTROUTING -j MASQUERADE\n");
}

TEST_CASE("iptables: GC keeps the valid and other networks") {
  const Node node;
  plugins::add_masquerade(kIptables, pod("keep", {"10.7.1.2/24"}));
  plugins::add_masquerade(kIptables, pod("drop", {"10.7.1.3/24", "fd07::3/64"}));
  plugins::add_masquerade(kIptables, {{"other", "drop", "eth0"}, {*Cidr::parse("10.9.1.3/24")}});
  collect("mynet", {{"keep", "eth0"}});
  CHECK(count(rules_of("iptables"), "-A POSTROUTING") == 2);
  CHECK(rules_of("ip6tables").empty());
}

TEST_CASE("without iptables-restore the error says so") {
  const Node node;
  if (::access("/usr/sbin/iptables-restore", X_OK) == 0) return;  // found wherever PATH points
  CHECK_THROWS_AS(plugins::add_masquerade(kIptables, pod("a", {"10.7.1.2/24"})), cni::Error);
}

TEST_CASE("the backend is what the kernel has, and the probe leaves nothing") {
  const Node node;
  CHECK(plugins::choose_backend() == kNft);
  CHECK(ruleset().empty());
  CHECK(plugins::backend_from("iptables") == kIptables);
  CHECK_FALSE(plugins::backend_from("ebtables"));
  CHECK(!plugins::masquerade_missing(kNft));
}

TEST_CASE("a refusal names the change and leaves nothing") {
  const Node node;
  netlink::nf::Batch batch;
  batch.add(netlink::nf::Table{netlink::nf::TableFamily::kInet, "t"});
  batch.flush({netlink::nf::TableFamily::kInet, "t", "absent"});
  netlink::nf::NfSocket socket;
  try {
    socket.commit(batch);
    FAIL("the commit passed");
  } catch (const netlink::Error& e) {
    CHECK(e.operation() == "flush chain 'inet t absent'");
    CHECK(e.error() == ENOENT);
  }
  CHECK(ruleset().empty());
}

TEST_CASE(
    "macspoofchk: nft lists the rules as the reference writes them, once however often added") {
  const Node node;
  for (int i = 0; i < 2; ++i) {
    bridge::add_macspoof("abc123", "eth0", "vethabc", *Mac::parse("02:00:00:00:00:01"));
  }
  CHECK(ruleset() == R"(table bridge nat {
	chain PREROUTING {
		type filter hook prerouting priority dstnat; policy accept;
		iifname "vethabc" jump cni-br-iface-abc123-eth0 comment "macspoofchk-abc123-eth0"
	}

	chain cni-br-iface-abc123-eth0 {
		jump cni-br-iface-abc123-eth0-mac comment "macspoofchk-abc123-eth0"
	}

	chain cni-br-iface-abc123-eth0-mac {
		ether saddr 02:00:00:00:00:01 return comment "macspoofchk-abc123-eth0"
		drop comment "macspoofchk-abc123-eth0"
	}
}
)");
  bridge::check_macspoof("abc123", "eth0", "vethabc");
  CHECK_THROWS_AS(bridge::check_macspoof("abc123", "eth0", "vethdef"), cni::Error);
  netlink::nf::NfSocket socket;
  bridge::remove_macspoof(socket, "abc123", "eth0");
  CHECK(!contains(ruleset(), "abc123"));
  bridge::remove_macspoof(socket, "abc123", "eth0");
  CHECK_THROWS_AS(bridge::add_macspoof(std::string(200, 'x'), "eth0", "v", Mac{}), cni::Error);
}

TEST_CASE("macspoofchk: GC removes the checks of links that are gone") {
  const Node node;
  REQUIRE(run("ip link add vethabc type veth peer name peer"));
  bridge::add_macspoof("here", "eth0", "vethabc", *Mac::parse("02:00:00:00:00:01"));
  bridge::add_macspoof("gone", "eth0", "vethdef", *Mac::parse("02:00:00:00:00:02"));
  bridge::gc_macspoof();
  CHECK(contains(ruleset(), "here"));
  CHECK(!contains(ruleset(), "gone"));
}

static const node::TestFile kTests(__FILE__, [](doctest::Context&) -> std::string {
  return node::has_own_run() ? node::unless("nft list ruleset") : "a mount namespace";
});
