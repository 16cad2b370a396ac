#include "plugins/portmap/nftables/rules.h"

#include <doctest/doctest.h>

#include <string>

#include "libcni/common/error.h"

using netlink::Family;
using portmap::Options;
using portmap::nft::chains_of;
using portmap::nft::Layout;

namespace {

// Each chain with the number of its rules, and their comments.
std::string text_of(const Layout& layout) {
  std::string out;
  for (const auto& one : chains_of(layout)) {
    out += cni::cat(out.empty() ? "" : " ", one.chain.id.chain, " ", one.rules.size());
    for (const auto& rule : one.rules) out += rule.comment;
  }
  return out;
}

std::vector<netlink::nf::Bytes> dumped(const Layout& layout, const std::string& comment) {
  std::vector<netlink::nf::Bytes> out;
  for (const auto& one : chains_of(layout)) {
    for (auto rule : one.rules) {
      if (!comment.empty()) rule.comment = comment;
      const auto message = netlink::nf::encode(rule).at(0);
      constexpr std::size_t kHeaders = 20;  // nlmsghdr, nfgenmsg
      const auto& bytes = message.bytes();
      out.emplace_back(bytes.begin() + kHeaders, bytes.end());
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a prefix length has a rule for ports of one address and one for ports of all") {
  const Options options;
  CHECK(text_of({Family::kIpv4, options, {16, 24}}) ==
        "hostports 6/16/24/16/24 prerouting 3 output 3 postrouting 1 guard 2");
  CHECK(text_of({Family::kIpv6, options}) == "hostports 3 prerouting 1 output 1 postrouting 1");
}

TEST_CASE("behind conditions both hooks lead to the one chain that nft fills") {
  Options options;
  options.conditions_v4 = {"ip", "saddr", "192.0.2.1"};
  const auto chains = chains_of({Family::kIpv4, options});
  for (const std::size_t hook : {1U, 2U}) {
    CHECK(chains[hook].rules.back().exprs ==
          netlink::nf::Exprs{netlink::nf::Verdict{-3, "conditions"}});
  }
  CHECK(chains_of({Family::kIpv6, options})[1].rules.back().exprs.size() == 3);
}

TEST_CASE("the prefix lengths of a table are those that comments of its rules name") {
  const Options options;
  const Layout layout{Family::kIpv4, options, {0, 16, 24}};
  using portmap::nft::prefixes_in;
  CHECK(prefixes_in(dumped(layout, ""), Family::kIpv4) == layout.prefixes);
  for (const std::string text : {"24", "/", "/x", "/24 ", "/-1", "/33", "/4294967297"}) {
    CAPTURE(text);
    CHECK(prefixes_in(dumped(layout, text), Family::kIpv4).empty());
  }
}
