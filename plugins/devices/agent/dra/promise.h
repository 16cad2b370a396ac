#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "plugins/devices/agent/dra/claim.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/devices/agent/promises.h"
#include "plugins/devices/agent/stock/stock.h"

/// Decisions about the devices of a claim, from the stock and the ledger.
namespace devices::dra {

/// A device that a claim is to get: the result, and its pool as the claim's parameters have it.
struct Part {
  Result result;
  Pool pool;
};

/// What is to be prepared.
struct Order {
  Claim claim;  ///< without what differs from device to device
  Pod pod;
  std::vector<Part> parts;
};

/// Whether the pool is offered as one device, whose slots claims share.
bool is_shared(const Pool& pool);
/// The index of the pool that offers a device of that name. \throws cni::Error(kTryAgainLater)
/// where none does, as long as the scheduler knows an earlier slice.
std::size_t pool_of(const Pools& pools, const Stock& stock, const Result& result);
/// The device of the pool: by its name, or for a share a slot that is free. \throws
/// cni::Error(kTryAgainLater) where there is none, or it vanished.
const Item& item_of(const Pool& pool, const std::map<std::string, Item>& items,
                    const Entries& entries, const Result& result);

/// Those of the entries that keep a device from the order: each is of another claim, which may not
/// exist any more.
std::vector<Entry> rivals_of(const Order& order, const Pools& pools, const Stock& stock,
                             const std::vector<Entry>& prepared);

/// Refuses a pod whose claim the ledger has not as the pod's, or not all devices of it: it must not
/// start without one.
/// \throws cni::Error: kTryAgainLater where the entry is lost, kInvalidConfig where it is another
/// pod's.
void require_prepared(const Pod& pod, const std::vector<ListedClaim>& listed,
                      const Entries& entries);

}  // namespace devices::dra
