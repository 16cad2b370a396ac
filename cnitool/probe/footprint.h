#pragma once

#include <optional>
#include <set>
#include <utility>
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

  /// A host to which probes may be handed on.
  void expect(const Ip& hop) { touched_.insert(hop); }
  /// A probe that is about to be sent, and the places that may track it.
  void expect(const Packet& packet, const Mark& mark, const std::vector<std::size_t>& where);

  /// The connection of a probe that the place tracks; empty: none.
  std::optional<netlink::nf::Flow> flow_of(std::size_t place, const Packet& packet,
                                           const Mark& mark);
  /// Removes the connections of all probes that were expected.
  void forget();
  /// forget(), and removes the neighbours that no place had before, of addresses that probes have
  /// or pass. Those of others are left alone, because somebody else has made them.
  void restore();
  /// restore() in a copy of the process, with sockets of its own.
  void restore_for_other();

 private:
  using Key = std::pair<int, Ip>;  ///< a link and an address
  struct Place {
    netlink::NetNs ns;
    std::set<Key> before;
    std::optional<netlink::nf::NfSocket> socket;
  };
  struct Expected {
    Packet packet;
    Mark mark;
    std::vector<std::size_t> where;
  };
  void remove_neighbours();

  std::vector<Place> places_;
  std::vector<Expected> expected_;
  std::set<Ip> touched_;
};

}  // namespace tool::probe
