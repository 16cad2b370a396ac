#include "plugins/common/firewall/iptables_restore.h"

#include <sys/wait.h>

#include "libcni/plugin/node_tool.h"
#include "libcni/plugin/privileges.h"

namespace plugins {

using cni::Code;
using netlink::cat;

std::optional<RestoreTool> find_restore(netlink::Family family) {
  const bool v4 = family == netlink::Family::kIpv4;
  const auto file = cni::find_node_tool(v4 ? "iptables-restore" : "ip6tables-restore");
  if (!file) return std::nullopt;
  return RestoreTool{*file, cni::variant_of(*file)};
}

std::optional<std::string> lacks_restore() {
  if (find_restore(netlink::Family::kIpv4)) return std::nullopt;
  return "iptables-restore (package iptables) is in none of PATH, /usr/sbin and /sbin";
}

RestoreTool require_restore(netlink::Family family) {
  if (auto tool = find_restore(family)) return *tool;
  const bool v4 = family == netlink::Family::kIpv4;
  throw cni::Error(Code::kInternal, cat(v4 ? "iptables-restore" : "ip6tables-restore",
                                        " is in none of PATH, /usr/sbin and /sbin"));
}

RestoreTool require_restore_of(XtablesVariant variant, netlink::Family family,
                               const std::string& what) {
  if (const auto file = cni::find_iptables(family, variant, "restore")) return {*file, variant};
  const char* const name = variant == XtablesVariant::kLegacy ? "legacy" : "nft";
  throw cni::Error(Code::kInternal, cat(what, " of the ", name, " iptables: no ", name,
                                        " iptables-restore is installed"));
}

RestoreTool require_legacy_restore(netlink::Family family, const std::string& chain) {
  return require_restore_of(XtablesVariant::kLegacy, family, cat("remove chain '", chain, "'"));
}

bool needs_net_raw(const std::optional<RestoreTool>& tool) {
  return tool && tool->variant == XtablesVariant::kLegacy;
}

void restore(const RestoreTool& tool, const std::string& rules) {
  if (needs_net_raw(tool)) {
    cni::require_capabilities(cat("run '", tool.file, "'"), {netlink::Capability::kNetRaw});
  }
  const cni::Outcome outcome = cni::run_node_tool(tool.file, {"--noflush", "--wait=10"}, rules);
  if (outcome.ok()) return;
  constexpr int kLockHeld = 4;  // RESOURCE_PROBLEM of iptables
  const bool busy = WIFEXITED(outcome.wait_status) && WEXITSTATUS(outcome.wait_status) == kLockHeld;
  throw cni::tool_error(busy ? Code::kTryAgainLater : Code::kInternal, tool.file, outcome);
}

void restore_planned(const RestoreTool& tool, const std::function<std::string()>& make) {
  // An attempt fails only if another process changed the rules, and each does so a few times.
  constexpr int kAttempts = 20;
  std::string last;
  for (int attempt = 1;; ++attempt) {
    const std::string input = make();
    if (input.empty()) return;
    try {
      return restore(tool, input);
    } catch (const cni::Error& e) {
      if (e.code() == Code::kTryAgainLater || input == last || attempt == kAttempts) throw;
    }
    last = input;
  }
}

}  // namespace plugins
