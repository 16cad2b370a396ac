#include "netlink/nf/legacy_table.h"

#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace netlink::nf {

namespace {

// The options have the same numbers and structs in both families.
static_assert(std::array{IPT_SO_GET_INFO, IPT_SO_GET_ENTRIES} ==
              std::array{IP6T_SO_GET_INFO, IP6T_SO_GET_ENTRIES});
static_assert(sizeof(ipt_getinfo) == sizeof(ip6t_getinfo));
static_assert(sizeof(ipt_get_entries) == sizeof(ip6t_get_entries));

}  // namespace

bool legacy_in_use(Family family, const std::string& table) {
  const auto names = read_file(family == Family::kIpv4 ? "/proc/net/ip_tables_names"
                                                       : "/proc/net/ip6_tables_names");
  return names && cat("\n", *names).find(cat("\n", table, "\n")) != std::string::npos;
}

std::string legacy_tables(Family family) {
  std::string out;
  for (const char* const table : {"raw", "mangle", "nat", "filter", "security"}) {
    if (legacy_in_use(family, table)) out += cat(out.empty() ? "" : ", ", table);
  }
  return out;
}

bool legacy_mentions(Family family, const std::string& table, std::string_view text) {
  if (!legacy_in_use(family, table)) return false;
  const bool v4 = family == Family::kIpv4;
  const int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
  const Fd fd(::socket(v4 ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
  if (!fd && errno == EAFNOSUPPORT) return false;  // nobody can reach it, ip6tables neither
  if (!fd) throw Error("open a socket for iptables (this needs CAP_NET_RAW)", errno);
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    ipt_getinfo info{};
    table.copy(info.name, sizeof info.name - 1);
    socklen_t size = sizeof info;
    if (::getsockopt(fd.get(), level, IPT_SO_GET_INFO, &info, &size) != 0) break;
    std::string entries(sizeof(ipt_get_entries) + info.size, '\0');
    table.copy(entries.data(), sizeof info.name - 1);
    std::memcpy(entries.data() + offsetof(ipt_get_entries, size), &info.size, sizeof info.size);
    size = static_cast<socklen_t>(entries.size());
    if (::getsockopt(fd.get(), level, IPT_SO_GET_ENTRIES, entries.data(), &size) == 0) {
      return entries.find(text) != std::string::npos;
    }
    if (errno != EAGAIN) break;  // the table has another size by now
  }
  if (errno == ENOENT) return false;
  throw Error(cat("read the legacy table '", table, "'"), errno);
}

}  // namespace netlink::nf
