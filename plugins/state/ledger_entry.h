#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/state/owner.h"

/// An entry of the ledger: which pod a device is promised to, and which attachment has it. Each has
/// a file of its own. patchbay-agent writes the promise, as the kubelet's API says, the plugin
/// `devices` the holder; ADD also adds the UID of the pod to the promise.
namespace devices {

using plugins::StateOwner;

/// A pod of Kubernetes. uid is empty where PodResources, which has none, is all that is known.
struct Pod {
  std::string space, name, uid = {};
  bool operator==(const Pod&) const = default;

  bool has_name_of(const Pod& other) const { return space == other.space && name == other.name; }
  /// Whether both are one, by their UIDs, or by their names where one has none.
  bool is(const Pod& other) const {
    return uid.empty() || other.uid.empty() ? has_name_of(other) : uid == other.uid;
  }
  /// "namespace/name".
  std::string str() const;
};

/// A moment by a clock that nobody can set: somebody may set that of the node.
struct Moment {
  std::string boot = {};       ///< boot_id()
  std::int64_t boot_time = 0;  ///< milliseconds of CLOCK_BOOTTIME
  bool operator==(const Moment&) const = default;
};

/// The attachment that has the device. It is written before the first delegate is called, and
/// removed after DEL of the delegates has succeeded.
struct Holder {
  StateOwner owner = {};       ///< of the chain: its network, CNI_IFNAME and CNI_NETNS
  std::string interface = {};  ///< CNI_IFNAME of the delegates, in that namespace: "net1"
  /// Those of the entry at the time of ADD; the device may be promised to another pod since.
  std::string resource = {}, plugins = {};
  std::int64_t promised = 0;
  std::optional<Pod> pod = {};  ///< whose sandbox it is
  std::int64_t started = 0;     ///< when ADD started: nanoseconds of CLOCK_MONOTONIC
  std::string result = {};      ///< JSON of what ADD returned; empty: ADD was interrupted
  bool operator==(const Holder&) const = default;

  /// Two lines of JSON. The second one is the result, which ADD appends.
  std::string text() const;
  static std::string line_of(const std::string& result) { return result + "\n"; }
  /// Empty: a torn file. \throws cni::Error: plugins::from_json_text().
  static std::optional<Holder> from(const std::string& text);
};

/// The ResourceClaim of Kubernetes that the device is allocated to, and for which the kubelet has
/// had it prepared. Its pod is known by UID from then on.
struct Claim {
  std::string uid = {}, space = {}, name = {};
  std::string request = {};           ///< of the claim: "nic", "nic/fast"
  std::string device = {};            ///< its name in the ResourceSlice
  std::string share = {};             ///< shareID of a device that many claims share, else empty
  std::vector<std::string> cdi = {};  ///< names that the runtime is asked for
  std::int64_t parts = 0;             ///< how many devices it has; fewer entries: killed meanwhile
  std::string boot = {};              ///< the boot in which names of links in it were looked up
  bool operator==(const Claim&) const = default;

  /// "namespace/name".
  std::string str() const;
};

/// The format of an entry with a claim: it ends otherwise than those that earlier versions know.
inline constexpr int kClaimFormat = 2;

/// A device without an entry is free.
struct Entry {
  /// kTorn, by a power loss, and kForeign, of a later format: it may be promised to any pod.
  enum class Promise : std::uint8_t { kReadable, kTorn, kForeign };

  std::string id, resource = {};
  /// Unix time of the last Allocate; 0: the ledger had lost it.
  std::int64_t promised = 0;
  /// The same, or when the agent first saw the promise after a boot, or that of an earlier version,
  /// which does not write it. Empty for claims, whose end the kubelet says.
  std::optional<Moment> since = {};
  std::optional<Pod> pod = {};      ///< whose it is; it stays after DEL, for the pod's next sandbox
  std::optional<Claim> claim = {};  ///< of DRA; empty: the kubelet's device plugin API promised it
  /// The configs that attach it, a JSON list: complete but for name, cniVersion and prevResult.
  std::string plugins = {};
  std::string ifname =
      {};  ///< the interface in the pod, as the pool says; empty: the next free one
  std::optional<Holder> holder = {};
  Promise promise = Promise::kReadable;
  bool is_holder_unreadable = false;  ///< of a later format
  bool operator==(const Entry&) const = default;

  bool is_readable() const { return promise == Promise::kReadable; }
  /// Whether it is a pod's, or promised to one. Not so while it has a holder: the promise is lost.
  bool is_wanted() const { return promised != 0 || pod || !is_readable(); }
  bool is_free() const { return !is_wanted() && !holder; }
  /// Whether its holder's pod is the one that it was promised to last: no pod waits for it.
  bool is_held() const { return holder && is_readable() && (!is_wanted() || pod == holder->pod); }
  /// Whether it is promised and no pod is known: any that starts may be the one.
  bool is_unclaimed() const { return promised != 0 && !pod; }
  /// Whether it is promised and no ADD has said to which pod: at most its name is known.
  bool is_open() const { return promised != 0 && (!pod || pod->uid.empty()); }
  /// Whether it was promised after that moment, as far as it is known.
  bool is_later_than(const Moment& other) const {
    return since && since->boot == other.boot && since->boot_time > other.boot_time;
  }
  bool is_of(const Pod& other) const { return pod && pod->is(other); }
  /// Whether it is attached to the pod's interface completely.
  bool is_attached() const { return holder && !holder->result.empty(); }

  /// JSON of all but the holder.
  std::string text() const;
  /// Empty: a torn file. \throws cni::Error: plugins::from_json_text().
  static std::optional<Entry> from(const std::string& text);
};

/// One whose claim has more devices than are in the list: the ledger has lost the others. nullptr:
/// there is none. \param entries all those of a pod
const Entry* incomplete_claim(const std::vector<Entry>& entries);

/// The boot of this kernel, for Claim::boot; "" where it is unknown.
std::string boot_id();

inline constexpr std::size_t kMaxId = 63;  ///< bytes: of a device's ID in the kubelet's API
/// Whether a device can have that ID, which is the name of a file.
bool is_device_id(std::string_view id);

}  // namespace devices
