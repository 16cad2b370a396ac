#include "kubernetes/list_watch.h"

#include <algorithm>
#include <random>
#include <utility>

#include "kubernetes/answer.h"

namespace kubernetes {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A server that ends each watch at once is asked as seldom as one that fails.
constexpr milliseconds kShortWatch{1000};

// Between the time and a fifth more, so that the agents of all nodes do not ask at once.
template <class Duration>
milliseconds jittered(Duration time) {
  thread_local std::minstd_rand random{std::random_device{}()};
  const auto whole = std::chrono::duration_cast<milliseconds>(time).count();
  std::uniform_int_distribution<milliseconds::rep> more(0,
                                                        std::max<milliseconds::rep>(whole / 5, 0));
  return milliseconds(whole + more(random));
}

}  // namespace

void ListWatch::run() {
  while (!client_.is_stopped()) {
    try {
      if (version_.empty() || lists_always_ || Clock::now() >= resync_at_) list();
      watch();
    } catch (const std::exception& e) {
      const auto* const answer = dynamic_cast<const ApiError*>(&e);
      if (answer == nullptr || answer->is_expired()) version_.clear();
      if (!client_.is_stopped()) pause_after(e);
    }
  }
}

void ListWatch::list() {
  if (skips_lists_) {
    version_ = "0";
    resync_at_ = Clock::now() + jittered(times_.resync);
    return;
  }
  const auto listed = handler_.items.take
                          ? Client::List{{}, client_.each(path_, query_, handler_.items)}
                          : client_.list(path_, query_);
  version_.clear();  // in case the handler throws
  listed_version_ = listed.resource_version;
  handler_.listed(listed.items);
  version_ = listed.resource_version;
  resync_at_ = Clock::now() + jittered(times_.resync);
}

void ListWatch::watch() {
  const auto rest = std::chrono::ceil<seconds>(resync_at_ - Clock::now());
  const seconds time = std::clamp(rest, seconds(1), std::max(times_.watch, seconds(1)));
  Query query = query_;
  query.emplace_back("watch", "true");
  query.emplace_back("allowWatchBookmarks", "true");
  query.emplace_back("resourceVersion", version_);
  query.emplace_back("timeoutSeconds", std::to_string(time.count()));
  const auto start = Clock::now();
  client_.stream(path_ + text_of(query), time + times_.grace,
                 [this](std::string_view line) { event(line); });
  if (Clock::now() - start >= std::min<milliseconds>(kShortWatch, time)) {
    pause_ = milliseconds(0);
  } else {
    client_.wait(next_pause());
  }
}

void ListWatch::event(std::string_view line) {
  const Event got = event_in("watch '" + path_ + "'", line);
  pause_ = milliseconds(0);
  if (got.kind != Event::Kind::kBookmark) {
    version_.clear();  // in case the handler throws
    (got.kind == Event::Kind::kRemoved ? handler_.removed : handler_.changed)(got.object);
  }
  version_ = got.resource_version;
}

milliseconds ListWatch::next_pause() {
  pause_ = std::clamp(2 * pause_, times_.first, times_.most);
  return jittered(pause_);
}

void ListWatch::pause_after(const std::exception& error) {
  milliseconds pause = next_pause();
  const auto* const answer = dynamic_cast<const ApiError*>(&error);
  if (answer != nullptr && answer->retry_after()) {
    pause = std::max(pause, jittered(*answer->retry_after()));
  }
  if (handler_.failed) handler_.failed(error, pause);
  const bool is_unauthorized = answer != nullptr && answer->is_unauthorized();
  is_unauthorized ? client_.wait_for_token(pause) : client_.wait(pause);
}

}  // namespace kubernetes
