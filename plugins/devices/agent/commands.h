#pragma once

#include <string>

/// Subcommands of patchbay-agent that ask others. Each returns the exit status.
namespace devices {

/// Asks the agent that serves the socket for its resources. \throws netlink::Error where none
/// answers within 5 s.
int print_status(const std::string& socket);

/// Removes the ResourceSlices of this node; without DRA there are none. \throws cni::Error.
int withdraw(const std::string& config);

}  // namespace devices
