#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/nf/expr.h"
#include "netlink/nf/nfnetlink.h"
#include "netlink/types/ip.h"

/// Sets and maps of nf_tables, and what is in them. Hash tables: one element is added, found or
/// removed in constant time, however many there are.
namespace netlink::nf {

/// Types of nft's language, with its numbers (enum datatypes of nftables, part of its userdata).
enum class Type : std::uint8_t {
  kVerdict = 1,  ///< data only, alone
  kIpv4Address = 7,
  kIpv6Address = 8,
  kInetProto = 12,
  kInetService = 13,
  kMark = 19,
  kIfname = 41,
};

/// The type of a key or a datum: one, or several concatenated (at most five).
class KeyType {
 public:
  KeyType(std::initializer_list<Type> parts) : parts_(parts) {}
  /// ipv4_addr or ipv6_addr.
  static Type address(Family family);

  const std::vector<Type>& parts() const { return parts_; }
  /// nft's number of the type: 6 bits per part. The kernel only keeps it.
  std::uint32_t id() const;
  /// In bytes; each part of a concatenation is padded to a multiple of 4.
  std::uint32_t length() const;
  /// The byte order for nft's userdata: 0 for a concatenation, 1 for host order, 2 for big-endian.
  std::uint32_t byte_order() const;
  /// "ipv4_addr . inet_service".
  std::string str() const;
  bool operator==(const KeyType&) const = default;

 private:
  std::vector<Type> parts_;
};

/// The values that keys and data are concatenated of.
Bytes value_of(const Ip& ip);
Bytes value_of_protocol(std::uint8_t protocol);  ///< IPPROTO_*
Bytes value_of_port(std::uint16_t port);
/// \throws std::invalid_argument for a name a link cannot have.
Bytes value_of_ifname(std::string_view name);
/// Each part padded with zeros to a multiple of 4 bytes, as in a key with more than one part.
Bytes concatenate(std::initializer_list<Bytes> parts);
/// The name of a set or a map, which share their names. A name that is a word of nft's
/// language ("dnat", "hash") works in the kernel, but `nft -f` does not read its listing back.
struct SetId {
  TableFamily family = TableFamily::kInet;
  std::string table;
  std::string set;
  auto operator<=>(const SetId&) const = default;
  /// "ip filter blocked".
  std::string str() const;
};

/// A set, or with data a map.
struct Set {
  SetId id;
  KeyType key;
  std::optional<KeyType> data = {};
  std::string comment = {};  ///< at most 128 bytes for nft; kernels before 5.10 ignore it
  bool intervals = false;    ///< of addresses, see Element::ends_interval
  bool operator==(const Set&) const = default;
};

struct Element {
  Bytes key;
  Bytes data = {};                      ///< maps only
  std::string comment = {};             ///< at most 253 bytes; nft takes 128
  std::optional<Verdict> verdict = {};  ///< verdict maps only, instead of data
  /// Sets of intervals only: the interval before ends below the key
  /// (NFT_SET_ELEM_INTERVAL_END). The last one may have no end.
  bool ends_interval = false;
  bool operator==(const Element&) const = default;
};

/// A key that is there is an error (EEXIST) if its data is another. If the data is the same, or in
/// a set, it stays as it is, with its old comment; with exclusive that is an error too.
struct AddElements {
  SetId set;
  std::vector<Element> elements;
  bool exclusive = false;
};
/// A key that is not there is an error (ENOENT).
struct DeleteElements {
  SetId set;
  std::vector<Bytes> keys;
};

/// Refused by the kernel (EBUSY) while a rule asks it.
struct DeleteSet {
  SetId id;
};

/// The elements of an interval set that has the networks, of which none overlap: neighbours are
/// one interval. In the order of the addresses.
std::vector<Element> intervals_of(std::vector<Cidr> networks);

/// number tells the sets of one batch apart, from 1.
Message encode_set(const Set& set, std::uint32_t number);
Message encode_set(const DeleteSet& change);
/// Several messages for many elements: a nested attribute has 16 bits for its length.
std::vector<Message> encode_elements(const AddElements& change);
std::vector<Message> encode_elements(const DeleteElements& change);
/// Asks for one element, or without a key for all: NFT_MSG_GETSETELEM.
Message encode_query(const SetId& set, const std::optional<Bytes>& key);

/// The elements of an NFT_MSG_NEWSETELEM, but for a catch-all (`*`), which has no key: only a
/// person or another program adds one, and all code here works with keys.
std::vector<Element> decode_elements(const Attributes& attributes);
/// Whether one of them is a catch-all.
bool lists_catch_all(const Attributes& attributes);

/// One line; bytes as nft --debug=netlink shows them.
std::string text(const Set& set);
std::string text(const Element& element);

}  // namespace netlink::nf
