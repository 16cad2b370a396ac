#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/plugin/iptables_save.h"
#include "plugins/portmap/record.h"

/// The texts of the iptables backend: names and rules are those of the reference, so that either
/// removes what the other added. All rules are in the words and the order of iptables-save, so
/// that what it prints can be compared with them.
namespace portmap::iptables {

constexpr const char* kDnatChain = "CNI-HOSTPORT-DNAT";
constexpr const char* kSetMarkChain = "CNI-HOSTPORT-SETMARK";
constexpr const char* kMasqChain = "CNI-HOSTPORT-MASQ";
/// Where plugins of long ago jumped from to obsolete_chain_of().
constexpr const char* kSnatChain = "CNI-HOSTPORT-SNAT";
/// Ours alone, in table filter of IPv4: keeps out what route_localnet would let in.
constexpr const char* kGuardChain = "CNI-HOSTPORT-GUARD";

/// CNI-DN-<hash of network and container>.
std::string chain_of(const Owner& owner);
/// CNI-SN-<hash>.
std::string obsolete_chain_of(const Owner& owner);
/// `dnat name: "net1" id: "c1"`, cut as the reference and iptables cut it.
std::string comment_of(const Owner& owner);
/// The container ID in such a comment; empty where it is not one of the network's, or was cut.
std::string container_in(const std::string& comment, const std::string& network);

/// One rule: matches and target as iptables-save has them.
struct RuleText {
  std::string table, chain, text;
  bool first = false;  ///< inserted at the chain's head, not appended
  bool operator==(const RuleText&) const = default;
  /// "-A CHAIN TEXT".
  std::string str() const;
};

/// Whether a rule of iptables-save ends with "-j CHAIN".
bool leads_to(const cni::Words& rule, std::string_view chain);

/// What all containers of a family share, and nobody removes.
std::vector<RuleText> shared_rules(Family family, const Options& options);
/// What a container's chain begins with: what none of its ports is for. The reference has nothing
/// of it.
std::vector<std::string> exceptions(Family family);
/// What the container's chain holds, and the rules of CNI-HOSTPORT-DNAT that lead there.
/// \throws cni::Error(kInvalidConfig) for conditions that are no words.
std::vector<std::string> chain_rules(Family family, const Attachment& attachment,
                                     const PodAddresses& pod);
std::vector<std::string> entry_rules(Family family, const Attachment& attachment);

/// What of it is in the kernel.
struct Seen {
  std::set<std::string> chains = {};
  std::vector<RuleText> rules = {};       ///< of shared_rules()
  std::vector<std::size_t> entries = {};  ///< places in CNI-HOSTPORT-DNAT, from 1, of its rules
  std::vector<RuleText> damaged = {};     ///< to be replaced by rules of shared_rules()
};

/// Input of iptables-restore that adds what is not seen, and the owner's chain anew in place of
/// what is. It fails as a whole where the entries are not as seen any more.
std::string rules_to_add(Family family, const Attachment& attachment, const PodAddresses& pod,
                         const Seen& seen);

/// A chain to remove, and where in its parent the rules are that lead to it.
struct Doomed {
  std::string parent, chain;
  std::vector<std::size_t> entries;
};
/// Input of iptables-restore that does it, or fails where the entries are not there any more.
std::string rules_to_remove(const std::vector<Doomed>& all);

}  // namespace portmap::iptables
