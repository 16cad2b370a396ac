#include "netlink/route/route.h"

#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "netlink/types/error.h"

namespace netlink {

namespace {

using Hops = std::vector<std::pair<rtnexthop, View>>;  // each with its attributes

// Decodes RTA_MULTIPATH.
Hops hops_in(View sequence) {
  Hops out;
  while (sequence.size() >= sizeof(rtnexthop)) {
    const auto hop = read_struct<rtnexthop>(sequence);
    if (hop.rtnh_len < sizeof hop || hop.rtnh_len > sequence.size()) break;
    out.emplace_back(hop, sequence.subspan(sizeof hop, hop.rtnh_len - sizeof hop));
    sequence = sequence.subspan(std::min(aligned(hop.rtnh_len), sequence.size()));
  }
  return out;
}

std::optional<Ip> address_in(View value) {
  if (value.size() != 4 && value.size() != 16) return std::nullopt;
  return Ip::from_bytes(value.data(), value.size());
}

std::vector<NextHop> next_hops(View sequence) {
  std::vector<NextHop> out;
  for (const auto& [hop, attributes] : hops_in(sequence)) {
    out.push_back({.link = hop.rtnh_ifindex,
                   .gateway = address_in(Attributes(attributes).find(RTA_GATEWAY).value),
                   .weight = hop.rtnh_hops + 1U,
                   .on_link = (hop.rtnh_flags & RTNH_F_ONLINK) != 0});
  }
  return out;
}

// Drops flags that describe the link, which the kernel does not accept.
Bytes sequence_of(const Hops& hops) {
  Bytes out;
  for (auto [hop, attributes] : hops) {
    hop.rtnh_flags &= RTNH_F_ONLINK;
    const std::size_t at = out.size();
    out.resize(at + sizeof hop);
    std::memcpy(out.data() + at, &hop, sizeof hop);
    out.insert(out.end(), attributes.begin(), attributes.end());
    out.resize(aligned(out.size()));
  }
  return out;
}

// The kernel's own remarks are not for it to read.
bool is_remark(std::uint16_t type) {
  return type == RTA_TABLE || type == RTA_CACHEINFO || type == RTA_PAD;
}

// A route by a nexthop object is dumped with its next hops, too (nexthop_compat_mode in
// ip-sysctl.rst), and the kernel takes either (rtm_to_fib_config() in net/ipv4/fib_frontend.c): a
// copy names the next hops, and the object says which route is removed.
bool is_next_hop(std::uint16_t type) {
  return type == RTA_OIF || type == RTA_GATEWAY || type == RTA_VIA || type == RTA_MULTIPATH ||
         type == RTA_ENCAP || type == RTA_ENCAP_TYPE;
}

Attributes attributes_of(View payload) {
  return Attributes(payload.subspan(std::min(aligned(sizeof(rtmsg)), payload.size())));
}

bool has(View payload, std::uint16_t type) {
  return !attributes_of(payload).find(type).value.empty();
}

Message message_of(View payload, std::uint32_t table, unsigned type, unsigned flags) {
  auto head = read_struct<rtmsg>(payload);
  head.rtm_flags &= RTNH_F_ONLINK;
  head.rtm_table = static_cast<unsigned char>(table < 256 ? table : RT_TABLE_UNSPEC);
  Message message(type, flags | NLM_F_ACK, head);
  const bool by_object = has(payload, RTA_NH_ID);
  const bool names_hops = has(payload, RTA_OIF) || has(payload, RTA_MULTIPATH);
  for (const Attribute& one : attributes_of(payload)) {
    if (is_remark(one.type)) continue;
    if (by_object && type == RTM_DELROUTE && is_next_hop(one.type)) continue;
    if (one.type == RTA_NH_ID && type == RTM_NEWROUTE && names_hops) continue;
    if (one.type == RTA_MULTIPATH) {
      message.put(one.type, View(sequence_of(hops_in(one.value))));
    } else {
      message.put(one.type, one.value);
    }
  }
  message.put_u32(RTA_TABLE, table);
  return message;
}

// The route with the next hops that are wanted, and no others.
template <class Wanted>
RouteCopy with_hops(View payload, Wanted wanted) {
  Message message(RTM_NEWROUTE, 0, read_struct<rtmsg>(payload));
  for (const Attribute& one : attributes_of(payload)) {
    if (one.type == RTA_NH_ID) continue;
    if (one.type != RTA_MULTIPATH) {
      message.put(one.type, one.value);
      continue;
    }
    Hops hops = hops_in(one.value);
    std::erase_if(hops, [&](const auto& hop) { return !wanted(hop.first); });
    message.put(one.type, View(sequence_of(hops)));
  }
  return copy_route(Reply(message.bytes()));
}

RouteCopy rest_of(const RouteCopy& part) {
  return with_hops(part.whole,
                   [&](const rtnexthop& hop) { return hop.rtnh_ifindex != part.route.link; });
}

std::string text_of(const LinkRoute& route) {
  return cat("route ", route.dst.str(), route.gateway ? cat(" via ", route.gateway->str()) : "");
}

}  // namespace

RouteCopy copy_route(const Reply& reply) {
  const View payload = reply.payload();
  return {decode_route(reply), Bytes(payload.begin(), payload.end())};
}

std::vector<RouteCopy> copy_hops(const Reply& reply) {
  RouteCopy whole = copy_route(reply);
  const std::size_t count = whole.route.multipath.size();
  if (count == 0 || whole.route.dst.ip.is_v4() || has(whole.payload, RTA_NH_ID)) return {whole};
  std::vector<RouteCopy> out;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t at = 0;
    out.push_back(with_hops(whole.payload, [&](const rtnexthop&) { return at++ == i; }));
    out.back().is_part = true;
  }
  return out;
}

