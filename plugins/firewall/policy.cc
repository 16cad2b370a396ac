#include "plugins/firewall/policy.h"

#include <net/if.h>

#include <algorithm>
#include <cerrno>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "netlink/route/socket.h"
#include "netlink/types/error.h"
#include "plugins/firewall/table.h"

namespace firewall::nft {

namespace {

namespace nf = netlink::nf;
using cni::OwnerTag;
using netlink::cat;

nf::Bytes key_of(const std::string& link) { return nf::value_of_ifname(link); }
nf::Bytes pair_of(const std::string& link) { return nf::concatenate({key_of(link), key_of(link)}); }

std::string link_in(const nf::Bytes& key) {
  return {key.begin(), std::ranges::find(key, std::uint8_t{0})};
}

// The start of comments of a network's policies, "H1" of its tags.
std::string network_start(const std::string& network) {
  return OwnerTag(network, "", "").network_hash;
}

bool are_of_one_network(const std::string& a, const std::string& b) {
  const auto hash = [](const std::string& text) {
    return text.substr(0, text.find_first_of("-,"));
  };
  return hash(a) == hash(b);
}

// A policy belongs to its network, or to the attachment if the link is removed with its pod.
std::string policy_owner(const std::string& network, const OwnerTag& tag, bool of_pod) {
  if (of_pod) return tag.text;
  constexpr std::size_t kMaxLength = 128;  // of nft's comments
  return cat(tag.network_hash, ", net: ", network).substr(0, kMaxLength);
}

std::optional<nf::Element> find(nf::NfSocket& socket, const nf::SetId& set, const nf::Bytes& key) {
  return socket.elements(set, {key}).front();
}

/// A link's elements in the sets.
struct Seen {
  std::optional<nf::Element> link, pair;

