#pragma once

#include <string>
#include <vector>

#include "plugins/cluster-pool/agent/keeper.h"

namespace block_agent {

/// In the text format of Prometheus, for the textfile collector of its node exporter.
std::string metrics_text(const std::vector<Count>& counts, const Totals& totals);

}  // namespace block_agent
