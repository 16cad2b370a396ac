#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcni/config/result.h"

/// The address ranges of host-local's config, which cnitool reads too.
namespace cni {

/// A run of addresses of one subnet, from start to end, both included, without the gateway.
struct AddressRange {
  netlink::Cidr subnet;
  netlink::Ip start, end, gateway;

  /// Checks the ends and fills in what is absent: start and gateway are the network's address + 1,
  /// end is the last address that is not the IPv4 broadcast address.
  /// \throws cni::Error(kInvalidConfig) in the reference's words, whose details begin with the key.
  static AddressRange make(const netlink::Cidr& subnet, std::optional<netlink::Ip> start = {},
                           std::optional<netlink::Ip> end = {},
                           std::optional<netlink::Ip> gateway = {});

  /// Whether ip lies between start and end; the gateway may.
  bool contains(const netlink::Ip& ip) const { return start <= ip && ip <= end; }
  bool overlaps(const AddressRange& other) const {
    return start <= other.end && other.start <= end;
  }
  /// Addresses to give out; the largest 64-bit number stands for that many or more.
  std::uint64_t size() const;
  /// "10.1.0.2-10.1.0.9".
  std::string str() const { return start.str() + "-" + end.str(); }

  bool operator==(const AddressRange&) const = default;
};

/// Ranges that form one pool: an attachment gets one address out of each set.
struct RangeSet {
  std::vector<AddressRange> ranges;

  /// The range that has ip, or none.
  const AddressRange* find(const netlink::Ip& ip) const;
  /// Whether ip is one that this set gives out: in a range and not its gateway.
  bool gives(const netlink::Ip& ip) const;
  bool overlaps(const RangeSet& other) const;
  std::uint64_t size() const;
  /// "10.1.0.2-10.1.0.9,10.1.1.2-10.1.1.9".
  std::string str() const;
};

/// \throws cni::Error(kInvalidConfig) for a set that is empty, mixes families or overlaps itself.
void check_ranges(const RangeSet& set);

}  // namespace cni
