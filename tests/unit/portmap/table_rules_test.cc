#include "plugins/portmap/table_rules.h"

#include <doctest/doctest.h>

#include <string>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"

using netlink::Family;
using portmap::Options;
using portmap::nft::chains_of;
using portmap::nft::Layout;
using portmap::nft::StaticChain;
using portmap::nft::Summary;

namespace {

std::string text_of(const Layout& layout) {
  std::string out;
  for (const StaticChain& chain : chains_of(layout)) {
    out += cni::cat(chain.name, ":\n");
    for (const auto& rule : chain.rules) {
      for (const auto& expr : rule) out += netlink::nf::text(expr);
      out += '\n';
    }
  }
  return out;
}

}  // namespace

TEST_CASE("rules that change have another version") {
  const Options options;
  std::string all;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    for (const bool by_link : {false, true}) {
      all += text_of({family, options, {16, 24}, by_link});
    }
  }
  const std::string version = Summary(Layout{Family::kIpv4, options}).str().substr(0, 7);
  // If only the second one is different: increase kVersion in table_rules.cc.
  CHECK(cni::cat(version, ": ", cni::sha512_hex(all, 16)) == "rules 1: a3d83f6d3df3e192");
}

TEST_CASE("a summary has prefix lengths, and how often each chain is used") {
  const Options options;
  const Summary summary(Layout{Family::kIpv4, options, {16, 24}});
  CHECK(summary.str() == "rules 1 /16 /24 guard 2 hostports 10 output 3 prerouting 3");
  const auto read = Summary::parse(summary.str());
  REQUIRE(read);
  CHECK(read->prefixes == std::set<unsigned>{16, 24});
  CHECK(read->uses == summary.uses);
  CHECK(Summary(Layout{Family::kIpv6, options}).str() ==
        "rules 1 hostports 7 output 1 prerouting 1");
}

TEST_CASE("what is no summary") {
  for (const std::string text :
       {"", "rules", "rules 0 guard 2", "rules 10 guard 2", "rules 1 guard", "rules 1 guard x",
        "rules 1 guard 2 ", "rules 1 /x guard 2", "rules 1 /24", "rules 1 guard -2", "rules 1,"}) {
    CAPTURE(text);
    CHECK_FALSE(Summary::parse(text));
  }
}
