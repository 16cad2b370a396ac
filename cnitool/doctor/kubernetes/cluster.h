#pragma once

#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cnitool/node_object.h"
#include "cnitool/runtimes.h"
#include "libcni/config/subnet_env.h"
#include "netlink/types/ip.h"

/// The node as a member of its cluster, read once.
namespace tool::doctor::kubernetes {

/// A directory of plugins.
struct PluginDir {
  std::string path;
  bool no_exec = false;
  std::map<std::string, std::string> labels = {};  ///< of SELinux, where it enforces; by path
};

/// A range of addresses, and who says so.
struct KnownRange {
  netlink::Cidr range;
  std::string source;
};

struct Cluster {
  std::vector<Process> processes;
  RuntimeConfig runtime;
  std::vector<std::string> conf_files;  ///< of the runtime's directory that it reads, in its order
  std::vector<PluginDir> plugin_dirs;
  std::map<std::string, std::string> packages;  ///< of dpkg, by the path of a plugin
  std::optional<NodeObject> object;
  std::string subnet_file = cni::kSubnetEnv;
  std::optional<cni::SubnetEnv> subnet_env;
  std::string subnet_env_failure;
  std::time_t subnet_env_written = 0;
  std::vector<KnownRange> services;
  std::vector<std::string> unmanaged;   ///< patterns of links that NetworkManager leaves alone
  std::vector<std::string> pinned;      ///< patterns of links whose MAC address udev leaves alone
  std::vector<std::string> lost_kinds;  ///< of links that the networks need and the kernel lacks

  /// Null: none of that name runs.
  const Process* process(const std::string& name) const;
};

}  // namespace tool::doctor::kubernetes
