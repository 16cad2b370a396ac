#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plugins/devices/agent/socket/server.h"

namespace devices {

/// Answers questions, at once or in threads. A line goes in, and a line comes out, each with the
/// number of its connection.
class Answers {
 public:
  /// Called by the threads.
  using OnAnswer = std::function<void(std::uint64_t number, std::string line)>;

  Answers(SocketServer::Handler handler, OnAnswer on_answer);
  /// Waits for answers that are under way; the other questions are dropped.
  ~Answers();
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  /// The answer; empty: a thread works on it.
  std::optional<std::string> ask(std::uint64_t number, const std::string& line);

 private:
  void run();

  const SocketServer::Handler handler_;
  const OnAnswer on_answer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::uint64_t, Question>> questions_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace devices
