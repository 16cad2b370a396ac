#pragma once

#include <string>

namespace devices {

/// A text that others chose, for the log and for errors: '?' for each byte that is not printable
/// ASCII, "..." for what is beyond 200 characters.
std::string clean(const std::string& text);

}  // namespace devices
