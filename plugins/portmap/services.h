#pragma once

namespace portmap {

/// Moves ports of other pods to iptables, if kube-proxy in IPVS mode was started after their ADD
/// had chosen nftables, so that Services get their ports back with the next ADD on the node. A
/// configured backend stays. What fails is logged, and left to REPAIR.
/// \param seen this ADD has found kube-proxy in IPVS mode; else link kube-ipvs0 is looked up.
void yield_to_services(bool seen) noexcept;

}  // namespace portmap
