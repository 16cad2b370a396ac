#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "netlink/types/fd.h"

namespace cni {

/// Since the machine was started, the time in which it was suspended included: leases run on
/// (CLOCK_BOOTTIME of clock_gettime(2)).
using BootTime = std::chrono::milliseconds;
inline constexpr BootTime kNever = BootTime::max();

/// A thread's wait for file descriptors, times and signals (epoll(7), timerfd_create(2),
/// signalfd(2)). Everything throws netlink::Error.
class EventLoop {
 public:
  using Task = std::function<void()>;
  using OnError = std::function<void(const std::exception&)>;

  EventLoop();

  static BootTime now();

  /// SIGINT and SIGTERM end run(), and SIGHUP does nothing, be it that a terminal was closed. They
  /// are blocked for this thread and those that it makes from now on.
  void stop_on_signals();
  /// Calls task whenever fd is as events says (EPOLLIN, EPOLLOUT of epoll_ctl(2)), or was hung up.
  /// Replaces what was to be done before.
  void watch(int fd, Task task, std::uint32_t events = EPOLLIN);
  /// Before fd is closed. One that is not watched is passed over.
  void forget(int fd) noexcept;
  /// Calls task once, at that time, or soon if it is past; kNever is not at all. Each owner has one
  /// time. Descriptors are read between two calls of one owner's tasks.
  void at(BootTime when, const void* owner, Task task);
  /// The same, from now on.
  void after(BootTime pause, const void* owner, Task task) {
    at(now() + pause, owner, std::move(task));
  }

  /// Calls task in this loop, soon. From any thread.
  void post(Task task);

  /// Until stop(). on_error gets what a task throws.
  void run(const OnError& on_error);
  /// From any thread.
  void stop() noexcept;

 private:
  using Timers = std::multimap<BootTime, std::pair<const void*, Task>>;
  void arm();
  void run_due(const OnError& on_error);
  void run_posted(const OnError& on_error);

  netlink::Fd epoll_, timer_, wake_, signals_;
  std::unordered_map<int, Task> tasks_;
  Timers timers_;
  std::unordered_map<const void*, Timers::iterator> timer_of_;
  BootTime armed_ = kNever;
  BootTime earliest_ = BootTime::min();  // of what is set now
  std::mutex mutex_;
  std::vector<Task> posted_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace cni
