#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/config/json.h"
#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/dra/parameters.h"
#include "plugins/devices/agent/dra/promise.h"
#include "plugins/devices/agent/log.h"

// Prepare and Unprepare: what they change in the ledger.
namespace devices {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;

bool is_of(const Entry& entry, const std::string& uid) {
  return entry.claim && entry.claim->uid == uid;
}

bool is_of(const Entry& entry, const std::string& uid, const dra::Result& result) {
  return is_of(entry, uid) && entry.claim->request == result.request &&
         entry.claim->device == result.device && entry.claim->share == result.share;
}

// What else the entry says must not be lost without a word.
void require_free(const Entry& entry) {
  if (!entry.is_readable() || entry.is_holder_unreadable) {
    throw Error(Code::kTryAgainLater,
                cat("device '", entry.id, "': its entry in the ledger cannot be read"));
  }
  if (entry.claim) {
    throw Error(Code::kTryAgainLater,
                cat("device '", entry.id, "' is still prepared for claim '", entry.claim->str(),
                    "' of pod '", entry.pod ? entry.pod->str() : "", "'"));
  }
  if (!entry.is_wanted()) return;
  throw Error(Code::kTryAgainLater,
              cat("device '", entry.id, "' is still ",
                  entry.pod ? cat("pod '", entry.pod->str(), "'s") : "promised",
                  " by the device plugin API"));
}

// ADD gives the second device of a name another one, which parameters that name one interface do
// not mean. Devices of one request, and of the pool's own name, are numbered.
void require_own_name(const Entry& wanted, const std::string& usual, const Entries& entries) {
  if (wanted.ifname.empty() || wanted.ifname == usual) return;
  for (const auto& [id, one] : entries) {
    const bool is_pods = one.claim && one.pod && one.pod->uid == wanted.pod->uid;
    if (!is_pods || id == wanted.id || one.ifname != wanted.ifname) continue;
    if (is_of(one, wanted.claim->uid) && one.claim->request == wanted.claim->request) continue;
    throw Error(Code::kInvalidConfig,
                cat("ifname '", wanted.ifname, "' of request '", wanted.claim->request,
                    "' is that of request '", one.claim->request, "' of claim '", one.claim->str(),
                    "' of the same pod"));
  }
}

}  // namespace

Pool Core::pool_for(const dra::Result& result) const {
  const std::lock_guard hold(mutex_);
  return pools_.pools[dra::pool_of(pools_, stock_, result)];
}

std::vector<Entry> Core::prepared() {
  require_ledger();
  std::vector<Entry> out;
  for (const auto& [id, entry] : entries_.all()) {
    if (entry.claim) out.push_back(entry);
  }
  return out;
}

// The entry names its link as it is now, unless a pod has that.
void Core::claim_again(Entry& entry) const {
  if (const auto pool = pool_of(entry.resource)) find_link(*pool, entry);
  entry.claim->boot = boot_id();
}

// Under both locks. \param entries with those of the order's earlier parts.
Entry Core::ordered(const dra::Order& order, const dra::Part& part, const Entries& entries) const {
  const dra::Result& result = part.result;
  const auto index = dra::pool_of(pools_, stock_, result);
  const Item& item = dra::item_of(pools_.pools[index], stock_.pools[index], entries, result);
  const auto known = entries.find(item.offer.id);
  Entry out = known != entries.end() ? known->second : Entry{.id = item.offer.id};
  require_free(out);
  auto list = cni::try_parse_ordered_json(plugins_text(part.pool, item, out.plugins));
  if (result.bandwidth && !result.share.empty()) {
    list = dra::with_bandwidth(std::move(list), *result.bandwidth);
  }
  out.resource = counts_[index].resource;
  out.promised = static_cast<std::int64_t>(std::time(nullptr));
  out.since.reset();
  out.pod = order.pod;
  out.plugins = list.dump();
  out.ifname = part.pool.ifname;
  out.claim = order.claim;
  out.claim->request = result.request;
  out.claim->device = result.device;
  out.claim->share = result.share;
  out.claim->cdi = handout_of(pools_.pools[index], {&item}, sysfs_).cdi;
  require_own_name(out, pools_.pools[index].ifname, entries);
  claim_again(out);
  write_info(index, item);
  return out;
}

// Either all entries are written, or those that were there before.
void Core::put_all(const std::vector<Entry>& entries, const Entries& before) {
  std::size_t count = 0;
  const auto restore = [&](const Entry& one) {
    const auto was = before.find(one.id);
    const bool is_new = was == before.end() || !was->second.is_wanted();
    is_new ? ledger_.remove(one.id) : ledger_.put(was->second);
  };
  try {
    while (count < entries.size()) {
      const Entry& one = entries[count++];
      const auto was = before.find(one.id);
      if (was == before.end() || was->second != one) ledger_.put(one);
    }
  } catch (...) {
    while (count-- > 0) attempt("restore entry", "", [&] { restore(entries[count]); });
    throw;
  }
}

std::vector<Entry> Core::prepare(const dra::Order& order, std::chrono::milliseconds most) {
  std::vector<Entry> out;
  {
    const auto locks = lock(most);
    const Entries before = entries_.all();
    Entries now = before;
    for (const dra::Part& part : order.parts) {
      const auto own = std::ranges::find_if(
          before, [&](const auto& one) { return is_of(one.second, order.claim.uid, part.result); });
      if (own == before.end()) {
        out.push_back(ordered(order, part, now));
      } else {
        out.push_back(own->second);
        out.back().pod = order.pod;
        claim_again(out.back());
      }
      now.insert_or_assign(out.back().id, out.back());
    }
    put_all(out, before);
    entries_.all();  // so that a loss is noticed
    for (const Entry& one : out) {
      const auto pool = pool_of(one.resource);
      if (pool && !before.contains(one.id)) ++counts_[*pool].allocations;
    }
  }
  for (const Entry& one : out) {
    log(Level::kInfo, "prepare device",
        {.resource = one.resource, .device = one.id, .pod = order.pod.str()});
  }
  if (allocated_) allocated_();
  return out;
}

void Core::unprepare(const std::string& uid, std::chrono::milliseconds most) {
  const auto is_its = [&](const Entry& one) { return is_of(one, uid); };
  if (std::ranges::none_of(prepared(), is_its)) return;
  const auto locks = lock(most);
  for (const auto& [id, entry] : entries_.all()) {
    if (is_of(entry, uid)) release(entry);
  }
}

}  // namespace devices
