#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_mirred.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "netlink/tc/filter.h"
#include "tests/unit/netlink/any_bytes.h"

namespace tc = netlink::tc;
using netlink::Cidr;
using netlink::Link;
using netlink::Reply;
using netlink::RouteRequest;
using Keys = std::vector<tc::Key>;

namespace {

// The kernel's messages have the form of the requests, so what encode wrote decode must read.
Reply reply(const RouteRequest& request) { return Reply(request.message.bytes()); }
std::optional<tc::FilterState> decoded(const RouteRequest& request) {
  return tc::decode_filter(reply(request));
}

const Link kEth0{.index = 7, .name = "eth0"};
const tc::Redirect kRedirect{.to_link = 9};

Keys keys_to(const char* network) {
  return tc::keys_of(Cidr::parse(network).value(), tc::End::kDestination);
}

unsigned flags(const RouteRequest& request) { return reply(request).flags(); }

constexpr unsigned kCreate = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;

/// A u32 filter as the kernel shows one, with as many actions as there are links to go to.
netlink::Message with_actions(const std::vector<std::pair<int, int>>& links_and_verdicts) {
  tcmsg head{};
  head.tcm_handle = 0x80000800;
  head.tcm_info = 1U << 16 | ::htons(ETH_P_ALL);
  netlink::Message message(RTM_NEWTFILTER, 0, head);
  message.put(TCA_KIND, "u32");
  message.nest(TCA_OPTIONS, [&] {
    tc_u32_sel selector{};
    selector.nkeys = 1;
    std::array<char, sizeof selector + sizeof(tc_u32_key)> bytes{};
    std::memcpy(bytes.data(), &selector, sizeof selector);
    message.put_struct(TCA_U32_SEL, bytes);
    message.nest(TCA_U32_ACT, [&] {
      std::uint16_t order = 1;
      for (const auto& [link, verdict] : links_and_verdicts) {
        tc_mirred parameters{};
        parameters.action = verdict;
        parameters.eaction = TCA_EGRESS_REDIR;
        parameters.ifindex = static_cast<std::uint32_t>(link);
        message.nest(order++, [&] {
          message.put(TCA_ACT_KIND, "mirred");
          message.nest(TCA_ACT_OPTIONS, [&] { message.put_struct(TCA_MIRRED_PARMS, parameters); });
        });
      }
    });
  });
  return message;
}

}  // namespace

TEST_CASE("the keys of an IPv4 network are one word of its destination") {
  CHECK(keys_to("10.1.2.3/32") == Keys{{0x0A010203, 0xFFFFFFFF, 16}});
  CHECK(keys_to("10.1.2.3/8") == Keys{{0x0A000000, 0xFF000000, 16}});
  CHECK(keys_to("192.0.2.129/25") == Keys{{0xC0000280, 0xFFFFFF80, 16}});
  CHECK(keys_to("0.0.0.0/1") == Keys{{0, 0x80000000, 16}});
}

TEST_CASE("the keys of an IPv6 network are the words that its length covers") {
  CHECK(keys_to("2001:db8::/32") == Keys{{0x20010DB8, 0xFFFFFFFF, 24}});
  CHECK(keys_to("2001:db8::/29") == Keys{{0x20010DB8, 0xFFFFFFF8, 24}});
  CHECK(keys_to("2001:db8:1:2::/64") ==
        Keys{{0x20010DB8, 0xFFFFFFFF, 24}, {0x00010002, 0xFFFFFFFF, 28}});
  CHECK(keys_to("2001:db8::1/33") == Keys{{0x20010DB8, 0xFFFFFFFF, 24}, {0, 0x80000000, 28}});
  CHECK(keys_to("2001:db8::1:2/128") == Keys{{0x20010DB8, 0xFFFFFFFF, 24},
                                             {0, 0xFFFFFFFF, 28},
                                             {0, 0xFFFFFFFF, 32},
                                             {0x00010002, 0xFFFFFFFF, 36}});
}

