#pragma once

#include <libmnl/libmnl.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>

#include "tests/judge/range.h"

namespace judge {

/// What the kernel's nla_policy says of an attribute.
struct Policy {
  mnl_attr_data_type type = MNL_TYPE_UNSPEC;
  std::size_t length = 0;   ///< bytes; 0: any number
  std::string inside = {};  ///< the place that is nested; a '*' at its end stands for the kind
  bool repeats = false;     ///< may stand more than once
};

/// The policies of one place: the attributes of a message, or of a nest.
struct Place {
  using Types = std::initializer_list<int>;
  static constexpr std::uint16_t kAny = 0xffff;  ///< attributes that count instead of naming

  std::map<std::uint16_t, Policy> policies = {};
  std::uint16_t kind_in = 0;  ///< the attribute that names the kind

  Place& all(Types types, const Policy& policy);
  Place& u8(Types types) { return all(types, {MNL_TYPE_U8, 1}); }
  Place& u16(Types types) { return all(types, {MNL_TYPE_U16, 2}); }
  Place& u32(Types types) { return all(types, {MNL_TYPE_U32, 4}); }
  Place& u64(Types types) { return all(types, {MNL_TYPE_U64, 8}); }
  Place& text(Types types) { return all(types, {MNL_TYPE_NUL_STRING}); }
  Place& bytes(Types types, std::size_t length = 0) {
    return all(types, {MNL_TYPE_BINARY, length});
  }
  Place& nest(int type, const char* inside) { return all({type}, {MNL_TYPE_NESTED, 0, inside}); }
  Place& list(int type, const char* inside) {
    return all({type}, {MNL_TYPE_NESTED, 0, inside, true});
  }
  Place& kind(int type) {
    kind_in = static_cast<std::uint16_t>(type);
    return text({type});
  }
};

/// Nothing where the place is not known ("link", "link/info/bridge", "nf/expr/meta").
const Place* place_of(const std::string& name);

/// Whether the attributes fill the range, and those that are known have the type and the length of
/// the policies, none twice. In strict mode an unknown attribute, and a nest without its flag, are
/// wrong too, and are printed.
bool is_valid(const Range& range, const std::string& place, bool strict);

/// The same for a whole message of NETLINK_ROUTE or another protocol, whose numbers mean other
/// things. One of a family that is not judged is valid in strict mode only.
bool is_well_formed(netlink::View message, bool strict, int protocol = NETLINK_ROUTE);

}  // namespace judge
