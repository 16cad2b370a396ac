#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/plugin/iptables_save.h"
#include "plugins/names/chains.h"
#include "plugins/portmap/attachment.h"

/// The rules of the iptables backend as text. Names and rules are those of the reference plugin, so
/// that each plugin removes what the other added. All rules are in the form of iptables-save, so
/// that its output can be compared.
namespace portmap::iptables {

using names::kDnatChain;
using names::kGuardChain;
using names::kMasqChain;
using names::kSetMarkChain;
using names::kSnatChain;

/// CNI-DN-<hash of network and container>.
std::string chain_of(const Owner& owner);
/// CNI-SN-<hash>.
std::string obsolete_chain_of(const Owner& owner);
/// `dnat name: "net1" id: "c1"`, truncated as by the reference plugin and iptables.
std::string comment_of(const Owner& owner);
/// The network and the container in such a comment, without an interface; empty for other text.
Owner owner_in(const std::string& comment);
/// The container ID in such a comment; empty if it is of another network or was truncated.
std::string container_in(const std::string& comment, const std::string& network);

/// One rule: matches and target in the form of iptables-save.
struct RuleText {
  std::string table, chain, text;
  bool first = false;  ///< inserted as first rule, not appended
  bool operator==(const RuleText&) const = default;
  /// "-A CHAIN TEXT".
  std::string str() const;
};

/// Whether a rule of iptables-save ends with "-j CHAIN".
bool leads_to(const cni::Words& rule, std::string_view chain);

/// The rules that all containers of a family share. No verb removes them.
std::vector<RuleText> shared_rules(Family family, const Options& options);
/// The first rules of a container's chain: traffic that is not redirected. The reference plugin
/// does not have them.
std::vector<std::string> exceptions(Family family);
/// The rules of the container's chain, and the rules of CNI-HOSTPORT-DNAT that jump to it.
/// \throws cni::Error(kInvalidConfig) for a control character in a condition.
std::vector<std::string> chain_rules(Family family, const Attachment& attachment);
std::vector<std::string> entry_rules(Family family, const Attachment& attachment);

/// All rules of one family for an attachment.
struct Wanted {
  Family family = Family::kIpv4;
  const Attachment& attachment;
  std::vector<std::string> chain, entries;
  std::vector<RuleText> shared;
};
/// unrecorded: the mappings of an attachment of the reference plugin, whose rules have neither
/// exceptions nor a guard, and whose entries of a protocol name all of its ports. Null: ours.
Wanted wanted_of(Family family, const Attachment& attachment,
                 const std::vector<Mapping>* unrecorded = nullptr);

/// The part of it that the kernel has.
struct Existing {
  std::set<std::string> chains = {};
  std::vector<RuleText> rules = {};       ///< of shared_rules()
  std::vector<std::size_t> entries = {};  ///< rule numbers in CNI-HOSTPORT-DNAT, from 1
  std::vector<RuleText> damaged = {};     ///< to be replaced by rules of shared_rules()
};

/// Input of iptables-restore that adds missing shared rules and replaces the container's chain and
/// entries. It fails as a whole if the entries changed since.
std::string rules_to_add(const Wanted& wanted, const Existing& seen);

/// A chain to remove, and the numbers of the rules in its parent that jump to it.
struct ChainRemoval {
  std::string parent, chain;
  std::vector<std::size_t> entries;
};
/// Input of iptables-restore that removes them. It fails as a whole if the entries changed since.
std::string rules_to_remove(const std::vector<ChainRemoval>& all);

}  // namespace portmap::iptables
