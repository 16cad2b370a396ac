#pragma once

#include <string>

#include "cnitool/output.h"

namespace tool {

/// What a list is made of; an empty text was not given.
struct PresetOptions {
  std::string name;        ///< one of kPresets
  std::string pod_cidrs;   ///< of this node, separated by commas
  std::string subnet_env;  ///< path of flanneld's file
  std::string node_json;   ///< path of the JSON of a Kubernetes Node; "-": stdin
  std::string mtu;         ///< bytes, or "auto"
  unsigned overhead = 0;   ///< bytes that "auto" subtracts
  std::string except;      ///< networks that are not masqueraded, separated by commas
  bool devices = false;    ///< pods may ask for devices of patchbay-agent
  std::string version = "1.0.0";
  std::string file;  ///< empty: stdout
};

inline constexpr const char* kPresets[] = {"kubenet", "kind", "flannel", "containerd-template"};

/// Writes the list of plugins of a Kubernetes node, or containerd's template of one. A file is
/// replaced at once, and has no name that a runtime reads before it is complete.
/// \throws cni::Error for options that do not fit, netlink::Error for files.
void preset(const PresetOptions& options, const Output& output);

}  // namespace tool
