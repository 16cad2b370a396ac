#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcni/config/address_range.h"

/// A pool of the whole cluster, cut into blocks that nodes have. Blocks are aligned: the first of
/// a subnet begins at its network address.
namespace blocks {

/// A range of the config of the plugin cluster-pool, with its defaults.
struct Range {
  netlink::Cidr subnet;
  netlink::Ip start, end;  ///< both included
  netlink::Ip gateway;
  unsigned block_size = 0;                  ///< prefix length of its blocks
  std::vector<netlink::Cidr> exclude = {};  ///< networks; an address has the whole prefix length
  bool operator==(const Range&) const = default;

  /// Whether all are of one family, the ends are in the subnet, and blocks have its length or more.
  bool is_sound() const;
  bool contains(const netlink::Ip& ip) const { return start <= ip && ip <= end; }
  /// Whether ip may be given out: in the range, not excluded, not the gateway.
  bool gives(const netlink::Ip& ip) const;
  /// The block that has ip.
  netlink::Cidr block_of(const netlink::Ip& ip) const {
    return {ip.masked(block_size), block_size};
  }
  /// Whether it is one of the range's blocks: of that length, with an address of the range.
  bool has_block(const netlink::Cidr& block) const;
  /// The first block with an address to give out; nothing: there is none.
  std::optional<netlink::Cidr> first_block() const;
  /// The one after it with an address to give out, in the order of addresses.
  std::optional<netlink::Cidr> next_block(const netlink::Cidr& block) const;
  /// How many blocks it has, those without an address to give out included; the largest 64-bit
  /// number stands for that many or more.
  std::uint64_t blocks() const;
  /// How many have an address to give out: those that nodes claim. As blocks() where there are
  /// many.
  std::uint64_t usable_blocks() const;

  /// The addresses of the block that may be given out, in runs; none of another range's block. The
  /// gateway may lie in a run, which then passes it over (cni::AddressRange).
  std::vector<cni::AddressRange> runs_in(const netlink::Cidr& block) const;
  /// Addresses to give out in the block.
  std::uint64_t size_of(const netlink::Cidr& block) const;
};

/// An attachment gets one address of each set; the ranges of a set form one pool.
struct Pool {
  using Set = std::vector<Range>;
  std::vector<Set> sets = {};
  std::string data_dir = {};  ///< the parent of the network's folder of leases
  bool operator==(const Pool&) const = default;

  bool is_sound() const;
  /// The range that has the address or block, and nullptr without one.
  const Range* find(const netlink::Ip& ip) const;
  const Range* find(const netlink::Cidr& block) const;
  /// The index of its set; nothing: in none.
  std::optional<std::size_t> set_of(const netlink::Cidr& block) const;
};

}  // namespace blocks
