#include "cnitool/probe/drops.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "cnitool/probe/follow.h"

namespace tool::probe {

namespace {

constexpr std::uint16_t kArp = 0x0806;

// The link layer is asked on the way of some probes by one message.
std::vector<Ip> addresses_of(const std::vector<Sent>& sent) {
  std::set<Ip> out;
  for (const Sent& one : sent) out.insert(one.hops.begin(), one.hops.end());
  return {out.begin(), out.end()};
}

// Who asks the link layer for whom.
std::vector<Ip> ends_of(const netlink::bpf::PacketDrop& drop) {
  if (drop.protocol == kArp) {  // RFC 826
    return {Ip::from_bytes(&drop.network[14], 4), Ip::from_bytes(&drop.network[24], 4)};
  }
  return {Ip::from_bytes(&drop.network[8], 16), Ip::from_bytes(&drop.transport[8], 16)};
}

bool is_neighbour_discovery(const netlink::bpf::PacketDrop& drop) {
  constexpr std::uint8_t kIcmpv6 = 58, kSolicitation = 135, kAdvertisement = 136;  // RFC 4861
  if (drop.protocol == kArp) return true;
  const bool is_v6 = drop.network[0] >> 4 == 6 && drop.network[6] == kIcmpv6;
  return is_v6 && (drop.transport[0] == kSolicitation || drop.transport[0] == kAdvertisement);
}

// An address that is only the link's says nothing of whom it is about.
bool is_on_way_of(const Sent& sent, const std::vector<Ip>& ends) {
  return std::ranges::all_of(ends, [&](const Ip& ip) {
    return ip.is_unspecified() || ip.is_link_local() ||
           std::ranges::find(sent.hops, ip) != sent.hops.end();
  });
}

// A node has others' pods, and copies of a flooded packet arrive at all of a bridge.
bool is_in_place_of(const Sent& sent, const netlink::bpf::PacketDrop& drop) {
  return drop.netns == 0 || std::ranges::find(sent.places, drop.netns) != sent.places.end();
}

Drop drop_of(const netlink::bpf::PacketDrop& one, Drop::Of of) {
  return {of, one.reason, one.symbol, one.link, one.link_index, one.netns};
}

void add(std::vector<Drop>& drops, Drop drop) {
  constexpr std::size_t kMaxDrops = 32;  // a pod may flood with these
  if (says_nothing(drop) || drops.size() >= kMaxDrops) return;
  if (std::ranges::find(drops, drop) == drops.end()) drops.push_back(std::move(drop));
}

}  // namespace

bool says_nothing(const Drop& drop) {
  constexpr std::string_view kCopies[] = {"raw_",    "rawv6_", "packet_rcv", "tpacket_rcv",
                                          "raw6_",   "ping_",  "icmp_rcv",   "icmpv6_rcv",
                                          "tcp_v4_", "tcp_v6_"};
  constexpr std::string_view kReasons[] = {"SOCKET_FILTER", "NO_SOCKET", "NOT_SPECIFIED", ""};
  constexpr std::string_view kEnds[] = {"QUEUE_PURGE", "SOCKET_CLOSE", "CONSUMED"};
  if (std::ranges::find(kEnds, drop.reason) != std::end(kEnds)) return true;
  // What waits for a MAC address that nobody answers for says nothing of who keeps it.
  const bool has_waited = drop.symbol.starts_with("neigh_") || drop.reason == "NEIGH_FAILED";
  if (has_waited && drop.reason != "NEIGH_CREATEFAIL") return true;
  if (drop.of == Drop::Of::kNeighbour && drop.symbol == "ip6_mc_input") return true;
  // Of the socket that the packet is for, and not of a raw one that gets a copy.
  const bool is_for_socket = drop.symbol.starts_with("tcp_") || drop.symbol.starts_with("udp");
  if (drop.reason == "SOCKET_FILTER" && is_for_socket) return false;
  if (std::ranges::find(kReasons, drop.reason) == std::end(kReasons)) return false;
  return drop.symbol.empty() ||  // it may be any of these
         std::ranges::any_of(kCopies, [&](auto one) { return drop.symbol.starts_with(one); });
}

DropWatch::DropWatch(const Mark& mark, const std::vector<Sent>& sent)
    : mark_(mark), sent_(sent), drops_(filters_for(mark), addresses_of(sent)) {
  for (const Sent& one : sent) links_.insert(one.links.begin(), one.links.end());
}

bool DropWatch::is_copy(const netlink::bpf::PacketDrop& drop, const Sent& sent) const {
  return links_.contains(drop.link) && std::ranges::find(sent.links, drop.link) == sent.links.end();
}

void DropWatch::note(const netlink::bpf::PacketDrop& one) {
  if (is_neighbour_discovery(one)) {
    const std::vector<Ip> ends = ends_of(one);
    for (std::size_t i = 0; i < sent_.size(); ++i) {
      if (!is_in_place_of(sent_[i], one) || !is_on_way_of(sent_[i], ends)) continue;
      if (is_copy(one, sent_[i])) continue;
      add(found_[static_cast<std::uint16_t>(i)], drop_of(one, Drop::Of::kNeighbour));
    }
    return;
  }
  const auto seen = seen_in(mark_, one.network, one.transport);
  if (!seen || seen->number >= sent_.size()) return;
  const Sent& sent = sent_[seen->number];
  if (!is_of(sent, *seen) || !is_in_place_of(sent, one)) return;
  const Drop::Of of = seen->is_answer ? Drop::Of::kAnswer : Drop::Of::kRequest;
  add(found_[seen->number], drop_of(one, of));
}

std::map<std::uint16_t, std::vector<Drop>> DropWatch::take() {
  read();
  for (const netlink::bpf::PacketDrop& one : drops_.take()) note(one);
  return std::exchange(found_, {});
}

}  // namespace tool::probe
