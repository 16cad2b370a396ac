#pragma once

#include <chrono>
#include <string>

namespace devices {

/// Sends a line to the socket at path and returns the line of the answer, without the newline.
/// \throws netlink::Error: ENOENT or ECONNREFUSED where nobody listens, ETIMEDOUT, ECONNRESET where
/// the connection ends before a newline, EMSGSIZE for more than kMaxAnswer.
std::string exchange(const std::string& path, const std::string& line,
                     std::chrono::steady_clock::duration limit);

}  // namespace devices
