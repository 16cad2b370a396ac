#include "plugins/portmap/iptables/lost_claims.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "netlink/nf/match.h"
#include "netlink/route/socket.h"
#include "plugins/common/firewall/iptables_restore.h"
#include "plugins/common/firewall/xt_tables.h"
#include "plugins/portmap/iptables/chains.h"
#include "plugins/portmap/port_claims.h"

namespace portmap::iptables {

namespace {

namespace nf = netlink::nf;
using plugins::xt::nat;
using plugins::xt::Tables;

/// The attachments whose host veth has a peer, by their tags. A comment of iptables names no
/// interface: all that a tag names are tried.
class Living {
 public:
  Living() {
    netlink::RouteSocket node;
    for (const netlink::Link& link : node.links_of_kind("veth")) {
      const std::string tag = cni::OwnerTag::prefix_in(link.alias);
      if (tag.empty() || !link.peer_nsid || !node.has_namespace(*link.peer_nsid)) continue;
      tags_.insert(tag);
      ifnames_.insert(cni::OwnerTag::ifname_in(link.alias));
    }
  }
  std::vector<Owner> of(const Owner& container) const {
    std::vector<Owner> out;
    for (const std::string& ifname : ifnames_) {
      const cni::OwnerTag tag(container.network, container.container_id, ifname);
      if (!tags_.contains(tag.prefix())) continue;
      out.push_back({container.network, container.container_id, ifname});
    }
    return out;
  }

 private:
  std::set<std::string> tags_, ifnames_;
};

std::string value_of(const cni::Words& rule, std::string_view option) {
  const auto at = std::ranges::find(rule, option);
  return at == rule.end() || at + 1 == rule.end() ? "" : *(at + 1);
}

// The port of a rule that redirects or marks, as match_of() and the reference plugin write it.
std::optional<Key> key_of(Family family, const cni::Words& rule) {
  const auto protocol = protocol_from(value_of(rule, "-p"));
  const std::string port = value_of(rule, "--dport"), address = value_of(rule, "-d");
  Key out{.family = family};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (!protocol || error != std::errc() || end != port.data() + port.size()) return std::nullopt;
  out.protocol = *protocol;
  if (address.empty()) return out;
  const auto cidr = Cidr::parse(address);
  if (!cidr) return std::nullopt;
  out.address = cidr->ip;
  return out;
}

using Claimed = std::vector<std::pair<Key, Owner>>;

// The owners of the chains, without interface, in the order of the jumps.
std::vector<Owner> owners_in(Tables& tables, Family family) {
  std::vector<Owner> out;
  std::set<std::string> seen;  // a jump for each protocol and for 15 ports
  for (const nf::Rule& rule : tables.rules(nat(family, kDnatChain))) {
    Owner container = owner_in(nf::xt_comment_of(rule.exprs));
    const std::string chain = nf::target_of(rule.exprs);
    if (container.container_id.empty() || chain != chain_of(container)) continue;
    if (seen.insert(chain).second) out.push_back(std::move(container));
  }
  return out;
}

void add_claims(Tables& tables, Family family, const Living& living, Claimed& out) {
  for (const Owner& container : owners_in(tables, family)) {
    const auto owners = living.of(container);
    if (owners.empty()) continue;
    for (const cni::Words& words : tables.saved_rules(nat(family, chain_of(container)))) {
      const auto key = value_of(words, "-j") == "DNAT" ? key_of(family, words) : std::nullopt;
      if (key) out.emplace_back(*key, owners.front());
    }
  }
}

std::string release_text(const Lost& lost, Family family, Tables tables) {
  if (!tables.has_chain(nat(family, kDnatChain))) return {};
  std::string out;
  for (const Owner& container : owners_in(tables, family)) {
    std::set<Key> keys;
    for (const auto& [key, tag] : lost) {
      if (tag.container() == container.container_hash()) keys.insert(key);
    }
    if (keys.empty()) continue;
    for (const cni::Words& words : tables.saved_rules(nat(family, chain_of(container)))) {
      const auto key = key_of(family, words);
      if (key && keys.contains(*key))
        out += cni::cat("-D ", chain_of(container), plugins::xt::in_quotes(words), "\n");
    }
  }
  return out.empty() ? out : cni::cat("*nat\n", out, "COMMIT\n");
}

}  // namespace

void restore_claims(nf::NfSocket* socket, const StateDir& state) {
  Claimed all;
  std::optional<Living> living;
  for (const auto variant : cni::kXtablesVariants) {
    Tables tables(socket, variant);
    for (const Family family : netlink::kFamilies) {
      if (!tables.has_chain(nat(family, kDnatChain))) continue;
      if (!living) living.emplace();
      add_claims(tables, family, *living, all);
    }
  }
  PortClaims(state).make(all);
}

void release_lost(const Context& context, const Lost& lost) {
  if (lost.empty()) return;
  for (const auto variant : cni::kXtablesVariants) {
    for (const Family family : netlink::kFamilies) {
      const auto make = [&] { return release_text(lost, family, Tables(context.socket, variant)); };
      if (make().empty()) continue;
      plugins::restore_planned(plugins::require_restore_of(variant, family, "remove hostPorts"),
                               make);
    }
  }
  for (const auto& [key, tag] : lost) PortClaims(*context.state).release(key, tag);
}

}  // namespace portmap::iptables