std::optional<RouteCopy> part_by(const RouteCopy& copy, const Link& link) {
  const auto& hops = copy.route.multipath;
  if (hops.empty()) return copy.route.link == link.index ? std::optional(copy) : std::nullopt;
  const auto count = static_cast<std::size_t>(
      std::ranges::count_if(hops, [&](const NextHop& hop) { return hop.link == link.index; }));
  if (count == 0) return std::nullopt;
  if (count == hops.size()) return copy;
  RouteCopy out =
      with_hops(copy.payload, [&](const rtnexthop& hop) { return hop.rtnh_ifindex == link.index; });
  out.route.link = link.index;
  out.is_part = true;
  out.whole = copy.payload;
  return out;
}

RouteRequest add(const RouteCopy& copy, std::uint32_t table) {
  return {cat("add ", text_of(copy.route), " table ", table),
          message_of(copy.payload, table, RTM_NEWROUTE, NLM_F_CREATE),
          {EEXIST}};
}

std::vector<RouteRequest> remove(const RouteCopy& copy) {
  const std::uint32_t table = copy.route.table;
  const View payload = copy.whole.empty() ? copy.payload : copy.whole;
  std::vector<RouteRequest> out;
  if (!copy.whole.empty()) {
    // Behind the whole one: of two that it matches the kernel removes the first (fib_nh_match() in
    // net/ipv4/fib_semantics.c).
    const RouteCopy rest = rest_of(copy);
    out.push_back({cat("add ", text_of(rest.route), " table ", table),
                   message_of(rest.payload, table, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_APPEND),
                   {EEXIST}});
  }
  out.push_back({cat("remove ", text_of(copy.route), " table ", table),
                 message_of(payload, table, RTM_DELROUTE, 0),
                 {ESRCH}});
  return out;
}

std::vector<RouteRequest> restore(const RouteCopy& copy) {
  const std::uint32_t table = copy.route.table;
  std::vector<RouteRequest> out;
  if (copy.whole.empty()) {
    out.push_back(add(copy, table));
    return out;
  }
  out.push_back({cat("restore ", text_of(copy.route), " table ", table),
                 message_of(copy.whole, table, RTM_NEWROUTE, NLM_F_CREATE),
                 {EEXIST}});
  for (RouteRequest& one : remove(rest_of(copy))) out.push_back(std::move(one));
  return out;
}

std::string refusal_of(const LinkRoute& route) {
  switch (route.type) {
    case RTN_BLACKHOLE:
      return "blackhole";
    case RTN_UNREACHABLE:
      return "unreachable";
    case RTN_PROHIBIT:
      return "prohibit";
    default:
      return {};
  }
}

std::vector<LinkRoute> each_hop(const LinkRoute& route) {
  if (route.multipath.empty()) return {route};
  std::vector<LinkRoute> out;
  for (const NextHop& hop : route.multipath) {
    out.push_back(route);
    out.back().link = hop.link;
    out.back().gateway = hop.gateway;
    out.back().on_link = hop.on_link;
    out.back().multipath.clear();
  }
  return out;
}

namespace {

void read_metrics(View metrics, LinkRoute& out) {
  for (const Attribute& one : Attributes(metrics)) {
    if (one.type == RTAX_CC_ALGO) {
      out.has_more = true;
      continue;
    }
    out.metrics[one.type] = one.u32();
    if (one.type == RTAX_MTU) out.mtu = one.u32();
    if (one.type == RTAX_HOPLIMIT) out.hop_limit = one.u32();
  }
}

}  // namespace

