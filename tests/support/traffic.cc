// Sends and receives at rates that an interpreter does not reach, and says what arrived.
//
//   traffic receive tcp|udp ADDRESS PORT from=T to=T
//   traffic send    tcp|udp ADDRESS PORT from=T to=T [begin=T] [rate=BITS] [congestion=NAME]
//                   [buffer=BYTES]
//   traffic echo    udp     ADDRESS PORT to=T
//   traffic ask     udp     ADDRESS PORT from=T to=T every=SECONDS
//
// Times are those of CLOCK_MONOTONIC in seconds, which all processes of a machine share. receive
// and echo say "ready" once they can be reached. The answer is one JSON object: what came in
// between the two times (of a sender: the acknowledgements; of one of datagrams: what it offered),
// counted by this end; the bytes are payload, and each packet had as many bytes of headers,
// Ethernet's included, as "header" says. ask sends a small datagram every so often and lists how
// many milliseconds each echo took.
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace {

constexpr std::size_t kDatagram = 1400;    // fits any MTU of 1500
constexpr std::size_t kMaxDatagrams = 44;  // less than 64 KiB at once
constexpr std::uint64_t kEthernet = 14, kIpv4 = 20, kIpv6 = 40, kUdp = 8;
constexpr std::uint64_t kTcp = 20, kTcpTimestamps = 12;

double now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void sleep_until(double moment) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(moment);
  time.tv_nsec = static_cast<long>((moment - static_cast<double>(time.tv_sec)) * 1e9);
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
  }
}

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

template <typename T>
T checked(T result, const char* what) {
  if (result < 0) fail(what);
  return result;
}

struct Arguments {
  std::string_view verb, protocol;
  sockaddr_storage address{};
  socklen_t address_size = 0;
  std::map<std::string_view, std::string_view> options;

  bool tcp() const { return protocol == "tcp"; }
  std::uint64_t ip_header() const { return address.ss_family == AF_INET ? kIpv4 : kIpv6; }
  const sockaddr* to() const { return reinterpret_cast<const sockaddr*>(&address); }
  double number(std::string_view name, double otherwise) const {
    const auto found = options.find(name);
    return found == options.end() ? otherwise : std::stod(std::string(found->second));
  }
  double from() const { return number("from", 0); }
  double until() const { return number("to", 0); }
};

Arguments read(const std::vector<std::string_view>& words) {
  if (words.size() < 5)
    throw std::runtime_error("traffic VERB tcp|udp ADDRESS PORT [KEY=VALUE...]");
  Arguments out{.verb = words[1], .protocol = words[2], .options = {}};
  std::uint16_t port = 0;
  std::from_chars(words[4].data(), words[4].data() + words[4].size(), port);
  const std::string address(words[3]);
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&out.address);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&out.address);
  if (::inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    out.address_size = sizeof(*v4);
  } else if (::inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    out.address_size = sizeof(*v6);
  } else {
    throw std::runtime_error("not an address: " + address);
  }
  for (std::size_t i = 5; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (equals == std::string_view::npos) throw std::runtime_error("not KEY=VALUE");
    out.options[words[i].substr(0, equals)] = words[i].substr(equals + 1);
  }
  return out;
}

/// A socket, closed with its owner.
class Socket {
 public:
  explicit Socket(int fd) : fd_(checked(fd, "socket")) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { ::close(fd_); }
  int fd() const { return fd_; }
  void set(int level, int name, int value) const {
    checked(::setsockopt(fd_, level, name, &value, sizeof(value)), "setsockopt");
  }

 private:
  int fd_;
};

Socket open(const Arguments& arguments) {
  return Socket(
      ::socket(arguments.address.ss_family, arguments.tcp() ? SOCK_STREAM : SOCK_DGRAM, 0));
}

void ready() {
  std::puts("ready");
  std::fflush(stdout);
}

/// What came in so far.
struct Count {
  double time = 0;
  std::uint64_t bytes = 0, packets = 0, header = 0;
};

void say(const Count& first, const Count& last) {
  std::printf("{\"seconds\": %.6f, \"bytes\": %llu, \"packets\": %llu, \"header\": %llu}\n",
              last.time - first.time, static_cast<unsigned long long>(last.bytes - first.bytes),
              static_cast<unsigned long long>(last.packets - first.packets),
              static_cast<unsigned long long>(last.header));
}

/// The kernel's own count of a connection: it does not matter when the program reads.
Count count_of(const Socket& connection, const Arguments& arguments) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  checked(::getsockopt(connection.fd(), IPPROTO_TCP, TCP_INFO, &info, &size), "TCP_INFO");
  const bool timestamps = (info.tcpi_options & TCPI_OPT_TIMESTAMPS) != 0;
  return {now(), info.tcpi_bytes_received, info.tcpi_segs_in,
          kEthernet + arguments.ip_header() + kTcp + (timestamps ? kTcpTimestamps : 0)};
}

