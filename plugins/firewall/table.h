#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/common/firewall/pod_elements.h"

/// The tables of our own: what is in them but elements.
///
///   table inet patchbay_firewall
///     set pods4, pods6       addresses of pods; the comment is cni::OwnerTag
///     set policy_links       bridges with a policy (of ptp: host veths)
///     set same_bridge        bridge . bridge, where pods of a bridge reach each other
///     set pods4_more, ...    of several attachments with one address those that came before
///     set other_policies     bridge . policy . network: policies of networks that share the bridge
///                            with a stricter one, in force when that is loosened
///     chain CNI-ADMIN        of the operator
///     chain admin            jumps to it
///     chain isolation        what comes from a bridge with a policy
///     chain forward          isolation, admin, then accepts what pods send, and replies
///   table bridge patchbay_firewall
///     set isolated           host veths of isolated pods; the comment is cni::OwnerTag
///     chain forward          drops frames from and to them
///
/// Elements alone depend on pods and bridges: a packet costs the same on every node.
namespace firewall::nft {

const plugins::PodSets& pods();
const netlink::nf::SetId& policy_links();
const netlink::nf::SetId& same_bridge();
const netlink::nf::SetId& other_policies();
const netlink::nf::SetId& isolated();

/// The rules of a table as they are (NfSocket::raw_table_rules()).
using RawRules = std::vector<netlink::nf::Bytes>;
RawRules seen_table(netlink::nf::NfSocket& socket);
RawRules seen_bridge_table(netlink::nf::NfSocket& socket);

/// Adds to batch what the table lacks. The policy of its chain forward stays as it is.
void plan_table(const RawRules& seen, const std::string& admin_chain, netlink::nf::Batch& batch);
void plan_bridge_table(const RawRules& seen, netlink::nf::Batch& batch);

/// The first change of plan_table(); empty: there is none.
std::optional<std::string> table_flaw(const RawRules& seen, const std::string& admin_chain);
std::optional<std::string> bridge_table_flaw(const RawRules& seen);

}  // namespace firewall::nft
