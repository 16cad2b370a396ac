#include "plugins/leases/restore.h"

#include <algorithm>
#include <utility>

#include "plugins/leases/index_update.h"
#include "plugins/leases/stale.h"

namespace leases {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;

std::vector<Ip> leases_among(const std::vector<Ip>& addresses, const std::vector<RangeSet>& sets) {
  std::vector<Ip> out;
  for (const RangeSet& set : sets) {
    const auto found =
        std::ranges::find_if(addresses, [&set](const Ip& ip) { return set.find(ip) != nullptr; });
    if (found != addresses.end()) out.push_back(*found);
  }
  return out;
}

}  // namespace

Restoration::Restoration(const Conf& conf, std::string network, Owner owner,
                         const std::vector<Ip>& addresses)
    : data_dir_(conf.data_dir),
      network_(std::move(network)),
      owner_(std::move(owner)),
      leased_(leases_among(addresses, conf.sets)) {}

std::optional<Store> Restoration::open() const {
  return Store::open(data_dir_, network_, Host::current());
}

bool Restoration::holds(const Store& store, const Ip& ip) const {
  const auto file = store.read(ip);
  const auto content = file ? trimmed(file->content) : std::string_view();
  return file && (content == record_of(owner_) || content == owner_.container_id);
}

Error Restoration::taken(const Store& store, const Ip& ip) const {
  return {
      Code::kInternal,
      cat("restore the lease of ", ip.str(), ": another one has it: ", oldest(survey(store, {ip}))),
      "packets reach only one of the two: restart one of the pods"};
}

void Restoration::refuse_taken() const {
  const auto store = open();
  if (!store) return;
  for (const Ip& ip : leased_) {
    if (store->has(ip) && !holds(*store, ip) && !survey(*store, {ip}).living.empty()) {
      throw taken(*store, ip);
    }
  }
}

void Restoration::check() const {
  const auto store = open();
  for (const Ip& ip : leased_) {
    if (store && holds(*store, ip)) continue;
    throw Error(Code::kInternal, cat("address ", ip.str(), " has no lease in ", data_dir_, "/",
                                     network_, ": the next pod can get it"));
  }
}

void Restoration::restore() const {
  Store store = Store::create(data_dir_, network_, Host::current());
  store.lock();
  IndexUpdate update(store);
  for (const Ip& ip : leased_) {
    if (holds(store, ip) || store.reserve(ip, owner_)) continue;
    reclaim(store, {ip});
    if (!store.reserve(ip, owner_)) throw taken(store, ip);
  }
  update.complete();
}

}  // namespace leases
