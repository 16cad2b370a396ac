#pragma once

#include <cstdint>
#include <string>

#include "cnitool/probe/cause.h"
#include "netlink/nf/batch.h"

/// Rules of nf_tables as a person reads them, whose they are, and how to let packets pass.
namespace tool::probe {

/// "chain 'c' of table inet harden".
std::string place_of(const netlink::nf::ChainId& id);
/// "Docker's", by the names of tables and chains; where: null is the node.
std::string whose_at(const netlink::nf::ChainId& id, const Subject* where);
/// Whether a table of this suite has the chain.
bool is_of_suite(const netlink::nf::ChainId& id);
/// The line that nft has for a rule; its handle where nft is not installed, or the rule is gone.
std::string text_of_rule(const netlink::nf::ChainId& id, std::uint64_t handle, const Subject* where,
                         Scene& scene);
/// The command that lets the pods' packets pass before the rule or policy that drops them; it
/// removes nothing. verdict: "accept", "return", with conditions before it; where: null is the
/// node.
std::string opening(const netlink::nf::ChainId& id, const Case& one, const std::string& verdict,
                    const Subject* where);
/// The same before answers have their addresses back, as in a chain before connection tracking:
/// they are from any host beyond the node to one of the node's addresses.
std::string opening_for_answers(const netlink::nf::ChainId& id, const Case& one);
/// "accept" of what the rule drops and no more, for opening(): with its conditions, quoted for a
/// shell. Plain "accept" where they are not all about the packet, as a limit.
std::string acceptance_of(const std::string& rule);
/// The same for ARP, or for neighbour discovery.
std::string opening_for_neighbours(const netlink::nf::ChainId& id, const Case& one,
                                   const Subject* where);

}  // namespace tool::probe
