#include <poll.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <deque>

#include "installer/identity.h"
#include "installer/options.h"
#include "libcni/common/undo.h"

namespace installer {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kQuiet{500};      // another installer has finished
constexpr milliseconds kUnseen{60'000};  // what inotify cannot tell, as a folder made anew
constexpr std::size_t kMaxPerHour = 10;

// SIGTERM and SIGINT as a file descriptor.
netlink::Fd end_signals() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  netlink::Fd out(::signalfd(-1, &ends, SFD_CLOEXEC));
  if (!out) throw netlink::Error("wait for signals", errno);
  return out;
}

netlink::Fd changes_of(const Options& options) {
  netlink::Fd out(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!out) throw netlink::Error("watch folders (fs.inotify.max_user_instances)", errno);
  constexpr std::uint32_t kEvents = IN_MOVE | IN_CREATE | IN_DELETE | IN_CLOSE_WRITE | IN_ATTRIB;
  ::inotify_add_watch(out.get(), options.dir.c_str(), kEvents);  // else kUnseen
  if (!options.conf.empty()) {
    ::inotify_add_watch(out.get(), options.conf_dir.c_str(), kEvents);
  }
  return out;
}

enum class Event { kChange, kTime, kEnd };

Event wait(const netlink::Fd& changes, const netlink::Fd& ends, milliseconds limit) {
  std::array<pollfd, 2> fds{pollfd{changes.get(), POLLIN, 0}, pollfd{ends.get(), POLLIN, 0}};
  const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(limit.count()));
  if (fds[1].revents != 0) return Event::kEnd;
  if (ready <= 0) return Event::kTime;
  std::array<char, 4096> events;
  while (::read(changes.get(), events.data(), events.size()) > 0) {
  }
  return Event::kChange;
}

bool is_changed(const Options& options) {
  const Folder folder = Folder::create(options.dir);
  const Identities found = identify(folder, options.names, Self::read());
  return std::any_of(found.begin(), found.end(),
                     [](const auto& one) { return one.second.kind != Identity::Kind::kSame; });
}

// At most kMaxPerHour: two installers that undo each other would keep the node busy.
class Limit {
 public:
  bool allows(const std::string& dir) {
    const auto now = Clock::now();
    while (!done_.empty() && now - done_.front() > std::chrono::hours(1)) done_.pop_front();
    const bool is_over = done_.size() == kMaxPerHour;
    if (is_over && !was_over_) {
      cni::note(cat("patchbay: ", dir, " was changed ", kMaxPerHour,
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

void put_back(const Options& options, Limit& limit) {
  if (!is_changed(options) || !limit.allows(options.dir)) return;
  cni::note(cat("patchbay: another program changed ", options.dir));
  install(options);
}

}  // namespace

Status watch(const Options& options) {
  const netlink::Fd ends = end_signals();
  install(options);
  Limit limit;
  for (;;) {
    const netlink::Fd changes = changes_of(options);  // before the look, so that none is missed
    try {
      put_back(options, limit);
    } catch (const std::exception& e) {
      cni::note(cat("patchbay: ", e.what()));
    }
    Event event = wait(changes, ends, kUnseen);
    while (event == Event::kChange) event = wait(changes, ends, kQuiet);
    if (event == Event::kEnd) return Status::kDone;
  }
}

}  // namespace installer
