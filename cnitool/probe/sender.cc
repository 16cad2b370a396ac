#include "cnitool/probe/sender.h"

#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "cnitool/probe/pacer.h"
#include "netlink/raw_socket.h"
#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using Clock = std::chrono::steady_clock;
using netlink::Fd;

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

Address address_of(const Ip& ip, std::uint16_t port) {
  Address out;
  if (ip.is_v4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, ip.data(), ip.size());
    std::memcpy(&out.bytes, &v4, out.size = sizeof v4);
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, ip.data(), ip.size());
    std::memcpy(&out.bytes, &v6, out.size = sizeof v6);
  }
  return out;
}

std::optional<Ip> ip_in(const sockaddr_storage& bytes) {
  if (bytes.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &bytes, sizeof v4);
    return Ip::from_bytes(&v4.sin_addr, 4);
  }
  if (bytes.ss_family != AF_INET6) return std::nullopt;
  sockaddr_in6 v6{};
  std::memcpy(&v6, &bytes, sizeof v6);
  return Ip::from_bytes(&v6.sin6_addr, 16);
}

Fd open(int domain, int type, int protocol) {
  Fd out(::socket(domain, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol));
  if (!out) throw netlink::Error("open a socket for probes", errno);
  return out;
}

/// Ancillary data of a packet: its time to live and source.
class Control {
 public:
  explicit Control(const Packet& packet) {
    const bool is_v4 = packet.target.is_v4();
    const int level = is_v4 ? IPPROTO_IP : IPPROTO_IPV6;
    put(level, is_v4 ? IP_TTL : IPV6_HOPLIMIT, int{packet.ttl});
    if (!packet.source) return;
    if (is_v4) {
      in_pktinfo info{};
      std::memcpy(&info.ipi_spec_dst, packet.source->data(), 4);
      put(level, IP_PKTINFO, info);
    } else {
      in6_pktinfo info{};
      std::memcpy(&info.ipi6_addr, packet.source->data(), 16);
      put(level, IPV6_PKTINFO, info);
    }
  }
  void use(msghdr& message) {
    message.msg_control = bytes_.data();
    message.msg_controllen = size_;
  }

 private:
  template <class Value>
  void put(int level, int type, const Value& value) {
    cmsghdr head{};
    head.cmsg_len = CMSG_LEN(sizeof value);
    head.cmsg_level = level;
    head.cmsg_type = type;
    std::memcpy(bytes_.data() + size_, &head, sizeof head);
    std::memcpy(bytes_.data() + size_ + CMSG_LEN(0), &value, sizeof value);
    size_ += CMSG_SPACE(sizeof value);
  }

  alignas(cmsghdr) std::array<char, 128> bytes_{};
  std::size_t size_ = 0;
};

int error_of_send(int fd, const Packet& packet, Bytes bytes) {
  Address to = address_of(packet.target, 0);
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_name = &to.bytes;
  message.msg_namelen = to.size;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  Control control(packet);
  control.use(message);
  // An ICMP error of before is pending, and is reported once instead of sending.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (::sendmsg(fd, &message, MSG_NOSIGNAL) >= 0) return 0;
  }
  return errno;
}

}  // namespace

std::optional<Ip> Sender::source_for(const Ip& target) const {
  const netlink::NetNs::Entered there(ns_);
  const Fd fd = open(target.is_v4() ? AF_INET : AF_INET6, SOCK_DGRAM, 0);
  const Address to = address_of(target, 9);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.bytes), to.size) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    return std::nullopt;
  }
  return ip_in(own);
}

int Sender::socket_for(const Packet& packet) {
  const std::pair key(packet.protocol(), packet.target.family());
  const auto found = raw_.find(key);
  if (found != raw_.end()) return found->second.get();
  Fd fd = packet.kind == Kind::kSyn
              ? netlink::open_segment_socket(ns_, key.second, mark_.cookie + 1)
              : netlink::open_echo_socket(ns_, key.second, mark_.id);
  return raw_.emplace(key, std::move(fd)).first->second.get();
}

