#include "netlink/visibility.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <filesystem>

namespace netlink {

bool sees_all_processes() noexcept {
  constexpr ino_t kInitial = 0xEFFFFFFCU;  // PROC_PID_INIT_INO of linux/proc_ns.h
  struct stat own {};
  return ::stat("/proc/self/ns/pid", &own) == 0 && own.st_ino == kInitial;
}

bool may_be_own(const std::string& folder) noexcept {
  if (sees_all_processes()) return false;
  struct statx about {};
  if (::statx(AT_FDCWD, folder.c_str(), 0, STATX_TYPE, &about) != 0) return true;
  if ((about.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) return false;
  std::error_code closed;
  return std::filesystem::is_empty(folder, closed) || closed;
}

bool is_of_own_users(const NetNs& ns) noexcept {
  const Fd owner(::ioctl(ns.fd(), NS_GET_USERNS));  // ioctl_ns(2); EPERM: not one below its own
  struct stat its {};
  struct stat own {};
  return owner && ::fstat(owner.get(), &its) == 0 && ::stat("/proc/self/ns/user", &own) == 0 &&
         its.st_dev == own.st_dev && its.st_ino == own.st_ino;
}

}  // namespace netlink
