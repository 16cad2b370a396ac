#include "plugins/portmap/conditions.h"

#include "libcni/plugin/node_tool.h"

namespace portmap {

std::string require_nft() {
  if (const auto file = cni::find_node_tool("nft")) return *file;
  throw cni::Error(cni::Code::kPluginUnavailable,
                   "run 'nft': it is in none of PATH, /usr/sbin and /sbin",
                   "conditionsV4 and conditionsV6 in nft's language need the package nftables");
}

void run_nft(const std::string& commands) {
  const cni::Outcome outcome = cni::run_node_tool(require_nft(), {"-f", "-"}, commands);
  if (outcome.ok()) return;
  // Its second line draws what the first one says.
  throw cni::Error(cni::Code::kInvalidConfig,
                   cni::cat("nft says: ", outcome.err.substr(0, outcome.err.find('\n'))));
}

}  // namespace portmap
