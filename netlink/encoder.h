#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

struct nlmsghdr;

namespace netlink {

/// One netlink request under construction (netlink(7), linux/netlink.h): the header, the fixed
/// struct of its family, attributes. Everything is padded to four bytes as the wire wants it. What
/// does not fit into the limit, or into the 16 bits of an attribute's length, is an error.
class Encoder {
 public:
  /// flags are added to NLM_F_REQUEST; limit in bytes, header included.
  Encoder(std::uint16_t type, std::uint16_t flags, std::size_t limit);

  /// Bytes without an attribute header. \throws Error (EMSGSIZE), as all that writes here.
  void append(const void* data, std::size_t size);
  void put(std::uint16_t attribute, const void* data, std::size_t size);
  /// Opens an attribute whose payload is what is written until end(); where that is to be said to.
  std::size_t begin(std::uint16_t attribute);
  void end(std::size_t open);

  /// Valid until the next write. The length in it is always the whole message's.
  nlmsghdr* header();
  const nlmsghdr* header() const;
  std::span<const std::uint8_t> bytes() const { return bytes_; }

 private:
  /// Room for so many bytes more, zeroed and padded; where they begin.
  std::size_t grow(std::size_t size);
  std::vector<std::uint8_t> bytes_;
  std::size_t limit_;
};

}  // namespace netlink
