#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "netlink/route/link.h"
#include "netlink/route/request.h"
#include "netlink/types/ip.h"

namespace netlink {

/// The lifetime of an address from now on: valid, and preferred to others.
struct Lifetime {
  std::uint32_t preferred = 0, valid = 0;  ///< seconds; 2^32-1 is forever
  bool operator==(const Lifetime&) const = default;
};

/// An address of a link as the kernel showed it.
struct LinkAddress {
  int link = 0;
  Cidr cidr;
  bool tentative = false;   ///< IPv6: duplicate address detection is not done yet
  bool dad_failed = false;  ///< IPv6: somebody else has it
  bool permanent = false;   ///< nothing ends it: given by a person, not by DHCP or a router
  std::optional<Ip> peer = {}, broadcast = {};  ///< the other end of a point-to-point link
  std::string label = {};                       ///< IPv4
  std::uint8_t scope = 0;                       ///< RT_SCOPE_UNIVERSE
  std::uint32_t flags = 0;                      ///< IFA_F_*, of those that can be set
  std::optional<Lifetime> lifetime = {};        ///< unless permanent
  std::uint32_t metric = 0;                     ///< of the kernel's route to the subnet
  std::uint8_t protocol = 0;                    ///< IFAPROT_*: who gave it
  bool operator==(const LinkAddress&) const = default;
};
LinkAddress decode_address(const Reply& reply);

/// An address to give to a link: scope global, and a broadcast address for IPv4 prefixes under 31.
struct NewAddress {
  Cidr cidr;
  bool no_dad = false;  ///< IPv6: usable at once (IFA_F_NODAD), for links nobody else shares
  bool no_prefix_route = false;  ///< without the kernel's route to the subnet (IFA_F_NOPREFIXROUTE)
};
/// Create only: EEXIST where the link has it.
RouteRequest add(const Link& link, const NewAddress& address);
/// The address as it was on the link it was read of. Tolerates that the link has it.
RouteRequest add_again(const Link& link, const LinkAddress& address);
RouteRequest remove(const Link& link, const Cidr& address);
/// Changes how long an IPv4 address of the link is valid; absent: forever. All else of it stays.
/// Tolerates that the link does not have it any more, and does not add it then.
RouteRequest set_lifetime(const Link& link, const LinkAddress& address,
                          const std::optional<Lifetime>& lifetime);

}  // namespace netlink
