#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "netlink/encoder.h"

namespace netlink::nf {

using Bytes = std::vector<std::uint8_t>;

/// "0x00000002 0x00005000": as libnftnl prints data, in words of the byte order it runs in.
std::string words(const Bytes& data);

/// The protocol family of a table (NFPROTO_*); kUnspec is for messages that belong to no table.
enum class TableFamily : std::uint8_t { kUnspec = 0, kInet = 1, kIp = 2, kBridge = 7, kIp6 = 10 };

/// As nft writes it: "inet", "ip", "bridge", "ip6".
std::string_view name_of(TableFamily family);

/// What starts every nfnetlink message but the type: who it is about and how.
struct Head {
  std::uint16_t type = 0;   ///< subsystem << 8 | message
  std::uint16_t flags = 0;  ///< NLM_F_*; NLM_F_REQUEST is always set
  TableFamily family = TableFamily::kUnspec;
  std::uint16_t resource = 0;  ///< res_id, in host order
};

/// What starts a message about nf_tables: message is NFT_MSG_*.
Head nf_tables_head(int message, int flags, TableFamily family);

/// One message under construction. What does not fit is an error (EMSGSIZE).
class Message {
 public:
  explicit Message(const Head& head);

  /// Text is NUL-terminated on the wire, integers are big-endian, as nfnetlink wants them.
  void put(std::uint16_t attribute, std::string_view text);
  void put(std::uint16_t attribute, std::span<const std::uint8_t> bytes);
  void put_be32(std::uint16_t attribute, std::uint32_t value);
  void put_be64(std::uint16_t attribute, std::uint64_t value);

  /// What fill() puts lands inside the attribute.
  template <class Fill>
  void nest(std::uint16_t attribute, Fill&& fill) {
    const std::size_t open = encoder_.begin(attribute);
    std::forward<Fill>(fill)();
    encoder_.end(open);
  }

  void set_sequence(std::uint32_t sequence);
  void add_flags(std::uint16_t flags);
  /// The message so far.
  std::span<const std::uint8_t> bytes() const { return encoder_.bytes(); }

 private:
  Encoder encoder_;
};

}  // namespace netlink::nf
