#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "cnitool/delegate.h"
#include "cnitool/doctor/facts.h"
#include "cnitool/doctor/look.h"
#include "cnitool/node_runtimes.h"
#include "cnitool/validate/plugin_facts.h"
#include "libcni/common/dir.h"
#include "libcni/common/hash.h"
#include "libcni/config/names.h"
#include "libcni/plugin/log.h"
#include "libcni/plugin/version_line.h"
#include "libcni/runtime/plugin_call.h"
#include "plugins/names/networks.h"
#include "plugins/names/state.h"

namespace tool::doctor {

namespace {

using cni::NetworkList;
using cni::PluginConf;
using cni::RuntimeOptions;

bool is_file(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
}

// Asks a plugin of this project what it is. Others lack its mark in their file and are not run.
void ask_for_name(PluginFile& of) {
  if (!mentions(of.file, kPatchbayMark)) return;
  const cni::VersionLine said = cni::version_line_of(of.file);
  of.patchbay = said.patchbay;
  if (!said.plugin.empty() && !cni::stands_for(of.type, said.plugin)) of.another = said.plugin;
}

PluginFile program_of(const std::string& type, const RuntimeOptions& options) {
  PluginFile out{.type = type};
  for (const std::string& dir : options.path) {
    const std::string file = cat(dir, "/", type);
    if (!is_file(file)) continue;
    (out.file.empty() ? out.file : out.later.emplace_back()) = file;
  }
  if (out.file.empty()) {
    out.similar = Plugins(joined(options.path, ":"), options.env).similar(type);
    return out;
  }
  out.is_executable = ::access(out.file.c_str(), X_OK) == 0;
  struct statvfs about {};
  out.is_on_noexec = ::statvfs(out.file.c_str(), &about) == 0 && (about.f_flag & ST_NOEXEC) != 0;
  if (!out.is_executable) return out;
  NetworkList list;
  list.name = "doctor";
  list.plugins.push_back({.type = type, .conf = nlohmann::json::object()});
  try {
    out.versions = cni::Runtime(options).versions(list).front().versions;
    ask_for_name(out);
  } catch (const std::exception& e) {
    out.failure = e.what();
  }
  return out;
}

bool know_status(const Node& node, const std::set<std::string>& types) {
  return std::ranges::all_of(types, [&node](const std::string& type) {
    const PluginFile* const program = node.program(type);
    return program != nullptr && !program->is_broken() &&
           std::ranges::count(program->versions, "1.1.0") != 0;
  });
}

// A network whose plugins can be called, and do not wait for a lock.
bool can_call(const Node& node, const NetworkList& list) {
  return broken_of(node, types_of(list)) == nullptr && !is_locked(node, list.name);
}

// containerd adds such a network of its own to each pod, and needs no plugin to remove it.
bool is_of_containerd(const std::set<std::string>& types) {
  return std::ranges::all_of(
      types, [](const std::string& type) { return cni::stands_for(type, "loopback"); });
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
  for (const char* const type : {"bridge", "portmap", "firewall", "bandwidth", "tuning", "sbr",
                                 "vrf", "host-device", "devices"}) {
    nlohmann::json conf{{"type", type}};
    if (type == std::string_view("bridge")) conf["ipam"] = {{"type", "host-local"}};
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

std::vector<Repaired> looks_of(const Node& node, const RuntimeOptions& options, Steps& steps) {
  constexpr std::time_t kLongestAdd = 600;  // seconds; no runtime waits longer
  std::set<cni::AttachmentKey> running;
  for (const AttachmentState& one : node.attachments) {
    if (one.is_running.value_or(false)) running.insert(one.key);
  }
  auto all = cni::Cache(node.cache_dir).list().attachments;
  std::erase_if(all, [&](const cni::CachedAttachment& one) {
    const bool may_go_on = one.result->is_null() &&
                           (running.contains(one.key) || node.now - one.modified <= kLongestAdd);
    return may_go_on || !node.which.has(one.key);
  });
  const cni::Runtime runtime(options);
  std::vector<Repaired> out(all.size());
  std::atomic<std::size_t> next = 0;
  steps.all = all.size();
  const auto work = [&] {
    for (std::size_t i = next++; i < all.size(); i = next++) {
      out[i] = repair_one(all[i], runtime, {.dry_run = true});
      ++steps.done;
    }
  };
  std::vector<std::jthread> others;
  const auto workers = std::min<std::size_t>(std::thread::hardware_concurrency(), all.size());
  for (std::size_t i = 1; i < workers; ++i) others.emplace_back(work);
  work();
  others.clear();
  return out;
}

std::vector<PluginFile> programs_of(const Node& node, const RuntimeOptions& options) {
  std::vector<PluginFile> out;
  const auto add = [&](const std::set<std::string>& types) {
    for (const std::string& type : types) {
      const bool known = find_by(out, &PluginFile::type, type) != nullptr;
      if (!known && type.find('/') == std::string::npos) out.push_back(program_of(type, options));
    }
  };
  for (const NetworkList& list : node.networks.lists) {
    for (const PluginConf& plugin : list.plugins) add(types_of(plugin));
  }
  for (const AttachmentState& one : node.attachments) {
    if (!is_of_containerd(one.types)) add(one.types);
  }
  return out;
}

std::vector<Complaint> complaints_of(const Node& node, RuntimeOptions options) {
  options.pass_stderr = false;  // what STATUS notes is a finding of another check
  std::vector<Complaint> out;
  for (const NetworkList& list : node.networks.lists) {
    if (is_locked(node, list.name)) continue;
    for (PluginConf plugin : list.plugins) {
      if (!know_status(node, types_of(plugin))) continue;
      plugin.conf->erase(cni::kLogKey);  // what is looked at is not written to
      NetworkList one = list;
      one.version = "1.1.0";
      try {
        cni::PluginCaller(options, one).call(plugin, {.command = cni::Command::kStatus});
      } catch (const cni::Error& e) {
        out.push_back({list.name, plugin.type, e});
      }
    }
  }
  return out;
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
