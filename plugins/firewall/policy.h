#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libcni/plugin/collect.h"
#include "netlink/nf/socket.h"
#include "plugins/firewall/conf.h"

/// Policies as elements of the tables in table.h. All backends have them there, so that a reload of
/// iptables or firewalld opens no window, and frames between ports of a bridge are judged without
/// bridge netfilter too.
namespace firewall::nft {

/// The policy of an attachment's link.
struct LinkPolicy {
  std::string link;
  Policy policy = Policy::kOpen;
  std::string owner;                    ///< the element's comment: see policy_owner()
  std::string tag = {};                 ///< cni::OwnerTag of the attachment
  std::vector<std::string> ports = {};  ///< of the attachment, on a bridge
};

/// The policies of the attachment's link as it is, and of the link of a VLAN of it (BRIDGE.VLAN) if
/// that leads to the pod; none without a link. \throws cni::Error if an isolated pod's port is
/// unknown.
std::vector<LinkPolicy> policies_of(const Conf& conf, const Attachment& attachment);

/// Adds to batch what changes the policy of a link to the wanted one. The policy of the same
/// network is replaced; of several networks' the strictest is in force.
void plan_policy(netlink::nf::NfSocket& socket, const LinkPolicy& wanted,
                 netlink::nf::Batch& batch);

/// Adds to batch the removal of what is of the attachment alone: its ports, and the policy of a
/// link that goes with it. Without links it is found by a listing.
void plan_remove_policy(netlink::nf::NfSocket& socket, const Attachment& attachment,
                        netlink::nf::Batch& batch);

/// Adds to batch the removal of what matches, and of policies of this network whose links do not
/// exist.
void plan_gc_policies(netlink::nf::NfSocket& socket, const std::string& network,
                      cni::Collect& collect, netlink::nf::Batch& batch);

/// The missing part of the policy; empty: it, or a stricter one, is in force.
std::optional<std::string> missing_elements(netlink::nf::NfSocket& socket,
                                            const LinkPolicy& wanted);

}  // namespace firewall::nft
