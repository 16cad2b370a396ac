#pragma once

#include "cnitool/output.h"
#include "cnitool/settings.h"

namespace tool {

/// `cnitool networks`: prints each network that a config names, those of the resources of
/// patchbay-agent, and those that have attachments alone: plugins, subnets, addresses in use,
/// attachments, file.
void networks(const Settings& settings, const Output& output);

}  // namespace tool
