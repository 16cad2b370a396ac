#include "plugins/bandwidth/host_end.h"

#include <algorithm>

#include "libcni/error.h"

namespace bandwidth {

namespace {

using cni::cat;
using netlink::Link;

cni::Error refusal(const std::string& what, const std::string& details = {}) {
  return {cni::Code::kInternal, what, details};
}

bool names(const cni::Result& result, const std::string& link) {
  return std::any_of(
      result.interfaces.begin(), result.interfaces.end(),
      [&link](const cni::Interface& one) { return one.name == link && one.sandbox.empty(); });
}

}  // namespace

Link host_end(netlink::RouteSocket& host, const Link& inside, const cni::Result& result) {
  if (result.interfaces.empty()) throw refusal("no interfaces provided");
  if (inside.kind != "veth") {
    throw refusal(cat("container interface ", inside.name, " has no veth peer"),
                  "what such an interface sends can be limited with egressMode \"pod\" or \"edt\", "
                  "what it receives cannot");
  }
  const auto outside = host.find(inside.peer_index);
  // The index may be of another namespace, and of an unrelated link here.
  if (!outside || outside->kind != "veth" || outside->peer_index != inside.index) {
    throw refusal(cat("veth peer with index ", inside.peer_index, " is not in host ns"));
  }
  if (!names(result, outside->name)) {
    throw refusal("no veth peer of container interface found in host ns",
                  cat("prevResult does not name '", outside->name, "'"));
  }
  return *outside;
}

std::optional<Link> find_host_end(netlink::RouteSocket& host, const Link& inside,
                                  const cni::Result* result) {
  if (inside.kind != "veth") return std::nullopt;
  auto outside = host.find(inside.peer_index);
  if (!outside || outside->kind != "veth" || outside->peer_index != inside.index ||
      (result != nullptr && !names(*result, outside->name))) {
    return std::nullopt;
  }
  return outside;
}

}  // namespace bandwidth
