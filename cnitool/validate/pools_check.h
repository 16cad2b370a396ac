#pragma once

#include <string>

#include "cnitool/validate/diagnostics.h"
#include "libcni/plugin/request.h"

namespace tool {

/// Whether a document is the config of patchbay-agent, by its key "pools", and no network.
bool is_pools(const Document& document);

/// Adds what patchbay-agent has against its config. Where it is not installed, that is noted.
/// \param path directories of plugins, as CNI_PATH; the program is there, or in $PATH.
void check_pools(const Document& document, const std::string& path, const cni::Env& env,
                 Diagnostics& diagnostics);

}  // namespace tool
