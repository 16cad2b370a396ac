#include <doctest/doctest.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "netlink/tc/qdisc.h"
#include "tests/unit/netlink/any_bytes.h"

namespace tc = netlink::tc;
using netlink::Link;
using netlink::Reply;
using netlink::RouteRequest;
using namespace std::chrono_literals;

namespace {

// The kernel's messages have the form of the requests, so what encode wrote decode must read.
Reply reply(const RouteRequest& request) { return Reply(request.message.bytes()); }

const Link kEth0{.index = 7, .name = "eth0"};
const tc::Qdisc kHooks[] = {{tc::kHook, tc::kHookHandle, tc::Ingress{}},
                            {tc::kHook, tc::kHookHandle, tc::Clsact{}}};

tc::Qdisc root(const tc::Kind& kind) { return {tc::kRoot, tc::handle(1), kind}; }

const tc::Kind kKinds[] = {
    tc::Tbf{1000, 2000, 3000},
    tc::Tbf{1000, 2000, 3000, 1514},
    tc::Tbf{0x100000000, 2000, 3000, 65550},
    tc::Htb{0x30},
    tc::Fifo{12345},
    tc::FqCodel{5ms, 100ms, 1024, 64, 1514, 1 << 20, true},
    tc::Fq{1000, 100, 2s, true},
    tc::Ingress{},
    tc::Clsact{},
};

/// TCA_OPTIONS; nothing where there is none.
std::optional<netlink::Attributes> options_of(const RouteRequest& request) {
  const auto found = reply(request).attributes(sizeof(tcmsg)).find(TCA_OPTIONS);
  if (found.type == 0) return std::nullopt;
  return found.nested();
}

/// A struct that is an option of its own.
template <class T>
std::optional<T> option(const RouteRequest& request, std::uint16_t wanted) {
  const auto options = options_of(request);
  REQUIRE(options);
  const auto found = options->find(wanted);
  if (found.type == 0) return std::nullopt;
  REQUIRE(found.value.size() == sizeof(T));
  return found.as<T>();
}

}  // namespace

TEST_CASE("every kind is read back as it was asked for") {
  for (const tc::Kind& kind : kKinds) {
    CAPTURE(tc::name(kind));
    for (const auto& request : {add(kEth0, root(kind)), replace(kEth0, root(kind))}) {
      const auto seen = tc::decode_qdisc(reply(request));
      CHECK(seen.link == 7);
      CHECK(seen.parent == tc::kRoot);
      CHECK(seen.handle == tc::handle(1));
      CHECK(seen.kind == tc::name(kind));
      CHECK(seen.options == kind);
    }
  }
}

TEST_CASE("the flags say whether one may be there already") {
  const auto flags = [](const RouteRequest& request) { return reply(request).flags(); };
  constexpr unsigned kBase = NLM_F_REQUEST | NLM_F_ACK;
  const auto added = add(kEth0, root(tc::Tbf{}));
  CHECK(reply(added).type() == RTM_NEWQDISC);
  CHECK(flags(added) == (kBase | NLM_F_CREATE | NLM_F_EXCL));
  CHECK(flags(replace(kEth0, root(tc::Tbf{}))) == (kBase | NLM_F_CREATE | NLM_F_REPLACE));
  const auto removed = remove(kEth0, root(tc::Tbf{}));
  CHECK(reply(removed).type() == RTM_DELQDISC);
  CHECK(flags(removed) == kBase);
  CHECK(removed.tolerated == std::vector<int>{ENOENT, EINVAL, ENODEV});
  CHECK(added.tolerated.empty());
}

TEST_CASE("what is removed has to be of the kind and handle") {
  const auto request = remove(kEth0, root(tc::Tbf{1000, 2000, 3000}));
  const auto seen = tc::decode_qdisc(reply(request));
  CHECK(seen.kind == "tbf");
  CHECK(seen.handle == tc::handle(1));
  CHECK(seen.parent == tc::kRoot);
  CHECK_FALSE(options_of(request));
}

TEST_CASE("operations say what is done to which link") {
  CHECK(add(kEth0, root(tc::Tbf{})).operation == "add qdisc tbf 1: of 'eth0'");
  CHECK(replace(kEth0, root(tc::Fq{})).operation == "replace qdisc fq 1: of 'eth0'");
  CHECK(remove(kEth0, kHooks[0]).operation == "remove qdisc ingress ffff: of 'eth0'");
}

TEST_CASE("a token bucket of less than 2^32 bytes/s has no second rate") {
  for (const std::uint64_t rate : {1ULL, 0xFFFFFFFFULL}) {
    const auto request = add(kEth0, root(tc::Tbf{rate, 2000, 3000}));
    const auto parameters = option<tc_tbf_qopt>(request, TCA_TBF_PARMS);
    REQUIRE(parameters);
    CHECK(parameters->rate.rate == rate);
    CHECK(parameters->rate.linklayer == TC_LINKLAYER_ETHERNET);
    CHECK(parameters->buffer == 2000);
    CHECK(parameters->limit == 3000);
    CHECK(parameters->peakrate.rate == 0);
    CHECK(parameters->mtu == 0);
    CHECK_FALSE(option<std::uint64_t>(request, TCA_TBF_RATE64));
  }
}

