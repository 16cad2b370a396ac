#include <algorithm>

#include "cnitool/doctor/facts.h"
#include "cnitool/doctor/routes.h"

// Reports what another program made in the place of what ADD makes: `cnitool repair` leaves it
// alone.
namespace tool::doctor {

namespace {

// Before Linux 6.2 a link that is up keeps its name.
std::string rename_back(const std::string& now, const std::string& name) {
  const std::string rename = cat("ip link set ", quoted(now), " name ", quoted(name));
  return cat(rename, " || { ip link set ", quoted(now), " down && ", rename, " && ip link set ",
             quoted(name), " up; }; ");
}

bool has_address(const AttachmentState& one, const netlink::Ip& ip) {
  return std::ranges::any_of(one.result.ips,
                             [&](const cni::Address& address) { return address.cidr.ip == ip; });
}

// Whether the link is the host veth of a pod that has the address: two pods may have it.
bool is_of_pod(const Node& node, int index, const netlink::Ip& ip) {
  const netlink::Link* const link = node.link(index);
  if (link == nullptr || link->alias.empty()) return false;
  return std::ranges::any_of(node.attachments,
                             [&](const AttachmentState& one) {
                               return link->alias.starts_with(one.key.tag()) &&
                                      has_address(one, ip);
                             }) ||
         std::ranges::any_of(node.unlisted,
                             [&](const Unlisted& one) { return one.host_veth == link->name; });
}

// Routes to the very address of a pod, which ptp routes one by one.
std::string remove_host_routes(const Node& node, const AttachmentState& pod) {
  std::string out;
  for (const Foreign& foreign : foreign_routes(node, {})) {
    const netlink::LinkRoute& route = foreign.route();
    if (route.dst.prefix != route.dst.ip.bits() || !has_address(pod, route.dst.ip)) continue;
    const bool is_of_pods = std::ranges::any_of(foreign.hops, [&](const netlink::LinkRoute* hop) {
      return is_of_pod(node, hop->link, route.dst.ip);
    });
    if (!is_of_pods) out += cat(removal_of(node, foreign), "; ");
  }
  return out;
}

}  // namespace

std::string before_repair(const Node& node, const std::vector<const cni::AttachmentKey*>& pods) {
  std::string out;
  for (const BridgeNetwork& one : routed_networks(node)) {
    const bool is_mine = std::ranges::any_of(
        pods, [&](const cni::AttachmentKey* key) { return key->network == one.list->name; });
    const netlink::Link* const renamed = is_mine ? renamed_bridge(node, one) : nullptr;
    if (renamed != nullptr) out += rename_back(renamed->name, one.bridge);
    if (!is_mine || !one.bridge.empty()) continue;
    for (const cni::AttachmentKey* key : pods) {
      const auto* const pod = find_by(node.attachments, &AttachmentState::key, *key);
      if (pod != nullptr && key->network == one.list->name) out += remove_host_routes(node, *pod);
    }
  }
  return out;
}

}  // namespace tool::doctor