/// Waits for input until the moment; false when the moment has come.
bool wait_for_input(const Socket& socket, double moment, short events = POLLIN) {
  const double left = moment - now();
  if (left <= 0) return false;
  pollfd one{socket.fd(), events, 0};
  timespec limit{};
  limit.tv_sec = static_cast<time_t>(left);
  limit.tv_nsec = static_cast<long>((left - static_cast<double>(limit.tv_sec)) * 1e9);
  return ::ppoll(&one, 1, &limit, nullptr) > 0;
}

/// Calls step(moment) until each moment in turn and returns what count() said then.
template <typename Step, typename Counting>
std::array<Count, 2> between(const Arguments& arguments, Step step, Counting count) {
  std::array<Count, 2> out;
  const std::array<double, 2> moments{arguments.from(), arguments.until()};
  for (std::size_t i = 0; i < moments.size(); ++i) {
    while (now() < moments[i]) step(moments[i]);
    out[i] = count();
  }
  return out;
}

void receive_tcp(const Arguments& arguments) {
  const Socket listening = open(arguments);
  listening.set(SOL_SOCKET, SO_REUSEADDR, 1);
  checked(::bind(listening.fd(), arguments.to(), arguments.address_size), "bind");
  checked(::listen(listening.fd(), 1), "listen");
  ready();
  if (!wait_for_input(listening, arguments.until())) throw std::runtime_error("nobody connects");
  const Socket connection(::accept4(listening.fd(), nullptr, nullptr, SOCK_NONBLOCK));
  bool open = true;
  const auto counts = between(
      arguments,
      [&](double moment) {
        if (!open) return sleep_until(moment);
        if (!wait_for_input(connection, moment)) return;
        // Thrown away in the kernel, tcp(7).
        const ssize_t got = ::recv(connection.fd(), nullptr, std::size_t{1} << 20, MSG_TRUNC);
        open = got > 0 || (got < 0 && errno == EAGAIN);
      },
      [&] { return count_of(connection, arguments); });
  say(counts[0], counts[1]);
}

/// One datagram, or several that the kernel had put together: UDP_GRO, udp(7).
void receive_datagrams(const Socket& socket, Count& count) {
  alignas(cmsghdr) std::array<char, 64> control{};
  msghdr message{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket.fd(), &message, MSG_TRUNC | MSG_DONTWAIT);
  if (got < 0) return;
  auto each = static_cast<std::uint64_t>(std::max<ssize_t>(got, 1));
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level != SOL_UDP || one->cmsg_type != UDP_GRO) continue;
    int size = 0;
    std::memcpy(&size, CMSG_DATA(one), sizeof(size));
    each = static_cast<std::uint64_t>(size);
  }
  const auto bytes = static_cast<std::uint64_t>(got);
  count.bytes += bytes;
  count.packets += (bytes + each - 1) / each;
}

void receive_udp(const Arguments& arguments) {
  const Socket socket = open(arguments);
  socket.set(SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20);
  socket.set(SOL_UDP, UDP_GRO, 1);
  checked(::bind(socket.fd(), arguments.to(), arguments.address_size), "bind");
  ready();
  Count sum{.header = kEthernet + arguments.ip_header() + kUdp};
  const auto counts = between(
      arguments,
      [&](double moment) {
        if (wait_for_input(socket, moment)) receive_datagrams(socket, sum);
      },
      [&] {
        sum.time = now();
        return sum;
      });
  say(counts[0], counts[1]);
}

void send_tcp(const Arguments& arguments) {
  const Socket connection = open(arguments);
  // Named, since a machine may have any of them as its default.
  const auto found = arguments.options.find("congestion");
  const std::string congestion(found == arguments.options.end() ? "cubic" : found->second);
  checked(::setsockopt(connection.fd(), IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
                       static_cast<socklen_t>(congestion.size())),
          "TCP_CONGESTION");
  checked(::connect(connection.fd(), arguments.to(), arguments.address_size), "connect");
  if (const double begin = arguments.number("begin", 0); begin > 0) sleep_until(begin);
  const std::vector<char> data(std::size_t{1} << 18);
  const auto counts = between(
      arguments,
      [&](double moment) {
        if (!wait_for_input(connection, moment, POLLOUT)) return;
        const ssize_t sent =
            ::send(connection.fd(), data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) sleep_until(moment);  // the receiver has seen enough
      },
      [&] { return count_of(connection, arguments); });
  say(counts[0], counts[1]);
  linger none{.l_onoff = 1, .l_linger = 0};  // what is queued is not worth the wait
  ::setsockopt(connection.fd(), SOL_SOCKET, SO_LINGER, &none, sizeof(none));
}

