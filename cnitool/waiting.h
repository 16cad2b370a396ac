#pragma once

#include <string>
#include <thread>

namespace tool {

/// Prints on stderr for which plugin or lock an operation waits, from two seconds on, until it is
/// destroyed. Signals must be blocked before, because it has a thread.
class Waiting {
 public:
  explicit Waiting(std::string operation);

 private:
  std::jthread thread_;
};

}  // namespace tool
