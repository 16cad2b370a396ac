#include <algorithm>
#include <map>

#include "cnitool/doctor/kubernetes/checks.h"

// Settings and features of the kernel; net/... is Documentation/networking/ip-sysctl.rst of its
// sources.
namespace tool::doctor::kubernetes {

namespace {

using netlink::Family;

constexpr const char* kIptables = "net/bridge/bridge-nf-call-iptables";
constexpr const char* kIp6tables = "net/bridge/bridge-nf-call-ip6tables";

bool is_setting(const Node& node, const std::string& key, std::string_view value) {
  const auto found = node.sysctl(key);
  return found && *found == value;
}

// Links that carry packets between nodes, and the bytes that they add to each.
unsigned overhead_of(const netlink::Link& link, bool v6) {
  constexpr std::pair<const char*, std::pair<unsigned, unsigned>> kOverheads[] = {
      {"vxlan", {50, 70}},  // drivers/net/vxlan: VXLAN_HEADROOM, VXLAN6_HEADROOM
      {"wireguard", {60, 80}},
      {"geneve", {50, 70}},
      {"ipip", {20, 20}},
      {"sit", {20, 20}}};
  for (const auto& [kind, bytes] : kOverheads) {
    if (link.kind == kind) return v6 ? bytes.second : bytes.first;
  }
  return 0;
}

std::vector<std::string> uplinks_of_all(const Node& node) {
  std::vector<std::string> out = uplinks(node, Family::kIpv4);
  if (out.empty()) out = uplinks(node, Family::kIpv6);
  return out;
}

struct Overlay {
  const netlink::Link* link = nullptr;
  const netlink::Link* uplink = nullptr;
  unsigned fitting = 0;  ///< the largest MTU
};

std::vector<Overlay> overlays(const Node& node) {
  std::vector<Overlay> out;
  const bool v6 = uplinks(node, Family::kIpv4).empty();
  for (const std::string& name : uplinks_of_all(node)) {
    const netlink::Link* const uplink = node.link(name);
    for (const netlink::Link& link : node.links) {
      const unsigned overhead = overhead_of(link, v6);
      if (overhead == 0 || uplink == nullptr || uplink->mtu <= overhead) continue;
      out.push_back({&link, uplink, uplink->mtu - overhead});
    }
    break;
  }
  return out;
}

// Whether the node routes packets of the family through the link, its neighbours' aside.
bool carries(const Node& node, const netlink::Link& link, Family family) {
  return std::ranges::any_of(node.routes, [&](const auto& route) {
    return route.link == link.index && route.dst.ip.is_v4() == (family == Family::kIpv4) &&
           !route.dst.ip.is_link_local();
  });
}

// flanneld writes one MTU for both families, that of IPv4. Larger IPv6 packets are answered by the
// node itself, with "packet too big".
bool is_second_family(const Node& node, const netlink::Link& link, const std::string& network) {
  return uses(node, Family::kIpv4, network) && carries(node, link, Family::kIpv6) &&
         !carries(node, link, Family::kIpv4);
}

// The addresses that a bridge's pods have.
bool is_of_family(const Node& node, const BridgeNetwork& one, Family family) {
  return uses(node, family, one.list->name);
}

}  // namespace

// kube-proxy and network policies in iptables see packets between two pods of one bridge only if
// the bridge hands them over.
Findings check_bridge_module(const Node& node) {
  Findings out;
  std::map<std::string, Names> wanted;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    wanted[kIptables].push_back(one.list->name);
    if (is_of_family(node, one, Family::kIpv6)) wanted[kIp6tables].push_back(one.list->name);
  }
  if (wanted.empty()) return out;
  if (!node.sysctl(kIptables)) {
    return {{Level::kError, cat("br_netfilter is not loaded: ", kIptables, " does not exist"),
             "a pod cannot reach a Service whose pod is on the same bridge",
             "modprobe br_netfilter", wanted[kIptables]}};
  }
  for (const auto& [key, networks] : wanted) {
    if (!is_setting(node, key, "0")) continue;
    out.push_back({Level::kError, cat(key, " is 0"),
                   "a pod cannot reach a Service whose pod is on the same bridge",
                   sysctl_command(key, "1"), networks});
  }
  return out;
}

Findings check_forwarding(const Node& node) {
  Findings out;
  const auto look = [&](Family family, const std::string& key) {
    const Names networks = networks_with(node, family);
    if (networks.empty() || !is_setting(node, key, "0")) return;
    out.push_back({Level::kError, cat(key, " is 0"),
                   "packets between pods and other hosts are not forwarded",
                   sysctl_command(key, "1"), networks});
  };
  look(Family::kIpv4, "net/ipv4/ip_forward");
  look(Family::kIpv6, "net/ipv6/conf/all/forwarding");
  // The kernel forwards packets by the setting of the link that received them (ip_sysctl.rst).
  return out.empty() && node.cluster != nullptr ? check_link_forwarding(node) : out;
}

