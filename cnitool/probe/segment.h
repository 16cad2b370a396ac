#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cnitool/probe/pacer.h"
#include "cnitool/probe/question.h"
#include "netlink/types/mac.h"

/// Who on the segments of pods has their addresses, by ARP probes (RFC 5227) and the solicitations
/// of duplicate address detection (RFC 4862), which change no cache.
namespace tool::probe {

/// An address that another host has, too.
struct Duplicate {
  std::string network;
  std::string whose;  ///< "shop/web-1 (eth0)", "the gateway"
  Ip ip;
  netlink::Mac expected = {};  ///< zero: that of a gateway, which the node does not know
  std::vector<netlink::Mac> others;
  std::optional<netlink::Mac> own = {};  ///< that the pod has instead of the one of its result
  std::string netns = {}, ifname = {};   ///< of the pod
};

/// Asks on each segment for the addresses of these pods, and for their gateways. On a bridge with
/// many pods each question would reach all of them: there their own namespaces say which addresses
/// they have, and the ports of other hosts alone are asked.
/// \throws netlink::Error.
std::vector<Duplicate> duplicates(const std::vector<Subject>& subjects,
                                  const std::vector<bool>& asked, const NodeFacts& node,
                                  Pacer& pacer);

}  // namespace tool::probe
