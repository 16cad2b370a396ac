#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "netlink/message.h"
#include "netlink/types/ip.h"
#include "netlink/types/mac.h"

/// DHCP messages (RFC 2131, RFC 2132) and the UDP datagrams around them. No length in what was
/// received is trusted.
namespace dhcp {

using netlink::Bytes;
using netlink::Ip;
using netlink::Mac;
using netlink::View;

inline constexpr std::uint16_t kServerPort = 67, kClientPort = 68;

/// Option 53.
enum class MessageType : std::uint8_t {
  kDiscover = 1,
  kOffer,
  kRequest,
  kDecline,
  kAck,
  kNak,
  kRelease,
  kInform
};

/// Options that are more than passed on.
namespace option {
inline constexpr std::uint8_t kPad = 0, kSubnetMask = 1, kRouters = 3, kDnsServers = 6,
                              kHostName = 12, kDomainName = 15, kMtu = 26, kStaticRoutes = 33,
                              kRequestedAddress = 50, kLeaseTime = 51, kOverload = 52,
                              kMessageType = 53, kServerId = 54, kParameterList = 55, kMessage = 56,
                              kMaximumSize = 57, kRenewalTime = 58, kRebindingTime = 59,
                              kVendorClass = 60, kClientId = 61, kUserClass = 77,
                              kDomainSearch = 119, kClasslessRoutes = 121, kEnd = 255;
}  // namespace option

/// By number; the parts of an option that stands several times are joined (RFC 3396).
using Options = std::map<std::uint8_t, Bytes>;

/// The value of an option as one address; nothing where it is absent or shorter.
std::optional<Ip> ip_in(const Options& options, std::uint8_t code);
/// The option as a list of addresses; a last one that is cut off is passed over.
std::vector<Ip> ips_in(const Options& options, std::uint8_t code);
/// The option as a number of 32 bits; empty: it has another length.
std::optional<std::uint32_t> u32_in(const Options& options, std::uint8_t code);
/// The option as text without control characters, for logs too; at most 255 bytes.
std::string text_in(const Options& options, std::uint8_t code);

/// A message of Ethernet. Addresses are of IPv4.
struct Message {
  bool reply = false;
  std::uint32_t xid = 0;
  std::uint16_t seconds = 0;
  bool broadcast = false;
  Ip ciaddr = Ip::any(netlink::Family::kIpv4), yiaddr = ciaddr, siaddr = ciaddr, giaddr = ciaddr;
  Mac chaddr = {};
  Options options = {};

  /// Empty: option 53 is absent or none of MessageType.
  std::optional<MessageType> type() const;
  void set_type(MessageType type) { options[option::kMessageType] = {std::uint8_t(type)}; }
  bool operator==(const Message&) const = default;
};

/// Options in ascending order; at least the 300 bytes of BOOTP (RFC 1542, section 2.1).
Bytes encode(const Message& message);
/// Empty: the bytes are no DHCP message, or one for another hardware.
std::optional<Message> decode(View bytes);

struct Endpoints {
  Ip source, destination;
};
/// An IPv4 packet with a UDP datagram from the client's port to the server's.
Bytes datagram_of(View payload, const Endpoints& ends);
/// The payload of an IPv4 packet with a whole UDP datagram to the client's port; nothing for
/// another, or for one whose checksum is wrong. checksum_pending: see netlink::ReceivedPacket.
std::optional<View> payload_of(View packet, bool checksum_pending);

}  // namespace dhcp
