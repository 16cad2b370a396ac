#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace netlink {

enum class Family : std::uint8_t { kIpv4 = 4, kIpv6 = 6 };

inline constexpr Family kFamilies[] = {Family::kIpv4, Family::kIpv6};

/// An IPv4 or IPv6 address in network byte order. Ordered by family, then numerically.
/// The text form is RFC 5952; an IPv4-mapped IPv6 address is read as the IPv4 address.
class Ip {
 public:
  /// Empty: text is not an address. Zones, leading zeros in dotted quads and prefixes are not
  /// taken.
  static std::optional<Ip> parse(std::string_view text);
  /// bytes has 4 or 16 bytes. \throws std::invalid_argument otherwise.
  static Ip from_bytes(const void* bytes, std::size_t size);
  /// 0.0.0.0 or ::.
  static Ip any(Family family);

  Family family() const { return family_; }
  bool is_v4() const { return family_ == Family::kIpv4; }
  /// 4 or 16.
  std::size_t size() const { return is_v4() ? 4 : 16; }
  /// 32 or 128.
  unsigned bits() const { return is_v4() ? 32 : 128; }
  const std::uint8_t* data() const { return bytes_.data(); }
  std::string str() const;

  /// The next or previous address; nothing past the last or before the first of the family.
  std::optional<Ip> next() const;
  std::optional<Ip> prev() const;
  /// The address with all but the first prefix bits cleared, or set.
  Ip masked(unsigned prefix) const;
  Ip broadcast(unsigned prefix) const;

  bool is_unspecified() const;
  bool is_loopback() const;
  bool is_multicast() const;
  bool is_link_local() const;

  auto operator<=>(const Ip&) const = default;

 private:
  Family family_ = Family::kIpv4;
  std::array<std::uint8_t, 16> bytes_{};
};

/// The number of addresses from the first to the last of one family, both included; the largest
/// number also stands for more: a /64 of IPv6 has 2^64.
std::uint64_t count(const Ip& first, const Ip& last);
/// The same without one of them, such as a gateway. \pre there is at least one.
std::uint64_t count_but_one(const Ip& first, const Ip& last);

/// An address with a prefix length; host bits are kept ("10.1.2.3/24").
struct Cidr {
  Ip ip;
  unsigned prefix = 0;

  /// Empty: text is not ADDRESS/LENGTH.
  static std::optional<Cidr> parse(std::string_view text);
  /// bytes has 4 or 16 bytes, of which prefix counts the bits; it is cut to what the address has.
  /// \throws std::invalid_argument for another size.
  static Cidr from_bytes(const void* bytes, std::size_t size, unsigned prefix);
  std::string str() const;
  /// The network: host bits cleared.
  Cidr network() const { return {ip.masked(prefix), prefix}; }
  bool contains(const Ip& other) const;
  bool is_default() const { return prefix == 0 && ip.is_unspecified(); }

  auto operator<=>(const Cidr&) const = default;
};

}  // namespace netlink
