#include <algorithm>
#include <charconv>
#include <map>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/networks.h"
#include "cnitool/doctor/pods.h"

// Settings of the kernel, MTUs and the clock; net/... is Documentation/networking/ip-sysctl.rst and
// nf_conntrack-sysctl.rst of its sources.
namespace tool::doctor {

namespace {

using netlink::Family;

std::optional<long> number(const Node& node, const std::string& key) {
  const auto text = node.sysctl(key);
  if (!text) return std::nullopt;
  long out = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), out);
  if (error != std::errc()) return std::nullopt;
  return out;
}

std::string command(std::string key, long value) {
  std::ranges::replace(key, '.', '\n');
  std::ranges::replace(key, '/', '.');
  std::ranges::replace(key, '\n', '/');  // a dot of a link's name
  return cat("sysctl -w ", key, "=", value);
}

}  // namespace

// ip_forward says what the links get that come later, and any of them may be set on its own.
Findings check_link_forwarding(const Node& node) {
  Findings out;
  const Names networks = networks_with(node, Family::kIpv4);
  if (networks.empty() || number(node, "net/ipv4/ip_forward") != 1) return out;
  std::map<std::string, Names> links;
  for (const std::string& link : uplinks(node, Family::kIpv4)) links[link] = networks;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    if (!one.is_gateway || !uses(node, Family::kIpv4, one.list->name)) continue;
    const std::string link = one.vlan == 0 ? one.bridge : cat(one.bridge, ".", one.vlan);
    if (node.link(link) != nullptr) links[link].push_back(one.list->name);
  }
  for (const AttachmentState& one : node.attachments) {
    const std::string tag = one.key.tag();
    for (const netlink::Link& link : node.links) {
      const bool is_host_veth = link.kind == "veth" && link.master == 0;
      if (is_host_veth && link.alias.starts_with(tag)) {
        links[link.name].push_back(one.key.network);
      }
    }
  }
  for (const auto& [link, its] : links) {
    const std::string key = cat("net/ipv4/conf/", link, "/forwarding");
    if (number(node, key) != 0) continue;
    out.push_back({Level::kError, cat(key, " is 0"), "packets that the link receives are dropped",
                   command(key, 1), its});
  }
  return out;
}

Findings check_ipv6(const Node& node) {
  Findings out;
  if (!uses(node, Family::kIpv6)) return out;
  std::map<std::string, Names> keys{
      {"net/ipv6/conf/all/disable_ipv6", networks_with(node, Family::kIpv6)}};
  for (const BridgeNetwork& one : bridge_networks(node)) {
    if (node.link(one.bridge) != nullptr && uses(node, Family::kIpv6, one.list->name)) {
      keys[cat("net/ipv6/conf/", one.bridge, "/disable_ipv6")].push_back(one.list->name);
    }
  }
  for (const auto& [key, networks] : keys) {
    if (number(node, key) != 1) continue;
    out.push_back({Level::kError, cat(key, " is 1, but networks have IPv6 addresses"),
                   "pods have no IPv6 gateway", command(key, 0), networks});
  }
  return out;
}

// The larger one of `all` and the link's counts; 1 is strict. Strictness loses what comes in by one
// uplink while the answer would leave by the other.
Findings check_reverse_path(const Node& node) {
  Findings out;
  const auto links = uplinks(node, Family::kIpv4);
  if (links.size() < 2) return out;
  const long all = number(node, "net/ipv4/conf/all/rp_filter").value_or(0);
  for (const std::string& link : links) {
    const std::string key = cat("net/ipv4/conf/", link, "/rp_filter");
    if (std::max(all, number(node, key).value_or(0)) != 1) continue;
    out.push_back(
        {Level::kWarning, cat(key, " is strict (1), and the node has ", links.size(), " uplinks"),
         "connections to hostPorts are dropped silently if the route back uses another uplink",
         command(key, 2)});
  }
  return out;
}

