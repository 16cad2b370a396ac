#pragma once

#include <string>

#include "cnitool/doctor/node.h"
#include "libcni/plugin/request.h"

namespace tool::doctor {

/// Of each attachment without a result: whether an operation on it is running, and what its plugins
/// have against the config and the arguments of its ADD. Calls --validate. \param path CNI_PATH.
void look_at_unfinished(Node& node, const std::string& path, const cni::Env& env);

}  // namespace tool::doctor
