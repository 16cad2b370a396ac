#pragma once

#include <optional>
#include <vector>

#include "libcni/config/result.h"
#include "netlink/address_claim.h"
#include "plugins/common/link/interface.h"

/// Duplicate addresses on a segment that others share: what the kernel does not do, or does not
/// say.
namespace plugins {

/// Probes for the IPv4 addresses by ARP, all at once, for 0.9 s: RFC 5227, section 2.1.1, in less
/// time. The interface is down before and after, without addresses. \throws cni::Error naming the
/// address and the MAC address of who has it; netlink::Error.
void refuse_duplicates(const PodInterface& interface, const std::vector<cni::Address>& addresses);

/// Hears what neighbours say of their IPv6 addresses while the kernel looks for duplicates, which
/// it reports without their owner.
class Neighbours {
 public:
  explicit Neighbours(const PodInterface& interface);
  /// Empty: nobody has claimed the address.
  std::optional<netlink::Mac> owner_of(const netlink::Ip& address);

 private:
  netlink::Mac own_;
  netlink::SegmentSocket socket_;
};

}  // namespace plugins
