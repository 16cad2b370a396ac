#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "netlink/message.h"
#include "netlink/packet_filter.h"
#include "netlink/types/ip.h"

/// The packets of probes: what they are made of, and how they and their answers are known again.
namespace tool::probe {

using netlink::Bytes;
using netlink::Ip;
using netlink::View;

/// What tells the packets of one run from all others.
struct Mark {
  std::uint32_t cookie = 0;  ///< TCP's sequence number, and the first bytes of an echo's data
  std::uint16_t id = 0;      ///< of echoes and of DNS queries
  std::uint16_t port = 0;    ///< the first of the ports that TCP probes are sent from

  /// A random one, from getrandom(2).
  static Mark random();
};

enum class Kind : std::uint8_t {
  kEcho,     ///< an echo request of ICMP or ICMPv6
  kSyn,      ///< the first segment of a TCP connection, which is never answered further
  kDns,      ///< a query for the name servers of the root, by UDP
  kDatagram  ///< an empty one of UDP: nobody knows what harms the server there
};

struct Packet {
  Kind kind = Kind::kEcho;
  std::optional<Ip> source = {};  ///< empty: the kernel chooses
  Ip target = {};
  std::uint16_t port = 0;  ///< of the target; echoes have none
  std::uint8_t ttl = 64;
  std::size_t size =
      0;  ///< of the whole IP packet, at least; larger than needed: with "do not fragment"
  std::uint16_t number = 0;  ///< of the probe in its run
  std::uint32_t token = 0;   ///< of this echo alone: who sees one cannot answer for another host

  /// "echo", "TCP port 8080", "DNS", "empty datagram to UDP port 5353".
  std::string str() const;
  /// IPPROTO_*.
  std::uint8_t protocol() const;
};

/// The bytes behind the IP header, or behind UDP's of a DNS query. Checksums are those that the
/// kernel does not compute: TCP's over IPv4, which needs a source, and ICMP's.
Bytes payload_of(const Packet& packet, const Mark& mark);

/// What came back for a probe.
struct Answer {
  enum class Kind : std::uint8_t {
    kNone,
    kReply,    ///< of an echo, or of DNS
    kOpen,     ///< a connection could be opened
    kClosed,   ///< it was refused by a reset, or, of a datagram, no process was at the port
    kArrived,  ///< a datagram was seen where it had to go, and nobody said anything
    kRefused,  ///< an ICMP error, of from
    kNotSent   ///< the sender's kernel refused to send it: error
  };
  Kind kind = Kind::kNone;
  std::optional<Ip> from = {};
  std::uint8_t type = 0, code = 0;  ///< of kRefused: ICMP's, or ICMPv6's
  int error = 0;                    ///< errno, of kNotSent
  /// An ICMP error has the token of its echo, which only those know whom it has passed.
  bool has_token = false;

  bool is_delivered() const {
    return kind == Kind::kReply || kind == Kind::kOpen || kind == Kind::kClosed ||
           kind == Kind::kArrived;
  }
  /// Whether it is the ICMP error of a packet that a link does not take.
  bool says_too_large() const;
  /// Whether it is that of a host on which no process has the port.
  bool says_no_port() const;
  /// Whether it is that of a router where the time to live ended, which has seen the packet.
  bool says_too_far() const;
  /// Whether it is that of a host that found no MAC address for the next hop.
  bool says_no_neighbour() const;
  /// "no answer", "10.0.0.1 says: administratively prohibited".
  std::string str() const;
};

/// An answer to the probe of that number.
struct Received {
  std::uint16_t number = 0;
  Answer answer;
  std::optional<std::uint32_t> token = {};  ///< what it has of an echo's; empty: that is not there
  std::uint8_t protocol = 0;                ///< IPPROTO_* of the probe; 0: it is that of its socket
};
/// Reads what a raw socket of the protocol received: with its IP header for IPv4, without for IPv6.
/// Empty: it is not about a probe of this run. Any bytes are harmless.
std::optional<Received> received_by(const Mark& mark, std::uint8_t protocol, const Ip& from,
                                    View bytes);

/// What selects the packets of a run, and their answers: the data of echoes, whose IDs NAT
/// replaces; the sequence numbers of requests, and those that answers acknowledge; the IDs of
/// queries, behind UDP's header; and datagrams that have nothing there.
std::vector<netlink::PacketFilter> filters_for(const Mark& mark);

/// Whether headers, as a trace has them, are those of a probe of this run or of an answer to one.
struct Seen {
  std::uint16_t number = 0;
  bool is_answer = false;
  Ip source, destination;
  std::optional<std::uint32_t> token = {};  ///< of an echo; empty: that is not there
};
std::optional<Seen> seen_in(const Mark& mark, View network, View transport);

/// A probe that was sent, and where it may be met.
struct Sent {
  Packet packet;
  std::optional<Ip> destination = {};   ///< where it has to be led, if not to its target
  std::vector<Ip> hops = {};            ///< addresses that the link layer is asked for on its way
  std::vector<Ip> sources = {};         ///< the node's own, by which it may masquerade it
  std::vector<std::string> links = {};  ///< of its pods, on the node
  std::vector<std::uint32_t> places = {};  ///< inodes of the network namespaces on its way
};
/// Whether it may be this probe that was seen, or its answer, and not what a pod sends that has
/// seen the marks of a run: an echo has its token, which only who is on its way knows, and others
/// their source. Rules may replace where they go.
bool is_of(const Sent& sent, const Seen& seen);

/// The checksum of RFC 1071 over the bytes, with a sum to begin with.
std::uint16_t checksum(View bytes, std::uint32_t sum = 0);

}  // namespace tool::probe
