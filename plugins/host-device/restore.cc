#include "plugins/host-device/restore.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "libcni/plugin/privileges.h"
#include "plugins/common/link/link_keys.h"
#include "plugins/host-device/device.h"
#include "plugins/host-device/move_home.h"
#include "plugins/host-device/settings.h"

namespace host_device {

namespace {

using cni::cat;
using netlink::Capability;
using netlink::Link;
using netlink::NetNs;
using netlink::RouteSocket;

// The kernel returns devices some time after the last handle of a namespace (cleanup_net()).
constexpr std::chrono::seconds kReturnLimit{5};

int other_index(const Link& link) {
  return link.peer_index != 0 ? link.peer_index : link.parent_index;
}

std::optional<int> other_nsid(const Link& link) {
  return link.peer_index != 0 ? link.peer_nsid : link.parent_nsid;
}

bool has_other_end(const Link& link, const Device& device, std::optional<int> host_nsid) {
  if (other_index(link) != device.other_index) return false;
  return !device.other_on_host || other_nsid(link) == host_nsid;
}

bool is_device(const Link& link, const State& state, std::optional<int> host_nsid) {
  const Device& device = state.device;
  if (link.kind != device.kind || link.loopback) return false;
  if (link.permanent_mac != device.permanent_mac || link.device != device.hardware) return false;
  if (!device.kind.empty() && !has_other_end(link, device, host_nsid)) return false;
  if (device.is_hardware() && (device.permanent_mac || !device.hardware.empty())) return true;
  if (host_nsid) return link.index == state.index_in_pod();
  const bool is_named = link.name == device.name || link.name == state.owner.key.ifname;
  return is_named && (link.index == device.index || link.index == state.pod_index);
}

// Searches by index, because a dump is as long and as unsteady as the pod wants; only hardware can
// be recognised under another one.
std::optional<Link> find_in(RouteSocket& where, const State& state, const NetNs* host) {
  std::vector<Link> links;
  for (const int index : {state.device.index, state.pod_index}) {
    if (auto link = index != 0 ? where.find(index) : std::nullopt) {
      links.push_back(*std::move(link));
    }
  }
  const auto nsid = [&]() -> std::optional<int> {  // once the links were shown, see there
    if (host == nullptr) return std::nullopt;
    return where.nsid(*host).value_or(-1);
  };
  const auto link = recognise(links, state, nsid());
  if (link || !state.device.is_hardware()) return link;
  links = where.links();
  return recognise(links, state, nsid());
}

std::optional<Link> find_at_home(RouteSocket& host, const State& state) {
  return find_in(host, state, nullptr);
}

std::optional<Link> fetch(RouteSocket& host, const State& state, const std::string& path) {
  const auto ns = NetNs::find(path);
  if (!ns) return std::nullopt;
  PodNamespace pod(*ns);
  const bool is_same = state.owner.is_in(pod.socket.cookie());
  if (!is_same && !state.device.is_hardware()) return std::nullopt;
  const auto link = find_in_pod(pod.socket, state);
  if (!link) return std::nullopt;
  return move_home(host, pod, *link, state.device);
}

// A config that ADD would reject selects nothing.
bool is_selected(const cni::Request& request, RouteSocket& pod, const Link& link) try {
  return selects_hardware(Conf::parse(request), link, netlink::settings_of(pod, link).altnames);
} catch (const cni::Error&) {
  return false;
}

std::optional<State> read_locked(const StateDir& states, const plugins::StateOwner& owner) {
  const auto lock = states.lock();
  return states.read_or_remove(owner);
}

// Gives back the device of the attachment's own state file; empty if it has none.
std::optional<ReturnResult> try_give_back(const cni::Request& request, const StateDir& states) {
  const auto lock = states.lock();
  const auto owner = plugins::state_owner(request);
  const auto state = states.read(owner);
  if (!state) return std::nullopt;
  RouteSocket host;
  const ReturnResult outcome = give_back(host, *state, request.netns);
  if (outcome != ReturnResult::kUnreachable) states.remove(owner);
  return outcome;
}

// No error: the name is the pod's word, which must not make DEL fail.
void note_that_it_stays(const Link& link, const std::string& owner) {
  cni::note(cat("'", link.name, "' stays in the pod: ", owner, " has a device with the name '",
                link.alias, "' in its alias. The kernel returns it when the namespace ends"));
}

void wait_for_return(const State& state) {
  RouteSocket host;
  host.wait_until([&] { return find_at_home(host, state).has_value(); }, kReturnLimit);
}

}  // namespace

std::optional<Link> recognise(const std::vector<Link>& links, const State& state,
                              std::optional<int> host_nsid) {
  std::optional<Link> found;
  unsigned count = 0;
  for (const Link& link : links) {
    if (!is_device(link, state, host_nsid)) continue;
    if (link.index == (host_nsid ? state.index_in_pod() : state.device.index)) return link;
    found = link;
    ++count;
  }
  if (count != 1) return std::nullopt;
  return found;
}

std::optional<Link> find_in_pod(RouteSocket& pod, const State& state) {
  const NetNs host = NetNs::current();
  return find_in(pod, state, &host);
}

ReturnResult give_back(RouteSocket& host, const State& state, const std::string& netns) {
  const cni::Phase phase("return");
  auto link = find_at_home(host, state);
  if (!link) link = fetch(host, state, netns);
  if (!link && state.owner.netns != netns) link = fetch(host, state, state.owner.netns);
  if (!link)
    return state.device.is_hardware() ? ReturnResult::kUnreachable : ReturnResult::kVanished;
  restore(host, *std::move(link), state.device);
  return ReturnResult::kRestored;
}

bool give_back(const cni::Request& request) {
  const auto states = StateDir::find();
  if (!states) return false;
  const auto state = read_locked(*states, plugins::state_owner(request));
  if (!state) return false;
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  auto outcome = try_give_back(request, *states);
  if (outcome != ReturnResult::kUnreachable) return outcome.has_value();
  wait_for_return(*state);
  outcome = try_give_back(request, *states);
  if (outcome == ReturnResult::kUnreachable) {
    cni::note(cat("device '", state->device.name,
                  "' is in a network namespace without a path; "
                  "GC or the next ADD restores it when the kernel has returned it"));
  }
  return true;
}

void give_back_hardware(const cni::Request& request) {
  const auto ns = NetNs::find(request.netns);
  if (!ns) return;
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  PodNamespace pod(*ns);
  const auto link = pod.socket.find(request.ifname);
  if (!link || !plugins::is_link_name(link->alias) || !is_selected(request, pod.socket, *link)) {
    return;
  }
  const auto states = StateDir::create();
  const auto lock = states.lock();
  for (const State& state : states.all()) {
    if (recognise({*link}, state, pod.socket.nsid(NetNs::current()).value_or(-1))) return;
    if (state.device.name == link->alias)
      return note_that_it_stays(*link, state.owner.key.as_owner());
  }
  RouteSocket host;
  if (host.find(link->alias)) return note_that_it_stays(*link, "the node");
  move_home(host, pod, *link, {.name = link->alias});
}

std::vector<State> stale(RouteSocket& host, const StateDir& states) {
  auto out = states.all();
  if (out.empty()) return out;
  const auto links = host.links();
  std::erase_if(out, [&](const State& one) { return !recognise(links, one, std::nullopt); });
  return out;
}

void reclaim(RouteSocket& host, const StateDir& states, const State& state) {
  if (const auto link = find_at_home(host, state)) restore(host, *link, state.device);
  states.remove(state.owner);
}

void reclaim(RouteSocket& host, const StateDir& states) {
  for (const State& state : stale(host, states)) {
    try {
      reclaim(host, states, state);
    } catch (const std::exception& e) {  // another's device, which must not stop this call
      cni::note(cat("restore '", state.device.name, "': ", e.what()));
    }
  }
}

}  // namespace host_device
