#pragma once

#include <cerrno>
#include <concepts>
#include <functional>
#include <optional>
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
  /// Runs step; of a failure its message is kept, and "what: details" for the details; an empty
  /// what is left out. True where there was none.
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
  /// What failed, with the code of the first failure. Empty: nothing.
  std::optional<Error> error() const;
  /// \throws Error what error() gives.
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

/// For noting_failure(): the file system refuses it to everybody, or an LSM to us.
inline bool is_refusal(int error) { return error == EROFS || error == EACCES; }

/// Returns fn's value. If the kernel refuses, it notes the attempt and returns a default value;
/// with is_noted only for an errno that it takes.
template <class Fn>
std::invoke_result_t<Fn> noting_failure(std::string_view what, Fn&& fn,
                                        bool (*is_noted)(int error) = nullptr) {
  try {
    return std::forward<Fn>(fn)();
  } catch (const netlink::Error& e) {
    if (is_noted != nullptr && !is_noted(e.error())) throw;
    note(cat(what, ": ", e.what()));
    return std::invoke_result_t<Fn>();
  }
}

}  // namespace cni
