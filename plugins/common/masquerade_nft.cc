#include "plugins/common/masquerade_nft.h"

#include <linux/netfilter.h>

#include <algorithm>
#include <set>
#include <utility>

#include "libcni/common/hash.h"
#include "netlink/nf/match.h"
#include "netlink/types/error.h"

namespace plugins::nft {

namespace {

using netlink::cat;
using netlink::Cidr;
using netlink::nf::Batch;
using netlink::nf::Chain;
using netlink::nf::ChainId;
using netlink::nf::Compare;
using netlink::nf::Exprs;
using netlink::nf::Hook;
using netlink::nf::NfSocket;
using netlink::nf::Rule;
using netlink::nf::Side;
using netlink::nf::Table;
using netlink::nf::TableFamily;

constexpr const char* kTable = "cni_plugins_masquerade";
// The first chain that has source NAT for a connection decides. iptables and most others have 100
// (NF_IP_PRI_NAT_SRC), where the chain that was made last is the first one: who has rules for pods
// is asked before us.
constexpr std::int32_t kPriority = 150;

ChainId checks() { return {TableFamily::kInet, kTable, "masq_checks"}; }
ChainId postrouting() { return {TableFamily::kInet, kTable, "postrouting_late"}; }
// The reference plugin's own, with priority 100, which a chain keeps as long as it exists. It also
// goes to masq_checks. An ADD of the reference plugin makes it again.
ChainId reference_postrouting() { return {TableFamily::kInet, kTable, "postrouting"}; }

Exprs join(Exprs first, const Exprs& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

//   ip daddr 224.0.0.0/4 return        ip6 daddr ff00::/8 return
Rule skip_multicast(const Cidr& group) {
  Exprs exprs = join(netlink::nf::l3_protocol(group.ip.family()),
                     netlink::nf::address(Side::kDestination, Compare::kEqual, group));
  exprs.emplace_back(netlink::nf::return_verdict());
  return {postrouting(), std::move(exprs)};
}

std::vector<Rule> postrouting_rules() {
  return {skip_multicast(*Cidr::parse("224.0.0.0/4")),
          skip_multicast(*Cidr::parse("ff00::/8")),
          {postrouting(), {netlink::nf::go_to(checks().chain)}}};
}

//   ip saddr 10.1.2.3 ip daddr != 10.1.2.0/24 masquerade comment "..."
Rule address_rule(const Cidr& address, const std::string& comment) {
  const Cidr only{address.ip, address.ip.bits()};
  Exprs exprs = join(netlink::nf::l3_protocol(address.ip.family()),
                     netlink::nf::address(Side::kSource, Compare::kEqual, only));
  exprs =
      join(std::move(exprs), netlink::nf::address(Side::kDestination, Compare::kNotEqual, address));
  exprs.emplace_back(netlink::nf::Masq{});
  return {checks(), std::move(exprs), comment};
}

Batch skeleton() {
  Batch batch;
  batch.add(Table{TableFamily::kInet, kTable,
                  "Masquerading for plugins from github.com/containernetworking/plugins"});
  batch.add(Chain{checks(),
                  {},
                  "Masquerade traffic from certain IPs to any (non-multicast) IP outside their "
                  "subnet"});
  batch.add(Chain{postrouting(), Hook{"nat", NF_INET_POST_ROUTING, kPriority}});
  return batch;
}

cni::OwnerTag tag_of(const Masquerade& m) { return {m.network, m.container_id, m.ifname}; }

// Nothing where one of them is not there, or another attachment's.
std::vector<Rule> known_rules(NfSocket& socket, const std::string& prefix, const Handles& handles) {
  std::vector<Rule> out;
  for (std::optional<Rule>& rule : socket.rules(checks(), handles)) {
    if (!rule || !rule->comment.starts_with(prefix)) return {};
    out.push_back(*std::move(rule));
  }
  return out;
}

bool has_rule(const std::vector<Rule>& seen, const std::string& tag, const Cidr& address) {
  const Rule wanted = address_rule(address, tag);
  return std::any_of(seen.begin(), seen.end(), [&](const Rule& rule) {
    return rule.exprs == wanted.exprs && rule.comment == wanted.comment;
  });
}

BaseChains base_chains(NfSocket& socket) {
  return {socket.rules(postrouting()), socket.has_chain(reference_postrouting())};
}

bool as_wanted(const std::vector<Rule>& seen) {
  const auto wanted = postrouting_rules();
  return std::equal(seen.begin(), seen.end(), wanted.begin(), wanted.end(),
                    [](const Rule& a, const Rule& b) { return a.exprs == b.exprs; });
}

}  // namespace

bool can_masquerade(NfSocket& socket) {
  if (socket.has_chain(postrouting())) return true;
  Batch batch = skeleton();
  batch.add(address_rule(*Cidr::parse("192.0.2.1/32"), ""));
  return socket.accepts(batch);
}

// Flushing in the same transaction is what makes any number of concurrent first ADDs end with one
// set of rules. But to delete a rule, or to add a chain once more, costs 10 ms when the socket is
// closed: only where it is needed. The rule that goes to masq_checks vouches for that chain.
Batch plan_add(const BaseChains& seen, const Masquerade& masquerade) {
  Batch batch;
  if (!as_wanted(seen.postrouting)) {
    batch = skeleton();
    batch.flush(postrouting());
    for (Rule& rule : postrouting_rules()) batch.add(std::move(rule));
  }
  if (seen.has_reference_chain) {
    batch.flush(reference_postrouting()).remove(reference_postrouting());
  }
  const std::string comment = tag_of(masquerade).text;
  for (const Cidr& address : masquerade.addresses) {
    batch.add_and_tell(address_rule(address, comment));
  }
  return batch;
}

bool add(NfSocket& socket, const Masquerade& masquerade, bool only_if_able) {
  std::optional<BaseChains> seen = base_chains(socket);
  // Rules there say that the kernel has source NAT.
  if (only_if_able && seen->postrouting.empty() && !can_masquerade(socket)) return false;
  const auto record = MasqueradeRecord::create(masquerade);
  const bool are_all = record.begin();
  const Handles added = socket.commit_planned([&](Batch& batch) {
    if (!seen) seen = base_chains(socket);
    batch = plan_add(*seen, masquerade);
    seen.reset();  // lost a race: they are others by now
  });
  if (are_all) record.keep(added);
  return true;
}

void restore(NfSocket& socket, const Masquerade& masquerade) {
  const auto record = MasqueradeRecord::create(masquerade);
  record.begin();
  Handles all;
  const Handles added = socket.commit_planned([&](Batch& batch) {
    Masquerade lacking = masquerade;
    const cni::OwnerTag tag = tag_of(masquerade);
    const std::string prefix = tag.prefix();
    const auto seen = socket.rules(checks(), {.comment_start = prefix});
    std::erase_if(lacking.addresses,
                  [&](const Cidr& address) { return has_rule(seen, tag.text, address); });
    batch = plan_add(base_chains(socket), lacking);
    all.clear();
    for (const Rule& rule : seen) all.push_back(rule.handle);
  });
  all.insert(all.end(), added.begin(), added.end());
  record.replace(all);
}

void plan_remove(NfSocket& socket, const Masquerade& m, const Handles& handles, Batch& batch) {
  const std::string prefix = tag_of(m).prefix();
  auto rules = known_rules(socket, prefix, handles);
  if (rules.empty()) {
    NfSocket::Filter filter{.comment_start = prefix};
    if (!m.addresses.empty()) filter.enough = m.addresses.size();
    rules = socket.rules(checks(), filter);
  }
  for (const Rule& rule : rules) batch.remove(rule);
}

void plan_gc(NfSocket& socket, const std::string& network,
             const std::vector<cni::Attachment>& valid, Batch& batch) {
  std::set<std::string> keep;
  for (const auto& a : valid) {
    keep.insert(cni::OwnerTag(network, a.container_id, a.ifname).prefix());
  }
  const cni::OwnerTag any(network, "", "");
  const std::string ours = cat(any.network_hash, "-");
  for (const Rule& rule : socket.rules(checks(), {.comment_start = ours})) {
    if (!keep.contains(rule.comment.substr(0, any.prefix().size()))) batch.remove(rule);
  }
}

std::optional<std::string> missing(NfSocket& socket, const Masquerade& masquerade) {
  if (!as_wanted(socket.rules(postrouting())) &&
      !as_wanted(socket.rules(reference_postrouting()))) {
    return cat("chain '", postrouting().str(), "' is not as it should be");
  }
  const auto seen = socket.rules(checks());
  const std::string tag = tag_of(masquerade).text;
  for (const Cidr& address : masquerade.addresses) {
    if (has_rule(seen, tag, address)) continue;
    return cat("chain '", checks().str(), "' has no rule for ", address.str());
  }
  return std::nullopt;
}

}  // namespace plugins::nft
