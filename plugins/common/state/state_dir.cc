#include "plugins/common/state/state_dir.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace plugins {

bool StateOwner::is_in(std::uint64_t pod_cookie) const {
  return cookie == 0 || pod_cookie == 0 || cookie == pod_cookie;
}

bool lives(const StateOwner& owner) try {
  const auto ns = netlink::NetNs::find(owner.netns);
  return ns && owner.is_in(netlink::RouteSocket(*ns).cookie());
} catch (const netlink::Error&) {
  return true;  // closed to this process
}

StateOwner state_owner(const cni::Request& request, const netlink::RouteSocket& pod) {
  return {.network = request.network,
          .container_id = request.container_id,
          .ifname = request.ifname,
          .netns = request.netns,
          .cookie = pod.cookie()};
}

nlohmann::json json_of(const StateOwner& owner) {
  return {{"network", owner.network},
          {"containerID", owner.container_id},
          {"ifname", owner.ifname},
          {"netns", owner.netns},
          {"netnsCookie", owner.cookie}};
}

StateOwner owner_from(const cni::Reader& root) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return {.network = root["network"].as_string(),
          .container_id = root["containerID"].as_string(),
          .ifname = root["ifname"].as_string(),
          .netns = root["netns"].as_string(),
          .cookie = static_cast<std::uint64_t>(root["netnsCookie"].as_int(0, kMost))};
}

}  // namespace plugins
