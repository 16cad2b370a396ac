#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/common/firewall/xt_tables.h"
#include "plugins/portmap/backend.h"
#include "plugins/portmap/iptables/rules.h"

/// The iptables backend: the reference plugin's chains and rules, added by one iptables-restore per
/// family. All attachments of a container in one network share a chain.
namespace portmap::iptables {

/// Adds the rules of the attachment and removes those that its container and network have.
/// \throws cni::Error with the message of iptables-restore;
/// kTryAgainLater if another program holds the xtables lock.
void add(netlink::nf::NfSocket* socket, const Attachment& attachment);

/// The same, but after a failure the rules of before stay. With unrecorded mappings the rules are
/// those of the reference plugin.
void replace(netlink::nf::NfSocket* socket, const Attachment& attachment,
             const std::vector<Mapping>* unrecorded);

/// Removes the rules of the container and network from both variants of iptables, also those of the
/// reference plugin. Without rules it runs no program. \throws cni::Error, which lists what could
/// not be removed.
void remove(netlink::nf::NfSocket* socket, const Owner& owner);

/// Containers with rules for the network (from the comments of CNI-HOSTPORT-DNAT), for GC; their
/// ifname is empty.
std::vector<Owner> owners(netlink::nf::NfSocket* socket, const std::string& network);

/// The first difference from what add() adds; nullopt without one. `unrecorded` is for an
/// attachment without a state file: its mappings. Rules of the reference plugin have neither
/// exceptions nor a guard, and each entry of a protocol names all ports of the mappings.
std::optional<std::string> missing(netlink::nf::NfSocket* socket, const Attachment& attachment,
                                   const std::vector<Mapping>* unrecorded = nullptr);
/// \throws cni::Error for a difference.
void check(netlink::nf::NfSocket* socket, const Attachment& attachment,
           const std::vector<Mapping>* unrecorded = nullptr);

/// Those of the variant that has a chain for the container and network; nullopt if neither has.
std::optional<plugins::xt::Tables> tables_with(netlink::nf::NfSocket* socket, Family family,
                                               const Owner& owner);
bool has_chain(netlink::nf::NfSocket* socket, const Owner& owner);
/// Whether it is one that add() made, not the reference plugin.
bool has_own_chain(netlink::nf::NfSocket* socket, const Owner& owner);
netlink::nf::ChainId id_of(Family family, const RuleText& rule);

}  // namespace portmap::iptables
