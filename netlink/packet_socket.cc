#include "netlink/packet_socket.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "netlink/types/error.h"

namespace netlink {

namespace {

// Enough for Ethernet without jumbo frames; a DHCP message has no fragments here.
constexpr std::size_t kLargestPacket = 4096;

sockaddr_ll address_of(int link) {
  sockaddr_ll out{};
  out.sll_family = AF_PACKET;
  out.sll_protocol = htons(ETHERTYPE_IP);
  out.sll_ifindex = link;
  return out;
}

// UDP, no later fragment, to that port; the offsets are those of the IPv4 header.
bool filter_udp(int fd, std::uint16_t port) {
  constexpr std::uint16_t kLoadByte = BPF_LD | BPF_B | BPF_ABS;
  constexpr std::uint16_t kLoadHalf = BPF_LD | BPF_H | BPF_ABS;
  sock_filter code[] = {
      {kLoadByte, 0, 0, 9},  // protocol
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 6, IPPROTO_UDP},
      {kLoadHalf, 0, 0, 6},                        // flags and offset
      {BPF_JMP | BPF_JSET | BPF_K, 4, 0, 0x3fff},  // more fragments, or a later one
      {BPF_LDX | BPF_B | BPF_MSH, 0, 0, 0},        // length of the header
      {BPF_LD | BPF_H | BPF_IND, 0, 0, 2},         // destination port
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, port},
      {BPF_RET | BPF_K, 0, 0, kLargestPacket},
      {BPF_RET | BPF_K, 0, 0, 0},
  };
  const sock_fprog program{.len = static_cast<unsigned short>(std::size(code)), .filter = code};
  return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

// The socket receives nothing until it is bound: no packet passes by the filter.
Fd open_in(const NetNs& ns) {
  const NetNs::Entered entered(ns);
  return Fd(::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// The only control message that the socket was asked for is the first one.
bool is_checksum_pending(msghdr& message) {
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_level != SOL_PACKET || head->cmsg_type != PACKET_AUXDATA)
    return false;
  tpacket_auxdata data{};
  std::memcpy(&data, CMSG_DATA(head), sizeof data);
  return (data.tp_status & TP_STATUS_CSUMNOTREADY) != 0;
}

}  // namespace

PacketSocket::PacketSocket(const NetNs& ns, int link, std::uint16_t udp_port)
    : fd_(open_in(ns)), link_(link), buffer_(kLargestPacket) {
  const int on = 1;
  const sockaddr_ll where = address_of(link);
  const bool ready =
      fd_ && filter_udp(fd_.get(), udp_port) &&
      ::setsockopt(fd_.get(), SOL_PACKET, PACKET_AUXDATA, &on, sizeof on) == 0 &&
      ::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0;
  if (!ready) {
    throw Error(cat("open a packet socket", errno == EPERM ? " (this needs CAP_NET_RAW)" : ""),
                errno);
  }
}

void PacketSocket::send(View packet, const std::optional<Mac>& to) {
  sockaddr_ll where = address_of(link_);
  where.sll_halen = sizeof(Mac::bytes);
  if (to) {
    std::ranges::copy(to->bytes, where.sll_addr);
  } else {
    std::fill_n(where.sll_addr, where.sll_halen, std::uint8_t{0xff});
  }
  while (::sendto(fd_.get(), packet.data(), packet.size(), 0,
                  reinterpret_cast<const sockaddr*>(&where), sizeof where) < 0) {
    if (errno != EINTR) throw Error("send a packet", errno);
  }
}

std::optional<ReceivedPacket> PacketSocket::receive() {
  constexpr int kMaxAtOnce = 64;  // what the pod itself sends must not hold up the caller
  for (int i = 0; i < kMaxAtOnce; ++i) {
    sockaddr_ll from{};
    iovec part{buffer_.data(), buffer_.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(tpacket_auxdata))] = {};
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof from;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t size = ::recvmsg(fd_.get(), &message, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == ENETDOWN)) return std::nullopt;
    if (size < 0) throw Error("receive a packet", errno);
    if (from.sll_pkttype == PACKET_OUTGOING || from.sll_halen != sizeof(Mac::bytes)) continue;
    ReceivedPacket out{.bytes = View(buffer_).first(static_cast<std::size_t>(size)), .from = {}};
    std::copy_n(from.sll_addr, sizeof(Mac::bytes), out.from.bytes.begin());
    out.checksum_pending = is_checksum_pending(message);
    return out;
  }
  return std::nullopt;
}

}  // namespace netlink
