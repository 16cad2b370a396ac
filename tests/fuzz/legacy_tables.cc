// The tables of the legacy iptables as IPT_SO_GET_ENTRIES gives them. The first four bytes say
// which family, and where the chains begin.
#include <array>

#include "netlink/nf/legacy_forward.h"
#include "plugins/common/xt_text.h"
#include "plugins/common/xtables_legacy.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using fuzz::require;
  if (size < 4) return 0;
  const netlink::Family family =
      (data[0] & 1) == 0 ? netlink::Family::kIpv4 : netlink::Family::kIpv6;
  const std::array<std::size_t, 3> offsets{data[1] * 8U, data[2] * 8U, data[3] * 8U};
  const std::vector<unsigned char> bytes(data + 4, data + size);
  const plugins::LegacyEntries entries{
      bytes, {{offsets[0], "PREROUTING"}, {offsets[1], "OUTPUT"}, {offsets[2], "POSTROUTING"}}};
  const plugins::LegacyTable table = plugins::decode_legacy(family, "nat", entries);
  for (const auto& rule : table.rules) {
    plugins::xt::text_of(rule);
    text(netlink::nf::Change(rule));
  }
  for (const std::string& chain : table.chains) {
    require(table.has(chain), "a chain is there");
    table.of(chain);
  }
  netlink::nf::decode_legacy_forward(family, {bytes, offsets[0], offsets[1]});
  return 0;
}
