#pragma once

#include "cnitool/operate.h"

namespace tool {

/// Runs an operation and shows every call of a plugin: how long it took, its input and its output,
/// as it comes, or with --json all in one object at the end, a failure too: false.
/// \throws cni::Error of the operation, without --json.
bool trace(const Operation& operation, const Settings& settings, cni::RuntimeOptions options,
           const Output& output);

}  // namespace tool
