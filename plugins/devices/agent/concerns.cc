#include "plugins/devices/agent/concerns.h"

#include <algorithm>

namespace devices {

namespace {

// Two changes within a tick of the kernel's clock look the same: 10 ms with HZ=100.
constexpr std::chrono::milliseconds kTicks{30};

}  // namespace

bool Concerns::operator()(const Pod& pod) {
  const std::lock_guard hold(mutex_);
  if (!listed_ || listed_->contains(pod.str())) return true;
  const auto now = std::chrono::steady_clock::now();
  std::string changed = ledger_.changed();
  if (changed != changed_) {
    changed_ = std::move(changed);
    seen_ = now;
    is_settled_ = false;
  }
  if (!is_settled_) {
    entries_ = ledger_.all();
    is_settled_ = now - seen_ > kTicks;
  }
  return std::ranges::any_of(entries_, [&](const Entry& one) {
    return one.is_unclaimed() || one.is_of(pod) || (one.pod && one.pod->has_name_of(pod));
  });
}

void Concerns::note(const std::vector<PodDevices>& listed) {
  std::set<std::string> names;
  for (const PodDevices& one : listed) {
    if (!one.devices.empty()) names.insert(Pod{one.space, one.name}.str());
  }
  const std::lock_guard hold(mutex_);
  listed_ = std::move(names);
}

}  // namespace devices
