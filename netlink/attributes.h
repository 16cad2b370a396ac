#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "netlink/message.h"

/// Reads received messages in place: nothing is copied, and no length is trusted. An attribute that
/// is cut off, or shorter than its own header, ends its sequence.
namespace netlink {

/// Walks the items of a stretch of bytes. Item::take() takes the first one off its front.
template <class Item>
class Walk {
 public:
  explicit Walk(View rest) : rest_(rest), item_(Item::take(rest_)) {}
  const Item& operator*() const { return *item_; }
  Walk& operator++() {
    item_ = Item::take(rest_);
    return *this;
  }
  bool operator==(std::default_sentinel_t) const { return !item_; }

 private:
  View rest_;
  std::optional<Item> item_;
};

/// The bytes as a struct or a number; zeros where they are fewer.
template <class Struct>
Struct read_struct(View bytes) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  Struct out{};
  if (bytes.size() >= sizeof out) std::memcpy(&out, bytes.data(), sizeof out);
  return out;
}

class Attributes;

/// One attribute, or with an empty value one that is absent.
struct Attribute {
  std::uint16_t type = 0;  ///< without NLA_F_NESTED and NLA_F_NET_BYTEORDER
  View value = {};

  static std::optional<Attribute> take(View& rest);
  /// The value as a struct or a number; zeros where it is shorter.
  template <class Struct>
  Struct as() const {
    return read_struct<Struct>(value);
  }
  std::uint8_t u8() const { return as<std::uint8_t>(); }
  std::uint16_t u16() const { return as<std::uint16_t>(); }
  std::uint32_t u32() const { return as<std::uint32_t>(); }
  std::uint64_t u64() const { return as<std::uint64_t>(); }
  std::uint16_t be16() const;
  std::uint32_t be32() const;
  std::uint64_t be64() const;
  std::string_view text() const;  ///< up to the first NUL
  Attributes nested() const;
};

/// The attributes of a message, or those nested in one: a range of Attribute.
class Attributes {
 public:
  Attributes() = default;
  explicit Attributes(View bytes) : bytes_(bytes) {}
  Walk<Attribute> begin() const { return Walk<Attribute>(bytes_); }
  static std::default_sentinel_t end() { return {}; }
  View bytes() const { return bytes_; }

  /// The first one of that type; one with an empty value where there is none.
  Attribute find(std::uint16_t type) const;
  bool has(std::uint16_t type) const { return !find(type).value.empty(); }
  Attributes nested(std::uint16_t type) const { return find(type).nested(); }
  std::string text(std::uint16_t type) const { return std::string(find(type).text()); }
  std::uint32_t be32(std::uint16_t type) const { return find(type).be32(); }
  std::uint64_t be64(std::uint16_t type) const { return find(type).be64(); }

 private:
  View bytes_;
};

inline Attributes Attribute::nested() const { return Attributes(value); }

/// A whole message as received, header included.
class Reply {
 public:
  /// For a message that is known to be whole, for example one just built.
  explicit Reply(View bytes) : bytes_(bytes) {}
  static std::optional<Reply> take(View& rest);

  std::uint16_t type() const;
  std::uint16_t flags() const;
  std::uint32_t sequence() const;
  View bytes() const { return bytes_; }
  /// The bytes after the header.
  View payload() const;
  /// The family's fixed struct. \throws std::invalid_argument where the message is shorter.
  template <class Header>
  Header fixed() const {
    if (payload().size() < sizeof(Header)) throw_short();
    return read_struct<Header>(payload());
  }
  /// The attributes behind a fixed struct of that size; none if the message is shorter.
  Attributes attributes(std::size_t fixed_size) const;

 private:
  [[noreturn]] static void throw_short();
  View bytes_;
};

/// The messages of a datagram: a range of Reply.
struct Replies {
  View datagram;
  Walk<Reply> begin() const { return Walk<Reply>(datagram); }
  static std::default_sentinel_t end() { return {}; }
};

}  // namespace netlink
