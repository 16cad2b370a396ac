#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "netlink/encoder.h"
#include "netlink/netns.h"
#include "netlink/types/ip.h"

struct nlmsghdr;

namespace netlink {

/// One rtnetlink request under construction. What does not fit into a page is an error.
class Message {
 public:
  /// header is the family's fixed struct (ifinfomsg, ifaddrmsg, rtmsg, ...). flags are added to
  /// NLM_F_REQUEST.
  template <class Header>
  Message(std::uint16_t type, std::uint16_t flags, const Header& header)
      : Message(type, flags, &header, sizeof header) {}

  void put(std::uint16_t attribute, const void* data, std::size_t size);
  void put(std::uint16_t attribute, std::string_view text);  ///< NUL-terminated on the wire
  void put(std::uint16_t attribute, const Ip& ip);
  void put_u8(std::uint16_t attribute, std::uint8_t value);
  void put_u16(std::uint16_t attribute, std::uint16_t value);
  void put_u32(std::uint16_t attribute, std::uint32_t value);
  /// A fixed struct without attribute header, inside a nest (VETH_INFO_PEER starts with one).
  template <class Header>
  void append(const Header& header) {
    encoder_.append(&header, sizeof header);
  }
  template <class Fill>
  void nest(std::uint16_t attribute, Fill&& fill) {
    const std::size_t open = encoder_.begin(attribute);
    std::forward<Fill>(fill)();
    encoder_.end(open);
  }

  nlmsghdr* header() { return encoder_.header(); }
  const nlmsghdr* header() const { return encoder_.header(); }
  std::span<const std::uint8_t> bytes() const { return encoder_.bytes(); }

 private:
  Message(std::uint16_t type, std::uint16_t flags, const void* header, std::size_t size);
  Encoder encoder_;
};

/// A request and what it is, for the error message. Values of errno in tolerated count as success:
/// for what may be there already, or be gone already.
struct Request {
  std::string operation;  ///< "verb 'object'"
  Message message;
  std::vector<int> tolerated = {};
  std::optional<NetNs> mentions = {};  ///< kept open until it was sent: the message has its number
};

/// A received message: attributes are looked up in it without copying.
class Reply {
 public:
  /// bytes is one whole message, header included; it must outlive the Reply.
  explicit Reply(const nlmsghdr* header) : header_(header) {}

  std::uint16_t type() const;
  /// The bytes of the whole message.
  std::vector<char> copy() const;
  /// The family's fixed struct. \throws std::invalid_argument where the message is shorter.
  template <class Header>
  Header fixed() const {
    Header out;
    copy_fixed(&out, sizeof out);
    return out;
  }
  /// Calls each(type, data, size) for every attribute after a fixed struct of that size. Stops
  /// silently at a malformed one: what comes from a kernel is well-formed, what a fuzzer makes of
  /// it must merely be harmless.
  using Each = std::function<void(std::uint16_t type, const void* data, std::size_t size)>;
  void attributes(std::size_t fixed_size, const Each& each) const;

 private:
  void copy_fixed(void* out, std::size_t size) const;
  const nlmsghdr* header_;
};

/// The attributes nested in one attribute's payload.
void nested(const void* data, std::size_t size, const Reply::Each& each);

/// Typed readers of attribute payloads; 0 or empty where the payload is too short.
std::uint32_t get_u32(const void* data, std::size_t size);
std::uint16_t get_u16(const void* data, std::size_t size);
std::uint8_t get_u8(const void* data, std::size_t size);
std::string get_text(const void* data, std::size_t size);

}  // namespace netlink
