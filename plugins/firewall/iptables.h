#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/firewall/claims.h"
#include "plugins/firewall/conf.h"

/// The backend `iptables`: the reference plugin's chains and rules in table filter, added by one
/// iptables-restore per family. The caller holds the lock of the claims. socket is null if the
/// kernel has no nfnetlink.
namespace firewall::iptables {

/// The rules for the addresses of an attachment.
struct Rules {
  std::vector<Ip> addresses;
  std::string admin_chain;
  std::string link;  ///< with a policy
  Policy policy = Policy::kOpen;
  bool policy_alone = false;  ///< another backend accepts the addresses
  /// Whether an earlier ADD may have added rules for the addresses. All rules are read then.
  bool compare = true;
  /// Where the rules of the addresses were added; for missing().
  std::vector<RuleHandle> handles = {};
};

/// Adds what is missing of the families of the addresses. Returns the handles of the rules that it
/// added for them, as far as iptables-nft added any. \throws cni::Error with the message of
/// iptables-restore; kTryAgainLater if another program holds the xtables lock.
std::vector<RuleHandle> add(netlink::nf::NfSocket* socket, const Rules& rules);

/// Removes the rules of the addresses from both variants of iptables, also those of the reference
/// plugin. Chains, jumps and policies stay. Without rules it runs no program, and returns false.
/// \throws cni::Error, which lists what could not be removed.
bool remove(netlink::nf::NfSocket* socket, const std::vector<Ip>& addresses);

/// The first rule that is missing; nothing without one.
std::optional<std::string> missing(netlink::nf::NfSocket* socket, const Rules& rules);

/// Whether a variant of iptables has the rules of one of the addresses.
bool has(netlink::nf::NfSocket* socket, const std::vector<Ip>& addresses);

}  // namespace firewall::iptables