int Sender::send_query(const Packet& packet) {
  auto found = queries_.find(packet.number);
  if (found == queries_.end()) {
    const netlink::NetNs::Entered there(ns_);
    Fd fd = open(packet.target.is_v4() ? AF_INET : AF_INET6, SOCK_DGRAM, 0);
    const Address to = address_of(packet.target, packet.port);
    // The port by which its connection is found again. Where another has it, the kernel chooses.
    const Address own = address_of(Ip::any(packet.target.family()),
                                   static_cast<std::uint16_t>(mark_.port + packet.number));
    netlink::report_errors(fd, packet.target.family());
    static_cast<void>(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&own.bytes), own.size));
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.bytes), to.size) != 0) {
      return errno;
    }
    found = queries_.emplace(packet.number, std::pair(packet, std::move(fd))).first;
  }
  const Bytes bytes = payload_of(packet, mark_);
  const int fd = found->second.second.get();
  for (int attempt = 0; attempt < 2; ++attempt) {  // an error of before is reported once, too
    if (::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0) return 0;
  }
  return errno;
}

int Sender::send_whole(const Packet& packet) {
  socket_for(packet);  // which hears the answer
  if (!whole_) whole_ = netlink::open_packet_sender(ns_);
  const Bytes bytes = ip_packet(packet, mark_);
  const Address to = address_of(packet.target, 0);
  const auto sent = ::sendto(whole_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&to.bytes), to.size);
  return sent < 0 ? errno : 0;
}

int Sender::send(Packet packet) {
  if (outside_) return outside_->send(packet, mark_);
  if (packet.protocol() == IPPROTO_UDP) return send_query(packet);
  if (packet.kind == Kind::kSyn && !packet.source) {
    packet.source = source_for(packet.target);
    if (!packet.source) return ENETUNREACH;
  }
  if (packet.size != 0 && packet.target.is_v4() && packet.source) return send_whole(packet);
  return error_of_send(socket_for(packet), packet, payload_of(packet, mark_));
}

void Sender::for_each_fd(const std::function<void(int)>& use) const {
  if (outside_) use(outside_->fd());
  for (const auto& [key, fd] : raw_) use(fd.get());
  for (const auto& [number, query] : queries_) use(query.second.get());
}

std::vector<Received> Sender::take() {
  if (outside_) return outside_->take(mark_);
  std::vector<Received> out;
  std::array<std::uint8_t, 2048> bytes{};  // the beginning is enough
  constexpr int kMostAtOnce = 256;         // others wait meanwhile, and a pod may flood this one
  for (const auto& [key, fd] : raw_) {
    for (int i = 0; i < kMostAtOnce; ++i) {
      sockaddr_storage from{};
      socklen_t size = sizeof from;
      const auto got = ::recvfrom(fd.get(), bytes.data(), bytes.size(), 0,
                                  reinterpret_cast<sockaddr*>(&from), &size);
      if (got < 0 && (errno == EAGAIN || errno == EBADF)) break;
      const auto ip = ip_in(from);
      if (got < 0 || !ip) continue;
      const View read(bytes.data(), static_cast<std::size_t>(got));
      const auto one = received_by(mark_, key.first, *ip, read);
      if (one && !queries_.contains(one->number)) out.push_back(*one);
    }
  }
  for (const auto& [number, query] : queries_) {
    if (const auto error = netlink::take_error(query.second.get())) {
      out.push_back({number, {Answer::Kind::kRefused, error->from, error->type, error->code}});
    }
    const auto got = ::recv(query.second.get(), bytes.data(), bytes.size(), 0);
    if (got < 0) continue;
    const Packet& packet = query.first;
    const bool is_ours =
        packet.kind == Kind::kDatagram || (got >= 2 && (bytes[0] << 8 | bytes[1]) == mark_.id);
    if (is_ours) out.push_back({number, {Answer::Kind::kReply, packet.target}});
  }
  return out;
}

namespace {

/// Waits for answers in between.
class Round {
 public:
  /// \throws netlink::Error.
  Round(std::vector<Shot>& shots, std::vector<Sender>& senders, const Watched& watched)
      : shots_(shots),
        senders_(senders),
        watched_(watched),
        events_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (!events_) throw netlink::Error("wait for answers to probes", errno);
    listen(watched.stop, kStop);
    listen(watched.other, kOther);
    open_ = static_cast<std::size_t>(std::ranges::count_if(
        shots, [](const Shot& one) { return one.answer.kind == Answer::Kind::kNone; }));
  }

