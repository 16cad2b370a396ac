#include "cnitool/status.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cnitool/pool.h"
#include "libcni/common/undo.h"

namespace tool {

namespace {

bool knows_status(const cni::Runtime& runtime, const std::string& type) {
  cni::NetworkList list;
  list.name = "status";
  list.plugins.push_back({.type = type, .conf = nlohmann::json::object()});
  const std::vector<std::string> versions = runtime.versions(list).front().versions;
  return std::ranges::find(versions, "1.1.0") != versions.end();
}

}  // namespace

cni::NetworkList with_status(const cni::Runtime& runtime, cni::NetworkList list) {
  if (list.is_at_least("1.1.0")) return list;
  std::erase_if(list.plugins, [&](const cni::PluginConf& plugin) {
    const std::string ipam = ipam_type_of(plugin);
    if (!knows_status(runtime, plugin.type) || !(ipam.empty() || knows_status(runtime, ipam))) {
      cni::note(cni::cat("plugin '", plugin.type, "' was not asked: it knows no STATUS"));
      return true;
    }
    return false;
  });
  list.version = "1.1.0";
  return list;
}

}  // namespace tool
