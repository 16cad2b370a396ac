#pragma once

#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/bench/messages.h"

inline constexpr unsigned kLinks = 100'000, kIfbs = 200'000;  // where the numbers of links begin
inline constexpr int kMaster = 500, kDevice = 502;
inline constexpr const char* kReservations = "/var/lib/cni/networks/floor";
inline constexpr const char* kLast = "last_reserved_ip.0";

[[noreturn]] inline void fail(const char* what) {
  std::printf("{\"code\": 999, \"msg\": \"%s: %s\"}\n", what, std::strerror(errno));
  std::exit(1);
}

inline int checked(int result, const char* what) {
  if (result < 0) fail(what);
  return result;
}

/// What is read and answered is of a plugin's size; nobody looks at it.
inline void read_input() {
  char buffer[8192];
  while (checked(static_cast<int>(::read(STDIN_FILENO, buffer, sizeof buffer)), "stdin") > 0) {
  }
}

inline void answer() {
  char result[700];
  std::memset(result, ' ', sizeof result);
  result[0] = '{', result[sizeof result - 1] = '}';
  checked(static_cast<int>(::write(STDOUT_FILENO, result, sizeof result)), "stdout");
}

inline void write_file(int dir, const char* name, int flags, std::string_view text) {
  const int file = checked(::openat(dir, name, O_WRONLY | O_CLOEXEC | flags, 0600), name);
  checked(static_cast<int>(::write(file, text.data(), text.size())), name);
  ::close(file);
}

inline int open_socket(int protocol) {
  return checked(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol), "socket");
}

inline void send(int socket, const Messages& messages, const char* what) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (::sendto(socket, messages.data(), messages.size(), 0,
               reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel) < 0) {
    fail(what);
  }
  for (;;) {
    alignas(8) unsigned char answer[4096];
    if (::recv(socket, answer, sizeof answer, 0) < 0) fail(what);
    const auto* const one = reinterpret_cast<const nlmsghdr*>(answer);  // each comes alone
    if (one->nlmsg_type != NLMSG_ERROR) continue;
    errno = -reinterpret_cast<const nlmsgerr*>(one + 1)->error;
    if (errno != 0) fail(what);
    if (one->nlmsg_seq == messages.last()) return;
  }
}

struct Pod {
  unsigned number = 0;
  bool ifb = false;
  const char* id = "";
  const char* netns = "";
  unsigned bridge = 0;
  bool has_port = false;  // of the node
  int device = 0;         // the link, where it was there before

  std::uint32_t address() const { return htonl((10U << 24) + (200U << 16) + 2 + number); }
  int link() const { return device != 0 ? device : static_cast<int>(kLinks + number); }
  int ifb_link() const { return static_cast<int>(kIfbs + number); }
  std::uint16_t port() const { return htons(static_cast<std::uint16_t>(10'000 + number)); }
};

inline void name(Messages& out, char prefix, unsigned number) {
  char text[IFNAMSIZ];
  std::snprintf(text, sizeof text, "%c%u", prefix, number);
  out.put(IFLA_IFNAME, text);
}

inline ifinfomsg link_header(int index, bool up) {
  ifinfomsg out{};
  out.ifi_index = index;
  if (up) out.ifi_flags = out.ifi_change = IFF_UP;
  return out;
}
