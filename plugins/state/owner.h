#pragma once

#include <cstdint>
#include <string>

#include "libcni/common/attachment.h"
#include "libcni/plugin/life.h"
#include "libcni/plugin/request.h"
#include "netlink/route/socket.h"

namespace plugins {

/// The owner of a state, and the namespace that it is about.
struct StateOwner {
  cni::AttachmentKey key = {};
  std::string netns = {};    ///< CNI_NETNS
  std::uint64_t cookie = 0;  ///< RouteSocket::cookie() of it; 0: unknown
  bool operator==(const StateOwner&) const = default;

  /// Whether the namespace is the one of that cookie; true where the kernel does not say.
  bool is_in(std::uint64_t pod_cookie) const;
};
/// Whether the pod exists: its namespace is still at the path. A pod can rename its interface.
cni::Life life_of(const StateOwner& owner);
/// The same for what must not be taken from a pod that lives: true where that cannot be seen.
bool lives(const StateOwner& owner);
StateOwner state_owner(const cni::Request& request);
StateOwner state_owner(const cni::Request& request, const netlink::RouteSocket& pod);

}  // namespace plugins
