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

// From the block on, around the range.
std::optional<Cidr> first_free(const blocks::Range& range, const View& view,
                               const std::string& network, Cidr at) {
  if (range.size_of(at) == 0) at = range.next_block(at).value_or(*range.first_block());
  const Cidr start = at;
  do {
    if (view.overlapping(network, at) == nullptr) return at;
    at = range.next_block(at).value_or(*range.first_block());
  } while (at != start);
  return std::nullopt;
}

std::optional<Cidr> after_own(const blocks::Range& range, const View& view,
                              const blocks::Held& held) {
  for (auto one = held.blocks.rbegin(); one != held.blocks.rend(); ++one) {
    if (!range.has_block(one->cidr)) continue;
    const auto next = range.next_block(one->cidr);
    if (next && view.overlapping(held.network, *next) == nullptr) return next;
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

std::optional<Cidr> free_block(const blocks::Pool::Set& set, const View& view,
                               const blocks::Held& held) {
  for (const blocks::Range& range : set) {
    if (!range.first_block()) continue;
    if (const auto next = after_own(range, view, held)) return next;
    const std::uint64_t start = hash_of(cni::cat(held.node, "/", held.network)) % indices_of(range);
    if (const auto found = first_free(range, view, held.network, block_at(range, start))) {
      return found;
    }
  }
  return std::nullopt;
}

std::string holders_of(const blocks::Pool::Set& set, const View::Blocks& taken) {
  std::map<std::string, std::size_t> counts;
  for (const auto& [first, one] : taken) {
    const auto has = [&ip = one.cidr.ip](const blocks::Range& range) {
      return range.subnet.contains(ip);
    };
    if (std::ranges::any_of(set, has))
      ++counts[one.node.empty() ? "an unreadable object" : one.node];
  }
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
