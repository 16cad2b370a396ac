#include "plugins/devices/agent/kubelet/folder_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "netlink/types/error.h"

namespace devices {

FolderWatch::FolderWatch(std::vector<std::string> folders)
    : folders_(std::move(folders)),
      inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) throw netlink::Error("make an eventfd", errno);
}

void FolderWatch::wait(std::chrono::milliseconds most) {
  if (add_watches()) most = std::chrono::milliseconds(0);
  std::array<pollfd, 2> fds{
      {{wake_.get(), POLLIN, 0}, {inotify_.get(), POLLIN, 0}}};  // -1 is passed over
  ::poll(fds.data(), fds.size(), static_cast<int>(most.count()));
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(wake_.get(), &count, sizeof count);
  drain();
}

// Each time: it costs nothing for a folder that is watched, and finds one that was made anew.
// Whether there is such a folder.
bool FolderWatch::add_watches() {
  constexpr std::uint32_t kEvents =
      IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
  bool out = false;
  for (const std::string& folder : folders_) {
    const int watch = ::inotify_add_watch(inotify_.get(), folder.c_str(), kEvents);
    out = (watch >= 0 && watches_.insert(watch).second) || out;
  }
  return out;
}

void FolderWatch::drain() {
  std::array<char, 4096> buffer{};
  // A bound: another process may create and remove names without end.
  for (int n = 0; n < 64 && inotify_; ++n) {
    if (::read(inotify_.get(), buffer.data(), buffer.size()) <= 0) return;
  }
}

void FolderWatch::wake() const noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto put = ::write(wake_.get(), &one, sizeof one);
}

}  // namespace devices
