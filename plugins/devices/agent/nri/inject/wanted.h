#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "plugins/devices/agent/nri/events.h"

namespace devices::nri {

/// A device node of the host.
struct HostNode {
  char type = 'c';  ///< or 'b'
  std::int64_t major = 0, minor = 0;
};

/// What the runtime applies of an adjustment. Of the rest older ones say nothing: they skip fields
/// that they do not know.
struct Abilities {
  bool cdi = true;     ///< containerd 2.1, CRI-O 1.34
  bool sysctl = true;  ///< NRI 0.11: containerd 2.2.1, CRI-O 1.35
};
/// Of a runtime, as it names itself in Configure. An unknown one has all.
Abilities abilities_of(const std::string& runtime, const std::string& version);

/// What pods may ask for, and where device nodes are looked up.
struct Policy {
  /// Namespaces whose pods may ask: whoever may annotate a pod gets devices of the host.
  std::set<std::string> allowed;
  Abilities runtime = {};
  /// Empty: the path is no device node. Default: stat(2).
  std::function<std::optional<HostNode>(const std::string& path)> find = {};
};

/// Nodes, CDI names and sysctls of one container, each at most this many.
inline constexpr std::size_t kMaxWanted = 64;

/// What annotations of the pod ask for a container: the keys of NRI's device-injector, and of each
/// kind the most specific one. A mistake fails the container, and never leaves out a part.
///   devices.noderesource.dev      [{path, type, major, minor, file_mode, uid, gid}]; the path
///   alone
///                                 is enough for a device node of the host
///   cdi-devices.noderesource.dev  [VENDOR/CLASS=NAME]
///   sysctl.noderesource.dev       {net.KEY: VALUE}
/// with /container.NAME, /pod or neither behind it, and KIND.nri.io as the older name of each.
/// \throws cni::Error with the key of the annotation.
Adjustment wanted_by(const Sandbox& sandbox, const Container& container, const Policy& policy);

/// Whether text is a namespace of Kubernetes (RFC 1123, section 2.1).
bool is_namespace(std::string_view text);

}  // namespace devices::nri
