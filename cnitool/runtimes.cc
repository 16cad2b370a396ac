#include "cnitool/runtimes.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "cnitool/find_by.h"
#include "cnitool/json_at.h"
#include "cnitool/known_plugins.h"
#include "cnitool/output.h"
#include "cnitool/toml.h"
#include "libcni/common/dir.h"
#include "libcni/plugin/node_tool.h"
#include "netlink/types/fd.h"

namespace tool {

namespace {

using nlohmann::json;

constexpr const char* kContainerd = "/etc/containerd/config.toml";
constexpr const char* kK3s = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml";
constexpr const char* kRke2 = "/var/lib/rancher/rke2/agent/etc/containerd/config.toml";
constexpr const char *kCrio = "/etc/crio/crio.conf", *kCrioDir = "/etc/crio/crio.conf.d";

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

bool is_cri(const std::string& plugin) {
  return plugin == "cri" || plugin.starts_with("io.containerd.grpc.v1.cri") ||
         plugin.starts_with("io.containerd.cri.");
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
    const auto disabled = strings_at(config, "disabled_plugins");
    out.lacks_cri |= std::ranges::any_of(disabled, is_cri);
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

// k3s renames itself by its role.
const Process* k3s_of(const std::vector<Process>& all) {
  const auto it =
      std::ranges::find_if(all, [](const auto& o) { return o.name.starts_with("k3s-"); });
  return it == all.end() ? nullptr : &*it;
}

// k3s and RKE2 write the config of their containerd into their data folder. The unit is that of the
// role in which they run.
void set_name(RuntimeConfig& out, const std::vector<Process>& processes) {
  const bool is_in_data = out.file.ends_with("/agent/etc/containerd/config.toml");
  const Process* const k3s = k3s_of(processes);
  const Process* const rke2 = find(processes, "rke2");
  if (out.file == kK3s || (is_in_data && k3s != nullptr)) {
    out.name = "k3s";
    out.unit = k3s == nullptr || k3s->name == "k3s-server" ? "k3s" : k3s->name;
  } else if (out.file == kRke2 || (is_in_data && rke2 != nullptr)) {
    out.name = "RKE2";
    out.unit = cat("rke2-", rke2 == nullptr || rke2->words.size() < 2 ? "server" : rke2->words[1]);
  } else {
    out.name = out.unit = "containerd";
  }
}

// containerd(8).
std::string config_of(const Process& process) {
  std::string file = process.option("config");
  if (file.empty()) file = process.option("c");
  return file.empty() ? kContainerd : file;
}

RuntimeConfig containerd(const std::string& file, const std::vector<Process>& processes) {
  RuntimeConfig out{.file = file};
  set_name(out, processes);
  if (cni::Dir::exists(file)) {
    read_containerd(out);
  } else {
    out.file.clear();
  }
  out.lacks_cri |= file.find("/docker/") != file.npos;
  return out;
}

void add_containerds(const std::vector<Process>& processes, std::vector<RuntimeConfig>& out) {
  std::set<std::string> seen;
  for (const Process& one : processes) {
    if (one.name != "containerd" || !seen.insert(config_of(one)).second) continue;
    out.push_back(containerd(config_of(one), processes));
    out.back().started = one.started;
  }
  for (const char* const file : {kK3s, kRke2, kContainerd}) {
    const bool is_installed =
        cni::Dir::exists(file) || (file == kContainerd && cni::find_node_tool("containerd"));
    if (is_installed && !seen.contains(file)) out.push_back(containerd(file, processes));
  }
}

void add_crio(const std::vector<Process>& processes, std::vector<RuntimeConfig>& out) {
  const Process* const process = find(processes, "crio");
  if (process == nullptr && !cni::Dir::exists(kCrio) && !cni::Dir::exists(kCrioDir) &&
      !cni::find_node_tool("crio")) {
    return;
  }
  RuntimeConfig one{.name = "CRI-O", .unit = "crio", .file = kCrio};
  const auto option = [&](const char* name) {
    return process == nullptr ? "" : process->option(name);
  };
  if (const auto given = option("config"); !given.empty()) one.file = given;
  const std::string dir = option("config-dir");
  read_crio(one, dir.empty() ? kCrioDir : dir);
  if (process != nullptr) one.started = process->started;
  if (const auto given = option("cni-config-dir"); !given.empty()) one.conf_dir = given;
  if (const auto given = option("cni-plugin-dir"); !given.empty()) one.bin_dirs = {given};
  out.push_back(std::move(one));
}

// containers.conf(5), and the list of containers/common.
void add_podman(std::vector<RuntimeConfig>& out) {
  if (!cni::find_node_tool("podman")) return;
  RuntimeConfig one{.name = "podman"};
  one.bin_dirs = {"/usr/local/libexec/cni", "/usr/libexec/cni", "/usr/local/lib/cni",
                  "/usr/lib/cni", "/opt/cni/bin"};
  std::vector<std::string> files{"/usr/share/containers/containers.conf",
                                 "/etc/containers/containers.conf"};
  for (auto& more : files_matching("/etc/containers/containers.conf.d/*.conf")) {
    files.push_back(std::move(more));
  }
  std::string backend;
  for (const std::string& file : files) {
    const json config = toml_in(file, one);
    const json* const network = member(config, "network");
    if (network == nullptr) continue;
    one.file = file;
    backend = text_at(*network, "network_backend", backend);
    one.conf_dir = text_at(*network, "network_config_dir", one.conf_dir);
    const auto dirs = strings_at(*network, "cni_plugin_dirs");
    if (!dirs.empty()) one.bin_dirs = dirs;
  }
  if (backend != "netavark") out.push_back(std::move(one));  // that calls no plugin of CNI
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// Smaller is first.
auto rank_of(const RuntimeConfig& one, bool has_crio) {
  const bool is_of_kubelet = (one.name == "CRI-O") == has_crio;
  return std::tuple(one.name == "podman", one.started == 0, one.lacks_cri, !is_of_kubelet);
}

}  // namespace

std::string RuntimeConfig::plugin_dir() const {
  for (const std::string_view known :
       {type_with(cni::Fact::kBridge), type_with(cni::Fact::kLoopback), std::string_view(".")}) {
    const auto it = std::ranges::find_if(
        bin_dirs, [&](const auto& dir) { return cni::Dir::exists(cat(dir, "/", known)); });
    if (it != bin_dirs.end()) return *it;
  }
  return bin_dirs.front();
}

bool is_of_runtime(const std::string& name) {
  return name == "containerd" || name == "crio" || name == "kubelet" || name == "rke2" ||
         name.starts_with("k3s-");
}

bool is_for_docker(const Process& process) {
  return containerd(config_of(process), {process}).lacks_cri;
}

std::vector<RuntimeConfig> runtimes_of(std::vector<Process> processes) {
  std::erase_if(processes, [](const Process& one) { return !one.is_of_node; });
  std::vector<RuntimeConfig> out;
  add_containerds(processes, out);
  add_crio(processes, out);
  add_podman(out);
  const Process* const kubelet = find(processes, "kubelet");
  const std::string endpoint =
      kubelet == nullptr ? "" : kubelet->option("container-runtime-endpoint");
  const bool has_crio =
      find(processes, "crio") != nullptr && endpoint.find("containerd") == endpoint.npos;
  std::ranges::stable_sort(out, {}, [&](const auto& one) { return rank_of(one, has_crio); });
  for (RuntimeConfig& one : out) {
    one.conf_dir = without_slash(one.conf_dir);
    for (std::string& dir : one.bin_dirs) dir = without_slash(dir);
  }
  return out;
}

std::vector<RuntimeConfig> runtimes_of_node() {
  return runtimes_of(
      processes([](const std::string& name, const std::string&) { return is_of_runtime(name); }));
}

}  // namespace tool
