#include "cnitool/probe/cleaner.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <exception>

namespace tool::probe {

namespace {

// False: this process has ended without a word.
bool is_dismissed(int fd) {
  char word = 0;
  ssize_t got = 0;
  do {
    got = ::read(fd, &word, sizeof word);
  } while (got < 0 && errno == EINTR);
  return got != 0;
}

[[noreturn]] void wait_and_clean(int fd, const std::function<void()>& clean) {
  constexpr unsigned kLimit = 20;            // seconds for the removal
  constexpr useconds_t kUnderWay = 100'000;  // until answers of the last packets have come
  ::setsid();                                // Ctrl-C is not for this one
  if (!is_dismissed(fd)) {
    ::alarm(kLimit);
    ::usleep(kUnderWay);
    try {
      clean();
    } catch (const std::exception&) {  // nobody is left to be told
    }
  }
  ::_exit(0);
}

}  // namespace

Cleaner::Cleaner(const std::function<void()>& clean) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  netlink::Fd waits(ends[0]);
  alive_ = netlink::Fd(ends[1]);
  child_ = ::fork();
  if (child_ != 0) return;
  alive_ = netlink::Fd();
  wait_and_clean(waits.get(), clean);
}

Cleaner::~Cleaner() {
  if (child_ <= 0) return;
  const char word = 'k';
  static_cast<void>(!::write(alive_.get(), &word, sizeof word));
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace tool::probe
