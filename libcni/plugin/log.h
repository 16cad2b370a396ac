#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <type_traits>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/request.h"

/// The log: one line of JSON about each call, for who asks for it. See libcni/README.md.
namespace cni {

/// The variable and the key of the config that say where: the absolute path of a file, or "stderr".
inline constexpr const char* kLogVariable = "PATCHBAY_LOG";
inline constexpr const char* kLogKey = "patchbayLog";

/// The log's place from the environment; null: it is not set.
const std::string* log_place(const Env& env);

/// The subject of a line. Borrows everything.
struct LogEntry {
  const char* kind;                            ///< "plugin", or of a runtime "call" or "operation"
  std::string_view plugin;                     ///< empty for an operation
  const Env& env;                              ///< CNI_* and the trace
  std::string_view version = build_version();  ///< of the plugin or the runtime; empty: unknown
  std::string_view network = {};
  std::string_view cni_version = {};
  const Error* error = nullptr;  ///< null: it succeeded
  std::chrono::microseconds took{};
  const CallRecord* record = nullptr;
};

/// The line as an object.
nlohmann::ordered_json line_of(const LogEntry& entry);

/// Appends the line to the file, which is made with mode 0600; a symbolic link is not followed.
/// An error in it is noted on stderr.
void write_log(const std::string& place, const LogEntry& entry) noexcept;

/// A call of this thread from its start to the line about it.
class Recording {
 public:
  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() { current_record = outer_; }

  /// From now on phases and notes are kept.
  void keep() noexcept { current_record = &record_; }
  /// write_log() with what was kept.
  void write(const std::string& place, LogEntry entry) noexcept;

 private:
  Phase::Clock::time_point start_ = Phase::Clock::now();
  CallRecord record_;
  CallRecord* outer_ = current_record;
};

/// Runs fn and writes the line about it, if the environment in entry asks for it.
template <class Fn>
std::invoke_result_t<Fn> logged(const LogEntry& entry, Fn&& fn) {
  const std::string* const place = log_place(entry.env);
  if (place == nullptr) return fn();
  Recording recording;
  recording.keep();
  const auto finish = [&](const Error* error) {
    LogEntry complete = entry;
    complete.error = error;
    recording.write(*place, complete);
  };
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Fn>>) {
      fn();
      finish(nullptr);
    } else {
      auto out = fn();
      finish(nullptr);
      return out;
    }
  } catch (const Error& e) {
    finish(&e);
    throw;
  }
}

/// The line of a plugin, if its environment or its config asks for it.
class CallLog {
 public:
  CallLog(const Plugin& plugin, const Env& env) noexcept;

  /// Looks whether the config asks.
  void has_read(const Request& request) noexcept;
  /// Writes the line. error null: it succeeded.
  void finish(const Request& request, const Error* error) noexcept;

 private:
  const Plugin& plugin_;
  const std::string* place_;
  std::string from_config_;
  Recording recording_;
};

}  // namespace cni
