#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cni {

/// The phases and notes of one call, for the log.
class CallRecord {
 public:
  using Nanoseconds = std::chrono::nanoseconds;
  /// Phases in the order in which they first ended, each with the time of all its stretches.
  using Phases = std::vector<std::pair<std::string_view, Nanoseconds>>;

  /// Out of memory it is left out.
  void add(std::string_view phase, Nanoseconds took) noexcept;
  void note(std::string_view text) noexcept;

  const Phases& phases() const { return phases_; }
  /// The texts that note() wrote to stderr.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Phases phases_;
  std::vector<std::string> notes_;
};

/// The record of this thread's call; null: the call is not logged.
inline constinit thread_local CallRecord* current_record = nullptr;

/// A stretch of a call whose time is wanted in the log:
///
///   const cni::Phase phase("masquerade");  // to the end of the scope
///
/// It costs one comparison if nothing is logged. Phases may be nested; the time of the inner one is
/// the outer one's too.
class Phase {
 public:
  using Clock = std::chrono::steady_clock;

  /// name is a literal.
  explicit Phase(const char* name) noexcept : record_(current_record), name_(name) {
    if (record_ != nullptr) [[unlikely]]
      start_ = Clock::now();
  }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;
  ~Phase() {
    if (record_ != nullptr) [[unlikely]]
      record_->add(name_, Clock::now() - start_);
  }

 private:
  CallRecord* record_;
  const char* name_;
  Clock::time_point start_{};
};

}  // namespace cni
