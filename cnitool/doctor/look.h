#pragma once

#include "cnitool/doctor/node.h"
#include "cnitool/settings.h"
#include "libcni/plugin/request.h"

namespace tool::doctor {

/// Reads all that there is to know, and changes nothing. Of plugins VERSION and STATUS are called.
Node look_at_node(const Settings& settings, const cni::Env& env);

}  // namespace tool::doctor
