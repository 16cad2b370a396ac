#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"
#include "plugins/names/links.h"

// Finds what GC would remove. Another runtime may keep another cache, so that nothing here is more
// than a warning.
namespace tool::doctor {

namespace {

using netlink::Link;

constexpr const char* kOthers = "; unless another runtime with its own cache has containers there";

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
std::string remove_command(const std::string& ifb) {
  return cat("for i in $(ls /sys/class/net); do tc filter show dev $i parent ffff: 2>/dev/null; ",
             "done | grep -q 'device ", ifb, "' || ip link del ", ifb);
}

// Whether host-local gives the network's addresses, and has none for the container.
bool lacks_lease(const Node& node, const std::string& network, const std::string& container) {
  const Pool* const pool = find_by(node.pools, &Pool::network, network);
  return pool != nullptr &&
         find_by(pool->reservations, &Reservation::container_id, container) == nullptr;
}

struct Unlisted {
  std::set<std::string> named = {}, without_lease = {};
  std::set<std::string> things = {};  ///< of a container that is not known
};

// Things of a container that is not known may be of those that are.
void add_unlisted(const std::string& network, const Unlisted& all, Findings& out) {
  if (const std::size_t count = all.without_lease.size(); count > 0) {
    out.push_back(
        {Level::kError,
         cat("network '", network, "' has ", counted(count, "attachment"),
             " without a cache entry and a lease, whose ",
             count == 1 ? "pod lives: " : "pods live: ",
             some_of({all.without_lease.begin(), all.without_lease.end()})),
         "host-local gives their addresses to other pods, and packets then reach only one "
         "of the two",
         "restart these pods",
         {network}});
  }
  const auto& names = all.named.empty() && all.without_lease.empty() ? all.things : all.named;
  if (names.empty()) return;
  out.push_back(
      {Level::kNote,
       cat("network '", network, "' has ", counted(names.size(), "attachment"),
           " without a cache entry, whose ", names.size() == 1 ? "pod lives: " : "pods live: ",
           some_of({names.begin(), names.end()})),
       "the entries were lost, or another runtime has them in a cache of its own",
       "",
       {network}});
}

}  // namespace

Findings check_leftovers(const Node& node) {
  std::map<std::string, std::vector<std::string>> left;
  std::map<std::string, nlohmann::json> removed;  // plugins of networks without a config
  std::map<std::string, Unlisted> alive;
  for (const auto& [network, found, conf] : node.leftovers) {
    const cni::Leftover& one = found.leftover;
    if (!node.which.has({network, one.container_id, one.ifname})) continue;
    if (is_unknown(one.life)) continue;
    if (one.life == cni::Life::kDead) {
      left[network].push_back(text_of(found));
      auto& plugins = removed[network];
      if (std::find(plugins.begin(), plugins.end(), *conf) == plugins.end()) plugins += *conf;
    } else if (!one.ifname.empty()) {
      Unlisted& all = alive[network];
      (lacks_lease(node, network, one.container_id) ? all.without_lease : all.named)
          .insert(name_of(node, {network, one.container_id, one.ifname}));
    } else if (one.container_id.empty()) {
      alive[network].things.insert(one.what);
    }
  }
  Findings out;
  for (const auto& [network, what] : left) {
    out.push_back({Level::kWarning,
                   cat("network '", network, "': ", counted(what.size(), "thing"),
                       " without a pod: ", some_of(what)),
                   cat("DEL was interrupted or never ran", kOthers),
                   node.network(network) != nullptr ? collect(node, network)
                                                    : collect_with(network, removed[network]),
                   {network}});
  }
  for (const auto& [network, all] : alive) add_unlisted(network, all, out);
  return out;
}

// No plugin removes these devices, which the reference's bandwidth left.
Findings check_links(const Node& node) {
  Findings out;
  const auto ifbs = ifb_names(node);
  for (const Link& link : node.links) {
    if (link.kind != "ifb" || !link.name.starts_with(names::kIfbPrefix)) continue;
    if (!link.alias.empty() || ifbs.contains(link.name)) continue;
    out.push_back({Level::kWarning, cat("link '", link.name, "' (ifb) belongs to no pod"),
                   cat("a DEL was interrupted or never ran", kOthers), remove_command(link.name)});
  }
  return out;
}

}  // namespace tool::doctor
