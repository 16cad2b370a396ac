// What others remove beneath the daemon: its folder, its socket, namespaces.
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "plugins/dhcp/daemon/daemon.h"

namespace dhcp {

namespace {

using cni::cat;

constexpr Time kLookAround = std::chrono::seconds(30);
constexpr Time kSocketCheck = std::chrono::seconds(3);

}  // namespace

// An operator may remove or move the directory beneath the daemon, as by `rm -r /run/cni`: every
// ADD would fail, and another process would not know the leases of pods that live.
void Daemon::keep_folder() {
  cni::noting_failure("dhcp", [this] {
    if (!states_.is_removed()) return;
    cni::note(
        cat("dhcp: '", states_.path(), "' was removed: it is created again, with all leases"));
    states_ = StateDir::create(states_.path());
    for (const auto& [file, entry] : entries_) {
      if (entry.waiting.empty()) states_.put(entry.attachment->state());
    }
  });
}

// The same for its socket: nobody reaches a daemon without one. In a container whose mount is that
// of the removed folder it cannot be made again, and another process is needed.
void Daemon::keep_socket() try {
  if (listener_.is_lost()) {
    cni::note(cat("dhcp: '", listener_.path, "' was removed: the daemon listens on it again"));
    listener_.lock.reset();  // it may be that of the path still
    listener_ = listen_on(listener_.path);
    server_.replace_listener(std::move(listener_.fd));
  }
  loop_.at(EventLoop::now() + kSocketCheck, &listener_, [this] { keep_socket(); });
} catch (const std::exception&) {
  failure_ = std::current_exception();
  loop_.stop();
}

// Removals are not always reported: a namespace may be no file in a directory (/proc/PID/ns/net),
// or inotify may not be available.
void Daemon::look_around() {
  for (auto& [file, entry] : entries_) {
    if (!entry.attachment->has_lost_namespace()) continue;
    loop_.at(EventLoop::now(), entry.attachment.get(), [this, name = file] {
      cni::note(cat(entries_.at(name).attachment->state().name(), ": its namespace was removed"));
      end(name);
    });
  }
  keep_folder();
  loop_.at(EventLoop::now() + kLookAround, this, [this] { look_around(); });
}

void Daemon::watch_directory_of(const std::string& netns) {
  const std::string directory = std::filesystem::path(netns).parent_path();
  if (!removals_ || directory.starts_with("/proc/")) return;
  const int number = ::inotify_add_watch(removals_.get(), directory.c_str(),
                                         IN_DELETE | IN_MOVED_FROM | IN_ONLYDIR);
  if (number < 0) cni::note(cat("dhcp: watch '", directory, "': ", netlink::errno_text(errno)));
}

void Daemon::hear_of_removals() {
  alignas(inotify_event) char buffer[8192];  // what was removed, a look at all says as well
  if (::read(removals_.get(), buffer, sizeof buffer) > 0) look_around();
}

}  // namespace dhcp
