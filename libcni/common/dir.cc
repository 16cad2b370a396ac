#include "libcni/common/dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>

#include "netlink/types/error.h"

namespace cni {

namespace {

using netlink::cat;
using netlink::Fd;

constexpr mode_t kFileMode = 0600;
// More than any state of ours takes; a file that someone else put there is not read whole.
constexpr std::size_t kMaxRead = 4 * 1024 * 1024;

void make_parents(const std::string& path, mode_t mode) {
  for (std::size_t end = 1; end != std::string::npos && end < path.size();) {
    end = path.find('/', end + 1);
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), mode) != 0 && errno != EEXIST) {
      // Above what is ours mkdir may be refused (EROFS, EACCES) although the directory is there.
      const int error = errno;
      if (::access(part.c_str(), F_OK) != 0) throw netlink::Error(cat("mkdir ", part), error);
    }
  }
}

// EINVAL: the file system has nothing to sync.
void sync_file(int fd, const std::string& path) {
  if (::fsync(fd) != 0 && errno != EINVAL) throw netlink::Error(cat("fsync '", path, "'"), errno);
}

std::string text_of(const timespec& time) { return cat(time.tv_sec, ".", time.tv_nsec); }

}  // namespace

void Dir::fail(const char* verb, const std::string& name, int error) const {
  throw netlink::Error(cat(verb, " '", path_, "/", name, "'"), error);
}

std::optional<Dir> Dir::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd) return Dir(std::move(fd), path);
  if (errno == ENOENT) return std::nullopt;
  throw netlink::Error(cat("open '", path, "'"), errno);
}

Dir Dir::create(const std::string& path, unsigned mode) {
  if (auto there = open(path)) return std::move(*there);
  make_parents(path, mode);
  if (auto made = open(path)) return std::move(*made);
  throw netlink::Error(cat("open '", path, "'"), ENOENT);
}

bool Dir::exists(const std::string& path) noexcept {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0 || errno != ENOENT;
}

std::optional<Dir> Dir::sub(const std::string& name) const {
  Fd fd(::openat(fd_.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd) return Dir(std::move(fd), cat(path_, "/", name));
  if (errno == ENOENT) return std::nullopt;
  fail("open", name, errno);
}

std::optional<Dir> Dir::sub_or_link(const std::string& name) const {
  try {
    return sub(name);
  } catch (const netlink::Error& e) {
    if (e.error() != ENOTDIR && e.error() != ELOOP) throw;
  }
  // The descriptor keeps others from putting another link there between the look and its use.
  const Fd link(::openat(fd_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!link) fail("open", name, errno);
  struct stat info;
  if (::fstat(link.get(), &info) != 0) fail("look at", name, errno);
  if (!S_ISLNK(info.st_mode)) fail("open", name, ENOTDIR);
  if (info.st_uid != 0) fail("follow a link that is not root's,", name, ELOOP);
  char target[PATH_MAX];
  const ssize_t size = ::readlinkat(link.get(), "", target, sizeof target - 1);
  if (size < 0) fail("read", name, errno);
  target[size] = '\0';
  Fd fd(::openat(fd_.get(), target, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd) return Dir(std::move(fd), cat(path_, "/", name));
  if (errno == ENOENT) return std::nullopt;
  fail("open", name, errno);
}

Dir Dir::make_sub(const std::string& name, unsigned mode) const {
  if (auto there = sub(name)) return std::move(*there);
  if (::mkdirat(fd_.get(), name.c_str(), mode) != 0 && errno != EEXIST) {
    fail("make", name, errno);
  }
  if (auto made = sub(name)) return std::move(*made);
  fail("open", name, ENOENT);
}

std::vector<std::string> Dir::names() const {
  // A descriptor of its own: the position of the listing belongs to it.
  const int own = ::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) fail("list", ".", errno);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(own), ::closedir);
  if (!stream) {
    const Fd closer(own);
    fail("list", ".", errno);
  }
  std::vector<std::string> out;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(stream.get());
    if (entry == nullptr && errno != 0) fail("list", ".", errno);
    if (entry == nullptr) return out;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") out.emplace_back(name);
  }
}

