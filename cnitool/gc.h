#pragma once

#include "cnitool/operate.h"

/// `cnitool gc`: with --keep-alive it looks first, and then names to the plugins what it has seen
/// dead. Without, it is the runtime's verb: everything goes that is not kept.
namespace tool {

/// {"removed": names, "unknown": [{"what", "why"}]}. What is unknown stays, and is noted.
/// \throws cni::Error, also where pods that live would be detached, and nobody agreed to that.
nlohmann::ordered_json collect(const Operation& operation, const cni::NetworkList& list,
                               const cni::RuntimeOptions& options);

/// Prints what collect() would remove, and what stays, of a network or of all. False where the pod
/// of something is neither seen alive nor dead.
bool look_for_stale(const Operation& operation, const Settings& settings,
                    const cni::RuntimeOptions& options, const Output& output);

}  // namespace tool
