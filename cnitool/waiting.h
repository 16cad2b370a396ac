#pragma once

#include <atomic>
#include <string>
#include <thread>

namespace tool {

/// How far an operation on several attachments has come.
struct Steps {
  std::atomic<std::size_t> done = 0, all = 0;
};

/// Prints on stderr for which plugin or lock an operation waits, and how far it has come, from two
/// seconds on, until it is destroyed; nothing if stderr is no terminal. Signals must be blocked
/// before, because it has a thread.
class Waiting {
 public:
  /// \param steps outlive it; null: the operation is one step.
  explicit Waiting(std::string operation, const Steps* steps = nullptr);

 private:
  std::jthread thread_;
};

}  // namespace tool