  Policy policy() const {
    if (!link) return Policy::kOpen;
    return pair ? Policy::kSameBridge : Policy::kIsolated;
  }
};

Seen seen_of(nf::NfSocket& socket, const std::string& link) {
  Seen out;
  out.link = find(socket, policy_links(), key_of(link));
  if (out.link) out.pair = find(socket, same_bridge(), pair_of(link));
  return out;
}

// Makes the set have the element, or not have one of its key. Pods of a network that start at once
// may add the same one.
void plan_element(const nf::SetId& set, const std::optional<nf::Element>& seen,
                  const nf::Element& wanted, bool is_wanted, nf::Batch& batch) {
  if (is_wanted ? seen == wanted : !seen) return;
  if (seen) batch.remove(set, {wanted.key});
  if (is_wanted) batch.add(set, {wanted});
}

void plan_link(const Seen& seen, const LinkPolicy& target, nf::Batch& batch) {
  const nf::Element link{.key = key_of(target.link), .comment = target.owner};
  const nf::Element pair{.key = pair_of(target.link), .comment = target.owner};
  plan_element(policy_links(), seen.link, link, target.policy != Policy::kOpen, batch);
  plan_element(same_bridge(), seen.pair, pair, target.policy == Policy::kSameBridge, batch);
}

/// The policy that a network has for a link.
struct Wish {
  Policy policy = Policy::kOpen;
  std::string owner;
};

nf::Element element_of(const std::string& link, const Wish& wish) {
  constexpr std::size_t kLength = 15;  // of a name of a link, which nft prints as text
  const auto policy = nf::value_of_ifname(name_of(wish.policy));
  const auto network = nf::value_of_ifname(wish.owner.substr(0, kLength));
  return {.key = nf::concatenate({key_of(link), policy, network}), .comment = wish.owner};
}

Wish wish_of(const std::string& link, const nf::Element& one) {
  const Wish strict{Policy::kIsolated, one.comment};
  return one == element_of(link, strict) ? strict : Wish{Policy::kSameBridge, one.comment};
}

// The strictest of the networks that share a link decides; the others are kept for when its network
// loosens it. Changes wanted to the one that decides.
void plan_shared(nf::NfSocket& socket, const Seen& seen, LinkPolicy& wanted, nf::Batch& batch) {
  std::vector<Wish> wishes;
  if (seen.link) wishes.push_back({seen.policy(), seen.link->comment});
  auto before = socket.all_elements(other_policies());
  std::erase_if(before, [&](const nf::Element& one) { return link_in(one.key) != wanted.link; });
  for (const nf::Element& one : before) wishes.push_back(wish_of(wanted.link, one));
  std::erase_if(wishes,
                [&](const Wish& one) { return are_of_one_network(one.owner, wanted.owner); });
  wishes.push_back({wanted.policy, wanted.owner});
  const auto first = std::ranges::max_element(
      wishes, [](const Wish& a, const Wish& b) { return a.policy < b.policy; });
  wanted.policy = first->policy;
  wanted.owner = first->owner;
  wishes.erase(first);
  for (const Wish& wish : wishes) {
    if (wish.policy == Policy::kOpen) continue;
    const nf::Element element = element_of(wanted.link, wish);
    if (std::erase(before, element) != 0) continue;
    batch.add(nf::Set{other_policies(), {nf::Type::kIfname, nf::Type::kIfname, nf::Type::kIfname}});
    batch.add(other_policies(), {element});
  }
  for (nf::Element& gone : before) batch.remove(other_policies(), {std::move(gone.key)});
}

void plan_ports(nf::NfSocket& socket, const LinkPolicy& wanted, nf::Batch& batch) {
  const bool isolates = wanted.policy == Policy::kIsolated;
  if (isolates) plan_bridge_table(seen_bridge_table(socket), batch);
  for (const std::string& port : wanted.ports) {
    const nf::Element element{.key = key_of(port), .comment = wanted.tag};
    plan_element(isolated(), find(socket, isolated(), element.key), element, isolates, batch);
  }
}

void plan_clear(nf::NfSocket& socket, const std::string& link, nf::Batch& batch) {
  plan_link(seen_of(socket, link), {.link = link, .owner = ""}, batch);
}

bool exists(const std::string& link) {
  if (::if_nametoindex(link.c_str()) != 0) return true;
  if (errno == ENODEV) return false;
  throw netlink::Error(cat("look up link '", link, "'"), errno);
}

// The attachment's ports of the bridge, which the node knows: root in a pod has no say in them.
std::vector<std::string> ports_of(netlink::RouteSocket& host, const netlink::Link& bridge,
                                  const Attachment& attachment) {
  std::vector<std::string> out;
  for (const std::string& name : attachment.host_links) {
    const auto link = host.find(name);
    if (link && link->master == bridge.index) out.push_back(name);
  }
  return out;
}

// With an access VLAN the bridge plugin routes by a link of its own, "cni0.100".
std::optional<std::string> vlan_gateway(netlink::RouteSocket& host, const Attachment& attachment) {
  for (const Ip& ip : attachment.addresses) {
    const auto path = host.path_to(ip);
    const auto link = path && path->link != 0 ? host.find(path->link) : std::nullopt;
    if (link && link->name.starts_with(cat(attachment.link, "."))) return link->name;
  }
  return std::nullopt;
}

}  // namespace

std::vector<LinkPolicy> policies_of(const Conf& conf, const Attachment& attachment) {
  if (attachment.link.empty()) return {};
  const OwnerTag tag = attachment.key.owner_tag();
  LinkPolicy first{.link = attachment.link, .policy = conf.policy, .owner = "", .tag = tag.text};
  first.owner = policy_owner(attachment.key.network, tag, false);
  if (conf.policy == Policy::kOpen) return {first};
  netlink::RouteSocket host;
  const auto link = host.find(attachment.link);
  const bool of_pod = link && link->kind == "veth";
  first.owner = policy_owner(attachment.key.network, tag, of_pod);
  if (link && link->kind == "bridge") first.ports = ports_of(host, *link, attachment);
  if (conf.policy == Policy::kIsolated && !of_pod && first.ports.empty()) {
    throw cni::Error(
        cni::Code::kInternal,
        cat("ingressPolicy isolated: prevResult names no port of bridge '", attachment.link, "'"),
        "make sure to chain \"firewall\" plugin with \"bridge\"");
  }
  std::vector<LinkPolicy> out{first};
  if (auto vlan = vlan_gateway(host, attachment)) {
    out.push_back(
        {.link = *std::move(vlan), .policy = conf.policy, .owner = first.owner, .tag = first.tag});
  }
  return out;
}

void plan_policy(nf::NfSocket& socket, const LinkPolicy& wanted, nf::Batch& batch) {
  const Seen seen = seen_of(socket, wanted.link);
  const bool of_another = seen.link && !are_of_one_network(seen.link->comment, wanted.owner);
  LinkPolicy target = wanted;
  if (of_another || wanted.policy < seen.policy()) plan_shared(socket, seen, target, batch);
  plan_link(seen, target, batch);
  plan_ports(socket, wanted, batch);
}

void plan_remove_policy(nf::NfSocket& socket, const Attachment& attachment, nf::Batch& batch) {
  const std::string owner = attachment.key.tag();
  const bool is_known = !attachment.link.empty();
  const auto all = [&](const nf::SetId& set, const std::vector<std::string>& links) {
    if (!is_known) return socket.all_elements(set);
    std::vector<nf::Element> out;
    for (const std::string& link : links) {
      if (auto one = find(socket, set, key_of(link))) out.push_back(*std::move(one));
    }
    return out;
  };
  for (const nf::Element& one : all(policy_links(), {attachment.link})) {
    if (one.comment.starts_with(owner)) plan_clear(socket, link_in(one.key), batch);
  }
  for (const nf::Element& one : all(isolated(), attachment.host_links)) {
    if (one.comment.starts_with(owner)) batch.remove(isolated(), {one.key});
  }
}

void plan_gc_policies(nf::NfSocket& socket, const std::string& network, cni::Collect& collect,
                      nf::Batch& batch) {
  const std::string start = network_start(network);
  const auto takes = [&](const std::string& tag) { return collect.takes("firewall", tag); };
  const auto is_of_gone_link = [&](const nf::Element& one) {
    return !collect.only_looks() && one.comment.starts_with(start) && !exists(link_in(one.key));
  };
  for (const nf::Element& one : socket.all_elements(policy_links())) {
    if (is_of_gone_link(one) || takes(one.comment)) plan_clear(socket, link_in(one.key), batch);
  }
  for (const nf::Element& one : socket.all_elements(other_policies())) {
    if (is_of_gone_link(one)) batch.remove(other_policies(), {one.key});
  }
  for (const nf::Element& one : socket.all_elements(isolated())) {
    if (takes(one.comment)) batch.remove(isolated(), {one.key});
  }
}

std::optional<std::string> missing_elements(nf::NfSocket& socket, const LinkPolicy& wanted) {
  if (wanted.policy == Policy::kOpen) return std::nullopt;
  if (seen_of(socket, wanted.link).policy() < wanted.policy) {
    return cat("set '", policy_links().str(), "' does not have '", wanted.link, "' with policy ",
               name_of(wanted.policy));
  }
  if (wanted.policy != Policy::kIsolated || wanted.ports.empty()) return std::nullopt;
  if (auto flaw = bridge_table_flaw(seen_bridge_table(socket))) return flaw;
  for (const std::string& port : wanted.ports) {
    const auto seen = find(socket, isolated(), key_of(port));
    if (seen && seen->comment == wanted.tag) continue;
    return cat("set '", isolated().str(), "' does not have '", port, "'");
  }
  return std::nullopt;
}

}  // namespace firewall::nft
