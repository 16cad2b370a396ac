#pragma once

#include <string>
#include <vector>

#include "plugins/host-local/conf.h"
#include "plugins/host-local/store.h"

namespace host_local {

/// Reserves one address out of every set, or none at all. Needs the store's lock.
/// Reservations that owner had before the last boot are replaced. held are addresses that owner
/// has besides those in the index.
/// \throws cni::Error in the reference's words: 11 where a set is used up or a requested address is
/// taken, 7 where what is requested is in no set, 999 where owner has an address already.
std::vector<cni::Address> allocate(const Store& store, const Conf& conf, const Owner& owner,
                                   const std::vector<Ip>& held = {});

/// How much of a set is used, as "7 of 8"; sets that 64 bits cannot count have "2^64".
std::string share(const RangeSet& set, std::size_t used);

/// Those of the sorted addresses that set gives out.
std::vector<Ip> used_of(const RangeSet& set, const std::vector<Ip>& used);

/// Undo of allocate(): frees what that ADD reserved, and nothing that the owner had before.
/// It runs when the verb's own store is gone, hence opens and locks it itself.
struct ReleaseMade {
  std::string data_dir, network;
  Host host;
  Owner owner;
  std::vector<Ip> ips;

  void operator()() const;
  std::string describe() const;
};

}  // namespace host_local
