#include <sys/inotify.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>

#include "installer/identity.h"
#include "installer/options.h"
#include "libcni/common/undo.h"
#include "libcni/daemon/event_loop.h"
#include "libcni/daemon/folder_watch.h"
#include "libcni/daemon/log.h"

namespace installer {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kQuiet{500};      // another installer has finished
constexpr milliseconds kUnseen{60'000};  // what inotify cannot tell, as a folder made anew
constexpr std::size_t kMaxPerHour = 10;
constexpr std::uint32_t kEvents = IN_MOVE | IN_CREATE | IN_DELETE | IN_CLOSE_WRITE | IN_ATTRIB;

bool is_changed(const Options& options) {
  const Folder folder = Folder::create(options.dir);
  const Identities found = identify(folder, options.names, Self::read());
  return std::ranges::any_of(
      found, [](const auto& one) { return one.second.kind != Identity::Kind::kSame; });
}

// At most kMaxPerHour: two installers that undo each other would keep the node busy.
class Limit {
 public:
  bool allows(const std::string& dir) {
    const auto now = Clock::now();
    while (!done_.empty() && now - done_.front() > std::chrono::hours(1)) done_.pop_front();
    const bool is_over = done_.size() == kMaxPerHour;
    if (is_over && !was_over_) {
      cni::note(cat(dir, " was changed ", kMaxPerHour,
                    " times within an hour: another program installs plugins there, too"));
    }
    was_over_ = is_over;
    if (!is_over) done_.push_back(now);
    return !is_over;
  }

 private:
  std::deque<Clock::time_point> done_;
  bool was_over_ = false;
};

// Puts the names back whenever another program changes one.
class Watcher {
 public:
  explicit Watcher(const Options& options) : options_(options) {
    loop_.stop_on_signals();
    if (changes_.fd() < 0)
      throw netlink::Error("watch folders (fs.inotify.max_user_instances)", errno);
    loop_.watch(changes_.fd(), [this] {
      changes_.take();
      loop_.after(kQuiet, this, [this] { look(); });
    });
  }
  void run() {
    install(options_);
    cni::log_notes();  // who typed the command has read why it does not start
    loop_.post([this] { look(); });
    loop_.run([](const std::exception& e) { cni::note(e.what()); });
  }

 private:
  void look() {
    loop_.after(kUnseen, this, [this] { look(); });
    changes_.add(options_.dir);  // before the look, so that none is missed; else kUnseen
    if (!options_.conf.empty()) changes_.add(options_.conf_dir);
    if (!is_changed(options_) || !limit_.allows(options_.dir)) return;
    cni::note(cat("another program changed ", options_.dir));
    install(options_);
  }

  const Options& options_;
  cni::EventLoop loop_;
  cni::FolderWatch changes_{kEvents};
  Limit limit_;
};

}  // namespace

Status watch(const Options& options) {
  Watcher(options).run();
  return Status::kDone;
}

}  // namespace installer
