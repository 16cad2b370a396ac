#pragma once

#include <string>
#include <vector>

#include "libcni/common/error.h"
#include "plugins/portmap/backend.h"
#include "plugins/portmap/conf.h"

/// Port conflicts, and ports that are denied.
namespace portmap {

/// Error codes of this plugin (spec, "Error": 100 and above).
inline constexpr cni::Code kPortInUse{100};
inline constexpr cni::Code kPortDenied{101};

/// Whether the attachment's interface exists: the path leads to the same namespace as in ADD, and a
/// link has the interface's name there.
bool owner_exists(const Attachment& attachment);

/// The changes of an ADD. A container keeps a port in its first network, as in the reference
/// plugin. An owner that does not exist is replaced. \throws cni::Error(kPortInUse), which names
/// the owner of a port.
Plan plan(const Context& context, const Attachment& wanted, OnConflict policy);

/// \throws cni::Error(kPortDenied).
void refuse_denied(const std::vector<DeniedPorts>& denied, const std::vector<Mapping>& mappings);

/// The same, and where the config refuses conflicts:
/// \throws cni::Error(kPortInUse), which names the process, if a socket of the node listens on one
/// of the ports. A socket of the container's monitor is no conflict: podman's conmon has the
/// container ID among its arguments.
void refuse_conflicts(const Conf& conf, const std::vector<Claim>& claims,
                      const std::string& container_id);

}  // namespace portmap
