#include "plugins/common/xt_text.h"

#include <doctest/doctest.h>
#include <linux/netfilter/nf_tables.h>

using namespace netlink::nf;
using plugins::xt::text_of;

namespace {

std::string text_of_exprs(Exprs exprs) {
  return text_of({.chain = {TableFamily::kIp, "nat", "c"}, .exprs = std::move(exprs)});
}

// The protocol as a field of the IPv4 header, which iptables-nft compared with before 1.8.3.
Exprs protocol_field(Bytes data) {
  return {Payload{NFT_PAYLOAD_NETWORK_HEADER, 9, 1}, Cmp{NFT_CMP_EQ, std::move(data)}};
}

}  // namespace

TEST_CASE("a protocol that is compared with nothing is unknown") {
  CHECK(text_of_exprs(protocol_field({6})) == "-p tcp");
  CHECK(text_of_exprs(protocol_field({})) == "?payload");
  CHECK(text_of_exprs(protocol_field({6, 6})) == "?payload");
}
