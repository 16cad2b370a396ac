#pragma once

#include "libcni/plugin/repair.h"
#include "plugins/firewall/setup.h"

namespace firewall {

/// MIGRATE. An attachment of this plugin has claims of its addresses, or elements in nftables; one
/// of the reference plugin has neither, and its policy is in iptables alone. Rules of iptables are
/// claimed before they are removed, so that DEL of a half migrated attachment removes all.
/// \throws as set_up(); cni::Error for a policy that the reference plugin cannot have here.
void migrate(Firewalls& node, const Conf& conf, const Attachment& attachment, cni::Repair& repair);

}  // namespace firewall
