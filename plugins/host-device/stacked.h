#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "netlink/route/socket.h"

/// Links that stand on a device of the node in other network namespaces: macvlans, ipvlans, VLANs.
/// They stay when the device moves, and go on to receive its frames; the kernel shows them in their
/// own namespace alone.
namespace host_device {

struct Stacked {
  std::uint64_t netns = 0;  ///< NetNs::Id::inode
  int index = 0;
  bool operator==(const Stacked&) const = default;
};

/// In the namespaces of all processes and of all paths that this process sees. Nothing where the
/// time was not enough.
std::optional<std::vector<Stacked>> stacked_on(const netlink::Link& device);

/// Removes all that are not among those of before; a note on stderr where the time was not enough.
/// \throws netlink::Error.
void remove_stacked(const netlink::Link& device, const std::vector<Stacked>& before);

}  // namespace host_device
