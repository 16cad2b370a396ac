#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace block_agent {

/// Threads for tasks that may wait for an engine. Of one key no two tasks run at a time; of
/// different keys none waits for another, as long as there are threads.
class Workers {
 public:
  using Task = std::function<void()>;

  explicit Workers(std::size_t most) : most_(most) {}
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Runs the task soon. While one of the key waits for its turn, it is replaced.
  void run(const std::string& key, Task task);
  /// Waits for the tasks that run, and runs no other.
  void stop() noexcept;

 private:
  void work();

  const std::size_t most_;
  std::mutex mutex_;  ///< of what is below
  std::condition_variable wake_;
  std::map<std::string, Task> tasks_;
  std::deque<std::string> order_;  ///< keys of tasks that can begin
  std::set<std::string> busy_;     ///< keys of tasks that run
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool is_stopped_ = false;
};

}  // namespace block_agent
