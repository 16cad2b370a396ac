#include "libcni/daemon/line_server.h"

#include <sys/socket.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace cni {

LineServer::LineServer(EventLoop& loop, const std::string& path, OnQuestion on_question,
                       std::function<void(const std::exception&)> on_lost)
    : loop_(loop),
      on_question_(std::move(on_question)),
      acceptor_(loop, Listener(path),
                {.accepted = [this](netlink::Fd fd) { take(std::move(fd)); },
                 .again = [](const std::string& at) { return Listener(at); },
                 .lost = std::move(on_lost)}) {}

void LineServer::take(netlink::Fd fd) {
  const std::uint64_t number = next_++;
  Client& client = clients_.emplace(number, Client{.fd = std::move(fd)}).first->second;
  if (clients_.size() == limits_.connections) acceptor_.pause();
  loop_.after(limits_.time, &client, [this, number] { end(number); });
  loop_.watch(client.fd.get(), [this, number] { receive(number); });
  receive(number);  // the question is there by now, if the client is a plugin
}

// A longer one than allowed is no question.
void LineServer::receive(std::uint64_t number) {
  Client& client = clients_.at(number);
  char buffer[8192];
  for (bool is_whole = false; !is_whole;) {
    const ssize_t size = ::recv(client.fd.get(), buffer, sizeof buffer, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) return end(number);
    const std::string_view piece(buffer, static_cast<std::size_t>(size));
    const auto newline = piece.find('\n');
    client.question += piece.substr(0, newline);
    is_whole = newline != piece.npos || client.question.size() > limits_.question;
  }
  loop_.at(kNever, &client, {});
  loop_.watch(
      client.fd.get(), [this, number] { end(number); }, 0);  // it hung up
  const std::string question = std::move(client.question);   // the answer ends the client
  on_question_(number, question);
}

void LineServer::answer(std::uint64_t number, const std::string& line) {
  const auto found = clients_.find(number);
  if (found == clients_.end()) return;
  Client& client = found->second;
  client.answer = line;
  loop_.after(limits_.time, &client, [this, number] { end(number); });
  loop_.watch(
      client.fd.get(), [this, number] { send(number); }, EPOLLOUT);
  send(number);
}

void LineServer::send(std::uint64_t number) {
  Client& client = clients_.at(number);
  while (!client.answer.empty()) {
    const ssize_t size =
        ::send(client.fd.get(), client.answer.data(), client.answer.size(), MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size < 0) break;
    client.answer.erase(0, static_cast<std::size_t>(size));
  }
  end(number);
}

void LineServer::end(std::uint64_t number) {
  const auto found = clients_.find(number);
  loop_.at(kNever, &found->second, {});
  loop_.forget(found->second.fd.get());
  clients_.erase(found);
  if (clients_.size() + 1 == limits_.connections) acceptor_.resume();
}

}  // namespace cni
