#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The log of the agent: an object of JSON a line on stderr, which the journal or the container's
/// log keeps. Thread-safe.
namespace devices {

enum class Level : std::uint8_t { kDebug, kInfo, kWarning, kError };
/// "debug", "info", "warning", "error"; empty for another text.
std::optional<Level> level_of(std::string_view text);

/// Lines below this level are not written; info by default.
void set_log_level(Level level);

/// Members of a line; an empty one is left out.
struct LogFields {
  std::string resource = {}, device = {}, pod = {}, error = {};
};
/// \param what "allocate devices", "connect to the kubelet": verb and object.
void log(Level level, std::string_view what, const LogFields& fields = {}) noexcept;

}  // namespace devices
