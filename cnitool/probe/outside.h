#pragma once

#include <vector>

#include "cnitool/probe/packet.h"
#include "netlink/types/mac.h"
#include "netlink/wire.h"

/// Packets of a host beyond the node, which the node's link to that host receives.
namespace tool::probe {

/// The other end of the link to a host, in whose name packets arrive. What the node answers leaves
/// it, and reaches the host.
class Outside {
 public:
  /// \throws cni::Error where the host is not beyond an Ethernet link of the node, or where the
  /// kernel does not let packets be handed to the link.
  explicit Outside(const Ip& host);

  /// \return 0, or the errno with which the kernel refuses it.
  int send(const Packet& packet, const Mark& mark);
  /// What the node has answered since the last call.
  std::vector<Received> take(const Mark& mark);
  int fd() const { return wire_.fd(); }

 private:
  struct Place {
    int link = 0;
    netlink::Mac own, router;  ///< of the link, and of who sends to it
  };
  static Place place_of(const Ip& host);
  static netlink::Wire wire_at(const Place& place, const Ip& host);

  Place place_;
  netlink::Wire wire_;
};

/// The packet from its IP header on, with all checksums; its source is set.
Bytes ip_packet(const Packet& packet, const Mark& mark);

}  // namespace tool::probe
