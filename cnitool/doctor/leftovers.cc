#include "cnitool/doctor/leftovers.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/places.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/known_plugins.h"
#include "cnitool/node_runtimes.h"
#include "cnitool/output.h"
#include "cnitool/pool.h"
#include "libcni/common/dir.h"
#include "libcni/config/names.h"
#include "libcni/runtime/plugin_call.h"
#include "plugins/facts.h"
#include "plugins/names/links.h"
#include "plugins/names/networks.h"
#include "plugins/names/state.h"

// Finds what GC would remove. Another runtime may keep another cache, so that nothing here is more
// than a warning.
namespace tool::doctor {

namespace {

using cni::Fact;
using cni::NetworkList;
using cni::PluginConf;
using cni::RuntimeOptions;
using netlink::Link;
using nlohmann::json;

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

constexpr const char* kGivenAway =
    "the IPAM plugin gives their addresses to other pods, and packets then reach only one of the "
    "two";

// Restoration::taken() of host-local says so.
bool is_taken(const cni::Error& error) {
  return std::string_view(error.what()).find(": another one has it: ") != std::string_view::npos;
}

// Another check reports what hinders the IPAM plugin and says nothing of the pod.
bool is_other_fault(const Node& node, const Repaired& one) {
  const cni::NetworkList* const list = node.network(one.key.network);
  return (list != nullptr && broken_of(node, types_of(*list)) != nullptr) ||
         (one.report.error && is_of_disk(node, text_of(*one.report.error)));
}

// An attachment whose lease `cnitool repair` does not write. A restart is named only where nothing
// else gives the pod a lease.
Finding unrepairable(const Node& node, const Repaired& one) {
  const auto& error = one.report.error;
  Finding out{Level::kUnknown,
              cat("network '", one.key.network, "', ", name_of(node, one.key),
                  ", without a cache entry: ", error ? text_of(*error) : one.why),
              "its address may have no lease, and another pod can get it",
              "",
              {one.key.network}};
  if (one.is_unseen) {
    out.remedy = "nsenter -t 1 -m cnitool doctor";
  } else if (!error) {
    out.level = Level::kError;
    out.why += "; a lease has the whole container ID, which only a restart says";
    out.remedy = "restart this pod";
  } else if (is_taken(*error)) {
    out.level = Level::kError;
    out.why = "two pods have one address, and only a restart gives a pod another";
    out.remedy = cat("restart the pod of container ", one.key.container_id);
  }
  return out;
}

// Attachments whose leases were lost with their cache entries. `cnitool repair` writes them again,
// unless it says why it cannot.
void add_without_lease(const Node& node, Findings& out) {
  std::map<std::string, std::vector<std::string>> lost;
  for (const Repaired& one : node.unlisted_looks) {
    const std::string& network = one.key.network;
    if (one.outcome == RepairResult::kBroken) lost[network].push_back(name_of(node, one.key));
    if (one.outcome == RepairResult::kFailed && !is_other_fault(node, one)) {
      out.push_back(unrepairable(node, one));
    }
  }
  for (const auto& [network, names] : lost) {
    out.push_back({Level::kError,
                   cat("network '", network, "' has ", counted(names.size(), "attachment"),
                       " without a cache entry and a lease, whose ",
                       names.size() == 1 ? "pod lives: " : "pods live: ", some_of(names)),
                   kGivenAway,
                   cat("cnitool repair ", network),
                   {network}});
  }
}

struct Living {
  std::set<std::string> named = {};
  std::set<std::string> things = {};  ///< of a container that is not known
  bool has_lost = false;              ///< others, which add_without_lease() has
};

// Things of a container that is not known may be of those that are.
void add_living(const std::string& network, const Living& all, Findings& out) {
  const auto& names = all.named.empty() && !all.has_lost ? all.things : all.named;
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

// A network whose plugins can be called, and do not wait for a lock.
bool can_call(const Node& node, const NetworkList& list) {
  return broken_of(node, types_of(list)) == nullptr && !is_locked(node, list.name);
}

bool is_of_patchbay(const std::string& type, const RuntimeOptions& options) try {
  const std::string file = cni::find_plugin(type, options.path);
  return ::access(file.c_str(), X_OK) == 0 && mentions(file, kPatchbayMark);
} catch (const cni::Error&) {
  return false;  // it is not installed
}

// The plugins of this project that keep anything on the node.
std::vector<PluginConf> keepers(const RuntimeOptions& options) {
  std::vector<PluginConf> out;
  for (const auto& [name, facts] : plugins::kFacts) {
    if (!facts.has(Fact::kKeeps)) continue;
    const std::string type(name);
    nlohmann::json conf{{"type", type}};
    if (facts.has(Fact::kBridge)) conf["ipam"] = {{"type", type_with(Fact::kRanges)}};
    if (is_of_patchbay(type, options)) out.push_back({.type = type, .conf = conf});
  }
  return out;
}

// Names of networks without a config, which the cache, the plugins and directories of leases tell.
std::set<std::string> removed_networks(const Node& node, const std::vector<PluginConf>& plugins,
                                       const RuntimeOptions& options) {
  std::set<std::string> out = networks_of(plugins, options);
  for (const AttachmentState& one : node.attachments) out.insert(one.key.network);
  for (const std::string& name : cni::names_in(names::kHostLocalDataDir)) {
    if (!reservations_in(cat(names::kHostLocalDataDir, "/", name)).empty()) out.insert(name);
  }
  std::erase_if(out, [&](const std::string& name) {
    return !cni::is_network_name(name) || node.network(name) != nullptr ||
           names::is_devices_network(name) || !is_asked_for(node, name);
  });
  return out;
}

// The plugins that may have something of a network without a config: those of its attachments in
// the cache, or else all that keep anything.
NetworkList list_for(const std::string& name, const std::string& cache_dir,
                     const std::vector<PluginConf>& plugins) {
  for (const cni::CachedAttachment& one : cni::Cache(cache_dir).list().attachments) {
    if (one.key.network != name) continue;
    try {
      return cni::list_from(one.config);
    } catch (const cni::Error&) {
      continue;  // another runtime's
    }
  }
  NetworkList out;
  out.name = name;
  out.plugins = plugins;
  return out;
}

bool can_answer(const Node& node, const PluginConf& plugin) {
  const auto types = types_of(plugin);
  const bool waits = std::ranges::any_of(types, [&](const std::string& type) {
    return std::ranges::any_of(node.held_locks,
                               [&](const HeldLock& one) { return one.plugins.contains(type); });
  });
  return !waits && broken_of(node, types) == nullptr;
}

}  // namespace

Findings check_leftovers(const Node& node) {
  std::map<std::string, std::vector<std::string>> left;
  std::map<std::string, nlohmann::json> removed;  // plugins of networks without a config
  std::map<std::string, Living> alive;
  std::set<cni::AttachmentKey> lost;
  for (const Repaired& one : node.unlisted_looks) {
    if (one.outcome == RepairResult::kOk) continue;
    lost.insert(one.key);
    alive[one.key.network].has_lost = true;
  }
  for (const auto& [network, found, conf] : node.leftovers) {
    const cni::Leftover& one = found.leftover;
    if (!node.which.has({network, one.container_id, one.ifname})) continue;
    if (is_unknown(one.life)) continue;
    if (one.life == cni::Life::kDead) {
      left[network].push_back(text_of(found));
      auto& plugins = removed[network];
      if (std::ranges::find(plugins, *conf) == plugins.end()) plugins += *conf;
    } else if (!one.ifname.empty()) {
      const cni::AttachmentKey key{network, one.container_id, one.ifname};
      if (!lost.contains(key)) alive[network].named.insert(name_of(node, key));
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
  add_without_lease(node, out);
  for (const auto& [network, all] : alive) add_living(network, all, out);
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

std::vector<NetworkLeftover> all_leftovers(const Node& node, const RuntimeOptions& options) {
  std::vector<NetworkLeftover> out;
  std::set<std::string> seen;
  for (const NetworkList& list : node.networks.lists) {
    if (!is_asked_for(node, list.name) || !seen.insert(list.name).second) continue;
    if (!can_call(node, list)) continue;
    for (auto& one : leftovers_of(list, {}, options))
      out.push_back({list.name, std::move(one), {}});
  }
  auto plugins = keepers(options);
  std::erase_if(plugins, [&](const PluginConf& one) { return !can_answer(node, one); });
  for (const std::string& name : removed_networks(node, plugins, options)) {
    const NetworkList list = list_for(name, node.cache_dir, plugins);
    if (!can_call(node, list)) continue;
    try {
      for (auto& one : leftovers_of(list, {}, options)) {
        const auto* const plugin = find_by(list.plugins, &PluginConf::type, one.plugin);
        out.push_back({name, std::move(one), plugin->conf});
      }
    } catch (const cni::Error&) {
      continue;  // a plugin of that time is not installed
    }
  }
  return out;
}

}  // namespace tool::doctor
