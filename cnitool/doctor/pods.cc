#include "cnitool/doctor/pods.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/networks.h"
#include "cnitool/doctor/routes.h"
#include "cnitool/output.h"

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

bool is_asked_for(const Node& node, const std::string& network) {
  return !node.is_of_one_pod() || std::ranges::any_of(node.attachments, [&](const auto& one) {
    return one.key.network == network && node.which.has(one.key);
  });
}

std::string live_host_ports(const Node& node, const std::string& network) {
  std::set<std::string> out;
  for (const AttachmentState& one : node.attachments) {
    if (one.key.network != network || !one.is_alive() || !node.which.has(one.key)) continue;
    for (const HostPort& port : one.host_ports) {
      out.insert(cat("hostPort ", port.host, "/", port.protocol));
    }
  }
  return joined({out.begin(), out.end()});
}

bool has_pods(const Node& node, const std::string& network) {
  return std::ranges::any_of(node.attachments, [&](const AttachmentState& one) {
    return one.key.network == network && one.is_alive();
  });
}

std::string name_of(const Node& node, const cni::AttachmentKey& key) {
  const std::string id = key.container_id.substr(0, 12);
  const auto* const own = find_by(node.attachments, &AttachmentState::key, key);
  const std::string pod = own == nullptr ? "" : own->pod;
  const bool is_shared = std::ranges::any_of(node.attachments, [&](const auto& one) {
    return one.pod == pod && one.key.container_id != key.container_id;
  });
  return cat(pod, pod.empty() || !is_shared ? "" : " ", pod.empty() || is_shared ? id : "", " (",
             key.ifname, ")");
}

std::string option_for(const Node& node, const cni::AttachmentKey& key) {
  const auto* const own = find_by(node.attachments, &AttachmentState::key, key);
  const std::string pod = own == nullptr ? "" : own->pod;
  return pod.empty() ? cat("--container-id ", quoted(key.container_id))
                     : cat("--pod ", quoted(pod));
}

std::string restart_of(const Node& node, const std::vector<const cni::AttachmentKey*>& pods) {
  Names names;
  for (const cni::AttachmentKey* const key : pods) {
    const auto* const own = find_by(node.attachments, &AttachmentState::key, *key);
    const bool is_named = own != nullptr && !own->pod.empty();
    names.push_back(is_named ? own->pod : cat("of container ", key->container_id));
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  constexpr std::size_t kMax = 10;  // more are read in the lines of the finding
  if (names.size() > kMax) return "restart these pods";
  return cat("restart the pod", names.size() == 1 ? " " : "s ", joined(names));
}

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
