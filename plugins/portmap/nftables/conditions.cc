#include "plugins/portmap/nftables/conditions.h"

#include "libcni/plugin/node_tool.h"

namespace portmap {

std::string require_nft() {
  if (const auto file = cni::find_node_tool("nft")) return *file;
  throw cni::Error(cni::Code::kPluginUnavailable,
                   "run 'nft': it is in none of PATH, /usr/sbin and /sbin",
                   "conditionsV4 and conditionsV6 in nft syntax require the package nftables");
}

void run_nft(const std::string& commands) {
  const cni::Outcome outcome = cni::run_node_tool(require_nft(), {"-f", "-"}, commands);
  if (outcome.ok()) return;
  // "/dev/stdin:LINE:COLUMNS: Error: CAUSE"; the next lines draw the rule.
  const std::string line = outcome.err.substr(0, outcome.err.find('\n'));
  const auto cause = line.find("Error: ");
  throw cni::Error(cni::Code::kInvalidConfig,
                   cni::cat("nft: ", cause == std::string::npos ? line : line.substr(cause + 7)));
}

}  // namespace portmap
