// In a network namespace of its own, with either iptables: what portmap's iptables backend leaves
// in the kernel, as iptables-save sees it. Needs root; exits with 77 where it may not unshare.
#include "tests/netns/portmap_iptables.h"

#include "libcni/common/error.h"
#include "plugins/common/firewall/iptables_restore.h"

using namespace test;

TEST_CASE("the rules are the reference's, and some that it lacks") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    const Attachment a = attachment("c1", kThree);
    iptables::add(&*node.socket, a);
    const std::string v4 =
        output_of("iptables-save -t nat | grep -e ^-A | grep -e CNI-DN | LC_ALL=C sort -s -k2,2");
    CHECK(v4 ==
          R"(-A CNI-DN-c2d892b58e87e28a12fe6 -d 127.0.0.0/8 ! -o lo -j RETURN
-A CNI-DN-c2d892b58e87e28a12fe6 -s 127.0.0.0/8 ! -o lo -j RETURN
-A CNI-DN-c2d892b58e87e28a12fe6 -s 10.1.1.0/24 -p tcp -m tcp --dport 8000 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c2d892b58e87e28a12fe6 -s 127.0.0.1/32 -p tcp -m tcp --dport 8000 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c2d892b58e87e28a12fe6 -p tcp -m tcp --dport 8000 -j DNAT --to-destination 10.1.1.5:80
-A CNI-DN-c2d892b58e87e28a12fe6 -s 10.1.1.0/24 -d 192.0.2.1/32 -p sctp -m sctp --dport 8001 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c2d892b58e87e28a12fe6 -s 127.0.0.1/32 -d 192.0.2.1/32 -p sctp -m sctp --dport 8001 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c2d892b58e87e28a12fe6 -d 192.0.2.1/32 -p sctp -m sctp --dport 8001 -j DNAT --to-destination 10.1.1.5:81
-A CNI-DN-c2d892b58e87e28a12fe6 -s 10.1.1.0/24 -p udp -m udp --dport 8002 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c2d892b58e87e28a12fe6 -s 127.0.0.1/32 -p udp -m udp --dport 8002 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-c2d892b58e87e28a12fe6 -p udp -m udp --dport 8002 -j DNAT --to-destination 10.1.1.5:82
-A CNI-HOSTPORT-DNAT -p sctp -m comment --comment "dnat name: \"net1\" id: \"c1\"" -m multiport --dports 8001 -j CNI-DN-c2d892b58e87e28a12fe6
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"net1\" id: \"c1\"" -m multiport --dports 8000 -j CNI-DN-c2d892b58e87e28a12fe6
-A CNI-HOSTPORT-DNAT -p udp -m comment --comment "dnat name: \"net1\" id: \"c1\"" -m multiport --dports 8002 -j CNI-DN-c2d892b58e87e28a12fe6
)");
    CHECK(output_of("iptables-save -t filter | grep ^-A") ==
          R"(-A INPUT -j CNI-HOSTPORT-GUARD
-A CNI-HOSTPORT-GUARD -d 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate DNAT -j DROP
-A CNI-HOSTPORT-GUARD -s 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate DNAT -j DROP
)");
    CHECK(!contains(output_of("ip6tables-save"), "*filter"));
    CHECK(!iptables::missing(&*node.socket, a));
    CHECK(iptables::owners(&*node.socket, "net1") == std::vector<Owner>{{"net1", "c1", ""}});
    CHECK(iptables::owners(&*node.socket, "net").empty());
  }
}

TEST_CASE("an ADD again changes nothing, one with other ports replaces, twice removed is removed") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    iptables::add(&*node.socket, attachment("other", {{9000, 90}}, pod(9)));
    const std::string before = saved();
    iptables::add(&*node.socket, attachment("c1", kThree));
    const std::string first = saved();
    iptables::add(&*node.socket, attachment("c1", kThree));
    CHECK(saved() == first);

    const Attachment changed = attachment("c1", {{8000, 80}, {8443, 443}}, pod(6));
    iptables::add(&*node.socket, changed);
    const std::string second = saved();
    CHECK(!contains(second, "10.1.1.5"));
    CHECK(!contains(second, "8002"));
    CHECK(count(second, "--to-destination 10.1.1.6:443") == 1);
    CHECK(count(second, cat("--dports 8000,8443 -j ", kChain)) == 2);
    CHECK(!iptables::missing(&*node.socket, changed));
    CHECK(iptables::missing(&*node.socket, attachment("c1", kThree)));

    // Without IPv6 now.
    const PodAddresses v4_only{pod().v4, {}};
    iptables::add(&*node.socket, attachment("c1", kThree, v4_only));
    CHECK(!contains(output_of("ip6tables-save"), kChain));

    iptables::remove(&*node.socket, changed.owner);
    CHECK(saved() == before);
    iptables::remove(&*node.socket, changed.owner);
    CHECK(saved() == before);
    CHECK(iptables::missing(&*node.socket, changed));
  }
}

