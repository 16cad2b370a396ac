#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cnitool/probe/sender.h"
#include "netlink/netns.h"
#include "netlink/nf/conntrack.h"
#include "netlink/route/neighbour.h"

/// What probes leave in kernels, and its removal: entries of neighbours and of tracked connections,
/// and what IPv6 has learnt of paths.
namespace tool::probe {

/// Of the probes that are sent from some namespaces.
class Footprint {
 public:
  /// The first is the node. \throws netlink::Error.
  explicit Footprint(const std::vector<netlink::NetNs>& places);

  /// A host to which a place may hand probes on.
  void expect(std::size_t place, const Ip& hop) { touch(place, hop); }
  /// A link of the node by which a place is reached.
  void expect(std::size_t place, int node_link);
  /// A probe that is about to be sent, and the places that may track it.
  void expect(const Packet& packet, const Mark& mark, const std::vector<std::size_t>& where);
  /// Remembers the neighbours and paths that are there before the probes that were expected.
  /// \throws netlink::Error.
  void remember();

  /// The connection of a probe that the place tracks; empty: none.
  std::optional<netlink::nf::Flow> flow_of(std::size_t place, const Packet& packet,
                                           const Mark& mark);
  /// What the kernel lacks, so that the node's are not seen ("nfnetlink"); empty: nothing, or it
  /// tracks none. \throws netlink::Error.
  std::string lacks();
  /// Removes the connections of all probes that were expected, also in other zones than the usual
  /// one, and those whose source or destination was replaced before they were tracked.
  void forget();
  /// forget(), and removes the neighbours that no place had before, of addresses that probes have
  /// or pass. Those of others are left alone, because somebody else has made them.
  void restore();
  /// restore() in a copy of the process, with sockets of its own.
  void restore_for_other();

 private:
  using Key = std::pair<int, Ip>;  ///< a link and an address
  /// A dump of neighbours reads those of all namespaces (neigh_dump_table() in
  /// net/core/neighbour.c), so that only the node's are dumped; a pod is asked for those that it
  /// may have.
  struct Place {
    netlink::NetNs ns;
    std::set<Key> before;
    std::optional<netlink::nf::NfSocket> socket;
    std::set<int> links = {};       ///< that have addresses
    std::vector<Ip> own = {};       ///< link-local, by which IPv6 asks again
    std::set<Ip> touched = {};      ///< that probes have or pass here
    std::map<Ip, bool> paths = {};  ///< of large packets: whether one was learnt before
    std::set<Ip> remembered = {};   ///< of these: whether they are in before is known
  };
  struct Expected {
    Packet packet;
    Mark mark;
    std::vector<std::size_t> where;
  };
  void touch(std::size_t place, const Ip& ip);
  bool is_ours(const Place& place, const std::vector<const Expected*>& probes,
               const netlink::nf::Flow& flow) const;
  void forget_changed(std::size_t place, const std::vector<const Expected*>& probes);
  void remove_paths();
  std::vector<netlink::Neighbour> touched_at(std::size_t place, const std::set<Ip>& touched) const;
  void remove_neighbours();

  std::vector<Place> places_;
  std::vector<Expected> expected_;
  std::map<int, std::vector<Ip>> node_own_;  ///< link-local addresses of the node, by links
};

}  // namespace tool::probe
