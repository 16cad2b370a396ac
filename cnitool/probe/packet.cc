#include "cnitool/probe/packet.h"

#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using netlink::cat;

constexpr std::size_t kV4Header = 20, kV6Header = 40, kIcmpHeader = 8, kTcpHeader = 20,
                      kUdpHeader = 8;
constexpr std::uint8_t kSynFlag = 0x02, kResetFlag = 0x04, kAckFlag = 0x10;

void put16(Bytes& out, std::uint32_t value) {
  out.push_back(static_cast<std::uint8_t>(value >> 8));
  out.push_back(static_cast<std::uint8_t>(value));
}
void put32(Bytes& out, std::uint32_t value) {
  put16(out, value >> 16);
  put16(out, value & 0xffff);
}

std::uint16_t get16(View bytes, std::size_t at) {
  if (at + 2 > bytes.size()) return 0;
  return static_cast<std::uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}
std::uint32_t get32(View bytes, std::size_t at) {
  return static_cast<std::uint32_t>(get16(bytes, at)) << 16 | get16(bytes, at + 2);
}

std::uint32_t sum_of(View bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    sum += static_cast<std::uint32_t>(bytes[i] << 8 | (i + 1 < bytes.size() ? bytes[i + 1] : 0));
  }
  return sum;
}

void set16(Bytes& bytes, std::size_t at, std::uint16_t value) {
  bytes[at] = static_cast<std::uint8_t>(value >> 8);
  bytes[at + 1] = static_cast<std::uint8_t>(value);
}

Bytes echo(const Packet& packet, const Mark& mark) {
  const bool is_v4 = packet.target.is_v4();
  Bytes out{is_v4 ? std::uint8_t{ICMP_ECHO} : std::uint8_t{ICMP6_ECHO_REQUEST}, 0, 0, 0};
  put16(out, mark.id);
  put16(out, packet.number);
  put32(out, mark.cookie);
  put32(out, packet.token);
  const std::size_t header = is_v4 ? kV4Header : kV6Header;
  if (packet.size > header + out.size()) out.resize(packet.size - header);
  if (is_v4) set16(out, 2, checksum(out));
  return out;
}

// RFC 9293, section 3.1: with the option that says the largest segment, which some demand.
Bytes syn(const Packet& packet, const Mark& mark) {
  Bytes out;
  put16(out, static_cast<std::uint32_t>(mark.port + packet.number));
  put16(out, packet.port);
  put32(out, mark.cookie);
  put32(out, 0);
  put16(out, 6 << 12 | kSynFlag);
  put16(out, 64240);
  put32(out, 0);
  put32(out, 0x020405b4);
  if (packet.target.is_v4() && packet.source) {
    const std::uint32_t pseudo = sum_of({packet.source->data(), 4}) +
                                 sum_of({packet.target.data(), 4}) + IPPROTO_TCP +
                                 static_cast<std::uint32_t>(out.size());
    set16(out, 16, checksum(out, pseudo));
  }
  return out;
}

// RFC 1035, section 4.1: the name servers of ".", which every server of names can say.
Bytes dns(const Mark& mark) {
  Bytes out;
  put16(out, mark.id);
  put16(out, 0x0100);  // recursion desired
  for (const std::uint32_t count : {1U, 0U, 0U, 0U}) put16(out, count);
  out.push_back(0);
  put16(out, 2);  // NS
  put16(out, 1);  // IN
  return out;
}

struct Headers {
  std::uint8_t protocol = 0;
  Ip source, destination;
  std::size_t size = 0;
};

std::optional<Headers> headers_of(View bytes) {
  if (bytes.size() >= kV4Header && bytes[0] >> 4 == 4) {
    const std::size_t size = static_cast<std::size_t>(bytes[0] & 0xf) * 4;
    if (size < kV4Header || size > bytes.size()) return std::nullopt;
    return Headers{bytes[9], Ip::from_bytes(&bytes[12], 4), Ip::from_bytes(&bytes[16], 4), size};
  }
  if (bytes.size() >= kV6Header && bytes[0] >> 4 == 6) {
    return Headers{bytes[6], Ip::from_bytes(&bytes[8], 16), Ip::from_bytes(&bytes[24], 16),
                   kV6Header};
  }
  return std::nullopt;
}

