#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "plugins/cluster-pool/conf.h"
#include "plugins/cluster-pool/share.h"
#include "plugins/leases/store.h"
#include "plugins/state/blocks.h"

namespace cluster_pool {

/// ADD in the blocks that the node has. Where they have no free address, it asks patchbay-agent for
/// one and waits, without the lock of the leases.
class Allocation {
 public:
  /// Borrows all.
  Allocation(const Conf& conf, leases::Store& store, const leases::Owner& owner);

  /// \throws cni::Error: 11 without a free address; as leases::allocate().
  std::vector<cni::Address> run(cni::Undo& undo);

 private:
  /// Whether stale leases are looked for where all addresses have one: that reads each of them
  /// under the lock, and none becomes stale while ADD waits.
  enum class Reclaim : std::uint8_t { kYes, kNo };
  /// Nothing: the node lacks a block. lacking_ and full_ say which.
  std::optional<std::vector<cni::Address>> attempt(Reclaim reclaim, cni::Undo& undo);
  std::vector<cni::Address> wait(cni::Undo& undo);
  void look();
  bool can_allocate();
  void find_full();
  bool is_requested_in(std::size_t set) const;
  void ask_early(const netlink::Ip& allocated) const;
  void ask() const;
  blocks::Want want() const;
  std::string holder_of(const netlink::Ip& ip) const;
  void refuse_if_elsewhere() const;
  std::string what_is_full(std::size_t set) const;
  cni::Error refusal() const;

  const Conf& conf_;
  leases::Store& store_;
  const leases::Owner& owner_;
  std::optional<blocks::Folder> folder_;
  std::optional<blocks::Held> held_ = {};
  std::vector<SetShare> shares_ = {};
  std::vector<netlink::Ip> lacking_ = {};  ///< requested addresses whose block is not held
  std::vector<std::size_t> full_ = {};     ///< sets without a free address
};

}  // namespace cluster_pool
