#include "plugins/devices/agent/socket/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <string_view>
#include <thread>

#include "libcni/common/error.h"
#include "plugins/devices/agent/log.h"
#include "plugins/devices/agent/socket/answers.h"
#include "plugins/devices/agent/socket/listener.h"

namespace devices {

namespace {

using netlink::Fd;
using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMaxConnections = 64;  // others wait in the backlog
constexpr std::chrono::seconds kLimit{
    5};                                // for the question to arrive, and for the answer to leave
constexpr milliseconds kPause{100};    // after accept(2) found no free descriptor
constexpr milliseconds kCheck{3'000};  // of the socket's file

}  // namespace

/// A client, in the order of its states.
struct SocketClient {
  enum class State { kAsks, kWaits, kIsAnswered, kEnded };
  Fd fd;
  State state = State::kAsks;
  Steady::time_point end = Steady::now() + kLimit;  ///< not of kWaits
  std::string text = {};                            ///< bytes received, then bytes to send

  short events() const {
    switch (state) {
      case State::kAsks:
        return POLLIN;
      case State::kIsAnswered:
        return POLLOUT;
      default:
        return 0;  // POLLERR and POLLHUP are always reported
    }
  }
  bool has_deadline() const { return state == State::kAsks || state == State::kIsAnswered; }

  /// The question, once it is complete. A longer one than allowed is no question.
  bool receive();
  void answer(std::string line);
  void send();
};

bool SocketClient::receive() {
  char buffer[8192];
  for (;;) {
    const ssize_t size = ::recv(fd.get(), buffer, sizeof buffer, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return false;
    if (size <= 0) break;
    const std::string_view piece(buffer, static_cast<std::size_t>(size));
    const auto newline = piece.find('\n');
    text += piece.substr(0, newline);
    if (newline != piece.npos || text.size() > kMaxQuestion) return true;
  }
  state = State::kEnded;
  return false;
}

void SocketClient::answer(std::string line) {
  state = State::kIsAnswered;
  end = Steady::now() + kLimit;
  text = std::move(line);
  send();
}

void SocketClient::send() {
  while (!text.empty()) {
    const ssize_t size = ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size < 0) break;
    text.erase(0, static_cast<std::size_t>(size));
  }
  state = State::kEnded;
}

struct SocketServer::State {
  const std::string path;
  std::unique_ptr<SocketListener> listener = std::make_unique<SocketListener>(path);
  Answers answers;
  Fd wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<bool> stopping = false;
  std::map<std::uint64_t, SocketClient> connections = {};
  std::uint64_t next = 0;
  Steady::time_point accepts_from = {};
  Steady::time_point next_check = Steady::now() + kCheck;
  std::thread thread = {};

  State(const std::string& at, Handler handler) : path(at), answers(std::move(handler)) {
    if (!wake) throw netlink::Error("eventfd", errno);
    thread = std::thread([this] { run(); });
  }
  ~State() {
    stopping = true;
    ::eventfd_write(wake.get(), 1);
    thread.join();
  }

  void run();
  int timeout() const;
  void accept();
  void keep_listener() noexcept;
  void pass_answers();
  void receive(std::uint64_t number, SocketClient& one);
  void serve(std::uint64_t number, SocketClient& one, short events);
  void end_late_ones();
};

void SocketServer::State::run() {
  while (!stopping) {
    const bool accepts = connections.size() < kMaxConnections && Steady::now() >= accepts_from;
    std::vector<pollfd> wanted = {{wake.get(), POLLIN, 0},
                                  {answers.fd(), POLLIN, 0},
                                  {accepts ? listener->fd() : -1, POLLIN, 0}};
    std::vector<std::uint64_t> numbers;
    for (const auto& [number, one] : connections) {
      wanted.push_back({one.fd.get(), one.events(), 0});
      numbers.push_back(number);
    }
    if (::poll(wanted.data(), wanted.size(), timeout()) < 0) continue;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (const short events = wanted[i + 3].revents; events != 0) {
        serve(numbers[i], connections.at(numbers[i]), events);
      }
    }
    if (wanted[1].revents != 0) pass_answers();
    if (wanted[2].revents != 0) accept();
    end_late_ones();
    keep_listener();
  }
}

// Nobody reaches this process without the socket. It is made again; where that fails, as in a
// container whose mount is that of the removed folder, the next process is started with another.
void SocketServer::State::keep_listener() noexcept try {
  if (Steady::now() < next_check) return;
  next_check = Steady::now() + kCheck;
  if (!listener->is_lost()) return;
  log(Level::kWarning,
      netlink::cat("listen on '", path, "' again, because the socket was removed"));
  listener = std::make_unique<SocketListener>(path);
} catch (const std::exception& e) {
  log(Level::kError, "end, because nobody reaches the socket", {.error = e.what()});
  std::_Exit(EXIT_FAILURE);
}

int SocketServer::State::timeout() const {
  auto next_end = next_check;
  for (const auto& [number, one] : connections) {
    if (one.has_deadline()) next_end = std::min(next_end, one.end);
  }
  if (Steady::now() < accepts_from) next_end = std::min(next_end, accepts_from);
  const auto left = std::chrono::ceil<milliseconds>(next_end - Steady::now()).count();
  return static_cast<int>(std::max<long>(left, 0));
}

void SocketServer::State::accept() {
  Fd fd = listener->accept();
  if (!fd) {
    const bool is_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    if (is_short) accepts_from = Steady::now() + kPause;
    return;
  }
  const std::uint64_t number = next++;
  const auto added = connections.emplace(number, SocketClient{.fd = std::move(fd)}).first;
  receive(number, added->second);  // the question is there by now, if the client is a plugin
}

void SocketServer::State::pass_answers() {
  for (auto& [number, line] : answers.take()) {
    const auto found = connections.find(number);
    if (found == connections.end()) continue;  // the client did not wait
    found->second.answer(std::move(line));
  }
}

void SocketServer::State::receive(std::uint64_t number, SocketClient& one) {
  if (!one.receive()) return;
  one.state = SocketClient::State::kWaits;
  if (auto line = answers.ask({number, std::move(one.text)})) one.answer(*std::move(line));
}

void SocketServer::State::serve(std::uint64_t number, SocketClient& one, short events) {
  using enum SocketClient::State;
  if (one.state == kAsks) {
    receive(number, one);
  } else if (one.state == kWaits && (events & (POLLERR | POLLHUP)) != 0) {
    one.state = kEnded;
  } else if (one.state == kIsAnswered) {
    one.send();
  }
}

void SocketServer::State::end_late_ones() {
  const auto now = Steady::now();
  std::erase_if(connections, [&](const auto& numbered) {
    const SocketClient& one = numbered.second;
    return one.state == SocketClient::State::kEnded || (one.has_deadline() && one.end <= now);
  });
}

SocketServer::SocketServer(const std::string& path, Handler handler)
    : state_(std::make_unique<State>(path, std::move(handler))) {}

SocketServer::~SocketServer() = default;

}  // namespace devices
