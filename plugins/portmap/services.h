#pragma once

#include <optional>

#include "plugins/portmap/backend.h"

/// The choice of the backend, beside kube-proxy in IPVS mode: Services' addresses are local
/// addresses of the node, and its rules in iptables' table nat exempt packets to them from the
/// rules behind. Chains of another table are not exempted, and no expression of nf_tables gives the
/// link of a local address.
namespace portmap {

/// The configured or the detected backend: nftables, unless kube-proxy in IPVS mode takes packets
/// to Services from iptables alone. \throws cni::Error(kPluginUnavailable), which names what is
/// missing.
BackendName choose_backend(std::optional<BackendName> configured, netlink::nf::NfSocket* socket);

/// Whether kube-proxy in IPVS mode was started after ADD had chosen nftables: the ports precede
/// Services until they are mapped again.
bool precedes_services(BackendName backend, std::optional<BackendName> configured,
                       netlink::nf::NfSocket* socket);

/// Moves ports of other pods to iptables, if kube-proxy in IPVS mode was started after their ADD
/// had chosen nftables, so that Services get their ports back with the next ADD on the node. A
/// configured backend stays. What fails is logged, and left to REPAIR.
/// \param seen this ADD has found kube-proxy in IPVS mode; else link kube-ipvs0 is looked up.
void yield_to_services(bool seen) noexcept;

}  // namespace portmap