struct Number {
  std::uint16_t number = 0;
  bool is_answer = false;
  std::optional<std::uint32_t> token = {};
};

std::optional<Number> number_of_echo(const Mark& mark, std::uint8_t protocol, View bytes) {
  if (bytes.size() < kIcmpHeader) return std::nullopt;
  // NAT may have given it another ID; what an ICMP error has of it may have no data.
  const bool has_data = bytes.size() >= kIcmpHeader + 4;
  if (!has_data && get16(bytes, 4) != mark.id) return std::nullopt;
  const bool is_v4 = protocol == IPPROTO_ICMP;
  const int request = is_v4 ? int{ICMP_ECHO} : int{ICMP6_ECHO_REQUEST};
  const int reply = is_v4 ? int{ICMP_ECHOREPLY} : int{ICMP6_ECHO_REPLY};
  if (bytes[0] != request && bytes[0] != reply) return std::nullopt;
  if (has_data && get32(bytes, kIcmpHeader) != mark.cookie) return std::nullopt;
  Number out{get16(bytes, 6), bytes[0] == reply};
  if (bytes.size() >= kIcmpHeader + 8) out.token = get32(bytes, kIcmpHeader + 4);
  return out;
}

std::optional<Number> number_of_segment(const Mark& mark, View bytes) {
  if (bytes.size() < kIcmpHeader) return std::nullopt;
  if (get32(bytes, 4) == mark.cookie && get16(bytes, 0) >= mark.port) {
    return Number{static_cast<std::uint16_t>(get16(bytes, 0) - mark.port)};
  }
  const bool is_whole = bytes.size() >= kTcpHeader;
  if (!is_whole || get32(bytes, 8) != mark.cookie + 1 || get16(bytes, 2) < mark.port) {
    return std::nullopt;
  }
  return Number{static_cast<std::uint16_t>(get16(bytes, 2) - mark.port), true};
}

std::optional<Number> number_of_query(const Mark& mark, View bytes) {
  constexpr std::uint16_t kDnsPort = 53;
  if (bytes.size() >= kUdpHeader && get16(bytes, 4) == kUdpHeader && get16(bytes, 0) >= mark.port) {
    return Number{static_cast<std::uint16_t>(get16(bytes, 0) - mark.port)};
  }
  if (bytes.size() < kIcmpHeader + 2 || get16(bytes, kIcmpHeader) != mark.id) return std::nullopt;
  const bool is_answer = get16(bytes, 0) == kDnsPort;
  const std::uint16_t own = get16(bytes, is_answer ? 2 : 0);
  if (own < mark.port) return std::nullopt;
  return Number{static_cast<std::uint16_t>(own - mark.port), is_answer};
}

std::optional<Number> number_in(const Mark& mark, std::uint8_t protocol, View bytes) {
  if (protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6) {
    return number_of_echo(mark, protocol, bytes);
  }
  if (protocol == IPPROTO_UDP) return number_of_query(mark, bytes);
  return protocol == IPPROTO_TCP ? number_of_segment(mark, bytes) : std::nullopt;
}

// An ICMP error has the beginning of the packet that it is about.
std::optional<Received> error_in(const Mark& mark, const Ip& from, View bytes) {
  if (bytes.size() < kIcmpHeader) return std::nullopt;
  const View inner = bytes.subspan(kIcmpHeader);
  const auto headers = headers_of(inner);
  if (!headers) return std::nullopt;
  const auto number = number_in(mark, headers->protocol, inner.subspan(headers->size));
  if (!number || number->is_answer) return std::nullopt;
  return Received{number->number,
                  {Answer::Kind::kRefused, from, bytes[0], bytes[1]},
                  number->token,
                  headers->protocol};
}

