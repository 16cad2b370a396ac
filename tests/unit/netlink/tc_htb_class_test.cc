#include <doctest/doctest.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include <cerrno>

#include "netlink/tc/htb_class.h"
#include "tests/unit/netlink/any_bytes.h"

namespace tc = netlink::tc;
using netlink::Link;
using netlink::Reply;
using netlink::RouteRequest;

namespace {

Reply reply(const RouteRequest& request) { return Reply(request.message.bytes()); }

const Link kEth0{.index = 7, .name = "eth0"};
const tc::HtbClass kSmall{tc::kRoot, tc::handle(1, 0x30), 1000, 2000, 300, 400};
const tc::HtbClass kBig{tc::kRoot, tc::handle(1, 1), 100000000000, 0x100000000, 1, 2};

tc_htb_opt parameters_of(const RouteRequest& request) {
  const auto options = reply(request).attributes(sizeof(tcmsg)).nested(TCA_OPTIONS);
  REQUIRE(options.find(TCA_HTB_PARMS).value.size() == sizeof(tc_htb_opt));
  return options.find(TCA_HTB_PARMS).as<tc_htb_opt>();
}

}  // namespace

TEST_CASE("a class is read back as it was asked for, with rates of more than 32 bits") {
  for (const tc::HtbClass& wanted : {kSmall, kBig}) {
    const auto request = replace(kEth0, wanted);
    CHECK(reply(request).type() == RTM_NEWTCLASS);
    CHECK(tc::decode_htb_class(reply(request)) == wanted);
    CHECK(reply(request).fixed<tcmsg>().tcm_ifindex == 7);
  }
  CHECK(parameters_of(replace(kEth0, kBig)).rate.rate == 0xFFFFFFFF);
  CHECK(replace(kEth0, kSmall).operation == "replace class 1:30 of 'eth0'");
}

TEST_CASE("the share of a class is as large as the kernel takes without a warning") {
  const auto quantum = [](std::uint64_t rate) {
    tc::HtbClass wanted = kSmall;
    wanted.rate = rate;
    return parameters_of(replace(kEth0, wanted)).quantum;
  };
  CHECK(quantum(1) == 1000);
  CHECK(quantum(50000) == 5000);
  CHECK(quantum(100000000000) == 200000);
}

TEST_CASE("a class that is gone may be removed again") {
  const auto request = remove(kEth0, kSmall);
  CHECK(reply(request).type() == RTM_DELTCLASS);
  CHECK(reply(request).fixed<tcmsg>().tcm_handle == 0x00010030);
  CHECK(request.tolerated == std::vector<int>{ENOENT, EINVAL, ENODEV});
}

TEST_CASE("the class of another qdisc is none of HTB") {
  netlink::Message message(RTM_NEWTCLASS, 0, tcmsg{});
  CHECK_FALSE(tc::decode_htb_class(Reply(message.bytes())));
  message.put(TCA_KIND, "tbf");
  CHECK_FALSE(tc::decode_htb_class(Reply(message.bytes())));
}

TEST_CASE("any bytes are harmless as a class") {
  harmless_for_any_bytes(replace(kEth0, kBig).message,
                         [](const Reply& bytes) { tc::decode_htb_class(bytes); });
}
