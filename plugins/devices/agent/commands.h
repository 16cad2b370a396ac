#pragma once

#include <string>
#include <string_view>

/// Subcommands of patchbay-agent that ask others. Each returns the exit status.
namespace devices {

/// The answer of the agent that runs, to a line with its newline. \throws cni::Error that says
/// where to look if none answers within 5 s.
std::string ask_agent(const std::string& socket, std::string_view line);

/// Asks the agent that serves the socket for its resources. \throws as ask_agent().
int print_status(const std::string& socket);

/// Removes the ResourceSlices of this node; without DRA there are none. \throws cni::Error.
int withdraw(const std::string& config);

}  // namespace devices
