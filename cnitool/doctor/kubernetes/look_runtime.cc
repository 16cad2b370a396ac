#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/doctor/kubernetes/look.h"
#include "cnitool/json_at.h"
#include "cnitool/node_runtimes.h"
#include "cnitool/output.h"
#include "cnitool/toml.h"
#include "libcni/common/dir.h"
#include "netlink/types/fd.h"

// Container runtimes, by their processes and their configs.
namespace tool::doctor::kubernetes {

namespace {

using nlohmann::json;

const std::set<std::string> kProcessNames{
    "containerd", "crio", "kubelet",        "flanneld",        "NetworkManager",
    "kube-proxy", "rke2", "kube-apiserver", "kube-controller", "systemd-udevd"};

// k3s renames itself by its role.
bool is_of_interest(const std::string& name) {
  return kProcessNames.contains(name) || name.starts_with("k3s-");
}

std::vector<std::string> files_matching(const std::string& pattern) {
  std::vector<std::string> out;
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  return out;
}

std::time_t modified(const std::string& file) {
  struct stat about {};
  return ::stat(file.c_str(), &about) == 0 ? about.st_mtime : 0;
}

json toml_in(const std::string& file, RuntimeConfig& out) {
  out.changed = std::max(out.changed, modified(file));
  try {
    return parse_toml(netlink::read_regular_file(file).value_or(""));
  } catch (const std::exception& e) {
    if (out.failure.empty()) out.failure = cat(file, ": ", e.what());
    return json::object();
  }
}

std::string in_dir_of(const std::string& file, const std::string& path) {
  return path.starts_with('/') ? path : (std::filesystem::path(file).parent_path() / path).string();
}

void set_cni(const json& cni, RuntimeConfig& out) {
  out.conf_dir = text_at(cni, "conf_dir", out.conf_dir);
  out.has_template = !text_at(cni, "conf_template").empty();
  const auto dirs = strings_at(cni, "bin_dirs");
  const std::string dir = text_at(cni, "bin_dir");
  if (!dirs.empty()) out.bin_dirs = dirs;
  if (dirs.empty() && !dir.empty()) out.bin_dirs = {dir};
  if (!dirs.empty() && !dir.empty()) out.obsolete_dir = dir;
}

// An import replaces the whole section of a plugin (containerd#5837).
void read_containerd(RuntimeConfig& out) {
  json plugins = json::object();
  std::map<std::string, std::string> files_of_plugins;
  std::set<std::string> seen;
  std::vector<std::string> files{out.file};
  while (!files.empty()) {
    const std::string file = files.front();
    files.erase(files.begin());
    if (!seen.insert(file).second) continue;
    const json config = toml_in(file, out);
    if (const json* const more = member(config, "plugins"); more != nullptr && more->is_object()) {
      for (const auto& [name, section] : more->items()) {
        plugins[name] = section;
        files_of_plugins[name] = file;
      }
    }
    out.lacks_cri |= disables_cri(config);
    for (const std::string& pattern : strings_at(config, "imports")) {
      for (auto& one : files_matching(in_dir_of(file, pattern))) files.push_back(std::move(one));
    }
  }
  // Of version 1, 2 and 3.
  for (const char* const name :
       {"cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"}) {
    const json* const section = member(plugins, name);
    const json* const cni = section == nullptr ? nullptr : member(*section, "cni");
    if (cni == nullptr) continue;
    set_cni(*cni, out);
    out.cni_file = files_of_plugins[name];
  }
}

void read_crio(RuntimeConfig& out, const std::string& dir) {
  std::vector<std::string> files{out.file};
  for (auto& one : files_matching(cat(dir, "/*"))) files.push_back(std::move(one));
  for (const std::string& file : files) {
    const json config = toml_in(file, out);
    const json* const crio = member(config, "crio");
    const json* const network = crio == nullptr ? nullptr : member(*crio, "network");
    if (network == nullptr) continue;
    out.conf_dir = text_at(*network, "network_dir", out.conf_dir);
    if (const std::string name = text_at(*network, "cni_default_network"); !name.empty()) {
      out.network = name;
      out.cni_file = file;
    }
    const auto dirs = strings_at(*network, "plugin_dirs");
    if (!dirs.empty()) out.bin_dirs = dirs;
  }
}

const Process* find(const std::vector<Process>& all, const std::string& name) {
  return find_by(all, &Process::name, name);
}

// The unit whose restart restarts the runtime: that of the role in which k3s or RKE2 runs.
std::string unit_of(const std::string& file, const std::vector<Process>& processes) {
  if (file.find("/rancher/k3s/") != file.npos) {
    const auto k3s = std::find_if(processes.begin(), processes.end(),
                                  [](const Process& one) { return one.name.starts_with("k3s-"); });
    return k3s == processes.end() || k3s->name == "k3s-server" ? "k3s" : k3s->name;
  }
  if (file.find("/rancher/rke2/") != file.npos) {
    const Process* const rke2 = find(processes, "rke2");
    return cat("rke2-", rke2 == nullptr || rke2->words.size() < 2 ? "server" : rke2->words[1]);
  }
  return "containerd";
}

RuntimeConfig containerd(const Process* process, const std::vector<Process>& processes) {
  RuntimeConfig out{.name = "containerd"};
  for (const char* const file :
       {"/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
        "/var/lib/rancher/k3s/agent/etc/containerd/config.toml", "/etc/containerd/config.toml"}) {
    if (process == nullptr && out.file.empty() && cni::Dir::exists(file)) out.file = file;
  }
  if (process != nullptr) {
    out.started = process->started;
    out.file = containerd_config(*process);
  }
  out.unit = unit_of(out.file, processes);
  if (cni::Dir::exists(out.file)) {
    read_containerd(out);
  } else {
    out.file.clear();
  }
  return out;
}

// Docker has a containerd of its own, which has no pods.
RuntimeConfig running_containerd(const std::vector<Process>& processes) {
  RuntimeConfig out;
  for (const Process& one : processes) {
    if (one.name != "containerd") continue;
    RuntimeConfig config = containerd(&one, processes);
    const bool is_for_docker =
        config.lacks_cri || config.file.find("/docker/") != std::string::npos;
    if (!is_for_docker) return config;
    if (out.name.empty()) out = std::move(config);
  }
  return out;
}

RuntimeConfig crio(const Process* process) {
  RuntimeConfig out{.name = "CRI-O", .unit = "crio", .file = "/etc/crio/crio.conf"};
  std::string dir;
  if (process != nullptr) {
    out.started = process->started;
    if (const std::string file = process->option("config"); !file.empty()) out.file = file;
    dir = process->option("config-dir");
  }
  read_crio(out, dir.empty() ? "/etc/crio/crio.conf.d" : dir);
  if (process == nullptr) return out;
  if (const auto given = process->option("cni-config-dir"); !given.empty()) out.conf_dir = given;
  if (const auto given = process->option("cni-plugin-dir"); !given.empty()) out.bin_dirs = {given};
  return out;
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

const Process* Cluster::process(const std::string& name) const { return find(processes, name); }

std::vector<Process> look_at_processes() {
  return processes(
      [](const std::string& name, const std::string&) { return is_of_interest(name); });
}

RuntimeConfig look_at_runtime(std::vector<Process> processes) {
  std::erase_if(processes, [](const Process& one) { return !one.is_of_node; });
  const Process* const of_crio = find(processes, "crio");
  const Process* const kubelet = find(processes, "kubelet");
  const std::string endpoint =
      kubelet == nullptr ? "" : kubelet->option("container-runtime-endpoint");
  RuntimeConfig out;
  if (of_crio != nullptr && endpoint.find("containerd") == endpoint.npos) {
    out = crio(of_crio);
  } else if (find(processes, "containerd") != nullptr) {
    out = running_containerd(processes);
  } else if (cni::Dir::exists("/etc/crio/crio.conf") || cni::Dir::exists("/etc/crio/crio.conf.d")) {
    out = crio(nullptr);
  } else {
    out = containerd(nullptr, processes);
    if (out.file.empty()) out.name.clear();
  }
  out.conf_dir = without_slash(out.conf_dir);
  for (std::string& dir : out.bin_dirs) dir = without_slash(dir);
  return out;
}

Settings in_use(Settings settings, const RuntimeConfig& runtime) {
  if (runtime.name.empty()) return settings;
  const Settings defaults = Settings::from({});
  if (settings.conf_dir == defaults.conf_dir) settings.conf_dir = runtime.conf_dir;
  if (settings.path == defaults.path) settings.path = joined(runtime.bin_dirs, ":");
  return settings;
}

}  // namespace tool::doctor::kubernetes
