#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace devices {

/// Threads that run jobs in the order in which they came. The core may wait for the lock of the
/// ledger, and answers for the kubelet, which the threads of gRPC and of the socket must not.
class Worker {
 public:
  explicit Worker(std::size_t most, std::size_t threads = 1);
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// False: too many wait already, or it was stopped. A job must not throw.
  bool post(std::function<void()> job) { return post_below(most_, std::move(job)); }
  /// However many wait; nothing after stop().
  void post_always(std::function<void()> job) { post_below(SIZE_MAX, std::move(job)); }
  /// Runs what waits, and then nothing.
  void stop();

 private:
  bool post_below(std::size_t most, std::function<void()> job);
  void run();

  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace devices
