#include "libcni/daemon/event_loop.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "netlink/types/error.h"

namespace cni {

namespace {

using netlink::Fd;

Fd open_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
  const int error = ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (error != 0) throw netlink::Error("block signals", error);
  Fd out(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!out) throw netlink::Error("wait for signals", errno);
  return out;
}

// Consumes the event, so that it is not reported again.
void drain(int fd) {
  std::uint64_t buffer[64];
  while (::read(fd, buffer, sizeof buffer) > 0) {
  }
}

void run_safely(const EventLoop::Task& task, const EventLoop::OnError& on_error) {
  try {
    task();
  } catch (const std::exception& e) {
    on_error(e);
  }
}

}  // namespace

EventLoop::EventLoop()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      timer_(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_ || !timer_ || !wake_) throw netlink::Error("set up the event loop", errno);
  watch(timer_.get(), [this] {
    drain(timer_.get());
    armed_ = kNever;
  });
  watch(wake_.get(), [this] { drain(wake_.get()); });
}

void EventLoop::stop_on_signals() {
  signals_ = open_signals();
  watch(signals_.get(), [this] {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGHUP) stop();
    }
  });
}

void EventLoop::stop() noexcept {
  stopped_ = true;
  ::eventfd_write(wake_.get(), 1);
}

BootTime EventLoop::now() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::seconds(time.tv_sec) +
         std::chrono::duration_cast<BootTime>(std::chrono::nanoseconds(time.tv_nsec));
}

void EventLoop::watch(int fd, Task task, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  // A number may have been that of a file which was closed since, and which the kernel forgot then.
  const bool watched = ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0 ||
                       ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  if (!watched) {
    throw netlink::Error("watch a file descriptor", errno);
  }
  tasks_.insert_or_assign(fd, std::move(task));
}

void EventLoop::forget(int fd) noexcept {
  if (tasks_.erase(fd) != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EventLoop::at(BootTime when, const void* owner, Task task) {
  if (const auto found = timer_of_.find(owner); found != timer_of_.end()) {
    timers_.erase(found->second);
    timer_of_.erase(found);
  }
  if (when == kNever) return;
  const BootTime time = std::max(when, earliest_);
  timer_of_[owner] = timers_.emplace(time, std::pair(owner, std::move(task)));
}

void EventLoop::arm() {
  const BootTime next = timers_.empty() ? kNever : timers_.begin()->first;
  if (next == armed_) return;
  itimerspec spec{};
  if (next != kNever) {
    // A time of 0 would switch it off.
    const BootTime when = std::max(next, BootTime(1));
    spec.it_value = {.tv_sec = static_cast<time_t>(when.count() / 1000),
                     .tv_nsec = static_cast<long>(when.count() % 1000) * 1'000'000};
  }
  if (::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr) != 0) {
    throw netlink::Error("set the timer", errno);
  }
  armed_ = next;
}

void EventLoop::run_due(const OnError& on_error) {
  const BootTime end = now();
  earliest_ = end + BootTime(1);  // what these tasks set is for a later turn, after descriptors
  while (!timers_.empty() && timers_.begin()->first <= end && !stopped_) {
    auto [owner, task] = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    timer_of_.erase(owner);
    run_safely(task, on_error);
  }
  earliest_ = BootTime::min();
}

void EventLoop::post(Task task) {
  {
    const std::lock_guard hold(mutex_);
    posted_.push_back(std::move(task));
  }
  ::eventfd_write(wake_.get(), 1);
}

void EventLoop::run_posted(const OnError& on_error) {
  std::vector<Task> tasks;
  {
    const std::lock_guard hold(mutex_);
    tasks.swap(posted_);
  }
  for (const Task& task : tasks) {
    if (!stopped_) run_safely(task, on_error);
  }
}

void EventLoop::run(const OnError& on_error) {
  constexpr int kMaxEvents = 64;
  epoll_event events[kMaxEvents];
  while (!stopped_) {
    arm();
    const int count = ::epoll_wait(epoll_.get(), events, kMaxEvents, -1);
    if (count < 0 && errno != EINTR) throw netlink::Error("wait for events", errno);
    for (int i = 0; i < count && !stopped_; ++i) {
      const auto found = tasks_.find(events[i].data.fd);
      if (found == tasks_.end()) continue;
      const Task task = found->second;  // which may end itself, and so its entry
      run_safely(task, on_error);
    }
    run_posted(on_error);
    run_due(on_error);
  }
}

}  // namespace cni
