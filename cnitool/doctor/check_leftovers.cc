#include <map>
#include <set>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"
#include "libcni/common/hash.h"
#include "plugins/names/links.h"

// What GC would remove. Another runtime may keep another cache, so that nothing here is more than a
// warning.
namespace tool::doctor {

namespace {

using netlink::Link;

constexpr const char* kOthers = "; unless another runtime with its own cache has containers there";

// The hashes of networks, as in tags.
std::set<std::string> network_hashes(const Node& node) {
  std::set<std::string> out;
  for (const auto& list : node.networks.lists) {
    out.insert(cni::OwnerTag(list.name, "", "").network_hash);
  }
  for (const AttachmentState& one : node.attachments) {
    out.insert(cni::OwnerTag(one.key.network, "", "").network_hash);
  }
  return out;
}

// The ifbs of the reference, which have no tag, bear names that follow from the attachment.
std::set<std::string> ifb_names(const Node& node) {
  std::set<std::string> out;
  for (const AttachmentState& one : node.attachments) {
    const auto& [network, id, ifname] = one.key;
    for (const auto& name : names::ifb_names(network, id, ifname)) out.insert(name);
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

Findings check_leftovers(const Node& node) {
  std::map<std::string, std::vector<std::string>> left;
  std::map<std::string, std::set<std::string>> alive;
  for (const auto& [network, found] : node.leftovers) {
    const auto& [plugin, one] = found;
    if (!one.alive) {
      left[network].push_back(text_of(found));
    } else if (!one.ifname.empty()) {
      alive[network].insert(name_of({network, one.container_id, one.ifname}));
    } else if (one.container_id.empty()) {
      alive[network].insert(one.what);
    }
  }
  Findings out;
  for (const auto& [network, what] : left) {
    out.push_back({Level::kWarning,
                   cat("network '", network, "': ", what.size(),
                       what.size() == 1 ? " thing" : " things", " without a pod: ", some_of(what)),
                   cat("DEL was interrupted or never ran", kOthers), collect(node, network)});
  }
  for (const auto& [network, names] : alive) {
    out.push_back({Level::kNote,
                   cat("network '", network, "' has ", names.size(),
                       " attachments without a cache entry, whose pods live: ",
                       some_of({names.begin(), names.end()})),
                   "the entries were lost, or another runtime has them in a cache of its own"});
  }
  return out;
}

// Of networks that do not exist, and what the reference's bandwidth left: no plugin knows these.
Findings check_links(const Node& node) {
  Findings out;
  const auto ifbs = ifb_names(node);
  const auto known = network_hashes(node);
  for (const Link& link : node.links) {
    const bool unnamed = link.kind == "ifb" && link.name.starts_with(names::kIfbPrefix) &&
                         link.alias.empty() && !ifbs.contains(link.name);
    const bool unknown = cni::OwnerTag::is_tag(link.alias) && !link.peer_nsid &&
                         !known.contains(link.alias.substr(0, link.alias.find('-')));
    if (!unnamed && !unknown) continue;
    out.push_back({Level::kWarning,
                   cat("link '", link.name, "' (", link.kind, ") belongs to no pod"),
                   cat("a DEL was interrupted or never ran", kOthers), remove_command(link)});
  }
  return out;
}

}  // namespace tool::doctor
