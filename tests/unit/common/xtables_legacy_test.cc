#include "plugins/common/xtables_legacy.h"

#include <doctest/doctest.h>
#include <linux/netfilter_ipv4/ip_tables.h>

#include <cstring>
#include <limits>

#include "plugins/common/xt_text.h"

namespace {

// One entry without matches, whose target is a verdict or an offset.
std::vector<unsigned char> entry_with(int verdict) {
  ipt_entry entry{};
  xt_standard_target target{};
  entry.target_offset = sizeof entry;
  entry.next_offset = sizeof entry + sizeof target;
  target.target.u.target_size = sizeof target;
  target.verdict = verdict;
  std::vector<unsigned char> out(entry.next_offset);
  std::memcpy(out.data(), &entry, sizeof entry);
  std::memcpy(out.data() + sizeof entry, &target, sizeof target);
  return out;
}

std::string text_of(const std::vector<unsigned char>& entry) {
  const auto table =
      plugins::decode_legacy(netlink::Family::kIpv4, "nat", {entry, {{0, "PREROUTING"}}});
  REQUIRE(table.rules.size() == 1);
  return plugins::xt::text_of(table.rules[0]);
}

}  // namespace

TEST_CASE("a verdict of a legacy rule is a verdict") {
  CHECK(text_of(entry_with(-2)) == "-j ACCEPT");
  CHECK(text_of(entry_with(XT_RETURN)) == "-j RETURN");
}

TEST_CASE("a verdict that none is has no words") {
  CHECK(text_of(entry_with(std::numeric_limits<int>::min())) == "?verdict");
  CHECK(text_of(entry_with(-1000)) == "?verdict");
}

TEST_CASE("an offset outside of the table is looked at by nobody") {
  auto entry = entry_with(-2);
  const std::uint16_t far = 0xffff;
  std::memcpy(entry.data() + offsetof(ipt_entry, target_offset), &far, sizeof far);
  const auto table = plugins::decode_legacy(netlink::Family::kIpv4, "nat", {entry, {}});
  CHECK(table.rules.empty());
}
