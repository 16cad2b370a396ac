#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cnitool/processes.h"

/// The runtimes that run on this node, and the versions of the spec that they know.
namespace tool {

/// A process that calls plugins for pods: containerd, CRI-O, k3s.
struct NodeRuntime {
  std::string name;    ///< "containerd"
  std::string file;    ///< its executable
  std::string newest;  ///< version of the spec; a runtime refuses results of later ones
};

/// Those in the network and PID namespaces of this process, which root runs; without root none. A
/// containerd for Docker alone is none. An executable is searched, and not run: types of its CNI
/// library are in it by name, also where a distribution removed symbols and build information.
std::vector<NodeRuntime> node_runtimes();

/// What a running runtime makes of the version of a list.
struct VersionAdvice {
  std::string version;  ///< to be set as cniVersion
  std::string what;     ///< "which containerd (/usr/bin/containerd) does not support"
  std::string why;
  bool is_refused = false;  ///< else a later one has more verbs
  bool by_all = false;      ///< no runtime of the node takes the list
};

/// \param single cniVersion of the list, which runtimes before 1.1.0 take alone; \param best the
/// newest of cniVersion and cniVersions. Nothing: all is well, or no runtime runs.
std::optional<VersionAdvice> version_advice(const std::string& single, const std::string& best,
                                            const std::vector<NodeRuntime>& runtimes);

/// Whether a text is in a file; reads no more of it than it has to. False if it is unreadable.
bool mentions(const std::string& file, std::string_view text);

}  // namespace tool
