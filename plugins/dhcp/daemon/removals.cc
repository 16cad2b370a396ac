// Removals beneath the daemon: of its folder, of namespaces.
#include <cerrno>
#include <filesystem>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "plugins/dhcp/daemon/daemon.h"

namespace dhcp {

namespace {

using cni::cat;

constexpr Time kLookAround = std::chrono::seconds(30);

}  // namespace

// An operator may remove or move the directory beneath the daemon, as by `rm -r /run/cni`: every
// ADD would fail, and another process would not know the leases of pods that live.
void Daemon::keep_folder() {
  cni::noting_failure("dhcp", [this] {
    if (!states_.is_removed()) return;
    cni::note(cat("'", states_.path(), "' was removed: it is created again, with all leases"));
    states_ = StateDir::create(states_.path());
    for (const auto& [file, entry] : entries_) {
      if (entry.waiting.empty()) states_.put(entry.attachment->state());
    }
  });
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
  loop_.after(kLookAround, this, [this] { look_around(); });
}

void Daemon::watch_directory_of(const std::string& netns) {
  const std::string directory = std::filesystem::path(netns).parent_path();
  if (directory.starts_with("/proc/") || removals_.fd() < 0 || removals_.add(directory)) return;
  cni::note(cat("watch '", directory, "': ", netlink::errno_text(errno)));
}

}  // namespace dhcp
