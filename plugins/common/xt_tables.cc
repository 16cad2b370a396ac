#include "plugins/common/xt_tables.h"

namespace plugins::xt {

using netlink::Family;
using netlink::nf::ChainId;
using netlink::nf::Rule;
using netlink::nf::TableFamily;

namespace {

ChainId chain_in(Family family, const char* table, std::string chain) {
  const auto nf_family = family == Family::kIpv4 ? TableFamily::kIp : TableFamily::kIp6;
  return {nf_family, table, std::move(chain)};
}

}  // namespace

ChainId nat(Family family, std::string chain) { return chain_in(family, "nat", std::move(chain)); }
ChainId filter(Family family, std::string chain) {
  return chain_in(family, "filter", std::move(chain));
}
Family family_of(const ChainId& chain) {
  return chain.family == TableFamily::kIp ? Family::kIpv4 : Family::kIpv6;
}

bool Tables::has_chain(const ChainId& chain) {
  if (variant_ == XtablesVariant::kNft) return socket_ != nullptr && socket_->has_chain(chain);
  const auto& table = legacy(chain);
  return table && table->has(chain.chain);
}

std::vector<Rule> Tables::rules(const ChainId& chain) {
  if (variant_ == XtablesVariant::kNft) {
    return socket_ == nullptr ? std::vector<Rule>{} : socket_->rules(chain);
  }
  const auto& table = legacy(chain);
  return table ? table->of(chain.chain) : std::vector<Rule>{};
}

const std::optional<LegacyTable>& Tables::legacy(const ChainId& chain) {
  const auto key = std::pair(chain.family, chain.table);
  const auto found = legacy_.find(key);
  if (found != legacy_.end()) return found->second;
  return legacy_.emplace(key, read_legacy(family_of(chain), chain.table)).first->second;
}

}  // namespace plugins::xt
