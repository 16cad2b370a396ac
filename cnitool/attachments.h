#pragma once

#include <string>

#include "cnitool/output.h"
#include "cnitool/settings.h"
#include "libcni/runtime/cache.h"

/// `cnitool list` and `cnitool show`: the attachments in the results cache.
namespace tool {

/// Prints all attachments, those of one network where it is not empty: network, container,
/// interface, addresses, age, and whether the interface is there. Broken files are said.
void list(const std::string& network, const Settings& settings, const Output& output);

/// Prints one attachment: what it was made with, and the result.
/// \throws cni::Error where the cache has none.
void show(const cni::AttachmentKey& key, const Settings& settings, const Output& output);

}  // namespace tool
