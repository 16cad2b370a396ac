#include "netlink/nf/conntrack.h"

#include <linux/in.h>
#include <linux/in6.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>

#include <cerrno>

#include "netlink/types/error.h"

namespace netlink::nf {

namespace {

// Parts of a tuple that a filter compares: CTA_FILTER_F_* in net/netfilter/nf_internals.h.
constexpr std::uint32_t kBySource = 1 << 0;
constexpr std::uint32_t kByDestination = 1 << 1;
constexpr std::uint32_t kByProtocol = 1 << 3;
constexpr std::uint32_t kByDestinationPort = 1 << 5;

Message message(int type, int flags, Family family) {
  return conntrack_message(type, flags,
                           family == Family::kIpv4 ? TableFamily::kIp : TableFamily::kIp6);
}

enum class End { kSource, kDestination };

void put_ip(Message& m, End end, const Ip& ip) {
  const std::uint16_t v4 = end == End::kSource ? CTA_IP_V4_SRC : CTA_IP_V4_DST;
  const std::uint16_t v6 = end == End::kSource ? CTA_IP_V6_SRC : CTA_IP_V6_DST;
  m.put(ip.is_v4() ? v4 : v6, ip);
}

std::optional<Ip> ip_in(const Attributes& ips, std::uint16_t v4, std::uint16_t v6) {
  if (const View value = ips.find(v4).value; value.size() == 4)
    return Ip::from_bytes(value.data(), 4);
  if (const View value = ips.find(v6).value; value.size() == 16)
    return Ip::from_bytes(value.data(), 16);
  return std::nullopt;
}

// The kernel (to 6.18 at least) inverts the filter on IPv6 addresses: it drops equal ones
// (ctnetlink_filter_match_tuple()). So the kernel filters by ports alone there.
FlowFilter left_to_kernel(FlowFilter filter) {
  if (filter.family == Family::kIpv4) return filter;
  filter.original_destination.reset();
  filter.reply_source.reset();
  return filter;
}

void put_filter(Message& m, const FlowFilter& filter) {
  std::uint32_t flags = kByProtocol;
  if (filter.original_destination) flags |= kByDestination;
  if (filter.original_port) flags |= kByDestinationPort;
  m.nest(CTA_TUPLE_ORIG, [&] {
    if (filter.original_destination) {
      m.nest(CTA_TUPLE_IP, [&] { put_ip(m, End::kDestination, *filter.original_destination); });
    }
    m.nest(CTA_TUPLE_PROTO, [&] {
      m.put_u8(CTA_PROTO_NUM, filter.protocol);
      if (filter.original_port) m.put_be16(CTA_PROTO_DST_PORT, *filter.original_port);
    });
  });
  if (filter.reply_source) {
    m.nest(CTA_TUPLE_REPLY,
           [&] { m.nest(CTA_TUPLE_IP, [&] { put_ip(m, End::kSource, *filter.reply_source); }); });
  }
  // Unlike all other numbers of this protocol these are in the machine's own byte order.
  m.nest(CTA_FILTER, [&] {
    m.put_u32(CTA_FILTER_ORIG_FLAGS, flags);
    if (filter.reply_source) m.put_u32(CTA_FILTER_REPLY_FLAGS, kBySource);
  });
}

/// The attributes of a protocol's part of a tuple.
struct PortAttributes {
  std::uint16_t source, type, code;  // type and code: 0 with ports
};

PortAttributes attributes_for(std::uint8_t protocol) {
  if (protocol == IPPROTO_ICMP)
    return {CTA_PROTO_ICMP_ID, CTA_PROTO_ICMP_TYPE, CTA_PROTO_ICMP_CODE};
  if (protocol == IPPROTO_ICMPV6) {
    return {CTA_PROTO_ICMPV6_ID, CTA_PROTO_ICMPV6_TYPE, CTA_PROTO_ICMPV6_CODE};
  }
  return {CTA_PROTO_SRC_PORT, 0, 0};
}

void put_tuple(Message& m, std::uint8_t protocol, const Tuple& tuple) {
  const PortAttributes types = attributes_for(protocol);
  m.nest(CTA_TUPLE_IP, [&] {
    put_ip(m, End::kSource, tuple.source);
    put_ip(m, End::kDestination, tuple.destination);
  });
  m.nest(CTA_TUPLE_PROTO, [&] {
    m.put_u8(CTA_PROTO_NUM, protocol);
    m.put_be16(types.source, tuple.source_port);
    if (types.type == 0) return m.put_be16(CTA_PROTO_DST_PORT, tuple.destination_port);
    m.put_u8(types.type, static_cast<std::uint8_t>(tuple.destination_port >> 8));
    m.put_u8(types.code, static_cast<std::uint8_t>(tuple.destination_port & 0xff));
  });
}

// The port of the destination, or what stands for it.
std::optional<std::uint16_t> second_port(const Attributes& protocol, const PortAttributes& types) {
  if (types.type == 0) {
    const auto port = protocol.find(CTA_PROTO_DST_PORT);
    return port.value.size() == 2 ? std::optional(port.be16()) : std::nullopt;
  }
  const auto type = protocol.find(types.type);
  const auto code = protocol.find(types.code);
  if (type.value.size() != 1 || code.value.size() != 1) return std::nullopt;
  return static_cast<std::uint16_t>(type.u8() << 8 | code.u8());
}

struct ReadTuple {
  Tuple tuple;
  std::uint8_t protocol = 0;
  std::uint16_t zone = 0;
};

std::optional<ReadTuple> decode_tuple(const Attributes& attributes) {
  const Attributes ips = attributes.nested(CTA_TUPLE_IP);
  const Attributes protocol = attributes.nested(CTA_TUPLE_PROTO);
  const auto source = ip_in(ips, CTA_IP_V4_SRC, CTA_IP_V6_SRC);
  const auto destination = ip_in(ips, CTA_IP_V4_DST, CTA_IP_V6_DST);
  const auto number = protocol.find(CTA_PROTO_NUM);
  if (!source || !destination || source->family() != destination->family()) return std::nullopt;
  if (number.value.size() != 1) return std::nullopt;
  const PortAttributes types = attributes_for(number.u8());
  const auto source_port = protocol.find(types.source);
  const auto destination_port = second_port(protocol, types);
  if (source_port.value.size() != 2 || !destination_port) return std::nullopt;
  return ReadTuple{{*source, *destination, source_port.be16(), *destination_port},
                   number.u8(),
                   attributes.find(CTA_TUPLE_ZONE).be16()};
}

// No conntrack, no nfnetlink for it, or one that does not know what was asked.
bool means_unknown(const Error& e) {
  return e.error() == EINVAL || e.error() == EOPNOTSUPP || e.error() == EPROTONOSUPPORT ||
         e.error() == EAFNOSUPPORT;
}

}  // namespace

std::string Flow::str() const {
  return cat(protocol, " ", original.source.str(), ":", original.source_port, " -> ",
             original.destination.str(), ":", original.destination_port);
}

bool FlowFilter::matches(const Flow& flow) const {
  if (flow.original.source.family() != family || flow.protocol != protocol) return false;
  if (original_port && flow.original.destination_port != *original_port) return false;
  if (original_destination && flow.original.destination != *original_destination) return false;
  return !reply_source || flow.reply.source == *reply_source;
}

Message encode_flow_query(const FlowFilter& filter, bool in_kernel) {
  Message m = message(IPCTNL_MSG_CT_GET, NLM_F_DUMP, filter.family);
  if (in_kernel) put_filter(m, left_to_kernel(filter));
  return m;
}

Message encode_flow_query(std::uint8_t protocol, const Tuple& original) {
  Message m = message(IPCTNL_MSG_CT_GET, NLM_F_ACK, original.source.family());
  m.nest(CTA_TUPLE_ORIG, [&] { put_tuple(m, protocol, original); });
  return m;
}

Message encode_removal(const Flow& flow) {
  const Tuple& tuple = flow.original;
  Message m = message(IPCTNL_MSG_CT_DELETE, NLM_F_ACK, tuple.source.family());
  m.nest(CTA_TUPLE_ORIG, [&] {
    put_tuple(m, flow.protocol, tuple);
    if (flow.original_zone != 0) m.put_be16(CTA_TUPLE_ZONE, flow.original_zone);
  });
  m.put_be32(CTA_ID, flow.id);
  if (flow.zone != 0) m.put_be16(CTA_ZONE, flow.zone);
  return m;
}

std::optional<Flow> decode_flow(const Attributes& attributes) {
  const auto original = decode_tuple(attributes.nested(CTA_TUPLE_ORIG));
  const auto reply = decode_tuple(attributes.nested(CTA_TUPLE_REPLY));
  if (!original || !reply) return std::nullopt;
  return Flow{.protocol = original->protocol,
              .original = original->tuple,
              .reply = reply->tuple,
              .id = attributes.be32(CTA_ID),
              .zone = attributes.find(CTA_ZONE).be16(),
              .original_zone = original->zone};
}

std::vector<Flow> flows(NfSocket& socket, const FlowFilter& filter) {
  for (const bool in_kernel : {true, false}) {
    std::vector<Flow> found;
    try {
      socket.dump(encode_flow_query(filter, in_kernel), "list connections",
                  [&](const Attributes& attributes) {
                    const auto flow = decode_flow(attributes);
                    if (flow && filter.matches(*flow)) found.push_back(*flow);
                  });
      return found;
    } catch (const Error& e) {
      if (!means_unknown(e)) throw;
    }
  }
  return {};
}

std::optional<Flow> find(NfSocket& socket, std::uint8_t protocol, const Tuple& original) try {
  std::optional<Flow> out;
  socket.dump(encode_flow_query(protocol, original), "find connection",
              [&](const Attributes& attributes) { out = decode_flow(attributes); });
  return out;
} catch (const Error& e) {
  if (e.error() == ENOENT || means_unknown(e)) return std::nullopt;
  throw;
}

bool answers_about_flows(NfSocket& socket) try {
  const Ip any = Ip::any(Family::kIpv4);
  socket.dump(encode_flow_query(IPPROTO_TCP, {any, any}), "find connection",
              [](const Attributes&) {});
  return true;
} catch (const Error& e) {
  if (e.error() != ENOENT && !means_unknown(e)) throw;
  return e.error() == ENOENT;
}

bool remove(NfSocket& socket, const Flow& flow) try {
  socket.dump(encode_removal(flow), cat("remove connection '", flow.str(), "'"),
              [](const Attributes&) {});
  return true;
} catch (const Error& e) {
  if (e.error() == ENOENT) return false;
  throw;
}

}  // namespace netlink::nf
