#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "libcni/config/key.h"

namespace cni {

/// What a Complaint says of a key that its object does not have.
inline constexpr const char* kUnknownKey = "unknown key";

/// Something in a config that its table of keys does not allow.
struct Complaint {
  std::string path;        ///< as in a plugin's errors: "ipam.ranges[0][1].subnet"
  std::string what;        ///< "unknown key", "expected true or false: \"yes\""
  std::string suggestion;  ///< what may have been meant: a key, or a value in JSON; may be empty
  bool operator==(const Complaint&) const = default;

  /// "isGatway: unknown key (did you mean isGateway?)"
  std::string str() const;
};

/// Everything that a table has against a config, where the parser stops at the first error. Keys
/// match as in Reader. A key that is not listed is complained of, though a plugin ignores it: one
/// that resembles a listed key, which is the suggestion, is probably misspelt. What keys require of
/// each other is checked by the parser alone.
std::vector<Complaint> complaints(const Key& object, const nlohmann::json& config);
std::vector<Complaint> complaints(const Manual& manual, const nlohmann::json& config);

/// Complaints as --validate prints them: [{"path": ..., "message": ..., "suggestion": ...}].
nlohmann::ordered_json json_of(const std::vector<Complaint>& complaints);
/// Reads what json_of() wrote; entries of another form are ignored.
std::vector<Complaint> complaints_in(const nlohmann::json& list);

}  // namespace cni
