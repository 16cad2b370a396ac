#include "plugins/common/firewall/xt_tables.h"

#include <algorithm>
#include <numeric>

#include "libcni/common/error.h"
#include "libcni/plugin/privileges.h"
#include "netlink/nf/legacy_table.h"
#include "netlink/nf/match.h"
#include "plugins/names/chains.h"

namespace plugins {

namespace {

namespace nf = netlink::nf;
using netlink::Family;

}  // namespace

void require_readable_legacy(std::string_view what, const std::string& table) {
  if (netlink::has(netlink::Capability::kNetRaw)) return;
  const auto is_in_use = [&](Family family) { return nf::legacy_in_use(family, table); };
  if (!is_in_use(Family::kIpv4) && !is_in_use(Family::kIpv6)) return;
  cni::require_capabilities(netlink::cat(what, ", which reads the rules of iptables-legacy"),
                            {netlink::Capability::kNetRaw});
}

}  // namespace plugins

namespace plugins::xt {

namespace {

using netlink::Cidr;

nf::ChainId chain_in(Family family, const char* table, std::string chain) {
  const auto nf_family = family == Family::kIpv4 ? nf::TableFamily::kIp : nf::TableFamily::kIp6;
  return {nf_family, table, std::move(chain)};
}

nf::Exprs address_exprs(nf::Side side, nf::Compare compare, const std::string& text) {
  const auto cidr = Cidr::parse(text);
  return cidr ? nf::address(side, compare, *cidr) : nf::Exprs{nf::Unknown{"mask"}};
}

nf::Expr target_expr(const std::string& target) {
  if (target == "ACCEPT") return nf::accept();
  if (target == "MASQUERADE") return nf::Xt{.target = true, .name = target};
  return nf::jump_to(target);
}

// Expressions as iptables-nft writes them, without those that no caller reads.
nf::Exprs exprs_of(const cni::Words& words) {
  nf::Exprs out;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& value = words[i + 1];
    const auto compare =
        i > 0 && words[i - 1] == "!" ? nf::Compare::kNotEqual : nf::Compare::kEqual;
    if (words[i] == "-s" || words[i] == "-d") {
      const nf::Side side = words[i] == "-s" ? nf::Side::kSource : nf::Side::kDestination;
      for (nf::Expr& one : address_exprs(side, compare, value)) out.push_back(std::move(one));
    } else if (words[i] == "--comment") {
      out.emplace_back(nf::Xt{.name = "comment", .comment = value});
    } else if (words[i] == "-j" || words[i] == "-g") {
      out.push_back(target_expr(value));
    } else {
      continue;
    }
    ++i;
  }
  return out;
}

}  // namespace

nf::ChainId nat(Family family, std::string chain) {
  return chain_in(family, "nat", std::move(chain));
}
nf::ChainId filter(Family family, std::string chain) {
  return chain_in(family, "filter", std::move(chain));
}
Family family_of(const nf::ChainId& chain) {
  return chain.family == nf::TableFamily::kIp ? Family::kIpv4 : Family::kIpv6;
}

std::string id_in(const std::string& comment, const std::string& start) {
  if (!comment.starts_with(start) || !comment.ends_with('"')) return {};
  if (comment.size() <= start.size()) return {};
  return comment.substr(start.size(), comment.size() - start.size() - 1);
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out += '"';
}

std::string in_quotes(const cni::Words& words) {
  std::string out;
  for (const std::string& word : words) out += netlink::cat(" ", in_quotes(word));
  return out;
}

bool Tables::has_chain(const nf::ChainId& chain) {
  if (variant_ == XtablesVariant::kNft) return socket_ != nullptr && socket_->has_chain(chain);
  return legacy_mentions(chain, chain.chain) && saved(chain).chains.contains(chain.chain);
}

std::vector<nf::Rule> Tables::rules(const nf::ChainId& chain, const Filter& filter) {
  if (variant_ == XtablesVariant::kNft) {
    return socket_ == nullptr ? std::vector<nf::Rule>{} : socket_->rules(chain, filter);
  }
  std::vector<nf::Rule> out;
  for (const cni::Words& words : saved_rules(chain)) {
    out.push_back({chain, exprs_of(words), {}, 0});
  }
  return out;
}

std::vector<nf::Rule> Tables::jumps(const nf::ChainId& from, const nf::ChainId& to,
                                    const std::vector<nf::Rule>& own) {
  auto out = next_jumps(from, to, own);
  if (!out.empty()) return out;
  out = rules(from);
  std::erase_if(out, [&](const nf::Rule& one) { return nf::target_of(one.exprs) != to.chain; });
  return out;
}

// iptables-restore adds the jumps right after the rules of the chain, so that they have the next
// handles. The kernel counts the jumps: empty if there are others, as after all rules were
// restored.
std::vector<nf::Rule> Tables::next_jumps(const nf::ChainId& from, const nf::ChainId& to,
                                         const std::vector<nf::Rule>& own) {
  constexpr std::size_t kMax = 16;
  if (variant_ != XtablesVariant::kNft || socket_ == nullptr || own.empty()) return {};
  const std::size_t uses = socket_->uses_of({to}).front().value_or(0);
  if (uses <= own.size() || uses - own.size() > kMax) return {};
  std::vector<std::uint64_t> handles(uses - own.size());
  const auto last = std::ranges::max_element(own, {}, &nf::Rule::handle);
  std::iota(handles.begin(), handles.end(), last->handle + 1);
  std::vector<nf::Rule> out;
  for (auto& one : socket_->rules_at(from, handles)) {
    if (!one || nf::target_of(one->exprs) != to.chain) return {};
    out.push_back(*std::move(one));
  }
  return out;
}

std::vector<cni::Words> Tables::saved_rules(const nf::ChainId& chain) {
  const bool any = variant_ == XtablesVariant::kNft ? has_chain(chain)
                                                    : legacy_mentions(chain, names::kChainPrefix);
  std::vector<cni::Words> out;
  if (!any) return out;
  for (const cni::SavedRule& rule : saved(chain).rules) {
    if (rule.chain == chain.chain) out.push_back(rule.words);
  }
  return out;
}

// The kernel returns the whole table each time.
bool Tables::legacy_mentions(const nf::ChainId& chain, std::string_view text) const {
  return saved_.contains({chain.family, chain.table}) ||
         nf::legacy_mentions(family_of(chain), chain.table, text);
}

const cni::SavedTable& Tables::saved(const nf::ChainId& chain) {
  const auto key = std::pair(chain.family, chain.table);
  if (const auto found = saved_.find(key); found != saved_.end()) return found->second;
  auto table = cni::read_saved(family_of(chain), variant_, chain.table);
  if (table) return saved_.emplace(key, std::move(*table)).first->second;
  const bool nft = variant_ == XtablesVariant::kNft;
  throw cni::Error(cni::Code::kInternal,
                   netlink::cat("read table '", chain.table, "' of ",
                                family_of(chain) == Family::kIpv4 ? "iptables-" : "ip6tables-",
                                nft ? "nft: iptables-nft-save" : "legacy: iptables-legacy-save",
                                " is not installed"));
}

}  // namespace plugins::xt
