#pragma once

#include <cerrno>
#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcni/common/error.h"

namespace cni {

/// One step back. A value that owns all it needs: it runs after the verb's locals have died.
template <class S>
concept UndoStep = std::copyable<S> && requires(const S& step) {
  {step()};
  { step.describe() } -> std::convertible_to<std::string>;
};

/// The changes of ADD so far; rolled back newest first unless commit() is called.
class Undo {
 public:
  Undo() = default;
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  /// A failing step is reported on stderr and skipped; never throws.
  ~Undo() { roll_back(); }

  template <UndoStep S>
  void add(S step) {
    auto what = step.describe();
    steps_.emplace_back(std::move(what), std::move(step));
  }
  void commit() noexcept { steps_.clear(); }
  /// Takes everything back now.
  void roll_back() noexcept;

 private:
  std::vector<std::pair<std::string, std::function<void()>>> steps_;
};

/// Runs step after step although some fail, and fails at the end if any did: how DEL and GC go.
class BestEffort {
 public:
  /// Runs step; of a failure its message is kept, and "what: details" for the details. True where
  /// there was none.
  template <class Fn>
  bool operator()(const std::string& what, Fn&& step) noexcept {
    try {
      std::forward<Fn>(step)();
      return true;
    } catch (const Error& e) {
      keep(what, e);
    } catch (const netlink::Error& e) {
      keep(what, e);
    } catch (const std::exception& e) {
      keep(what, e);
    }
    return false;
  }
  /// \throws Error listing what failed; the code is that of the first failure.
  void finish() const;

 private:
  void keep(const std::string& what, const Error& e) noexcept;
  void keep(const std::string& what, const netlink::Error& e) noexcept;
  void keep(const std::string& what, const std::exception& e) noexcept;
  std::string failures_, details_;
  Code code_ = Code::kInternal;
};

/// Writes a line for the operator to stderr, or to the log of send_notes_to(); never throws.
void note(std::string_view text) noexcept;

using NoteWriter = void (*)(std::string_view text) noexcept;
/// For a daemon with a log of its own: all notes of the process, of any thread, go to the writer
/// instead of stderr. Null: to stderr again.
void send_notes_to(NoteWriter writer) noexcept;

/// Returns fn's value. If the kernel refuses, it notes the attempt and returns a default value.
template <class Fn>
std::invoke_result_t<Fn> noting_failure(std::string_view what, Fn&& fn) {
  try {
    return std::forward<Fn>(fn)();
  } catch (const netlink::Error& e) {
    note(cat(what, ": ", e.what()));
    return std::invoke_result_t<Fn>();
  }
}

/// The same only where the file system refuses it to everybody (EROFS) or an LSM to us (EACCES).
template <class Fn>
std::invoke_result_t<Fn> noting_refusal(std::string_view what, Fn&& fn) {
  try {
    return std::forward<Fn>(fn)();
  } catch (const netlink::Error& e) {
    if (e.error() != EROFS && e.error() != EACCES) throw;
    note(cat(what, ": ", e.what()));
    return std::invoke_result_t<Fn>();
  }
}

}  // namespace cni
