#pragma once

#include "netlink/route/link.h"
#include "netlink/route/request.h"
#include "netlink/types/ip.h"

namespace netlink {

/// An address of a link as the kernel showed it.
struct LinkAddress {
  int link = 0;
  Cidr cidr;
  bool tentative = false;   ///< IPv6: duplicate address detection is not done yet
  bool dad_failed = false;  ///< IPv6: somebody else has it
};
LinkAddress decode_address(const Reply& reply);

/// An address to give to a link: scope global, and a broadcast address for IPv4 prefixes under 31.
struct NewAddress {
  Cidr cidr;
  bool no_dad = false;  ///< IPv6: usable at once (IFA_F_NODAD), for links nobody else shares
  bool no_prefix_route = false;  ///< without the kernel's route to the subnet (IFA_F_NOPREFIXROUTE)
};
/// Create only: EEXIST where the link has it.
Request add(const Link& link, const NewAddress& address);
Request remove(const Link& link, const Cidr& address);

}  // namespace netlink
