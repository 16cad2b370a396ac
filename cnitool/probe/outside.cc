#include "cnitool/probe/outside.h"

#include <cerrno>
#include <iterator>

#include "cnitool/output.h"
#include "libcni/common/error.h"
#include "netlink/route/neighbour.h"
#include "netlink/route/socket.h"
#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using netlink::Mac;

constexpr std::uint8_t kIcmpV4 = 1, kTcp = 6, kUdp = 17, kIcmpV6 = 58;
constexpr std::size_t kV4Size = 20, kV6Size = 40, kUdpSize = 8;

void append16(Bytes& out, std::size_t value) {
  out.push_back(static_cast<std::uint8_t>(value >> 8));
  out.push_back(static_cast<std::uint8_t>(value));
}

void append(Bytes& out, const Ip& ip) { out.insert(out.end(), ip.data(), ip.data() + ip.size()); }

void store16(Bytes& bytes, std::size_t at, std::uint16_t value) {
  bytes[at] = static_cast<std::uint8_t>(value >> 8);
  bytes[at + 1] = static_cast<std::uint8_t>(value);
}

std::size_t place_of_checksum(std::uint8_t protocol) {
  if (protocol == kTcp) return 16;
  return protocol == kUdp ? 6 : 2;
}

// With the pseudo header of RFC 768, 9293 and 4443, which ICMP over IPv4 has not.
void set_checksum(Bytes& segment, const Packet& packet) {
  const std::uint8_t protocol = packet.protocol();
  const std::size_t at = place_of_checksum(protocol);
  if (protocol == kIcmpV4) return;  // it has one
  store16(segment, at, 0);
  Bytes whole;
  append(whole, *packet.source);
  append(whole, packet.target);
  append16(whole, protocol);
  append16(whole, segment.size());
  whole.insert(whole.end(), segment.begin(), segment.end());
  store16(segment, at, checksum(whole));
}

Bytes segment_of(const Packet& packet, const Mark& mark) {
  Bytes payload = payload_of(packet, mark);
  if (packet.protocol() != kUdp) return payload;
  Bytes out;
  append16(out, static_cast<std::size_t>(mark.port + packet.number));
  append16(out, packet.port);
  append16(out, payload.size() + kUdpSize);
  append16(out, 0);
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

Mac mac_of_neighbour(netlink::RouteSocket& node, int link, const Ip& ip) {
  const auto found = netlink::find_neighbour(node, link, ip);
  // Of those that nobody's hardware has (IEEE 802, "locally administered").
  return found && found->mac ? *found->mac : *Mac::parse("02:00:00:00:00:01");
}

[[noreturn]] void refuse_host(const Ip& host, const std::string& why, const std::string& hint) {
  throw cni::Error(cni::Code::kInvalidEnvironment, cat("probe --from '", host.str(), "': ", why),
                   hint);
}

}  // namespace

Bytes ip_packet(const Packet& packet, const Mark& mark) {
  Bytes segment = segment_of(packet, mark);
  set_checksum(segment, packet);
  Bytes out;
  if (packet.target.is_v4()) {
    out = {0x45, 0};
    append16(out, kV4Size + segment.size());
    append16(out, packet.number);
    append16(out, 0x4000);  // do not fragment
    out.insert(out.end(), {packet.ttl, packet.protocol(), 0, 0});
  } else {
    out = {0x60, 0, 0, 0};
    append16(out, segment.size());
    out.insert(out.end(), {packet.protocol(), packet.ttl});
  }
  append(out, *packet.source);
  append(out, packet.target);
  if (packet.target.is_v4()) store16(out, 10, checksum(out));
  out.insert(out.end(), segment.begin(), segment.end());
  return out;
}

Outside::Place Outside::place_of(const Ip& host) {
  netlink::RouteSocket node;
  const auto path = node.path_to(host);
  if (!path) refuse_host(host, "the node has no route to it", "it would get no answer");
  if (path->local) refuse_host(host, "is an address of the node", "--from takes a host beyond it");
  const auto link = node.find(path->link);
  if (!link) refuse_host(host, "several links lead to it", "its packets may come by each of them");
  if (link->mac.is_zero()) {
    refuse_host(host, cat("'", printable(link->name), "', which leads to it, is no Ethernet link"),
                cat("`ip route get POD from ", host.str(), " iif ", printable(link->name),
                    "` asks for the routing decision alone"));
  }
  const auto found = node.match(host);
  const Ip router = found && found->route.gateway ? *found->route.gateway : host;
  return {link->index, link->mac, mac_of_neighbour(node, link->index, router)};
}

netlink::Wire Outside::wire_at(const Place& place, const Ip& host) try {
  return {place.link, host};
} catch (const netlink::Error& e) {
  refuse_host(host, cat("no packet can be handed to a link: ", e.what()),
              cat("it needs Linux 5.18 and CAP_BPF; `ip route get POD from ", host.str(),
                  " iif UPLINK` asks for the routing decision alone"));
}

Outside::Outside(const Ip& host) : place_(place_of(host)), wire_(wire_at(place_, host)) {}

int Outside::send(const Packet& packet, const Mark& mark) {
  Bytes frame;
  for (const Mac* const mac : {&place_.own, &place_.router}) {
    frame.insert(frame.end(), mac->bytes.begin(), mac->bytes.end());
  }
  append16(frame, packet.target.is_v4() ? 0x0800 : 0x86dd);
  const Bytes bytes = ip_packet(packet, mark);
  frame.insert(frame.end(), bytes.begin(), bytes.end());
  return wire_.receive(frame);
}

std::vector<Received> Outside::take(const Mark& mark) {
  constexpr int kMostAtOnce = 256;
  std::vector<Received> out;
  for (int i = 0; i < kMostAtOnce; ++i) {
    const auto sent = wire_.take_sent();
    if (!sent) break;
    const bool is_v4 = !sent->empty() && (*sent)[0] >> 4 == 4;
    if (sent->size() < (is_v4 ? kV4Size : kV6Size)) continue;
    const Ip from = is_v4 ? Ip::from_bytes(&(*sent)[12], 4) : Ip::from_bytes(&(*sent)[8], 16);
    const std::uint8_t protocol = (*sent)[is_v4 ? 9 : 6];
    if (protocol != kTcp && protocol != (is_v4 ? kIcmpV4 : kIcmpV6)) continue;
    const auto one = received_by(mark, protocol, from, is_v4 ? *sent : sent->subspan(kV6Size));
    if (one) out.push_back(*one);
  }
  return out;
}

}  // namespace tool::probe
