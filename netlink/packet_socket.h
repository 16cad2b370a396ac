#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "netlink/message.h"
#include "netlink/netns.h"
#include "netlink/types/fd.h"
#include "netlink/types/mac.h"

/// Packets of IPv4 by a link, without its addresses and without the routing of its namespace: for
/// clients of protocols that give addresses.
namespace netlink {

/// A packet that PacketSocket received.
struct ReceivedPacket {
  View bytes;  ///< from the IPv4 header on; valid until the next call
  Mac from;
  /// The sender is on this machine and left the checksum to hardware that a packet never met
  /// (TP_STATUS_CSUMNOTREADY): what stands there is none.
  bool checksum_pending = false;
};

/// A packet socket (packet(7)) for IPv4 on one link that receives the UDP datagrams to one port,
/// whole ones, of which the kernel sorts out the others. Opened inside the namespace and used from
/// outside: as long as it is open, the namespace lives. Needs CAP_NET_RAW. Everything throws Error.
class PacketSocket {
 public:
  /// link: its index in ns.
  PacketSocket(const NetNs& ns, int link, std::uint16_t udp_port);

  int fd() const { return fd_.get(); }
  /// Its descriptor, to be closed elsewhere: the kernel takes milliseconds for that. The socket is
  /// of no use any more.
  Fd take_fd() { return std::move(fd_); }
  /// An IPv4 packet in a frame to that address; to everybody without one.
  void send(View packet, const std::optional<Mac>& to);
  /// Empty: no packet now. A link that went down is no error: no packet comes.
  std::optional<ReceivedPacket> receive();

 private:
  Fd fd_;
  int link_;
  Bytes buffer_;
};

}  // namespace netlink
