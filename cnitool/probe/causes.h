#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cnitool/probe/cause.h"
#include "cnitool/probe/drop_words.h"
#include "cnitool/probe/leg.h"

/// The reasons that cause_of() looks for, by subject. All throw netlink::Error.
namespace tool::probe {

/// A case, where it was lost, and the state there.
struct Look {
  const Case& one;
  const Leg& leg;
  Scene& scene;
};
using Reason = std::optional<Cause> (*)(const Look&);

/// Whether it has left for a host that may answer nobody: silence says nothing.
bool may_be_silence(const Look& look);

// cause_rules.cc: rules of packet filters, and what they translate.
std::optional<Cause> dropped_by_rule(const Look& look);
std::optional<Cause> translated(const Case& one, Scene& scene);
std::optional<Cause> untracked_by_rule(const Look& look);
std::optional<Cause> rewritten_by_rule(const Look& look);
std::optional<Cause> unresolved_by_rule(const Look& look);

// cause_legacy.cc: rules of iptables-legacy, by what they have counted.
/// Whether the kernel says that a rule dropped the packet or its answer.
bool was_dropped_by_rule(const Trail& trail);
std::optional<Cause> dropped_by_legacy(const Look& look);
std::optional<Cause> untracked_by_legacy(const Look& look);
std::optional<Cause> rewritten_by_legacy(const Look& look);
/// What was done, and by which rule, if there is one; side: "source", "destination".
Cause by_legacy_translation(const std::string& what, std::string_view side, const Case& one,
                            const Scene& scene);

// cause_routes.cc: routes and rules of the routing policy.
/// Where the packet is made, on the node, and where it arrives.
std::optional<Cause> no_way_from(const Look& look);
std::optional<Cause> no_way_on_node(const Look& look);
std::optional<Cause> no_way_back_on_node(const Look& look);
std::optional<Cause> gateway_is_not_taken(const Look& look);
std::optional<Cause> no_way_there(const Look& look);

// cause_addresses.cc: addresses of pods.
std::optional<Cause> no_address_there(const Look& look);
/// The node has a pod's address.
std::optional<Cause> address_is_nodes(const Look& look);

// cause_ipsec.cc: policies of IPsec.
std::optional<Cause> taken_by_ipsec(const Look& look);

// cause_settings.cc: kernel settings.
std::optional<Cause> not_forwarded(const Look& look);
std::optional<Cause> not_answered(const Look& look);
std::optional<Cause> filtered_by_source(const Look& look);
std::optional<Cause> filtered_by_source_there(const Look& look);
std::optional<Cause> no_ipv6(const Look& look);
std::optional<Cause> no_loopback(const Look& look);
std::optional<Cause> conntrack_is_full(const Look& look);

// cause_neighbours.cc: MAC addresses.
std::optional<Cause> wrong_neighbour(const Look& look);
std::optional<Cause> unresolved(const Look& look);
std::optional<Cause> gateway_is_away(const Look& look);

// cause_links.cc: links and ports of bridges; of the sending pod, and of the receiving one.
std::optional<Cause> broken_wire_from(const Look& look);
std::optional<Cause> broken_wire_to(const Look& look);
std::optional<Cause> broken_uplink(const Look& look);
std::optional<Cause> kept_by_bridge(const Look& look);
std::optional<Cause> too_large(const Look& look);
/// Of a large packet that nothing is known of, but that a small one arrives.
std::optional<Cause> lost_by_size(const Look& look);

// cause_queues.cc: tc and XDP.
std::optional<Cause> queued_from(const Look& look);
std::optional<Cause> queued_to(const Look& look);
std::optional<Cause> queued_back(const Look& look);
std::optional<Cause> queued_at_uplink(const Look& look);
/// Whether the pod that it was sent to hands packets on to a virtual machine, of which nothing is
/// seen: by tc (Kata Containers), or by a bridge or routes of its own (KubeVirt).
bool is_handed_on(const Look& look);
/// "'drop' (id 17)": the XDP program of a link; empty: it has none.
std::string xdp_program_of(netlink::RouteSocket& socket, const netlink::Link& link);

// cause_cgroups.cc: eBPF programs of control groups.
std::optional<Cause> dropped_by_cgroup(const Drop& drop, const DropPlace& place);
/// Of those of cnitool's own group: an answer, and a packet that it sends.
std::optional<Cause> kept_by_own_cgroup(const Look& look);
std::optional<Cause> refused_by_own_cgroup(const Look& look);

inline constexpr std::uint32_t kNoArp = 1U << 7;  ///< IFF_NOARP, of LinkSettings::flags
/// "of another program or a person".
inline constexpr const char kSomebodys[] = "of another program or a person";

}  // namespace tool::probe
