#include "netlink/types/ip.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <limits>
#include <stdexcept>

#include "netlink/types/error.h"

namespace netlink {

namespace {

constexpr std::array<std::uint8_t, 12> kMappedPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

std::string format_v4(const std::uint8_t* b) { return cat(b[0], '.', b[1], '.', b[2], '.', b[3]); }

// RFC 5952. Not inet_ntop(3): that prints ::/96 addresses as dotted quads, and reservation files
// are named by this text.
std::string format_v6(const std::uint8_t* b) {
  unsigned group[8];
  for (int i = 0; i < 8; ++i) group[i] = static_cast<unsigned>(b[2 * i] << 8 | b[2 * i + 1]);
  int best = -1;
  int best_length = 1;  // a single zero group is not compressed
  for (int i = 0; i < 8; ++i) {
    int n = 0;
    while (i + n < 8 && group[i + n] == 0) ++n;
    if (n > best_length) {
      best = i;
      best_length = n;
    }
  }
  std::string out;
  for (int i = 0; i < 8; ++i) {
    if (i == best) {
      out += "::";
      i += best_length - 1;
      continue;
    }
    if (!out.empty() && out.back() != ':') out += ':';
    char text[8];
    out.append(text, std::to_chars(text, std::end(text), group[i], 16).ptr);
  }
  return out;
}

struct Number {
  std::uint64_t high = 0, low = 0;
};

Number number(const Ip& ip) {
  Number out;
  for (std::size_t i = 0; i < ip.size(); ++i) {
    out.high = out.high << 8 | out.low >> 56;
    out.low = out.low << 8 | ip.data()[i];
  }
  return out;
}

}  // namespace

std::optional<Ip> Ip::parse(std::string_view text) {
  const std::string copy(text);
  if (copy.size() != std::strlen(copy.c_str())) return std::nullopt;  // NUL inside
  std::uint8_t bytes[16];
  if (::inet_pton(AF_INET, copy.c_str(), bytes) == 1) return from_bytes(bytes, 4);
  if (::inet_pton(AF_INET6, copy.c_str(), bytes) == 1) return from_bytes(bytes, 16);
  return std::nullopt;
}

Ip Ip::from_bytes(const void* bytes, std::size_t size) {
  const auto* b = static_cast<const std::uint8_t*>(bytes);
  if (size != 4 && size != 16) throw std::invalid_argument("an address has 4 or 16 bytes");
  Ip ip;
  const bool mapped = size == 16 && std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), b);
  if (mapped) b += kMappedPrefix.size();
  ip.family_ = size == 4 || mapped ? Family::kIpv4 : Family::kIpv6;
  std::copy_n(b, ip.size(), ip.bytes_.begin());
  return ip;
}

Ip Ip::any(Family family) {
  Ip ip;
  ip.family_ = family;
  return ip;
}

std::string Ip::str() const { return is_v4() ? format_v4(data()) : format_v6(data()); }

std::optional<Ip> Ip::next() const {
  Ip out = *this;
  for (std::size_t i = size(); i-- > 0;) {
    if (++out.bytes_[i] != 0) return out;
  }
  return std::nullopt;
}

std::optional<Ip> Ip::prev() const {
  Ip out = *this;
  for (std::size_t i = size(); i-- > 0;) {
    if (out.bytes_[i]-- != 0) return out;
  }
  return std::nullopt;
}

Ip Ip::masked(unsigned prefix) const {
  Ip out = *this;
  for (unsigned bit = prefix; bit < bits(); ++bit) {
    out.bytes_[bit / 8] &= static_cast<std::uint8_t>(~(0x80U >> bit % 8));
  }
  return out;
}

Ip Ip::broadcast(unsigned prefix) const {
  Ip out = *this;
  for (unsigned bit = prefix; bit < bits(); ++bit) {
    out.bytes_[bit / 8] |= static_cast<std::uint8_t>(0x80U >> bit % 8);
  }
  return out;
}

bool Ip::is_unspecified() const { return *this == any(family_); }

bool Ip::is_loopback() const {
  if (is_v4()) return bytes_[0] == 127;
  return str() == "::1";
}

bool Ip::is_multicast() const { return is_v4() ? bytes_[0] >> 4 == 0xe : bytes_[0] == 0xff; }

bool Ip::is_link_local() const {
  if (is_v4()) return bytes_[0] == 169 && bytes_[1] == 254;
  return bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80;
}

std::optional<Cidr> Cidr::parse(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto digits = text.substr(slash + 1);
  const auto address = text.substr(0, slash);
  const auto ip = Ip::parse(address);
  if (!ip || digits.empty() || digits.size() > 3) return std::nullopt;
  unsigned prefix = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    prefix = prefix * 10 + static_cast<unsigned>(c - '0');
  }
  if (digits.size() > 1 && digits[0] == '0') return std::nullopt;
  // "::ffff:10.0.0.0/104" counts its prefix in IPv6 bits.
  if (ip->is_v4() && address.find(':') != std::string_view::npos) {
    if (prefix < 96 || prefix > 128) return std::nullopt;
    prefix -= 96;
  }
  if (prefix > ip->bits()) return std::nullopt;
  return Cidr{*ip, prefix};
}

Cidr Cidr::from_bytes(const void* bytes, std::size_t size, unsigned prefix) {
  const Ip ip = Ip::from_bytes(bytes, size);
  constexpr unsigned kMapped = 96;  // bits in front of the IPv4 address
  if (ip.size() != size) prefix = std::max(prefix, kMapped) - kMapped;
  return {ip, std::min(prefix, ip.bits())};
}

std::string Cidr::str() const { return ip.str() + '/' + std::to_string(prefix); }

bool Cidr::contains(const Ip& other) const {
  return other.family() == ip.family() && other.masked(prefix) == ip.masked(prefix);
}

std::uint64_t count(const Ip& first, const Ip& last) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  const Number a = number(first);
  const Number b = number(last);
  const std::uint64_t low = b.low - a.low;
  const std::uint64_t high = b.high - a.high - (b.low < a.low ? 1 : 0);
  return high != 0 || low == kMax ? kMax : low + 1;
}

// count() - 1 would be wrong: the largest number may stand for just as many, and for more.
std::uint64_t count_but_one(const Ip& first, const Ip& last) {
  return first == last ? 0 : count(first.next().value(), last);
}

}  // namespace netlink
