#pragma once

#include <cstdint>
#include <string>

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/request.h"
#include "plugins/common/link/namespaces.h"
#include "plugins/vrf/state.h"

/// A pod's interface in a VRF of the pod.
namespace vrf {

struct Conf {
  std::string name;
  std::uint32_t table = 0;  ///< 0: the VRF's, or the first that is free
};

/// Makes the interface a member of the VRF, which is created where it does not exist.
/// \throws cni::Error; netlink::Error.
void join(plugins::Namespaces& sides, const Conf& conf, cni::Undo& undo);

/// \throws cni::Error where the VRF does not exist, is down or has another table, or where the
/// interface is not its member.
void check_membership(plugins::Namespaces& sides, const Conf& conf);
/// \throws cni::Error naming the first address or route of result that the interface has not, in
/// the VRF's table.
void check_routing(plugins::Namespaces& sides, const Conf& conf, const cni::Result& result);
/// Adds the addresses and routes that check_routing() would name.
void add_missing(plugins::Namespaces& sides, const Conf& conf, const cni::Result& result);

/// Takes the interface out of its VRF, which goes with the last one. The interface may not exist.
void leave(plugins::Namespaces& sides, const State& state);
/// The same for an attachment of which no state is known, as of the reference plugin's: nothing
/// happens where the name is empty or the interface is not in the VRF.
void leave_named(plugins::Namespaces& sides, const netlink::Link& link, const std::string& name);

}  // namespace vrf
