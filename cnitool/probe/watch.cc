#include <poll.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "cnitool/probe/report.h"
#include "libcni/common/error.h"

namespace tool::probe {

namespace {

using doctor::Level;
using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

/// A question that fails, or what else is wrong.
struct Trouble {
  std::string answer, cause;
  bool operator==(const Trouble&) const = default;
};
using Troubles = std::map<std::string, Trouble>;

Troubles troubles_in(const Outcome& outcome) {
  Troubles out;
  for (const Asked& one : outcome.questions) {
    if (one.level == Level::kError) out[one.text] = {one.answer, one.cause};
  }
  for (const doctor::Finding& one : outcome.findings) {
    if (one.lines.empty()) out[one.what] = {};
  }
  return out;
}

/// Prints changes, each with the time at which it was seen.
class Diary {
 public:
  explicit Diary(const Output& output) : output_(output) {}

  void begin(const Outcome& outcome) const {
    const std::size_t all = outcome.questions.size(), answered = outcome.count(Level::kOk);
    const std::size_t errors = outcome.findings.size();
    write({{"asked", all}, {"answered", answered}, {"errors", errors}},
          cat(counted(all, "question"), ", ", answered, " answered, ", counted(errors, "error")));
  }
  void change(const char* level, const std::string& question, const Trouble& now) const {
    ordered_json line{{"level", level}, {"question", question}};
    std::string text =
        cat(level, std::string(kWidth - std::string_view(level).size(), ' '), question);
    if (!now.answer.empty()) {
      line["answer"] = now.answer;
      line["cause"] = now.cause;
      text += cat(": ", now.answer, ": ", now.cause);
    }
    write(line, text);
  }
  bool is_closed() const { return !output_.out; }

 private:
  static constexpr std::size_t kWidth = 6;

  static std::string time() {
    char text[32] = {};
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    std::strftime(text, sizeof text, "%FT%TZ", &parts);
    return text;
  }
  void write(const ordered_json& line, const std::string& text) const {
    if (output_.json) {
      ordered_json out{{"time", time()}};
      out.update(line);
      output_.out << out.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
    } else {
      output_.out << time() << ' ' << text << '\n';
    }
    output_.out.flush();
  }

  const Output& output_;
};

void compare(const Troubles& before, const Outcome& outcome, const Diary& diary) {
  const Troubles now = troubles_in(outcome);
  std::map<std::string, const Asked*> asked;
  for (const Asked& one : outcome.questions) asked.emplace(one.text, &one);
  for (const auto& [question, trouble] : now) {
    const auto was = before.find(question);
    if (was != before.end() && was->second == trouble) continue;
    diary.change("error", question, trouble);
  }
  for (const auto& [question, trouble] : before) {
    if (now.contains(question)) continue;
    const bool is_gone = !trouble.answer.empty() && !asked.contains(question);
    diary.change(is_gone ? "gone" : "ok", question, {});
  }
}

// False: the user wants an end.
bool wait(int stop_fd, Clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  pollfd stop{stop_fd, POLLIN, 0};
  return ::poll(&stop, 1, static_cast<int>(std::max<long>(left, 0))) <= 0;
}

// A pod that was named may be between two of its containers.
Outcome round(const Settings& settings, const Options& options, bool is_first) {
  try {
    return probe(settings, options);
  } catch (const cni::Error& e) {
    if (is_first || e.code() != cni::Code::kUnknownContainer) throw;
    return Outcome{.findings = {{.level = Level::kError, .what = e.what()}}};
  }
}

}  // namespace

bool watch(const Settings& settings, const Options& options, const Output& output) {
  const Diary diary(output);
  Troubles before;
  bool is_fine = true;
  for (bool is_first = true;; is_first = false) {
    const auto next = Clock::now() + std::chrono::seconds(options.interval);
    const auto outcome = round(settings, options, is_first);
    if (outcome.is_whole) {
      if (is_first) diary.begin(outcome);
      compare(before, outcome, diary);
      before = troubles_in(outcome);
      is_fine = outcome.findings.empty();
    }
    if (!wait(options.stop_fd, next) || diary.is_closed()) return is_fine;
  }
}

}  // namespace tool::probe
