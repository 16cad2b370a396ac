#include <algorithm>
#include <map>
#include <set>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"
#include "cnitool/doctor/unlisted.h"
#include "libcni/common/hash.h"

// What nobody has who is in the cache, and no pod that lives without it. Another runtime may keep
// another cache, so that nothing here is more than a warning.
namespace tool::doctor {

namespace {

using netlink::Link;

constexpr std::size_t kTag = 33;  // "H1-H2" of cni::OwnerTag
constexpr const char* kOthers = "; unless another runtime with its own cache has containers there";

// What the tags of attachments begin with, and those of whole networks.
struct Tags {
  std::set<std::string> attachments;
  std::map<std::string, std::string> networks;  // by the hash

  explicit Tags(const Node& node) : attachments(unlisted(node).tags()) {
    const auto add = [this](const std::string& network) {
      networks.emplace(cni::OwnerTag(network, "", "").network_hash, network);
    };
    for (const cni::NetworkList& list : node.networks.lists) add(list.name);
    for (const AttachmentState& one : node.attachments) {
      add(one.key.network);
      attachments.insert(tag_of(one.key));
    }
  }
  bool is_left(const std::string& tag) const {
    return cni::OwnerTag::is_tag(tag) && !attachments.contains(tag.substr(0, kTag));
  }
  // Whose it was; empty where that network is not known.
  std::string network_of(const std::string& tag) const {
    const auto it = networks.find(tag.substr(0, 16));
    return it == networks.end() ? "" : it->second;
  }
};

// The ifbs of the reference, which have no tag, bear names that follow from the attachment.
std::set<std::string> ifb_names(const Node& node) {
  std::set<std::string> out;
  for (const AttachmentState& one : node.attachments) {
    const auto& [network, id, ifname] = one.key;
    for (const auto& name : cni::ifb_names(network, id, ifname)) out.insert(name);
  }
  for (const auto& [network, id, ifname] : unlisted(node).attachments) {
    for (const auto& name : cni::ifb_names(network, id, ifname)) out.insert(name);
  }
  return out;
}

// An ifb without a tag may be that of a pod that nothing else shows: not while a link redirects to
// it.
std::string remove_command(const Link& link) {
  const std::string remove = cat("ip link del ", link.name);
  if (link.kind != "ifb") return remove;
  return cat("for i in $(ls /sys/class/net); do tc filter show dev $i parent ffff: 2>/dev/null; ",
             "done | grep -q 'device ", link.name, "' || ", remove);
}

}  // namespace

Findings check_reservations(const Node& node) {
  Findings out;
  std::set<std::string> known;
  for (const AttachmentState& one : node.attachments) {
    const auto& [network, id, ifname] = one.key;
    known.insert(cat(network, " ", id, " ", ifname));
    known.insert(cat(network, " ", id, " "));
  }
  for (const auto& [network, id, ifname] : unlisted(node).attachments) {
    known.insert(cat(network, " ", id, " ", ifname));
  }
  std::set<std::string> seen;
  for (const Pool& pool : node.pools) {
    if (!seen.insert(pool.dir).second) continue;
    std::vector<std::string> left;
    std::string files;
    for (const Reservation& one : pool.reservations) {
      if (known.contains(cat(pool.network, " ", one.container_id, " ", one.ifname))) continue;
      left.push_back(cat(one.ip.str(), " of ", one.container_id.substr(0, 12)));
      if (left.size() <= 20) files += cat(" ", pool.dir, "/", one.ip.str());
    }
    if (left.empty()) continue;
    out.push_back({Level::kWarning,
                   cat("network '", pool.network, "': ", left.size(),
                       " leases without an attachment: ", some_of(left)),
                   cat("no pod can get these addresses", kOthers),
                   collect(node, pool.network, cat("rm", files))});
  }
  return out;
}

Findings check_links(const Node& node) {
  Findings out;
  const Tags tags(node);
  const auto ifbs = ifb_names(node);
  for (const Link& link : node.links) {
    const bool unnamed = link.kind == "ifb" && link.name.starts_with("bwp") && link.alias.empty() &&
                         !ifbs.contains(link.name);
    if (!tags.is_left(link.alias) && !unnamed) continue;
    const std::string network = unnamed ? "" : tags.network_of(link.alias);
    const std::string remove = remove_command(link);
    out.push_back(
        {Level::kWarning,
         cat("link '", link.name, "' (", link.kind, ") ",
             network.empty() ? "" : cat("of network '", network, "' "), "belongs to no pod"),
         cat("a DEL was interrupted or never ran", kOthers),
         network.empty() ? remove : collect(node, network, remove)});
  }
  return out;
}

Findings check_owned(const Node& node) {
  Findings out;
  const Tags tags(node);
  std::map<std::string, std::vector<std::string>> left;  // by network
  for (const Owned& one : node.firewall.owned) {
    if (tags.is_left(one.tag)) left[tags.network_of(one.tag)].push_back(one.what);
  }
  for (const auto& [network, what] : left) {
    out.push_back(
        {Level::kWarning,
         cat("rules without a pod ",
             network.empty() ? "of networks that do not exist" : cat("of network '", network, "'"),
             ": ", some_of(what)),
         cat("they redirect traffic of others", kOthers),
         network.empty()
             ? "nft list ruleset"
             : collect(node, network, cat("nft list ruleset | grep 'net: ", network, ",'"))});
  }
  std::set<std::string> chains;
  for (const AttachmentState& one : node.attachments) {
    chains.insert(cni::masquerade_chain(one.key.network, one.key.container_id));
    chains.insert(cni::host_port_chain(one.key.network, one.key.container_id));
  }
  for (const auto& chain : node.firewall.chains) {
    constexpr std::size_t kChainLength = 28;
    const std::string& name = chain.chain;
    if (!name.starts_with("CNI-") || name.starts_with("CNI-SN-") || name.size() != kChainLength ||
        chains.contains(name)) {
      continue;
    }
    out.push_back({Level::kWarning, cat("chain '", chain.str(), "' of iptables belongs to no pod"),
                   cat("it redirects traffic of others", kOthers),
                   cat("iptables-save -t ", chain.table, " | grep ", name)});
  }
  return out;
}

Findings check_states(const Node& node) {
  std::set<std::string> known = unlisted(node).tags();
  for (const AttachmentState& one : node.attachments) known.insert(tag_of(one.key));
  Findings out;
  for (const StateFile& one : node.states) {
    if (known.contains(tag_of(one.key))) continue;
    const auto& [network, id, ifname] = one.key;
    out.push_back({Level::kWarning,
                   cat("'", one.path, "' of ", one.plugin, " belongs to no pod: container '", id,
                       "' of network '", network, "'"),
                   cat("DEL never ran: if the namespace lives on, routes or settings in it are as "
                       "ADD left them",
                       kOthers),
                   collect(node, network, cat("rm ", one.path))});
  }
  return out;
}

}  // namespace tool::doctor
