#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "libcni/config/json_value.h"

/// The output of plugins that succeed; errors are error_from()'s (libcni/plugin/invoke.h).
namespace cni {

/// The answer to ADD: a result, with the keys in the order in which it was printed. It becomes one
/// of the list's version where it has none of its own. \throws Error(kDecodingFailure,
/// kIncompatibleVersion) where it is no result.
nlohmann::ordered_json result_in(const std::string& printed, const std::string& list_version);

/// The answer to REPAIR: what was wrong, and the result of ADD as it is now.
struct RepairAnswer {
  std::vector<std::string> found;
  JsonValue result;
};
/// \throws as result_in().
RepairAnswer repair_in(const std::string& printed, const std::string& list_version);

/// The answer to RECLAIM: what was wrong. \throws Error(kDecodingFailure).
std::vector<std::string> found_in(const std::string& printed);

/// The answer to VERSION.
struct VersionAnswer {
  std::vector<std::string> versions;  ///< as they were printed
  std::vector<std::string> verbs;     ///< that it has beyond the spec
};
/// \throws Error(kDecodingFailure).
VersionAnswer versions_in(const std::string& printed);

}  // namespace cni
