#include <algorithm>

#include "cnitool/doctor/kubernetes/checks.h"
#include "cnitool/output.h"
#include "libcni/common/split.h"

// Directories of plugins: whether they can be executed, and whose they are.
namespace tool::doctor::kubernetes {

namespace {

// "system_u:object_r:bin_t:s0": types that container runtimes may not execute.
bool is_wrong(const std::string& label) {
  constexpr const char* kWrong[] = {"usr_t",  "default_t",        "unlabeled_t", "user_home_t",
                                    "tmp_t",  "user_tmp_t",       "etc_t",       "var_t",
                                    "root_t", "container_file_t", "var_lib_t"};
  const auto parts = cni::split(label, ":");
  return parts.size() > 2 &&
         std::find(std::begin(kWrong), std::end(kWrong), parts[2]) != std::end(kWrong);
}

}  // namespace

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
  const bool has_ours = std::any_of(node.programs.begin(), node.programs.end(),
                                    [](const PluginFile& one) { return !one.patchbay.empty(); });
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
