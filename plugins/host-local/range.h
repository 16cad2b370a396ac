#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcni/config/result.h"

namespace host_local {

using netlink::Cidr;
using netlink::Ip;

/// A run of addresses of one subnet, from start to end, both included, without the gateway.
struct Range {
  Cidr subnet;
  Ip start, end, gateway;

  /// Checks the ends and fills in what is absent: start and gateway are the network's address + 1,
  /// end is the last address that is not the IPv4 broadcast address.
  /// \throws cni::Error(kInvalidConfig) in the reference's words.
  static Range make(const Cidr& subnet, std::optional<Ip> start = {}, std::optional<Ip> end = {},
                    std::optional<Ip> gateway = {});

  /// Whether ip lies between start and end; the gateway may.
  bool contains(const Ip& ip) const { return start <= ip && ip <= end; }
  bool overlaps(const Range& other) const { return start <= other.end && other.start <= end; }
  /// Addresses to give out; the largest 64-bit number stands for that many or more.
  std::uint64_t size() const;
  /// "10.1.0.2-10.1.0.9".
  std::string str() const { return start.str() + "-" + end.str(); }

  bool operator==(const Range&) const = default;
};

/// Ranges that form one pool: an attachment gets one address out of each set.
struct RangeSet {
  std::vector<Range> ranges;

  /// The range that has ip, or none.
  const Range* find(const Ip& ip) const;
  /// Whether ip is one that this set gives out: in a range and not its gateway.
  bool gives(const Ip& ip) const;
  bool overlaps(const RangeSet& other) const;
  std::uint64_t size() const;
  /// "10.1.0.2-10.1.0.9,10.1.1.2-10.1.1.9".
  std::string str() const;
};

/// \throws cni::Error(kInvalidConfig) for a set that is empty, mixes families or overlaps itself.
void check(const RangeSet& set);

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

}  // namespace host_local
