#include "libcni/common/undo.h"

#include <unistd.h>

#include "libcni/common/phase.h"

namespace cni {

void note(std::string_view text) noexcept try {
  if (current_record != nullptr) current_record->note(text);
  const std::string line = cat(text, "\n");
  // stderr may be closed or full; there is nowhere left to say so.
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
} catch (const std::bad_alloc&) {
  // Out of memory while reporting: the report is lost, the work goes on.
}

void Undo::roll_back() noexcept {
  if (steps_.empty()) return;
  const Phase phase("undo");
  while (!steps_.empty()) {
    auto& [what, step] = steps_.back();
    try {
      step();
    } catch (const std::exception& e) {
      note(e.what());
      note(what);
    }
    steps_.pop_back();
  }
}

void BestEffort::keep(const std::string& what, std::string_view cause, Code code) noexcept try {
  if (failures_.empty()) code_ = code;
  failures_ += cat(failures_.empty() ? "" : "; ", what, ": ", cause);
} catch (const std::bad_alloc&) {
  failures_.assign(1, '?');  // fits without an allocation
}

void BestEffort::finish() const {
  if (!failures_.empty()) throw Error(code_, failures_);
}

}  // namespace cni
