#include "netlink/sysctl.h"

#include <fcntl.h>

#include <cerrno>

#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace netlink {

namespace {

std::string path_of(const std::string& key) { return cat("/proc/sys/", key); }

}  // namespace

std::optional<std::string> read_sysctl(const std::string& key) {
  auto text = read_file(path_of(key));
  if (text && !text->empty() && text->back() == '\n') text->pop_back();
  return text;
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

}  // namespace netlink
