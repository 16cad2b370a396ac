#include "plugins/devices/agent/log.h"

#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "netlink/types/fd.h"

namespace devices {

namespace {

constexpr std::array<std::string_view, 4> kLevels = {"debug", "info", "warning", "error"};
std::atomic<Level> lowest{Level::kInfo};

// RFC 3339 in UTC, to the microsecond.
std::string now_text() {
  timeval now{};
  ::gettimeofday(&now, nullptr);
  tm parts{};
  ::gmtime_r(&now.tv_sec, &parts);
  char text[64];
  const auto size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  char out[96];
  const int all = std::snprintf(out, sizeof out, "%.*s.%06ldZ", static_cast<int>(size), text,
                                static_cast<long>(now.tv_usec));
  return {out, static_cast<std::size_t>(all)};
}

}  // namespace

std::optional<Level> level_of(std::string_view text) {
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    if (kLevels[i] == text) return static_cast<Level>(i);
  }
  return std::nullopt;
}

void set_log_level(Level level) { lowest = level; }

void log(Level level, std::string_view what, const LogFields& fields) noexcept try {
  if (level < lowest.load()) return;
  nlohmann::ordered_json line = {
      {"time", now_text()}, {"level", kLevels[static_cast<std::size_t>(level)]}, {"what", what}};
  const auto add = [&line](const char* name, const std::string& value) {
    if (!value.empty()) line[name] = value;
  };
  add("resource", fields.resource);
  add("device", fields.device);
  add("pod", fields.pod);
  add("error", fields.error);
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
  netlink::write_all(STDERR_FILENO, text, "stderr");  // one write(2): lines are not mixed
} catch (...) {                                       // stderr is closed
}

}  // namespace devices
