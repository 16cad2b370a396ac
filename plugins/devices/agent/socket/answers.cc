#include "plugins/devices/agent/socket/answers.h"

#include <utility>

#include "libcni/common/error.h"

namespace devices {

namespace {

// An answer waits for the kubelet, which takes some of them at once only.
constexpr std::size_t kThreads = 4;

// A line; an error where the function throws.
std::string answer_to(const Question& question, const std::function<Answer(const Question&)>& of) {
  Answer answer;
  try {
    answer = cni::as_error([&] { return of(question); });
  } catch (const cni::Error& e) {
    answer.error = e;
  }
  return line_of(question.verb, answer);
}

}  // namespace

Answers::Answers(SocketServer::Handler handler, OnAnswer on_answer)
    : handler_(std::move(handler)), on_answer_(std::move(on_answer)) {
  for (std::size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { run(); });
}

Answers::~Answers() {
  {
    const std::lock_guard hold(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& one : threads_) one.join();
}

std::optional<std::string> Answers::ask(std::uint64_t number, const std::string& line) {
  Question question;
  try {
    const auto answer = cni::as_error([&] {
      question = question_in(line);
      return handler_.at_once(question);
    });
    if (answer) return line_of(question.verb, *answer);
  } catch (const cni::Error& e) {
    return line_of(question.verb, Answer{.error = e});
  }
  {
    const std::lock_guard hold(mutex_);
    questions_.emplace_back(number, std::move(question));
  }
  changed_.notify_one();
  return std::nullopt;
}

void Answers::run() {
  std::unique_lock hold(mutex_);
  for (;;) {
    changed_.wait(hold, [&] { return stopping_ || !questions_.empty(); });
    if (stopping_) return;
    const auto [number, question] = std::move(questions_.front());
    questions_.pop_front();
    hold.unlock();
    on_answer_(number, answer_to(question, handler_.later));
    hold.lock();
  }
}

}  // namespace devices