bool is_error(std::uint8_t protocol, std::uint8_t type) {
  if (protocol == IPPROTO_ICMPV6) return type < ICMP6_INFOMSG_MASK;
  return type == ICMP_DEST_UNREACH || type == ICMP_TIME_EXCEEDED || type == ICMP_PARAMETERPROB;
}

const char* unreachable(std::uint8_t code) {
  switch (code) {
    case ICMP_NET_UNREACH:
      return "network unreachable";
    case ICMP_HOST_UNREACH:
      return "host unreachable";
    case ICMP_PROT_UNREACH:
      return "protocol unreachable";
    case ICMP_PORT_UNREACH:
      return "port unreachable";
    case ICMP_FRAG_NEEDED:
      return "packet too large";
    case ICMP_NET_ANO:
    case ICMP_HOST_ANO:
    case ICMP_PKT_FILTERED:
      return "administratively prohibited";
    default:
      return "unreachable";
  }
}

const char* unreachable6(std::uint8_t code) {
  switch (code) {
    case ICMP6_DST_UNREACH_NOROUTE:
      return "no route";
    case ICMP6_DST_UNREACH_ADMIN:
    case 5:  // a policy for the source, RFC 4443
      return "administratively prohibited";
    case ICMP6_DST_UNREACH_ADDR:
      return "address unreachable";
    case ICMP6_DST_UNREACH_NOPORT:
      return "port unreachable";
    default:
      return "unreachable";
  }
}

std::string words_of(const Answer& answer) {
  const bool is_v4 = answer.from && answer.from->is_v4();
  if (is_v4) {
    if (answer.type == ICMP_TIME_EXCEEDED) return "time to live exceeded";
    return answer.type == ICMP_DEST_UNREACH ? unreachable(answer.code) : "malformed";
  }
  if (answer.type == ICMP6_PACKET_TOO_BIG) return "packet too large";
  if (answer.type == ICMP6_TIME_EXCEEDED) return "hop limit exceeded";
  return answer.type == ICMP6_DST_UNREACH ? unreachable6(answer.code) : "malformed";
}

Bytes big_endian(std::uint32_t value, std::size_t size) {
  Bytes out;
  for (std::size_t i = size; i-- > 0;) out.push_back(static_cast<std::uint8_t>(value >> 8 * i));
  return out;
}

}  // namespace

Mark Mark::random() {
  std::uint32_t bytes[2] = {};
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    throw netlink::Error("choose a mark for probes", errno);
  }
  // Ports below those that kernels choose (ip_local_port_range), with room for all probes of a run.
  constexpr std::uint32_t kFirstPort = 10'000, kChoices = 2'000;
  return {bytes[0], static_cast<std::uint16_t>(bytes[1]),
          static_cast<std::uint16_t>(kFirstPort + (bytes[1] >> 16) % kChoices)};
}

std::string Packet::str() const {
  if (kind == Kind::kSyn) return cat("TCP port ", port);
  if (kind == Kind::kDatagram) return cat("empty datagram to UDP port ", port);
  return kind == Kind::kDns ? "DNS" : "echo";
}

std::uint8_t Packet::protocol() const {
  if (kind == Kind::kSyn) return IPPROTO_TCP;
  if (kind == Kind::kDns || kind == Kind::kDatagram) return IPPROTO_UDP;
  if (target.is_v4()) return IPPROTO_ICMP;
  return IPPROTO_ICMPV6;
}