  bool send_all(const Pace& pace) {
    end_ = pace.end;
    Pacer pacer(pace, watched_.stop);
    for (std::size_t i = 0; i < shots_.size(); ++i) {
      Shot& shot = shots_[i];
      if (shot.answer.kind != Answer::Kind::kNone) continue;
      if (!wait_until(pacer.next(), false)) return false;
      pacer.count();
      shot.packet.number = static_cast<std::uint16_t>(i);
      const int error = senders_[shot.sender].send(shot.packet);
      if (error != 0) answer(shot, {.kind = Answer::Kind::kNotSent, .error = error});
      senders_[shot.sender].for_each_fd([&](int fd) { listen(fd, shot.sender); });
    }
    return wait_until(Clock::now() + pace.patience, true);
  }
  bool is_done() const { return open_ == 0; }

 private:
  static constexpr std::size_t kStop = SIZE_MAX, kOther = SIZE_MAX - 1;  // behind all senders

  // One that is listened to already stays (EEXIST).
  void listen(int fd, std::size_t whose) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = whose;
    if (fd >= 0) ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event);
  }

  // False: it was stopped, or there is no more time.
  bool wait_until(Clock::time_point end, bool for_answers) {
    std::array<epoll_event, 64> found{};
    // What has come is read even where no time is left: else a fast run fills the sockets.
    for (bool has_read = false;; has_read = true) {
      if (Clock::now() >= end_) return false;
      const auto soon = std::min(end, end_) - Clock::now();
      const auto left = std::max<std::chrono::milliseconds::rep>(
          0, std::chrono::ceil<std::chrono::milliseconds>(soon).count());
      if ((left == 0 && has_read) || (for_answers && is_done())) return true;
      const int count = ::epoll_wait(events_.get(), found.data(), static_cast<int>(found.size()),
                                     static_cast<int>(left));
      if (count < 0 && errno != EINTR) return true;
      for (int i = 0; i < count; ++i) {
        const std::size_t whose = found[static_cast<std::size_t>(i)].data.u64;
        if (whose == kStop) return false;
        if (whose == kOther) {
          watched_.read();
        } else {
          take(whose);
        }
      }
    }
  }
  void answer(Shot& shot, const Answer& with) {
    if (shot.answer.kind == Answer::Kind::kNone) --open_;
    shot.answer = with;
  }
  // Anybody can send an ICMP error about a datagram, which has nothing secret.
  static bool is_about(const Received& one, const Packet& packet) {
    const auto& from = one.answer.from;
    return (one.protocol == 0 || one.protocol == packet.protocol()) &&
           (!from || from->is_v4() == packet.target.is_v4());
  }
  void take(std::size_t whose) {
    for (const Received& one : senders_[whose].take()) {
      if (one.number >= shots_.size()) continue;
      Shot& shot = shots_[one.number];
      if (shot.sender != whose || shot.answer.is_delivered()) continue;
      if (!is_about(one, shot.packet)) continue;
      if (one.token && *one.token != shot.packet.token) continue;
      Answer with = one.answer;
      with.has_token = one.token.has_value();
      const bool is_closed = shot.packet.kind == Kind::kDatagram && with.says_no_port();
      if (is_closed) with.kind = Answer::Kind::kClosed;
      answer(shot, with);
    }
  }

  std::vector<Shot>& shots_;
  std::vector<Sender>& senders_;
  const Watched& watched_;
  Fd events_;
  std::size_t open_ = 0;  ///< shots without an answer
  Clock::time_point end_;
};

}  // namespace

bool fire(std::vector<Shot>& shots, std::vector<Sender>& senders, const Pace& pace,
          const Watched& watched) {
  Round round(shots, senders, watched);
  for (unsigned attempt = 0; attempt < pace.attempts && !round.is_done(); ++attempt) {
    if (!round.send_all(pace)) return false;
  }
  return true;
}

}  // namespace tool::probe
