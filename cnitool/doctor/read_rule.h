#pragma once

#include <string>

#include "cnitool/doctor/forward.h"
#include "libcni/plugin/iptables_save.h"
#include "netlink/nf/socket.h"

/// Rules of packet filters, as the kernel and iptables-save show them.
namespace tool::doctor {

/// Reads the sets that it asks, too. Without ForwardRule::insertion. \throws netlink::Error.
ForwardRule read_rule(netlink::nf::NfSocket& socket, const netlink::nf::Rule& rule);

/// A rule of iptables-save. \param filter its table.
ForwardRule read_saved_rule(const cni::SavedRule& rule, const cni::SavedTable& filter);

/// Sets the states that a rule of either language takes: a mask of NF_CT_STATE_BIT()s.
void take_states(ForwardRule& rule, std::uint32_t states, bool is_inverted);
/// Whether it takes connections with DNAT, or the others.
void take_dnat(ForwardRule& rule, bool is_inverted);
/// The mark that it looks for. That of kube-proxy is on packets to Services.
void take_mark(ForwardRule& rule, std::uint32_t mark, bool is_inverted);
/// A protocol by its number.
void take_protocol(ForwardRule& rule, unsigned protocol, bool is_inverted);

}  // namespace tool::doctor
