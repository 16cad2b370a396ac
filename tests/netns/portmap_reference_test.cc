// In a network namespace of its own, with either iptables: what the Go reference leaves is removed
// here, and the other way around. Needs root; exits with 77 where it may not unshare.
#include "libcni/common/error.h"
#include "plugins/portmap/reference/reference.h"
#include "tests/netns/portmap_iptables.h"

using namespace test;

namespace {

// Chains as the reference, and plugins of long ago, made them; entries more than once, and with a
// condition that has no words here.
void restore_as_reference() {
  const std::string snat = iptables::obsolete_chain_of({"net1", "c1", ""});
  const std::string entry = cat("-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment ",
                                R"("dnat name: \"net1\" id: \"c1\"" -m multiport --dports 8000 )",
                                "-i eth7 -m limit --limit 1/sec -j ", kChain, "\n");
  const std::string rules = cat(
      "*nat\n:CNI-HOSTPORT-DNAT - [0:0]\n:CNI-HOSTPORT-SNAT - [0:0]\n:", kChain,
      " - [0:0]\n:", snat, " - [0:0]\n", entry, "-A CNI-HOSTPORT-DNAT -p icmp -j RETURN\n", entry,
      entry, "-A ", kChain, " -p tcp -m tcp --dport 8000 -j DNAT --to-destination 10.1.1.5:80\n",
      "-A CNI-HOSTPORT-SNAT -j ", snat, "\n-A ", snat, " -j MASQUERADE\nCOMMIT\n");
  ::setenv("RULES", rules.c_str(), 1);
  REQUIRE(run("printf '%s' \"$RULES\" | iptables-restore --noflush"));
}

// The reference with kThree and pod(); false where it is not installed.
bool run_reference(const std::string& command) {
  const char* const directory = ::getenv("PATCHBAY_REFERENCE");
  const std::string file = cat(directory != nullptr ? directory : "/usr/lib/cni", "/portmap");
  if (::access(file.c_str(), X_OK) != 0) return false;
  ::setenv("CONF", R"({"cniVersion": "1.0.0", "name": "net1", "type": "portmap",
    "backend": "iptables", "snat": true, "runtimeConfig": {"portMappings": [
      {"hostPort": 8000, "containerPort": 80, "protocol": "tcp"},
      {"hostPort": 8001, "containerPort": 81, "protocol": "sctp", "hostIP": "192.0.2.1"},
      {"hostPort": 8002, "containerPort": 82, "protocol": "udp"}]},
    "prevResult": {"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "/x"}],
      "ips": [{"address": "10.1.1.5/24", "interface": 0},
              {"address": "fd07::5/64", "interface": 0}]}})",
           1);
  REQUIRE(run(cat("CNI_COMMAND=", command, " CNI_CONTAINERID=c1 CNI_IFNAME=eth0 CNI_PATH=/x ",
                  "CNI_NETNS=/proc/self/ns/net; export CNI_COMMAND CNI_CONTAINERID CNI_IFNAME ",
                  "CNI_PATH CNI_NETNS; printf '%s' \"$CONF\" | ", file, " > /dev/null")));
  return true;
}

}  // namespace

TEST_CASE("what the reference and its ancestors left is removed, however often it is there") {
  for (const char* const variant : kVariants) {
    for (const bool add_first : {false, true}) {
      Node node(variant);
      if (!node.there()) continue;
      restore_as_reference();
      CHECK(iptables::owners(&*node.socket, "net1").size() == 1);
      const Attachment a = attachment("c1", kThree);
      if (add_first) {
        iptables::add(&*node.socket, a);
        CHECK(!contains(output_of("iptables-save"), "eth7"));
        CHECK(!iptables::missing(&*node.socket, a));
      }
      iptables::remove(&*node.socket, a.owner);
      const std::string left = output_of("iptables-save -t nat");
      CHECK(!contains(left, "CNI-DN"));
      CHECK(!contains(left, "CNI-SN"));
      CHECK(contains(left, "-A CNI-HOSTPORT-DNAT -p icmp -j RETURN"));
    }
  }
}

