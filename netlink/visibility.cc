#include "netlink/visibility.h"

#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

namespace netlink {

bool sees_all_processes() noexcept {
  constexpr ino_t kInitial = 0xEFFFFFFCU;  // PROC_PID_INIT_INO of linux/proc_ns.h
  struct stat own {};
  return ::stat("/proc/self/ns/pid", &own) == 0 && own.st_ino == kInitial;
}

bool is_of_own_users(const NetNs& ns) noexcept {
  const Fd owner(::ioctl(ns.fd(), NS_GET_USERNS));  // ioctl_ns(2); EPERM: not one below its own
  struct stat its {};
  struct stat own {};
  return owner && ::fstat(owner.get(), &its) == 0 && ::stat("/proc/self/ns/user", &own) == 0 &&
         its.st_dev == own.st_dev && its.st_ino == own.st_ino;
}

}  // namespace netlink
