#include "netlink/address_claim.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if_arp.h>
#include <netinet/icmp6.h>
#include <netinet/if_ether.h>
#include <netinet/ip6.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "netlink/attributes.h"
#include "netlink/types/error.h"

namespace netlink {

namespace {

constexpr std::size_t kIpAt = sizeof(ether_header);
constexpr std::size_t kIcmpAt = kIpAt + sizeof(ip6_hdr);
constexpr std::size_t kTargetAt = kIcmpAt + sizeof(icmp6_hdr);  // of NS and NA alike
constexpr std::size_t kOptionsAt = kTargetAt + sizeof(in6_addr);
constexpr std::uint8_t kHopLimit = 255;  // of a neighbour (RFC 4861, section 7.1)
// Larger frames are of no interest, and are cut off.
constexpr std::size_t kLargestFrame = 2048;

View tail(View frame, std::size_t at) { return frame.subspan(std::min(at, frame.size())); }

Mac mac_at(const std::uint8_t* bytes) {
  Mac mac;
  std::copy_n(bytes, mac.bytes.size(), mac.bytes.begin());
  return mac;
}

std::optional<NeighbourClaim> arp_claim(View frame) {
  if (frame.size() < kIpAt + sizeof(ether_arp)) return std::nullopt;
  const auto arp = read_struct<ether_arp>(tail(frame, kIpAt));
  if (ntohs(arp.ea_hdr.ar_hrd) != ARPHRD_ETHER || ntohs(arp.ea_hdr.ar_pro) != ETHERTYPE_IP ||
      arp.ea_hdr.ar_hln != sizeof arp.arp_sha || arp.ea_hdr.ar_pln != sizeof arp.arp_spa) {
    return std::nullopt;
  }
  const Ip sender = Ip::from_bytes(arp.arp_spa, sizeof arp.arp_spa);
  const Ip target = Ip::from_bytes(arp.arp_tpa, sizeof arp.arp_tpa);
  return NeighbourClaim{sender.is_unspecified() ? target : sender, mac_at(arp.arp_sha)};
}

// The target link-layer address of an advertisement, which a proxy or a bond sends from elsewhere.
std::optional<Mac> target_mac(View options) {
  constexpr std::size_t kUnit = 8;  // bytes, in which lengths count
  while (options.size() >= kUnit && options[1] != 0) {
    if (options[0] == ND_OPT_TARGET_LINKADDR) return mac_at(&options[2]);
    options = tail(options, options[1] * kUnit);
  }
  return std::nullopt;
}

std::optional<NeighbourClaim> neighbour_claim(View frame) {
  if (frame.size() < kOptionsAt) return std::nullopt;
  const auto ip = read_struct<ip6_hdr>(tail(frame, kIpAt));
  if (ip.ip6_nxt != IPPROTO_ICMPV6 || ip.ip6_hlim != kHopLimit) return std::nullopt;
  const Ip target = Ip::from_bytes(&frame[kTargetAt], sizeof(in6_addr));
  const Mac sender = mac_at(&frame[offsetof(ether_header, ether_shost)]);
  switch (frame[kIcmpAt]) {
    case ND_NEIGHBOR_ADVERT:
      return NeighbourClaim{target, target_mac(tail(frame, kOptionsAt)).value_or(sender)};
    case ND_NEIGHBOR_SOLICIT:  // of DAD, where nobody is the sender (RFC 4862, section 5.4.3)
      if (!Ip::from_bytes(&ip.ip6_src, sizeof ip.ip6_src).is_unspecified()) return std::nullopt;
      return NeighbourClaim{target, sender};
    default:
      return std::nullopt;
  }
}

// The socket receives nothing until it is bound: else bind(2) would wait for a grace period of RCU,
// in which the kernel takes it from all links.
Fd socket_in(const NetNs& ns) {
  const NetNs::Entered entered(ns);
  return Fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

Bytes arp_request(const Mac& own, const Ip& sender, const Ip& address) {
  ether_header ethernet{};
  std::ranges::fill(ethernet.ether_dhost, 0xff);
  std::ranges::copy(own.bytes, ethernet.ether_shost);
  ethernet.ether_type = htons(ETHERTYPE_ARP);
  ether_arp arp{};
  arp.ea_hdr = {.ar_hrd = htons(ARPHRD_ETHER),
                .ar_pro = htons(ETHERTYPE_IP),
                .ar_hln = sizeof arp.arp_sha,
                .ar_pln = sizeof arp.arp_spa,
                .ar_op = htons(ARPOP_REQUEST)};
  std::ranges::copy(own.bytes, arp.arp_sha);
  std::copy_n(sender.data(), sizeof arp.arp_spa, arp.arp_spa);
  std::copy_n(address.data(), sizeof arp.arp_tpa, arp.arp_tpa);
  Bytes frame(sizeof ethernet + sizeof arp);
  std::memcpy(frame.data(), &ethernet, sizeof ethernet);
  std::memcpy(frame.data() + sizeof ethernet, &arp, sizeof arp);
  return frame;
}

Bytes arp_probe(const Mac& own, const Ip& address) {
  return arp_request(own, Ip::any(Family::kIpv4), address);
}

Bytes arp_announcement(const Mac& own, const Ip& address) {
  return arp_request(own, address, address);
}

namespace {

std::uint16_t checksum_of(const ip6_hdr& ip, const Bytes& body) {
  auto sum = static_cast<std::uint32_t>(body.size() + IPPROTO_ICMPV6);
  const auto add = [&sum](const void* bytes, std::size_t size) {
    const auto* const each = static_cast<const std::uint8_t*>(bytes);
    for (std::size_t i = 0; i < size; i += 2)
      sum += static_cast<std::uint32_t>(each[i] << 8 | each[i + 1]);
  };
  add(&ip.ip6_src, sizeof ip.ip6_src);
  add(&ip.ip6_dst, sizeof ip.ip6_dst);
  add(body.data(), body.size());
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace

Bytes solicitation(const Mac& own, const Ip& sender, const Ip& address) {
  const std::uint8_t* const low = address.data() + 13;  // of the solicited-node address: RFC 4291
  ether_header ethernet{};
  const std::uint8_t to[] = {0x33, 0x33, 0xff, low[0], low[1], low[2]};
  std::ranges::copy(to, ethernet.ether_dhost);
  std::ranges::copy(own.bytes, ethernet.ether_shost);
  ethernet.ether_type = htons(ETHERTYPE_IPV6);
  nd_neighbor_solicit head{};
  head.nd_ns_hdr.icmp6_type = ND_NEIGHBOR_SOLICIT;
  std::memcpy(&head.nd_ns_target, address.data(), sizeof head.nd_ns_target);
  constexpr std::size_t kOption = 8;  // the sender's MAC address, if there is anybody to answer
  Bytes body(sizeof head + (sender.is_unspecified() ? 0 : kOption));
  if (body.size() > sizeof head) {
    body[sizeof head] = ND_OPT_SOURCE_LINKADDR;
    body[sizeof head + 1] = 1;
    std::ranges::copy(own.bytes, body.begin() + sizeof head + 2);
  }
  ip6_hdr ip{};
  ip.ip6_vfc = 6 << 4;
  ip.ip6_plen = htons(static_cast<std::uint16_t>(body.size()));
  ip.ip6_nxt = IPPROTO_ICMPV6;
  ip.ip6_hlim = kHopLimit;
  constexpr std::uint8_t kGroup[] = {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff};
  std::memcpy(&ip.ip6_src, sender.data(), sizeof ip.ip6_src);
  std::ranges::copy(kGroup, ip.ip6_dst.s6_addr);
  std::copy_n(low, 3, &ip.ip6_dst.s6_addr[sizeof kGroup]);
  std::memcpy(body.data(), &head, sizeof head);
  head.nd_ns_hdr.icmp6_cksum = htons(checksum_of(ip, body));
  std::memcpy(body.data(), &head, sizeof head);
  Bytes frame(kIcmpAt + body.size());
  std::memcpy(frame.data(), &ethernet, sizeof ethernet);
  std::memcpy(frame.data() + kIpAt, &ip, sizeof ip);
  std::ranges::copy(body, frame.begin() + kIcmpAt);
  return frame;
}

Bytes solicitation_probe(const Mac& own, const Ip& address) {
  return solicitation(own, Ip::any(Family::kIpv6), address);
}

std::optional<NeighbourClaim> claim_in(View frame) {
  switch (ntohs(read_struct<ether_header>(frame).ether_type)) {
    case ETHERTYPE_ARP:
      return arp_claim(frame);
    case ETHERTYPE_IPV6:
      return neighbour_claim(frame);
    default:
      return std::nullopt;
  }
}

SegmentSocket::SegmentSocket(const NetNs& ns, int link, Protocol protocol) : fd_(socket_in(ns)) {
  sockaddr_ll where{};
  where.sll_family = AF_PACKET;
  where.sll_protocol = htons(static_cast<std::uint16_t>(protocol));
  where.sll_ifindex = link;
  if (!fd_ || ::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0) {
    throw Error(cat("open a packet socket", errno == EPERM ? " (this needs CAP_NET_RAW)" : ""),
                errno);
  }
  int pending = 0;  // ENETDOWN, where the link is not up yet
  socklen_t size = sizeof pending;
  ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &pending, &size);
}

void SegmentSocket::send(const Bytes& frame) {
  while (::send(fd_.get(), frame.data(), frame.size(), 0) < 0) {
    if (errno != EINTR) throw Error("send an ARP probe", errno);
  }
}

void SegmentSocket::wait(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
  pollfd ready{fd_.get(), POLLIN, 0};
  if (left.count() > 0 && ::poll(&ready, 1, static_cast<int>(left.count())) < 0 && errno != EINTR) {
    throw Error("wait for frames of neighbours", errno);
  }
}

std::optional<NeighbourClaim> SegmentSocket::take() {
  constexpr int kMaxAtOnce = 64;  // a flood must not hold up the caller
  std::array<std::uint8_t, kLargestFrame> buffer;
  for (int i = 0; i < kMaxAtOnce; ++i) {
    const ssize_t size = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (size < 0 && (errno == EAGAIN || errno == ENETDOWN)) return std::nullopt;
    if (size < 0 && errno != EINTR) throw Error("receive frames of neighbours", errno);
    if (size < 0) continue;
    if (const auto claim = claim_in({buffer.data(), static_cast<std::size_t>(size)})) return claim;
  }
  return std::nullopt;
}

std::optional<NeighbourClaim> SegmentSocket::claim_until(
    Clock::time_point end, const std::function<bool(const NeighbourClaim&)>& concerns) {
  std::array<std::uint8_t, kLargestFrame> buffer;
  do {  // the time ends it, also while frames keep coming
    const ssize_t size = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (size >= 0) {
      const auto claim = claim_in({buffer.data(), static_cast<std::size_t>(size)});
      if (claim && concerns(*claim)) return claim;
    } else if (errno == EAGAIN) {
      wait(end);
    } else if (errno != EINTR) {
      throw Error("receive frames of neighbours", errno);
    }
  } while (Clock::now() < end);
  return std::nullopt;
}

}  // namespace netlink
