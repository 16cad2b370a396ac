#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "netlink/types/fd.h"

namespace netlink {

/// Kernel settings under /proc/sys, of the network namespace that the thread is in. Keys are given
/// with slashes ("net/ipv6/conf/eth0.5/accept_ra"), so that dots in link names stay what they are.

/// The value without its newline; nothing where the key does not exist (IPv6 compiled out or off).
/// \throws Error otherwise.
std::optional<std::string> read_sysctl(const std::string& key);

/// \throws Error (operation "set KEY=VALUE").
void write_sysctl(const std::string& key, std::string_view value);

/// Writes unless the value is there already, so that a read-only /proc/sys with the right value
/// will do. False where the key does not exist. \throws Error where it cannot be written.
bool ensure_sysctl(const std::string& key, std::string_view value);

/// write_sysctl() for optional settings: a failure is ignored.
void try_write_sysctl(const std::string& key, std::string_view value) noexcept;

/// ensure_sysctl() for optional settings: a failure is ignored. True if the value holds.
bool try_sysctl(const std::string& key, std::string_view value) noexcept;

/// Settings whose keys others chose: looked up below /proc/sys/net alone. Neither "..", nor a
/// symbolic link, nor a mount leads out of it (openat2(2)). Of the namespace that the thread is in
/// at each call, which the kernel looks at when a name is looked up (proc_sys_lookup()).
class NetSysctls {
 public:
  /// \throws Error where there is no /proc/sys/net.
  NetSysctls();

  /// key: with slashes, and without "net/" ("ipv4/conf/eth0.5/arp_filter").
  /// \throws Error: ELOOP, EXDEV for a way out.
  bool has(const std::string& key) const;
  /// The value without its newline; nothing where the key does not exist.
  /// \throws Error: EACCES for one that can only be written; ELOOP, EXDEV for a way out.
  std::optional<std::string> read(const std::string& key) const;
  /// An empty value is written as a newline: no bytes would be no call of the kernel's.
  /// \throws Error (operation "set sysctl net/KEY=VALUE").
  void write(const std::string& key, std::string_view value) const;

 private:
  Fd open(const std::string& key, int flags) const;

  Fd dir_;
};

}  // namespace netlink
