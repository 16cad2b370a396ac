#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "plugins/devices/agent/concerns.h"
#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/inventory/sysfs.h"
#include "plugins/devices/agent/ledger_cache.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/devices/agent/reconcile.h"
#include "plugins/devices/agent/stock/stock.h"
#include "plugins/devices/ledger/ledger.h"

namespace devices {

Entries by_id(std::vector<Entry> list);

/// What the core keeps, and the parts of its calls. All but the constants is under the mutex.
struct Core::State {
  State(Pools of, Places at);

  /// Of a resource; nothing for one of others.
  std::optional<std::size_t> pool_of(const std::string& resource) const {
    const auto found = index.find(resource);
    if (found == index.end()) return std::nullopt;
    return found->second;
  }

  /// Both locks of a change. A plugin may have the ledger's for a while, in which others ask for
  /// offers: it is the first.
  struct Locks {
    netlink::Fd of_ledger;
    std::unique_lock<std::mutex> of_state;
  };
  Locks lock() const;
  /// Ends the process if somebody has removed the folder.
  void require_ledger() const noexcept;

  Stock look() const;
  void write_cdi_files() const;
  void write_metrics_file();
  const Item& require(std::size_t pool, const std::string& id) const;
  void promise(std::size_t pool, const std::vector<const Item*>& items) const;
  Entry promised(std::size_t pool, const Item& item, Entry entry) const;
  using Wanted = std::set<std::pair<std::string, std::string>>;  // resource and id
  std::optional<Entry> claimed(const std::string& resource, const std::string& id,
                               const Pod& pod) const;
  void find_link(std::size_t pool, Entry& entry) const;
  void require_all_listed(const Pod& pod, const Wanted& wanted) const;
  void count_failure(const std::string& resource);
  void write_info(std::size_t pool, const Item& item) const;
  void release(const Entry& entry);
  bool has_folder(const Entry& entry) const;
  bool is_gone(const Entry& entry) const;
  void report_unclaimed(const Entry& entry, std::int64_t now);

  const Pools pools;
  const Places places;
  const Ledger ledger;
  mutable LedgerCache entries{ledger};
  Concerns concerns{entries};
  const Sysfs sysfs;
  std::map<std::string, std::size_t> index;  // of pools, by resource
  std::set<std::string> former;              // resources of an earlier config that the ledger has
  std::function<void()> changed, allocated;

  mutable std::mutex mutex;  // for what is below
  Stock stock;
  std::vector<Count> counts;
  Reconciler reconciler;
  std::map<std::string, std::int64_t> reported;  // promises that no ADD claims, by ID
  std::string metrics;                           // as the file has it
};

}  // namespace devices
