#pragma once

#include "cnitool/doctor/node.h"
#include "cnitool/output.h"
#include "cnitool/settings.h"
#include "libcni/plugin/request.h"

/// cnitool doctor: what keeps pods from their networks on this node.
namespace tool::doctor {

/// Prints what all checks have to say of the node: what, why it matters and what to do. False where
/// something is an error.
bool report(const Node& node, const Output& output);

/// report() of this node, or of some pods on it; changes nothing.
bool diagnose(const Settings& settings, const Selection& which, const cni::Env& env,
              const Output& output);

}  // namespace tool::doctor
