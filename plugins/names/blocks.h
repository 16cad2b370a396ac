#pragma once

/// What cluster-pool and patchbay-agent share: which blocks of a pool the node has.
namespace names {

/// `NETWORK.json`, `NETWORK.nodes` and `NETWORK.want`: plugins/state/blocks.h.
inline constexpr const char* kBlocksDir = "/var/lib/cni/blocks";
inline constexpr const char* kBlocksSocket = "/run/cni/patchbay-blocks.sock";  ///< of the agent
inline constexpr const char* kBlocksConfig = "/etc/patchbay/blocks.json";

}  // namespace names
