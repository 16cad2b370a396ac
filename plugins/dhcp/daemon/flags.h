#pragma once

#include <optional>
#include <span>
#include <string>

#include "plugins/dhcp/plugin/conf.h"
#include "plugins/dhcp/protocol/client.h"
#include "plugins/names/state.h"

namespace dhcp {

/// The command line of `dhcp daemon`: the flags of the reference plugins' one, and -statedir.
struct Flags {
  std::string pid_file, host_prefix;
  std::string socket_path = kSocketPath;         ///< without host_prefix
  std::string state_dir = names::kDhcpStateDir;  ///< without host_prefix
  bool broadcast = false;
  Timing timing;
  Time resend_timeout = std::chrono::seconds(208);
  bool help = false;

  /// As Go's package flag reads it: -x VALUE, --x VALUE, -x=VALUE. \throws std::invalid_argument.
  static Flags parse(std::span<const char* const> arguments);
};

/// Text for -help.
std::string flags_help();

/// As Go's time.ParseDuration, without signs and units below a millisecond: "10s", "1m30s",
/// "1.5h". Nothing for what is none.
std::optional<Time> parse_duration(std::string_view text);

}  // namespace dhcp
