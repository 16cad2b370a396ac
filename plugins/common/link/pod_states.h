#pragma once

#include <optional>

#include "libcni/plugin/privileges.h"
#include "plugins/common/link/namespaces.h"
#include "plugins/common/link/route_tables.h"
#include "plugins/state/state_dir.h"

/// DEL and GC of plugins that change the routing of a pod and keep a state of it: sbr, vrf.
namespace plugins {

/// For DEL of what no state file of the node tells of, as what a reference plugin changed: the
/// interface CNI_IFNAME of the pod if it provably is that of prevResult, by its MAC address and, if
/// prevResult has some, by an address. Another container may have the path of the namespace by now,
/// and the name proves nothing. \throws netlink::Error.
std::optional<netlink::Link> interface_of_prev_result(netlink::RouteSocket& pod,
                                                      const cni::Request& request);

/// Removes the state after `undo(sides, state)`, which is called if the namespace at the path is
/// still the one that ADD saw.
template <class State, class Undo>
void undo_state(const cni::Request& request, const StateDir<State>& states, const State& state,
                Undo&& undo) {
  const auto lock = lock_route_tables();
  if (const auto ns = netlink::NetNs::find(state.owner.netns)) {
    Namespaces sides(request, *ns);
    if (state.owner.is_in(sides.pod.cookie())) undo(sides, state);
  }
  states.remove(state.owner);
}

/// For CHECK: DEL would fail. \throws as StateDir::read().
template <class State>
void require_readable_state(const cni::Request& request) {
  if (const auto states = StateDir<State>::find()) states->read(state_owner(request));
}

/// DEL by the state. Without one, as for an attachment of the reference plugin,
/// `undo_reference(sides, link, has_states)` is called if the interface is that of prevResult.
template <class State, class Undo, class UndoReference>
void delete_by_state(const cni::Request& request, Undo&& undo, UndoReference&& undo_reference) {
  using netlink::Capability;
  const auto states = StateDir<State>::find();
  auto state = states ? states->read_or_remove(state_owner(request)) : std::nullopt;
  if (state && state->owner.key.network == request.network) {
    cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
    state->owner.netns = request.netns;
    return undo_state(request, *states, *state, undo);
  }
  const auto ns = netlink::NetNs::find(request.netns);
  if (!ns) return;
  Namespaces sides(request, *ns);
  const auto link = interface_of_prev_result(sides.pod, request);
  if (!link || (states && states->is_of_another(request, sides.pod.cookie()))) return;
  const auto lock = lock_route_tables();
  undo_reference(sides, *link, states.has_value());
}

/// GC: the same for this network's attachments that are not listed.
template <class State, class Undo>
void collect_states(const cni::Request& request, cni::Collect& collect, Undo&& undo) {
  using netlink::Capability;
  const auto states = StateDir<State>::find();
  if (!states) return;
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  cni::BestEffort each;
  for (const State& state : states->taken_by(collect)) {
    const auto& [network, id, ifname] = state.owner.key;
    each(cni::cat("restore '", ifname, "' of '", id, "'"),
         [&] { undo_state(request, *states, state, undo); });
  }
  each.finish();
}

}  // namespace plugins
