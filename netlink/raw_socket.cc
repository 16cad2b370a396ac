#include "netlink/raw_socket.h"

#include <linux/errqueue.h>
#include <linux/filter.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "netlink/types/error.h"

namespace netlink {

namespace {

// Bytes for answers that nobody has read. A pod that sees a probe can send as many as it likes, and
// those of others find room beside them.
constexpr int kRoom = 8 * 1024 * 1024;

// A kernel that does not know an option sends the probes all the same.
template <class Value>
void set(const Fd& fd, int level, int name, const Value& value) {
  ::setsockopt(fd.get(), level, name, &value, sizeof value);
}

// Whatever is known of the path, the packet is sent; and what an ICMP error says of it, a pod's or
// a router's, is not learnt: IPv4 would keep it for ten minutes (net.ipv4.route.mtu_expires).
Fd open_raw(const NetNs& where, Family family, int protocol) {
  const NetNs::Entered there(where);
  const bool is_v4 = family == Family::kIpv4;
  Fd out(::socket(is_v4 ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  if (!out) throw Error("open a raw socket", errno);
  set(out, SOL_SOCKET, SO_RCVBUF, kRoom);  // in a user namespace up to net.core.rmem_max
  set(out, SOL_SOCKET, SO_RCVBUFFORCE, kRoom);
  if (is_v4) {
    set(out, IPPROTO_IP, IP_MTU_DISCOVER, int{IP_PMTUDISC_INTERFACE});
  } else {
    set(out, IPPROTO_IPV6, IPV6_MTU_DISCOVER, int{IPV6_PMTUDISC_PROBE});
  }
  return out;
}

void attach(const Fd& fd, std::vector<sock_filter> code) {
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  set(fd, SOL_SOCKET, SO_ATTACH_FILTER, program);
}

constexpr std::uint16_t kLoad = BPF_LD, kJumpIf = BPF_JMP | BPF_JEQ | BPF_K, kReturn = BPF_RET;

}  // namespace

Fd open_echo_socket(const NetNs& where, Family family, std::uint16_t id) {
  if (family == Family::kIpv6) {
    Fd out = open_raw(where, family, IPPROTO_ICMPV6);
    icmp6_filter filter{};
    ICMP6_FILTER_SETBLOCKALL(&filter);
    for (const int type : {ICMP6_DST_UNREACH, ICMP6_PACKET_TOO_BIG, ICMP6_TIME_EXCEEDED,
                           ICMP6_PARAM_PROB, ICMP6_ECHO_REPLY}) {
      ICMP6_FILTER_SETPASS(type, &filter);
    }
    set(out, IPPROTO_ICMPV6, ICMP6_FILTER, filter);
    return out;
  }
  Fd out = open_raw(where, family, IPPROTO_ICMP);
  attach(out, {BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),  // the size of the IP header
               BPF_STMT(kLoad | BPF_B | BPF_IND, 0), BPF_JUMP(kJumpIf, ICMP_DEST_UNREACH, 4, 0),
               BPF_JUMP(kJumpIf, ICMP_TIME_EXCEEDED, 3, 0), BPF_JUMP(kJumpIf, ICMP_ECHOREPLY, 0, 3),
               BPF_STMT(kLoad | BPF_H | BPF_IND, 4), BPF_JUMP(kJumpIf, id, 0, 1),
               BPF_STMT(kReturn, 0xffff), BPF_STMT(kReturn, 0)});
  return out;
}

Fd open_segment_socket(const NetNs& where, Family family, std::uint32_t acknowledged) {
  Fd out = open_raw(where, family, IPPROTO_TCP);
  const bool is_v4 = family == Family::kIpv4;
  if (!is_v4) set(out, IPPROTO_IPV6, IPV6_CHECKSUM, int{16});
  const std::uint16_t at = is_v4 ? BPF_IND : BPF_ABS;  // IPv6: without its header
  attach(out,
         {BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
          BPF_STMT(static_cast<std::uint16_t>(kLoad | BPF_W | at), 8),
          BPF_JUMP(kJumpIf, acknowledged, 0, 1), BPF_STMT(kReturn, 0xffff), BPF_STMT(kReturn, 0)});
  return out;
}

Fd open_packet_sender(const NetNs& where) { return open_raw(where, Family::kIpv4, IPPROTO_RAW); }

void report_errors(const Fd& fd, Family family) {
  const bool is_v4 = family == Family::kIpv4;
  set(fd, is_v4 ? IPPROTO_IP : IPPROTO_IPV6, is_v4 ? IP_RECVERR : IPV6_RECVERR, int{1});
}

namespace {

// Behind the error is the address of who has sent it.
std::optional<IcmpError> error_in(const sock_extended_err& error, const std::uint8_t* address) {
  IcmpError out{.from = {}, .type = error.ee_type, .code = error.ee_code};
  if (error.ee_origin == SO_EE_ORIGIN_ICMP) {
    out.from = Ip::from_bytes(address + offsetof(sockaddr_in, sin_addr), sizeof(in_addr));
  } else if (error.ee_origin == SO_EE_ORIGIN_ICMP6) {
    out.from = Ip::from_bytes(address + offsetof(sockaddr_in6, sin6_addr), sizeof(in6_addr));
  } else {
    return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<IcmpError> take_error(int fd) {
  alignas(cmsghdr) std::array<char, 256> control{};
  msghdr message{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (::recvmsg(fd, &message, MSG_ERRQUEUE) < 0) return std::nullopt;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    const bool is_v4 = head->cmsg_level == IPPROTO_IP && head->cmsg_type == IP_RECVERR;
    const bool is_v6 = head->cmsg_level == IPPROTO_IPV6 && head->cmsg_type == IPV6_RECVERR;
    const std::size_t size = is_v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    sock_extended_err error{};
    if ((!is_v4 && !is_v6) || head->cmsg_len < CMSG_LEN(sizeof error + size)) continue;
    std::memcpy(&error, CMSG_DATA(head), sizeof error);
    if (auto out = error_in(error, CMSG_DATA(head) + sizeof error)) return out;
  }
  return std::nullopt;
}

}  // namespace netlink
