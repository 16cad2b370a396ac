#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>

#include "cnitool/doctor/kubernetes/look.h"
#include "cnitool/pool.h"
#include "libcni/common/dir.h"
#include "libcni/common/split.h"
#include "libcni/config/names.h"
#include "netlink/route/socket.h"
#include "netlink/types/error.h"
#include "netlink/types/fd.h"

// Reads what other programs do with links from their configs, which have the form of INI files.
namespace tool::doctor::kubernetes {

namespace {

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

std::string kind_of_link(const std::string& type) {
  constexpr std::pair<const char*, const char*> kKinds[] = {
      {"bridge", "bridge"}, {"ptp", "veth"},    {"vlan", "vlan"}, {"macvlan", "macvlan"},
      {"ipvlan", "ipvlan"}, {"dummy", "dummy"}, {"vrf", "vrf"},   {"bandwidth", "ifb"},
  };
  for (const auto& [plugin, kind] : kKinds) {
    if (cni::stands_for(type, plugin)) return kind;
  }
  return {};
}

}  // namespace

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
    const bool is_for_all = std::find(links.begin(), links.end(), "*") != links.end();
    if (pins) out.insert(out.end(), links.begin(), links.end());
    if (is_for_all) break;
  }
  return out;
}

std::vector<std::string> lost_kinds_of(const cni::Networks& networks) {
  std::set<std::string> kinds;
  for (const cni::NetworkList& list : networks.lists) {
    for (const cni::PluginConf& plugin : list.plugins) kinds.insert(kind_of_link(plugin.type));
  }
  kinds.erase("");
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
