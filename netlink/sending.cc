#include "netlink/sending.h"

#include <linux/netlink.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace netlink {

namespace {

constexpr std::size_t kStack = 256 << 10;

// Signals are for the caller's thread, which knows what they are about.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace

int send_to_kernel(int socket, std::vector<iovec>& parts) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  msghdr datagram{};
  datagram.msg_name = &kernel;
  datagram.msg_namelen = sizeof kernel;
  datagram.msg_iov = parts.data();
  datagram.msg_iovlen = static_cast<decltype(datagram.msg_iovlen)>(parts.size());
  while (::sendmsg(socket, &datagram, 0) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

Sending::Sending(int socket, std::vector<iovec> parts)
    : socket_(socket), parts_(std::move(parts)), done_(::eventfd(0, EFD_CLOEXEC)) {
  has_thread_ = done_ && start_thread();
  if (!has_thread_) send();
}

Sending::~Sending() { wait(); }

// Nobody joins the thread: it would be a matter of chance whether that takes a system call, and a
// call that is repeated step by step could not be compared with itself.
bool Sending::start_thread() {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return false;
  pthread_t thread{};
  const SignalsBlocked blocked;
  const bool started = ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
                       ::pthread_attr_setstacksize(&attributes, kStack) == 0 &&
                       ::pthread_create(&thread, &attributes, &Sending::run, this) == 0;
  ::pthread_attr_destroy(&attributes);
  return started;
}

void* Sending::run(void* self) {
  auto* const sending = static_cast<Sending*>(self);
  const int done = sending->done_.get();
  sending->send();
  // From here on there may be no `sending` any more. A new eventfd takes any number but the
  // largest: this cannot fail.
  const std::uint64_t one = 1;
  while (::write(done, &one, sizeof one) < 0 && errno == EINTR) {
  }
  return nullptr;
}

void Sending::send() {
  error_ = send_to_kernel(socket_, parts_);
  is_sent_ = true;
}

int Sending::wait() {
  while (has_thread_) {
    std::uint64_t count = 0;
    if (::read(done_.get(), &count, sizeof count) >= 0) {
      has_thread_ = false;
    } else if (errno != EINTR) {
      wait_without_event();
    }
  }
  return error_;
}

// Nobody but who breaks system calls on purpose gets here; the thread must not be left with an
// object that is gone nevertheless.
void Sending::wait_without_event() {
  constexpr timespec kMoment{0, 1'000'000};
  while (!is_sent_) ::nanosleep(&kMoment, nullptr);
  [[maybe_unused]] const int kept = done_.release();  // the thread is about to write there
  has_thread_ = false;
}

}  // namespace netlink
