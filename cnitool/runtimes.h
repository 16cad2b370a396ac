#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "cnitool/processes.h"

/// The container runtimes of this node: what their configs say of CNI. No program is run for it.
namespace tool {

struct RuntimeConfig {
  std::string name = {};     ///< "k3s", "RKE2", "containerd", "CRI-O", "podman"; empty: none
  std::string unit = {};     ///< of systemd: "containerd", "k3s"; empty: none
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
  bool lacks_cri = false;         ///< containerd: without the plugin for the kubelet, as Docker's

  /// The folder in which the plugins that it executes are: the first with a `bridge` or a
  /// `loopback`, else the first that exists, else the first.
  std::string plugin_dir() const;
};

/// Whether runtimes_of() needs a process of that name (comm).
bool is_of_runtime(const std::string& name);

/// Those that run, then those that are installed; podman last. Of several, the first is the one
/// that the kubelet calls. \param processes those of is_of_runtime(), and others.
std::vector<RuntimeConfig> runtimes_of(std::vector<Process> processes);

/// The same of this node.
std::vector<RuntimeConfig> runtimes_of_node();

/// Whether a containerd that runs has no pods: Docker's own, or one whose config says so.
bool is_for_docker(const Process& process);

}  // namespace tool
