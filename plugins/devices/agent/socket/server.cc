#include "plugins/devices/agent/socket/server.h"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "plugins/devices/agent/log.h"
#include "plugins/devices/protocol/message.h"

namespace devices {

namespace {

using netlink::Fd;

constexpr std::size_t kMaxConnections = 64;  // others wait in the backlog
// For the question to arrive, and for the answer to leave.
constexpr cni::BootTime kLimit = std::chrono::seconds(5);
// An answer waits for the kubelet, which takes some of them at once only.
constexpr std::size_t kThreads = 4;

// The kubelet is asked also where the ledger has devices of a pod of that name. It alone knows
// whether this is that pod or its successor without devices, for which there was no Allocate.
Answer claim(Core& core, PodResources& pods, const Pod& pod, const Unlisted& unlisted) {
  const auto known = pods.get(pod.space, pod.name);
  // A kubelet that has just started: a runtime goes on with what the earlier one has asked for.
  if (!known) {
    throw cni::Error(cni::Code::kTryAgainLater,
                     cni::cat("claim devices for ", pod.str(), ": the kubelet does not know it"),
                     "it has just started, or the pod was removed");
  }
  std::vector<Owned> owned = known->devices;
  if (unlisted) {
    for (Owned& one : unlisted(pod, known->devices)) owned.push_back(std::move(one));
  }
  return {.devices = core.claim(pod, owned, known->claims)};
}

Answer status(const Core& core) {
  Answer out;
  for (const Count& one : core.counts()) {
    out.resources.push_back({one.resource, static_cast<std::int64_t>(one.devices),
                             static_cast<std::int64_t>(one.healthy), one.is_read});
  }
  if (const auto slices = core.slices()) {
    out.slices = {slices->generation, slices->slices, slices->devices, slices->error};
  }
  return out;
}

// A line; an error where the function throws.
template <class Fn>
std::string line_by(Verb verb, Fn&& fn) {
  Answer answer;
  try {
    answer = cni::as_error(fn);
  } catch (const cni::Error& e) {
    answer.error = e;
  }
  return line_of(verb, answer);
}

void end_process(const std::exception& e) {
  log(Level::kError, "end, because nobody reaches the socket", {.error = e.what()});
  std::_Exit(EXIT_FAILURE);
}

}  // namespace

SocketServer::SocketServer(const std::string& path, Core& core, PodResources& pods,
                           Unlisted unlisted)
    : core_(core),
      pods_(pods),
      unlisted_(std::move(unlisted)),
      acceptor_(loop_, cni::Listener(path),
                {.accepted = [this](Fd fd) { take(std::move(fd)); },
                 .again = [](const std::string& at) { return cni::Listener(at); },
                 .lost = end_process}),
      workers_(kMaxConnections, kThreads),
      thread_([this] {
        loop_.run([](const std::exception& e) {
          log(Level::kError, "serve the socket", {.error = e.what()});
        });
      }) {}

SocketServer::~SocketServer() {
  is_stopping_ = true;  // questions that wait are dropped
  workers_.stop();
  loop_.stop();
  thread_.join();
}

void SocketServer::take(Fd fd) {
  const std::uint64_t number = next_++;
  Client& client = clients_.emplace(number, Client{.fd = std::move(fd)}).first->second;
  if (clients_.size() == kMaxConnections) acceptor_.pause();
  loop_.after(kLimit, &client, [this, number] { end(number); });
  loop_.watch(client.fd.get(), [this, number] { receive(number); });
  receive(number);  // the question is there by now, if the client is a plugin
}

// A longer one than allowed is no question.
void SocketServer::receive(std::uint64_t number) {
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
    is_whole = newline != piece.npos || client.question.size() > kMaxQuestion;
  }
  loop_.at(cni::kNever, &client, {});
  loop_.watch(
      client.fd.get(), [this, number] { end(number); }, 0);  // it hung up
  ask(number, client.question);
}

// An answer that waits for the kubelet comes from another thread.
void SocketServer::ask(std::uint64_t number, const std::string& line) {
  Question question;
  bool is_later = false;
  const std::string text = line_by(question.verb, [&] {
    question = question_in(line);
    is_later = question.verb != Verb::kClaim || core_.concerns(question.pod);
    return Answer{};
  });
  if (!is_later) return answer(number, text);
  workers_.post_always([this, number, question] {
    if (is_stopping_) return;
    std::string late = line_by(question.verb, [&] {
      return question.verb == Verb::kClaim ? claim(core_, pods_, question.pod, unlisted_)
                                           : status(core_);
    });
    loop_.post([this, number, text = std::move(late)] { answer(number, text); });
  });
}

void SocketServer::answer(std::uint64_t number, const std::string& line) {
  const auto found = clients_.find(number);
  if (found == clients_.end()) return;  // the client did not wait
  Client& client = found->second;
  client.answer = line;
  loop_.after(kLimit, &client, [this, number] { end(number); });
  loop_.watch(
      client.fd.get(), [this, number] { send(number); }, EPOLLOUT);
  send(number);
}

void SocketServer::send(std::uint64_t number) {
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

void SocketServer::end(std::uint64_t number) {
  const auto found = clients_.find(number);
  loop_.at(cni::kNever, &found->second, {});
  loop_.forget(found->second.fd.get());
  clients_.erase(found);
  if (clients_.size() + 1 == kMaxConnections) acceptor_.resume();
}

}  // namespace devices
