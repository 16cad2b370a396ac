#pragma once

#include <optional>
#include <span>
#include <string>

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

}  // namespace dhcp
