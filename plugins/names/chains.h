#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "libcni/common/hash.h"

/// Chains of iptables, with the names that they have in the reference plugins
/// (containernetworking/plugins), so that either removes what the other added.
namespace names {

/// Every chain of a CNI plugin has a name that begins so.
inline constexpr const char* kChainPrefix = "CNI-";

/// The plugin firewall, in table filter.
inline constexpr const char* kForwardChain = "CNI-FORWARD";
inline constexpr const char* kIsolationStage1Chain = "CNI-ISOLATION-STAGE-1";
inline constexpr const char* kIsolationStage2Chain = "CNI-ISOLATION-STAGE-2";
inline constexpr const char* kAdminChain =
    "CNI-ADMIN";  ///< the default of `iptablesAdminChainName`

/// portmap, in table nat. All names but those of pods' chains begin with the prefix.
inline constexpr const char* kHostPortPrefix = "CNI-HOSTPORT-";
inline constexpr const char* kDnatChain = "CNI-HOSTPORT-DNAT";
inline constexpr const char* kSetMarkChain = "CNI-HOSTPORT-SETMARK";
inline constexpr const char* kMasqChain = "CNI-HOSTPORT-MASQ";
/// The parent of obsolete_host_port_chain(), in early versions of the reference plugin.
inline constexpr const char* kSnatChain = "CNI-HOSTPORT-SNAT";
/// In table filter of IPv4, not in the reference plugin: drops what route_localnet would accept.
inline constexpr const char* kGuardChain = "CNI-HOSTPORT-GUARD";

/// The name of an attachment's chain: prefix and hash.
inline std::string attachment_chain(std::string_view prefix, std::string_view network,
                                    std::string_view container_id) {
  constexpr std::size_t kLength = 28;  // XT_EXTENSION_MAXNAMELEN - 1
  return cni::attachment_hash(kLength, prefix, network, container_id);
}
/// Table nat: its masquerading, its hostPorts, and what early versions of the reference plugin had
/// for those.
inline std::string masquerade_chain(std::string_view network, std::string_view container_id) {
  return attachment_chain(kChainPrefix, network, container_id);
}
inline std::string host_port_chain(std::string_view network, std::string_view container_id) {
  return attachment_chain("CNI-DN-", network, container_id);
}
inline std::string obsolete_host_port_chain(std::string_view network,
                                            std::string_view container_id) {
  return attachment_chain("CNI-SN-", network, container_id);
}

}  // namespace names
