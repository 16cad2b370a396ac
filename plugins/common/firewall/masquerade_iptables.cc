#include "plugins/common/firewall/masquerade_iptables.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "libcni/common/error.h"
#include "netlink/nf/match.h"
#include "plugins/common/firewall/iptables_restore.h"
#include "plugins/common/firewall/xt_tables.h"
#include "plugins/names/chains.h"

namespace plugins::xt {

namespace {

namespace nf = netlink::nf;

using netlink::cat;
using netlink::Cidr;
using netlink::Family;
using netlink::kFamilies;
using Part = ChainState::Part;

std::string chain_of(const Masquerade& m) {
  return names::masquerade_chain(m.key.network, m.key.container_id);
}

std::string comment_start(const std::string& network) {
  return cat("name: \"", network, "\" id: \"");
}

std::string comment_of(const Masquerade& m) {
  return cat(comment_start(m.key.network), m.key.container_id, "\"");
}

Cidr bare(const Cidr& address) { return {address.ip, address.ip.bits()}; }

bool is_masquerade(const nf::Rule& rule) {
  return std::ranges::any_of(rule.exprs, [](const nf::Expr& expr) {
    const auto* const xt = std::get_if<nf::Xt>(&expr);
    return std::holds_alternative<nf::Masq>(expr) ||
           (xt != nullptr && xt->target && xt->name == "MASQUERADE");
  });
}

bool is_accept(const nf::Rule& rule) {
  return !rule.exprs.empty() && rule.exprs.back() == nf::Expr(nf::accept());
}

Part part_of(const nf::Rule& rule, nf::Side side, Family family) {
  return {nf::address_of(rule.exprs, side, family), nf::xt_comment_of(rule.exprs), rule.handle};
}

ChainState seen_in(Tables tables, Family family, const std::string& chain) {
  const nf::ChainId id = nat(family, chain);
  ChainState state{.exists = tables.has_chain(id), .jumps = {}, .accepts = {}};
  if (!state.exists) return state;  // nor can anything jump to it
  const auto own = tables.rules(id);
  for (const nf::Rule& rule : tables.jumps(nat(family, "POSTROUTING"), id, own)) {
    state.jumps.push_back(part_of(rule, nf::Side::kSource, family));
  }
  for (const nf::Rule& rule : own) {
    if (is_masquerade(rule)) state.masquerades = true;
    if (is_accept(rule)) state.accepts.push_back(part_of(rule, nf::Side::kDestination, family));
  }
  return state;
}

ChainState seen_by_nft(nf::NfSocket& socket, Family family, const std::string& chain) {
  return seen_in({&socket, XtablesVariant::kNft}, family, chain);
}

ChainState seen_by_legacy(Family family, const std::string& chain) {
  return seen_in({nullptr, XtablesVariant::kLegacy}, family, chain);
}

// Plugins of long ago matched the source with the subnet's prefix.
bool is_ours(const Part& jump, const Masquerade& m) {
  if (m.addresses.empty()) return true;
  return std::ranges::any_of(m.addresses, [&](const Cidr& address) {
    return jump.address == bare(address) || jump.address == address.network();
  });
}

// Two attachments of a container to one network share the rule that spares their subnet.
bool still_needed(const Cidr& subnet, const std::vector<Part>& other_jumps) {
  return std::ranges::any_of(other_jumps, [&](const Part& jump) {
    return !jump.address || subnet.contains(jump.address->ip);
  });
}

std::string rule_line(std::string_view command, std::string_view match, std::string_view comment,
                      std::string_view target) {
  const std::string why = comment.empty() ? "" : cat(" -m comment --comment ", in_quotes(comment));
  return cat(command, match.empty() ? "" : " ", match, why, " -j ", target, "\n");
}

std::vector<Cidr> addresses_in(const Masquerade& m, Family family) {
  std::vector<Cidr> out;
  for (const Cidr& address : m.addresses) {
    if (address.ip.family() == family) out.push_back(address);
  }
  return out;
}

bool lacks(const std::vector<Part>& parts, const Cidr& address) {
  return std::ranges::none_of(parts, [&](const Part& part) { return part.address == address; });
}

void add_family(nf::NfSocket* socket, Family family, const Masquerade& m) {
  if (addresses_in(m, family).empty()) return;
  const RestoreTool tool =
      cni::during("set up masquerading", [&] { return require_restore(family); });
  const ChainState seen = seen_in({socket, tool.variant}, family, chain_of(m));
  restore(tool, rules_to_add(family, m, seen));
}

void remove_all(nf::NfSocket* socket, const Masquerade& m) {
  if (socket != nullptr) {
    socket->commit_planned([&](nf::Batch& batch) { plan_remove(*socket, m, batch); });
  }
  remove_legacy(m);
}

struct SeenJump {
  std::string chain, comment;
};

std::vector<SeenJump> all_jumps(nf::NfSocket* socket) {
  std::vector<SeenJump> out;
  for (const Family family : kFamilies) {
    for (const auto variant : cni::kXtablesVariants) {
      for (const nf::Rule& rule : Tables(socket, variant).rules(nat(family, "POSTROUTING"))) {
        const auto comment = nf::xt_comment_of(rule.exprs);
        out.push_back({nf::target_of(rule.exprs), comment});
      }
    }
  }
  return out;
}

std::optional<std::string> missing_in(const ChainState& seen, Family family, const Masquerade& m) {
  if (!seen.exists || !seen.masquerades) return cat("chain '", chain_of(m), "' is missing");
  for (const Cidr& address : addresses_in(m, family)) {
    if (lacks(seen.jumps, bare(address)) || lacks(seen.accepts, address.network())) {
      return cat("chain '", chain_of(m), "' has no rule for ", address.str());
    }
  }
  return std::nullopt;
}

}  // namespace

Removal removal_of(const ChainState& seen, const Masquerade& m) {
  Removal out;
  std::vector<Part> others;
  for (const Part& jump : seen.jumps) (is_ours(jump, m) ? out.jumps : others).push_back(jump);
  out.chain = seen.exists && others.empty();
  if (out.chain) return out;
  for (const Part& accept : seen.accepts) {
    const bool ours = std::ranges::any_of(
        m.addresses, [&](const Cidr& address) { return accept.address == address.network(); });
    if (ours && !still_needed(*accept.address, others)) out.accepts.push_back(accept);
  }
  return out;
}

std::array<nf::ChainId, 2> chains_of(const Masquerade& m) {
  return {nat(Family::kIpv4, chain_of(m)), nat(Family::kIpv6, chain_of(m))};
}

std::string rules_to_add(Family family, const Masquerade& m, const ChainState& seen) {
  const std::string chain = chain_of(m);
  const std::string comment = comment_of(m);
  std::string out = "*nat\n";
  if (!seen.exists) out += cat(":", chain, " - [0:0]\n");
  std::set<Cidr> spared;
  for (const Cidr& address : addresses_in(m, family)) {
    if (!lacks(seen.accepts, address.network())) continue;
    if (!spared.insert(address.network()).second) continue;
    // The rule comes before the one that masquerades, which an existing chain has already.
    const std::string command = cat(seen.exists ? "-I " : "-A ", chain);
    out += rule_line(command, cat("-d ", address.network().str()), comment, "ACCEPT");
  }
  const char* const multicast = family == Family::kIpv4 ? "! -d 224.0.0.0/4" : "! -d ff00::/8";
  if (!seen.masquerades) out += rule_line(cat("-A ", chain), multicast, comment, "MASQUERADE");
  for (const Cidr& address : addresses_in(m, family)) {
    if (!lacks(seen.jumps, bare(address))) continue;
    out += rule_line("-A POSTROUTING", cat("-s ", bare(address).str()), comment, chain);
  }
  return out += "COMMIT\n";
}

std::string rules_to_remove(const Masquerade& m, const Removal& removal) {
  const std::string chain = chain_of(m);
  std::string out = "*nat\n";
  for (const Part& jump : removal.jumps) {
    const std::string match = jump.address ? cat("-s ", jump.address->str()) : "";
    out += rule_line("-D POSTROUTING", match, jump.comment, chain);
  }
  for (const Part& accept : removal.accepts) {
    const std::string match = cat("-d ", accept.address->str());
    out += rule_line(cat("-D ", chain), match, accept.comment, "ACCEPT");
  }
  if (removal.chain) out += cat("-F ", chain, "\n-X ", chain, "\n");
  return out += "COMMIT\n";
}

void add(nf::NfSocket* socket, const Masquerade& m) {
  remove_all(socket, m);  // what an ADD that was killed may have left
  try {
    for (const Family family : kFamilies) add_family(socket, family, m);
  } catch (const std::exception&) {
    remove_all(socket, m);
    throw;
  }
}

void restore(nf::NfSocket* socket, const Masquerade& m) {
  for (const Family family : kFamilies) add_family(socket, family, m);
}

void plan_remove(nf::NfSocket& socket, const Masquerade& m, nf::Batch& batch) {
  const std::string chain = chain_of(m);
  for (const Family family : kFamilies) {
    const nf::ChainId id = nat(family, chain);
    const Removal removal = removal_of(seen_by_nft(socket, family, chain), m);
    for (const Part& jump : removal.jumps) {
      batch.remove(nf::Rule{nat(family, "POSTROUTING"), {}, {}, jump.handle});
    }
    for (const Part& accept : removal.accepts) batch.remove(nf::Rule{id, {}, {}, accept.handle});
    if (removal.chain) batch.flush(id).remove(id);
  }
}

void remove_legacy(const Masquerade& m) {
  for (const Family family : kFamilies) {
    const Removal removal = removal_of(seen_by_legacy(family, chain_of(m)), m);
    if (!removal.chain && removal.jumps.empty() && removal.accepts.empty()) continue;
    restore(require_legacy_restore(family, chain_of(m)), rules_to_remove(m, removal));
  }
}

std::vector<Masquerade> stale(nf::NfSocket* socket, const std::string& network,
                              cni::Collect& collect) {
  std::set<std::string> gone;
  for (const SeenJump& jump : all_jumps(socket)) {
    const std::string owner = xt::id_in(jump.comment, comment_start(network));
    if (owner.empty() || jump.chain != chain_of({{network, owner, {}}, {}})) continue;
    if (collect.takes("masquerading by iptables", {network, owner, ""})) gone.insert(owner);
  }
  std::vector<Masquerade> out;
  for (const std::string& owner : gone) out.push_back({{network, owner, {}}, {}});
  return out;
}

bool has(nf::NfSocket* socket, const Masquerade& m) {
  return std::ranges::any_of(kFamilies, [&](Family family) {
    const auto has_jumps = [&](const ChainState& seen) {
      return !removal_of(seen, m).jumps.empty();
    };
    return (socket != nullptr && has_jumps(seen_by_nft(*socket, family, chain_of(m)))) ||
           has_jumps(seen_by_legacy(family, chain_of(m)));
  });
}

std::optional<std::string> missing(nf::NfSocket* socket, const Masquerade& m) {
  std::optional<std::string> why;
  for (const Family family : kFamilies) {
    if (why || addresses_in(m, family).empty()) continue;
    if (socket != nullptr) why = missing_in(seen_by_nft(*socket, family, chain_of(m)), family, m);
    if (why || socket == nullptr) {
      why = missing_in(seen_by_legacy(family, chain_of(m)), family, m);
    }
  }
  return why;
}

}  // namespace plugins::xt
