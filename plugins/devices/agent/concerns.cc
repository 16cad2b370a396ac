#include "plugins/devices/agent/concerns.h"

#include <algorithm>

namespace devices {

bool Concerns::operator()(const Pod& pod) {
  const std::lock_guard hold(mutex_);
  if (!listed_ || listed_->contains(pod.str())) return true;
  if (std::string now = ledger_.changed(); now != changed_) {
    entries_ = ledger_.all();
    changed_ = std::move(now);
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
