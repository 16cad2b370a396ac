#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace netlink {

/// An Ethernet address (EUI-48).
struct Mac {
  std::array<std::uint8_t, 6> bytes{};

  /// Takes "aa:bb:cc:dd:ee:ff", "aa-bb-cc-dd-ee-ff" and "aabb.ccdd.eeff"; nothing for other text.
  static std::optional<Mac> parse(std::string_view text);
  /// A random, locally administered unicast address, from getrandom(2).
  static Mac random();
  /// Lower case, with colons.
  std::string str() const;
  bool is_zero() const { return *this == Mac{}; }
  /// Group addresses (lowest bit of the first byte) are no interface's own.
  bool is_multicast() const { return (bytes[0] & 1) != 0; }

  auto operator<=>(const Mac&) const = default;
};

}  // namespace netlink