TEST_CASE("a token bucket of more has the most of 32 bits and the whole") {
  const auto request = add(kEth0, root(tc::Tbf{0x100000000, 1, 2}));
  CHECK(option<tc_tbf_qopt>(request, TCA_TBF_PARMS)->rate.rate == 0xFFFFFFFF);
  CHECK(option<std::uint64_t>(request, TCA_TBF_RATE64) == 0x100000000);
}

TEST_CASE("what cuts large packets up is a peak rate that takes no time for them") {
  const auto request = add(kEth0, root(tc::Tbf{1000, 2000, 3000, 1514}));
  const auto parameters = option<tc_tbf_qopt>(request, TCA_TBF_PARMS);
  REQUIRE(parameters);
  CHECK(parameters->rate.rate == 1000);
  CHECK(parameters->peakrate.rate == 0xFFFFFFFF);
  CHECK(parameters->peakrate.linklayer == TC_LINKLAYER_ETHERNET);
  CHECK(option<std::uint64_t>(request, TCA_TBF_PRATE64) == 1514ULL * 2'000'000'000);
  CHECK(option<std::uint32_t>(request, TCA_TBF_PBURST) == 1514);
  const auto without = add(kEth0, root(tc::Tbf{1000, 2000, 3000}));
  CHECK_FALSE(option<std::uint64_t>(without, TCA_TBF_PRATE64));
  CHECK_FALSE(option<std::uint32_t>(without, TCA_TBF_PBURST));
}

TEST_CASE("a bucket becomes another that holds what may wait in it") {
  const tc::Tbf there{.rate = 1000000, .buffer = 156250 /* 10 ms */};
  tc::Tbf wanted = there;
  CHECK(tc::can_become(there, wanted));
  wanted.limit = 1;
  CHECK(tc::can_become(there, wanted));
  wanted.buffer -= 1;
  CHECK_FALSE(tc::can_become(there, wanted));
  wanted.rate *= 2;
  CHECK(tc::can_become(there, wanted));
  wanted.buffer = 156250 / 2;
  CHECK(tc::can_become(there, wanted));
  wanted.largest = 1514;  // what waits there already is not cut up
  wanted.rate -= 1;
  CHECK_FALSE(tc::can_become(there, wanted));
  const tc::Tbf cutting{.rate = 1000000, .buffer = 156250, .largest = 1514};
  CHECK(tc::can_become(cutting, {.rate = 1000000, .buffer = 15625 * 2}));
  CHECK_FALSE(tc::can_become(cutting, {.rate = 1000000, .buffer = 15625}));
  CHECK(tc::can_become({.rate = ~0ULL, .buffer = ~0U}, {.rate = ~0ULL, .buffer = ~0U}));
}

TEST_CASE("an HTB is of the version that kernels take") {
  const auto parameters = option<tc_htb_glob>(add(kEth0, root(tc::Htb{0x30})), TCA_HTB_INIT);
  REQUIRE(parameters);
  CHECK(parameters->version == 3);
  CHECK(parameters->rate2quantum == 10);
  CHECK(parameters->defcls == 0x30);
}

TEST_CASE("what is absent is not sent, so that the kernel's default or what was there stays") {
  for (const tc::Kind& kind : {tc::Kind(tc::FqCodel{}), tc::Kind(tc::Fq{})}) {
    const auto options = options_of(replace(kEth0, root(kind)));
    CHECK((!options || options->bytes().empty()));
  }
  for (const tc::Qdisc& hook : kHooks) CHECK_FALSE(options_of(replace(kEth0, hook)));
}

TEST_CASE("a time that does not fit is the most that does") {
  const auto request =
      add(kEth0, root(tc::Fq{.horizon = std::chrono::hours(2), .horizon_drop = {}}));
  CHECK(option<std::uint32_t>(request, TCA_FQ_HORIZON) == 0xFFFFFFFF);
  const auto negative = add(kEth0, root(tc::FqCodel{.target = -1us}));
  CHECK(option<std::uint32_t>(negative, TCA_FQ_CODEL_TARGET) == 0);
}

TEST_CASE("a kind that is not made here has a name only") {
  netlink::Message message(RTM_NEWQDISC, 0, tcmsg{});
  message.put(TCA_KIND, "pfifo_fast");
  message.put(TCA_OPTIONS, "xyz");
  const auto seen = tc::decode_qdisc(Reply(message.bytes()));
  CHECK(seen.kind == "pfifo_fast");
  CHECK_FALSE(seen.options);
  CHECK(seen.as<tc::Tbf>() == nullptr);
}

TEST_CASE("a qdisc that says nothing of itself has no options") {
  netlink::Message message(RTM_NEWQDISC, 0, tcmsg{});
  CHECK_FALSE(tc::decode_qdisc(Reply(message.bytes())).options);
  message.put(TCA_KIND, "tbf");
  CHECK(tc::decode_qdisc(Reply(message.bytes())).options == tc::Kind(tc::Tbf{}));
}

TEST_CASE("any bytes are harmless as a qdisc") {
  for (const tc::Kind& kind : kKinds) {
    harmless_for_any_bytes(add(kEth0, root(kind)).message,
                           [](const Reply& bytes) { tc::decode_qdisc(bytes); });
  }
}
