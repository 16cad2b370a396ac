#include "plugins/common/firewall/nft_tool.h"

#include "libcni/common/error.h"
#include "libcni/plugin/node_tool.h"

namespace plugins {

std::string require_nft(const std::string& details) {
  if (const auto file = cni::find_node_tool("nft")) return *file;
  throw cni::Error(cni::Code::kPluginUnavailable,
                   "run 'nft': it is in none of PATH, /usr/sbin and /sbin", details);
}

void run_nft(const std::string& commands, const std::string& details) {
  const cni::Outcome outcome = cni::run_node_tool(require_nft(details), {"-f", "-"}, commands);
  if (outcome.ok()) return;
  // "/dev/stdin:LINE:COLUMNS: Error: CAUSE"; the next lines draw the rule.
  const std::string line = outcome.err.substr(0, outcome.err.find('\n'));
  const auto cause = line.find("Error: ");
  throw cni::Error(cni::Code::kInvalidConfig,
                   cni::cat("nft: ", cause == std::string::npos ? line : line.substr(cause + 7)));
}

}  // namespace plugins
