#include "plugins/devices/agent/kubelet/worker.h"

#include <utility>

namespace devices {

Worker::Worker(std::size_t most) : most_(most), thread_([this] { run(); }) {}

bool Worker::post(std::function<void()> job) { return post_below(most_, std::move(job)); }

bool Worker::post_below(std::size_t most, std::function<void()> job) {
  {
    const std::lock_guard hold(mutex_);
    if (stopping_ || jobs_.size() >= most) return false;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
  return true;
}

std::size_t Worker::waiting() const {
  const std::lock_guard hold(mutex_);
  return jobs_.size();
}

void Worker::stop() {
  {
    const std::lock_guard hold(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Worker::run() {
  std::unique_lock hold(mutex_);
  for (;;) {
    changed_.wait(hold, [this] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const auto job = std::move(jobs_.front());
    jobs_.pop_front();
    hold.unlock();
    job();
    hold.lock();
  }
}

}  // namespace devices
