#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcni/common/lock.h"
#include "plugins/devices/agent/dra/promise.h"
#include "plugins/devices/agent/dra/slices/state.h"
#include "plugins/devices/agent/files.h"
#include "plugins/devices/agent/handout.h"
#include "plugins/devices/agent/inventory/sysfs.h"
#include "plugins/devices/agent/ledger_cache.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/devices/agent/promises.h"
#include "plugins/devices/agent/stock/stock.h"
#include "plugins/state/ledger.h"

namespace devices {

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

  const Pools& pools() const { return pools_; }  ///< the config. Constant
  std::vector<std::string> resources() const;    ///< of the config, in its order. Constant
  /// Whether it is one of them, or pods have its devices, as of another instance's.
  bool has_resource(const std::string& resource);
  /// All devices of a resource, sorted by id.
  std::vector<Offer> offers(const std::string& resource) const;
  std::vector<Count> counts() const;
  /// Whether the kubelet reads the devices of a resource.
  void note_read(const std::string& resource, bool is_read);
  /// See preferred_of(). Ids that are not offered are taken last.
  std::vector<std::string> preferred(const std::string& resource, const Preference& asked) const;
  /// After each refresh() that changed an offer, in its thread. Before other threads use the core.
  void subscribe(std::function<void()> changed) { changed_ = std::move(changed); }
  /// Calls back after each refresh(), as subscribe().
  void on_refresh(std::function<void()> refreshed) { refreshed_ = std::move(refreshed); }
  /// Looks again at links, sysfs and ledger.
  void refresh();
  /// The same without a call back, before a device is promised: changes are followed later.
  void look_again();
  /// Who knows that a pod asks for no device; as subscribe().
  void know_pods(IsPod knows) { asks_for_none_ = std::move(knows); }
  Stock stock() const;  ///< all that is offered, and what is not
  /// Slices of this node; nullopt: it has no DRA.
  void note_slices(const dra::SliceState& state);
  std::optional<dra::SliceState> slices() const;

  // The promises: claims.cc.

  /// Promises the devices to the pod that is being admitted: entries in the ledger, on disk when
  /// this returns. The same devices may be promised again: the kubelet decides when a pod ends.
  /// \throws cni::Error: unknown resource or device (kInvalidConfig), unhealthy (kTryAgainLater).
  Handout allocate(const std::string& resource, const std::vector<std::string>& ids);
  /// After each allocate(), as subscribe(): it is time to ask PodResources.
  void on_allocate(std::function<void()> allocated) { allocated_ = std::move(allocated); }
  /// LedgerCache::concerns(). If not, the kubelet need not be asked: Allocate precedes ADD. Takes
  /// what another process wrote into account, and waits for no lock.
  bool concerns(const Pod& pod);
  /// For ADD of a pod: writes its UID into the entries of the devices that PodResources says it
  /// owns, and returns their ids, sorted by resource and id. Resources of others are passed over.
  /// \param asked when the kubelet was asked: what was promised since is another pod's.
  /// \throws cni::Error(kTryAgainLater) where a device still belongs to another pod, or where the
  /// ledger has a device of this pod that PodResources does not list; kInvalidConfig where the node
  /// uses a device by now.
  /// Of claims by DRA the ledger says it, by the pod's UID; those that the kubelet lists are among
  /// them. \throws as dra::require_prepared() where one is not.
  std::vector<std::string> claim(const Pod& pod, const PodDevices& listed, const Moment& asked);
  /// Writes the pods that PodResources lists into promised entries, and removes entries of pods
  /// that it does not list any more, unless it has their folder. A list without any pod may be that
  /// of a kubelet that has just started: then the folder must have been seen to be removed.
  /// \param now when the list was asked for.
  /// \return has_unclaimed().
  bool reconcile(const std::vector<PodDevices>& listed, const Moment& now);
  /// Whether a device is promised to a pod that is not known yet.
  bool has_unclaimed();

  // The claims of DRA: dra/core_claims.cc.

  /// The pool that offers a device to claims. \throws as dra::pool_of().
  Pool pool_for(const dra::Result& result) const;
  /// The entries of all claims, sorted by ID.
  std::vector<Entry> prepared();
  /// Promises the devices of a claim to its pod, all or none: entries in the ledger, on disk when
  /// this returns, and these entries. What is prepared stays as it is. \param most that the lock of
  /// the ledger is waited for. \throws cni::Error: kTryAgainLater where a device is of another
  /// claim or pod, or its entry cannot be read; kInvalidConfig.
  std::vector<Entry> prepare(const dra::Order& order, std::chrono::milliseconds most);
  /// Ends the promises of a claim; holders stay for DEL. Nothing for a claim that is not known.
  void unprepare(const std::string& uid, std::chrono::milliseconds most);

 private:
  /// Both locks of a change, with a look at the node in between. A plugin may have the ledger's for
  /// a while, in which others ask for offers: it is the first.
  std::pair<netlink::Fd, std::unique_lock<std::mutex>> lock(
      std::chrono::milliseconds most = cni::kLockDeadline, bool looks = false);
  void require_ledger() const noexcept;
  std::optional<std::size_t> pool_of(const std::string& resource) const;
  Stock look();
  void write_cdi_files();
  void write_metrics_file();

  const Item& require(std::size_t pool, const std::string& id) const;
  Entry promised(std::size_t pool, const Item& item, const Entry& before, const Moment& now) const;
  void promise(std::size_t pool, const std::vector<const Item*>& items);
  std::optional<Entry> claimed(const std::string& resource, const std::string& id, const Pod& pod,
                               const Moment& asked);
  void find_link(std::size_t pool, Entry& entry) const;
  void write_info(std::size_t pool, const Item& item) const;
  void release(const Entry& entry);
  Entry ordered(const dra::Order& order, const dra::Part& part, const Entries& entries) const;
  void put_all(const std::vector<Entry>& entries, const Entries& before);
  void claim_again(Entry& entry) const;

  const Pools pools_;
  const Places places_;
  const Ledger ledger_;
  LedgerCache entries_{ledger_};
  const Sysfs sysfs_;
  std::function<void()> changed_, allocated_, refreshed_;
  IsPod asks_for_none_;

  std::mutex looking_;        // so that no look replaces a later one; before mutex_
  mutable std::mutex mutex_;  // for what is below
  Stock stock_;
  bool is_new_ = false;  // an offer, since the last refresh()
  std::vector<Count> counts_;
  std::optional<dra::SliceState> slices_;
  Reconciler reconciler_;
  std::string metrics_;  // as the file has it
};

}  // namespace devices
