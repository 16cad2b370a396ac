#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/doctor/kubernetes/look.h"
#include "cnitool/doctor/kubernetes/toml.h"
#include "cnitool/json_at.h"
#include "cnitool/output.h"
#include "libcni/common/dir.h"
#include "libcni/common/split.h"
#include "netlink/types/error.h"
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

std::string text_of(const std::string& path) {
  try {
    return netlink::read_file(path).value_or("");
  } catch (const netlink::Error&) {  // it ends meanwhile
    return "";
  }
}

std::string target_of(const std::string& link) {
  std::error_code ignored;
  return std::filesystem::read_symlink(link, ignored).string();
}

long number_in(std::string_view text) {
  long out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

std::time_t boot_time() {
  constexpr std::string_view kKey = "\nbtime ";
  const std::string stat = text_of("/proc/stat");
  const auto at = stat.find(kKey);
  return at == stat.npos ? 0 : number_in(std::string_view(stat).substr(at + kKey.size()));
}

// Field 22 of proc_pid_stat(5); the second is in parentheses.
std::time_t start_time(const std::string& process, std::time_t boot) {
  constexpr std::size_t kField = 19;
  const std::string stat = text_of(cat(process, "/stat"));
  const auto end = stat.rfind(") ");
  if (end == stat.npos) return 0;
  const auto fields = cni::split(std::string_view(stat).substr(end + 2), " ");
  if (fields.size() <= kField) return 0;
  return boot + number_in(fields[kField]) / ::sysconf(_SC_CLK_TCK);
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

std::vector<std::string> strings_at(const json& object, const char* key) {
  std::vector<std::string> out;
  const json* const list = member(object, key);
  if (list == nullptr || !list->is_array()) return out;
  for (const json& one : *list) {
    if (one.is_string()) out.push_back(one.get<std::string>());
  }
  return out;
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
    for (const std::string& one : strings_at(config, "disabled_plugins")) {
      out.lacks_cri |= one == "cri" || one.starts_with("io.containerd.grpc.v1.cri") ||
                       one.starts_with("io.containerd.cri.");
    }
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
    const std::string given = process->option("config");
    const std::string file = given.empty() ? process->option("c") : given;
    out.file = file.empty() ? "/etc/containerd/config.toml" : file;
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

std::string Process::option(const std::string& wanted) const {
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::string_view word = words[i];
    if (!word.starts_with('-')) continue;
    word.remove_prefix(word.starts_with("--") ? 2 : 1);
    if (word == wanted && i + 1 < words.size()) return words[i + 1];
    if (word.starts_with(wanted + "=")) return std::string(word.substr(wanted.size() + 1));
  }
  return {};
}

const Process* Cluster::process(const std::string& name) const { return find(processes, name); }

std::vector<Process> look_at_processes() {
  std::vector<Process> out;
  const std::string own = target_of("/proc/self/ns/net");
  const std::string own_ids = target_of("/proc/self/ns/pid");
  const std::time_t boot = boot_time();
  for (const std::string& id : cni::names_in("/proc")) {
    if (id.find_first_not_of("0123456789") != id.npos) continue;
    const std::string path = cat("/proc/", id);
    std::string name = text_of(cat(path, "/comm"));
    if (name.ends_with('\n')) name.pop_back();
    if (!is_of_interest(name) || target_of(cat(path, "/ns/net")) != own) continue;
    Process one{.name = name, .words = {}, .started = start_time(path, boot)};
    struct stat about {};
    one.is_of_node = ::stat(path.c_str(), &about) == 0 && about.st_uid == 0 &&
                     target_of(cat(path, "/ns/pid")) == own_ids;
    const std::string line = text_of(cat(path, "/cmdline"));
    for (const auto word : cni::split(line, std::string_view("\0", 1))) {
      one.words.emplace_back(word);
    }
    out.push_back(std::move(one));
  }
  return out;
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
