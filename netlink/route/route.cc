#include "netlink/route/route.h"

#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "netlink/types/error.h"

namespace netlink {

namespace {

// Of RTA_MULTIPATH: a sequence of rtnexthop, each with attributes of its own.
std::vector<int> next_hops(View hops) {
  std::vector<int> out;
  while (hops.size() >= sizeof(rtnexthop)) {
    const auto hop = read_struct<rtnexthop>(hops);
    if (hop.rtnh_len < sizeof hop) break;
    out.push_back(hop.rtnh_ifindex);
    hops = hops.subspan(std::min(aligned(hop.rtnh_len), hops.size()));
  }
  return out;
}

// The kernel's own remarks are not for it to read.
bool is_remark(std::uint16_t type) {
  return type == RTA_TABLE || type == RTA_CACHEINFO || type == RTA_PAD;
}

Message message_of(const RouteCopy& copy, std::uint32_t table, unsigned type, unsigned flags) {
  auto head = read_struct<rtmsg>(copy.payload);
  head.rtm_flags &= RTNH_F_ONLINK;
  head.rtm_table = static_cast<unsigned char>(table < 256 ? table : RT_TABLE_UNSPEC);
  Message message(type, flags | NLM_F_ACK, head);
  const View rest = View(copy.payload).subspan(std::min(aligned(sizeof head), copy.payload.size()));
  for (const Attribute& one : Attributes(rest)) {
    if (!is_remark(one.type)) message.put(one.type, one.value);
  }
  message.put_u32(RTA_TABLE, table);
  return message;
}

std::string text_of(const LinkRoute& route) {
  return cat("route ", route.dst.str(), route.gateway ? cat(" via ", route.gateway->str()) : "");
}

}  // namespace

RouteCopy copy_route(const Reply& reply) {
  const View payload = reply.payload();
  return {decode_route(reply), Bytes(payload.begin(), payload.end())};
}

RouteRequest add(const RouteCopy& copy, std::uint32_t table) {
  return {cat("add ", text_of(copy.route), " table ", table),
          message_of(copy, table, RTM_NEWROUTE, NLM_F_CREATE),
          {EEXIST}};
}

RouteRequest remove(const RouteCopy& copy) {
  const std::uint32_t table = copy.route.table;
  return {cat("remove ", text_of(copy.route), " table ", table),
          message_of(copy, table, RTM_DELROUTE, 0),
          {ESRCH}};
}

LinkRoute decode_route(const Reply& reply) {
  const auto head = reply.fixed<rtmsg>();
  LinkRoute out;
  out.dst.ip = Ip::any(head.rtm_family == AF_INET ? Family::kIpv4 : Family::kIpv6);  // the default
  out.table = head.rtm_table;
  out.scope = head.rtm_scope;
  out.protocol = head.rtm_protocol;
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

RouteRequest path_query(const Ip& destination) {
  rtmsg head{};
  head.rtm_family = destination.is_v4() ? AF_INET : AF_INET6;
  head.rtm_dst_len = static_cast<unsigned char>(destination.bits());
  Message message(RTM_GETROUTE, 0, head);
  message.put(RTA_DST, destination);
  // No route, and the errors of the routes "unreachable", "blackhole" and "prohibit":
  // fib_props in net/ipv4/fib_semantics.c.
  return {cat("look up the route to ", destination.str()),
          std::move(message),
          {ENETUNREACH, EHOSTUNREACH, EINVAL, EACCES, EAFNOSUPPORT, EOPNOTSUPP}};
}

std::optional<Path> decode_path(const Reply& reply) {
  const auto head = reply.fixed<rtmsg>();
  const int type = head.rtm_type;
  if (type == RTN_BLACKHOLE || type == RTN_UNREACHABLE || type == RTN_PROHIBIT) return std::nullopt;
  return Path{.link = reply.attributes(sizeof head).find(RTA_OIF).as<int>(),
              .local = type == RTN_LOCAL};
}

}  // namespace netlink
