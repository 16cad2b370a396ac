#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>

#include "cnitool/doctor/kubernetes/checks.h"
#include "cnitool/doctor/kubernetes/look.h"
#include "cnitool/known_plugins.h"
#include "cnitool/output.h"
#include "libcni/common/dir.h"
#include "libcni/common/split.h"
#include "netlink/route/socket.h"
#include "netlink/types/error.h"
#include "netlink/types/fd.h"

// Programs that manage links which are not theirs.
namespace tool::doctor::kubernetes {

namespace {

bool is_covered(const std::vector<std::string>& patterns, const std::string& link) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), link.c_str(), 0) == 0;
  });
}

// Bridges and overlay networks. Host veths NetworkManager leaves alone by its own rules of udev.
Names links_of_pods(const Node& node) {
  Names out;
  const auto add = [&out](const std::string& link) {
    if (std::ranges::find(out, link) == out.end()) out.push_back(link);
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

struct Setting {
  std::string section, key, value;
};

std::string_view without_blanks(std::string_view text) {
  constexpr const char* kBlanks = " \t\r";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<Setting> settings_in(const std::string& file) {
  std::string text;
  try {
    text = netlink::read_regular_file(file).value_or("");
  } catch (const netlink::Error&) {  // of root alone
    return {};
  }
  std::vector<Setting> out;
  std::string section;
  for (std::string_view line : cni::split(text, "\n")) {
    line = without_blanks(line);
    if (line.starts_with('[') && line.ends_with(']')) section = line.substr(1, line.size() - 2);
    const auto equals = line.find('=');
    if (line.empty() || line[0] == '#' || line[0] == ';' || equals == line.npos) continue;
    out.push_back({section, std::string(without_blanks(line.substr(0, equals))),
                   std::string(without_blanks(line.substr(equals + 1)))});
  }
  return out;
}

// Files of several directories by name: one of an earlier directory hides that of a later one.
std::map<std::string, std::string> files_of(const std::vector<std::string>& dirs,
                                            std::string_view suffix) {
  std::map<std::string, std::string> out;
  for (const std::string& dir : dirs) {
    for (const std::string& name : cni::names_in(dir)) {
      if (name.ends_with(suffix)) out.emplace(name, cat(dir, "/", name));
    }
  }
  return out;
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
  const auto bridge = std::ranges::find_if(node.programs, [](const PluginFile& one) {
    return facts_of(one.type).has(cni::Fact::kBridge);
  });
  if (cluster.process("systemd-udevd") == nullptr || bridge == node.programs.end()) return {};
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

// NetworkManager.conf(5): "unmanaged-devices" of [keyfile], and of a [device...] section "managed".
std::vector<std::string> unmanaged_links() {
  std::vector<std::string> files;
  for (const auto& [name, file] :
       files_of({"/etc/NetworkManager/conf.d", "/run/NetworkManager/conf.d",
                 "/usr/lib/NetworkManager/conf.d"},
                ".conf")) {
    files.push_back(file);
  }
  files.insert(files.begin(), "/etc/NetworkManager/NetworkManager.conf");
  constexpr std::string_view kName = "interface-name:";
  std::vector<std::string> out;
  for (const std::string& file : files) {
    for (const Setting& one : settings_in(file)) {
      if (one.section != "keyfile" || !one.key.starts_with("unmanaged-devices")) continue;
      if (one.key == "unmanaged-devices") out.clear();  // another file's, which this replaces
      for (const auto device : cni::split(one.value, ";,")) {
        if (device.starts_with(kName)) out.emplace_back(device.substr(kName.size()));
      }
    }
  }
  return out;
}

// systemd.link(5): of all files the first one that matches is applied, and no other.
std::vector<std::string> pinned_links() {
  std::vector<std::string> out;
  for (const auto& [name, file] : files_of({"/etc/systemd/network", "/run/systemd/network",
                                            "/usr/lib/systemd/network", "/lib/systemd/network"},
                                           ".link")) {
    std::vector<std::string> links;
    bool pins = false;
    for (const Setting& one : settings_in(file)) {
      if (one.section == "Match" && one.key == "OriginalName") {
        for (const auto pattern : cni::split(one.value, " ")) links.emplace_back(pattern);
      }
      pins |= one.section == "Link" && one.key == "MACAddressPolicy" && one.value == "none";
    }
    const bool is_for_all = std::ranges::find(links, "*") != links.end();
    if (pins) out.insert(out.end(), links.begin(), links.end());
    if (is_for_all) break;
  }
  return out;
}

std::vector<std::string> lost_kinds_of(const cni::Networks& networks) {
  std::set<std::string> kinds;
  for (const cni::NetworkList& list : networks.lists) {
    for (const cni::PluginConf& plugin : list.plugins) {
      const char* const kind = facts_of(plugin.type).link_kind();
      if (kind != nullptr) kinds.insert(kind);
    }
  }
  std::vector<std::string> out;
  try {
    netlink::RouteSocket socket;
    for (const std::string& kind : kinds) {
      if (!socket.knows_kind(kind)) out.push_back(kind);
    }
  } catch (const netlink::Error&) {
    return {};  // Source::kRoutes says why
  }
  return out;
}

}  // namespace tool::doctor::kubernetes
