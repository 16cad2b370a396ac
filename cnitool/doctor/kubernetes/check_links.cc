#include <fnmatch.h>

#include <algorithm>

#include "cnitool/doctor/kubernetes/checks.h"
#include "cnitool/output.h"

// Programs that manage links which are not theirs.
namespace tool::doctor::kubernetes {

namespace {

bool is_covered(const std::vector<std::string>& patterns, const std::string& link) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), link.c_str(), 0) == 0;
  });
}

// Bridges and overlay networks. Host veths NetworkManager leaves alone by its own rules of udev.
Names links_of_pods(const Node& node) {
  Names out;
  const auto add = [&out](const std::string& link) {
    if (std::find(out.begin(), out.end(), link) == out.end()) out.push_back(link);
  };
  for (const BridgeNetwork& one : bridge_networks(node)) add(one.bridge);
  for (const netlink::Link& link : node.links) {
    if (link.name.starts_with("flannel")) add(link.name);
  }
  return out;
}

// "cni*" of "cni0".
std::string pattern_of(const std::string& link) {
  return cat(link.substr(0, link.find_first_of(".-0123456789")), "*");
}

}  // namespace

Findings check_network_manager(const Node& node) {
  const Cluster& cluster = *node.cluster;
  if (cluster.process("NetworkManager") == nullptr) return {};
  const Names all = links_of_pods(node);
  Names managed = all;
  std::erase_if(managed, [&](const auto& link) { return is_covered(cluster.unmanaged, link); });
  if (managed.empty()) return {};
  std::string devices;
  for (const std::string& link : all) {
    const std::string device = cat("interface-name:", pattern_of(link));
    if (devices.find(device) == devices.npos) devices += cat(devices.empty() ? "" : ";", device);
  }
  return {{Level::kWarning, cat("NetworkManager manages links of pods: ", joined(managed)),
           "it may remove their routes and addresses, or set them down",
           cat("printf '[keyfile]\\nunmanaged-devices+=", devices,
               "\\n' >/etc/NetworkManager/conf.d/90-patchbay.conf && systemctl reload "
               "NetworkManager")}};
}

// systemd-udevd gives new bridges a MAC address of its own (MACAddressPolicy=persistent, the
// default) after the plugin made them. The plugin bridge of this project sets the address.
Findings check_mac_policy(const Node& node) {
  const Cluster& cluster = *node.cluster;
  const PluginFile* const bridge = node.program("bridge");
  if (cluster.process("systemd-udevd") == nullptr || bridge == nullptr) return {};
  if (bridge->file.empty() || !bridge->patchbay.empty()) return {};
  Findings out;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    if (is_covered(cluster.pinned, one.bridge)) continue;
    out.push_back(
        {Level::kWarning,
         cat("systemd-udevd may change the MAC address of bridge '", one.bridge, "'"),
         cat("'", bridge->file,
             "' does not set the address, and the first pods keep the "
             "old one in their neighbour entries"),
         cat("mkdir -p /etc/systemd/network && printf '[Match]\\nOriginalName=", one.bridge,
             "\\n[Link]\\nMACAddressPolicy=none\\n' >/etc/systemd/network/10-", one.bridge,
             ".link && udevadm control --reload"),
         {one.list->name}});
  }
  return out;
}

}  // namespace tool::doctor::kubernetes
