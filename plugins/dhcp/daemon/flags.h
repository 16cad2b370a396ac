#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plugins/dhcp/daemon/client.h"
#include "plugins/names/state.h"

namespace dhcp {

/// The command line of `dhcp daemon`: the flags of the reference plugins' one, and -statedir.
struct Flags {
  std::string pid_file, host_prefix;
  std::string socket_path = names::kDhcpSocket;  ///< without host_prefix
  std::string state_dir = names::kDhcpStateDir;  ///< without host_prefix
  bool broadcast = false;
  Timing timing;
  Time resend_timeout = std::chrono::seconds(208);
  std::optional<std::string> help = {};  ///< to print instead

  /// \throws std::invalid_argument.
  static Flags parse(std::span<const char* const> arguments);
};

/// Parses a duration as Go's time.ParseDuration, without signs and units below a millisecond:
/// "10s", "1m30s", "1.5h". Empty: the text is none.
std::optional<Time> parse_duration(std::string_view text);

}  // namespace dhcp
