#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace cni {

/// Something in a config that its plugin's schema does not allow.
struct Complaint {
  std::string path;        ///< as in a plugin's own complaints: "ipam.ranges[0][1].subnet"
  std::string what;        ///< "unknown key", "expected true or false: \"yes\""
  std::string suggestion;  ///< what may have been meant: a key, or a value in JSON; may be empty
  bool operator==(const Complaint&) const = default;

  /// "isGatway: unknown key (did you mean isGateway?)"
  std::string str() const;
};

/// A plugin of patchbay is asked for its schema by --schema (libcni/key_schema.h). Another's is
/// asked in vain, and without CNI_COMMAND in its environment it only says what it is; for its
/// config there is common_schema().
///
/// Everything that a JSON Schema has against a config. Keys match as a plugin matches them: in any
/// case, and null is an absent key. Of the schema language it knows what a patchbay plugin's
/// --schema uses (libcni/key_schema.h): the keywords of allows() in libcni/schema_keywords.h,
/// properties, required, additionalProperties, items, anyOf, allOf, and $ref within the schema. It
/// passes over what it does not know, so that a schema from elsewhere gives no false complaints.
std::vector<Complaint> complaints(const nlohmann::json& schema, const nlohmann::json& config);

}  // namespace cni
