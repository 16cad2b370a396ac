#include "cnitool/doctor/facts.h"

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/delegate.h"
#include "cnitool/json_at.h"
#include "cnitool/output.h"
#include "libcni/config/names.h"
#include "plugins/names/links.h"

namespace tool::doctor {

namespace {

using netlink::Cidr;
using netlink::Family;
using nlohmann::json;

// The config of the first plugin that stands for this one, or is its delegate.
std::optional<json> conf_of(const cni::NetworkList& list, std::string_view plugin) {
  for (const cni::PluginConf& one : list.plugins) {
    const cni::PluginConf found = effective(one);
    if (cni::stands_for(found.type, plugin) && found.conf->is_object()) return *found.conf;
  }
  return std::nullopt;
}

}  // namespace

std::vector<BridgeNetwork> routed_networks(const Node& node) {
  std::vector<BridgeNetwork> out;
  for (const cni::NetworkList& list : node.networks.lists) {
    const json* const firewall = plugin_of(list, "firewall");
    for (const char* const type : {"bridge", "ptp"}) {
      const auto conf = conf_of(list, type);
      if (!conf) continue;
      out.push_back(
          {.list = &list,
           .bridge = type == std::string_view("ptp")
                         ? ""
                         : text_at(*conf, "bridge", names::kDefaultBridge),
           .is_gateway = is_true(*conf, "isGateway") || is_true(*conf, "isDefaultGateway"),
           .masquerades = is_true(*conf, "ipMasq"),
           .hairpin = is_true(*conf, "hairpinMode"),
           .promiscuous = is_true(*conf, "promiscMode"),
           .is_delegate = plugin_of(list, type) == nullptr,
           .masq_except = strings_at(*conf, "ipMasqExcept"),
           .masquerade_backend = text_at(*conf, "ipMasqBackend"),
           .mtu = static_cast<unsigned>(number_at(*conf, "mtu")),
           .vlan = static_cast<unsigned>(number_at(*conf, "vlan")),
           .has_ports = plugin_of(list, "portmap") != nullptr});
      if (firewall != nullptr) out.back().firewall = text_at(*firewall, "backend");
    }
  }
  return out;
}

std::vector<BridgeNetwork> bridge_networks(const Node& node) {
  auto out = routed_networks(node);
  std::erase_if(out, [](const BridgeNetwork& one) { return one.bridge.empty(); });
  return out;
}

bool is_routed(const cni::NetworkList& list) {
  const std::string type = effective(list.plugins.front()).type;
  return cni::stands_for(type, "bridge") || cni::stands_for(type, "ptp");
}

std::vector<Subnet> subnets(const Node& node) {
  std::vector<Subnet> out;
  for (const Pool& pool : node.pools) {
    const cni::NetworkList* const list = node.network(pool.network);
    if (list != nullptr && !is_routed(*list)) continue;
    for (const auto& set : pool.sets) {
      for (const auto& range : set.ranges) out.push_back({pool.network, pool.file, range});
    }
  }
  return out;
}

bool overlap(const Cidr& a, const Cidr& b) { return a.contains(b.ip) || b.contains(a.ip); }

const netlink::Link* renamed_bridge(const Node& node, const BridgeNetwork& network) {
  if (network.bridge.empty() || node.link(network.bridge) != nullptr) return nullptr;
  for (const AttachmentState& one : node.attachments) {
    if (!one.is_alive() || one.key.network != network.list->name) continue;
    for (const netlink::Link& link : node.links) {
      if (link.master == 0 || !link.alias.starts_with(one.key.tag())) continue;
      const netlink::Link* const master = node.link(link.master);
      if (master != nullptr && master->kind == "bridge") return master;
    }
  }
  return nullptr;
}

std::set<int> own_links(const Node& node, const std::string& network) {
  std::set<int> out;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    if (one.list->name != network) continue;
    if (const netlink::Link* const link = renamed_bridge(node, one)) out.insert(link->index);
    for (const std::string& name : {one.bridge, cat(one.bridge, ".", one.vlan)}) {
      if (const netlink::Link* const link = node.link(name)) out.insert(link->index);
    }
  }
  return out;
}

bool uses(const Node& node, Family family, const std::string& network) {
  for (const Subnet& one : subnets(node)) {
    if (one.network == network && one.range.start.family() == family) return true;
  }
  const cni::NetworkList* const list = node.network(network);
  if (list != nullptr && !is_routed(*list)) return false;
  return std::any_of(node.attachments.begin(), node.attachments.end(), [&](const auto& one) {
    const auto& ips = one.result.ips;
    return one.is_alive() && one.key.network == network &&
           std::any_of(ips.begin(), ips.end(),
                       [&](const auto& ip) { return ip.cidr.ip.family() == family; });
  });
}

bool uses(const Node& node, Family family) {
  std::set<std::string> networks;
  for (const Subnet& one : subnets(node)) networks.insert(one.network);
  for (const AttachmentState& one : node.attachments) networks.insert(one.key.network);
  return std::any_of(networks.begin(), networks.end(),
                     [&](const std::string& network) { return uses(node, family, network); });
}

bool is_asked_for(const Node& node, const std::string& network) {
  return !node.is_of_one_pod() ||
         std::any_of(node.attachments.begin(), node.attachments.end(), [&](const auto& one) {
           return one.key.network == network && node.which.has(one.key);
         });
}

