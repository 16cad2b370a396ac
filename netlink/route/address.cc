#include "netlink/route/address.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>

#include "netlink/types/error.h"

namespace netlink {

namespace {

// The flags that a request may set (inet6_rtm_newaddr(), rtm_to_ifaddr()); the rest is state.
constexpr std::uint32_t kSettable =
    IFA_F_NODAD | IFA_F_OPTIMISTIC | IFA_F_HOMEADDRESS | IFA_F_MANAGETEMPADDR | IFA_F_NOPREFIXROUTE;

constexpr std::uint16_t kProtocol = 11;  // IFA_PROTO, since Linux 5.18
constexpr std::uint32_t kForever = 0xffffffff;

ifaddrmsg head_of(const Link& link, const Cidr& cidr) {
  ifaddrmsg head{};
  head.ifa_family = cidr.ip.is_v4() ? AF_INET : AF_INET6;
  head.ifa_prefixlen = static_cast<std::uint8_t>(cidr.prefix);
  head.ifa_scope = RT_SCOPE_UNIVERSE;
  head.ifa_index = static_cast<std::uint32_t>(link.index);
  return head;
}

Lifetime lifetime_in(View value) {
  const auto info = read_struct<ifa_cacheinfo>(value);
  return {.preferred = info.ifa_prefered, .valid = info.ifa_valid};
}

void put_lifetime(Message& message, const Lifetime& lifetime) {
  ifa_cacheinfo info{};
  info.ifa_prefered = lifetime.preferred;
  info.ifa_valid = lifetime.valid;
  message.put_struct(IFA_CACHEINFO, info);
}

}  // namespace

LinkAddress decode_address(const Reply& reply) {
  const auto head = reply.fixed<ifaddrmsg>();
  LinkAddress out;
  out.link = static_cast<int>(head.ifa_index);
  std::uint32_t flags = head.ifa_flags;
  std::optional<Cidr> local;
  std::optional<Cidr> address;
  for (const auto& [type, value] : reply.attributes(sizeof head)) {
    if (type == IFA_FLAGS) flags = read_struct<std::uint32_t>(value);
    if (type == IFA_LABEL) out.label = Attribute{type, value}.text();
    if (type == IFA_CACHEINFO) out.lifetime = lifetime_in(value);
    if (type == IFA_RT_PRIORITY) out.metric = read_struct<std::uint32_t>(value);
    if (type == kProtocol) out.protocol = read_struct<std::uint8_t>(value);
    if (value.size() != 4 && value.size() != 16) continue;
    if (type == IFA_BROADCAST) out.broadcast = Ip::from_bytes(value.data(), value.size());
    if (type != IFA_LOCAL && type != IFA_ADDRESS) continue;
    (type == IFA_LOCAL ? local : address) =
        Cidr::from_bytes(value.data(), value.size(), head.ifa_prefixlen);
  }
  // IFA_ADDRESS is the other end of a point-to-point link; IPv6 has no IFA_LOCAL otherwise.
  out.cidr = local.value_or(address.value_or(Cidr()));
  if (address && address->ip != out.cidr.ip) out.peer = address->ip;
  out.scope = head.ifa_scope;
  out.permanent = (flags & IFA_F_PERMANENT) != 0;
  if (out.permanent) out.lifetime.reset();
  out.flags = flags & kSettable;
  out.tentative = (flags & IFA_F_TENTATIVE) != 0;
  out.dad_failed = (flags & IFA_F_DADFAILED) != 0;
  return out;
}

RouteRequest add(const Link& link, const NewAddress& address) {
  const Cidr& cidr = address.cidr;
  Message message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, head_of(link, cidr));
  message.put(IFA_LOCAL, cidr.ip);
  message.put(IFA_ADDRESS, cidr.ip);
  if (cidr.ip.is_v4() && cidr.prefix < 31) {
    message.put(IFA_BROADCAST, cidr.ip.broadcast(cidr.prefix));
  }
  const std::uint32_t flags = (address.no_dad && !cidr.ip.is_v4() ? IFA_F_NODAD : 0U) |
                              (address.no_prefix_route ? IFA_F_NOPREFIXROUTE : 0U);
  if (flags != 0) message.put_u32(IFA_FLAGS, flags);
  return {cat("add address ", cidr.str(), " to '", link.name, "'"), std::move(message)};
}

RouteRequest add_again(const Link& link, const LinkAddress& address) {
  const Cidr& cidr = address.cidr;
  ifaddrmsg head = head_of(link, cidr);
  head.ifa_scope = address.scope;
  Message message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, head);
  message.put(IFA_LOCAL, cidr.ip);
  message.put(IFA_ADDRESS, address.peer.value_or(cidr.ip));
  if (address.broadcast) message.put(IFA_BROADCAST, *address.broadcast);
  if (!address.label.empty()) message.put(IFA_LABEL, address.label);
  if (address.flags != 0) message.put_u32(IFA_FLAGS, address.flags);
  if (address.lifetime) put_lifetime(message, *address.lifetime);
  return {cat("add address ", cidr.str(), " to '", link.name, "'"), std::move(message), {EEXIST}};
}

RouteRequest remove(const Link& link, const Cidr& address) {
  Message message(RTM_DELADDR, NLM_F_ACK, head_of(link, address));
  message.put(IFA_LOCAL, address.ip);
  message.put(IFA_ADDRESS, address.ip);
  return {cat("remove address ", address.str(), " from '", link.name, "'"),
          std::move(message),
          {EADDRNOTAVAIL}};
}

// The kernel changes lifetime, metric and protocol of an address alone. It would add a missing one,
// whatever NLM_F_CREATE says; IFA_F_MCAUTOJOIN makes it refuse that, since only a multicast address
// can be joined (inet_rtm_newaddr() in net/ipv4/devinet.c).
RouteRequest set_lifetime(const Link& link, const LinkAddress& address,
                          const std::optional<Lifetime>& lifetime) {
  const Cidr& cidr = address.cidr;
  Message message(RTM_NEWADDR, NLM_F_REPLACE | NLM_F_ACK, head_of(link, cidr));
  message.put(IFA_LOCAL, cidr.ip);
  message.put(IFA_ADDRESS, address.peer.value_or(cidr.ip));
  message.put_u32(IFA_FLAGS, IFA_F_MCAUTOJOIN);
  if (address.metric != 0) message.put_u32(IFA_RT_PRIORITY, address.metric);
  if (address.protocol != 0) message.put_struct(kProtocol, address.protocol);
  put_lifetime(message, lifetime.value_or(Lifetime{.preferred = kForever, .valid = kForever}));
  return {cat("set the lifetime of address ", cidr.str(), " of '", link.name, "'"),
          std::move(message),
          {EINVAL, EOPNOTSUPP}};
}

}  // namespace netlink
