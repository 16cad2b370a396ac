#pragma once

#include <string>

#include "cnitool/output.h"

namespace tool {

/// The names that `cnitool runtimes` takes.
inline constexpr const char* kRuntimeNames[] = {"k3s", "rke2", "containerd", "crio", "podman"};

struct RuntimesAsked {
  std::string name = {};    ///< one of kRuntimeNames; empty: all
  bool plugin_dir = false;  ///< print the folder for `patchbay install` alone
};

/// `cnitool runtimes`: prints the runtimes of the node, first the one whose folders the other
/// commands use, with the folders of their plugins and networks. \throws cni::Error.
void list_runtimes(const RuntimesAsked& asked, const Output& output);

}  // namespace tool
