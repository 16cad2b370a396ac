#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/common/masquerade.h"
#include "plugins/common/masquerade_record.h"

/// The nftables form of masquerading: table inet cni_plugins_masquerade, one rule per address in
/// chain masq_checks, as the reference plugin's; a base chain of our own leads there.
namespace plugins::nft {

/// Whether the kernel can do it: table, chains and rules.
bool can_masquerade(netlink::nf::NfSocket& socket);

/// What leads to the rules of pods before an ADD.
struct BaseChains {
  std::vector<netlink::nf::Rule> postrouting;  ///< those of our base chain
  bool has_reference_chain = false;            ///< that of the reference plugin, before ours
};
/// What ADD sends.
netlink::nf::Batch plan_add(const BaseChains& seen, const Masquerade& masquerade);
/// False, and nothing done, where the kernel cannot do it and that is to be an answer.
bool add(netlink::nf::NfSocket& socket, const Masquerade& masquerade, bool only_if_able = false);

/// Adds what of it is missing, and no rule twice.
void restore(netlink::nf::NfSocket& socket, const Masquerade& masquerade);

/// Adds to batch the removal of the attachment's rules: of those with the handles, where they are
/// the attachment's, else of all that a listing shows.
void plan_remove(netlink::nf::NfSocket& socket, const Masquerade& masquerade,
                 const Handles& handles, netlink::nf::Batch& batch);
/// Adds to batch the removal of the rules of all attachments of the network but the valid ones.
void plan_gc(netlink::nf::NfSocket& socket, const std::string& network,
             const std::vector<cni::Attachment>& valid, netlink::nf::Batch& batch);

/// What is not there of what add() makes; nothing if all is.
std::optional<std::string> missing(netlink::nf::NfSocket& socket, const Masquerade& masquerade);

}  // namespace plugins::nft
