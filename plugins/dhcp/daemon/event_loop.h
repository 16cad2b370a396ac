#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

#include "netlink/types/fd.h"
#include "plugins/dhcp/protocol/lease.h"

namespace dhcp {

/// One thread that waits for file descriptors, times and signals (epoll(7), timerfd_create(2),
/// signalfd(2)). Everything throws netlink::Error.
class EventLoop {
 public:
  using Task = std::function<void()>;

  /// Blocks SIGINT, SIGTERM and SIGHUP of the process: they are events here.
  EventLoop();

  static Time now();

  /// Calls task whenever fd can be read from, or written to with for_writing, or was hung up.
  /// Replaces what was to be done before.
  void watch(int fd, Task task, bool for_writing = false);
  /// Before fd is closed. One that is not watched is passed over.
  void forget(int fd) noexcept;
  /// Calls task once, at that time; kNever is not at all. Each owner has one time.
  void at(Time when, const void* owner, Task task);

  /// Until stop(). on_error gets what a task throws.
  void run(const std::function<void(const std::exception&)>& on_error);
  void stop() { stopped_ = true; }

 private:
  using Timers = std::multimap<Time, std::pair<const void*, Task>>;
  void arm();
  void run_due(const std::function<void(const std::exception&)>& on_error);

  netlink::Fd epoll_, timer_, signals_;
  std::unordered_map<int, Task> tasks_;
  Timers timers_;
  std::unordered_map<const void*, Timers::iterator> timer_of_;
  Time armed_ = kNever;
  bool stopped_ = false;
};

}  // namespace dhcp
