#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/state/ledger_entry.h"

/// Decisions about entries of the ledger, from the kubelet's PodResources.
namespace devices {

/// Devices of one resource that a pod has.
struct Owned {
  std::string resource;
  std::vector<std::string> ids;
  bool operator==(const Owned&) const = default;
};

/// A device of a claim that a pod has.
struct ListedClaim {
  std::string space, name;    ///< of the claim
  std::string device, share;  ///< as the ResourceSlice and the allocation name it
  bool operator==(const ListedClaim&) const = default;
};

/// A pod of the node, by namespace and name: PodResources has no UID.
struct PodDevices {
  std::string space, name;
  std::vector<Owned> devices;            ///< of all its containers
  std::vector<ListedClaim> claims = {};  ///< and their claims of DRA
  bool operator==(const PodDevices&) const = default;
};

using Entries = std::map<std::string, Entry>;  ///< by the device's ID

/// A device that no pod has is free only if two looks, this far apart, say so: a kubelet that has
/// just started lists nothing.
inline constexpr std::chrono::seconds kSecondLook{30};
/// A promise to a pod that never comes, before these looks.
inline constexpr std::chrono::seconds kPromiseLimit{600};
/// Until a promise that ADD of the pod has not claimed is logged.
inline constexpr std::chrono::seconds kClaimLimit{30};

/// By the clock of EventLoop.
Moment moment_now();

/// Pods by device, from one list, which outlives it.
class Listing {
 public:
  explicit Listing(const std::vector<PodDevices>& listed);
  /// Null: no pod has the device.
  const PodDevices* owner_of(const Entry& entry) const;

 private:
  std::map<std::pair<std::string, std::string>, const PodDevices*> owners_;  // by ID and resource
};

enum class Fate : std::uint8_t { kStays, kGetsTime, kGetsPod, kIsFree };

/// Remembers between looks what was not listed, and what was logged. How old a promise is says the
/// entry: an agent that is restarted again and again frees it, too.
class Reconciler {
 public:
  /// \param now when the list was asked for.
  Fate decide(const Entry& entry, const Listing& listing, const Moment& now);
  /// Whether no ADD has claimed the promise for long. Once for each promise.
  bool is_overdue(const Entry& entry, const Moment& now);
  /// Forgets devices without an entry.
  void keep_only(const Entries& entries);

 private:
  struct Seen {
    std::int64_t promised;        ///< of the entry: a later Allocate has another time,
    std::optional<Moment> since;  ///< also within the second
    std::optional<std::int64_t> missed_since = {};  ///< Moment::boot_time
    bool is_reported = false;
  };
  Seen& look_at(const Entry& entry);

  std::map<std::string, Seen> seen_;  // by ID
};

}  // namespace devices
