#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/leases/store.h"

namespace leases {

/// A lease file that survey() read.
struct Found {
  Ip ip;
  std::string owner;           ///< for messages
  std::optional<Owner> named;  ///< whose DEL releases it
  std::time_t modified = 0;    ///< seconds since the epoch
  std::vector<OwnerIndex::Entry> entries;
};

/// The result of survey().
struct Survey {
  std::vector<Found> dead;    ///< stale: incomplete, or from before the last boot
  std::vector<Found> living;  ///< oldest first
};

/// Reads the lease files of ips and finds the stale ones ("dead"):
/// - with an index entry of an earlier boot of this machine and none of this boot, also where the
///   file is now empty or incomplete;
/// - without an index entry: incomplete files; and, if no other machine uses the store, empty files
///   and leases (of the reference plugin) that are more than a minute older than the boot.
/// Any other text is an operator's and stays. So do another machine's leases, and those of an owner
/// whose network namespace, named in libcni's cache, exists.
Survey survey(const Store& store, const std::vector<Ip>& ips);

/// Whether a kill or a power loss interrupted the write of the file.
bool is_torn(std::string_view content);
bool is_empty(std::string_view content);

/// Releases the stale leases among ips, and logs each to stderr. Needs the store's lock.
Survey reclaim(const Store& store, const std::vector<Ip>& ips);

/// The longest-standing holders, as "10.1.0.2: 'ID' 'eth0' for 3 h", at most three.
std::string oldest(const Survey& survey);

}  // namespace leases
