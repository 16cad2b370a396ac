#pragma once

#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cnitool/node_object.h"
#include "cnitool/processes.h"
#include "libcni/config/subnet_env.h"
#include "netlink/types/ip.h"

/// What a node is to its cluster, read once.
namespace tool::doctor::kubernetes {

/// A container runtime, and what its config says of CNI.
struct RuntimeConfig {
  std::string name = {};     ///< "containerd", "CRI-O"; empty: none was found
  std::string unit = {};     ///< of systemd: "containerd", "k3s"
  std::string file = {};     ///< its config; empty: defaults
  std::string failure = {};  ///< why the config cannot be read
  std::time_t started = 0;   ///< 0: it does not run
  std::time_t changed = 0;   ///< when its config was written last
  std::vector<std::string> bin_dirs = {"/opt/cni/bin"};
  std::string conf_dir = "/etc/cni/net.d";
  std::string cni_file = {};      ///< the config with the settings of CNI; empty: defaults
  std::string network = {};       ///< CRI-O: the name of the network that pods get
  std::string obsolete_dir = {};  ///< containerd: bin_dir, where bin_dirs is set too
  bool has_template = false;      ///< containerd: conf_template
  bool lacks_cri = false;         ///< containerd: the plugin for the kubelet is disabled
};

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
  std::vector<std::string> unread;      ///< that no runtime reads, because of their suffix
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