/// Datagrams at a rate, about half a millisecond's worth in a system call.
void send_udp(const Arguments& arguments) {
  const Socket socket = open(arguments);
  checked(::connect(socket.fd(), arguments.to(), arguments.address_size), "connect");
  socket.set(SOL_UDP, UDP_SEGMENT, static_cast<int>(kDatagram));
  // With a large one it is the queue that ends it, else the socket waits.
  if (const double size = arguments.number("buffer", 0); size > 0) {
    socket.set(SOL_SOCKET, SO_SNDBUFFORCE, static_cast<int>(size));
  }
  const double rate = arguments.number("rate", 0) / 8;
  if (rate <= 0) throw std::runtime_error("udp needs rate=BITS");
  const auto each = static_cast<double>(kDatagram + kUdp + kEthernet + arguments.ip_header());
  const auto batch =
      std::clamp<std::size_t>(static_cast<std::size_t>(rate * 5e-4 / each), 1, kMaxDatagrams);
  const std::vector<char> data(batch * kDatagram);
  double due = std::max(arguments.number("begin", 0), now());
  Count offered{.header = static_cast<std::uint64_t>(each) - kDatagram};
  const auto counts = between(
      arguments,
      [&](double moment) {
        if (due > moment) return sleep_until(moment);
        sleep_until(due);
        // A queue that is full is what is wanted.
        if (::send(socket.fd(), data.data(), data.size(), 0) < 0 && errno == EMSGSIZE) fail("send");
        offered.bytes += data.size();
        offered.packets += batch;
        // What a busy machine kept from being sent is not made up for beyond some milliseconds.
        due = std::max(due + each * static_cast<double>(batch) / rate, now() - 0.005);
      },
      [&] {
        offered.time = now();
        return offered;
      });
  say(counts[0], counts[1]);
}

void echo(const Arguments& arguments) {
  const Socket socket = open(arguments);
  checked(::bind(socket.fd(), arguments.to(), arguments.address_size), "bind");
  ready();
  std::array<char, 2048> data;
  while (wait_for_input(socket, arguments.until())) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    auto* const address = reinterpret_cast<sockaddr*>(&peer);
    const ssize_t got =
        ::recvfrom(socket.fd(), data.data(), data.size(), MSG_DONTWAIT, address, &size);
    if (got < 0) continue;
    if (::sendto(socket.fd(), data.data(), static_cast<std::size_t>(got), 0, address, size) < 0)
      continue;
  }
}

/// Echoes are awaited until the last question's is back, or for some seconds.
void ask(const Arguments& arguments) {
  constexpr double kPatience = 12;
  const Socket socket = open(arguments);
  checked(::connect(socket.fd(), arguments.to(), arguments.address_size), "connect");
  const double every = arguments.number("every", 0.01);
  std::vector<double> asked, took;
  double due = std::max(arguments.from(), now());
  const double end = arguments.until() + kPatience;
  bool last_is_back = false;
  while (now() < end && (due < arguments.until() || !last_is_back)) {
    if (due < arguments.until() && now() >= due) {
      const std::uint64_t number = asked.size();
      asked.push_back(now());
      if (::send(socket.fd(), &number, sizeof(number), 0) < 0 && errno == EMSGSIZE) fail("send");
      due += every;
    }
    if (!wait_for_input(socket, due < arguments.until() ? due : end)) continue;
    std::uint64_t number = 0;
    if (::recv(socket.fd(), &number, sizeof(number), MSG_DONTWAIT) == sizeof(number) &&
        number < asked.size()) {
      took.push_back((now() - asked[number]) * 1000);
      last_is_back = number + 1 == asked.size();
    }
  }
  std::printf("{\"asked\": %zu, \"milliseconds\": [", asked.size());
  for (std::size_t i = 0; i < took.size(); ++i) std::printf("%s%.4f", i == 0 ? "" : ", ", took[i]);
  std::puts("]}");
}

void act(const Arguments& arguments) {
  if (arguments.verb == "receive")
    return arguments.tcp() ? receive_tcp(arguments) : receive_udp(arguments);
  if (arguments.verb == "send") return arguments.tcp() ? send_tcp(arguments) : send_udp(arguments);
  if (arguments.verb == "echo") return echo(arguments);
  if (arguments.verb == "ask") return ask(arguments);
  throw std::runtime_error("receive, send, echo or ask");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    act(read({argv, argv + argc}));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "traffic: %s\n", error.what());
    return 1;
  }
}
