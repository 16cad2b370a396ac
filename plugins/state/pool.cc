#include "plugins/state/pool.h"

#include <algorithm>
#include <limits>

namespace blocks {

using netlink::Cidr;
using netlink::Ip;

namespace {

Ip last_of(const Cidr& network) { return network.ip.broadcast(network.prefix); }

// The excluded network that has ip, the largest of them.
const Cidr* exclusion_of(const std::vector<Cidr>& exclude, const Ip& ip) {
  const Cidr* out = nullptr;
  for (const Cidr& one : exclude) {
    if (one.contains(ip) && (out == nullptr || one.prefix < out->prefix)) out = &one;
  }
  return out;
}

// The last address from ip on, and not after end, before which no excluded network begins.
Ip end_of_run(const std::vector<Cidr>& exclude, const Ip& ip, Ip end) {
  for (const Cidr& one : exclude) {
    const Ip first = one.ip.masked(one.prefix);
    if (first.family() == ip.family() && first > ip && first <= end) end = *first.prev();
  }
  return end;
}

}  // namespace

bool Range::is_sound() const {
  const bool has_ends = subnet.contains(start) && subnet.contains(end) && start <= end;
  return has_ends && subnet == subnet.network() && block_size >= subnet.prefix &&
         block_size <= subnet.ip.bits();
}

bool Range::gives(const Ip& ip) const {
  return contains(ip) && ip != gateway && exclusion_of(exclude, ip) == nullptr;
}

bool Range::has_block(const Cidr& block) const {
  return block.prefix == block_size && block == block.network() && block.ip <= end &&
         last_of(block) >= start;
}

std::optional<Cidr> Range::first_block() const {
  const Cidr block = block_of(start);
  return size_of(block) != 0 ? block : next_block(block);
}

std::optional<Cidr> Range::next_block(const Cidr& block) const {
  std::optional<Ip> at = last_of(block).next();
  while (at && *at <= end) {
    const Cidr next = block_of(*at);
    if (size_of(next) != 0) return next;
    // Excluded networks can have more blocks than can be looked at one by one.
    const Cidr* const excluded = exclusion_of(exclude, *at);
    const bool is_larger = excluded != nullptr && excluded->prefix < block_size;
    at = (is_larger ? last_of(*excluded) : last_of(next)).next();
  }
  return std::nullopt;
}

std::uint64_t Range::blocks() const {
  constexpr std::uint64_t kMany = std::numeric_limits<std::uint64_t>::max();
  const Ip first = block_of(start).ip, last = last_of(block_of(end));
  const unsigned host_bits = first.bits() - block_size;
  // A block of IPv6 may have more addresses than 64 bits count, and so may all blocks.
  std::uint64_t out = 1;
  if (host_bits >= 64) return out;
  const std::uint64_t addresses = netlink::count(first, last);
  out = addresses == kMany ? kMany : addresses >> host_bits;
  return out;
}

std::uint64_t Range::usable_blocks() const {
  constexpr std::uint64_t kMany = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t out = 0;
  std::optional<Cidr> counted;
  std::optional<Ip> at = start;
  while (at && *at <= end) {
    const Cidr* const excluded = exclusion_of(exclude, *at);
    const Ip end_of_this = excluded != nullptr ? last_of(*excluded) : end_of_run(exclude, *at, end);
    Range run = *this;
    run.start = *at == gateway && *at != end_of_this ? *at->next() : *at;
    run.end =
        end_of_this == gateway && run.start != end_of_this ? *end_of_this.prev() : end_of_this;
    if (excluded == nullptr && run.start != gateway) {
      const std::uint64_t more = run.blocks() - (counted == block_of(run.start) ? 1 : 0);
      out = more > kMany - out ? kMany : out + more;
      counted = block_of(run.end);
    }
    at = end_of_this.next();
  }
  return out;
}

std::vector<cni::AddressRange> Range::runs_in(const Cidr& block) const {
  std::vector<cni::AddressRange> out;
  if (!has_block(block)) return out;
  std::optional<Ip> at = std::max(block.ip, start);
  const Ip end_of_block = std::min(last_of(block), end);
  while (at && *at <= end_of_block) {
    const Cidr* const excluded = exclusion_of(exclude, *at);
    const Ip last =
        excluded != nullptr ? last_of(*excluded) : end_of_run(exclude, *at, end_of_block);
    const bool is_gateway = *at == last && last == gateway;
    if (excluded == nullptr && !is_gateway) out.push_back({subnet, *at, last, gateway});
    at = last.next();
  }
  return out;
}

std::uint64_t Range::size_of(const Cidr& block) const {
  return cni::RangeSet{runs_in(block)}.size();
}

bool Pool::is_sound() const {
  return std::ranges::all_of(sets, [](const Set& set) {
    return !set.empty() && std::ranges::all_of(set, &Range::is_sound);
  });
}

const Range* Pool::find(const Ip& ip) const {
  for (const Set& set : sets) {
    for (const Range& range : set) {
      if (range.contains(ip)) return &range;
    }
  }
  return nullptr;
}

const Range* Pool::find(const Cidr& block) const {
  const auto set = set_of(block);
  if (!set) return nullptr;
  const auto found =
      std::ranges::find_if(sets[*set], [&](const Range& range) { return range.has_block(block); });
  return &*found;
}

std::optional<std::size_t> Pool::set_of(const Cidr& block) const {
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const auto has = [&](const Range& range) { return range.has_block(block); };
    if (std::ranges::any_of(sets[i], has)) return i;
  }
  return std::nullopt;
}

}  // namespace blocks
