#include "plugins/dhcp/daemon/close_aside.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace dhcp {

#ifdef _GLIBCXX_HAS_GTHREADS

namespace {

constexpr unsigned kThreads = 4;  // which wait for one and the same grace period

class Closer {
 public:
  // They inherit that all signals of the event loop are blocked.
  Closer() {
    try {
      while (threads_.size() < kThreads) threads_.emplace_back([this] { run(); });
    } catch (const std::system_error&) {
      // As many as there are.
    }
  }

  ~Closer() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;

  void close(netlink::Fd fd) {
    if (threads_.empty()) return;  // and fd is closed
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(fd));
    }
    changed_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      netlink::Fd fd = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      fd.reset();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<netlink::Fd> waiting_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

void close_aside(netlink::Fd fd) noexcept {
  if (!fd) return;
  try {
    static Closer closer;
    closer.close(std::move(fd));
  } catch (const std::exception&) {
    // fd is closed.
  }
}

#else  // the C++ library of the musl build has no threads

void close_aside(netlink::Fd fd) noexcept { fd.reset(); }

#endif

}  // namespace dhcp
