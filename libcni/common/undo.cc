#include "libcni/common/undo.h"

#include <unistd.h>

#include <atomic>

#include "libcni/common/phase.h"
#include "libcni/common/printable.h"

namespace cni {

namespace {

std::atomic<NoteWriter> note_writer = nullptr;

}  // namespace

void send_notes_to(NoteWriter writer) noexcept { note_writer = writer; }

void note(std::string_view text) noexcept try {
  if (current_record != nullptr) current_record->note(text);
  if (const NoteWriter writer = note_writer) return writer(text);
  const std::string line = cat(printable_text(text), "\n");
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

void BestEffort::keep(const std::string& what, const Error& e) noexcept try {
  if (failures_.empty()) code_ = e.code();
  failures_ += cat(failures_.empty() ? "" : "; ", e.what());
  const char* const colon = what.empty() || e.details().empty() ? "" : ": ";
  const std::string details = cat(what, colon, e.details());
  details_ += cat(details_.empty() || details.empty() ? "" : "; ", details);
} catch (const std::bad_alloc&) {
  failures_.assign(1, '?');  // fits without an allocation
}

void BestEffort::keep(const std::string& what, const netlink::Error& e) noexcept try {
  keep(what, error_of(e));
} catch (const std::bad_alloc&) {
  failures_.assign(1, '?');
}

void BestEffort::keep(const std::string& what, const std::exception& e) noexcept try {
  keep(what, Error(Code::kInternal, e.what()));
} catch (const std::bad_alloc&) {
  failures_.assign(1, '?');
}

std::optional<Error> BestEffort::error() const {
  if (failures_.empty()) return std::nullopt;
  return Error(code_, failures_, details_);
}

void BestEffort::finish() const {
  if (const auto failed = error()) throw Error(*failed);
}

}  // namespace cni
