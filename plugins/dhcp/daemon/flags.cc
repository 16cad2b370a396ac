#include "plugins/dhcp/daemon/flags.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "libcni/daemon/flags.h"

namespace dhcp {

namespace {

struct Unit {
  std::string_view name;
  double milliseconds;
};
constexpr Unit kUnits[] = {{"ms", 1}, {"s", 1e3}, {"m", 6e4}, {"h", 3.6e6}};

Time duration(const std::string& text) {
  const auto out = parse_duration(text);
  if (!out || *out <= Time(0)) throw std::invalid_argument("expected a duration such as 10s");
  return *out;
}

std::string absolute(const std::string& path) {
  if (path.empty() || path.starts_with('/')) return path;
  throw std::invalid_argument("path not absolute");
}

}  // namespace

std::optional<Time> parse_duration(std::string_view text) {
  constexpr double kMax = 1e12;  // milliseconds: 30 years
  if (text == "0") return Time(0);
  double total = 0;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    const auto end = text.find_first_not_of("0123456789.");
    if (end == 0 || end == std::string_view::npos) return std::nullopt;
    char* stop = nullptr;
    const std::string number(text.substr(0, end));
    const double value = std::strtod(number.c_str(), &stop);
    if (stop != number.c_str() + number.size()) return std::nullopt;
    text.remove_prefix(end);
    const auto unit_end = std::min(text.find_first_of("0123456789."), text.size());
    const std::string_view unit = text.substr(0, unit_end);
    text.remove_prefix(unit_end);
    const auto known = std::ranges::find(kUnits, unit, &Unit::name);
    if (known == std::end(kUnits)) return std::nullopt;
    total += value * known->milliseconds;
    if (total > kMax) return std::nullopt;
  }
  return Time(std::llround(total));
}

Flags Flags::parse(std::span<const char* const> arguments) {
  Flags out;
  const std::vector<cni::Flag> table{
      {"broadcast", out.broadcast, "ask servers to broadcast their answers"},
      {"hostprefix", out.host_prefix,
       "prefix of all paths on the host: socket, leases, network namespaces"},
      {"pidfile", "string", "absolute path to write the PID to",
       [&](const auto& text) { out.pid_file = absolute(text); }},
      {"resendmax", "duration", "longest time between two messages without answer (default 62s)",
       [&](const auto& text) { out.timing.most = duration(text); }},
      {"resendtimeout", "duration",
       "longest time that an ADD takes, besides the config's timeout (default 3m28s)",
       [&](const auto& text) { out.resend_timeout = duration(text); }},
      {"socketpath", "string", "socket of the daemon (default /run/cni/dhcp.sock)",
       [&](const auto& text) { out.socket_path = text.empty() ? names::kDhcpSocket : text; }},
      {"statedir", out.state_dir, "directory of the leases (default /run/cni/dhcp)"},
      {"timeout", "duration",
       "first time to wait for an answer, which doubles each time (default 4s)",
       [&](const auto& text) { out.timing.first = duration(text); }}};
  out.help = cni::read_flags("dhcp daemon", table, arguments);
  out.timing.most = std::max(out.timing.most, out.timing.first);
  return out;
}

}  // namespace dhcp
