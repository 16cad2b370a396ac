#include "plugins/dhcp/daemon/flags.h"

#include <stdexcept>

#include "libcni/daemon/duration.h"
#include "libcni/daemon/flags.h"

namespace dhcp {

namespace {

Time duration(const std::string& text) {
  const auto out = cni::parse_duration(text);
  if (!out || *out <= Time(0)) throw std::invalid_argument("expected a duration such as 10s");
  return *out;
}

std::string absolute(const std::string& path) {
  if (path.empty() || path.starts_with('/')) return path;
  throw std::invalid_argument("path not absolute");
}

}  // namespace

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
