#include "plugins/cluster-pool/agent/choice.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"

namespace block_agent {

namespace {

using netlink::Cidr;
using netlink::Ip;

constexpr std::size_t kMaxNamed = 10;  // nodes in a note

std::uint64_t hash_of(const std::string& text) {
  const std::string digits = cni::sha512_hex(text, 16);
  std::uint64_t out = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
  return out;
}

// Of its blocks, as far as 64 bits count. All addresses of a /64 are more than that, and its blocks
// are not.
std::uint64_t indices_of(const blocks::Range& range) {
  const unsigned bits = range.block_size - range.subnet.prefix;
  return bits < 64 ? std::min(range.blocks(), std::uint64_t{1} << bits) : range.blocks();
}

// What can be claimed of a network.
struct Free {
  const View& view;
  const blocks::Held& held;
  std::vector<Cidr> chosen;

  // Of this node's own blocks the engine may have been seen to have none, as after a restore.
  bool has(const Cidr& block) const {
    const auto overlaps = [&](const blocks::Block& own) {
      return own.cidr.contains(block.ip) || block.contains(own.cidr.ip);
    };
    return view.overlapping(held.network, block) == nullptr &&
           std::ranges::find(chosen, block) == chosen.end() &&
           std::ranges::none_of(held.blocks, overlaps);
  }
};

// From the block on, around the range.
std::optional<Cidr> first_free(const blocks::Range& range, const Free& free, Cidr at) {
  if (range.size_of(at) == 0) at = range.next_block(at).value_or(*range.first_block());
  const Cidr start = at;
  do {
    if (free.has(at)) return at;
    at = range.next_block(at).value_or(*range.first_block());
  } while (at != start);
  return std::nullopt;
}

std::optional<Cidr> after(const blocks::Range& range, const Free& free, const Cidr& block) {
  if (!range.has_block(block)) return std::nullopt;
  const auto next = range.next_block(block);
  return next && free.has(*next) ? next : std::nullopt;
}

std::optional<Cidr> after_own(const blocks::Range& range, const Free& free) {
  for (auto one = free.chosen.rbegin(); one != free.chosen.rend(); ++one) {
    if (const auto next = after(range, free, *one)) return next;
  }
  const auto& own = free.held.blocks;
  for (auto one = own.rbegin(); one != own.rend(); ++one) {
    if (const auto next = after(range, free, one->cidr)) return next;
  }
  return std::nullopt;
}

std::optional<Cidr> free_block(const blocks::Pool::Set& set, const Free& free) {
  for (const blocks::Range& range : set) {
    if (!range.first_block()) continue;
    if (const auto next = after_own(range, free)) return next;
    const std::uint64_t start =
        hash_of(cni::cat(free.held.node, "/", free.held.network)) % indices_of(range);
    if (const auto found = first_free(range, free, block_at(range, start))) return found;
  }
  return std::nullopt;
}

}  // namespace

Cidr block_at(const blocks::Range& range, std::uint64_t index) {
  const Ip first = range.block_of(range.start).ip;
  std::array<std::uint8_t, 16> bytes{};
  std::memcpy(bytes.data(), first.data(), first.size());
  const unsigned host_bits = first.bits() - range.block_size;
  // The index, shifted by host_bits, is added from the last byte on.
  unsigned carry = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::size_t at = first.size() - 1 - i;
    const unsigned low = static_cast<unsigned>(8 * i);  // the lowest bit of this byte
    unsigned add = 0;
    if (low + 8 > host_bits) {
      add = low >= host_bits
                ? (low - host_bits < 64 ? static_cast<unsigned>(index >> (low - host_bits)) : 0)
                : static_cast<unsigned>(index << (host_bits - low));
    }
    const unsigned sum = bytes[at] + (add & 0xFFU) + carry;
    bytes[at] = static_cast<std::uint8_t>(sum);
    carry = sum >> 8U;
  }
  return {Ip::from_bytes(bytes.data(), first.size()), range.block_size};
}

std::vector<Cidr> free_blocks(const Wish& wish, const View& view, const blocks::Held& held,
                              const std::vector<Cidr>& but) {
  Free free{.view = view, .held = held, .chosen = but};
  std::vector<Cidr> out;
  while (out.size() < wish.count) {
    const auto next = free_block(wish.set, free);
    if (!next) break;
    free.chosen.push_back(*next);
    out.push_back(*next);
  }
  return out;
}

std::string holders_of(const blocks::Pool::Set& set, const std::string& network, const View& view) {
  std::map<std::string, std::size_t> counts;
  view.each_taken(network, [&](const Object& one) {
    const auto has = [&cidr = one.cidr](const blocks::Range& range) {
      return range.subnet.contains(cidr.ip) || cidr.contains(range.subnet.ip);  // of a person
    };
    if (std::ranges::any_of(set, has)) ++counts[holder_of(one)];
  });
  std::string out;
  std::size_t named = 0;
  for (const auto& [node, count] : counts) {
    if (named++ == kMaxNamed)
      return out + cni::cat(", and ", counts.size() - kMaxNamed, " more nodes");
    out += cni::cat(out.empty() ? "" : ", ", node, " has ", count);
  }
  return out;
}

}  // namespace block_agent
