#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/portmap/attachment.h"

/// The functions of both backends, each with objects of its own: nftables/elements.h,
/// iptables/chains.h.
namespace portmap {

/// The objects that the steps of one call share. Unless it is CHECK, the caller has the lock of the
/// state files.
struct Context {
  netlink::nf::NfSocket* socket;  ///< null if the kernel has no nfnetlink
  const StateDir* state;          ///< null without state files
};

/// Ports in iptables whose owners have no state file that names them.
using Lost = std::vector<std::pair<Key, Tag>>;

/// The changes of an ADD: plan() in conflict.h.
struct Plan {
  const Attachment& wanted;
  std::optional<Attachment> before;  ///< what the attachment has
  std::vector<Claim> granted;        ///< without claims that another network of the container has
  std::vector<Attachment> losers;    ///< other containers' attachments, with the claims they lose
  Lost lost = {};
};

/// Selects the mappings that GC removes. Called for each tag of a mapping, and for each container
/// of the network.
struct Stale {
  std::string network;
  std::function<bool(const Tag& tag)> has_tag;
  std::function<bool(const std::string& container_id)> has_container;
};

/// The tags of port owners. Without a tag another program has the port.
using Owners = std::map<Key, Tag>;

struct Backend {
  /// The owners of the ports that an attachment claims.
  Owners (*owners)(const Context& context, const Attachment& wanted);
  /// Maps the plan's claims at once, in place of what the attachment and the losers have.
  void (*apply)(const Context& context, const Plan& plan);
  /// Removes claims of an attachment; returns those that it owned.
  std::vector<Claim> (*remove)(const Context& context, const Attachment& attachment);
  /// \throws cni::Error, which names the first difference from what apply() adds.
  void (*check)(const Context& context, const Attachment& attachment);
  /// Removes what is stale, also without state files. Returns the claims among it.
  std::vector<Claim> (*gc)(const Context& context, const Stale& stale);
};

namespace nft {
extern const Backend kBackend;
}
namespace iptables {
extern const Backend kBackend;
}

inline const Backend& functions_of(BackendName backend) {
  return backend == BackendName::kNftables ? nft::kBackend : iptables::kBackend;
}

}  // namespace portmap
