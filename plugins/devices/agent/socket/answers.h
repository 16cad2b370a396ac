#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "netlink/types/fd.h"
#include "plugins/devices/agent/socket/server.h"

namespace devices {

/// Threads that answer questions. A line goes in, and a line comes out, each with the number of its
/// connection.
class Answers {
 public:
  using Line = std::pair<std::uint64_t, std::string>;

  explicit Answers(SocketServer::Handler handler);
  /// Waits for answers that are under way; the other questions are dropped.
  ~Answers();
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  void ask(Line question);
  /// Those that are ready.
  std::vector<Line> take();
  /// Readable if there are some.
  int fd() const { return ready_.get(); }

 private:
  void run();

  const SocketServer::Handler handler_;
  netlink::Fd ready_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Line> questions_;
  std::vector<Line> answers_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

/// The answer to a line: an error where it is no question, or where the handler throws.
std::string answer_to(const std::string& line, const SocketServer::Handler& handler);

}  // namespace devices
