#pragma once

#include <optional>
#include <string>
#include <vector>

namespace installer {

/// A container runtime of this node, and the folders in which it looks for plugins, in that order.
struct Runtime {
  std::string name;                  ///< "containerd"
  std::vector<std::string> folders;  ///< at least one
  std::string source;                ///< what says so: "containerd config dump"
};

/// The names that --runtime takes, but for "auto".
const std::vector<std::string>& runtime_names();

/// The runtimes that are installed, in the order of runtime_names(). containerd and crio are asked
/// for the config that they have in effect; of k3s and RKE2 the config of their containerd is read,
/// of podman containers.conf.
std::vector<Runtime> runtimes_here();

/// The first of the folders that has a file or folder of that name.
std::optional<std::string> folder_with(const Runtime& runtime, const std::string& name);

/// The folder in which the plugins that it executes are: the first with a `bridge` or a
/// `loopback`, else the first that exists, else the first.
std::string folder_of(const Runtime& runtime);

/// The values of a key in TOML, as `bin_dir = "/opt/cni/bin"` or `bin_dirs = ["/a", "/b"]`, of
/// the last line that has it; those that are comments count with has_comments: crio prints its
/// defaults so.
std::vector<std::string> values_in(const std::string& toml, const std::string& key,
                                   bool has_comments = false);

}  // namespace installer