// A packet to the hostPort of its own sender is routed, which needs nothing; but br_netfilter makes
// the bridge return it to the port that it came from, which needs hairpin mode.
Findings check_bridge_netfilter(const Node& node) {
  Findings out;
  if (node.cluster != nullptr) return out;  // kubernetes::check_bridge_module(), check_hairpin()
  const std::string key = "net/bridge/bridge-nf-call-iptables";
  const auto value = number(node, key);
  for (const BridgeNetwork& one : bridge_networks(node)) {
    if (value != 1 || !one.has_ports || one.hairpin) continue;
    out.push_back(
        {Level::kWarning,
         cat(key, " is 1, and network '", one.list->name, "' has no hairpinMode"),
         "a pod cannot reach itself through its own hostPort",
         cat("in ", one.list->file, " set \"hairpinMode\": true in the plugin \"bridge\""),
         {one.list->name}});
  }
  if (value != 1 && node.firewall.has_chain("KUBE-SERVICES") && !bridge_networks(node).empty()) {
    out.push_back({Level::kWarning,
                   cat(key, value ? " is 0" : " does not exist", ", but kube-proxy has its chains"),
                   "a pod cannot reach a Service whose pod is on the same bridge",
                   cat("modprobe br_netfilter && ", command(key, 1))});
  }
  return out;
}

Findings check_conntrack(const Node& node) {
  constexpr long kPercent = 90;
  const auto count = number(node, "net/netfilter/nf_conntrack_count");
  const auto most = number(node, "net/netfilter/nf_conntrack_max");
  if (!count || !most || *most <= 0 || *count < *most / 100 * kPercent) return {};
  return {{*count >= *most ? Level::kError : Level::kWarning,
           cat(*count, " of ", *most, " connections are tracked"),
           "new connections of pods are dropped when the table is full (\"table full, dropping "
           "packet\" in the kernel's log)",
           command("net/netfilter/nf_conntrack_max", 2 * *most)}};
}

Findings check_mtu(const Node& node) {
  Findings out;
  unsigned least = 0;
  std::string narrow;
  for (const Family family : netlink::kFamilies) {
    for (const std::string& name : uplinks(node, family)) {
      const netlink::Link* const link = node.link(name);
      if (link == nullptr || (least != 0 && link->mtu >= least)) continue;
      least = link->mtu;
      narrow = name;
    }
  }
  if (least == 0) return out;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    const netlink::Link* const bridge = node.link(one.bridge);
    constexpr unsigned kDefault = 1500;
    const unsigned mtu = one.mtu != 0 ? one.mtu : kDefault;
    const bool is_set = mtu <= least;  // for new pods
    const unsigned now = is_set && bridge != nullptr ? bridge->mtu : mtu;
    if (now <= least) continue;
    out.push_back(
        {Level::kWarning,
         cat("bridge '", one.bridge, "' has MTU ", now, ", uplink '", narrow, "' ", least),
         "large packets of pods are lost if a firewall drops ICMP",
         is_set ? cat("restart the pods of network '", one.list->name, "'")
                : cat("in ", one.list->file, " set \"mtu\": ", least, " in the plugin \"bridge\""),
         {one.list->name}});
  }
  return out;
}

// host-local tells reservations of this boot from older ones.
Findings check_clock(const Node& node) {
  Findings out;
  if (!node.sysctl("kernel/random/boot_id")) {
    out.push_back({Level::kWarning, "the boot ID of the system is unreadable",
                   "host-local cannot reclaim the leases of pods from before a reboot",
                   "mount -t proc proc /proc"});
  }
  constexpr std::time_t kYear2024 = 1'704'067'200, kDay = 86'400;
  if (node.now < kYear2024) {
    out.push_back({Level::kWarning, "the system clock is years behind",
                   "certificates are invalid, and ages of files are unknown",
                   "timedatectl set-ntp true"});
  }
  const auto late = static_cast<std::size_t>(std::ranges::count_if(
      node.attachments, [&](const auto& one) { return one.modified > node.now + kDay; }));
  if (late > 0) {
    out.push_back({Level::kWarning, cat("dated in the future: ", counted(late, "attachment")),
                   "the clock was set back: leases of this boot look older than the boot",
                   "timedatectl set-ntp true"});
  }
  return out;
}

}  // namespace tool::doctor
