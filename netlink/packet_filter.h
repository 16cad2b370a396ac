#pragma once

#include <cstdint>

#include "netlink/message.h"

namespace netlink {

/// What packets have to have in their transport header to be selected.
struct PacketFilter {
  std::uint8_t protocol = 0;  ///< IPPROTO_*; 0: ARP
  std::uint32_t offset = 0;   ///< of value, in the transport header, or in that of ARP
  Bytes value = {};
};

}  // namespace netlink
