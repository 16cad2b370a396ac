#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
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
/// - those whose owner was noted in an earlier boot of this machine, and not in this one, and empty
///   or torn files in their place;
/// - of those of which nothing is noted: torn ones; and, where no other machine uses the store,
/// those
///   from more than a minute before the boot that are empty or surely a lease (the reference's).
/// Any other text is what an operator wrote: it stays. So does what another machine has noted, and
/// an owner of whom libcni's cache names a network namespace that exists.
Survey survey(const Store& store, const std::vector<Ip>& ips);

/// Whether a file was left by a write that a kill or a power loss ended.
bool is_torn(std::string_view content);
bool is_empty(std::string_view content);

/// Frees what is dead among ips, and notes each on stderr. Needs the store's lock.
Survey reclaim(const Store& store, const std::vector<Ip>& ips);

/// The longest-standing holders, as "10.1.0.2: 'ID' 'eth0' for 3 h", at most three.
std::string oldest(const Survey& survey);

}  // namespace host_local