std::set<std::string> types_of(const cni::PluginConf& plugin) {
  const cni::PluginConf made = effective(plugin);
  std::set<std::string> out{plugin.type, made.type, ipam_type_of(made)};
  std::erase_if(out, [](const std::string& type) { return type.empty(); });
  return out;
}

std::set<std::string> types_of(const cni::NetworkList& list) {
  std::set<std::string> out;
  for (const cni::PluginConf& plugin : list.plugins) out.merge(types_of(plugin));
  return out;
}

Names users_of(const Node& node, std::string_view type) {
  Names out;
  for (const cni::NetworkList& list : node.networks.lists) {
    if (types_of(list).contains(std::string(type))) out.push_back(list.name);
  }
  return out;
}

const PluginFile* broken_of(const Node& node, const std::set<std::string>& types) {
  const auto found = std::find_if(
      node.programs.begin(), node.programs.end(),
      [&](const PluginFile& one) { return types.contains(one.type) && one.is_broken(); });
  return found == node.programs.end() ? nullptr : &*found;
}

bool is_locked(const Node& node, const std::string& network) {
  return std::any_of(node.held_locks.begin(), node.held_locks.end(),
                     [&](const HeldLock& one) { return one.networks.contains(network); });
}

bool is_full(const FileSystem& one) {
  constexpr double kFull = 0.001;
  return std::min(one.free_bytes, one.free_files) < kFull;
}

bool is_of_disk(const Node& node, std::string_view error) {
  const auto has = [&](int number, auto&& is_so) {
    return error.find(netlink::errno_text(number)) != error.npos &&
           std::any_of(node.file_systems.begin(), node.file_systems.end(), is_so);
  };
  const bool is_named = std::ranges::any_of(
      node.no_folders, [&](const std::string& path) { return error.find(path) != error.npos; });
  if (is_named && error.find(netlink::errno_text(ENOTDIR)) != error.npos) return true;
  return has(EROFS, [](const FileSystem& one) { return one.read_only; }) || has(ENOSPC, is_full);
}

Names networks_with(const Node& node, Family family) {
  Names out;
  for (const BridgeNetwork& one : routed_networks(node)) {
    if (uses(node, family, one.list->name)) out.push_back(one.list->name);
  }
  return out;
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

std::vector<std::string> uplinks(const Node& node, Family family) {
  std::vector<std::string> out;
  for (const netlink::LinkRoute& route : node.routes) {
    if (!route.dst.is_default() || route.dst.ip.family() != family || route.table != kMainTable)
      continue;
    const netlink::Link* const link = node.link(route.link);
    if (link != nullptr && std::find(out.begin(), out.end(), link->name) == out.end()) {
      out.push_back(link->name);
    }
  }
  return out;
}

std::string collect(const Node& node, const std::string& network) try {
  const cni::NetworkList* const list = node.network(network);
  if (list != nullptr && list->disable_gc)
    return cat("in ", list->file, " set \"disableGC\": false");
  const bool in_cluster = node.cluster != nullptr;  // the directories are the runtime's
  const std::string path = in_cluster ? cat(" --path ", joined(node.plugin_path, ":")) : "";
  // GC is of 1.1.0. The file stays: k3s writes it at each start, and containerd 1.6 needs its
  // version.
  if (list != nullptr && !list->is_at_least("1.1.0")) {
    nlohmann::json plugins = nlohmann::json::array();
    for (const cni::PluginConf& one : list->plugins) plugins += *one.conf;
    return cat(collect_with(network, plugins), path);
  }
  const std::string dir = in_cluster ? cat(" --conf-dir ", node.networks.dir) : "";
  return cat("cnitool gc ", network, " --keep-alive", dir, path);
} catch (const cni::Error&) {  // no version that is known
  return cat("cnitool validate ", node.network(network)->file);
}

std::string collect_with(const std::string& network, const nlohmann::json& plugins) {
  const nlohmann::json list{{"cniVersion", "1.1.0"}, {"name", network}, {"plugins", plugins}};
  return cat("d=$(mktemp -d) && printf %s ", quoted(list.dump()),
             " > $d/gc.conflist && cnitool gc ", network, " --keep-alive --conf-dir $d");
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMax = 3;
  std::string out;
  for (std::size_t i = 0; i < std::min(kMax, names.size()); ++i) {
    out += cat(i == 0 ? "" : ", ", names[i]);
  }
  return names.size() > kMax ? cat(out, " and ", names.size() - kMax, " more") : out;
}

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string name_of(const Node& node, const cni::AttachmentKey& key) {
  const std::string id = key.container_id.substr(0, 12);
  const auto* const own = find_by(node.attachments, &AttachmentState::key, key);
  const std::string pod = own == nullptr ? "" : own->pod;
  const bool is_shared = std::any_of(
      node.attachments.begin(), node.attachments.end(),
      [&](const auto& one) { return one.pod == pod && one.key.container_id != key.container_id; });
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
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  constexpr std::size_t kMax = 10;  // more are read in the lines of the finding
  if (names.size() > kMax) return "restart these pods";
  return cat("restart the pod", names.size() == 1 ? " " : "s ", joined(names));
}

}  // namespace tool::doctor