std::uint16_t checksum(View bytes, std::uint32_t sum) {
  sum += sum_of(bytes);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

Bytes payload_of(const Packet& packet, const Mark& mark) {
  if (packet.kind == Kind::kEcho) return echo(packet, mark);
  if (packet.kind == Kind::kDatagram) return {};
  return packet.kind == Kind::kSyn ? syn(packet, mark) : dns(mark);
}

bool Answer::says_too_large() const {
  if (kind != Kind::kRefused || !from) return false;
  return from->is_v4() ? type == ICMP_DEST_UNREACH && code == ICMP_FRAG_NEEDED
                       : type == ICMP6_PACKET_TOO_BIG;
}

bool Answer::says_no_port() const {
  if (kind != Kind::kRefused || !from) return false;
  return from->is_v4() ? type == ICMP_DEST_UNREACH && code == ICMP_PORT_UNREACH
                       : type == ICMP6_DST_UNREACH && code == ICMP6_DST_UNREACH_NOPORT;
}

bool Answer::says_too_far() const {
  if (kind != Kind::kRefused || !from || !has_token) return false;
  return from->is_v4() ? type == ICMP_TIME_EXCEEDED : type == ICMP6_TIME_EXCEEDED;
}

bool Answer::says_no_neighbour() const {
  if (kind != Kind::kRefused || !from) return false;
  return from->is_v4() ? type == ICMP_DEST_UNREACH && code == ICMP_HOST_UNREACH
                       : type == ICMP6_DST_UNREACH && code == ICMP6_DST_UNREACH_ADDR;
}

std::string Answer::str() const {
  switch (kind) {
    case Kind::kNone:
      return "no answer";
    case Kind::kReply:
      return "answered";
    case Kind::kOpen:
      return "open";
    case Kind::kClosed:
      return "closed";
    case Kind::kArrived:
      return "arrived";
    case Kind::kRefused:
      return cat(from ? from->str() : "?", " says: ", words_of(*this));
    case Kind::kNotSent:
      return cat("not sent: ", std::strerror(error));
  }
  return {};
}

std::optional<Received> received_by(const Mark& mark, std::uint8_t protocol, const Ip& from,
                                    View bytes) {
  if (from.is_v4()) {
    const auto headers = headers_of(bytes);
    if (!headers) return std::nullopt;
    bytes = bytes.subspan(headers->size);
  }
  const bool is_icmp = protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6;
  if (is_icmp && !bytes.empty() && is_error(protocol, bytes[0])) return error_in(mark, from, bytes);
  const auto number = number_in(mark, protocol, bytes);
  if (!number || !number->is_answer) return std::nullopt;
  if (is_icmp && (!number->token || get16(bytes, 4) != mark.id)) return std::nullopt;
  if (is_icmp) return Received{number->number, {Answer::Kind::kReply, from}, number->token};
  const std::uint8_t flags = bytes[13];
  if ((flags & kResetFlag) != 0) return Received{number->number, {Answer::Kind::kClosed, from}};
  if ((flags & (kSynFlag | kAckFlag)) != (kSynFlag | kAckFlag)) return std::nullopt;
  return Received{number->number, {Answer::Kind::kOpen, from}};
}

std::vector<netlink::PacketFilter> filters_for(const Mark& mark) {
  return {{IPPROTO_ICMP, kIcmpHeader, big_endian(mark.cookie, 4)},
          {IPPROTO_ICMPV6, kIcmpHeader, big_endian(mark.cookie, 4)},
          {IPPROTO_TCP, 4, big_endian(mark.cookie, 4)},
          {IPPROTO_TCP, 8, big_endian(mark.cookie + 1, 4)},
          {IPPROTO_UDP, 8, big_endian(mark.id, 2)},
          {IPPROTO_UDP, 4, big_endian(kUdpHeader, 2)}};
}

std::optional<Seen> seen_in(const Mark& mark, View network, View transport) {
  const auto headers = headers_of(network);
  if (!headers) return std::nullopt;
  const auto number = number_in(mark, headers->protocol, transport);
  if (!number) return std::nullopt;
  return Seen{number->number, number->is_answer, headers->source, headers->destination,
              number->token};
}

bool is_of(const Sent& sent, const Seen& seen) {
  const Packet& packet = sent.packet;
  if (packet.kind == Kind::kEcho) return seen.token == packet.token;
  if (seen.is_answer) return seen.source == packet.target || seen.source == sent.destination;
  return !packet.source || seen.source == *packet.source ||
         std::ranges::find(sent.sources, seen.source) != sent.sources.end();
}

}  // namespace tool::probe
