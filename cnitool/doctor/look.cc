#include "cnitool/doctor/look.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/doctor/facts.h"
#include "cnitool/processes.h"
#include "cnitool/sightings.h"
#include "libcni/common/dir.h"
#include "libcni/common/lock.h"
#include "libcni/config/json.h"
#include "libcni/config/names.h"
#include "libcni/plugin/log.h"
#include "libcni/plugin/node_tool.h"
#include "netlink/route/socket.h"
#include "netlink/sysctl.h"
#include "plugins/names/state.h"

namespace tool::doctor {

namespace {

namespace fs = std::filesystem;
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

Place place_of(const std::string& path) {
  Place out{.path = path};
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return out;
  constexpr unsigned kPermissions = 07777;
  out.is_there = true;
  out.mode = about.st_mode & kPermissions;
  out.uid = about.st_uid;
  return out;
}

bool has_own_tables(const std::string& config) try {
  return std::ranges::any_of(cni::list_from(config).plugins, [](const cni::PluginConf& plugin) {
    return cni::stands_for(plugin.type, "sbr") || cni::stands_for(plugin.type, "vrf");
  });
} catch (const cni::Error&) {  // any runtime may have written it
  return false;
}

AttachmentState attachment_of(const cni::CachedAttachment& cached) {
  return {.key = cached.key,
          .pod = pod_name_of(cached),
          .netns = cached.netns,
          .modified = cached.modified,
          .stamp = cached.stamp,
          .is_finished = !cached.result->is_null(),
          .has_own_tables = has_own_tables(cached.config),
          .liveness = cni::liveness_of(cached.netns, cached.key.ifname),
          .result = result_of(cached),
          .host_ports = host_ports_of(cached)};
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
    node.attachments.push_back(std::move(state));
  }
  node.broken = std::move(found.broken);
  node.unlisted = unlisted_in(seen, found.attachments);
  std::erase_if(node.unlisted, [&](const Unlisted& one) { return !node.which.has(one.key); });
}

void look_by_plugins(Node& node, const cni::RuntimeOptions& options, Steps& steps) {
  node.looks = looks_of(node, options, steps);
  node.unlisted_looks = restore_leases(node.unlisted, node.networks, cni::Runtime(options), true);
}

void look_at_routes(Node& node) {
  netlink::RouteSocket socket;
  node.links = socket.links();
  for (const Family family : netlink::kFamilies) {
    for (const auto& route : socket.routes(family)) node.routes.push_back(route);
    for (const auto& route : socket.refusals(family)) node.refusals.push_back(route);
  }
  node.addresses = socket.addresses();
}

// Calls fn with the name and content of each state file. One that cannot be parsed, or lacks a key,
// is passed over, as by the plugin that wrote it.
template <class Fn>
void for_each_state(const std::string& path, Fn fn) {
  const auto dir = cni::Dir::open(path);
  if (!dir) return;
  for (const std::string& name : dir->names()) {
    const auto file = dir->read(name);
    if (!file) continue;
    try {
      const nlohmann::json doc = cni::parse_json(file->content, name);
      fn(name, cni::Reader(doc));
    } catch (const cni::Error&) {
      continue;
    }
  }
}

void look_at_leases(Node& node) {
  for_each_state(names::kDhcpStateDir, [&](const std::string& name, const cni::Reader& root) {
    auto lease = lease_in(root);
    if (!lease || !node.which.has(lease->key)) return;
    if (tag_of(lease->key) == name) node.leases.push_back(*std::move(lease));
  });
  // A daemon of an earlier release may run if the file does not exist.
  const std::string lock = cat(names::kDhcpStateDir, names::kLockSuffix);
  const netlink::Fd fd(::open(lock.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  node.lacks_lease_daemon = fd && cni::lock_holder(fd.get()).empty();
}

std::string nearest(const std::string& path) {
  fs::path at = path;
  std::error_code ignored;
  while (!fs::exists(at, ignored) && at.has_relative_path()) at = at.parent_path();
  return at.string();
}

std::optional<FileSystem> file_system_of(const std::string& path) {
  constexpr long kTmpfs = 0x01021994, kRamfs = 0x858458f6;  // linux/magic.h
  struct statfs about {};
  if (::statfs(nearest(path).c_str(), &about) != 0) return std::nullopt;
  FileSystem out{.path = path};
  out.in_memory = about.f_type == kTmpfs || about.f_type == kRamfs;
  out.read_only = (about.f_flags & ST_RDONLY) != 0;
  const auto part = [](auto free, auto all) {
    return all == 0 ? 1.0 : static_cast<double>(free) / static_cast<double>(all);
  };
  out.free_bytes = part(about.f_bavail, about.f_blocks);
  out.free_files = part(about.f_ffree, about.f_files);
  return out;
}

void look_at_places(Node& node, const std::string& conf_dir) {
  std::set<std::string> paths{conf_dir, node.cache_dir, node.cache_dir + "/results"};
  for (const cni::NetworkList& list : node.networks.lists) paths.insert(list.file);
  for (const auto& broken : node.networks.broken) paths.insert(broken.file);
  for (const PluginFile& program : node.programs) {
    if (!program.file.empty()) paths.insert(program.file);
  }
  for (const std::string& dir : node.plugin_path) paths.insert(dir);
  std::set<std::string> state{node.cache_dir};
  for (const Pool& pool : node.pools) {
    paths.insert(pool.dir);
    state.insert(pool.dir);
  }
  for (const std::string& path : paths) node.places.push_back(place_of(path));
  std::set<dev_t> seen;
  for (const std::string& path : state) {
    struct stat about {};
    if (::stat(nearest(path).c_str(), &about) != 0 || !seen.insert(about.st_dev).second) continue;
    if (const auto found = file_system_of(path)) node.file_systems.push_back(*found);
  }
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
  node.programs = programs_of(node.networks, options);
  node.mixed_up = mixed_up_in(options.path);
  if (::geteuid() != 0) {
    node.unseen.emplace(Source::kStatus, "only root's plugins can answer STATUS");
  } else {
    node.complaints = complaints_of(node.networks, node.programs, options);
  }
  read(node, Source::kCache, [&] { look_at_cache(node); });
  look_at_unfinished(node, settings.path, env);
  read(node, Source::kPools, [&] {
    for (const auto& list : node.networks.lists) {
      for (Pool& pool : pools_of(list)) node.pools.push_back(std::move(pool));
    }
  });
  read(node, Source::kRoutes, [&] { look_at_routes(node); });
  read(node, Source::kLeases, [&] { look_at_leases(node); });
  read(node, Source::kAgents, [&] { node.device_agents = device_agents(node.networks.lists); });
  if (::geteuid() != 0) {
    for (const Source source : {Source::kPods, Source::kLeftovers}) {
      node.unseen.emplace(source, "only root's plugins can look at pods");
    }
  } else {
    options.pass_stderr = false;
    options.lock_limit = std::chrono::seconds(5);
    options.known_verbs = std::make_shared<cni::KnownVerbs>();
    read(node, Source::kPods, [&] { look_by_plugins(node, options, steps); });
    read(node, Source::kLeftovers, [&] { node.leftovers = all_leftovers(node, options); });
  }
  read(node, Source::kFirewall, [&] { node.firewall = read_firewall(); });
  look_at_places(node, settings.conf_dir);
  return node;
}

}  // namespace tool::doctor
