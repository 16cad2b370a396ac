#pragma once

#include <string>
#include <vector>

#include "plugins/leases/conf.h"
#include "plugins/leases/store.h"

namespace leases {

/// REPAIR: writes leases again, as after the loss of the directory.
class Restoration {
 public:
  /// addresses: those that the attachment has. The first one of each set is its lease.
  Restoration(const Conf& conf, std::string network, Owner owner, const std::vector<Ip>& addresses);

  /// \throws cni::Error, which names the owner, where another one has a lease of the addresses.
  void refuse_taken() const;
  /// \throws cni::Error, which names an address without lease.
  void check() const;
  /// \throws as refuse_taken(), and as Store::lock().
  void restore() const;

 private:
  std::optional<Store> open() const;
  bool holds(const Store& store, const Ip& ip) const;
  cni::Error taken(const Store& store, const Ip& ip) const;

  std::string data_dir_, network_;
  Owner owner_;
  std::vector<Ip> leased_;
};

}  // namespace leases
