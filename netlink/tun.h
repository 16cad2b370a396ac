#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "netlink/netns.h"
#include "netlink/types/fd.h"

/// Tap devices (Documentation/networking/tuntap.rst), which no netlink message creates: the ioctls
/// of /dev/net/tun do.
namespace netlink {

/// A tap to create: persistent, down, with the kernel's MTU and MAC address.
struct NewTap {
  std::string name;
  bool multi_queue = false;
  /// uid and gid that may attach to it besides CAP_NET_ADMIN. Without both everybody may who can
  /// open /dev/net/tun in the namespace (tun_not_capable() in drivers/net/tun.c).
  std::optional<std::uint32_t> owner = {}, group = {};
  std::string selinux_context = {};  ///< label of the device's sockets; empty: this process's
};

/// The flags of TUNSETIFF that a new tap is made with (linux/if_tun.h): Ethernet frames without
/// packet information, each behind a virtio-net header. Fails where the name is taken.
std::uint16_t tap_flags(bool multi_queue);

/// An open /dev/net/tun, which belongs to the network namespace that it was opened in.
class TunFile {
 public:
  /// \throws Error: ENOENT, ENODEV or ENXIO without device node or driver; EOPNOTSUPP where the
  /// driver cannot make such devices.
  explicit TunFile(const NetNs& where);

  /// Once. A link with the name stays as it is. \throws Error: EBUSY for a taken name; EPERM
  /// without CAP_NET_ADMIN; "failed set socket label: ..." where selinux_context cannot be set.
  /// Nothing is left of a tap after that, nor when the process dies before the end.
  void create(const NewTap& spec);

 private:
  Fd fd_;
};

/// Whether the kernel runs with SELinux: a list of file systems (/proc/filesystems) says so.
bool lists_selinux(std::string_view filesystems);
/// The same, asked of the kernel. \throws Error.
bool has_selinux();

}  // namespace netlink
