#include "libcni/daemon/event_loop.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using cni::EventLoop;
using std::chrono::milliseconds;

namespace {

void fail(const std::exception& e) { FAIL(std::string(e.what())); }

}  // namespace

TEST_CASE("an event loop calls what is due in the order of the times, each owner's last one") {
  EventLoop loop;
  std::vector<int> called;
  const int first = 0, second = 0, never = 0;
  const auto now = EventLoop::now();
  loop.at(now + milliseconds(20), &second, [&] {
    called.push_back(2);
    loop.stop();
  });
  loop.at(now, &first, [&] { called.push_back(0); });
  loop.at(now + milliseconds(10), &first, [&] { called.push_back(1); });
  loop.at(now, &never, [&] { called.push_back(9); });
  loop.at(cni::kNever, &never, {});
  loop.run(fail);
  CHECK(called == std::vector{1, 2});
  CHECK(EventLoop::now() - now >= milliseconds(20));
}

TEST_CASE("an event loop calls what a file descriptor is ready for, and goes on after an error") {
  EventLoop loop;
  const netlink::Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  std::string said;
  loop.watch(event.get(), [] { throw std::runtime_error("not that"); });
  loop.watch(event.get(), [&] {
    eventfd_t count = 0;
    ::eventfd_read(event.get(), &count);
    if (count == 1) throw std::runtime_error("this");
    loop.forget(event.get());
    loop.watch(
        event.get(), [&] { loop.stop(); }, EPOLLOUT);
  });
  ::eventfd_write(event.get(), 1);
  loop.run([&](const std::exception& e) {
    said += e.what();
    ::eventfd_write(event.get(), 2);
  });
  CHECK(said == "this");
}

TEST_CASE("a task that is set for a past time again and again starves no file descriptor") {
  EventLoop loop;
  const netlink::Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  std::vector<int> called;
  loop.watch(event.get(), [&] {
    called.push_back(9);
    loop.stop();
  });
  const int other = 0;
  const std::function<void()> again = [&] {
    called.push_back(1);
    ::eventfd_write(event.get(), 1);
    if (called.size() > 100) loop.stop();
    loop.at(milliseconds(1), &called, again);
    loop.at(EventLoop::now(), &other, [&] { called.push_back(2); });
  };
  loop.at(milliseconds(1), &called, again);
  loop.run(fail);
  CHECK(called == std::vector{1, 9});
}

TEST_CASE("a task that is due cancels another that is due") {
  EventLoop loop;
  std::vector<int> called;
  const int first = 0, second = 0;
  loop.at(milliseconds(1), &first, [&] {
    called.push_back(1);
    loop.at(cni::kNever, &second, {});
    loop.after(milliseconds(10), &loop, [&] { loop.stop(); });
  });
  loop.at(milliseconds(2), &second, [&] { called.push_back(2); });
  loop.run(fail);
  CHECK(called == std::vector{1});
}

TEST_CASE("other threads give an event loop tasks and end it") {
  EventLoop loop;
  std::vector<int> called;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) loop.post([&, i] { called.push_back(i); });
    loop.post([&] { loop.stop(); });
  });
  loop.run(fail);
  other.join();
  CHECK(called.size() == 100);
  CHECK(called.back() == 99);
  EventLoop idle;
  std::thread end([&] { idle.stop(); });
  idle.run(fail);
  end.join();
}

TEST_CASE("SIGTERM ends an event loop, SIGHUP does not") {
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  {
    EventLoop loop;
    loop.stop_on_signals();
    bool was_reached = false;
    ::raise(SIGHUP);
    loop.after(milliseconds(20), &loop, [&] {
      was_reached = true;
      ::raise(SIGTERM);
    });
    loop.run(fail);
    CHECK(was_reached);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}
