#pragma once

#include <string>
#include <vector>

#include "plugins/devices/agent/core.h"

namespace devices {

/// The counts in the text format of Prometheus, for the textfile collector of its node exporter.
std::string metrics_text(const std::vector<Count>& counts);
/// Writes the file aside and renames it; readable by everyone. \throws netlink::Error.
void write_metrics(const std::string& path, const std::string& text);

}  // namespace devices
