#pragma once

#include <endian.h>
#include <libmnl/libmnl.h>

#include <cstring>
#include <string>

#include "netlink/attributes.h"
#include "tests/judge/judge.h"

namespace judge {

/// Attributes as libmnl walks them. As in netlink::Attributes, the first one of a type counts, and
/// a number that is longer than its attribute is zero.
struct Range {
  const char* at = nullptr;
  std::size_t size = 0;

  Range() = default;
  explicit Range(netlink::View bytes)
      : at(reinterpret_cast<const char*>(bytes.data())), size(bytes.size()) {}
  /// Of a message, behind a fixed struct of that size; empty where the message is cut off.
  Range(netlink::View message, std::size_t fixed) {
    const auto* const head = reinterpret_cast<const nlmsghdr*>(message.data());
    if (!mnl_nlmsg_ok(head, static_cast<int>(message.size()))) return;
    at = static_cast<const char*>(mnl_nlmsg_get_payload_offset(head, fixed));
    // mnl_nlmsg_get_payload_tail() rounds a length that is not aligned up, past the message.
    const auto* const tail = reinterpret_cast<const char*>(head) + head->nlmsg_len;
    size = at < tail ? static_cast<std::size_t>(tail - at) : 0;
  }
  explicit Range(const nlattr* one)
      : at(static_cast<const char*>(mnl_attr_get_payload(one))),
        size(mnl_attr_get_payload_len(one)) {}

  /// Whether the attributes fill the range.
  template <class Each>
  bool walk(const Each& each) const {
    const auto* one = reinterpret_cast<const nlattr*>(at);
    const char* const end = at + size;
    while (mnl_attr_ok(one, static_cast<int>(end - reinterpret_cast<const char*>(one)))) {
      each(one);
      one = mnl_attr_next(one);
    }
    return reinterpret_cast<const char*>(one) >= end;
  }
  Range nested(unsigned type) const {
    const nlattr* out = nullptr;
    walk([&](const nlattr* one) {
      if (out == nullptr && mnl_attr_get_type(one) == type) out = one;
    });
    return out == nullptr ? Range() : Range(out);
  }
  bool has(unsigned type) const { return nested(type).at != nullptr; }
  std::string text(unsigned type) const {
    const Range value = nested(type);
    return {value.at, value.size == 0 ? 0 : ::strnlen(value.at, value.size)};
  }
  netlink::Bytes bytes(unsigned type) const {
    const Range value = nested(type);
    return {value.at, value.at + value.size};
  }
  /// A number, or a struct.
  template <class Struct>
  Struct as(unsigned type) const {
    const Range value = nested(type);
    Struct out{};
    if (value.size >= sizeof out) std::memcpy(&out, value.at, sizeof out);
    return out;
  }
  std::uint8_t u8(unsigned type) const { return as<std::uint8_t>(type); }
  std::uint16_t u16(unsigned type) const { return as<std::uint16_t>(type); }
  std::uint32_t u32(unsigned type) const { return as<std::uint32_t>(type); }
  std::uint64_t u64(unsigned type) const { return as<std::uint64_t>(type); }
  std::uint16_t be16(unsigned type) const { return be16toh(u16(type)); }
  std::uint32_t be32(unsigned type) const { return be32toh(u32(type)); }
};

}  // namespace judge
