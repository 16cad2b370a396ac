#pragma once

#include <cstdint>
#include <string>

#include "libcni/plugin/request.h"
#include "netlink/route/socket.h"
#include "plugins/common/link/link_keys.h"

/// The master of macvlan, ipvlan and vlan: the link that the container interface stands on.
namespace plugins {

inline constexpr const char* kMasterMtu = "0 (the master's) or 68 to 65535";

/// The master that the config names, or for "" the link of the default route: of table main, that
/// with the lowest metric, of IPv4 before IPv6. \throws cni::Error: kInvalidConfig naming the key
/// where the link does not exist, kInternal where there is no default route.
netlink::Link find_master(netlink::RouteSocket& where, const std::string& configured);

/// The same in the words of the reference plugin of ipvlan.
netlink::Link lookup_master(netlink::RouteSocket& where, const std::string& configured);

/// `mtu` as written; 0 is the master's. \throws cni::Error(kInvalidConfig) for one that the link
/// cannot have, above all for more than the master's.
void require_mtu(std::int64_t mtu, const netlink::Link& master);
/// The same where no master is known. \throws cni::Error(kInvalidConfig) for one that no link can
/// have.
void require_possible_mtu(const cni::Request& request, std::int64_t mtu);

/// STATUS: the master. \throws cni::Error(kPluginUnavailable) where ADD would find none on the
/// node, or one that does not carry the MTU.
netlink::Link require_usable_master(const std::string& configured, std::int64_t mtu);

/// `master`, into std::string master. default_text: empty where the key is required.
template <class Conf>
constexpr auto master_key(const char* default_text) {
  return cni::key<&Conf::master>({.name = "master",
                                  .description = "link that the container interface stands on",
                                  .default_text = default_text});
}

/// `mtu`, into std::int64_t mtu: an integer that require_mtu() judges, whose text names the
/// master's.
template <class Conf>
void read_master_mtu(const cni::Reader& place, Conf& conf) {
  conf.mtu = place.as_int(INT32_MIN, INT32_MAX);
}
template <class Conf>
constexpr auto master_mtu_key() {
  return cni::custom<read_master_mtu<Conf>>(
      {.name = "mtu",
       .description = "MTU in bytes of the interface, at most the master's; 0 is the master's",
       .default_text = "0",
       .type = cni::Type::kInteger,
       .minimum = 68,  // RFC 791; the kernel's ETH_MIN_MTU
       .maximum = 65535,
       .expected = kMasterMtu,
       .or_zero = true});
}

/// `linkInContainer`, into bool link_in_container.
template <class Conf>
constexpr auto link_in_container_key() {
  return cni::key<&Conf::link_in_container>(
      {.name = "linkInContainer",
       .description = "looks the master up in the pod's network namespace, not on the node"});
}

}  // namespace plugins
