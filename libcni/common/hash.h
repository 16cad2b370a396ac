#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cni {

/// The first of the 128 digits of SHA-512 (FIPS 180-4), in lower-case hexadecimal. Names of chains,
/// rules and links are made of them; nothing secret depends on it.
std::string sha512_hex(std::string_view text, std::size_t digits = 128);

/// The reference's name of an attachment's chain or device: the first `length` characters of
/// prefix + SHA-512(network + container_id), without separator.
std::string attachment_hash(std::size_t length, std::string_view prefix, std::string_view network,
                            std::string_view container_id);

/// The owner of a rule or a link, in the form of the reference plugins:
/// "<H1>-<H2>, net: NETWORK, if: IFNAME, id: CONTAINER", at most 128 bytes, no double quotes.
/// H1 is 16 hex digits of SHA-512(network), H2 of SHA-512(ifname + ":" + container_id).
struct OwnerTag {
  std::string network_hash;   ///< H1
  std::string instance_hash;  ///< H2
  std::string text;           ///< the whole comment

  OwnerTag(std::string_view network, std::string_view container_id, std::string_view ifname);
  /// "H1-H2": what the comments of one attachment start with.
  std::string prefix() const { return network_hash + '-' + instance_hash; }
  /// Whether a text has that form, for whatever attachment: not an alias that a person gave.
  static bool is_tag(std::string_view text);
  /// The prefix() with which a text of that form begins; empty: it has another form.
  static std::string prefix_in(std::string_view text);
  /// The network that a whole comment names; empty where it was cut off or is another's text.
  static std::string network_in(std::string_view text);
  /// The interface in such a text, of which the ID alone may be cut off; not compared with the
  /// hash.
  static std::string ifname_in(std::string_view text);
};

}  // namespace cni