// A router of IPv6 takes router advertisements only with accept_ra 2. With 0 somebody else handles
// them, as systemd-networkd does.
Findings check_router_advertisements(const Node& node) {
  constexpr std::uint8_t kOfKernel = 9;  // RTPROT_RA
  Findings out;
  if (!is_setting(node, "net/ipv6/conf/all/forwarding", "1")) return out;
  Names seen;
  for (const netlink::LinkRoute& route : node.routes) {
    const netlink::Link* const link = node.link(route.link);
    const bool is_learned = route.protocol == kOfKernel && route.dst.is_default() &&
                            !route.dst.ip.is_v4() && link != nullptr;
    if (!is_learned || std::ranges::find(seen, link->name) != seen.end()) continue;
    seen.push_back(link->name);
    const std::string key = cat("net/ipv6/conf/", link->name, "/accept_ra");
    if (!is_setting(node, key, "1")) continue;
    out.push_back({Level::kError,
                   cat(key,
                       " is 1, but the node forwards IPv6 and has its default route from a "
                       "router advertisement"),
                   "with forwarding the kernel ignores advertisements: the route expires",
                   sysctl_command(key, "2")});
  }
  return out;
}

// A bridge returns no frame to the port that it came from, unless the port is in hairpin mode; a
// promiscuous bridge and hairpin mode together deliver it twice.
Findings check_hairpin(const Node& node) {
  Findings out;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    const netlink::Link* const bridge = node.link(one.bridge);
    if (one.hairpin && one.promiscuous) {
      out.push_back({Level::kError,
                     cat("network '", one.list->name, "' has hairpinMode and promiscMode"),
                     "ADD fails: frames would be delivered twice",
                     setting_of(one, "promiscMode", "false"),
                     {one.list->name}});
    } else if (one.hairpin && bridge != nullptr && bridge->promiscuous) {
      out.push_back({Level::kWarning,
                     cat("bridge '", one.bridge, "' is promiscuous, and network '", one.list->name,
                         "' has hairpinMode"),
                     "frames to a pod's own Service address are delivered twice",
                     cat("ip link set ", one.bridge, " promisc off"),
                     {one.list->name}});
    } else if (!one.hairpin && !one.promiscuous) {
      out.push_back({Level::kWarning,
                     cat("network '", one.list->name, "' has no hairpinMode"),
                     "a pod cannot reach itself through its own Service or hostPort",
                     setting_of(one, "hairpinMode", "true"),
                     {one.list->name}});
    }
  }
  return out;
}

// The larger one of `all` and the link's counts; 1 is strict. Packets that another node sends
// directly are answered through the overlay, and the reverse.
Findings check_overlay_filter(const Node& node) {
  Findings out;
  const bool is_strict = is_setting(node, "net/ipv4/conf/all/rp_filter", "1");
  const auto look = [&](const std::string& link) {
    const std::string key = cat("net/ipv4/conf/", link, "/rp_filter");
    if (is_setting(node, key, "2") || (!is_strict && !is_setting(node, key, "1"))) return;
    out.push_back({Level::kWarning,
                   cat(key, is_strict ? " counts as 1" : " is 1",
                       " (strict), and the node has an overlay network"),
                   "packets of other nodes' pods are dropped silently if they take another way "
                   "than the answers",
                   sysctl_command(key, "2")});
  };
  const auto all = overlays(node);
  for (const Overlay& one : all) look(one.link->name);
  const auto links = uplinks(node, Family::kIpv4);
  if (!all.empty() && links.size() == 1) look(links.front());  // of more there is another check
  return out;
}

Findings check_kernel_features(const Node& node) {
  Findings out;
  for (const std::string& kind : node.cluster->lost_kinds) {
    // STATUS of the plugins says it too, by the same kernel.
    const bool is_known = std::ranges::any_of(node.complaints, [&](const StatusError& one) {
      return cat(one.error.what(), one.error.details()).find(kind) != std::string::npos;
    });
    if (is_known) continue;
    const std::string module = kind == "vlan" ? "8021q" : kind;
    out.push_back({Level::kError, cat("the kernel has no links of kind '", kind, "'"),
                   "ADD of the plugin that makes one fails", cat("modprobe ", module)});
  }
  return out;
}

Findings check_overlay_mtu(const Node& node) {
  Findings out;
  constexpr const char* kWhy = "large packets between pods of different nodes are lost";
  for (const auto& [link, uplink, fitting] : overlays(node)) {
    if (link->mtu > fitting) {
      out.push_back({Level::kError,
                     cat(link->kind, " link '", link->name, "' has MTU ", link->mtu, ", and '",
                         uplink->name, "' leaves it ", fitting),
                     kWhy, cat("ip link set ", link->name, " mtu ", fitting)});
    }
    for (const BridgeNetwork& one : routed_networks(node)) {
      constexpr unsigned kDefault = 1500;
      const unsigned mtu = one.mtu == 0 ? kDefault : one.mtu;
      const unsigned most = std::min(link->mtu, fitting);
      if (mtu <= most || mtu > uplink->mtu) continue;  // of more than the uplink's: check_mtu()
      if (is_second_family(node, *link, one.list->name)) continue;
      out.push_back({Level::kWarning,
                     cat("network '", one.list->name, "' has MTU ", mtu, ", ", link->kind,
                         " link '", link->name, "' ", most),
                     kWhy,
                     setting_of(one, "mtu", std::to_string(most)),
                     {one.list->name}});
    }
  }
  return out;
}

}  // namespace tool::doctor::kubernetes
