#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "netlink/message.h"
#include "netlink/netns.h"
#include "netlink/types/fd.h"
#include "netlink/types/ip.h"
#include "netlink/types/mac.h"

/// Finds another owner of an address on an Ethernet segment: by ARP probes (RFC 5227), and by what
/// neighbours announce in ARP and Neighbour Discovery (RFC 4861, 4862).
namespace netlink {

/// An Ethernet frame: a broadcast ARP request for an IPv4 address that names no sender, so that no
/// cache changes (RFC 5227, section 2.1.1).
Bytes arp_probe(const Mac& own, const Ip& address);
/// The same of a host that has an address: who answers for others (proxy_arp) answers no probe.
Bytes arp_request(const Mac& own, const Ip& sender, const Ip& address);
/// A request for its own address: whoever knew the address under another MAC address learns
/// (section 2.3).
Bytes arp_announcement(const Mac& own, const Ip& address);

/// The same for an IPv6 address, as the neighbour solicitation of duplicate address detection (RFC
/// 4862, section 5.4.2): not for an address that a host of ours is about to take, which gives it
/// up.
Bytes solicitation_probe(const Mac& own, const Ip& address);

/// The same of a host that has an address, as any asks for a MAC address (RFC 4861, section 4.3).
Bytes solicitation(const Mac& own, const Ip& sender, const Ip& address);

/// A neighbour has an address, or is about to take it.
struct NeighbourClaim {
  Ip address;
  Mac owner;
  bool operator==(const NeighbourClaim&) const = default;
};

/// The claim that an Ethernet frame makes: an ARP message from the address or a probe for it, a
/// neighbour advertisement, or the neighbour solicitation of duplicate address detection. Nothing
/// for other frames and those that are cut off.
std::optional<NeighbourClaim> claim_in(View frame);

/// A packet socket (packet(7)) on one link. Needs CAP_NET_RAW. Everything throws Error.
class SegmentSocket {
 public:
  enum class Protocol : std::uint16_t { kArp = 0x0806, kIpv6 = 0x86dd };
  using Clock = std::chrono::steady_clock;

  /// link: its index in ns.
  SegmentSocket(const NetNs& ns, int link, Protocol protocol);

  void send(const Bytes& frame);
  /// Readable where there may be a claim; for take().
  int fd() const { return fd_.get(); }
  /// See PacketSocket.
  Fd take_fd() { return std::move(fd_); }
  /// The claim of the next frame that makes one, of those received so far.
  std::optional<NeighbourClaim> take();
  /// The first claim that concerns() says is of interest; nothing by the end of the time.
  std::optional<NeighbourClaim> claim_until(
      Clock::time_point end, const std::function<bool(const NeighbourClaim&)>& concerns);

 private:
  /// Until there is a frame, or the time is up.
  void wait(Clock::time_point end);

  Fd fd_;
};

}  // namespace netlink
