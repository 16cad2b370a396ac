#pragma once

#include <optional>

#include "libcni/config/address_range.h"

namespace leases {

using Range = cni::AddressRange;
using cni::RangeSet;
using netlink::Cidr;
using netlink::Ip;

/// Walks a set once, in the order in which addresses are given out: from the one after the last
/// given to the end, and round to that one. Gateways are passed over.
class Cursor {
 public:
  struct Candidate {
    Ip ip;
    const Range* range;
  };

  /// A last that is no longer in the set is as good as none.
  Cursor(const RangeSet& set, const std::optional<Ip>& last);
  /// The next address to try; nothing when all have been visited.
  std::optional<Candidate> next();

 private:
  void advance();

  const RangeSet* set_;
  std::size_t range_ = 0;
  std::optional<Ip> at_, first_;
};

}  // namespace leases
