#pragma once

#include <string>
#include <vector>

#include "libcni/common/error.h"
#include "plugins/portmap/nftables.h"
#include "plugins/portmap/record.h"

/// Who may have a port that is in use or forbidden.
namespace portmap {

/// Codes of this plugin, as the spec leaves them to it.
inline constexpr cni::Code kPortInUse{100};
inline constexpr cni::Code kPortDenied{101};

/// "DEVICE:INODE" of a namespace; empty where there is none.
std::string inode_of_netns(const std::string& path);

/// Whether the attachment's interface is still there: its namespace at the recorded path, the same
/// one as then, with a link of that name in it.
bool is_alive(const Attachment& attachment);

/// Whether `wanted` may take the key from whoever has it. A container does not take from itself:
/// its first network keeps the port, as in the reference. A claim whose owner is gone is anybody's.
/// \throws cni::Error(kPortInUse) naming the owner.
nft::Answer judge(const Records& records, OnConflict policy, const Attachment& wanted,
                  const nft::Held& held);

/// \throws cni::Error(kPortInUse) where a socket of the node listens on one of the ports, naming
/// the process. One that the container's own monitor holds (podman's conmon has the container ID
/// among its arguments) is no conflict.
void refuse_listeners(const std::vector<Claim>& claims, const std::string& container_id);

/// \throws cni::Error(kPortDenied).
void refuse_denied(const std::vector<DeniedPorts>& denied, const std::vector<Mapping>& mappings);

}  // namespace portmap
