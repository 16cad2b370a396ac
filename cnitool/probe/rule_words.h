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
/// removes nothing. verdict: "accept", "return"; where: null is the node.
std::string opening(const netlink::nf::ChainId& id, const Case& one, const char* verdict,
                    const Subject* where);
/// The same for ARP, or for neighbour discovery.
std::string opening_for_neighbours(const netlink::nf::ChainId& id, const Case& one,
                                   const Subject* where);

}  // namespace tool::probe
