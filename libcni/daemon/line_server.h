#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "libcni/daemon/acceptor.h"
#include "libcni/daemon/event_loop.h"

namespace cni {

/// Answers lines on a socket of unix(7). A client may be hostile: it gets no more than a
/// connection, some seconds and some bytes, and is closed after one answer.
class LineServer {
 public:
  struct Limits {
    std::size_t connections = 64;             ///< others wait in the backlog
    std::size_t question = 64 * 1024;         ///< bytes; of a longer one the beginning is given
    BootTime time = std::chrono::seconds(5);  ///< to ask, and to read the answer
  };
  /// A question without its newline, in the loop. The answer may come later.
  using OnQuestion = std::function<void(std::uint64_t client, const std::string& line)>;

  /// Listens at path, in place of another instance that does. loop outlives it. on_lost: nobody
  /// reaches the socket any more (Acceptor::Handler::lost). \throws cni::Error, netlink::Error.
  LineServer(EventLoop& loop, const std::string& path, OnQuestion on_question,
             std::function<void(const std::exception&)> on_lost);
  void set_limits(const Limits& limits) { limits_ = limits; }

  /// Sends a line, with its newline, in the loop; nothing if the client did not wait.
  void answer(std::uint64_t client, const std::string& line);

 private:
  /// It asks, waits, and is answered.
  struct Client {
    netlink::Fd fd;
    std::string question = {};
    std::string answer = {};  ///< bytes to send
  };

  void take(netlink::Fd fd);
  void receive(std::uint64_t number);
  void send(std::uint64_t number);
  void end(std::uint64_t number);

  EventLoop& loop_;
  const OnQuestion on_question_;
  Limits limits_;
  std::map<std::uint64_t, Client> clients_;
  std::uint64_t next_ = 0;
  Acceptor acceptor_;
};

}  // namespace cni