TEST_CASE("the keys of what comes from a network look at its source") {
  const auto keys_from = [](const char* network) {
    return tc::keys_of(Cidr::parse(network).value(), tc::End::kSource);
  };
  CHECK(keys_from("10.1.2.3/8") == Keys{{0x0A000000, 0xFF000000, 12}});
  CHECK(keys_from("2001:db8::1/33") == Keys{{0x20010DB8, 0xFFFFFFFF, 8}, {0, 0x80000000, 12}});
  CHECK(keys_from("::/0") == Keys{{0, 0, 0}});
}

TEST_CASE("a network of length 0 has one key that matches everything") {
  CHECK(keys_to("0.0.0.0/0") == Keys{{0, 0, 0}});
  CHECK(keys_to("::/0") == Keys{{0, 0, 0}});
  CHECK(keys_to("10.0.0.1/0") == Keys{{0, 0, 0}});
}

TEST_CASE("a redirect is read back as it was asked for") {
  const auto request = add(kEth0, kRedirect);
  CHECK(request.operation == "add filter from 'eth0' to link #9");
  CHECK(reply(request).type() == RTM_NEWTFILTER);
  CHECK(flags(request) == (kCreate | NLM_F_EXCL));
  CHECK(flags(replace(kEth0, kRedirect)) == (kCreate | NLM_F_REPLACE));
  const auto seen = decoded(request);
  REQUIRE(seen);
  CHECK(seen->link == 7);
  CHECK(seen->parent == tc::kIngress);
  CHECK(seen->handle == tc::kOwnU32);
  CHECK(seen->priority == 1);
  CHECK(seen->protocol == ETH_P_ALL);
  CHECK(seen->kind == "u32");
  CHECK(seen->keys == Keys{{0, 0, 0}});
  CHECK(seen->mirreds == std::vector<tc::Mirred>{{9, true, TC_ACT_STOLEN}});
  CHECK(seen->redirects_all_to(9));
}

TEST_CASE("a redirect of some packets, a copy and another link's redirect are not this redirect") {
  const auto seen = decoded(add(kEth0, kRedirect)).value();
  CHECK_FALSE(seen.redirects_all_to(8));
  auto other = seen;
  other.keys[0].mask = 1;
  CHECK_FALSE(other.redirects_all_to(9));
  other = seen;
  other.keys.clear();
  CHECK_FALSE(other.redirects_all_to(9));
  other = seen;
  other.mirreds[0].redirect = false;
  CHECK_FALSE(other.redirects_all_to(9));
  other = seen;
  other.mirreds.clear();
  CHECK_FALSE(other.redirects_all_to(9));
  other = seen;
  other.protocol = ETH_P_IP;
  CHECK_FALSE(other.redirects_all_to(9));
  other = seen;
  other.kind = "flower";
  CHECK_FALSE(other.redirects_all_to(9));
}

TEST_CASE("of two actions both are seen, and the first one decides") {
  const auto message = with_actions({{9, TC_ACT_STOLEN}, {10, TC_ACT_OK}});
  const auto seen = tc::decode_filter(Reply(message.bytes()));
  REQUIRE(seen);
  CHECK(seen->mirreds == std::vector<tc::Mirred>{{9, true, TC_ACT_STOLEN}, {10, true, TC_ACT_OK}});
  CHECK(seen->redirects_all_to(9));
  CHECK_FALSE(seen->redirects_all_to(10));
}

TEST_CASE("a filter to a class has its family's protocol and the keys of the network") {
  for (const char* const text : {"10.1.0.0/16", "2001:db8::/48", "0.0.0.0/0", "::/0"}) {
    const Cidr network = Cidr::parse(text).value();
    const tc::ToClass wanted{tc::handle(1), tc::handle(1, 0x30), 16, network};
    const auto seen = decoded(add(kEth0, wanted));
    REQUIRE(seen);
    CHECK(seen->parent == tc::handle(1));
    CHECK(seen->flow == tc::handle(1, 0x30));
    CHECK(seen->priority == 16);
    CHECK(seen->protocol == (network.ip.is_v4() ? ETH_P_IP : ETH_P_IPV6));
    CHECK(seen->keys == tc::keys_of(network, tc::End::kDestination));
    CHECK(seen->mirreds.empty());
  }
  CHECK(
      add(kEth0, tc::ToClass{tc::handle(1), tc::handle(1, 2), 1, Cidr::parse("10.0.0.0/8").value()})
          .operation == "add filter 10.0.0.0/8 to class 1:2 of 'eth0'");
}

