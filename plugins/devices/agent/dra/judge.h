#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace devices::dra {

/// Asks the executable of each plugin in the folder whether its config is right. One that is not
/// there is passed over, as in an image without plugins: ADD fails then, with the plugin's words.
/// \param plugins a list as the ledger has it.
/// \throws cni::Error(kInvalidConfig) with the words of the plugin that refuses it.
void require_accepted(const nlohmann::ordered_json& plugins, const std::string& folder);

}  // namespace devices::dra
