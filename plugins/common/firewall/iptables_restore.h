#pragma once

#include <functional>
#include <optional>
#include <string>

#include "libcni/plugin/iptables_save.h"

/// Runs iptables-restore and ip6tables-restore.
namespace plugins {

using cni::XtablesVariant;

struct RestoreTool {
  std::string file;
  XtablesVariant variant = XtablesVariant::kNft;
};

/// The tool that the name means on this node, in PATH, /usr/sbin or /sbin; nothing where there is
/// none.
std::optional<RestoreTool> find_restore(netlink::Family family);
/// The reason why no rule of iptables can be added on the node; empty: they can.
std::optional<std::string> lacks_restore();
/// \throws cni::Error naming the tool where there is none.
RestoreTool require_restore(netlink::Family family);
/// The one of a variant, whatever the plain name means. \throws cni::Error where there is none to
/// do `what` with.
RestoreTool require_restore_of(XtablesVariant variant, netlink::Family family,
                               const std::string& what);
/// The one for the legacy tables, whatever the plain name means. \throws cni::Error where there is
/// none to remove the chain with.
RestoreTool require_legacy_restore(netlink::Family family, const std::string& chain);

/// Whether it needs CAP_NET_RAW beside CAP_NET_ADMIN: if it is for the legacy tables. Without it
/// would only say that there is no such table.
bool needs_net_raw(const std::optional<RestoreTool>& tool);

/// Applies rules, in the form of iptables-save, all or none and leaving others alone. Waits 10 s
/// for the xtables lock. \throws cni::Error: kTryAgainLater where the lock is held longer; with the
/// tool's message.
void restore(const RestoreTool& tool, const std::string& rules);

/// Restores what make() returns, which reads the rules. After a failure it tries again if make()
/// returns another input, because another program changed the rules meanwhile. An empty input is
/// nothing to do. \throws as restore().
void restore_planned(const RestoreTool& tool, const std::function<std::string()>& make);

}  // namespace plugins
