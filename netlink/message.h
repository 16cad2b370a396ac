#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "netlink/types/ip.h"

namespace netlink {

using Bytes = std::vector<std::uint8_t>;
using View = std::span<const std::uint8_t>;

/// Messages and attributes begin at multiples of four bytes: NLMSG_ALIGN and NLA_ALIGN of
/// linux/netlink.h, which are signed.
constexpr std::size_t aligned(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

/// One netlink request under construction (netlink(7), linux/netlink.h): the header, the fixed
/// struct of its family, attributes, all padded with zeros. Every function that adds bytes throws
/// Error (EMSGSIZE) where they do not fit into kLargest.
class Message {
 public:
  /// Bytes, header included: no attribute in it outgrows the 16 bits of its length.
  static constexpr std::size_t kLargest = 65536;

  /// header is the fixed struct (ifinfomsg, rtmsg, nfgenmsg, ...); flags are added to
  /// NLM_F_REQUEST.
  template <class Header>
  Message(unsigned type, unsigned flags, const Header& header) : Message(type, flags) {
    append(header);
  }

  /// A struct without an attribute header (VETH_INFO_PEER begins with one).
  template <class Header>
  void append(const Header& header) {
    add(&header, sizeof header);
  }
  void put(std::uint16_t attribute, View bytes) { put(attribute, bytes.data(), bytes.size()); }
  void put(std::uint16_t attribute, std::string_view text);  ///< NUL-terminated on the wire
  void put(std::uint16_t attribute, const Ip& ip) { put(attribute, ip.data(), ip.size()); }
  /// A struct of linux/*.h, or a number with its width.
  template <class Struct>
  void put_struct(std::uint16_t attribute, const Struct& value) {
    static_assert(std::is_trivially_copyable_v<Struct>);
    put(attribute, &value, sizeof value);
  }
  void put_u8(std::uint16_t attribute, std::uint8_t value) { put_struct(attribute, value); }
  void put_u16(std::uint16_t attribute, std::uint16_t value) { put_struct(attribute, value); }
  void put_u32(std::uint16_t attribute, std::uint32_t value) { put_struct(attribute, value); }
  void put_u64(std::uint16_t attribute, std::uint64_t value) { put_struct(attribute, value); }
  /// Big-endian, as nfnetlink wants numbers.
  void put_be16(std::uint16_t attribute, std::uint16_t value);
  void put_be32(std::uint16_t attribute, std::uint32_t value);
  void put_be64(std::uint16_t attribute, std::uint64_t value);
  /// Nests the attributes that fill() puts.
  template <class Fill>
  void nest(std::uint16_t attribute, Fill&& fill) {
    const std::size_t start = begin(attribute);
    std::forward<Fill>(fill)();
    end(start);
  }

  void add_flags(unsigned flags);
  void set_sequence(std::uint32_t sequence);
  /// The whole message, a multiple of four bytes long. Valid until the next change.
  View bytes() const { return bytes_; }

 private:
  Message(unsigned type, unsigned flags);
  void put(std::uint16_t attribute, const void* data, std::size_t size);
  void add(const void* data, std::size_t size);
  /// Appends that many zeros, and padding; returns where they begin.
  std::size_t grow(std::size_t size);
  std::size_t begin(std::uint16_t attribute);
  void end(std::size_t start);

  Bytes bytes_;
};

}  // namespace netlink
