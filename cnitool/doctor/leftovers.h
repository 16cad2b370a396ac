#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cnitool/leftovers.h"
#include "libcni/config/json.h"

namespace tool::doctor {

struct Node;

/// A thing of a network that no attachment in the cache has.
struct NetworkLeftover {
  std::string network;
  cni::Runtime::Found found;
  cni::JsonValue plugin;  ///< of a network without a config: the plugin that collects it
};

/// leftovers_of() every network with a config, and of every removed one that has left its name:
/// in the cache, on something of a plugin's, or as a directory of leases.
std::vector<NetworkLeftover> all_leftovers(const Node& node, const cni::RuntimeOptions& options);

/// The command that removes what no living pod has, or the setting that allows it.
std::string collect(const Node& node, const std::string& network);
/// The command for a network without a config, with the plugins that have something of it.
std::string collect_with(const std::string& network, const nlohmann::json& plugins);

}  // namespace tool::doctor
