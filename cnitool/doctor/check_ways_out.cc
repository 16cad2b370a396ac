#include <algorithm>
#include <map>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/networks.h"
#include "cnitool/doctor/pods.h"

// Pods of several networks of which more than one has a default route.
namespace tool::doctor {

namespace {

bool is_way_out(const cni::Route& route, netlink::Family family) {
  const unsigned table = route.table.value_or(0);
  return route.dst.is_default() && route.dst.ip.family() == family &&
         (table == 0 || table == kMainTable);
}

/// The attachments of a pod with a default route of one metric, in the order of their ADDs.
using Ways = std::vector<const AttachmentState*>;

// By namespace, as a container's ID may be that of a sandbox or not, and by metric: with different
// ones somebody has chosen.
std::map<std::pair<std::string, unsigned>, Ways> ways_out(const Node& node,
                                                          netlink::Family family) {
  std::map<std::pair<std::string, unsigned>, Ways> out;
  for (const AttachmentState& one : node.attachments) {
    if (!one.is_alive() || one.has_own_tables || !node.which.has(one.key)) continue;
    for (const cni::Route& route : one.result.routes) {
      if (!is_way_out(route, family)) continue;
      out[{one.netns, route.priority}].push_back(&one);
      break;
    }
  }
  for (auto& [where, ways] : out) {
    std::ranges::stable_sort(ways, {}, &AttachmentState::modified);
  }
  return out;
}

std::string remedy_for(const Node& node, const AttachmentState& last) {
  const cni::NetworkList* const list = node.network(last.key.network);
  const std::string set = "\"ignoreDefaultRoute\": true";
  if (list == nullptr || list->plugins.empty()) {
    return cat("set ", set, " in network '", last.key.network, "', then restart the pods");
  }
  return cat("in ", list->file, " set ", set, " in the plugin \"", list->plugins.front().type,
             "\", then restart the pods");
}

}  // namespace

Findings check_ways_out(const Node& node) {
  Findings out;
  for (const netlink::Family family : netlink::kFamilies) {
    const bool v4 = family == netlink::Family::kIpv4;
    std::map<Names, std::vector<const Ways*>> found;  // by the networks
    const auto all = ways_out(node, family);
    for (const auto& [where, ways] : all) {
      if (ways.size() < 2) continue;
      Names networks;
      for (const AttachmentState* one : ways) networks.push_back(one->key.network);
      found[networks].push_back(&ways);
    }
    for (const auto& [networks, pods] : found) {
      std::vector<std::string> names;
      for (const Ways* ways : pods) names.push_back(name_of(node, ways->back()->key));
      out.push_back(
          {Level::kWarning,
           cat("networks '", joined(networks, "' and '"), "' both give a default route for ",
               v4 ? "IPv4" : "IPv6", " to ", some_of(names)),
           v4 ? "packets to other networks leave by the interface that was added last"
              : "the kernel spreads connections to other networks over both",
           remedy_for(node, *pods.front()->back()), networks});
    }
  }
  return out;
}

}  // namespace tool::doctor
