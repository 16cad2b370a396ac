#include "plugins/devices/agent/dra/health.h"

#include <memory>
#include <utility>

namespace devices::dra {

namespace {

// The stream tells of each change: what it said holds as long as it is open. The kubelet's own
// limit is 30 s, after which it would show what does not change as unknown.
constexpr std::int64_t kHolds = 10LL * 365 * 24 * 3600;

}  // namespace

void Health::publish(const std::map<std::string, bool>& healthy, std::int64_t now) {
  auto out = std::make_shared<List>();
  {
    const std::lock_guard hold(mutex_);
    bool is_new = healthy.size() != states_.size();
    std::map<std::string, State> states;
    for (const auto& [name, is_healthy] : healthy) {
      const auto was = states_.find(name);
      const bool is_same = was != states_.end() && was->second.is_healthy == is_healthy;
      is_new |= !is_same;
      states.emplace(name, State{is_healthy, is_same ? was->second.since : now});
    }
    states_ = std::move(states);
    if (!is_new) return;
    for (const auto& [name, state] : states_) {
      auto& one = *out->add_devices();
      one.mutable_device()->set_pool_name(pool_);
      one.mutable_device()->set_device_name(name);
      one.set_health(state.is_healthy ? v1alpha1::HEALTHY : v1alpha1::UNHEALTHY);
      one.set_last_updated_time(state.since);
      one.set_health_check_timeout_seconds(kHolds);
      if (!state.is_healthy) one.set_message("its link has no carrier, or it vanished");
    }
  }
  streams_.publish(std::move(out));
}

}  // namespace devices::dra
