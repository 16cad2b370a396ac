#pragma once

#include <cstdint>
#include <string>

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/request.h"
#include "netlink/route/socket.h"
#include "plugins/vrf/state.h"

/// A pod's interface in a VRF of the pod.
namespace vrf {

struct Conf {
  std::string name;
  std::uint32_t table = 0;  ///< 0: the VRF's, or the first that is free
};

/// The pod of a call, and its interface.
struct Pod {
  /// \throws cni::Error: kInvalidNetNs; where this process lacks the rights.
  explicit Pod(const cni::Request& of);

  const cni::Request& request;
  netlink::NetNs ns;
  netlink::RouteSocket socket;

  /// \throws cni::Error where there is no interface CNI_IFNAME.
  netlink::Link interface();
};

/// Makes the interface a member of the VRF, which is created where it does not exist.
/// \throws cni::Error; netlink::Error.
void join(Pod& pod, const Conf& conf, cni::Undo& undo);

/// \throws cni::Error where the VRF does not exist, is down or has another table, or where the
/// interface is not its member.
void check_membership(Pod& pod, const Conf& conf);
/// \throws cni::Error naming the first address or route of result that the interface has not, in
/// the VRF's table.
void check_routing(Pod& pod, const Conf& conf, const cni::Result& result);
/// Adds the addresses and routes that check_routing() would name.
void add_missing(Pod& pod, const Conf& conf, const cni::Result& result);

/// Takes the interface out of its VRF, which goes with the last one. The interface may not exist.
void leave(const netlink::NetNs& ns, netlink::RouteSocket& pod, const State& state);
/// The same for an attachment of which no state is known, as of the reference plugin's: nothing
/// happens where the interface is not in the VRF.
void leave(const netlink::NetNs& ns, netlink::RouteSocket& pod, const netlink::Link& link,
           const std::string& name);

}  // namespace vrf
