#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

struct nlmsghdr;

namespace netlink::nf {

/// Attributes as received: a borrowed stretch of bytes, walked without trusting any length in it.
class Attributes {
 public:
  using View = std::span<const std::uint8_t>;
  struct One {
    std::uint16_t type = 0;  ///< without the flag bits
    View value;
  };

  Attributes() = default;
  explicit Attributes(View bytes) : rest_(bytes) {}
  /// Those of a whole nfnetlink message, behind its headers.
  static Attributes of(const ::nlmsghdr* message);

  /// What is not yet passed.
  View bytes() const { return rest_; }
  /// The next attribute; nothing at the end or where the rest is malformed.
  std::optional<One> next();
  /// The first attribute of that type among those not yet passed; empty where there is none.
  View find(std::uint16_t type) const;
  Attributes nested(std::uint16_t type) const { return Attributes(find(type)); }
  /// Up to the first NUL; empty where absent. A part of what was received.
  std::string_view text_at(std::uint16_t type) const;
  std::string text(std::uint16_t type) const { return std::string(text_at(type)); }
  /// Big-endian integers; 0 where absent or of another size.
  std::uint32_t be32(std::uint16_t type) const;
  std::uint64_t be64(std::uint16_t type) const;

 private:
  View rest_;
};

}  // namespace netlink::nf
