#include "plugins/devices/agent/worker.h"

#include <utility>

namespace devices {

Worker::Worker(std::size_t most, std::size_t threads) : most_(most) {
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

bool Worker::post_below(std::size_t most, std::function<void()> job) {
  {
    const std::lock_guard hold(mutex_);
    if (stopping_ || jobs_.size() >= most) return false;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
  return true;
}

void Worker::stop() {
  {
    const std::lock_guard hold(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& one : threads_) one.join();
  threads_.clear();
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
