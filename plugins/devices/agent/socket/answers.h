#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "netlink/types/fd.h"
#include "plugins/devices/agent/socket/server.h"

namespace devices {

/// Answers questions, at once or in threads. A line goes in, and a line comes out, each with the
/// number of its connection.
class Answers {
 public:
  using Line = std::pair<std::uint64_t, std::string>;

  explicit Answers(SocketServer::Handler handler);
  /// Waits for answers that are under way; the other questions are dropped.
  ~Answers();
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  /// The answer; empty: a thread works on it.
  std::optional<std::string> ask(const Line& question);
  /// Those of the threads that are ready.
  std::vector<Line> take();
  /// Readable if there are some.
  int fd() const { return ready_.get(); }

 private:
  void run();

  const SocketServer::Handler handler_;
  netlink::Fd ready_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::uint64_t, Question>> questions_;
  std::vector<Line> answers_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace devices
