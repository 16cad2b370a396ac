#include "netlink/channel.h"

#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

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

// Sends both descriptors over the first one to the second: it is then in its own queue.
bool enclose(int sender, int receiver, int enclosed) {
  const int both[] = {receiver, enclosed};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof both)] = {};
  char byte = 0;
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof both);
  std::memcpy(CMSG_DATA(head), both, sizeof both);
  return ::sendmsg(sender, &message, MSG_NOSIGNAL) >= 0;
}

// A socket of unix(7) that lies in its own queue and nowhere else is garbage, which a worker of the
// kernel's collects, with all that lies there too (net/unix/garbage.c): nobody waits for what
// closing takes. Kernels before 6.9 collect at once and in the process that closes a socket of
// unix(7), as after any failure here: that is a wait like that of close(2).
void leave_to_kernel(Fd fd) noexcept {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) != 0) return;
  const Fd sender(pair[0]);
  const Fd receiver(pair[1]);
  // If it cannot be sent (too many open files), it is closed here and now.
  if (!enclose(sender.get(), receiver.get(), fd.get())) return;
}

std::size_t size_of(const std::vector<iovec>& parts) {
  std::size_t size = 0;
  for (const iovec& part : parts) size += part.iov_len;
  return size;
}

// However often a signal comes. An errno; 0: sent.
int send_to_kernel(int socket, std::vector<iovec>& parts) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  msghdr datagram{};
  datagram.msg_name = &kernel;
  datagram.msg_namelen = sizeof kernel;
  datagram.msg_iov = parts.data();
  datagram.msg_iovlen = static_cast<decltype(datagram.msg_iovlen)>(parts.size());
  while (::sendmsg(socket, &datagram, 0) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

iovec part_of(const Message& message) {
  const View bytes = message.bytes();
  return {const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
}

// No bind(2): the kernel chooses an address, unique in the namespace, when it is first needed.
Channel::Channel(int protocol)
    : fd_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol)),
      buffer_(new std::uint8_t[kReceiveBuffer]),
      room_(kReceiveBuffer) {
  if (!fd_) throw Error("open a netlink socket", errno);
  try_option(fd_.get(), NETLINK_EXT_ACK);
  try_option(fd_.get(), NETLINK_CAP_ACK);
  if (protocol == NETLINK_ROUTE) try_option(fd_.get(), NETLINK_GET_STRICT_CHK);
  const timeval limit{.tv_sec = kAnswerSeconds, .tv_usec = 0};
  if (::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0) {
    throw Error("set up a netlink socket", errno);
  }
}

Channel& Channel::operator=(Channel&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(buffer_, other.buffer_);
  std::swap(room_, other.room_);
  std::swap(later_, other.later_);
  return *this;
}

Channel::~Channel() {
  if (later_ && fd_) leave_to_kernel(std::move(fd_));
}

void Channel::send(const Message& message, const std::string& operation) {
  send({part_of(message)}, operation);
}

void Channel::send(std::vector<iovec> parts, const std::string& operation) {
  const std::size_t size = size_of(parts);
  if (size > kUsualLimit) {
    const int wanted = static_cast<int>(std::min<std::size_t>(2 * size, 1 << 30));
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &wanted, sizeof wanted);
  }
  if (const int error = send_to_kernel(fd_.get(), parts)) throw Error(operation, error);
}

View Channel::receive(const std::string& operation) {
  const std::string what = operation + ": receive the answer";
  for (;;) {
    sockaddr_nl from{};
    iovec part{buffer_.get(), room_};
    msghdr datagram{};
    datagram.msg_name = &from;
    datagram.msg_namelen = sizeof from;
    datagram.msg_iov = &part;
    datagram.msg_iovlen = 1;
    const ssize_t size = ::recvmsg(fd_.get(), &datagram, MSG_TRUNC);  // the whole size
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) throw Error(what, errno == EAGAIN ? ETIMEDOUT : errno);
    if (size == 0) throw Error(what, EPROTO);
    if ((datagram.msg_flags & MSG_TRUNC) != 0) {
      room_ = 2 * static_cast<std::size_t>(size);
      buffer_.reset(new std::uint8_t[room_]);
      throw Error(what, EMSGSIZE);
    }
    if (from.nl_pid != 0) continue;  // only the kernel is listened to
    return {buffer_.get(), static_cast<std::size_t>(size)};
  }
}

void Channel::join(std::initializer_list<unsigned> groups) {
  // A socket without an address has the kernel's, 0: it gets nothing of what the kernel announces,
  // as if it had sent it (do_one_broadcast() in net/netlink/af_netlink.c).
  sockaddr_nl any{};
  any.nl_family = AF_NETLINK;
  bool joined = ::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
  for (const unsigned group : groups) {
    joined = joined && ::setsockopt(fd_.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group,
                                    sizeof group) == 0;
  }
  if (!joined) throw Error("listen to what the kernel announces", errno);
}

}  // namespace netlink
