#include "libcni/daemon/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <nlohmann/json.hpp>

#include "libcni/common/now_text.h"
#include "libcni/common/undo.h"
#include "netlink/types/fd.h"

namespace cni {

namespace {

constexpr std::array<std::string_view, 4> kLevels = {"debug", "info", "warning", "error"};
std::atomic<Level> lowest{Level::kInfo};

}  // namespace

std::optional<Level> level_of(std::string_view text) {
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    if (kLevels[i] == text) return static_cast<Level>(i);
  }
  return std::nullopt;
}

void set_log_level(Level level) { lowest = level; }

void log(Level level, std::string_view what, std::initializer_list<LogField> fields) noexcept try {
  if (level < lowest.load()) return;
  nlohmann::ordered_json line = {
      {"time", now_text()}, {"level", kLevels[static_cast<std::size_t>(level)]}, {"what", what}};
  for (const auto& [name, value] : fields) {
    if (!value.empty()) line[name] = value;
  }
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
  netlink::write_all(STDERR_FILENO, text, "stderr");  // one write(2): lines are not mixed
} catch (...) {                                       // stderr is closed
}

void log_notes() noexcept {
  send_notes_to([](std::string_view text) noexcept { log(Level::kWarning, text, {}); });
}

}  // namespace cni
