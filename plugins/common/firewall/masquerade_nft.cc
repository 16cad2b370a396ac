#include "plugins/common/firewall/masquerade_nft.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include <algorithm>
#include <map>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "netlink/nf/match.h"
#include "netlink/types/error.h"
#include "plugins/common/firewall/nft_tool.h"
#include "plugins/common/firewall/pod_elements.h"
#include "plugins/names/tables.h"

namespace plugins::nft {

namespace {

namespace nf = netlink::nf;

using netlink::cat;
using netlink::Cidr;
using netlink::Family;
using netlink::Ip;
using netlink::kFamilies;

constexpr const char* kTable = names::kMasqueradeTable;
constexpr const char* kEarlierTable = "cni_plugins_masquerade";
constexpr const char* kPostrouting = "postrouting";
// The first chain that has source NAT for a connection decides. iptables and most others have 100
// (NF_IP_PRI_NAT_SRC), where the chain that was made last is the first one: who has rules for pods
// is asked before us.
constexpr std::int32_t kPriority = 150;

nf::ChainId chain(std::string name) { return {nf::TableFamily::kInet, kTable, std::move(name)}; }

const PodSets& maps() {
  static const PodSets sets{{nf::TableFamily::kInet, kTable, "pods4"},
                            {nf::TableFamily::kInet, kTable, "pods6"},
                            nf::KeyType{nf::Type::kVerdict}};
  return sets;
}
const nf::SetId& pods(Family family) { return maps().of(family); }

bool is_host(const Cidr& address) { return address.prefix == address.ip.bits(); }

constexpr std::string_view kChainPrefix = "masq_";
constexpr std::string_view kSetPrefix = "except_";
constexpr std::size_t kHashLength = 16;

/// How the addresses of a subnet are masqueraded.
struct SubnetChain {
  Cidr address;                ///< one of them
  std::vector<Cidr> except{};  ///< of its family, sorted

  SubnetChain(const Masquerade& m, const Cidr& one) : address(one) {
    std::ranges::copy_if(m.except, std::back_inserter(except),
                         [&](const Cidr& cidr) { return cidr.ip.family() == one.ip.family(); });
    std::ranges::sort(except);
  }

