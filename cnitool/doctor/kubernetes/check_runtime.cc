#include <algorithm>

#include "cnitool/doctor/kubernetes/checks.h"
#include "cnitool/output.h"
#include "libcni/common/split.h"

// The container runtime: its config, its directories, and the network that it takes.
namespace tool::doctor::kubernetes {

namespace {

// Networks that packages, tools and runtimes install for themselves.
constexpr std::pair<const char*, const char*> kOfOthers[] = {
    {"87-podman", "podman"},     {"10-containerd-net", "containerd"}, {"100-crio-bridge", "CRI-O"},
    {"10-crio-bridge", "CRI-O"}, {"200-loopback", "CRI-O"},           {"99-loopback", "a runtime"},
    {"nerdctl-", "nerdctl"}};

std::string owner_of(const std::string& file) {
  for (const auto& [begin, owner] : kOfOthers) {
    if (file.starts_with(begin)) return owner;
  }
  return {};
}

std::string restart(const RuntimeConfig& runtime) {
  return cat("systemctl restart ", runtime.unit);
}

std::string put_aside(const std::string& path) { return cat("mv ", path, " ", path, ".disabled"); }

// "system_u:object_r:bin_t:s0": types that container runtimes may not execute.
bool is_wrong(const std::string& label) {
  constexpr const char* kWrong[] = {"usr_t",  "default_t",        "unlabeled_t", "user_home_t",
                                    "tmp_t",  "user_tmp_t",       "etc_t",       "var_t",
                                    "root_t", "container_file_t", "var_lib_t"};
  const auto parts = cni::split(label, ":");
  return parts.size() > 2 && std::ranges::find(kWrong, parts[2]) != std::end(kWrong);
}

}  // namespace

Findings check_runtime_config(const Node& node) {
  const RuntimeConfig& one = node.cluster->runtime;
  Findings out;
  if (one.name.empty()) {
    return {{Level::kNote, "no container runtime was found",
             "networks and plugins are looked for where containerd has them by default"}};
  }
  if (!one.failure.empty()) {
    out.push_back({Level::kError, cat("config of ", one.name, ": ", one.failure),
                   cat(one.name, " does not start with it"),
                   one.name == "CRI-O" ? cat("crio --config ", one.file, " config --validate")
                                       : cat("containerd --config ", one.file, " config dump")});
  }
  if (one.lacks_cri) {
    out.push_back({Level::kError, cat(one.file, " disables the plugin cri of containerd"),
                   "the kubelet cannot start pods: Docker's package writes it so",
                   cat("sed -i 's/^disabled_plugins.*/disabled_plugins = []/' ", one.file, " && ",
                       restart(one))});
  }
  if (!one.obsolete_dir.empty()) {
    out.push_back({Level::kError, cat(one.cni_file, " has both bin_dir and bin_dirs"),
                   "containerd refuses the plugin cri then, and the kubelet starts no pod",
                   cat("sed -i '/^ *bin_dir *=/d' ", one.cni_file, " && ", restart(one))});
  }
  if (one.started != 0 && one.changed > one.started) {
    out.push_back(
        {Level::kWarning, cat(one.name, " was started before its config was written: ", one.file),
         "it reads its config only when it starts: directories may be others", restart(one)});
  }
  return out;
}

// Options or the environment may name other directories than the runtime reads.
Findings check_runtime_dirs(const Node& node) {
  const RuntimeConfig& one = node.cluster->runtime;
  if (one.name.empty() || one.lacks_cri) return {};
  Names others;
  if (node.networks.dir != one.conf_dir) others.push_back(node.networks.dir);
  if (node.plugin_path != one.bin_dirs) others.push_back(joined(node.plugin_path, ":"));
  if (others.empty()) return {};
  const std::string path = joined(one.bin_dirs, ":");
  return {{Level::kWarning,
           cat(one.name, " reads networks from ", one.conf_dir, " and plugins from ", path,
               ", and not from ", joined(others)),
           "this report is about networks and plugins that pods do not use",
           cat("cnitool doctor --kubernetes --conf-dir ", one.conf_dir, " --path ", path)}};
}

// containerd and CRI-O take the first file in alphabetical order.
Findings check_first_network(const Node& node) {
  const Cluster& cluster = *node.cluster;
  const std::string& wanted = cluster.runtime.network;
  const std::string& dir = node.networks.dir;
  Findings out;
  if (!wanted.empty() && node.network(wanted) == nullptr) {
    out.push_back({Level::kError,
                   cat("CRI-O waits for network '", wanted, "', and no file in ", dir, " has it"),
                   "no pod gets a network",
                   cat("sed -i '/cni_default_network/d' ", cluster.runtime.cni_file, " && ",
                       restart(cluster.runtime))});
  }
  const bool has_own = std::ranges::any_of(cluster.conf_files,
                                           [](const auto& file) { return owner_of(file).empty(); });
  const std::string used = pod_network_file(node);
  for (const std::string& file : cluster.conf_files) {
    const std::string owner = owner_of(file);
    const std::string path = cat(dir, "/", file);
    const bool is_of_template = cluster.runtime.has_template && file.starts_with("10-containerd");
    if (owner.empty() || !has_own || is_of_template || !wanted.empty()) continue;
    const bool is_used = path == used;
    out.push_back(
        {is_used ? Level::kError : Level::kWarning,
         cat(path, " is a network of ", owner,
             is_used ? ", and pods get it: it is the first file" : cat(", beside ", used)),
         is_used ? "pods are not in the cluster's network"
                 : "pods get it when the first file is removed for a moment",
         put_aside(path)});
  }
  return out;
}

Findings check_plugin_dirs(const Node& node) {
  Findings out;
  for (const PluginDir& dir : node.cluster->plugin_dirs) {
    if (dir.no_exec) {
      out.push_back({Level::kError, cat("the file system of ", dir.path, " is mounted noexec"),
                     "the runtime cannot execute a plugin: permission denied",
                     cat("mount -o remount,exec $(findmnt -n -o TARGET -T ", dir.path, ")")});
    }
    Names wrong;
    for (const auto& [path, label] : dir.labels) {
      if (is_wrong(label)) wrong.push_back(cat(path, " (", label, ")"));
    }
    if (wrong.empty()) continue;
    out.push_back({Level::kError, cat("labels of SELinux: ", some_of(wrong)),
                   "the runtime may not execute the plugins: the type should be bin_t",
                   cat("restorecon -R ", dir.path)});
  }
  return out;
}

// Names the plugins of others that a network of the node uses beside those of this project.
Findings check_plugin_owners(const Node& node) {
  const bool has_ours = std::ranges::any_of(
      node.programs, [](const PluginFile& one) { return !one.patchbay.empty(); });
  Names others;
  for (const PluginFile& one : node.programs) {
    if (one.file.empty() || !one.patchbay.empty()) continue;
    const auto package = node.cluster->packages.find(one.file);
    others.push_back(package == node.cluster->packages.end()
                         ? one.file
                         : cat(one.file, " (package ", package->second, ")"));
  }
  if (!has_ours || others.empty()) return {};
  return {{Level::kNote, cat("plugins that are not of patchbay: ", some_of(others)),
           "doctor and repair know less about what they made"}};
}

}  // namespace tool::doctor::kubernetes
