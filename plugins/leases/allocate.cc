#include "plugins/leases/allocate.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "plugins/leases/index_update.h"
#include "plugins/leases/stale.h"

namespace leases {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;

constexpr std::string_view kExhausted = "no IP addresses available in range set: ";

cni::Address address_of(const Cursor::Candidate& found) {
  return {.cidr = {found.ip, found.range->subnet.prefix}, .gateway = found.range->gateway};
}

Error duplicate(const Ip& ip, const Owner& owner) {
  return {Code::kInternal,
          cat(ip.str(), " has been allocated to ", owner.container_id,
              ", duplicate allocation is not allowed"),
          cat("interface '", owner.ifname, "' holds the lease; DEL releases it")};
}

// The owner's leases of this boot. Those of an earlier boot and stale index entries are removed.
std::vector<Ip> settle(const Store& store, const Owner& owner) {
  std::vector<Ip> out;
  const OwnerIndex index = store.index();
  for (const OwnerIndex::Entry& entry : index.find({owner, bare(owner)})) {
    const auto file = store.read(entry.ip);
    const std::string record =
        OwnerIndex::is_of(entry, owner) ? record_of(owner) : record_of(bare(owner));
    const bool holds = file && trimmed(file->content) == record;
    const Origin origin = holds ? index.origin_of(entry) : Origin::kUntold;
    const bool may_live = origin == Origin::kThisBoot || origin == Origin::kElsewhere;
    if (holds && may_live) {
      out.push_back(entry.ip);
    } else if (holds) {
      cni::note(cat(store.host().plugin, ": network '", store.network(), "': replaced stale lease ",
                    entry.ip.str(), " of ", str(owner), ", from before the last boot"));
      store.discard(entry.ip, {&entry, 1});
    } else {
      index.remove(entry);
    }
  }
  return out;
}

/// Reserves addresses for one owner.
struct Taker {
  const Store& store;
  const Owner& owner;
  Neighbours& neighbours;

  bool take(const Ip& ip) {
    return neighbours.network_with(ip).empty() && store.reserve(ip, owner);
  }
};

cni::Address reserve_requested(Taker& taker, const RangeSet& set, const Ip& ip) {
  const Store& store = taker.store;
  const Range& range = *set.find(ip);
  if (ip == range.gateway) {
    throw Error(Code::kInvalidConfig, cat("requested ip ", ip.str(), " is subnet's gateway"));
  }
  const std::string other = taker.neighbours.network_with(ip);
  if (other.empty() && taker.take(ip)) return address_of({ip, &range});
  const Survey found = reclaim(store, {ip});
  if (!found.dead.empty() && taker.take(ip)) return address_of({ip, &range});
  throw Error(Code::kTryAgainLater,
              cat("requested IP address ", ip.str(), " is not available in range set ", set.str()),
              other.empty() ? oldest(found)
                            : cat("a pod of network '", other, "' on the same link has it"));
}

// The next free address of the set in the order of the cursor; nothing if all are in use.
std::optional<Cursor::Candidate> reserve_free(Taker& taker, const RangeSet& set,
                                              const std::optional<Ip>& last) {
  // One look at a file is quick; after so many used ones in a row all names are read at once.
  constexpr unsigned kMaxProbes = 32;
  std::optional<std::vector<Ip>> used;
  unsigned probes = 0;
  Cursor cursor(set, last);
  while (const auto candidate = cursor.next()) {
    if (!used && probes++ == kMaxProbes) used = taker.store.used();
    if (used && std::binary_search(used->begin(), used->end(), candidate->ip)) continue;
    if (taker.take(candidate->ip)) return candidate;
  }
  return std::nullopt;
}

cni::Address reserve_any(Taker& taker, const RangeSet& set, std::size_t number) {
  const Store& store = taker.store;
  const auto last = store.last_reserved(number);
  if (const auto found = reserve_free(taker, set, last)) return address_of(*found);
  const auto used = used_of(set, store.used());
  const Survey survey = reclaim(store, used);
  if (!survey.dead.empty()) {
    if (const auto found = reserve_free(taker, set, last)) return address_of(*found);
  }
  throw Error(Code::kTryAgainLater, cat(kExhausted, set.str()),
              cat(share(set, used.size()), " used, oldest leases: ", oldest(survey)));
}

// Takes the first requested address that the set has, as its own may be in another set.
std::optional<Ip> take_requested(std::vector<Ip>& requested, const RangeSet& set) {
  const auto it =
      std::ranges::find_if(requested, [&set](const Ip& ip) { return set.find(ip) != nullptr; });
  if (it == requested.end()) return std::nullopt;
  const Ip ip = *it;
  requested.erase(it);
  return ip;
}

void refuse_duplicate(const Conf& conf, const Owner& owner, const std::vector<Ip>& owned) {
  for (std::size_t i = 0; i < conf.sets.size(); ++i) {
    for (const Ip& ip : owned) {
      if (conf.sets[i].find(ip) == nullptr) continue;
      cni::during(cat("failed to allocate for range ", i), [&] { throw duplicate(ip, owner); });
    }
  }
}

void allocate_into(std::vector<cni::Address>& made, const Store& store, const Conf& conf,
                   const Owner& owner) {
  std::vector<Ip> requested = conf.requested;
  Neighbours neighbours(conf.segment, conf.data_dir, store);
  Taker taker{store, owner, neighbours};
  for (std::size_t i = 0; i < conf.sets.size(); ++i) {
    const RangeSet& set = conf.sets[i];
    made.push_back(cni::during(cat("failed to allocate for range ", i), [&] {
      const auto wanted = take_requested(requested, set);
      return wanted ? reserve_requested(taker, set, *wanted) : reserve_any(taker, set, i);
    }));
    store.keep_last_reserved(i, made.back().cidr.ip);
  }
  if (requested.empty()) return;
  std::string list;
  for (const Ip& ip : requested) list += cat(" ", ip.str());
  throw Error(Code::kInvalidConfig, cat("failed to allocate all requested IPs:", list),
              "each range set allocates one address; these are in no set, or in one whose address "
              "was already requested");
}

std::vector<Ip> ips_of(const std::vector<cni::Address>& addresses) {
  std::vector<Ip> out;
  for (const cni::Address& address : addresses) out.push_back(address.cidr.ip);
  return out;
}

}  // namespace

