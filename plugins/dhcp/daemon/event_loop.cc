#include "plugins/dhcp/daemon/event_loop.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "netlink/types/error.h"

namespace dhcp {

namespace {

using netlink::Fd;

Fd open_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) throw netlink::Error("block signals", errno);
  return Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

// Consumes the event, so that it is not reported again.
void drain(int fd) {
  std::uint64_t buffer[64];
  while (::read(fd, buffer, sizeof buffer) > 0) {
  }
}

void run_safely(const EventLoop::Task& task,
                const std::function<void(const std::exception&)>& on_error) {
  try {
    task();
  } catch (const std::exception& e) {
    on_error(e);
  }
}

}  // namespace

EventLoop::EventLoop()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      // CLOCK_BOOTTIME counts the time in which the machine is suspended: leases run on.
      timer_(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)),
      signals_(open_signals()) {
  if (!epoll_ || !timer_ || !signals_) throw netlink::Error("set up the event loop", errno);
  watch(timer_.get(), [this] {
    drain(timer_.get());
    armed_ = kNever;
  });
  watch(signals_.get(), [this] {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGHUP) stop();
    }
  });
}

Time EventLoop::now() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::seconds(time.tv_sec) +
         std::chrono::duration_cast<Time>(std::chrono::nanoseconds(time.tv_nsec));
}

void EventLoop::watch(int fd, Task task, bool for_writing) {
  epoll_event event{};
  event.events = for_writing ? EPOLLIN | EPOLLOUT : EPOLLIN;
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

void EventLoop::at(Time when, const void* owner, Task task) {
  if (const auto found = timer_of_.find(owner); found != timer_of_.end()) {
    timers_.erase(found->second);
    timer_of_.erase(found);
  }
  if (when == kNever) return;
  timer_of_[owner] = timers_.emplace(when, std::pair(owner, std::move(task)));
}

void EventLoop::arm() {
  const Time next = timers_.empty() ? kNever : timers_.begin()->first;
  if (next == armed_) return;
  itimerspec spec{};
  if (next != kNever) {
    // A time of 0 would switch it off.
    const Time when = std::max(next, Time(1));
    spec.it_value = {.tv_sec = static_cast<time_t>(when.count() / 1000),
                     .tv_nsec = static_cast<long>(when.count() % 1000) * 1'000'000};
  }
  if (::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr) != 0) {
    throw netlink::Error("set the timer", errno);
  }
  armed_ = next;
}

void EventLoop::run_due(const std::function<void(const std::exception&)>& on_error) {
  const Time end = now();  // what tasks set for now is for the next turn
  while (!timers_.empty() && timers_.begin()->first <= end && !stopped_) {
    auto [owner, task] = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    timer_of_.erase(owner);
    run_safely(task, on_error);
  }
}

void EventLoop::run(const std::function<void(const std::exception&)>& on_error) {
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
    run_due(on_error);
  }
}

}  // namespace dhcp