TEST_CASE("rules and chains of others survive, in their places") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    REQUIRE(run("iptables -t nat -N CNI-HOSTPORT-DNAT"));
    for (const char* const chain : {"PREROUTING", "POSTROUTING", "OUTPUT", "CNI-HOSTPORT-DNAT"}) {
      REQUIRE(run(cat("iptables -t nat -A ", chain, " -s 203.0.113.1 -j ACCEPT")));
    }
    REQUIRE(run("iptables -A INPUT -s 203.0.113.1 -j ACCEPT"));
    const std::string canaries = output_of("iptables-save | grep 203");
    iptables::add(&*node.socket, attachment("c1", kThree));
    REQUIRE(run("iptables -t nat -A CNI-HOSTPORT-DNAT -s 203.0.113.2 -j ACCEPT"));
    iptables::add(&*node.socket, attachment("c2", {{9000, 90}}));
    iptables::add(&*node.socket, attachment("c1", {{8000, 80}}));
    CHECK(output_of("iptables-save | grep 203 | grep -v 113.2") == canaries);
    CHECK(output_of("iptables -t nat -S POSTROUTING 1") ==
          "-A POSTROUTING -m comment --comment \"CNI portfwd requiring masquerade\" -j "
          "CNI-HOSTPORT-MASQ\n");
    CHECK(output_of("iptables -S INPUT 1") == "-A INPUT -j CNI-HOSTPORT-GUARD\n");
    iptables::remove(&*node.socket, {"net1", "c1", "eth0"});
    iptables::remove(&*node.socket, {"net1", "c2", "eth0"});
    CHECK(output_of("iptables-save | grep 203 | grep -v 113.2") == canaries);
    CHECK(contains(output_of("iptables-save"), "203.0.113.2"));
    CHECK(!contains(saved(), "CNI-DN"));
  }
}

TEST_CASE("rules in the other iptables are replaced, and removed") {
  for (const char* const variant : kVariants) {
    Node node(variant);
    if (!node.there()) continue;
    const Attachment a = attachment("c1", kThree);
    iptables::add(&*node.socket, a);
    const std::string other = variant == std::string("nft") ? "legacy" : "nft";
    {
      const Tools tools(other);
      if (!tools.there()) continue;
      iptables::add(&*node.socket, a);
      CHECK(contains(saved(), kChain));
      CHECK(!iptables::missing(&*node.socket, a));
    }
    CHECK(!contains(saved(), kChain));
    iptables::remove(&*node.socket, a.owner);
    const Tools tools(other);
    CHECK(!contains(saved(), kChain));
  }
}

TEST_CASE("a refusal leaves nothing of the container in either family") {
  for (const char* const variant : kVariants) {
    for (const bool first : {true, false}) {
      Node node(variant);
      if (!node.there()) continue;
      Attachment a = attachment("c1", kThree);
      (first ? a.options.conditions_v4 : a.options.conditions_v6) = {"--nonsense"};
      CHECK_THROWS_AS(iptables::add(&*node.socket, a), cni::Error);
      CHECK(!contains(saved(), "CNI-DN"));
    }
  }
}

TEST_CASE("nothing there: a DEL leaves no table behind, and without nf_tables it works as well") {
  const Node node("nft");
  NfSocket socket;
  iptables::remove(&socket, {"net1", "c1", "eth0"});
  iptables::remove(nullptr, {"net1", "c1", "eth0"});
  CHECK(output_of("nft list ruleset").empty());
  CHECK(iptables::owners(&socket, "net1").empty());
  CHECK(!plugins::lacks_restore());
}

static const node::TestFile kTests(__FILE__, [](doctest::Context&) { return std::string(); });
