#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace cni {

/// Parses a duration as Go's time.ParseDuration, without signs and units below a millisecond:
/// "10s", "1m30s", "1.5h". Empty: the text is none.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);

}  // namespace cni
