#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/portmap/record.h"

/// The nftables backend: a pod's ports are elements of maps (see table.h), so that what an ADD or a
/// DEL costs, and what a packet costs, does not depend on how many pods there are. The caller holds
/// the lock of the records.
namespace portmap::nft {

/// Whether the kernel can do it. The first time on a node this takes 10 ms.
bool usable(netlink::nf::NfSocket& socket);

/// What someone has of a key.
struct Held {
  Claim claim;
  std::string tag;  ///< the owner's; empty where it was not set up here
};
enum class Answer { kTake, kLeave };
/// Asked about every key that another attachment has; refuses by throwing.
using Judge = std::function<Answer(const Held&)>;

/// Maps all claims of the attachment in one transaction; `before`, what the attachment had until
/// now, goes in the same one. Returns the claims of others that were taken.
/// \throws what judge throws; netlink::Error.
std::vector<Claim> add(netlink::nf::NfSocket& socket, const Attachment& attachment,
                       const std::optional<Attachment>& before, const Judge& judge);

/// Adds to batch the removal of what the attachment has. Returns the claims that go.
std::vector<Claim> plan_remove(netlink::nf::NfSocket& socket, const Attachment& attachment,
                               netlink::nf::Batch& batch);
/// Adds to batch the claims of an attachment that are to be its from now on.
void plan_inherit(const Attachment& heir, const std::vector<Claim>& claims,
                  netlink::nf::Batch& batch);
/// Adds to batch the removal of everything whose tag is wanted gone, in all tables: a listing, for
/// GC and where the record is lost. Returns the claims that go.
std::vector<Claim> plan_sweep(netlink::nf::NfSocket& socket,
                              const std::function<bool(const std::string& tag)>& is_to_go,
                              netlink::nf::Batch& batch);

/// The owner's tag of a key in the default table; empty where nobody has it.
std::string claimant(netlink::nf::NfSocket& socket, const Key& key);

/// What is not there of what add() makes; nothing if all is.
std::optional<std::string> missing(netlink::nf::NfSocket& socket, const Attachment& attachment);

}  // namespace portmap::nft
