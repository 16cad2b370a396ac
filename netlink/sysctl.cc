#include "netlink/sysctl.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace netlink {

namespace {

constexpr const char* kNet = "/proc/sys/net";

std::string path_of(const std::string& key) { return cat("/proc/sys/", key); }

std::string without_newline(std::string text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// Linux before 5.6 has no openat2(2): opens directory by directory.
Fd open_beneath_by_steps(int dir, std::string_view path, int flags) {
  Fd at;
  for (;;) {
    const auto slash = path.find('/');
    const bool is_last = slash == std::string_view::npos;
    const std::string name(path.substr(0, slash));
    if (name.empty() || name == "." || name == "..") {
      errno = EXDEV;
      return {};
    }
    const int how = is_last ? flags : O_PATH | O_DIRECTORY | O_CLOEXEC;
    Fd next(::openat(at ? at.get() : dir, name.c_str(), how | O_NOFOLLOW));
    if (!next || is_last) return next;
    at = std::move(next);
    path.remove_prefix(slash + 1);
  }
}

}  // namespace

std::optional<std::string> read_sysctl(const std::string& key) {
  auto text = read_file(path_of(key));
  if (!text) return text;
  return without_newline(*std::move(text));
}

void write_sysctl(const std::string& key, std::string_view value) {
  const std::string operation = cat("set sysctl ", key, "=", value);
  const Fd fd(::open(path_of(key).c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!fd) throw Error(operation, errno);
  try {
    write_all(fd.get(), value, key);
  } catch (const Error& e) {
    throw Error(operation, e.error());
  }
}

bool ensure_sysctl(const std::string& key, std::string_view value) {
  const auto now = read_sysctl(key);
  if (!now) return false;
  if (*now != value) write_sysctl(key, value);
  return true;
}

void try_write_sysctl(const std::string& key, std::string_view value) noexcept try {
  write_sysctl(key, value);
} catch (const std::exception&) {
  return;
}

bool try_sysctl(const std::string& key, std::string_view value) noexcept try {
  return ensure_sysctl(key, value);
} catch (const std::exception&) {
  return false;
}

NetSysctls::NetSysctls() : dir_(::open(kNet, O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  if (!dir_) throw Error(cat("open '", kNet, "'"), errno);
}

Fd NetSysctls::open(const std::string& key, int flags) const {
  open_how how{};
  how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  const long fd = ::syscall(SYS_openat2, dir_.get(), key.c_str(), &how, sizeof how);
  if (fd >= 0) return Fd(static_cast<int>(fd));
  if (errno != ENOSYS) return {};
  return open_beneath_by_steps(dir_.get(), key, flags | O_CLOEXEC);
}

bool NetSysctls::has(const std::string& key) const {
  if (open(key, O_PATH)) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  throw Error(cat("open sysctl net/", key), errno);
}

std::optional<std::string> NetSysctls::read(const std::string& key) const {
  const Fd fd = open(key, O_RDONLY);
  if (fd) return without_newline(read_all(fd.get(), cat(kNet, "/", key)));
  if (errno == ENOENT) return std::nullopt;
  throw Error(cat("read sysctl net/", key), errno);
}

void NetSysctls::write(const std::string& key, std::string_view value) const {
  const std::string operation = cat("set sysctl net/", key, "=", value);
  const Fd fd = open(key, O_WRONLY);
  if (!fd) throw Error(operation, errno);
  try {
    write_all(fd.get(), value.empty() ? std::string_view("\n") : value, key);
  } catch (const Error& e) {
    throw Error(operation, e.error());
  }
}

}  // namespace netlink