bool Dir::has(const std::string& name) const {
  struct stat info;
  if (::fstatat(fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (errno == ENOENT) return false;
  fail("look at", name, errno);
}

bool Dir::has_file(const std::string& name) const {
  struct stat info;
  if (::fstatat(fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    return S_ISREG(info.st_mode);
  }
  if (errno == ENOENT) return false;
  fail("look at", name, errno);
}

bool Dir::is_removed() const {
  struct stat own, there;
  if (::fstat(fd_.get(), &own) != 0) fail("look at", ".", errno);
  if (::stat(path_.c_str(), &there) != 0) return errno == ENOENT;
  return own.st_dev != there.st_dev || own.st_ino != there.st_ino;
}

std::string Dir::changed() const {
  struct stat info;
  if (::fstat(fd_.get(), &info) != 0) fail("look at", ".", errno);
  return text_of(info.st_mtim);
}

std::optional<std::string> Dir::changed(const std::string& name) const {
  struct stat info;
  if (::fstatat(fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) {
    return S_ISDIR(info.st_mode) ? std::optional(text_of(info.st_mtim)) : std::nullopt;
  }
  if (errno == ENOENT) return std::nullopt;
  fail("look at", name, errno);
}

bool Dir::touch() const noexcept {
  timespec now;
  // UTIME_NOW would be as coarse as the time stamps that it is to be told from.
  if (::clock_gettime(CLOCK_REALTIME, &now) != 0) return false;
  const timespec times[2] = {{0, UTIME_OMIT}, now};
  return ::futimens(fd_.get(), times) == 0;
}

std::optional<File> Dir::read(const std::string& name) const {
  // O_NONBLOCK: a FIFO of that name must not hold up the node.
  const Fd fd(::openat(fd_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT || errno == ELOOP || errno == ENXIO) return std::nullopt;
    fail("open", name, errno);
  }
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) fail("look at", name, errno);
  if (!S_ISREG(info.st_mode)) return std::nullopt;
  File file{.content = {},
            .modified = info.st_mtime,
            .stamp = cat(info.st_ino, "@", text_of(info.st_mtim))};
  char buffer[4096];
  while (file.content.size() < kMaxRead) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("read", name, errno);
    file.content.append(buffer, static_cast<std::size_t>(n));
    if (static_cast<std::size_t>(n) < sizeof buffer) break;  // a regular file ends here
  }
  return file;
}

bool Dir::publish(const std::string& name, std::string_view content,
                  const std::string& aside) const {
  const Fd fd(::openat(fd_.get(), ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, kFileMode));
  // EOPNOTSUPP is the file system's answer, EISDIR that of a kernel that ignores the flag.
  if (!fd && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    return publish_aside(name, content, aside);
  }
  if (!fd) fail("make", name, errno);
  netlink::write_all(fd.get(), content, cat(path_, "/", name));
  if (::linkat(fd.get(), "", fd_.get(), name.c_str(), AT_EMPTY_PATH) == 0) return true;
  if (errno == EEXIST) return false;
  // The way by /proc takes longer, but AT_EMPTY_PATH needs CAP_DAC_READ_SEARCH before Linux 6.10.
  const std::string nameless = cat("/proc/self/fd/", fd.get());
  if (::linkat(AT_FDCWD, nameless.c_str(), fd_.get(), name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
    return true;
  }
  if (errno == EEXIST) return false;
  // No /proc; or no links, as link(2) says.
  if (errno == ENOENT || errno == EPERM) return publish_aside(name, content, aside);
  fail("make", name, errno);
}

void Dir::write_new(const std::string& aside, std::string_view content, bool synced) const {
  const Fd fd(::openat(fd_.get(), aside.c_str(),
                       O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                       kFileMode));
  if (!fd) fail("make", aside, errno);
  try {
    netlink::write_all(fd.get(), content, cat(path_, "/", aside));
    if (synced) sync_file(fd.get(), cat(path_, "/", aside));
  } catch (...) {  // a full disk: what is half written would take room for nothing
    ::unlinkat(fd_.get(), aside.c_str(), 0);
    throw;
  }
}

bool Dir::publish_aside(const std::string& name, std::string_view content,
                        const std::string& aside) const {
  write_new(aside, content);
  // Not every libc has the function and the name of its flag.
  constexpr unsigned kNoReplace = 1;  // RENAME_NOREPLACE
  if (::syscall(SYS_renameat2, fd_.get(), aside.c_str(), fd_.get(), name.c_str(), kNoReplace) == 0)
    return true;
  int error = errno;
  if (error == EINVAL || error == ENOSYS) {  // NFS knows no flags, but it has hard links
    error = ::linkat(fd_.get(), aside.c_str(), fd_.get(), name.c_str(), 0) == 0 ? 0 : errno;
  }
  remove(aside);
  if (error != 0 && error != EEXIST) fail("make", name, error);
  return error == 0;
}

void Dir::replace(const std::string& name, std::string_view content,
                  const std::string& aside) const {
  write_new(aside, content);
  rename_over(name, aside);
}

void Dir::replace_synced(const std::string& name, std::string_view content,
                         const std::string& aside) const {
  write_new(aside, content, /*synced=*/true);
  rename_over(name, aside);
  sync();
}

void Dir::rename_over(const std::string& name, const std::string& aside) const {
  if (::renameat(fd_.get(), aside.c_str(), fd_.get(), name.c_str()) == 0) return;
  const int error = errno;
  ::unlinkat(fd_.get(), aside.c_str(), 0);
  fail("replace", name, error);
}

void Dir::sync() const { sync_file(fd_.get(), path_); }

bool Dir::overwrite(const std::string& name, std::string_view content) const {
  const Fd fd(::openat(fd_.get(), name.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT || errno == ELOOP || errno == ENXIO || errno == EISDIR) return false;
    fail("open", name, errno);
  }
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) fail("look at", name, errno);
  if (!S_ISREG(info.st_mode) || info.st_nlink != 1 ||
      info.st_size > static_cast<off_t>(content.size())) {
    return false;
  }
  if (::pwrite(fd.get(), content.data(), content.size(), 0) !=
      static_cast<ssize_t>(content.size())) {
    fail("write", name, errno);
  }
  return true;
}

void Dir::append(const std::string& name, std::string_view content) const {
  const Fd fd(
      ::openat(fd_.get(), name.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) fail("open", name, errno);
  netlink::write_all(fd.get(), content, cat(path_, "/", name));
}

bool Dir::remove(const std::string& name) const {
  if (::unlinkat(fd_.get(), name.c_str(), 0) == 0) return true;
  const int error = errno;
  // The kernel asks a read-only file system first whether it can be written.
  if (error == ENOENT || (error == EROFS && !has(name))) return false;
  fail("remove", name, error);
}

bool Dir::make_link(const std::string& name, const std::string& target) const {
  if (::symlinkat(target.c_str(), fd_.get(), name.c_str()) == 0) return true;
  if (errno == EEXIST) return false;
  fail("make", name, errno);
}

std::optional<std::string> Dir::read_link(const std::string& name) const {
  char buffer[4096];  // PATH_MAX; a claim takes some 50
  const ssize_t n = ::readlinkat(fd_.get(), name.c_str(), buffer, sizeof buffer);
  if (n >= 0) return std::string(buffer, static_cast<std::size_t>(n));
  if (errno == ENOENT || errno == EINVAL) return std::nullopt;
  fail("read", name, errno);
}

void Dir::replace_link(const std::string& name, const std::string& target,
                       const std::string& aside) const {
  if (!make_link(aside, target)) {  // left by a kill
    remove(aside);
    make_link(aside, target);
  }
  if (::renameat(fd_.get(), aside.c_str(), fd_.get(), name.c_str()) != 0) {
    const int error = errno;
    remove(aside);
    fail("replace", name, error);
  }
}

void Dir::rename(const std::string& name, const std::string& to) const {
  if (::renameat(fd_.get(), name.c_str(), fd_.get(), to.c_str()) != 0) fail("rename", name, errno);
}

bool Dir::remove_dir(const std::string& name) const {
  if (::unlinkat(fd_.get(), name.c_str(), AT_REMOVEDIR) == 0) return true;
  if (errno == ENOENT || errno == ENOTEMPTY || errno == EEXIST) return false;
  fail("remove", name, errno);
}

std::vector<std::string> names_in(const std::string& path) try {
  const auto dir = Dir::open(path);
  auto names = dir ? dir->names() : std::vector<std::string>();
  std::ranges::sort(names);
  return names;
} catch (const netlink::Error&) {
  return {};
}

}  // namespace cni
