#include "netlink/nf/legacy_table.h"

#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace netlink::nf {

namespace {

// What is asked and answered has the same numbers and the same shape in both families.
static_assert(std::array{IPT_SO_GET_INFO, IPT_SO_GET_ENTRIES} ==
              std::array{IP6T_SO_GET_INFO, IP6T_SO_GET_ENTRIES});
static_assert(sizeof(ipt_getinfo) == sizeof(ip6t_getinfo));
static_assert(offsetof(ipt_get_entries, entrytable) == offsetof(ip6t_get_entries, entrytable));
constexpr std::size_t kHead = offsetof(ipt_get_entries, entrytable);

int level(Family family) { return family == Family::kIpv4 ? IPPROTO_IP : IPPROTO_IPV6; }

std::map<unsigned, RawLegacyTable::Chain> chains_of(const ipt_getinfo& info) {
  std::map<unsigned, RawLegacyTable::Chain> out;
  for (unsigned hook = 0; hook < NF_INET_NUMHOOKS; ++hook) {
    if ((info.valid_hooks >> hook & 1U) == 0) continue;
    out[hook] = {.first = info.hook_entry[hook], .policy = info.underflow[hook]};
  }
  return out;
}

// Nothing where the table has another size by now.
std::optional<std::vector<unsigned char>> entries_of(int socket, Family family,
                                                     const ipt_getinfo& info) {
  std::vector<unsigned char> answer(kHead + info.size);
  std::memcpy(answer.data(), info.name, sizeof info.name);
  std::memcpy(answer.data() + offsetof(ipt_get_entries, size), &info.size, sizeof info.size);
  auto size = static_cast<socklen_t>(answer.size());
  if (::getsockopt(socket, level(family), IPT_SO_GET_ENTRIES, answer.data(), &size) != 0) {
    if (errno == EAGAIN) return std::nullopt;
    throw Error(cat("read the legacy table '", info.name, "'"), errno);
  }
  answer.erase(answer.begin(), answer.begin() + kHead);
  return answer;
}

}  // namespace

bool legacy_in_use(Family family, const std::string& table) {
  const auto names = read_file(family == Family::kIpv4 ? "/proc/net/ip_tables_names"
                                                       : "/proc/net/ip6_tables_names");
  return names && cat("\n", *names).find(cat("\n", table, "\n")) != std::string::npos;
}

std::optional<RawLegacyTable> read_raw_legacy(Family family, const std::string& table) {
  constexpr int kTries = 10;
  if (!legacy_in_use(family, table)) return std::nullopt;
  const Fd fd(
      ::socket(family == Family::kIpv4 ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
  if (!fd) throw Error("open a socket for iptables (this needs CAP_NET_RAW)", errno);
  ipt_getinfo info{};
  table.copy(info.name, sizeof info.name - 1);
  for (int i = 0; i < kTries; ++i) {
    socklen_t size = sizeof info;
    if (::getsockopt(fd.get(), level(family), IPT_SO_GET_INFO, &info, &size) != 0) {
      if (errno == ENOENT) return std::nullopt;
      throw Error(cat("read the legacy table '", table, "'"), errno);
    }
    if (auto entries = entries_of(fd.get(), family, info)) {
      return RawLegacyTable{std::move(*entries), info.num_entries, chains_of(info)};
    }
  }
  throw Error(cat("read the legacy table '", table, "'"), EAGAIN);
}

}  // namespace netlink::nf
