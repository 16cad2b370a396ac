#include "plugins/cluster-pool/agent/workers.h"

#include <exception>
#include <utility>

#include "libcni/daemon/log.h"

namespace block_agent {

void Workers::run(const std::string& key, Task task) {
  const std::lock_guard hold(mutex_);
  if (is_stopped_) return;
  const bool is_new = tasks_.insert_or_assign(key, std::move(task)).second;
  if (is_new && !busy_.contains(key)) order_.push_back(key);
  if (idle_ < order_.size() && threads_.size() < most_) {
    threads_.emplace_back([this] { work(); });
  }
  wake_.notify_one();
}

void Workers::stop() noexcept {
  std::vector<std::thread> ended;
  {
    const std::lock_guard hold(mutex_);
    is_stopped_ = true;
    ended.swap(threads_);
  }
  wake_.notify_all();
  for (std::thread& one : ended) one.join();
}

void Workers::work() {
  std::unique_lock hold(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(hold, [this] { return is_stopped_ || !order_.empty(); });
    --idle_;
    if (is_stopped_) return;
    const std::string key = std::move(order_.front());
    order_.pop_front();
    const Task task = std::move(tasks_.extract(key).mapped());
    busy_.insert(key);
    hold.unlock();
    try {
      task();
    } catch (const std::exception& e) {
      cni::log(cni::Level::kError, "serve blocks", {{"error", e.what()}});
    }
    hold.lock();
    busy_.erase(key);
    if (tasks_.contains(key)) order_.push_back(key);  // this thread takes it, or another one
  }
}

}  // namespace block_agent
