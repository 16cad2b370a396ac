#include "plugins/devices/agent/concerns.h"

namespace devices {

bool Concerns::operator()(const Pod& pod) {
  {
    const std::lock_guard hold(mutex_);
    if (!listed_ || listed_->contains(pod.str())) return true;
  }
  const auto concerns = [&](const Entry& one) {
    const bool was_its = one.holder && one.holder->pod && one.holder->pod->has_name_of(pod);
    return one.is_unclaimed() || !one.is_readable() || was_its ||
           (one.pod && (one.pod->has_name_of(pod) || one.is_of(pod)));
  };
  return ledger_.find(concerns).has_value();
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
