#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "libcni/common/dir.h"
#include "netlink/types/fd.h"

/// ADDs that wait for a block, for patchbay-agent. Each has locks on bytes of `NETWORK.waiting` as
/// long as it waits (F_OFD_SETLK of fcntl(2)). The kernel drops those of a process that ends, also
/// by kill -9, and an agent in another PID namespace sees them. Nothing is written.
namespace blocks {

class Waiter {
 public:
  Waiter(const cni::Dir& dir, const std::string& network);

  /// For an address of each of these sets, from now on; without one, of a fixed address. False:
  /// the agent does not see it, as on a full disk, or a file system without such locks. It serves
  /// a want for some time all the same.
  bool wait_for(const std::vector<std::size_t>& sets) noexcept;

 private:
  netlink::Fd file_;
};

/// ADDs that wait for an address of the set, at most kMaxWaiting. None where that is unknown.
inline constexpr std::size_t kMaxWaiting = 4096;
std::size_t count_waiting(const cni::Dir& dir, const std::string& network, std::size_t set);
/// Whether an ADD waits for any address.
bool are_waiting(const cni::Dir& dir, const std::string& network);

}  // namespace blocks
