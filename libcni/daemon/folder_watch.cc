#include "libcni/daemon/folder_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace cni {

namespace {

constexpr int kMostReads = 64;

}  // namespace

FolderWatch::FolderWatch(std::uint32_t events)
    : events_(events), fd_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)), error_(fd_ ? 0 : errno) {}

bool FolderWatch::add(const std::string& folder) {
  if (!fd_) {
    errno = error_;
    return false;
  }
  const int watch = ::inotify_add_watch(fd_.get(), folder.c_str(), events_ | IN_ONLYDIR);
  if (watch >= 0) watches_.insert(watch);
  return watch >= 0;
}

bool FolderWatch::is_new(const std::string& folder) {
  const auto before = watches_.size();
  return add(folder) && watches_.size() != before;
}

std::optional<std::vector<std::string>> FolderWatch::take() {
  std::vector<std::string> out;
  bool is_complete = true;
  alignas(inotify_event) std::array<char, 16384> buffer{};
  for (int n = 0; fd_; ++n) {
    // Another process may make and remove names without an end.
    if (n == kMostReads) return std::nullopt;
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    for (std::size_t at = 0; at + sizeof(inotify_event) <= static_cast<std::size_t>(got);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      const char* const name = buffer.data() + at + sizeof event;
      is_complete = is_complete && (event.mask & (IN_Q_OVERFLOW | IN_IGNORED)) == 0;
      if ((event.mask & IN_IGNORED) != 0) watches_.erase(event.wd);
      if (event.len > 0) out.emplace_back(name, ::strnlen(name, event.len));
      at += sizeof event + event.len;
    }
  }
  return is_complete ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace cni
