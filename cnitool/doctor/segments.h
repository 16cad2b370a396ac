#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cnitool/clashes.h"
#include "cnitool/doctor/node.h"
#include "netlink/route/link.h"

/// Segments of the network as the links of the node show them: nothing is said of what is behind.
namespace tool::doctor {

/// A segment at a link: that of its frames without a tag, or with these.
struct Frames {
  std::string link;
  std::vector<std::uint32_t> tags = {};  ///< the outer one first
  auto operator<=>(const Frames&) const = default;
};

/// Which links are on one segment: VLANs and macvlans with what they stand on, ports with their
/// bridge or bond. Two links without any of this are on two segments, as far as is known.
class Segments {
 public:
  /// \param node outlives the Segments.
  explicit Segments(const Node& node);

  bool are_joined(const Wire& one, const Wire& other) const;

 private:
  Frames start_of(const Wire& wire) const;
  std::vector<Frames> next_to(const Frames& at) const;
  void add_stack(const netlink::Link& link, const Frames& at, std::vector<Frames>& out) const;
  void add_ports(const netlink::Link& link, const Frames& at, std::vector<Frames>& out) const;
  void add_bridge(const netlink::Link& port, const netlink::Link& bridge, const Frames& at,
                  std::vector<Frames>& out) const;
  std::vector<netlink::PortVlan> vlans_of(const netlink::Link& port) const;

  const Node& node_;
  const std::string uplink_;
};

/// What networks give out: those of files, and those of pods that live and that no file names.
std::vector<NetworkAddresses> address_networks(const Node& node);

}  // namespace tool::doctor
