#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcni/plugin/collect.h"
#include "netlink/nf/socket.h"
#include "netlink/types/ip.h"
#include "plugins/common/firewall/masquerade.h"

/// The iptables form of masquerading: per container and network a chain CNI-<hash> of table nat.
/// iptables-restore adds it; it is found, and in iptables-nft's tables removed, over netlink.
namespace plugins::xt {

/// A container's chain and the jumps to it, in the tables of either iptables.
struct ChainState {
  struct Part {
    std::optional<netlink::Cidr> address;  ///< a jump's source, an ACCEPT's destination
    std::string comment;
    std::uint64_t handle = 0;  ///< in nf_tables
    bool operator==(const Part&) const = default;
  };
  bool exists = false;
  bool masquerades = false;
  std::vector<Part> jumps, accepts;
};

/// The rules to remove for an attachment: the whole chain, unless another attachment of the
/// container uses it.
struct Removal {
  bool chain = false;
  std::vector<ChainState::Part> jumps, accepts;
};
Removal removal_of(const ChainState& seen, const Masquerade& masquerade);

/// Input of iptables-restore that adds what `seen` lacks.
std::string rules_to_add(netlink::Family family, const Masquerade& masquerade,
                         const ChainState& seen);
/// Input of iptables-restore that takes it away.
std::string rules_to_remove(const Masquerade& masquerade, const Removal& removal);

/// The chain of the attachment's container, for each family.
std::array<netlink::nf::ChainId, 2> chains_of(const Masquerade& masquerade);

/// Adds for every family among the addresses. \throws as add_masquerade().
void add(netlink::nf::NfSocket* socket, const Masquerade& masquerade);

/// Adds what of it is missing.
void restore(netlink::nf::NfSocket* socket, const Masquerade& masquerade);

/// Adds to batch the removal of what iptables-nft made.
void plan_remove(netlink::nf::NfSocket& socket, const Masquerade& masquerade,
                 netlink::nf::Batch& batch);
/// Removes what the legacy iptables made; runs its iptables-restore only if there is something.
void remove_legacy(const Masquerade& masquerade);

/// The attachments, without addresses and interface names, that GC takes: of which something exists
/// although none of their container is valid.
std::vector<Masquerade> stale(netlink::nf::NfSocket* socket, const std::string& network,
                              cni::Collect& collect);

/// Whether a variant has jumps of the attachment to the chain.
bool has(netlink::nf::NfSocket* socket, const Masquerade& masquerade);

/// The first missing object of those that add() makes; empty: none is missing.
std::optional<std::string> missing(netlink::nf::NfSocket* socket, const Masquerade& masquerade);

}  // namespace plugins::xt
