#include "plugins/devices/agent/attention.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "plugins/devices/agent/log.h"

namespace devices {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPause{30'000};
constexpr milliseconds kFirst{100}, kLast{5'000};  // after Allocate

}  // namespace

Attention::Attention(Core& core, PodResources& pods)
    : core_(core), pods_(pods), thread_([this] { run(); }) {}

Attention::~Attention() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Attention::wake() {
  {
    const std::lock_guard lock(mutex_);
    is_woken_ = true;
  }
  changed_.notify_all();
}

// Whether a device is promised to a pod that is not known yet.
bool Attention::look() try {
  const auto now = static_cast<std::int64_t>(std::time(nullptr));
  const bool out = core_.reconcile(pods_.list(), now);
  last_error_.clear();
  return out;
} catch (const std::exception& e) {  // a kubelet that is absent for hours is one line of the log
  if (last_error_ != e.what()) log(Level::kWarning, "list pods", {.error = e.what()});
  last_error_ = e.what();
  return core_.has_unclaimed();
}

void Attention::run() {
  milliseconds pause{0};
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    const auto is_due = [this] { return is_woken_ || is_stopping_; };
    if (changed_.wait_for(lock, pause, is_due)) pause = kFirst;
    if (is_stopping_) return;
    if (is_woken_) {
      is_woken_ = false;
      changed_.wait_for(lock, kFirst, [this] { return is_stopping_; });
      if (is_stopping_) return;
    }
    lock.unlock();
    const bool is_open = look();
    lock.lock();
    pause = is_open ? std::clamp(2 * pause, kFirst, kLast) : kPause;
  }
}

}  // namespace devices
