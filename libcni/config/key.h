#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "libcni/config/conf.h"
#include "libcni/config/facts.h"

namespace cni {

struct Key;

/// The keys that an object may have.
class KeyList {
 public:
  constexpr KeyList() = default;
  constexpr KeyList(const Key* first, std::size_t count) : first_(first), count_(count) {}
  template <std::size_t N>
  constexpr KeyList(const Key (&keys)[N]) : first_(keys), count_(N) {}

  constexpr const Key* begin() const { return first_; }
  constexpr const Key* end() const;

 private:
  const Key* first_ = nullptr;
  std::size_t count_ = 0;
};

/// The type of a value; see also Key::lists.
enum class Type : std::uint8_t {
  kBool,
  kBoolOrObject,  ///< a bool; an object, which others read, is passed over (with Key::open)
  kInteger,       ///< an integer
  kString,
  kEnum,             ///< one of Key::enumeration
  kIp,               ///< an address
  kCidr,             ///< an address with its prefix length, or one of Key::enumeration
  kIpOrCidr,         ///< an address, with or without
  kMac,              ///< a unicast MAC address other than zero
  kIntegerOrString,  ///< an integer, or a text as Key::pattern says
  kObject,
};

/// A key of a config: how it is read, and its description. Texts are Markdown in one line,
/// without full stop; what stands in backticks is written so in a config.
struct Key {
  const char* name = "";
  const char* description = "";        ///< none: the keys of the object speak for themselves
  const char* default_text = nullptr;  ///< the default, for the table; none: "absent"
  Type type = Type::kString;
  unsigned lists = 0;  ///< 1 is a list of such values, 2 a list of lists of them
  std::int64_t minimum = 0, maximum = std::numeric_limits<std::int64_t>::max();
  std::span<const std::string_view> enumeration = {};
  KeyList keys = {};              ///< of the object
  const char* pattern = nullptr;  ///< of a text: a regular expression (ECMA 262), for --schema
  /// Whether a text is allowed, where the type does not tell: what pattern says, and more.
  bool (*fits)(const std::string& text) = nullptr;
  const char* expected = nullptr;  ///< in an error, if the type and its bounds do not say it
  bool required = false;
  bool or_zero = false;   ///< 0 is allowed besides minimum to maximum
  bool or_empty = false;  ///< an empty string means that the key is absent
  bool open = false;      ///< the object may have more keys, which are for others
  bool flags = false;     ///< the values of those are true or false
  bool folded = false;    ///< the object's keys are the spec's; they have no lines of their own
  /// Reads what the key says into conf; place is absent only where the key is required.
  void (*read)(const Reader& place, const Key& key, void* conf) = nullptr;
};

constexpr const Key* KeyList::end() const { return first_ + count_; }

/// A plugin's description of itself; plugin_main() prints it for --help, --schema and --keys.
struct Manual {
  const char* purpose;  ///< "connects pods to a bridge of the node", without full stop
  KeyList keys = {};  ///< its own; what every config has is known. runtimeConfig's are capabilities
  KeyList args = {};  ///< of CNI_ARGS
  Facts facts = {};
};

}  // namespace cni
