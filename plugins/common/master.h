#pragma once

#include <string>

#include "netlink/route/socket.h"
#include "plugins/common/link_keys.h"

/// The master of macvlan, ipvlan and vlan: the link that the container interface stands on.
namespace plugins {

/// The master that the config names, or for "" the link of the default route: of table main, that
/// with the lowest metric, of IPv4 before IPv6. \throws cni::Error: kInvalidConfig naming the key
/// where the link does not exist, kInternal where there is no default route.
netlink::Link find_master(netlink::RouteSocket& where, const std::string& configured);

/// `mtu` of 0 is the master's. \throws cni::Error(kInvalidConfig) for more than the master's.
void require_mtu(unsigned mtu, const netlink::Link& master);

/// `master`, into std::string master. default_text: empty where the key is required.
template <class Conf>
constexpr auto master_key(const char* default_text) {
  return cni::key<&Conf::master>({.name = "master",
                                  .description = "link that the container interface stands on",
                                  .default_text = default_text});
}

/// `linkInContainer`, into bool link_in_container.
template <class Conf>
constexpr auto link_in_container_key() {
  return cni::key<&Conf::link_in_container>(
      {.name = "linkInContainer",
       .description = "looks the master up in the pod's network namespace, not on the node"});
}

}  // namespace plugins
