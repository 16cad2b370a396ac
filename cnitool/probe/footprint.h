#pragma once

#include <optional>
#include <vector>

#include "cnitool/probe/sender.h"
#include "netlink/netns.h"
#include "netlink/nf/conntrack.h"
#include "netlink/route/neighbour.h"

/// What probes leave in kernels, and its removal: entries of neighbours and of tracked connections.
namespace tool::probe {

/// Of the probes that are sent from some namespaces.
class Footprint {
 public:
  /// Remembers the neighbours that each has. \throws netlink::Error.
  explicit Footprint(const std::vector<netlink::NetNs>& places);
  /// The connection of a probe that the place tracks; empty: none.
  std::optional<netlink::nf::Flow> flow_of(std::size_t place, const Packet& packet,
                                           const Mark& mark);
  /// Removes the connections of the probe, of all places that may track it.
  void forget(const Packet& packet, const Mark& mark, const std::vector<std::size_t>& where);
  /// Removes the neighbours that no place had before.
  void restore();

 private:
  struct Place {
    netlink::NetNs ns;
    std::vector<netlink::Neighbour> before;
    std::optional<netlink::nf::NfSocket> socket;
  };
  std::vector<Place> places_;
};

}  // namespace tool::probe
