#pragma once

#include <string>

#include "cnitool/output.h"
#include "cnitool/settings.h"
#include "libcni/runtime/cache.h"

/// `cnitool list` and `cnitool show`: the attachments in the results cache.
namespace tool {

/// The attachments to list; an empty field: all.
struct Listed {
  Selection which = {};
  std::string address = {};
  unsigned host_port = 0;
};

/// Prints the attachments: pod, network, container, interface, addresses, age, and whether the
/// interface exists. Broken files are noted.
void list(const Listed& wanted, const Settings& settings, const Output& output);

/// Prints one attachment: what it was made with, and the result.
/// \throws cni::Error where the cache has none.
void show(const cni::AttachmentKey& key, const Settings& settings, const Output& output);

}  // namespace tool
