#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

/// The log of a daemon: an object of JSON a line on stderr, which the journal or the container's
/// log keeps. Thread-safe.
namespace cni {

enum class Level : std::uint8_t { kDebug, kInfo, kWarning, kError };
/// "debug", "info", "warning", "error"; empty for another text.
std::optional<Level> level_of(std::string_view text);

/// Lines below this level are not written; info by default.
void set_log_level(Level level);

/// Member of a line and its value; one with an empty value is left out.
using LogField = std::pair<const char*, std::string_view>;
/// \param what "allocate devices", "connect to the kubelet": verb and object.
void log(Level level, std::string_view what, std::initializer_list<LogField> fields) noexcept;

/// All notes of this process become warnings of the log.
void log_notes() noexcept;

}  // namespace cni
