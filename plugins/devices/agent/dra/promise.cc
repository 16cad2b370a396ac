#include "plugins/devices/agent/dra/promise.h"

#include <algorithm>
#include <map>
#include <optional>

#include "libcni/common/error.h"
#include "plugins/devices/agent/dra/names.h"

namespace devices::dra {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;

constexpr const char* kNext = "delete the pod: another one gets another claim";

std::string shared_name(const Pool& pool) {
  return device_name(shared_id(pool.slots.front().parent, pool.type()));
}

bool offers(const Pool& pool, const std::map<std::string, Item>& items, const Result& result) {
  if (pool.device_plugin) return false;
  if (is_shared(pool)) return shared_name(pool) == result.device;
  return std::ranges::any_of(
      items, [&](const auto& one) { return device_name(one.first) == result.device; });
}

// The best slot: of no pod; a container that ends may still have the others.
const Item* free_slot(const std::map<std::string, Item>& items, const Entries& entries) {
  const Item* held = nullptr;
  for (const auto& [id, item] : items) {
    const auto entry = entries.find(id);
    if (entry == entries.end() || entry->second.is_free()) return &item;
    const Entry& one = entry->second;
    if (held == nullptr && !one.is_wanted() && !one.is_holder_unreadable) held = &item;
  }
  return held;
}

// By what the entries of the pod say of each other: not each kubelet lists its claims.
void require_complete(const Pod& pod, const Entries& entries) {
  std::vector<Entry> own;
  for (const auto& [id, entry] : entries) {
    if (entry.claim && entry.pod && entry.pod->uid == pod.uid) own.push_back(entry);
  }
  const Entry* const one = incomplete_claim(own);
  if (one == nullptr) return;
  throw Error(Code::kTryAgainLater,
              cat("claim '", one->claim->str(), "' of pod '", pod.str(),
                  "': the ledger has lost some of its ", one->claim->parts, " devices"),
              kNext);
}

}  // namespace

bool is_shared(const Pool& pool) { return !pool.slots.empty() && pool.slots.front().bandwidth > 0; }

std::size_t pool_of(const Pools& pools, const Stock& stock, const Result& result) {
  for (std::size_t i = 0; i < pools.pools.size(); ++i) {
    if (offers(pools.pools[i], stock.pools[i], result)) return i;
  }
  throw Error(Code::kTryAgainLater, cat("device '", result.device, "' is none of this node's"));
}

const Item& item_of(const Pool& pool, const std::map<std::string, Item>& items,
                    const Entries& entries, const Result& result) {
  if (is_shared(pool) != !result.share.empty()) {
    throw Error(Code::kInvalidConfig,
                cat("device '", result.device, "': ",
                    is_shared(pool) ? "it is allocated as a whole, but has shares alone"
                                    : "a share of it is allocated, but it has none"));
  }
  const Item* found = nullptr;
  if (is_shared(pool)) {
    found = free_slot(items, entries);
    if (found == nullptr) {
      throw Error(Code::kTryAgainLater,
                  cat("device '", result.device, "': each of its slots is a pod's"));
    }
  } else {
    for (const auto& [id, item] : items) {
      if (device_name(id) == result.device) found = &item;
    }
  }
  if (found == nullptr || !found->is_present) {
    throw Error(Code::kTryAgainLater, cat("device '", result.device, "' vanished"));
  }
  return *found;
}

std::vector<Entry> rivals_of(const Order& order, const Pools& pools, const Stock& stock,
                             const std::vector<Entry>& prepared) {
  std::vector<Entry> out;
  for (const Part& part : order.parts) {
    const auto index = pool_of(pools, stock, part.result);
    const Pool& pool = pools.pools[index];
    Entries entries;
    for (const Entry& one : prepared) entries.emplace(one.id, one);
    if (is_shared(pool) && free_slot(stock.pools[index], entries) != nullptr) continue;
    for (const Entry& one : prepared) {
      const bool is_wanted = is_shared(pool) ? stock.pools[index].contains(one.id)
                                             : device_name(one.id) == part.result.device;
      if (is_wanted && one.claim->uid != order.claim.uid) out.push_back(one);
    }
  }
  return out;
}

void require_prepared(const Pod& pod, const std::vector<ListedClaim>& listed,
                      const Entries& entries) {
  for (const ListedClaim& one : listed) {
    const std::string name = cat(one.space, "/", one.name);
    const Entry* other = nullptr;
    const bool is_here = std::ranges::any_of(entries, [&](const auto& of) {
      const Entry& entry = of.second;
      if (!entry.claim || entry.claim->space != one.space || entry.claim->name != one.name ||
          entry.claim->device != one.device || entry.claim->share != one.share) {
        return false;
      }
      if (entry.pod && entry.pod->uid == pod.uid) return true;
      other = &entry;
      return false;
    });
    if (is_here) continue;
    if (other != nullptr && other->pod) {
      throw Error(Code::kInvalidConfig,
                  cat("claim '", name, "' of pod '", pod.str(), "' was prepared for pod '",
                      other->pod->str(), "', and a device is in one pod"),
                  "give each pod a claim of its own, by resourceClaimTemplateName");
    }
    throw Error(Code::kTryAgainLater,
                cat("claim '", name, "' of pod '", pod.str(), "': the ledger has lost device '",
                    one.device, "'"),
                kNext);
  }
  require_complete(pod, entries);
}

}  // namespace devices::dra
