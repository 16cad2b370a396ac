#pragma once

#include <string>
#include <vector>

#include "plugins/leases/conf.h"
#include "plugins/leases/store.h"

namespace leases {

/// Allocates one address from every set, or none at all. Needs the store's lock.
/// Leases of owner from before the last boot are replaced. held are leases of owner that are not in
/// the index.
/// \throws cni::Error with the reference plugin's texts: 11 where a set is exhausted or a requested
/// address is in use, 7 where a requested address is in no set, 999 where owner has a lease.
std::vector<cni::Address> allocate(const Store& store, const Conf& conf, const Owner& owner,
                                   const std::vector<Ip>& held = {});

/// Whether it is the error of allocate() for a set without a free address, and no other of code 11.
bool is_exhaustion(const cni::Error& error);

/// The use of a set, for example "7 of 8"; sets that 64 bits cannot count have "2^64".
std::string share(const RangeSet& set, std::size_t used);

/// Reduces sorted addresses to those that set can allocate.
std::vector<Ip> used_of(const RangeSet& set, const std::vector<Ip>& used);

/// Undo of allocate(): releases what that ADD allocated, not what the owner had before.
/// It runs after the verb closed its store, so it opens and locks its own.
struct ReleaseMade {
  std::string data_dir, network;
  Host host;
  Owner owner;
  std::vector<Ip> ips;

  void operator()() const;
  std::string describe() const;
};

}  // namespace leases
