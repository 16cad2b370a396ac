#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "netlink/types/ip.h"

/// The tables of the legacy iptables as the kernel gives them: linux/netfilter/x_tables.h.
namespace netlink::nf {

/// What IPT_SO_GET_INFO and IPT_SO_GET_ENTRIES gave.
struct RawLegacyTable {
  /// Where in the entries a built-in chain is.
  struct Chain {
    std::size_t first = 0;
    std::size_t policy = 0;  ///< its last entry
  };
  std::vector<unsigned char> entries;  ///< one after the other
  std::size_t count = 0;               ///< of entries
  std::map<unsigned, Chain> chains;    ///< by their hooks, NF_INET_*
};

/// Copies what lies at an offset; false where that is not all within the bytes.
template <class T>
bool copy_at(const std::vector<unsigned char>& bytes, std::size_t at, T& into) {
  if (at > bytes.size() || bytes.size() - at < sizeof into) return false;
  std::memcpy(&into, bytes.data() + at, sizeof into);
  return true;
}

/// Whether the table ("nat", "filter") is in use; to ask does not create it.
bool legacy_in_use(Family family, const std::string& table);

/// Nothing where the table is not in use. This takes CAP_NET_RAW. \throws Error.
std::optional<RawLegacyTable> read_raw_legacy(Family family, const std::string& table);

}  // namespace netlink::nf