std::vector<cni::Address> allocate(const Store& store, const Conf& conf, const Owner& owner,
                                   const std::vector<Ip>& held) {
  const cni::Phase phase("allocate");
  auto owned = settle(store, owner);
  std::ranges::copy_if(held, std::back_inserter(owned), [&store](const Ip& ip) {
    return store.has(ip);
  });  // not what settle() has freed
  refuse_duplicate(conf, owner, owned);
  std::vector<cni::Address> made;
  try {
    allocate_into(made, store, conf, owner);
  } catch (...) {
    // Under the same lock: nobody sees half of it.
    cni::BestEffort each;
    each("roll back", [&] { store.release_only(owner, ips_of(made)); });
    try {
      each.finish();
    } catch (const Error& e) {
      cni::note(e.what());
    }
    throw;
  }
  return made;
}

bool is_exhaustion(const Error& error) {
  return error.code() == Code::kTryAgainLater &&
         std::string_view(error.what()).find(kExhausted) != std::string_view::npos;
}

std::string share(const RangeSet& set, std::size_t used) {
  const std::uint64_t size = set.size();
  const bool countless = size == std::numeric_limits<std::uint64_t>::max();
  return cat(used, " of ", countless ? "2^64" : std::to_string(size));
}

std::vector<Ip> used_of(const RangeSet& set, const std::vector<Ip>& used) {
  std::vector<Ip> out;
  std::ranges::copy_if(used, std::back_inserter(out),
                       [&set](const Ip& ip) { return set.gives(ip); });
  return out;
}

void ReleaseMade::operator()() const {
  auto store = Store::open(data_dir, network, host);
  if (!store) return;
  store->lock();
  const IndexUpdate update(*store);
  store->release_only(owner, ips);
}

std::string ReleaseMade::describe() const {
  std::string list;
  for (const Ip& ip : ips) list += cat(" ", ip.str());
  return cat("release the addresses", list, " of network '", network, "'");
}

}  // namespace leases
