#include "plugins/common/iptables_restore.h"

#include <sys/wait.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "libcni/plugin/node_tool.h"
#include "libcni/plugin/privileges.h"

namespace plugins {

namespace {

using cni::Code;
using netlink::cat;

// The plain names are links to a binary for one of the two: xtables-nft-multi, or
// xtables-legacy-multi (xtables-multi before there were two).
XtablesVariant variant_of(const std::string& file) {
  char real[PATH_MAX];
  if (::realpath(file.c_str(), real) == nullptr) return XtablesVariant::kNft;
  const std::string_view name = std::strrchr(real, '/');
  const bool legacy = name.find("legacy") != std::string_view::npos || name == "/xtables-multi";
  return legacy ? XtablesVariant::kLegacy : XtablesVariant::kNft;
}

std::string on_one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

}  // namespace

std::optional<RestoreTool> find_restore(netlink::Family family) {
  const bool v4 = family == netlink::Family::kIpv4;
  const auto file = cni::find_node_tool(v4 ? "iptables-restore" : "ip6tables-restore");
  if (!file) return std::nullopt;
  return RestoreTool{*file, variant_of(*file)};
}

RestoreTool require_restore(netlink::Family family) {
  if (auto tool = find_restore(family)) return *tool;
  const bool v4 = family == netlink::Family::kIpv4;
  throw cni::Error(Code::kInternal, cat(v4 ? "iptables-restore" : "ip6tables-restore",
                                        " is in none of PATH, /usr/sbin and /sbin"));
}

std::optional<RestoreTool> find_legacy_restore(netlink::Family family) {
  const bool v4 = family == netlink::Family::kIpv4;
  if (const auto file =
          cni::find_node_tool(v4 ? "iptables-legacy-restore" : "ip6tables-legacy-restore")) {
    return RestoreTool{*file, XtablesVariant::kLegacy};
  }
  const auto plain = find_restore(family);
  if (plain && plain->variant == XtablesVariant::kLegacy) return plain;
  return std::nullopt;
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
  throw cni::Error(busy ? Code::kTryAgainLater : Code::kInternal,
                   cat("run '", tool.file, "': ", on_one_line(outcome.err)));
}

}  // namespace plugins
