#include "plugins/state/owner.h"

namespace plugins {

bool StateOwner::is_in(std::uint64_t pod_cookie) const {
  return cookie == 0 || pod_cookie == 0 || cookie == pod_cookie;
}

cni::Life life_of(const StateOwner& owner) try {
  const auto ns = netlink::NetNs::find(owner.netns);
  if (ns && owner.is_in(netlink::RouteSocket(*ns).cookie())) return cni::Life::kAlive;
  const bool is_hidden = !ns && netlink::NetNs::may_hide(owner.netns);
  return is_hidden ? cni::Life::kUnseen : cni::Life::kDead;
} catch (const netlink::Error&) {
  return cni::Life::kUnseen;  // closed to this process
}

bool lives(const StateOwner& owner) { return life_of(owner) != cni::Life::kDead; }

StateOwner state_owner(const cni::Request& request) {
  return {.key = request.key(), .netns = request.netns};
}

StateOwner state_owner(const cni::Request& request, const netlink::RouteSocket& pod) {
  StateOwner out = state_owner(request);
  out.cookie = pod.cookie();
  return out;
}

}  // namespace plugins
