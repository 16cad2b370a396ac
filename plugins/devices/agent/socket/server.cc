#include "plugins/devices/agent/socket/server.h"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string_view>
#include <thread>
#include <utility>

#include "libcni/daemon/acceptor.h"
#include "libcni/daemon/event_loop.h"
#include "plugins/devices/agent/log.h"
#include "plugins/devices/agent/socket/answers.h"

namespace devices {

namespace {

using cni::EventLoop;
using netlink::Fd;

constexpr std::size_t kMaxConnections = 64;  // others wait in the backlog
// For the question to arrive, and for the answer to leave.
constexpr cni::BootTime kLimit = std::chrono::seconds(5);

}  // namespace

/// A client: it asks, waits, and is answered.
struct SocketClient {
  Fd fd;
  std::string question = {};
  std::string answer = {};  ///< bytes to send

  enum class Outcome { kGoesOn, kDone, kEnded };
  /// Done: the question is complete. A longer one than allowed is no question.
  Outcome receive();
  /// Done: the answer is sent.
  Outcome send();
};

SocketClient::Outcome SocketClient::receive() {
  char buffer[8192];
  for (;;) {
    const ssize_t size = ::recv(fd.get(), buffer, sizeof buffer, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return Outcome::kGoesOn;
    if (size <= 0) return Outcome::kEnded;
    const std::string_view piece(buffer, static_cast<std::size_t>(size));
    const auto newline = piece.find('\n');
    question += piece.substr(0, newline);
    if (newline != piece.npos || question.size() > kMaxQuestion) return Outcome::kDone;
  }
}

SocketClient::Outcome SocketClient::send() {
  while (!answer.empty()) {
    const ssize_t size = ::send(fd.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return Outcome::kGoesOn;
    if (size < 0) return Outcome::kEnded;
    answer.erase(0, static_cast<std::size_t>(size));
  }
  return Outcome::kDone;
}

class SocketServer::State {
 public:
  State(const std::string& path, Handler handler)
      : acceptor_(loop_, cni::Listener(path),
                  {.accepted = [this](Fd fd) { take(std::move(fd)); },
                   .again = [](const std::string& at) { return cni::Listener(at); },
                   .lost = end_process}),
        answers_(std::move(handler),
                 [this](std::uint64_t number, std::string line) {
                   loop_.post([this, number, text = std::move(line)] { answer(number, text); });
                 }),
        thread_([this] {
          loop_.run([](const std::exception& e) {
            log(Level::kError, "serve the socket", {.error = e.what()});
          });
        }) {}
  ~State() {
    loop_.stop();
    thread_.join();
  }

 private:
  static void end_process(const std::exception& e) {
    log(Level::kError, "end, because nobody reaches the socket", {.error = e.what()});
    std::_Exit(EXIT_FAILURE);
  }

  void take(Fd fd) {
    const std::uint64_t number = next_++;
    SocketClient& client =
        clients_.emplace(number, SocketClient{.fd = std::move(fd)}).first->second;
    if (clients_.size() == kMaxConnections) acceptor_.pause();
    loop_.after(kLimit, &client, [this, number] { end(number); });
    loop_.watch(client.fd.get(), [this, number] { receive(number); });
    receive(number);  // the question is there by now, if the client is a plugin
  }

  void receive(std::uint64_t number) {
    SocketClient& client = clients_.at(number);
    const auto outcome = client.receive();
    if (outcome == SocketClient::Outcome::kGoesOn) return;
    if (outcome == SocketClient::Outcome::kEnded) return end(number);
    loop_.at(cni::kNever, &client, {});
    loop_.watch(
        client.fd.get(), [this, number] { end(number); }, 0);  // it hung up
    if (const auto line = answers_.ask(number, client.question)) answer(number, *line);
  }

  void answer(std::uint64_t number, const std::string& line) {
    const auto found = clients_.find(number);
    if (found == clients_.end()) return;  // the client did not wait
    SocketClient& client = found->second;
    client.answer = line;
    loop_.after(kLimit, &client, [this, number] { end(number); });
    loop_.watch(
        client.fd.get(), [this, number] { send(number); }, EPOLLOUT);
    send(number);
  }

  void send(std::uint64_t number) {
    if (clients_.at(number).send() != SocketClient::Outcome::kGoesOn) end(number);
  }

  void end(std::uint64_t number) {
    const auto found = clients_.find(number);
    loop_.at(cni::kNever, &found->second, {});
    loop_.forget(found->second.fd.get());
    clients_.erase(found);
    if (clients_.size() + 1 == kMaxConnections) acceptor_.resume();
  }

  EventLoop loop_;
  std::map<std::uint64_t, SocketClient> clients_ = {};
  std::uint64_t next_ = 0;
  cni::Acceptor acceptor_;
  Answers answers_;  // whose threads post to the loop
  std::thread thread_;
};

SocketServer::SocketServer(const std::string& path, Handler handler)
    : state_(std::make_unique<State>(path, std::move(handler))) {}

SocketServer::~SocketServer() = default;

}  // namespace devices
