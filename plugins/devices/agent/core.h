#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/devices/agent/owned.h"
#include "plugins/devices/ledger/entry.h"

namespace devices {

struct Pools;

/// A device as the kubelet sees it.
struct Offer {
  std::string id;
  bool healthy = false;
  std::optional<int> numa = {};  ///< empty: no preference
  bool operator==(const Offer&) const = default;
};

/// A character device that a container gets.
struct Node {
  std::string host_path, container_path, permissions;
  bool operator==(const Node&) const = default;
};

/// The answer to one container's request for devices.
struct Handout {
  std::map<std::string, std::string> environment;
  std::vector<Node> nodes;
  std::vector<std::string> cdi;  ///< fully qualified: "vendor.example/nic=0000:03:00.1-5f3a91c2"
};

/// The state of a resource, for the metrics and the socket.
struct Count {
  std::string resource;
  std::size_t devices = 0, healthy = 0, allocated = 0;
  std::uint64_t allocations = 0, failures = 0;  ///< since the start: devices, requests
  bool is_read = false;                         ///< by the kubelet, which allocates none else
};

/// Paths of the node; tests have others.
struct Places {
  std::string ledger, cdi, device_info, sysfs, metrics;  ///< cdi, device_info, metrics: "" is none
  std::string pods = {};  ///< where the kubelet has a folder for each pod; "": unknown
};

/// Devices of the pools of this node and their pods: inventory, pools and ledger in one place.
/// Thread-safe: the faces of the kubelet and the socket call it from threads of their own. No call
/// waits for the kubelet; all wait for the lock of the ledger, which plugins hold for milliseconds.
class Core {
 public:
  /// Looks at the node once. \throws cni::Error, netlink::Error.
  Core(Pools pools, Places places);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  /// The resources of the config, in its order. Constant.
  std::vector<std::string> resources() const;
  /// Whether it is one of them, or pods have its devices: it was one, or is another instance's.
  bool has_resource(const std::string& resource) const;
  /// All devices of a resource, sorted by id; none for an unknown resource.
  std::vector<Offer> offers(const std::string& resource) const;
  std::vector<Count> counts() const;
  /// Whether the kubelet reads the devices of a resource.
  void note_read(const std::string& resource, bool is_read);

  /// Promises the devices to the pod that is being admitted: entries in the ledger, on disk when
  /// this returns. The same devices may be promised again: the kubelet decides when a pod ends.
  /// \throws cni::Error: unknown resource or device (kInvalidConfig), unhealthy (kTryAgainLater).
  Handout allocate(const std::string& resource, const std::vector<std::string>& ids);

  struct Preference {
    std::vector<std::string> available, required;
    std::size_t size = 0;
  };
  /// At most size of the available devices, the required ones first, of as few NUMA nodes as may
  /// be. Ids that are not offered are taken last.
  std::vector<std::string> preferred(const std::string& resource, const Preference& asked) const;

  /// Calls back after each refresh() that changed an offer, in its thread and without a lock held.
  /// Before other threads use the core.
  void subscribe(std::function<void()> changed);
  /// Calls back after each allocate(), likewise: it is time to ask PodResources.
  void on_allocate(std::function<void()> allocated);
  /// Looks again at links, sysfs and ledger.
  void refresh();

  /// Whether a device may be the pod's: an entry of the ledger is the pod's, or is promised to a
  /// pod that is not known yet, or to a pod of this name. If not, the kubelet need not be asked:
  /// Allocate precedes ADD. Takes what another process wrote into account, and no lock.
  bool concerns(const Pod& pod) const;
  /// For ADD of a pod: writes its UID into the entries of the devices that PodResources says it
  /// owns, and returns their ids, sorted by resource and id. Resources of others are passed over.
  /// \throws cni::Error(kTryAgainLater) where a device still belongs to another pod, or where the
  /// ledger has a device of this pod that PodResources does not list; kInvalidConfig where the node
  /// uses a device by now.
  std::vector<std::string> claim(const Pod& pod, const std::vector<Owned>& owned);
  /// Writes the pods that PodResources lists into promised entries, and removes entries of pods
  /// that it does not list any more, unless it has their folder. A list without any pod may be that
  /// of a kubelet that has just started: then the folder must have been seen to be removed.
  /// \param now Unix time at which the list was asked for.
  /// \return has_unclaimed().
  bool reconcile(const std::vector<PodDevices>& listed, std::int64_t now);
  /// Whether a device is promised to a pod that is not known yet.
  bool has_unclaimed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace devices
