#pragma once

#include <string>
#include <vector>

namespace devices::nri {

/// An interface that CNI has attached to a sandbox.
struct Attached {
  std::string name, mac;
  std::vector<std::string> addresses;  ///< with prefix length: 10.1.2.3/24
  bool operator==(const Attached&) const = default;
};

/// What the runtime's results cache (DIR/results, "cniCacheV1") says about a sandbox: the
/// interfaces of all its networks, without lo. Empty without an entry; one that cannot be read is
/// passed over.
std::vector<Attached> interfaces_of(const std::string& dir, const std::string& sandbox);

}  // namespace devices::nri
