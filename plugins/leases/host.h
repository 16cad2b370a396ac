#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "plugins/names/state.h"

namespace leases {

/// The plugin whose format the leases have.
inline constexpr std::string_view kHostLocal = "host-local";

/// Stands for the boot where the system does not tell its ID, and for that of a reservation that
/// was found and may be another machine's; nothing is ever older than it.
inline constexpr std::string_view kUnknownBoot = "unknown";
/// Stands for the boot of a reservation that was found, not made, and is from before this boot.
inline constexpr std::string_view kEarlierBoot = "earlier";
/// Stands for a machine without machine-id(5).
inline constexpr std::string_view kUnknownMachine = "unknown";

/// The boot and the machine of a reservation: others are of an earlier boot, or of another machine
/// that shares the store.
struct Host {
  std::string boot_id;
  std::string cache_dir = names::kResultsDir;    ///< libcni's result cache
  std::string stat_file = "/proc/stat";          ///< read when something is to be reclaimed
  std::string machine_file = "/etc/machine-id";  ///< read once a boot, and then as stat_file
  std::string_view plugin = kHostLocal;          ///< that is run, for messages

  static Host current(std::string_view plugin = kHostLocal);
  /// The same for GC, which would leave all leases and succeed where it could not tell whose they
  /// are. \throws netlink::Error where an ID exists and cannot be read.
  static Host known(std::string_view plugin = kHostLocal);
  /// Seconds since the epoch; nothing where the system does not tell.
  std::optional<std::time_t> boot_time() const;
  /// CNI_NETNS in a file of libcni's cache. Empty: none, or one that cannot be read.
  std::optional<std::string> cached_netns(const std::string& name) const;
  /// Cut from a hash of the machine's ID, which machine-id(5) wants to be kept from others.
  std::string machine() const;
};

}  // namespace leases
