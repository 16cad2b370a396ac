#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plugins/devices/agent/owned.h"
#include "plugins/devices/ledger/entry.h"

/// Decisions about entries of the ledger, from what PodResources lists.
namespace devices {

/// A device that no pod has is free only if two looks, this many seconds apart, say so: a kubelet
/// that has just started lists nothing.
inline constexpr std::int64_t kSecondLook = 30;
/// A promise to a pod that never comes, in seconds, before these looks.
inline constexpr std::int64_t kPromiseLimit = 600;
/// How long, in seconds, ADD of the pod may not have claimed a promise before that is logged.
inline constexpr std::int64_t kClaimLimit = 30;

/// What becomes of an entry.
enum class Fate : std::uint8_t { kStays, kGetsPod, kIsFree };

/// Pods by device, from one list.
class Listing {
 public:
  explicit Listing(const std::vector<PodDevices>& listed);
  /// Null: no pod has the device.
  const PodDevices* owner_of(const Entry& entry) const;

 private:
  std::map<std::pair<std::string, std::string>, const PodDevices*> owners_;  // by ID and resource
};

/// Remembers what was not listed, between looks.
class Reconciler {
 public:
  /// \param now Unix time at which the list was asked for.
  Fate decide(const Entry& entry, const Listing& listing, std::int64_t now);
  /// Forgets devices without an entry. \param ids of all entries.
  void keep_only(const std::vector<Entry>& entries);

 private:
  std::map<std::string, std::int64_t> missed_since_;  // by id
};

}  // namespace devices
