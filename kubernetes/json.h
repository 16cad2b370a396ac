#pragma once

#include <nlohmann/json.hpp>

namespace kubernetes {

using Json = nlohmann::json;

}  // namespace kubernetes
