#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace devices {

/// A thread that runs jobs one after the other. The core may wait for the lock of the ledger, which
/// gRPC's own threads must not: they serve the kubelet's other calls.
class Worker {
 public:
  explicit Worker(std::size_t most);
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// False: too many wait already, or it was stopped. A job must not throw.
  bool post(std::function<void()> job);
  /// However many wait; nothing after stop().
  void post_always(std::function<void()> job) { post_below(SIZE_MAX, std::move(job)); }
  /// How many wait, without the one that runs.
  std::size_t waiting() const;
  /// Runs what waits, and then nothing.
  void stop();

 private:
  bool post_below(std::size_t most, std::function<void()> job);
  void run();

  const std::size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace devices
