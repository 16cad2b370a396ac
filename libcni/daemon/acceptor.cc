#include "libcni/daemon/acceptor.h"

#include <cerrno>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"

namespace cni {

namespace {

constexpr BootTime kShortage = std::chrono::milliseconds(500);  // until descriptors may be free
constexpr BootTime kCheck = std::chrono::seconds(3);            // of the socket's file
constexpr int kMostAtOnce = 64;  // a client does not wait long for its answer

}  // namespace

Acceptor::Acceptor(EventLoop& loop, Listener listener, Handler handler)
    : loop_(loop), listener_(std::move(listener)), handler_(std::move(handler)) {
  resume();
  loop_.after(kCheck, &keep_, [this] { keep(); });
}

Acceptor::~Acceptor() {
  loop_.at(kNever, &pause_, {});
  loop_.at(kNever, &keep_, {});
  loop_.forget(listener_.fd());
}

void Acceptor::pause() {
  is_paused_ = true;
  loop_.at(kNever, &pause_, {});
  loop_.forget(listener_.fd());
}

void Acceptor::resume() {
  is_paused_ = false;
  loop_.watch(listener_.fd(), [this] { accept(); });
}

void Acceptor::accept() {
  for (int i = 0; i < kMostAtOnce && !is_paused_ && accept_one(); ++i) {
  }
}

bool Acceptor::accept_one() {
  netlink::Fd fd = listener_.accept();
  if (fd) {
    handler_.accepted(std::move(fd));
    return true;
  }
  const int error = errno;
  if (Listener::is_short_of(error)) {  // it would be called again at once
    note(cat("accept a connection: ", netlink::errno_text(error)));
    pause();
    loop_.after(kShortage, &pause_, [this] { resume(); });
  }
  if (error == EACCES) note("refused a connection of another user");
  return error == EACCES || error == ECONNABORTED || error == EINTR;
}

void Acceptor::keep() try {
  loop_.after(kCheck, &keep_, [this] { keep(); });
  if (!listener_.is_lost()) return;
  note(cat("'", listener_.path(), "' was removed: listen on it again"));
  loop_.forget(listener_.fd());
  listener_ = handler_.again(listener_.path());
  if (!is_paused_) resume();
} catch (const std::exception& e) {
  handler_.lost(e);
}

}  // namespace cni
