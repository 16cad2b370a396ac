#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "libcni/config/complaints.h"

namespace cni {

/// The key of an object that an unknown one may be a slip of the pen for; empty if there is none.
std::string similar_key(const std::string& unknown, KeyList keys);

/// Of complaints() those about a key that resembles a known one beside it. Values of the runtime
/// are not searched. Fast if all keys are known, because every ADD calls it.
std::vector<Complaint> misspelt_keys(const Manual& manual, const nlohmann::json& config);

}  // namespace cni