LinkRoute decode_route(const Reply& reply) {
  const auto head = reply.fixed<rtmsg>();
  LinkRoute out;
  out.dst.ip = Ip::any(head.rtm_family == AF_INET ? Family::kIpv4 : Family::kIpv6);  // the default
  out.table = head.rtm_table;
  out.scope = head.rtm_scope;
  out.type = head.rtm_type;
  out.protocol = head.rtm_protocol;
  out.tos = head.rtm_tos;
  out.on_link = (head.rtm_flags & RTNH_F_ONLINK) != 0;
  for (const Attribute& one : reply.attributes(sizeof head)) {
    const auto [data, size] = std::pair(one.value.data(), one.value.size());
    const bool is_ip = size == 4 || size == 16;
    if (one.type == RTA_DST && is_ip) out.dst = Cidr::from_bytes(data, size, head.rtm_dst_len);
    if (one.type == RTA_GATEWAY && is_ip) out.gateway = Ip::from_bytes(data, size);
    if (one.type == RTA_PREFSRC && is_ip) out.source = Ip::from_bytes(data, size);
    if (one.type == RTA_MULTIPATH) out.multipath = next_hops(one.value);
    if (one.type == RTA_OIF) out.link = one.as<int>();
    if (one.type == RTA_TABLE) out.table = one.u32();
    if (one.type == RTA_PRIORITY) out.priority = one.u32();
    if (one.type == RTA_NH_ID) out.nexthop = one.u32();
    if (one.type == RTA_METRICS) read_metrics(one.value, out);
    if (one.type == RTA_PREF && size == 1) out.preference = one.as<std::uint8_t>();
    out.has_more |= one.type == RTA_ENCAP || one.type == RTA_VIA || one.type == RTA_FLOW;
  }
  if (out.multipath.size() == 1) {
    out.link = out.multipath.front().link;
    out.gateway = out.multipath.front().gateway;
    out.on_link = out.multipath.front().on_link;
    out.multipath.clear();
  }
  return out;
}

RouteRequest add(const Link& link, const LinkRoute& route) {
  rtmsg head{};
  head.rtm_family = route.dst.ip.is_v4() ? AF_INET : AF_INET6;
  head.rtm_dst_len = static_cast<unsigned char>(route.dst.prefix);
  head.rtm_table = static_cast<unsigned char>(route.table < 256 ? route.table : RT_TABLE_UNSPEC);
  head.rtm_protocol = route.protocol;
  head.rtm_scope = route.scope;
  head.rtm_type = RTN_UNICAST;
  head.rtm_flags = route.on_link ? RTNH_F_ONLINK : 0U;
  Message message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_ACK | (route.exclusive ? NLM_F_EXCL : 0U),
                  head);
  message.put(RTA_DST, route.dst.network().ip);
  if (route.source) message.put(RTA_PREFSRC, *route.source);
  if (route.gateway) message.put(RTA_GATEWAY, *route.gateway);
  message.put_u32(RTA_OIF, static_cast<std::uint32_t>(link.index));
  if (route.table >= 256) message.put_u32(RTA_TABLE, route.table);
  if (route.priority != 0) message.put_u32(RTA_PRIORITY, route.priority);
  if (route.mtu != 0 || route.advmss != 0) {
    message.nest(RTA_METRICS, [&] {
      if (route.mtu != 0) message.put_u32(RTAX_MTU, route.mtu);
      if (route.advmss != 0) message.put_u32(RTAX_ADVMSS, route.advmss);
    });
  }
  return {cat("add route ", route.dst.str(),
              route.gateway ? cat(" via ", route.gateway->str()) : "", " on '", link.name, "'"),
          std::move(message)};
}

namespace {

RouteRequest query(const PacketPath& packet, unsigned flags) {
  const Ip& destination = packet.destination;
  rtmsg head{};
  head.rtm_family = destination.is_v4() ? AF_INET : AF_INET6;
  head.rtm_flags = flags;
  head.rtm_dst_len = static_cast<unsigned char>(destination.bits());
  if (packet.source) head.rtm_src_len = head.rtm_dst_len;
  Message message(RTM_GETROUTE, 0, head);
  message.put(RTA_DST, destination);
  if (packet.source) message.put(RTA_SRC, *packet.source);
  if (packet.in != 0) message.put_u32(RTA_IIF, static_cast<std::uint32_t>(packet.in));
  if (packet.mark != 0) message.put_u32(RTA_MARK, packet.mark);
  // No route, and the errors of the routes "unreachable", "blackhole" and "prohibit":
  // fib_props in net/ipv4/fib_semantics.c.
  return {cat("look up the route to ", destination.str()),
          std::move(message),
          {ENETUNREACH, EHOSTUNREACH, EINVAL, EACCES, EAFNOSUPPORT, EOPNOTSUPP, EXDEV, ENODEV}};
}

}  // namespace

RouteRequest path_query(const Ip& destination) { return query({destination}, 0); }

RouteRequest match_query(const Ip& destination) { return query({destination}, RTM_F_FIB_MATCH); }

// Of IPv6 the answer always has the table, and the kernel refuses the flag.
RouteRequest match_query(const PacketPath& packet) {
  const unsigned table = packet.destination.is_v4() ? RTM_F_LOOKUP_TABLE : 0;
  return query(packet, RTM_F_FIB_MATCH | table);
}

std::optional<MatchedRoute> decode_match(const Reply& reply) {
  const auto path = decode_path(reply);
  if (!path) return std::nullopt;
  return MatchedRoute{.route = decode_route(reply), .local = path->local};
}

std::optional<Path> decode_path(const Reply& reply) {
  const auto head = reply.fixed<rtmsg>();
  const int type = head.rtm_type;
  if (type == RTN_BLACKHOLE || type == RTN_UNREACHABLE || type == RTN_PROHIBIT) return std::nullopt;
  return Path{.link = reply.attributes(sizeof head).find(RTA_OIF).as<int>(),
              .local = type == RTN_LOCAL};
}

}  // namespace netlink
