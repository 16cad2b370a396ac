#include "plugins/leases/index_update.h"

#include <algorithm>

#include "libcni/common/undo.h"

namespace leases {

namespace {

// An entry for the address is not enough: it may be left over from who had the address before.
bool is_noted(const Found& found) {
  return std::ranges::any_of(found.entries, [&found](const OwnerIndex::Entry& entry) {
    return OwnerIndex::is_of(entry, *found.named);
  });
}

template <class Fn>
bool succeeds(Fn&& fn) noexcept try {
  fn();
  return true;
} catch (const std::exception& e) {
  cni::note(e.what());
  return false;
}

}  // namespace

IndexUpdate::IndexUpdate(const Store& store) : store_(store) {
  succeeds([this] { is_complete_ = store_.index().is_complete(); });
}

IndexUpdate::~IndexUpdate() {
  if (is_complete_) succeeds([this] { store_.index().mark_complete(); });
}

void IndexUpdate::look() {
  if (!is_complete_ && !survey_) survey_ = survey(store_, store_.used());
}

std::vector<Ip> IndexUpdate::held_by(const Owner& owner) noexcept {
  std::vector<Ip> out;
  succeeds([&] {
    look();
    if (!survey_) return;
    for (const Found& one : survey_->living) {
      if (one.named == owner || one.named == bare(owner)) out.push_back(one.ip);
    }
  });
  return out;
}

bool IndexUpdate::note(const std::vector<Found>& reservations, std::string_view boot) const {
  for (const Found& one : reservations) {
    if (!one.named || is_noted(one)) continue;
    const auto file = store_.read(one.ip);  // may have been freed since
    if (!file || owner_named_in(file->content) != one.named) continue;
    const auto of = is_surely_a_lease(*one.named) ? boot : kUnknownBoot;
    if (!store_.index().adopt(*one.named, one.ip, of)) return false;
  }
  return true;
}

bool IndexUpdate::complete() noexcept {
  if (is_complete_) return true;
  bool all = false;
  const bool done = succeeds([&] {
    look();
    all = note(survey_->dead, kEarlierBoot) &&
          note(survey_->living,
               store_.index().is_own() ? std::string_view(store_.host().boot_id) : kUnknownBoot);
    store_.index().mark_machine();
  });
  is_complete_ = done && all;
  return is_complete_;
}

}  // namespace leases