  // "10.1.0.0/24"; nft takes no colon in a name. Addresses without a subnet share a chain.
  std::string suffix() const {
    const bool v4 = address.ip.is_v4();
    std::string out = is_host(address) ? (v4 ? "hosts4" : "hosts6") : address.network().str();
    std::ranges::replace(out, ':', '_');
    if (except.empty()) return out;
    std::string list;
    for (const Cidr& one : except) list += one.str() + ' ';
    return cat(out, "_", cni::sha512_hex(list, kHashLength));
  }
  std::string chain() const { return cat(kChainPrefix, suffix()); }
  nf::Set set() const {
    return {.id = {nf::TableFamily::kInet, kTable, cat(kSetPrefix, suffix())},
            .key = {nf::KeyType::address(address.ip.family())},
            .intervals = true};
  }
};

// The set of a chain with exceptions; empty: the chain has none.
std::string set_asked_by(const nf::Rule& rule) {
  for (const nf::Expr& expr : rule.exprs) {
    const auto* const lookup = std::get_if<nf::Lookup>(&expr);
    if (lookup != nullptr && lookup->set.starts_with(kSetPrefix)) return lookup->set;
  }
  return {};
}

void append(nf::Exprs& exprs, const nf::Exprs& more) {
  exprs.insert(exprs.end(), more.begin(), more.end());
}

// The load of `ip saddr` or `ip daddr` alone.
nf::Expr load(nf::Side side, Family family) {
  return nf::address(side, nf::Compare::kEqual, {Ip::any(family), Ip::any(family).bits()}).front();
}

//   ip saddr vmap @pods4
nf::Exprs lookup(Family family) {
  nf::Exprs exprs = nf::l3_protocol(family);
  exprs.push_back(load(nf::Side::kSource, family));
  exprs.emplace_back(nf::Lookup{.set = pods(family).set, .dreg = NFT_REG_VERDICT});
  return exprs;
}

//   ip daddr != 10.1.0.0/24 ip daddr != 224.0.0.0/4 ip daddr != @except_10.1.0.0/24_ab masquerade
nf::Exprs leaves_subnet(const SubnetChain& subnet) {
  const Cidr& address = subnet.address;
  const auto multicast = Cidr::parse(address.ip.is_v4() ? "224.0.0.0/4" : "ff00::/8");
  nf::Exprs exprs = nf::l3_protocol(address.ip.family());
  if (!is_host(address)) {
    append(exprs, nf::address(nf::Side::kDestination, nf::Compare::kNotEqual, address));
  }
  append(exprs, nf::address(nf::Side::kDestination, nf::Compare::kNotEqual, *multicast));
  if (!subnet.except.empty()) {
    exprs.push_back(load(nf::Side::kDestination, address.ip.family()));
    exprs.emplace_back(nf::Lookup{.set = subnet.set().id.set, .inverted = true});
  }
  exprs.emplace_back(nf::Masq{});
  return exprs;
}

/// By the name of the chain, for the addresses of an attachment.
using SubnetChains = std::map<std::string, SubnetChain>;

SubnetChains subnets_of(const Masquerade& m) {
  SubnetChains out;
  for (const Cidr& address : m.addresses) {
    SubnetChain one(m, address);
    out.emplace(one.chain(), std::move(one));
  }
  return out;
}

bool shows_base(const std::vector<nf::Bytes>& seen) {
  return nf::shows_chain(seen, kPostrouting, {lookup(Family::kIpv4), lookup(Family::kIpv6)});
}

bool has_exceptions(nf::NfSocket& socket, const SubnetChain& subnet) {
  auto seen = socket.all_elements(subnet.set().id);
  std::ranges::sort(seen, {}, [](const nf::Element& one) { return one.key; });
  return seen == nf::intervals_of(subnet.except);
}

bool shows(nf::NfSocket& socket, const std::vector<nf::Bytes>& seen, const SubnetChain& subnet) {
  if (!nf::shows_chain(seen, subnet.chain(), {leaves_subnet(subnet)})) return false;
  return subnet.except.empty() || has_exceptions(socket, subnet);
}

std::vector<nf::Bytes> seen_rules(nf::NfSocket& socket) {
  return socket.raw_table_rules(nf::TableFamily::kInet, kTable);
}

cni::OwnerTag tag_of(const Masquerade& m) { return m.key.owner_tag(); }

nf::Element element_of(const Masquerade& m, const Cidr& address) {
  return {nf::value_of(address.ip), {}, tag_of(m).text, nf::go_to(SubnetChain(m, address).chain())};
}

std::vector<Ip> addresses_of(const Masquerade& m) {
  std::vector<Ip> out;
  for (const Cidr& address : m.addresses) out.push_back(address.ip);
  return out;
}

std::vector<nf::Element> elements_of(const Masquerade& m) {
  std::vector<nf::Element> out;
  for (const Cidr& address : m.addresses) out.push_back(element_of(m, address));
  return out;
}

void plan_base(nf::Batch& batch) {
  batch.add(nf::Table{nf::TableFamily::kInet, kTable, "Masquerading of pods"});
  for (const Family family : kFamilies) {
    batch.add(
        nf::Set{pods(family), {nf::KeyType::address(family)}, nf::KeyType{nf::Type::kVerdict}});
  }
  const nf::ChainId id = chain(kPostrouting);
  batch.add(nf::Chain{id, nf::Hook{"nat", NF_INET_POST_ROUTING, kPriority}}).flush(id);
  for (const Family family : kFamilies) batch.add(nf::Rule{id, lookup(family)});
}

// The set is made anew: there may be one that another program has changed.
void plan_subnet(const SubnetChain& subnet, nf::Batch& batch) {
  const nf::ChainId id = chain(subnet.chain());
  batch.add(nf::Chain{id}).flush(id);
  if (!subnet.except.empty()) {
    const nf::Set set = subnet.set();
    batch.add(set).remove(set.id).add(set).add(set.id, nf::intervals_of(subnet.except));
  }
  batch.add(nf::Rule{id, leaves_subnet(subnet)});
}

// What ADD sends before the elements: the table, its maps, and the chains that the subnets need and
// `seen`, the rules of the table, lacks or has otherwise. Flushing in the same transaction is what
// makes any number of concurrent first ADDs end with one set of rules.
nf::Batch plan_chains(nf::NfSocket& socket, const std::vector<nf::Bytes>& seen,
                      const SubnetChains& subnets) {
  nf::Batch batch;
  if (!shows_base(seen)) plan_base(batch);
  for (const auto& [name, subnet] : subnets) {
    if (!shows(socket, seen, subnet)) plan_subnet(subnet, batch);
  }
  return batch;
}

}  // namespace

nf::ChainId earlier_checks() { return {nf::TableFamily::kInet, kEarlierTable, "masq_checks"}; }

bool can_masquerade(nf::NfSocket& socket) {
  return socket.has_chain(chain(kPostrouting)) ||
         socket.accepts(plan_chains(
             socket, {}, subnets_of({.key = {}, .addresses = {*Cidr::parse("192.0.2.1/32")}})));
}

// The text of the reference plugin's transaction (containernetworking/plugins 1.9.1).
void add_earlier(nf::NfSocket& socket, const Masquerade& m) {
  if (has_earlier(socket, m, true)) return;
  const std::string checks = earlier_checks().str();
  const std::string base = cat("inet ", kEarlierTable, " ", kPostrouting);
  std::string text =
      cat("add table inet ", kEarlierTable, "\nadd chain ", checks, "\nadd chain ", base,
          " { type nat hook postrouting priority 100 ; }\nflush chain ", base, "\nadd rule ", base,
          " ip daddr 224.0.0.0/4 return\nadd rule ", base, " ip6 daddr ff00::/8 return\nadd rule ",
          base, " goto ", earlier_checks().chain, "\n");
  for (const nf::Rule& rule : socket.rules(earlier_checks(), {.comment_start = tag_of(m).prefix()}))
    text += cat("delete rule ", checks, " handle ", rule.handle, "\n");
  for (const Cidr& address : m.addresses) {
    const char* const family = address.ip.is_v4() ? "ip" : "ip6";
    text += cat("add rule ", checks, " ", family, " saddr ", address.ip.str(), " ", family,
                " daddr != ", address.network().str(), " masquerade comment \"", tag_of(m).text,
                "\"\n");
  }
  run_nft(text, "the reference plugin's ipMasqBackend \"nftables\" requires the package nftables");
}

bool has_earlier(nf::NfSocket& socket, const Masquerade& m, bool all) {
  const std::string owner = tag_of(m).prefix();
  const auto rules = socket.rules(earlier_checks(), {.comment_start = owner});
  if (!all) return !rules.empty();
  const auto has_rule = [&](const Cidr& address) {
    return std::ranges::any_of(rules, [&](const nf::Rule& rule) {
      return nf::address_of(rule.exprs, nf::Side::kSource, address.ip.family()) ==
             Cidr{address.ip, address.ip.bits()};
    });
  };
  if (!std::ranges::all_of(m.addresses, has_rule)) return false;
  const auto base = socket.table_rules(nf::TableFamily::kInet, kEarlierTable);
  return std::ranges::any_of(base, [](const nf::Rule& rule) {
    return nf::target_of(rule.exprs) == earlier_checks().chain;
  });
}

bool add(nf::NfSocket& socket, const Masquerade& m, bool only_if_able) {
  std::optional seen = seen_rules(socket);
  // Rules there say that the kernel has source NAT.
  if (only_if_able && seen->empty() && !can_masquerade(socket)) return false;
  socket.commit_planned([&](nf::Batch& batch) {
    if (!seen) seen = seen_rules(socket);
    batch = plan_chains(socket, *seen, subnets_of(m));
    seen.reset();  // lost a race: they are others by now
    plan_add_elements(socket, maps(), elements_of(m), batch);
  });
  return true;
}

void plan_remove(nf::NfSocket& socket, const Masquerade& m, nf::Batch& batch) {
  const auto known = m.from_result ? addresses_of(m) : std::vector<Ip>{};
  plan_remove_elements(socket, maps(), tag_of(m).prefix(), known, batch);
}

void plan_remove_earlier(nf::NfSocket& socket, const Masquerade& m, nf::Batch& batch) {
  const std::string owner = tag_of(m).prefix();
  for (const nf::Rule& rule : socket.rules(earlier_checks(), {.comment_start = owner})) {
    batch.remove(rule);
  }
}

void plan_remove_unused(nf::NfSocket& socket, nf::Batch& batch) {
  std::vector<nf::ChainId> ids;
  std::vector<nf::SetId> sets;
  for (const nf::Rule& rule : socket.table_rules(nf::TableFamily::kInet, kTable)) {
    const std::string set = set_asked_by(rule);
    if (set.empty()) continue;
    ids.push_back(rule.chain);
    sets.push_back({nf::TableFamily::kInet, kTable, set});
  }
  if (ids.empty()) return;
  const auto uses = socket.uses_of(ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (uses[i] == 1) batch.remove(ids[i]).remove(sets[i]);  // its rule
  }
}

void plan_gc(nf::NfSocket& socket, cni::Collect& collect, nf::Batch& batch) {
  const auto takes = [&](const std::string& tag) { return collect.takes("masquerading", tag); };
  plan_remove_elements_if(socket, maps(), takes, batch);
  for (const nf::Rule& rule : socket.rules(earlier_checks())) {
    if (takes(rule.comment)) batch.remove(rule);
  }
}

std::optional<std::string> missing_elements(nf::NfSocket& socket, const Masquerade& m) {
  const auto rules = seen_rules(socket);
  const auto differs = [](const std::string& name) {
    return cat("chain '", chain(name).str(), "' is not as it should be");
  };
  if (!shows_base(rules)) return differs(kPostrouting);
  for (const auto& [name, subnet] : subnets_of(m)) {
    if (!shows(socket, rules, subnet)) return differs(name);
  }
  const auto seen = find_elements(socket, maps(), tag_of(m).prefix(), addresses_of(m));
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const Cidr& address = m.addresses[i];
    if (seen[i] == element_of(m, address)) continue;
    return cat("map '", pods(address.ip.family()).str(), "' has no element of the attachment for ",
               address.str());
  }
  return std::nullopt;
}

bool has_elements(nf::NfSocket& socket, const Masquerade& m) {
  const auto seen = find_elements(socket, maps(), tag_of(m).prefix(), addresses_of(m));
  return std::ranges::any_of(seen, [](const auto& one) { return one.has_value(); });
}

std::optional<std::string> missing(nf::NfSocket& socket, const Masquerade& masquerade) {
  auto what = missing_elements(socket, masquerade);
  if (what && masquerade.except.empty() && has_earlier(socket, masquerade, true))
    return std::nullopt;
  return what;
}

}  // namespace plugins::nft
