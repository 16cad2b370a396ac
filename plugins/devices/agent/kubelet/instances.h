#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace devices {

/// Other instances of the agent that serve a resource, by their sockets in the folders of the
/// kubelet: during an upgrade two overlap. Kubelets that keep one client for a resource drop that
/// of this instance when the stream of another one ends, or its socket is removed.
class Instances {
 public:
  using Clock = std::chrono::steady_clock;

  Instances(std::vector<std::string> folders, const std::string& resource);

  /// Looks at the folders. An instance has ended if it had a socket, and has listened on none for a
  /// moment: one that registers again has none for less. What a killed one left is removed.
  void look(Clock::time_point now);
  /// When the last one ended that has been seen (the epoch: none did).
  Clock::time_point last_end() const { return last_end_; }
  /// Whether one lives, or may have ended just now: look again soon.
  bool any() const { return !seen_.empty(); }

 private:
  struct Seen {
    bool has_listened = false;
    Clock::time_point missing_since{};  ///< the epoch: it lives
  };
  /// Whether each listens.
  std::map<std::string, bool> found() const;

  const std::vector<std::string> folders_;
  const std::string prefix_;
  std::map<std::string, Seen> seen_;
  Clock::time_point last_end_{};
};

}  // namespace devices
