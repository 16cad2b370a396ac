#pragma once

#include <cstdint>
#include <string>

namespace tool::probe {

/// A packet of a probe that a kernel dropped, as the tracepoint skb:kfree_skb says it.
struct Drop {
  enum class Of : std::uint8_t {
    kRequest,
    kAnswer,
    kNeighbour  ///< an ARP packet, or a neighbour solicitation or advertisement, for its addresses
  };
  Of of = Of::kRequest;
  /// As the kernel calls it, without SKB_DROP_REASON_ ("IP_RPFILTER"); empty: before Linux 5.17.
  std::string reason = {};
  std::string symbol = {};  ///< the kernel's function that dropped it; empty: unknown
  std::string link = {};    ///< the name of the link that it was at; empty: none
  int link_index = 0;
  std::uint32_t netns = 0;  ///< the inode of the link's network namespace; 0: unknown
  bool operator==(const Drop&) const = default;
};

}  // namespace tool::probe
