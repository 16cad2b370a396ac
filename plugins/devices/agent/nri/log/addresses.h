#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace devices::nri {

/// An interface that CNI has attached to a sandbox.
struct Attached {
  std::string name, mac;
  std::vector<std::string> addresses;  ///< with prefix length: 10.1.2.3/24
  bool operator==(const Attached&) const = default;
};

inline constexpr std::size_t kMaxInterfaces = 64;  ///< of a sandbox
inline constexpr std::size_t kMaxAddresses = 64;   ///< of an interface

/// What the runtime's results cache (DIR/results, "cniCacheV1") says about sandboxes: by ID, the
/// interfaces of all its networks, without lo. Without an entry there is none; one that cannot be
/// read is passed over. The folder is listed once: one that no DEL has cleaned up is long.
std::map<std::string, std::vector<Attached>> interfaces_of(const std::string& dir,
                                                           const std::set<std::string>& sandboxes);

}  // namespace devices::nri
