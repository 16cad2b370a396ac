#pragma once

#include <string>

#include "cnitool/validate/diagnostics.h"
#include "cnitool/validate/plugin_facts.h"
#include "libcni/plugin/request.h"

namespace tool {

/// Whether a document is the config of patchbay-agent, by its key "pools", and no network.
bool is_pools(const Document& document);

/// The programs that judge the config of patchbay-agent.
struct PoolsJudges {
  const std::string& path;  ///< directories of plugins, as CNI_PATH; patchbay-agent may be there
  const cni::Env& env;
  Plugins& plugins;
};

/// Adds what patchbay-agent has against its config, and the plugins of each pool against theirs,
/// with the keys that patchbay-agent adds. Where it is not installed, that is noted.
void check_pools(Document& document, const PoolsJudges& judges, Diagnostics& diagnostics);

}  // namespace tool
