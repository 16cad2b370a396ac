#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/portmap/state.h"

/// The nftables backend: the ports of a pod are elements of maps (see table.h), so that the number
/// of pods changes neither the cost of ADD and DEL nor that of a packet. The caller holds the lock
/// of the state files.
namespace portmap::nft {

/// Whether the kernel has NAT for nf_tables. The first call on a node takes 10 ms.
bool usable(netlink::nf::NfSocket& socket);

/// The claim of another owner on a port that ADD maps.
struct Conflict {
  Claim claim;
  std::string tag;  ///< of the owner; empty if this plugin did not add the element
};
enum class Resolution { kReplace, kKeep };
/// Called for each port that another attachment owns. It fails ADD by throwing.
using ResolveConflict = std::function<Resolution(const Conflict&)>;

/// Maps all claims of the attachment and removes those of `before`, its previous state, in one
/// transaction. Returns the claims of replaced owners.
/// \throws what resolve_conflict throws; netlink::Error.
std::vector<Claim> add(netlink::nf::NfSocket& socket, const AttachmentState& attachment,
                       const std::optional<AttachmentState>& before,
                       const ResolveConflict& resolve_conflict);

/// Adds to batch the removal of what the attachment owns. Returns the claims among it.
std::vector<Claim> plan_remove(netlink::nf::NfSocket& socket, const AttachmentState& attachment,
                               netlink::nf::Batch& batch);
/// Adds claims of an attachment to batch.
void plan_add(const AttachmentState& next, const std::vector<Claim>& claims,
              netlink::nf::Batch& batch);
/// Adds to batch the removal of all elements whose tag is stale, in all tables. Returns the claims
/// among them. It dumps all elements: for GC and lost state files.
std::vector<Claim> plan_remove_if(netlink::nf::NfSocket& socket,
                                  const std::function<bool(const std::string& tag)>& is_stale,
                                  netlink::nf::Batch& batch);

/// The tags of all owners of elements, in all tables.
std::set<std::string> owners(netlink::nf::NfSocket& socket);

/// The tag of the port owner in the default table; empty without one.
std::string claimant(netlink::nf::NfSocket& socket, const Key& key);

/// The first difference from what add() adds; nullopt without one.
std::optional<std::string> missing(netlink::nf::NfSocket& socket,
                                   const AttachmentState& attachment);

}  // namespace portmap::nft
