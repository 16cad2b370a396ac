#include "netlink/diag.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "netlink/ack.h"
#include "netlink/channel.h"
#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace netlink {

namespace {

// enum in net/tcp_states.h; a UDP socket is in the second while it is not connected.
constexpr std::uint32_t kListen = 10;
constexpr std::uint32_t kClose = 7;

int domain_of(Family family) { return family == Family::kIpv4 ? AF_INET : AF_INET6; }

Message request_for(Family family, int protocol, std::uint16_t port) {
  inet_diag_req_v2 query{};
  query.sdiag_family = static_cast<std::uint8_t>(domain_of(family));
  query.sdiag_protocol = static_cast<std::uint8_t>(protocol);
  const bool datagrams = protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE;
  query.idiag_states = 1U << (datagrams ? kClose : kListen);
  // All kernels compare it in dumps, too: inet_diag_dump_icsk(), udp_dump(), sctp_ep_dump().
  query.id.idiag_sport = htons(port);
  return Message(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, query);
}

// A socket of IPv6 that is bound to an IPv4 address in its IPv6 clothes (RFC 4291, 2.5.5.2) gets
// what comes by IPv4, and nothing else.
Ip address_in(const inet_diag_msg& info) {
  in6_addr address;
  std::memcpy(&address, info.id.idiag_src, sizeof address);
  if (info.idiag_family == AF_INET) return Ip::from_bytes(&address, 4);
  if (IN6_IS_ADDR_V4MAPPED(&address)) return Ip::from_bytes(&address.s6_addr[12], 4);
  return Ip::from_bytes(&address, 16);
}

std::optional<Holder> decode_holder(const Reply& reply) {
  if (reply.payload().size() < sizeof(inet_diag_msg)) return std::nullopt;
  const auto info = reply.fixed<inet_diag_msg>();
  if (info.id.idiag_dport != 0) return std::nullopt;  // connected
  return Holder{.address = address_in(info),
                .port = ntohs(info.id.idiag_sport),
                .inode = info.idiag_inode,
                .v6_only = reply.attributes(sizeof info).find(INET_DIAG_SKV6ONLY).u8() != 0};
}

std::vector<Holder> dump(Family family, int protocol, std::uint16_t port) try {
  Channel channel(NETLINK_SOCK_DIAG);
  channel.send(request_for(family, protocol, port), "list sockets");
  HolderDump out;
  while (!out.done) out.read(channel.receive("list sockets"));
  return out.holders;
} catch (const Error& e) {
  if (e.error() == EPROTONOSUPPORT || e.error() == EAFNOSUPPORT) return {};
  throw;
}

socklen_t fill(sockaddr_storage& out, const Ip& ip, std::uint16_t port) {
  if (ip.is_v4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, ip.data(), ip.size());
    std::memcpy(&out, &v4, sizeof v4);
    return sizeof v4;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  std::memcpy(&v6.sin6_addr, ip.data(), ip.size());
  std::memcpy(&out, &v6, sizeof v6);
  return sizeof v6;
}

}  // namespace

void HolderDump::read(View datagram) {
  for (const Reply& reply : Replies{datagram}) {
    if (const auto ack = decode_ack(reply)) {
      done = true;
      unknown = ack->error == ENOENT || ack->error == EINVAL || ack->error == EOPNOTSUPP;
      if (ack->error != 0 && !unknown) throw Error("list sockets", ack->error, ack->text);
      return;
    }
    if (const auto holder = decode_holder(reply)) holders.push_back(*holder);
  }
}

std::vector<Holder> port_holders(Family family, int protocol, std::uint16_t port) {
  const bool v4 = family == Family::kIpv4;
  std::vector<Holder> out;
  if (v4) out = dump(Family::kIpv4, protocol, port);
  for (const Holder& holder : dump(Family::kIpv6, protocol, port)) {
    const bool both = holder.address.is_unspecified() && !holder.v6_only;
    if (holder.address.is_v4() == v4 || (v4 && both)) out.push_back(holder);
  }
  std::erase_if(out, [&](const Holder& holder) { return holder.port != port; });
  return out;
}

bool can_bind(Family family, int protocol, const std::optional<Ip>& address, std::uint16_t port) {
  const bool datagrams = protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE;
  const Fd fd(
      ::socket(domain_of(family), (datagrams ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, protocol));
  if (!fd) return true;
  const int on = 1;
  // Ended connections that the kernel still waits for do not count then; listening sockets do.
  if (!datagrams) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == Family::kIpv6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  sockaddr_storage where{};
  const socklen_t size = fill(where, address.value_or(Ip::any(family)), port);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&where), size) == 0 ||
         errno != EADDRINUSE;
}

}  // namespace netlink