TEST_CASE("the reference removes what was added here, and the other way around") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    const Attachment a = attachment("c1", kThree);
    iptables::add(&*node.socket, a);
    const std::string ours = saved();
    if (!run_reference("DEL")) {
      MESSAGE("SKIP: no reference here");
      return;
    }
    const std::string shared = saved();
    CHECK(!contains(shared, "CNI-DN"));

    REQUIRE(run_reference("ADD"));
    CHECK(iptables::owners(&*node.socket, "net1").size() == 1);
    iptables::remove(&*node.socket, a.owner);
    CHECK(saved() == shared);  // what all share is the same for it: nothing is there twice

    // Its rules are replaced, and behind ours they are found.
    REQUIRE(run_reference("ADD"));
    iptables::add(&*node.socket, a);
    CHECK(saved() == ours);
    REQUIRE(run_reference("ADD"));
    CHECK(count(saved(), "-A PREROUTING") == 2);
    REQUIRE(run_reference("DEL"));
    CHECK(saved() == shared);
  }
}

TEST_CASE("the rules are the reference's to the letter, but for the exceptions") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    if (!run_reference("ADD")) {
      MESSAGE("SKIP: no reference here");
      return;
    }
    const std::string theirs = output_of("iptables-save -t nat | grep -e ^-A | LC_ALL=C sort");
    iptables::add(&*node.socket, attachment("c1", kThree));
    CHECK(output_of("iptables-save -t nat | grep -e ^-A | grep -v '! -o lo' | LC_ALL=C sort") ==
          theirs);
  }
}

TEST_CASE("entries that moved since they were seen: nothing is done at all") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    const Attachment a = attachment("c1", {{8000, 80}});
    iptables::add(&*node.socket, a);
    REQUIRE(run("iptables -t nat -I CNI-HOSTPORT-DNAT 1 -p icmp -j RETURN"));
    const std::string before = saved();
    const std::string wrong = iptables::rules_to_remove({{"CNI-HOSTPORT-DNAT", kChain, {1}}});
    ::setenv("RULES", wrong.c_str(), 1);
    CHECK(!run("printf '%s' \"$RULES\" | iptables-restore --noflush 2>/dev/null"));
    CHECK(saved() == before);
  }
}

TEST_CASE("the rules of the reference's nftables backend go by the container's ID") {
  const Node node("nft");
  const std::string rules = R"(
table ip cni_hostport {
  chain hostports {
    tcp dport 8000 dnat to 10.1.1.5:80 comment "c1"
    tcp dport 8000 dnat to 10.1.1.5:80 comment "c1"
    tcp dport 8001 dnat to 10.1.1.6:80 comment "c11"
  }
  chain hostip_hostports { ip daddr 192.0.2.1 tcp dport 8000 dnat to 10.1.1.5:80 comment "c1"; }
  chain masquerading {
    type nat hook postrouting priority 100;
    ip saddr 10.1.1.5 ip daddr 10.1.1.5 masquerade comment "c1"
    ip saddr 127.0.0.1 ip daddr 10.1.1.5 masquerade
  }
}
table ip6 cni_hostport {
  chain hostports { tcp dport 8000 dnat to [fd07::5]:80 comment "c1"; }
  chain hostip_hostports { }
}
)";
  ::setenv("RULES", rules.c_str(), 1);
  REQUIRE(run("printf '%s' \"$RULES\" | nft -f -"));
  NfSocket socket;
  for (int i = 0; i < 2; ++i) {
    reference::remove(socket, "c1");
    const std::string left = output_of("nft list ruleset");
    CHECK(!contains(left, "\"c1\""));
    CHECK(count(left, "dnat to") == 1);
    CHECK(count(left, "masquerade\n") == 1);
  }
}

static const node::TestFile kTests(__FILE__, [](doctest::Context&) { return std::string(); });
