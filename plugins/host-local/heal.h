#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "plugins/host-local/store.h"

namespace host_local {

/// A reservation that was looked at.
struct Found {
  Ip ip;
  std::string owner;           ///< for messages
  std::optional<Owner> named;  ///< whose DEL frees it
  std::time_t modified = 0;    ///< seconds since the epoch
  std::vector<OwnerIndex::Entry> entries;
};

/// What a look at reservations found.
struct Survey {
  std::vector<Found> dead;    ///< nobody's, or of before the last boot
  std::vector<Found> living;  ///< oldest first
};

/// Reads the reservations of ips and tells the dead from the living. Dead are
/// - files that are no record (empty, torn, garbage), unless an owner of this boot is noted for
/// them;
/// - those whose owner was noted in an earlier boot, and not in this one;
/// - those of which nothing is noted (the reference made them), if they are from more than a minute
///   before the boot.
/// An owner of whom libcni's cache names a network namespace that exists lives in any case.
Survey survey(const Store& store, const std::vector<Ip>& ips);

/// Frees what is dead among ips, and notes each on stderr. Needs the store's lock.
Survey reclaim(const Store& store, const std::vector<Ip>& ips);

/// The longest-standing holders, as "10.1.0.2: 'ID' 'eth0' for 3 h", at most three.
std::string oldest(const Survey& survey);

}  // namespace host_local
