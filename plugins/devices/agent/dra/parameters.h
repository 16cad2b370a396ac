#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plugins/devices/agent/dra/claim.h"
#include "plugins/devices/agent/pools/pools.h"

/// Parameters of a claim or of its DeviceClass, which change the plugins of a pool:
///
///     {"plugins": [{"type": "macvlan", "mode": "vepa"}, {"type": "tuning", "mtu": 1400}],
///      "ifname": "storage"}
///
/// The keys of a plugin replace those of the pool's plugin of that type, one by one at the top
/// level; null takes a key away. A plugin that the pool does not have is appended if it is one that
/// changes an interface: tuning, sbr, bandwidth, vrf. Keys that name the device are refused. What
/// the user of a namespace writes, in a claim, names no other program and no path of the node.
namespace devices::dra {

/// The pool with the parameters for a request, in their order. \throws cni::Error(kInvalidConfig)
/// with the path of what is wrong.
Pool merged(Pool pool, const std::vector<Config>& configs, const std::string& request);

/// The list of plugins with a limit of the bandwidth, for traffic from the pod, and to it where the
/// first plugin makes a veth. A plugin bandwidth of the list that is stricter stays as it is.
/// \param rate bits per second.
nlohmann::ordered_json with_bandwidth(nlohmann::ordered_json plugins, std::int64_t rate);

}  // namespace devices::dra
