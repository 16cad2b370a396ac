#include "netlink/diag.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "netlink/ack.h"
#include "netlink/messages.h"
#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace netlink {

namespace {

// enum in net/tcp_states.h; a UDP socket is in the second while it is not connected.
constexpr std::uint32_t kListen = 10;
constexpr std::uint32_t kClose = 7;

constexpr int kReceiveTimeout = 10;  // seconds

int domain_of(Family family) { return family == Family::kIpv4 ? AF_INET : AF_INET6; }

struct Request {
  nlmsghdr head{};
  inet_diag_req_v2 query{};
};

Request request_for(Family family, int protocol, std::uint16_t port) {
  Request out;
  out.head.nlmsg_len = sizeof out;
  out.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  out.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  out.query.sdiag_family = static_cast<std::uint8_t>(domain_of(family));
  out.query.sdiag_protocol = static_cast<std::uint8_t>(protocol);
  const bool datagrams = protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE;
  out.query.idiag_states = 1U << (datagrams ? kClose : kListen);
  // All kernels compare it in dumps, too: inet_diag_dump_icsk(), udp_dump(), sctp_ep_dump().
  out.query.id.idiag_sport = htons(port);
  return out;
}

Fd open_diag() {
  Fd fd(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!fd) return fd;
  const timeval limit{kReceiveTimeout, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return fd;
}

// A byte, among attributes that follow the fixed part of a message.
bool flag_in(const std::uint8_t* at, std::size_t size, std::uint16_t type) {
  while (size >= sizeof(nlattr)) {
    nlattr head;
    std::memcpy(&head, at, sizeof head);
    if (head.nla_len < sizeof head || head.nla_len > size) return false;
    if (head.nla_type == type) return head.nla_len > sizeof head && at[sizeof head] != 0;
    const std::size_t step = std::min<std::size_t>(size, NLA_ALIGN(head.nla_len));
    at += step;
    size -= step;
  }
  return false;
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

std::optional<Holder> decode_holder(const std::uint8_t* message, std::size_t size) {
  inet_diag_msg info;
  constexpr std::size_t kFixed = NLMSG_HDRLEN + sizeof info;
  if (size < kFixed) return std::nullopt;
  std::memcpy(&info, message + NLMSG_HDRLEN, sizeof info);
  if (info.id.idiag_dport != 0) return std::nullopt;  // connected
  return Holder{.address = address_in(info),
                .port = ntohs(info.id.idiag_sport),
                .inode = info.idiag_inode,
                .v6_only = flag_in(message + kFixed, size - kFixed, INET_DIAG_SKV6ONLY)};
}

std::vector<Holder> dump(Family family, int protocol, std::uint16_t port) {
  const Fd fd = open_diag();
  if (!fd && (errno == EPROTONOSUPPORT || errno == EAFNOSUPPORT)) return {};
  if (!fd) throw Error("open a socket for diagnosis", errno);
  const Request request = request_for(family, protocol, port);
  while (::send(fd.get(), &request, sizeof request, 0) < 0) {
    if (errno != EINTR) throw Error("list sockets", errno);
  }
  HolderDump out;
  alignas(nlmsghdr) std::array<std::uint8_t, 32768> buffer;
  while (!out.done) {
    const ssize_t size = ::recv(fd.get(), buffer.data(), buffer.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) throw Error("list sockets", errno == EAGAIN ? ETIMEDOUT : errno);
    out.read(std::span(buffer.data(), static_cast<std::size_t>(size)));
  }
  return out.holders;
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

void HolderDump::read(std::span<const std::uint8_t> datagram) {
  any_message(datagram, [this](const nlmsghdr* message, std::size_t left) {
    if (const auto ack = decode_ack(message, left)) {
      done = true;
      unknown = ack->error == ENOENT || ack->error == EINVAL || ack->error == EOPNOTSUPP;
      if (ack->error != 0 && !unknown) throw Error("list sockets", ack->error, ack->text);
    } else if (auto holder = decode_holder(reinterpret_cast<const std::uint8_t*>(message),
                                           message->nlmsg_len)) {
      holders.push_back(*holder);
    }
    return done;
  });
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
