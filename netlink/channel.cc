#include "netlink/channel.h"

#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>

#include "netlink/types/error.h"

namespace netlink {

namespace {

constexpr int kAnswerSeconds = 10;
constexpr std::size_t kReceiveBuffer = 32768;  // the largest piece that the kernel makes of a dump
constexpr std::size_t kUsualLimit = 200'000;   // below net.core.wmem_default

// Wishes: without them errors carry no text and echo the whole request, and older kernels than 4.20
// answer a query with more than was asked; the callers filter again.
void try_option(int fd, int option) {
  const int on = 1;
  [[maybe_unused]] const int ignored = ::setsockopt(fd, SOL_NETLINK, option, &on, sizeof on);
}

std::size_t size_of(const std::vector<iovec>& parts) {
  std::size_t size = 0;
  for (const iovec& part : parts) size += part.iov_len;
  return size;
}

}  // namespace

// Without bind(2): the kernel chooses an address, unique in the namespace, when it is first needed.
Channel::Channel(int protocol)
    : fd_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol)),
      buffer_(new std::uint8_t[kReceiveBuffer]) {
  if (!fd_) throw Error("open a netlink socket", errno);
  try_option(fd_.get(), NETLINK_EXT_ACK);
  try_option(fd_.get(), NETLINK_CAP_ACK);
  if (protocol == NETLINK_ROUTE) try_option(fd_.get(), NETLINK_GET_STRICT_CHK);
  const timeval limit{.tv_sec = kAnswerSeconds, .tv_usec = 0};
  if (::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) {
    throw Error("set up a netlink socket", errno);
  }
}

void Channel::send(std::vector<iovec> parts, const std::string& operation) {
  const std::size_t size = size_of(parts);
  if (size > kUsualLimit) {
    const int wanted = static_cast<int>(std::min<std::size_t>(2 * size, 1 << 30));
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &wanted, sizeof wanted);
  }
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  msghdr datagram{};
  datagram.msg_name = &kernel;
  datagram.msg_namelen = sizeof kernel;
  datagram.msg_iov = parts.data();
  datagram.msg_iovlen = parts.size();
  while (::sendmsg(fd_.get(), &datagram, 0) < 0) {
    if (errno != EINTR) throw Error(operation, errno);
  }
}

std::span<const std::uint8_t> Channel::receive(const std::string& operation) {
  const std::string what = operation + ": receive the answer";
  for (;;) {
    sockaddr_nl from{};
    iovec part{buffer_.get(), kReceiveBuffer};
    msghdr datagram{};
    datagram.msg_name = &from;
    datagram.msg_namelen = sizeof from;
    datagram.msg_iov = &part;
    datagram.msg_iovlen = 1;
    const ssize_t size = ::recvmsg(fd_.get(), &datagram, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) throw Error(what, errno == EAGAIN ? ETIMEDOUT : errno);
    if (size == 0) throw Error(what, EPROTO);
    if ((datagram.msg_flags & MSG_TRUNC) != 0) throw Error(what, EMSGSIZE);
    if (from.nl_pid != 0) continue;  // only the kernel is listened to
    return {buffer_.get(), static_cast<std::size_t>(size)};
  }
}

void Channel::join(unsigned group) {
  if (::setsockopt(fd_.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) != 0) {
    throw Error("listen to what the kernel announces", errno);
  }
}

}  // namespace netlink