TEST_CASE("a program is asked for by its descriptor and a name") {
  const tc::Program wanted{.fd = 5, .name = "edt"};
  const auto request = replace(kEth0, wanted);
  CHECK(request.operation == "replace program 'edt' of 'eth0'");
  CHECK(flags(request) == (kCreate | NLM_F_REPLACE));
  CHECK(flags(add(kEth0, wanted)) == (kCreate | NLM_F_EXCL));
  const auto seen = decoded(request);
  REQUIRE(seen);
  CHECK(seen->kind == "bpf");
  CHECK(seen->parent == tc::kEgress);
  CHECK(seen->handle == tc::Handle{1});
  CHECK(seen->protocol == ETH_P_ALL);
  CHECK(seen->program == "edt");
  CHECK(seen->direct_action);
  const auto options = reply(request).attributes(sizeof(tcmsg)).nested(TCA_OPTIONS);
  CHECK(options.find(TCA_BPF_FD).u32() == 5);
}

TEST_CASE("filters are removed by priority, or all of a parent, and may be gone") {
  const auto some = remove(kEth0, tc::FilterGroup{.parent = tc::kEgress, .priority = 3});
  CHECK(reply(some).type() == RTM_DELTFILTER);
  CHECK(reply(some).fixed<tcmsg>().tcm_info == 3U << 16);
  CHECK(reply(some).fixed<tcmsg>().tcm_parent == 0xFFFFFFF3);
  CHECK(some.tolerated == std::vector<int>{ENOENT, EINVAL, ENODEV});
  CHECK(reply(remove(kEth0, tc::FilterGroup{})).fixed<tcmsg>().tcm_info == 0);
}

TEST_CASE("priorities and tables of u32 are no filters") {
  tcmsg head{};
  netlink::Message priority(RTM_NEWTFILTER, 0, head);
  priority.put(TCA_KIND, "u32");
  CHECK_FALSE(tc::decode_filter(Reply(priority.bytes())));
  head.tcm_handle = 0x80000000;
  netlink::Message table(RTM_NEWTFILTER, 0, head);
  table.put(TCA_KIND, "u32");
  table.nest(TCA_OPTIONS, [&] { table.put_u32(TCA_U32_DIVISOR, 1); });
  CHECK_FALSE(tc::decode_filter(Reply(table.bytes())));
}

TEST_CASE("a filter of a kind that is not made here is seen by its name") {
  tcmsg head{};
  head.tcm_handle = 1;
  netlink::Message message(RTM_NEWTFILTER, 0, head);
  message.put(TCA_KIND, "matchall");
  message.nest(TCA_OPTIONS, [&] { message.put_u32(1, 2); });
  const auto seen = tc::decode_filter(Reply(message.bytes()));
  REQUIRE(seen);
  CHECK(seen->kind == "matchall");
  CHECK_FALSE(seen->redirects_all_to(0));
}

TEST_CASE("any bytes are harmless as a filter") {
  const auto decode = [](const Reply& bytes) { tc::decode_filter(bytes); };
  const tc::ToClass to_class{tc::handle(1), tc::handle(1, 2), 1,
                             Cidr::parse("2001:db8::1/128").value()};
  harmless_for_any_bytes(add(kEth0, kRedirect).message, decode);
  harmless_for_any_bytes(add(kEth0, to_class).message, decode);
  harmless_for_any_bytes(add(kEth0, tc::Program{.fd = 3, .name = "edt"}).message, decode);
  harmless_for_any_bytes(with_actions({{9, 0}, {10, 0}}), decode);
}
