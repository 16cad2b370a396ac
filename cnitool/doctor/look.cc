#include "cnitool/doctor/look.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/block_pools.h"
#include "cnitool/delegate.h"
#include "cnitool/doctor/agents.h"
#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/leftovers.h"
#include "cnitool/doctor/places.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/json_at.h"
#include "cnitool/known_plugins.h"
#include "cnitool/leases.h"
#include "cnitool/node_runtimes.h"
#include "cnitool/pool.h"
#include "cnitool/processes.h"
#include "cnitool/sightings.h"
#include "libcni/common/dir.h"
#include "libcni/common/lock.h"
#include "libcni/plugin/log.h"
#include "libcni/plugin/node_tool.h"
#include "libcni/plugin/plugin.h"
#include "netlink/route/address.h"
#include "netlink/route/bridge_vlan.h"
#include "netlink/route/route.h"
#include "netlink/route/socket.h"
#include "netlink/sysctl.h"
#include "plugins/names/state.h"

namespace tool::doctor {

namespace {

using netlink::Family;

// Remembers why a source cannot be read, and goes on with the others.
template <class Fn>
void read(Node& node, Source source, Fn&& fn) {
  try {
    fn();
  } catch (const std::exception& e) {
    node.unseen.emplace(source, e.what());
  }
}

std::set<std::string> types_in(const std::string& config) try {
  return types_of(cni::list_from(config));
} catch (const cni::Error&) {  // any runtime may have written it
  return {};
}

bool has_own_tables(const std::set<std::string>& types) {
  return std::ranges::any_of(types, [](const std::string& type) {
    return facts_of(type).has_one_of({cni::Fact::kSourceRoutes, cni::Fact::kVrf});
  });
}

AttachmentState attachment_of(const cni::CachedAttachment& cached) {
  const auto types = types_in(cached.config);
  return {.key = cached.key,
          .pod = pod_name_of(cached),
          .types = types,
          .netns = cached.netns,
          .modified = cached.modified,
          .stamp = cached.stamp,
          .is_finished = !cached.result->is_null(),
          .has_own_tables = has_own_tables(types),
          .liveness = cni::liveness_of(cached.netns, cached.key.ifname),
          .result = result_of(cached),
          .host_ports = host_ports_of(cached)};
}

// As of Multus, whose configs are in the API server.
void add_attached(Node& node, const cni::CachedAttachment& one) try {
  const bool is_known = node.network(one.key.network) != nullptr ||
                        find_by(node.attached, &cni::NetworkList::name, one.key.network) != nullptr;
  if (!is_known) node.attached.push_back(cni::list_from(one.config));
} catch (const cni::Error&) {  // any runtime may have written it
}

void look_at_cache(Node& node) {
  cni::Cache::Listing found = cni::Cache(node.cache_dir).list();
  sort_by_pod(found.attachments);
  const Sightings seen = look_at_pods(found.attachments);
  for (const auto& one : found.attachments) {
    AttachmentState state = attachment_of(one);
    const bool is_dead = life_of(one, seen) == cni::Life::kDead;
    if (state.liveness == cni::Liveness::kNoNamespace && !is_dead) {
      state.liveness = cni::Liveness::kUnknown;  // the node has its host veth
      state.lost_its_name = state.is_finished;
      state.seen_at = seen.path_of(one.key);
    }
    if (state.is_alive()) add_attached(node, one);
    node.attachments.push_back(std::move(state));
  }
  node.broken = std::move(found.broken);
  node.unlisted = unlisted_in(seen, found.attachments);
  std::erase_if(node.unlisted, [&](const Unlisted& one) { return !node.which.has(one.key); });
}

void look_by_plugins(Node& node, const cni::RuntimeOptions& options, Steps& steps) {
  node.looks = looks_of(node, options, steps);
  auto unlisted = node.unlisted;
  std::erase_if(unlisted, [&](const Unlisted& one) { return !node.which.has(one.key); });
  node.unlisted_looks = restore_leases(unlisted, node.networks, cni::Runtime(options), true);
}

// Of ports that lead elsewhere than to a pod. Linux 5.6 is the first that is asked so.
void look_at_port_vlans(Node& node, netlink::RouteSocket& socket) try {
  for (const netlink::Link& one : node.links) {
    const netlink::Link* const bridge = one.master != 0 ? node.link(one.master) : nullptr;
    if (bridge == nullptr || !bridge->vlan_filtering || one.peer_nsid) continue;
    node.port_vlans[one.index] = socket.vlans(one);
  }
} catch (const netlink::Error&) {
  node.port_vlans.clear();
}

std::set<std::string> links_in(const std::vector<cni::NetworkList>& lists) {
  std::set<std::string> out;
  for (const cni::NetworkList& list : lists) {
    for (const cni::PluginConf& named : list.plugins) {
      const cni::PluginConf plugin = effective(named);
      if (!plugin.conf->is_object()) continue;
      for (const char* const key : {"master", "bridge"}) out.insert(text_at(*plugin.conf, key));
    }
  }
  out.erase("");
  return out;
}

// The kernel finds a link by any of its names, and refuses a name that none can have.
void look_at_other_names(Node& node, netlink::RouteSocket& socket) {
  std::set<std::string> names = links_in(node.networks.lists);
  names.merge(links_in(node.attached));
  for (const std::string& name : names) {
    try {
      const auto link = node.link(name) == nullptr ? socket.find(name) : std::nullopt;
      if (link) node.other_names[name] = link->index;
    } catch (const netlink::Error&) {
      continue;
    }
  }
}

void look_at_routes(Node& node) {
  netlink::RouteSocket socket;
  node.links = socket.links();
  look_at_other_names(node, socket);
  look_at_port_vlans(node, socket);
  for (const Family family : netlink::kFamilies) {
    for (const auto& route : socket.routes(family)) node.routes.push_back(route);
    for (const auto& route : socket.refusals(family)) node.refusals.push_back(route);
  }
  node.addresses = socket.addresses();
}

void look_at_leases(Node& node) {
  node.leases = dhcp_leases();
  std::erase_if(node.leases, [&](const DhcpLease& one) { return !node.which.has(one.key); });
  // A daemon of an earlier release may run if the file does not exist.
  const std::string lock = cat(names::kDhcpStateDir, names::kLockSuffix);
  const netlink::Fd fd(::open(lock.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  node.lacks_lease_daemon = fd && cni::lock_holder(fd.get()).empty();
}

std::optional<std::string> setting(const std::string& key) {
  try {
    return netlink::read_sysctl(key);
  } catch (const netlink::Error&) {
    return std::nullopt;  // of root alone
  }
}

void look_at_system(Node& node) {
  node.sysctl = setting;
  node.has_iptables = cni::find_node_tool("iptables-restore").has_value();
  node.has_ufw = cni::find_node_tool("ufw").has_value();
  node.runs_firewalld = !processes([](const std::string& name, const std::string& /*file*/) {
                           return name == "firewalld";
                         }).empty();
  node.runtimes = node_runtimes();
}

void look_at_programs(Node& node, const cni::RuntimeOptions& options) {
  node.programs = programs_of(node, options);
  const bool needs_install = std::ranges::any_of(node.programs, [](const PluginFile& one) {
    return one.is_broken() || (!one.patchbay.empty() && one.patchbay != cni::build_version());
  });
  if (needs_install) node.suite = find_suite(options.path);
  for (PluginFile& one : node.programs) {  // an executable of one plugin works by any other name
    if (!node.suite.plugins.contains(one.type)) one.another.clear();
  }
}

// Calls the plugins. Those that would wait for a lock without an end are left out.
void look_at_plugins(Node& node, cni::RuntimeOptions options, Steps& steps) {
  if (::geteuid() != 0) {
    node.unseen.emplace(Source::kStatus, "only root's plugins can answer STATUS");
    for (const Source source : {Source::kPods, Source::kLeftovers}) {
      node.unseen.emplace(source, "only root's plugins can look at pods");
    }
    return;
  }
  node.held_locks = held_locks(node);
  node.complaints = complaints_of(node, options);
  options.pass_stderr = {};
  options.lock_limit = std::chrono::seconds(5);
  options.known_verbs = std::make_shared<cni::KnownVerbs>();
  for (const HeldLock& one : node.held_locks) {
    node.which.without.insert(one.networks.begin(), one.networks.end());
  }
  read(node, Source::kPods, [&] { look_by_plugins(node, options, steps); });
  node.which.without.clear();
  read(node, Source::kPods, [&] { node.later_files = later_files(node); });
  read(node, Source::kPods, [&] { node.taken_ports = taken_ports(node); });
  read(node, Source::kLeftovers, [&] { node.leftovers = all_leftovers(node, options); });
}

cni::RuntimeOptions looking_options(const Settings& settings, const cni::Env& env) {
  cni::RuntimeOptions out = runtime_options(settings, env);
  out.limit = std::chrono::seconds(10);
  out.env.erase(cni::kLogVariable);  // what is looked at is not written to
  return out;
}

}  // namespace

Node look_at_node(const Settings& settings, const Selection& which, const cni::Env& env,
                  Steps& steps) {
  Node node;
  node.which = which;
  node.now = std::time(nullptr);
  node.cache_dir = settings.cache_dir;
  look_at_system(node);
  cni::RuntimeOptions options = looking_options(settings, env);
  node.plugin_path = options.path;
  node.networks.dir = settings.conf_dir;
  read(node, Source::kNetworks, [&] { node.networks = cni::load_networks(settings.conf_dir); });
  read(node, Source::kCache, [&] { look_at_cache(node); });
  look_at_programs(node, options);
  look_at_unfinished(node, settings.path, env);
  read(node, Source::kPools, [&] {
    for (const auto& list : node.networks.lists) {
      for (Pool& pool : pools_of(list)) node.pools.push_back(std::move(pool));
    }
    node.other_pools = other_pools(node.pools, node.networks);
    node.block_pools = block_pools();
  });
  read(node, Source::kRoutes, [&] {
    look_at_routes(node);
    node.ruled_away = ruled_away(node);
  });
  read(node, Source::kLeases, [&] { look_at_leases(node); });
  read(node, Source::kAgents, [&] { node.device_agents = device_agents(node.networks.lists); });
  look_at_plugins(node, options, steps);
  node.stranded = stranded_connections(node);
  read(node, Source::kFirewall, [&] { node.firewall = read_firewall(); });
  look_at_places(node, settings.conf_dir);
  return node;
}

}  // namespace tool::doctor
